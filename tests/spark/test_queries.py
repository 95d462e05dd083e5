"""Names and ends of queries, for as many queries as an application ever has."""

from uuid import UUID

import pytest

from penstock.spark.driver import queries
from penstock.spark.driver.queries import Queries, QueryState

pytestmark = pytest.mark.spark


@pytest.fixture
def running(spark, tmp_path):
    stream = spark.readStream.format("rate").load()
    query = (
        stream.writeStream.format("noop")
        .queryName("long")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    yield query
    query.stop()


def test_queries_that_ended_first_are_forgotten_and_those_that_run_are_not(
    spark, running, monkeypatch
):
    monkeypatch.setattr(queries, "_REMEMBERED", 3)
    known = Queries(spark)
    ended = [str(UUID(int=number)) for number in range(6)]
    assert known.begin(running.id) == "long"
    assert [known.begin(one) for one in ended[:5]] == ended[:5]
    found = [QueryState(one, one, active=False) for one in ended[3:5]]
    assert known.states() == [QueryState(running.id, "long"), *found]
    running.stop()
    known.begin(ended[5])
    assert [one.query for one in known.states()] == [running.id, *ended[4:]]
    for one in ended[:2]:
        known.begin(one)
    assert running.id in [one.query for one in known.states()]  # seen to end after ended[5]
    known.begin(ended[2])
    assert [one.query for one in known.states()] == [ended[0], ended[1], ended[2]]
    assert known.progress() == {}
