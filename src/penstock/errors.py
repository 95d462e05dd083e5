"""The one exception that is meant for people."""


class PenstockError(ValueError):
    """Bad input: the message names the parameter, the value and the way out."""
