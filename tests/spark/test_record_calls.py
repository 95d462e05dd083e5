"""Calls with single records, awaited or not: outcomes in order, and calls that do not end."""

import asyncio

import pytest
from pyspark.sql import Row
from user_functions import fetched, function

from penstock.spark.executor.awaiting import Awaiting
from penstock.spark.executor.calls import one_by_one


def rows(count):
    return [Row(entity=f"e{n}", n=n) for n in range(count)]


def awaited(call, count, goes_on=True, **more):
    awaiting = Awaiting(goes_on=goes_on)
    return list(awaiting.calls(function(call, awaits=True, **more), rows(count), range(count)))


def test_awaited_records_have_outcomes_in_their_order():
    found = awaited(fetched, 3)
    assert [number for number, _ in found] == [0, 1, 2]
    assert isinstance(found[0][1].error, ZeroDivisionError)
    assert [one.returned for _, one in found[1:]] == [
        [{"entity": "e1", "n": 10}],
        [{"entity": "e2", "n": 5}],
    ]
    [(number, failed)] = awaited(fetched, 3, goes_on=False)
    assert (number, type(failed.error)) == (0, ZeroDivisionError)


async def hanging(record):
    await asyncio.sleep(3600)


async def impatient(record):
    raise TimeoutError("of the service")


async def cancelled(record):
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (hanging, "no result within 0.01 s"),
        (impatient, "of the service"),
        (cancelled, "the call was cancelled"),
    ],
    ids=["hanging", "impatient", "cancelled"],
)
def test_a_call_that_does_not_end_is_an_error_of_its_record(call, message):
    found = awaited(call, 2, timeout_s=0.01)
    assert [str(one.error) for _, one in found] == [message] * 2


def test_called_records_have_outcomes_in_their_order():
    found = list(one_by_one(function(lambda row: [row, row], "row"), rows(2), range(2)))
    assert [one.returned for _, one in found] == [[row.asDict()] * 2 for row in rows(2)]
    [(_, failed)] = one_by_one(function(lambda record: 3), rows(1), range(1))
    assert isinstance(failed.error, TypeError)


def test_a_blocking_call_is_noticed():
    import time

    async def blocking(record):
        time.sleep(0.3)
        return record

    awaiting = Awaiting(goes_on=True)
    list(awaiting.calls(function(blocking, awaits=True), rows(1), range(1)))
    assert awaiting.stalled_s > 0.15
