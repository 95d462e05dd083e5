"""Number of records that a source is behind by, from the offsets that it reports."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.driver.query_sensor import offsets_behind

OFFSETS = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.dictionaries(st.sampled_from(["0", "1", "2"]), st.integers(0, 10**12), max_size=3),
    max_size=3,
)


@settings(deadline=None)
@given(OFFSETS, st.integers(0, 10**6))
def test_who_has_read_all_is_not_behind_and_who_has_not_is_by_the_rest(end, more):
    assert offsets_behind({"latestOffset": end, "endOffset": end}) == 0
    latest = {topic: {p: n + more for p, n in ps.items()} for topic, ps in end.items()}
    partitions = sum(len(ps) for ps in end.values())
    assert offsets_behind({"latestOffset": latest, "endOffset": end}) == more * partitions
    # A topic that was created again has fewer.
    assert offsets_behind({"latestOffset": end, "endOffset": latest}) == 0


@pytest.mark.parametrize(
    "latest, end, expected",
    [
        ({"t": {"0": 9, "1": 7}}, {"t": {"0": 4, "1": 7}}, 5),
        ({"t": {"0": 9, "1": 7}}, {"t": {"0": 4}}, 12),
        ({"t": {"0": 9}, "u": {"0": 3}}, {"t": {"0": 4}}, 8),
        ({"t": {"0": "9"}}, {"t": {"0": "4"}}, 5),
        ({"t": {"0": 9}}, {"t": {"0": 4}, "gone": {"0": 100}}, 5),
        ({}, {}, 0),
    ],
)
def test_offsets_by_topic_and_partition(latest, end, expected):
    assert offsets_behind({"latestOffset": latest, "endOffset": end}) == expected


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"latestOffset": None, "endOffset": {"t": {"0": 4}}},
        {"latestOffset": {"t": {"0": 4}}, "endOffset": None},
        {"latestOffset": 17, "endOffset": 12},
        {"latestOffset": "17", "endOffset": "12"},
        {"latestOffset": {"logOffset": 4}, "endOffset": {"logOffset": 3}},
        {"latestOffset": {"index": 4, "id": "x"}, "endOffset": {"index": 3, "id": "x"}},
    ],
)
def test_sources_that_tell_other_things_tell_nothing(source):
    assert offsets_behind(source) == 0


@pytest.mark.parametrize(
    "latest, end",
    [
        ({"s": {"0": {"at": 9}}}, {"s": {"0": {"at": 4}}}),
        ({"s": {"0": "49590338271490256608559692538361571095921575989136588898"}}, {"s": 4}),
        ({"s": {"0": "sequence-9"}}, {"s": {"0": "sequence-4"}}),
        ({"s": {"0": None}}, {"s": {"0": 4}}),
        ({"t": {"0": 9}, "u": {"0": 3}}, {"t": {"0": 4}, "u": None}),
        ({"t": {"0": 9}, "u": "3"}, {"t": {"0": 4}, "u": "2"}),
        ([9], [4]),
    ],
)
def test_offsets_that_are_no_numbers_tell_nothing(latest, end):
    assert offsets_behind({"latestOffset": latest, "endOffset": end}) == 0
