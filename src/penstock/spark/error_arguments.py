"""Checks of the arguments for calls: `on_error`, `errors`, `max_errors`, `timeout`, and others."""

from dataclasses import dataclass
from typing import get_args

from penstock.errors import PenstockError
from penstock.policies.validation import between, known, seconds, whole
from penstock.spark.executor.errors import Action
from penstock.spark.executor.forms import Form, is_iterator_form, is_record_form
from penstock.spark.paths import absolute

_SHORTEST_S = 0.001
_MOST_CALLS = 10_000


@dataclass(frozen=True)
class ErrorArguments:
    """Actions for records on which the function fails.

    Attributes:
        action: "fail", "skip" or "keep".
        folder: folder of kept records; None unless they are kept.
        most: largest share (below 1) or number of failed records in a batch; None for any number.
        timeout_s: time after which a call counts as failed; None for any time.
    """

    action: Action
    folder: str | None
    most: float | None
    timeout_s: float | None


def error_arguments(
    on_error: Action,
    *,
    errors: str | None,
    max_errors: float | None,
    timeout: float | str | None,
) -> ErrorArguments:
    """Validate the user's arguments for failed records."""
    known("on_error", on_error, get_args(Action))
    if on_error == "keep" and errors is None:
        raise PenstockError(
            "on_error='keep' needs a folder for the failed records; give errors='path'"
        )
    if errors is not None and (not isinstance(errors, str) or not errors):
        raise PenstockError(f"errors must be the path of a folder; got {errors!r}")
    if errors is not None and on_error != "keep":
        raise PenstockError(f"errors is for on_error='keep'; got on_error={on_error!r}")
    if max_errors is not None and on_error == "fail":
        raise PenstockError("max_errors is for on_error='skip' and 'keep'; got on_error='fail'")
    return ErrorArguments(
        on_error,
        None if errors is None else absolute(errors),
        None if max_errors is None else _most(max_errors),
        None if timeout is None else seconds("timeout", timeout, least=_SHORTEST_S),
    )


def _most(max_errors: float) -> float:
    """Return a share in (0, 1), or a whole number of records."""
    if isinstance(max_errors, float) and not max_errors.is_integer():
        return between("max_errors", max_errors, 0, 1)
    number = int(max_errors) if isinstance(max_errors, float) else max_errors
    return whole("max_errors", number, least=1)


def checked_concurrency(concurrency: int | None, *, sheds: bool) -> int:
    """Return the number of records that a task executes at a time.

    Args:
        concurrency: the user's number; None for one record at a time.
        sheds: whether the operator sheds records.
    """
    if concurrency is None:
        return 1
    found = whole("concurrency", concurrency, least=1, most=_MOST_CALLS)
    if sheds and found > 1:
        raise PenstockError(
            f"concurrency must be 1 with a shedder, which plans one record at a time; got {found}"
        )
    return found


def refuse_unfit(
    arguments: ErrorArguments, form: Form, *, awaits: bool, concurrency: int | None
) -> None:
    """Refuse arguments that do not fit the function.

    Args:
        arguments: the arguments.
        form: form of the function.
        awaits: whether the function is async.
        concurrency: the user's number of records at a time; None if there is none.
    """
    if concurrency is not None and not is_record_form(form):
        raise PenstockError(
            f"concurrency needs a function of single records (form 'dict' or 'row'); got form "
            f"{form!r}, whose function may use threads of its own"
        )
    if is_iterator_form(form) and arguments.action != "fail":
        raise PenstockError(
            f"on_error={arguments.action!r} needs a function of records or of single batches; an "
            "iterator function cannot go on after an error. Handle errors inside of it"
        )
    if arguments.timeout_s is not None and not awaits and concurrency is None:
        raise PenstockError(
            "timeout needs an async function, or calls in threads; give concurrency=1 or more, or "
            "give the client that the function calls a timeout"
        )
