"""A record to try the user's function with, on the driver before a query starts."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from inspect import iscoroutine
from typing import Any

from pyspark.sql import Row

from penstock.errors import PenstockError
from penstock.spark.executor.arrow import arrow_of_rows
from penstock.spark.executor.forms import is_iterator_form, is_record_form
from penstock.spark.executor.function import UserFunction, returned_by_iterator, returned_records
from penstock.spark.executor.lifecycle import Context, made

# Calls a user's function or method, and waits for its result if it is async.
Caller = Callable[..., Any]


def try_example(function: UserFunction, example: dict[str, Any]) -> None:
    """Call the function with a record, and refuse a result that does not fit the schema."""
    try:
        if function.awaits:
            # In a thread of its own: a notebook has an event loop that runs already.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(_try_awaited, function, example).result()
        else:
            _try(function, example, caller=lambda call, *given: call(*given))
    except Exception as error:
        raise PenstockError(f"example: {error}") from error


def _try_awaited(function: UserFunction, example: dict[str, Any]) -> None:
    with asyncio.Runner() as runner:

        def caller(call: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401 - of any type
            result = call(*given)
            return runner.run(result) if iscoroutine(result) else result

        _try(function, example, caller=caller)


def _try(function: UserFunction, example: dict[str, Any], *, caller: Caller) -> None:
    """Open an object if there is one, call it, and close it."""
    if not function.opens:
        _call(function, example, caller=caller)
        return
    target = made(function.call)
    if hasattr(target, "open"):
        caller(target.open, Context(function.operator, instance=0, batch="", attempt=0))
    try:
        _call(replace(function, call=target), example, caller=caller)
    finally:
        if hasattr(target, "close"):
            caller(target.close)


def _call(function: UserFunction, example: dict[str, Any], *, caller: Caller) -> None:
    if is_record_form(function.form):
        given = example if function.form == "dict" else Row(**example)
        function.converted(returned_records(caller(function.call, given)))
        return
    (batch,) = arrow_of_rows([example], function.given).combine_chunks().to_batches()
    taken = function.batch_of(batch)
    if is_iterator_form(function.form):
        for one in returned_by_iterator(caller(function.call, iter([taken]))):
            function.fitting(one)
    else:
        function.fitting(caller(function.call, taken))
