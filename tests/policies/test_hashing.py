"""Hashing: universal over seeds, balanced on awkward keys, the same on every machine."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError
from penstock.policies.hashing import MAX_WIDTH, HashFamily

LOW, HIGH = -(2**63), 2**63 - 1
INT64 = st.integers(LOW, HIGH)
WORD = 2**64 - 1


def plain_hash(key, coefficients, width):
    """The formula in Python's own integers."""
    a_0, a_1, b = (int(c) for c in coefficients)
    bits = key & WORD
    mixed = ((a_0 + (bits >> 32)) * (a_1 + (bits & 0xFFFFFFFF)) + b) & WORD
    return ((mixed >> 32) * width) >> 32


@settings(deadline=None, max_examples=150)
@given(
    st.lists(INT64, max_size=20),
    st.integers(1, 4),
    st.integers(1, MAX_WIDTH),
    st.integers(0, 2**64),
)
def test_is_the_formula(keys, rows, width, seed):
    family = HashFamily(rows, width, seed)
    expected = [[plain_hash(key, row, width) for key in keys] for row in family.coefficients]
    found = family.hash(np.array(keys, dtype=np.int64))
    assert found.dtype == np.int32
    assert found.tolist() == expected


def test_golden_values():
    keys = [0, 1, -1, 42, HIGH, LOW]
    family = HashFamily(rows=2, width=55, seed=7)
    assert family.coefficients.tolist() == [
        [11530976094092348043, 16550673365885938325, 14308875409591826786],
        [4154339397315733314, 5537090637313560901, 16114216841932056372],
    ]
    assert family.hash(keys).tolist() == [[53, 33, 4, 12, 13, 17], [24, 36, 44, 49, 42, 53]]
    assert HashFamily(rows=2, width=MAX_WIDTH, seed=2026).hash(keys).tolist() == [
        [1182066041, 1566325628, 1309672951, 141099488, 1281307335, 136689834],
        [1874275788, 522435964, 1869682942, 931578009, 1178782584, 1491434323],
    ]


def test_the_seed_decides():
    keys = np.arange(1000)
    first = HashFamily(1, 55, seed=1).hash(keys)
    np.testing.assert_array_equal(first, HashFamily(1, 55, seed=1).hash(keys))
    assert (first != HashFamily(1, 55, seed=2).hash(keys)).any()


def test_the_first_function_depends_on_neither_rows_nor_width():
    np.testing.assert_array_equal(
        HashFamily(1, 1, seed=3).coefficients[0], HashFamily(4, 55, seed=3).coefficients[0]
    )


def pairs():
    rng = np.random.default_rng(0)
    some = rng.integers(LOW, HIGH, size=40, dtype=np.int64)
    return np.concatenate(
        [
            rng.integers(LOW, HIGH, size=(40, 2), dtype=np.int64),
            np.stack([some, some ^ 1], axis=1),
            np.stack([some, some ^ (1 << 32)], axis=1),
            np.stack([some, some ^ LOW], axis=1),
            [[0, 1], [0, 55], [0, 2**32], [1, -1], [LOW, HIGH], [LOW, 0], [0, HIGH], [-1, HIGH]],
        ]
    )


@pytest.mark.parametrize("width", [2, 3, 55, 64, 480])
def test_two_keys_collide_once_in_width(width):
    functions = 10_000
    couples = pairs()
    hashed = HashFamily(functions, width, seed=width).hash(couples.ravel())
    collisions = (hashed[:, 0::2] == hashed[:, 1::2]).mean(axis=0)
    error = np.sqrt((1 / width) * (1 - 1 / width) / functions)
    # 168 couples: the largest of as many normal deviates is beyond 5 once in 10,000 times.
    assert np.abs(collisions - 1 / width).max() < 5 * error


SEQUENCE = np.arange(4000)
AWKWARD = {
    "sequential": lambda width: SEQUENCE,
    "multiples of the width": lambda width: SEQUENCE * width,
    "equal low bits": lambda width: SEQUENCE << 32,
    "equal high bits": lambda width: (7 << 40) + SEQUENCE,
    "negative": lambda width: -SEQUENCE - 1,
    "both signs": lambda width: SEQUENCE - 2000,
    "largest": lambda width: HIGH - SEQUENCE,
    "smallest": lambda width: LOW + SEQUENCE,
    "powers of two": lambda width: np.unique([a << s for a in range(1, 40, 2) for s in range(57)]),
}


def unevenness(hashed, width):
    """Chi-square over its degrees of freedom, by function: 1 is as even as random."""
    expected = hashed.shape[1] / width
    counts = np.array([np.bincount(row, minlength=width) for row in hashed])
    return ((counts - expected) ** 2 / expected).sum(axis=1) / (width - 1)


@pytest.mark.parametrize("width", [5, 55, 480])
@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_keys_fill_buckets_evenly(kind, width):
    # For pairwise independent functions the mean over functions is 1, whatever the keys; single
    # functions may be far off, so the spread is estimated, too.
    functions = 1000
    found = unevenness(HashFamily(functions, width, seed=1).hash(AWKWARD[kind](width)), width)
    assert found.mean() < 1 + 4 * found.std() / np.sqrt(functions)
    assert np.median(found) < 1.1
    assert (found > 4).mean() < 1 / 4  # Markov's inequality


@pytest.mark.parametrize("width", [2, 3, 5, 10, 64])
def test_the_default_seed_is_a_good_one(width):
    for make in AWKWARD.values():
        assert unevenness(HashFamily(1, width, seed=0).hash(make(width)), width)[0] < 4


@pytest.mark.parametrize(
    "params, message",
    [
        ({"rows": 0, "width": 5}, "rows must be >= 1; got 0"),
        ({"rows": 1.0, "width": 5}, "rows must be a whole number; got 1.0"),
        ({"rows": 1, "width": 0}, "width must be >= 1; got 0"),
        ({"rows": 1, "width": 2**31}, "width must be <= 2147483647; got 2147483648"),
        ({"rows": 1, "width": 5, "seed": -1}, "seed must be >= 0; got -1"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(PenstockError) as caught:
        HashFamily(**params)
    assert str(caught.value) == message


def test_bad_keys():
    family = HashFamily(1, 5)
    with pytest.raises(PenstockError, match="keys must be whole numbers; got dtype float64"):
        family.hash([0.5])
    with pytest.raises(PenstockError, match="keys must be one-dimensional"):
        family.hash([[1, 2]])


def test_width_one_and_no_keys():
    assert HashFamily(3, 1).hash([LOW, 0, HIGH]).tolist() == [[0, 0, 0]] * 3
    assert HashFamily(3, 55).hash([]).shape == (3, 0)
