"""What a task does with failed records, without a query."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import StructType

from penstock.spark.executor.errors import OnError, TaskErrors
from penstock.spark.executor.function import UserFunction

SCHEMA = StructType().add("entity", "string").add("n", "integer")


def errors_of(on_error):
    function = UserFunction("op", print, "dict", ("entity",), SCHEMA, SCHEMA)
    return TaskErrors(None, function, on_error, instance=0)


@given(st.integers(0, 1000), st.integers(1, 1000))
def test_a_share_and_a_number_limit_failures(failed, received):
    assert OnError("skip").allows(failed, received)
    assert OnError("skip", most=0.5).allows(failed, received) == (2 * failed <= received)
    assert OnError("skip", most=20).allows(failed, received) == (failed <= 20)


def test_a_failed_record_names_itself():
    message = r"^penstock: operator 'op' failed on the record with key \{'entity': 'a'\}: KeyError"
    with pytest.raises(RuntimeError, match=message):
        errors_of(OnError()).add(0, Row(entity="a", n=1), KeyError("gone"))


def test_few_failures_are_sampled_and_long_ones_are_cut():
    errors = errors_of(OnError("skip"))
    with errors:
        for number in range(9):
            errors.add(number, Row(entity="a", n=number), ValueError("x" * 5_000))
        assert errors.flush(None) == 9
        assert errors.flush(None) == 0
    assert errors.count == 9
    assert [len(sample) for sample in errors.samples] == [500] * 3
