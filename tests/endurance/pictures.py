"""A picture of everything that was sampled."""

from penstock.plots import style

PANELS = {
    "memory in MB": (
        "driver: Python MB",
        "driver: JVM heap MB",
        "executor: JVM heap MB",
        "Python worker: MB",
    ),
    "threads": ("driver: threads", "executor: threads", "Python worker: threads"),
    "open files": ("driver: open files", "executor: open files", "Python worker: open files"),
    "KB on disk": ("learnt costs: KB", "checkpoint: KB", "spill folder: KB"),
    "files on disk": (
        "learnt costs: files",
        "checkpoint: files",
        "journals: files",
        "spill folder: files",
    ),
    "ms of a batch": ("batch ms",),
}
COLOURS = style.BLUE, style.GREY, style.ORANGE, style.GREEN


def draw(samples: list[dict[str, float]], batches: int) -> bytes:
    """Return a PNG with one panel for each unit."""
    figure, panels = style.panels(3, 2, (10, 8.5))
    at = [one["batches"] for one in samples]
    for panel, (unit, names) in zip(panels, PANELS.items(), strict=True):
        for name, colour in zip(names, COLOURS, strict=False):
            label = name.split(":")[0]
            if "heap" in name:
                label += " JVM"
            panel.plot(at, [one[name] for one in samples], label=label, color=colour, lw=1)
        panel.set_title(unit, size=10)
        panel.set_ylim(bottom=0)
        panel.axvspan(0, batches / 10, color=style.GREY, alpha=0.1, lw=0)
        panel.legend(frameon=False, fontsize=8)
        style.whole_numbers(panel.yaxis)
        style.whole_numbers(panel.xaxis)
    for panel in panels[-2:]:
        panel.set_xlabel("batches")
    style.headline(figure, f"What {batches:,} batches use; slopes count after the grey tenth")
    return style.png(figure)
