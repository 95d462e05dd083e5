"""Looks at batches, and the timeline that they make."""

from hypothesis import strategies as st

from penstock.control.timeline import Look, Running, Timeline, Work

WAITING, BUSY = Running(active=False), Running(active=True)
GAPS = st.lists(st.floats(0.2, 30.0), min_size=2, max_size=40)


def done(records, cost_ms=20.0):
    return Work(records, 2 * records, cost_ms * records)


def look(began_s, rows, behind=0.0, taken_s=0.1, work=None, **more):
    return Look(began_s, taken_s, rows, behind, work, **more)


def line_of(*looks, period_s=10.0, interval_s=5.0):
    line = Timeline(period_s, interval_s)
    for one in looks:
        line.add(one)
    return line


def seen(line, now_s, running=WAITING):
    return line.seen(now_s, running, degree=1)


def rate(line, running=WAITING, now_s=1e6):
    return line.rate_per_s(now_s, running)


def constant(per_s, looks=5, gap_s=5.0, taken_s=0.1):
    """A stream of one rate, read completely by every batch."""
    per_look = per_s * gap_s
    return [
        look(gap_s * i, per_look, taken_s=taken_s, work=done(per_look * i)) for i in range(looks)
    ]
