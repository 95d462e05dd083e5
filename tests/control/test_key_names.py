"""Names of hot keys on the driver: few, short, and only printable."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.control.key_names import LONGEST, KeyNames, readable
from penstock.control.reports import ExecutionReport, TaskId, pack, unpack

HOSTILE = "<script>alert(1)</script>\u202e\0\n"


@given(st.text(max_size=300))
def test_names_are_short_and_printable(text):
    found = readable(text)
    assert len(found) <= LONGEST
    assert found.isprintable()
    if text.isprintable() and len(text) <= LONGEST:
        assert found == text


def test_the_oldest_names_are_forgotten():
    names = KeyNames()
    for key in range(2_000):
        names.learn(((key, f"key {key}"),))
    assert names.get(999) is None
    assert names.get(1_000) == "key 1000"
    assert names.missing([1_999, 5, 7]) == (5, 7)


def test_a_known_name_is_as_new_as_its_last_report():
    names = KeyNames()
    names.learn(((0, "first"),))
    names.learn(tuple((key, str(key)) for key in range(1, 1_000)))
    names.learn(((0, "first"),))
    names.learn(((1_000, "last"),))
    assert (names.get(0), names.get(1)) == ("first", None)


def test_names_travel_in_reports():
    report = ExecutionReport(
        TaskId("op", "q", "1", 0), 1, 1, 1.0, "1", names=((-(2**63), HOSTILE), (2, "b"))
    )
    assert unpack(pack(report)) == report
    names = KeyNames()
    names.learn(report.names)
    assert names.get(-(2**63)) == "<script>alert(1)</script>\ufffd\ufffd\ufffd"
