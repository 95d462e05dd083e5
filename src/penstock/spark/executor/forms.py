"""The forms of users' functions: what a function takes, and how a task calls it."""

from typing import Literal, get_args

Form = Literal[
    "dict",
    "row",
    "pandas",
    "arrow",
    "table",
    "pandas_iterator",
    "arrow_iterator",
    "table_iterator",
]

# What the parameter of each form is annotated with.
ANNOTATIONS: dict[Form, str] = {
    "dict": "dict (or no annotation)",
    "row": "pyspark.sql.Row",
    "pandas": "pandas.DataFrame",
    "arrow": "pyarrow.RecordBatch",
    "table": "pyarrow.Table",
    "pandas_iterator": "Iterator[pandas.DataFrame]",
    "arrow_iterator": "Iterator[pyarrow.RecordBatch]",
    "table_iterator": "Iterator[pyarrow.Table]",
}
FORMS: tuple[Form, ...] = get_args(Form)
_ITERATOR = "_iterator"


def is_record_form(form: Form) -> bool:
    """Whether a function of this form takes one record at a time."""
    return form in ("dict", "row")


def is_iterator_form(form: Form) -> bool:
    """Whether a function of this form takes all batches of a task."""
    return form.endswith(_ITERATOR)


def kind_of_batch(form: Form) -> str:
    """Return what each batch of a batch form is: "pandas", "arrow" or "table".

    Example:
        >>> kind_of_batch("pandas_iterator"), kind_of_batch("table")
        ('pandas', 'table')
    """
    return form.removesuffix(_ITERATOR)
