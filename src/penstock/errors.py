"""The error that Penstock raises for bad input, and errors in one line."""

# The first line of an error of the JVM names only the call.
_CALL_OF_THE_JVM = "An error occurred while calling"


class PenstockError(ValueError):
    """Bad input: the message names the parameter, the value and the way out."""


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error's message that has information.

    Example:
        >>> first_line(ValueError("no such column\nat org.apache.spark..."))
        'no such column'
        >>> first_line(ValueError("An error occurred while calling o1.x.\n: java.io.IOException"))
        'java.io.IOException'
        >>> first_line(TimeoutError())
        'TimeoutError'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALL_OF_THE_JVM):
        return lines[1].lstrip(": ")
    return lines[0] if lines else type(error).__name__
