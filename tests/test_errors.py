"""Errors in one line."""

import pytest

from penstock.errors import PenstockError, first_line

JVM = "An error occurred while calling o42.load."


@pytest.mark.parametrize(
    "message, expected",
    [
        ("no such column", "no such column"),
        ("no such column\nat org.apache.spark.sql", "no such column"),
        ("\n\n   no such column  \nmore", "no such column"),
        (
            f"{JVM}\n: java.io.IOException: disk full\n\tat java.base",
            "java.io.IOException: disk full",
        ),
        (f"{JVM}\n\n: java.io.IOException", "java.io.IOException"),
        (JVM, JVM),
        ("", "ValueError"),
        (" \n ", "ValueError"),
    ],
)
def test_the_first_line_that_has_a_cause(message, expected):
    assert first_line(ValueError(message)) == expected


def test_an_error_without_a_message_is_named_by_its_class():
    assert first_line(TimeoutError()) == "TimeoutError"
    assert first_line(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_bad_input_is_a_value_error():
    assert issubclass(PenstockError, ValueError)
