"""Operators in queries with steps after them: nothing is lost, doubled or miscounted."""

import functools
from concurrent.futures import ThreadPoolExecutor

import pytest
from flows import OLD, bag, drop, run, source, sunk, unwanted

import penstock

pytestmark = pytest.mark.spark

GIVEN = "entity string, n int, ts timestamp"
RECORDS = 40
SHED = ("e1", "e3")


def records():
    return [{"entity": f"e{n % 5}", "n": n, "ts": OLD} for n in range(RECORDS)]


def numbers(rows):
    return sorted(row["n"] for row in rows)


ADMITTED = [n for n in range(RECORDS) if f"e{n % 5}" not in SHED]
DROPPED = [n for n in range(RECORDS) if f"e{n % 5}" in SHED]


@pytest.fixture
def frame(spark, tmp_path):
    drop(tmp_path / "in", records())
    return spark.read.schema(GIVEN).json(str(tmp_path / "in")).repartition(4)


def in_front(spark, tmp_path):
    return penstock.shed(
        unwanted(spark, *SHED), arrival="ts", key="entity", spill=str(tmp_path / "spill")
    )


def balanced(spark, tmp_path, shed=False, **more):
    if shed:
        more |= {
            "shed": unwanted(spark, *SHED),
            "arrival": "ts",
            "spill": str(tmp_path / "spill"),
        }
    return penstock.balance(
        lambda record: record, key="entity", schema=GIVEN, instances=4, name="same", **more
    )


def spilled(spark, tmp_path):
    return spark.read.parquet(str(tmp_path / "spill")).collect()


AFTER = {
    "coalesce 1": lambda x, other: x.coalesce(1),
    "coalesce 2": lambda x, other: x.coalesce(2),
    "split and united": lambda x, other: x.filter("n % 2 = 0").union(x.filter("n % 2 = 1")),
    "second side of a union": lambda x, other: other.union(x),
    "first side of a union": lambda x, other: x.union(other),
    "sort": lambda x, other: x.sort("n"),
    "repartition": lambda x, other: x.repartition(3),
    "cache": lambda x, other: x.cache(),
    "self-join": lambda x, other: x.join(x.select("n"), "n"),
}


@pytest.mark.parametrize("step", AFTER)
def test_a_shedder_in_front_keeps_every_shed_record_once(spark, frame, tmp_path, step):
    op = in_front(spark, tmp_path)
    nothing = frame.filter("n < 0")
    found = AFTER[step](frame.transform(op), nothing).select(*frame.columns).collect()
    assert numbers(found) == ADMITTED
    assert numbers(spilled(spark, tmp_path)) == DROPPED
    stats = op.stats()
    assert (stats.received, stats.shed, stats.processed) == (RECORDS, len(DROPPED), len(ADMITTED))


@pytest.mark.parametrize("grouping", ["factoring", "posg"])
@pytest.mark.parametrize("shed", [False, True], ids=["all", "shed"])
@pytest.mark.parametrize("step", AFTER)
def test_a_balanced_operator_processes_each_record_once(
    spark, frame, tmp_path, step, shed, grouping
):
    op = balanced(spark, tmp_path, shed, grouping=grouping)
    nothing = frame.filter("n < 0")
    found = AFTER[step](frame.transform(op), nothing).select(*frame.columns).collect()
    admitted = ADMITTED if shed else [*range(RECORDS)]
    assert numbers(found) == admitted
    if shed:
        assert numbers(spilled(spark, tmp_path)) == DROPPED
    stats = op.stats()
    assert (stats.received, stats.processed) == (RECORDS, len(admitted))
    assert sum(one.records for one in stats.instances) == len(admitted)
    # An instance of "factoring" is a slot, and one of them may do all the work.
    assert sum(one.records > 0 for one in stats.instances) > (grouping == "posg")
    assert stats.state == "RUN"


def test_nothing_shed_is_spilled_behind_a_union(spark, frame, tmp_path):
    op = penstock.balance(
        lambda record: record,
        key="entity",
        schema=GIVEN,
        instances=4,
        shed=unwanted(spark, "nobody"),
        arrival="ts",
        spill=str(tmp_path / "spill"),
    )
    assert numbers(frame.filter("n < 0").union(frame.transform(op)).collect()) == [*range(RECORDS)]
    assert not list((tmp_path / "spill").glob("**/*.parquet"))


def test_an_operator_twice_in_a_row_counts_both(spark, frame, tmp_path):
    op = balanced(spark, tmp_path)
    assert numbers(frame.transform(op).transform(op).collect()) == [*range(RECORDS)]
    assert (op.stats().received, op.stats().processed) == (2 * RECORDS, 2 * RECORDS)


def test_an_operator_on_two_frames_of_a_union_spills_for_both(spark, frame, tmp_path):
    op = balanced(spark, tmp_path, shed=True)
    halves = [frame.filter(f"n % 2 = {rest}").transform(op) for rest in (0, 1)]
    assert numbers(functools.reduce(type(frame).union, halves).collect()) == ADMITTED
    assert numbers(spilled(spark, tmp_path)) == DROPPED
    assert (op.stats().received, op.stats().processed) == (RECORDS, len(ADMITTED))


def test_an_operator_on_an_rdd_is_one_batch(spark, frame, tmp_path):
    op = balanced(spark, tmp_path)
    assert numbers(frame.transform(op).rdd.collect()) == [*range(RECORDS)]
    assert (op.stats().batches, op.stats().processed) == (1, RECORDS)


def stream(spark, tmp_path):
    if not (tmp_path / "in").exists():
        drop(tmp_path / "in", records()[:25], records()[25:])
    return source(spark, tmp_path / "in", GIVEN)


@pytest.mark.parametrize("step", ["coalesce 1", "split and united", "second side of a union"])
@pytest.mark.parametrize("front", [False, True], ids=["balance", "shed"])
def test_streams_are_exact_as_well(spark, tmp_path, step, front):
    op = in_front(spark, tmp_path) if front else balanced(spark, tmp_path, shed=True)
    live = stream(spark, tmp_path)
    run(AFTER[step](live.transform(op), live.filter("n < 0")), tmp_path)
    assert numbers(sunk(spark, tmp_path)) == ADMITTED
    assert numbers(spilled(spark, tmp_path)) == DROPPED
    stats = op.stats()
    assert (stats.batches, stats.received, stats.shed) == (2, RECORDS, len(DROPPED))


def in_threads(spark, to):
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(to, ["one", "two"]))


def in_a_thread_and_in_the_query(spark, to):
    to("one")
    with ThreadPoolExecutor(1) as threads:
        threads.submit(to, "two").result()


def in_groups(spark, to):
    """A group replaces the run of the query, which Spark has set."""
    group = spark.sparkContext.getLocalProperty("spark.jobGroup.id")
    for sink in ("one", "two"):
        spark.sparkContext.setJobGroup(f"sink {sink}", "a sink")
        to(sink)
    spark.sparkContext.setJobGroup(group, "the query")


@pytest.mark.parametrize(
    ("write_both", "inside"),
    [
        (in_threads, False),
        (in_threads, True),
        (in_a_thread_and_in_the_query, False),
        (in_groups, False),
        (in_groups, True),
    ],
)
@pytest.mark.parametrize("front", [False, True], ids=["balance", "shed"])
def test_jobs_of_foreach_batch_are_part_of_the_query(spark, tmp_path, front, write_both, inside):
    op = in_front(spark, tmp_path) if front else balanced(spark, tmp_path, shed=True)

    def write(batch, number):
        decided = batch.transform(op) if inside else batch

        def to(sink):
            decided.write.mode("append").parquet(str(tmp_path / sink / f"{number}"))

        write_both(spark, to)

    live = stream(spark, tmp_path)
    query = (
        (live if inside else live.transform(op))
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for sink in ("one", "two"):
        found = spark.read.parquet(*map(str, (tmp_path / sink).iterdir())).collect()
        assert numbers(found) == ADMITTED
    assert bag(spilled(spark, tmp_path)).most_common(1)[0][1] == 1
    assert numbers(spilled(spark, tmp_path)) == DROPPED
    names = {path.parent.name for path in (tmp_path / "spill").glob("**/*.parquet")}
    assert names == {"penstock_batch=0", "penstock_batch=1"}
    (stats,) = op.all_stats()
    assert stats.query == query.id
    assert (stats.batches, stats.received, stats.shed) == (2, RECORDS, len(DROPPED))
