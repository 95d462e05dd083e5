"""Pictures from synthetic numbers: their axes, their legends, and their sizes."""

import re
import struct

import numpy as np
import pytest
from matplotlib import pyplot as plt

from penstock.experiments.cg_groupings import both, schemes
from penstock.experiments.series import SERIES
from penstock.plots import draw, draw_batches, draw_busy_tasks, style
from penstock.plots.figures import label

WHOLE = re.compile(r"-?\d+")


@pytest.fixture
def drawn(monkeypatch):
    """Keep figures open, to look at their parts."""
    figures = []

    def png(figure, dpi=100):
        figures.append(figure)
        figure.canvas.draw()
        return b""

    monkeypatch.setattr(style, "png", png)
    yield figures
    for figure in figures:
        plt.close(figure)


def pixels(image):
    assert image.startswith(b"\x89PNG")
    return struct.unpack(">II", image[16:24])


def document(series, xs, value, metric="instances"):
    rows = [
        {"series": one, "x": x, "metric": metric, "mean": value(x), "se": 0.1}
        for one in series
        for x in xs
    ]
    return {"params": {"streams": 2}, "rows": rows}


def trials(batches=6, tasks=8):
    rng = np.random.default_rng(0)
    busy = [rng.uniform(500, 2_000, (batches, tasks)) for _ in range(2)]
    return busy, [one.max(axis=1) + 100 for one in busy]


def ticks(axis):
    return [text.get_text() for text in axis.get_ticklabels() if text.get_text()]


def assert_legend_covers_no_panel(figure):
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert all(not box.overlaps(panel.get_window_extent()) for panel in figure.axes)
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1
    assert not any(panel.get_legend() for panel in figure.axes)


def test_every_series_of_the_experiments_has_a_colour():
    assert set(style.COLOURS) == SERIES


def test_groupings_of_one_figure_have_colours_of_their_own():
    series = {*schemes(8), *both(8)}
    assert len({style.COLOURS[one] for one in series}) == len(series)


def test_axes_that_count_have_whole_numbers(drawn):
    draw(document(["a", "b"], [1, 2, 3], lambda x: x), "title", "instances", metrics=["instances"])
    (panel,) = drawn[0].axes
    assert all(WHOLE.fullmatch(tick) for tick in ticks(panel.xaxis))
    assert all(WHOLE.fullmatch(tick) for tick in ticks(panel.yaxis))


def test_large_numbers_have_commas(drawn):
    given = document(["a"], [20_000, 40_000], lambda x: x / 10_000, "latency_s")
    draw(given, "title", "records", metrics=["latency_s"])
    assert "20,000" in ticks(drawn[0].axes[0].xaxis)


@pytest.mark.parametrize("metrics", [1, 2, 4, 5])
def test_a_legend_of_many_series_is_below_all_panels(metrics, drawn):
    names = [f"metric_{'abcde'[i]}" for i in range(metrics)]
    series = [*sorted(SERIES)[:8], "a_policy_of_a_user_with_a_long_name"]
    rows = [r for name in names for r in document(series, [1, 2], float, name)["rows"]]
    draw({"params": {"streams": 2}, "rows": rows}, "title " * 40, "x", metrics=names)
    assert_legend_covers_no_panel(drawn[0])
    assert sum(panel.get_visible() for panel in drawn[0].axes) == metrics


def test_labels_name_the_number_at_the_end_of_a_metric():
    assert label("imbalance_1000", "{} bins") == "imbalance (max - mean) / mean, 1,000 bins"
    assert label("collocation_2", "job {}") == "collocation (% of traffic), job 2"
    assert label("batch_ms") == "batch duration (ms)"


def test_batches_have_whole_numbers_and_a_legend_below(drawn):
    busy, durations = trials()
    draw_batches(
        ["repartition(8)", "Penstock"], durations, busy, ideal_ms=busy[0].mean(axis=1), title="t"
    )
    left, right = drawn[0].axes
    assert all(WHOLE.fullmatch(tick) for tick in ticks(left.xaxis))
    assert ticks(right.xaxis) == [str(task) for task in range(1, 9)]
    assert_legend_covers_no_panel(drawn[0])


def busy_tasks():
    busy, durations = trials()
    return draw_busy_tasks(
        ["Spark's repartition(8)", "penstock.balance"],
        [one[3] for one in busy],
        [one[3] for one in durations],
        ideal_ms=1_250.0,
        caption="The operator sleeps (latency-bound).",
    )


def test_busy_tasks_have_one_bar_each_on_the_same_axis(drawn):
    busy_tasks()
    (figure,) = drawn
    busy, durations = trials()
    for panel, own, taken in zip(figure.axes, busy, durations, strict=True):
        widths = [bar.get_width() for bar in panel.patches]
        np.testing.assert_allclose(widths, own[3] / 1000)
        assert f"{taken[3] / 1000:.2f} s" in panel.get_title()
        (ideal,) = panel.lines
        assert list(ideal.get_xdata()) == [1.25, 1.25]
        assert ideal.get_linestyle() == "--"
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert "latency-bound" in figure.get_supxlabel()


def test_the_picture_of_busy_tasks_fits_a_page():
    assert pixels(busy_tasks()) == (1000, 380)
