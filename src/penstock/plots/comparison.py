"""The page of a comparison: batches before and after, gains, and causes."""

from collections.abc import Sequence
from html import escape

import numpy as np

from penstock.diagnosis.comparison import Comparison
from penstock.plots import style
from penstock.plots.page import picture, sheet, table


def comparison_page(found: Sequence[Comparison], *, footer: str) -> bytes:
    """Return one self-contained page for comparisons of queries.

    Args:
        found: comparisons.
        footer: last line of the page.
    """
    parts = []
    for one in found:
        parts.append(f"<h2>{escape(one.name)}</h2><p>{escape(sentence(one))}</p>")
        parts += [f"<p>{escape(note)}</p>" for note in one.notes]
        if one.predicted:
            parts.append(table([_cure_row(one, number) for number in range(len(one.predicted))]))
        if one.causes:
            parts.append(table(_cause_rows(one)))
        parts.append(picture(draw_comparison(one), f"Batches of {one.name}"))
    return sheet("Before and after", parts, footer)


def sentence(one: Comparison) -> str:
    """Return the result of a comparison in one sentence."""
    what = "a record" if one.per_record else "a batch"
    gain = f"{one.gain.mid:.2f} times as fast (95%: {one.gain.low:.2f} to {one.gain.high:.2f})"
    noise = "" if one.changed else ", which noise between batches explains"
    return (
        f"{one.measured.capitalize()} took {one.before_s.mean():.2f} s before and "
        f"{one.after_s.mean():.2f} s after; {what} is {gain}{noise}."
    )


def _cure_row(one: Comparison, number: int) -> dict[str, str]:
    cure = one.predicted[number]
    return {
        "predicted": cure.cure,
        "gain": f"{cure.gain:.2f}",
        "between": f"{cure.low:.2f} and {cure.high:.2f}",
        "achieved": f"{one.gain.mid:.2f}",
        "fits": "yes" if one.fits(cure) else "no",
    }


def _cause_rows(one: Comparison) -> list[dict[str, str]]:
    return [
        {
            "cause": str(change.cause),
            "before (s)": f"{change.before_s:.3f}",
            "after (s)": f"{change.after_s:.3f}",
            "saved (s)": f"{change.saved_s.mid:.3f}",
            "between": f"{change.saved_s.low:.3f} and {change.saved_s.high:.3f}",
        }
        for change in one.causes
    ]


def draw_comparison(one: Comparison) -> bytes:
    """Draw the durations of batches before and after, and the causes."""
    figure, (left, right) = style.panels(1, 2, (12.0, 4.6))
    for name, times_s, colour in (
        ("before", one.before_s, style.GREY),
        ("after", one.after_s, style.BLUE),
    ):
        left.plot(times_s, color=colour, lw=1.5, marker="o", ms=3, label=name)
        left.axhline(times_s.mean(), color=colour, lw=1, ls="--")
    left.set(xlabel="examined batch", ylabel="duration of the batch (s)")
    left.set_ylim(0, 1.15 * max(one.before_s.max(), one.after_s.max()))
    style.whole_numbers(left.xaxis)
    right.set_title("Time of a batch above the ideal, by cause", size=11)
    if one.causes:
        at = np.arange(len(one.causes))
        right.barh(at - 0.2, [c.before_s for c in one.causes], 0.38, color=style.GREY)
        right.barh(at + 0.2, [c.after_s for c in one.causes], 0.38, color=style.BLUE)
        right.set_yticks(at, [str(c.cause) for c in one.causes])
        right.invert_yaxis()
        right.grid(visible=False, axis="y")
        right.set_xlabel("seconds of a batch")
    else:
        right.text(0.5, 0.5, "no causes are known", ha="center", transform=right.transAxes)
        right.set_axis_off()
    style.legend_below(figure, [left])
    return style.png(figure, dpi=110)
