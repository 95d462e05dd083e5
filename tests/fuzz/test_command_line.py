"""Words and files that the command line gets: an answer, or one line; never a traceback."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.cli.app import run

WORDS = st.lists(
    st.sampled_from(
        ["--json", "--help", "--seed", "-1", "nan", "1e999", "", "--", "--executors", "--instances"]
    )
    | st.text(max_size=12).filter(lambda word: "\0" not in word),
    max_size=4,
)
EVENT = {"Event": "SparkListenerTaskEnd", "Stage ID": 1, "Task Info": {}, "Task Metrics": {}}
LINES = st.lists(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*EVENT]), inner)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
    max_size=6,
).map(b"\n".join)
quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def ends_well(*words):
    """Run a command in this process; bad input ends with one line and the exit code 2."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.argv", ["penstock", *words])
        run()
    assert ended.value.code in (0, 1, 2)


@pytest.mark.parametrize("name", ["policies", "diagnose", "compare", "rehearse", "check"])
@given(words=WORDS)
@quick
def test_any_words(name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # nothing to be found
    ends_well(name, *words)


@pytest.mark.parametrize("name", ["diagnose", "rehearse", "compare"])
@pytest.mark.parametrize("ending", ["", ".zstd", ".lz4", ".snappy", ".inprogress", ".parquet"])
@given(data=st.binary(max_size=200) | LINES)
@quick
def test_any_file(name, ending, data, tmp_path):
    file = tmp_path / f"application_1{ending}"
    file.write_bytes(data)
    ends_well(name, str(file), *([str(file)] if name == "compare" else []))
