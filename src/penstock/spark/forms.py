"""The form of a user's function, found from its annotations before a query starts."""

import functools
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row

from penstock.errors import PenstockError
from penstock.policies.validation import known
from penstock.spark.executor.forms import ANNOTATIONS, FORMS, Form, is_record_form

_BY_TYPE: dict[Any, Form] = {
    Any: "dict",
    dict: "dict",
    Mapping: "dict",
    MutableMapping: "dict",
    Row: "row",
    pd.DataFrame: "pandas",
    pa.RecordBatch: "arrow",
    pa.Table: "table",
}
_ITERATORS: dict[Any, Form] = {
    pd.DataFrame: "pandas_iterator",
    pa.RecordBatch: "arrow_iterator",
    pa.Table: "table_iterator",
}
# Names that text may use where they are not imported, such as below `if TYPE_CHECKING`.
_USUAL_NAMES = {
    "pa": pa,
    "pyarrow": pa,
    "pd": pd,
    "pandas": pd,
    "Row": Row,
    "RecordBatch": pa.RecordBatch,
    "Iterator": Iterator,
    "Iterable": Iterable,
    "Any": Any,
}


def form_of(func: Callable[..., Any], form: Form | None) -> Form:
    """Return the form of a function: the given one, or that of its parameter's annotation.

    Args:
        func: the user's function.
        form: name of a form; None to find it.

    Example:
        >>> def score(frame: "pd.DataFrame"): ...
        >>> form_of(score, None)
        'pandas'
    """
    called, parameter = _called(func), _parameter(func)
    if form is None:
        form = _annotated(parameter, called)
    known("form", form, FORMS)
    _refuse_unfit_async(called, form)
    return form


def is_async(func: Callable[..., Any]) -> bool:
    """Whether a function must be awaited."""
    return inspect.iscoroutinefunction(_called(func))


def is_opened(func: Callable[..., Any]) -> bool:
    """Whether tasks make or open an object: of a class, or one with `open` or `close`."""
    if inspect.isclass(func):
        return True
    return not _is_function(func) and (hasattr(func, "open") or hasattr(func, "close"))


def _is_function(func: Callable[..., Any]) -> bool:
    return inspect.isroutine(func) or isinstance(func, functools.partial)


def _called(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that runs: behind `functools.partial`, or the method `__call__`."""
    while isinstance(func, functools.partial):
        func = func.func
    if _is_function(func):
        return func
    return (func if inspect.isclass(func) else type(func)).__call__


def _parameter(func: Callable[..., Any]) -> inspect.Parameter | None:
    """Return the parameter that takes records; None if a function does not show it."""
    if inspect.isclass(func):
        _refuse_unfit_class(func)
    try:
        signature = inspect.signature(_called(func) if inspect.isclass(func) else func)
    except (TypeError, ValueError):
        return None  # a function in C
    given = (None, None) if inspect.isclass(func) else (None,)  # a method has self
    try:
        signature.bind(*given)
    except TypeError as error:
        raise PenstockError(f"func must take one argument, the record or batch; {error}") from None
    taken = [*signature.parameters.values()][: len(given)][-1]
    return None if taken.kind is inspect.Parameter.VAR_POSITIONAL else taken


def _refuse_unfit_class(kind: type[Any]) -> None:
    """Refuse a class of which tasks cannot make an object that is called."""
    if not any("__call__" in vars(base) for base in kind.__mro__):
        raise PenstockError(f"func: class {kind.__name__} must have a method __call__")
    try:
        inspect.signature(kind).bind()
    except TypeError as error:
        raise PenstockError(
            f"func: class {kind.__name__} must be made without arguments ({error}); give an "
            f"object, such as {kind.__name__}(...), which tasks open"
        ) from None
    except ValueError:
        return  # a class in C


def _annotated(parameter: inspect.Parameter | None, called: Callable[..., Any]) -> Form:
    """Return the form that an annotation names; without one the function takes a dict."""
    if parameter is None or parameter.annotation is inspect.Parameter.empty:
        return "dict"
    found = _by_annotation(_resolved(parameter.annotation, called))
    if found is None:
        raise PenstockError(
            f"func: parameter {parameter.name!r} must be annotated with one of "
            f"{', '.join(ANNOTATIONS.values())}; got {_shown(parameter.annotation)}. Or name the "
            f"form: one of {', '.join(FORMS)}"
        )
    return found


def _resolved(annotation: Any, called: Callable[..., Any]) -> Any:  # noqa: ANN401 - any type
    """Return an annotation with all of its text replaced by types; unknown text stays text."""
    scope = {**_USUAL_NAMES, **getattr(inspect.unwrap(called), "__globals__", {})}
    holder = type("Holder", (), {"__annotations__": {"given": annotation}})
    try:
        return get_type_hints(holder, globalns=scope, localns=scope)["given"]
    except (NameError, AttributeError, SyntaxError, TypeError):
        return annotation


def _by_annotation(annotation: Any) -> Form | None:  # noqa: ANN401 - any type
    """Return the form of a parameter; None if there is none for it."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    origin, of = get_origin(annotation), get_args(annotation)
    if origin in (Iterator, Iterable):
        return _ITERATORS.get(of[0])
    if typing.is_typeddict(annotation):
        return "dict"
    try:
        return _BY_TYPE.get(origin or annotation)
    except TypeError:  # an annotation that cannot be hashed
        return None


def _refuse_unfit_async(called: Callable[..., Any], form: Form) -> None:
    if inspect.isasyncgenfunction(called):
        raise PenstockError(
            "func must not be an async generator; collect its records, and return them as a list"
        )
    if inspect.iscoroutinefunction(called) and not is_record_form(form):
        raise PenstockError(
            f"func: an async function must take single records (form 'dict' or 'row'); "
            f"got form {form!r}"
        )


def _shown(annotation: Any) -> str:  # noqa: ANN401 - any type
    """Return an annotation for a message."""
    if isinstance(annotation, type) and not get_args(annotation):
        return f"{annotation.__module__}.{annotation.__qualname__}".removeprefix("builtins.")
    return repr(annotation)
