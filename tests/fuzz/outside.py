"""What comes from outside, and what may become of it."""

import math

from hypothesis import strategies as st

from penstock.errors import PenstockError

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from(
    [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf, 5e-324, 1.8e308]
)


def accepted_or_refused(function, *arguments):
    """Call a function; a refusal has one line."""
    try:
        return function(*arguments)
    except PenstockError as error:
        assert "\n" not in str(error)
        return None
