"""Event logs with other values than Spark writes: diagnosed, or refused with one line."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.diagnosis import diagnose, find_logs, read_log
from penstock.errors import PenstockError

LOG = Path(__file__).parents[1] / "diagnosis" / "data" / "generated-uneven-costs.zstd"
JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.just([])
    | st.just({})
)


@pytest.fixture(scope="module")
def events():
    """The events of a small log."""
    with pa.CompressedInputStream(pa.memory_map(str(LOG)), "zstd") as stream:
        return [json.loads(line) for line in stream.read().splitlines()]


def places(value, path=()):
    """The paths of all values inside of a value."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if _listed(value) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def _listed(value):
    return isinstance(value, list)


def changed(value, path, junk):
    """A value with another one at a path."""
    if not path:
        return junk
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(copy[path[0]], path[1:], junk)
    return copy


@given(data=st.data())
@settings(
    max_examples=max(8, settings.default.max_examples // 10),  # each one is a whole diagnosis
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_log_with_other_values_is_diagnosed_or_refused(data, events, tmp_path):
    changes = data.draw(st.integers(1, 3))
    some = list(events)
    for _ in range(changes):
        number = data.draw(st.integers(0, len(some) - 1))
        path = data.draw(st.sampled_from(list(places(some[number]))))
        some[number] = changed(some[number], path, data.draw(JUNK))
    file = tmp_path / "application_1"
    file.write_text("\n".join(map(json.dumps, some)))
    try:
        for log in find_logs(file):
            diagnose(read_log(log))
    except PenstockError as error:
        assert "\n" not in str(error)
