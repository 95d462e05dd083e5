"""Build the documentation site: `make site`.

The pages of the repository are written for people who read them there: README, CONTRIBUTING and
`docs/`. This script copies them into one folder, follows their links to the new places, and adds
pages that are made from the source: the reference and the gallery of figures. MkDocs builds the
site from that folder, and fails if a link leads nowhere.

    python tools/site.py            # builds into `site/`
    python tools/site.py --serve    # and shows it on this machine
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
STAGE = ROOT / "build" / "site"
# Pages outside of `docs/`, and pages whose place on the site is another one.
PLACES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/README.md": "documentation.md",
}
# Pages of the reference: title, introduction, and the objects that they document.
REFERENCE = {
    "verbs": (
        "Verbs",
        "What a job calls. All of them are imported from `penstock`.",
        [
            "penstock.spark.balance.balance",
            "penstock.spark.aggregate.aggregate",
            "penstock.spark.shed.shed",
            "penstock.spark.replay.replay",
            "penstock.spark.attach.attach",
            "penstock.spark.attach.detach",
            "penstock.spark.driver.attachment.with_placement",
            "penstock.spark.metrics.metrics",
            "penstock.spark.dashboard.dashboard",
            "penstock.live_diagnosis.diagnose",
        ],
    ),
    "stats": (
        "Stats",
        "What operators and attachments report.",
        ["penstock.control.OperatorStats", "penstock.control.FinishedBatch"],
    ),
    "aggregators": ("Aggregators", "Ready-made aggregations.", ["penstock.aggregators"]),
    "grouping": ("Groupings", "Which task gets a record.", ["penstock.policies.grouping"]),
    "shedding": ("Shedders", "Which record is dropped.", ["penstock.policies.shedding"]),
    "scaling": ("Scalers", "How many executors there are.", ["penstock.policies.scaling"]),
    "placement": ("Placers", "Where state lives.", ["penstock.policies.placement"]),
    "costs": ("Cost models", "What a record will cost.", ["penstock.policies.costs"]),
    "sim": ("Simulator", "Engines of virtual time.", ["penstock.sim"]),
    "checks": ("Checks", "The conformance suite for policies.", ["penstock.checks"]),
}
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def staged_path(source: PurePosixPath) -> PurePosixPath:
    """Return the place of a file of the repository on the site.

    Example:
        >>> staged_path(PurePosixPath("docs/guide/shed.md")).as_posix()
        'guide/shed.md'
    """
    moved = PLACES.get(source.as_posix())
    return PurePosixPath(moved) if moved else source.relative_to("docs")


def relinked(text: str, source: PurePosixPath) -> str:
    """Return the text of a page with its links as they are on the site.

    Args:
        text: Markdown of the page.
        source: path of the page in the repository.

    Example:
        >>> relinked("[a](docs/guide/shed.md#try)", PurePosixPath("README.md"))
        '[a](guide/shed.md#try)'
        >>> relinked("[a](../../README.md)", PurePosixPath("docs/guide/shed.md"))
        '[a](../index.md)'
    """
    here = staged_path(source).parent

    def new(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = PurePosixPath(os.path.normpath(source.parent / target))
        place = os.path.relpath(staged_path(path), here)
        return f"{match[1]}{PurePosixPath(place)}{match[3] or ''}{match[4]}"

    return _LINK.sub(new, text)


def stage() -> None:
    """Copy all pages and pictures, and add the pages that are made."""
    shutil.rmtree(STAGE, ignore_errors=True)
    own = [path for name in PLACES if (path := ROOT / name).parent == ROOT]
    for file in [*own, *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.png")]:
        source = PurePosixPath(file.relative_to(ROOT).as_posix())
        target = STAGE / staged_path(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            target.write_text(relinked(file.read_text(), source))
        else:
            shutil.copyfile(file, target)
    for name, (title, introduction, objects) in REFERENCE.items():
        _write(f"reference/{name}.md", title, introduction, *(f"::: {one}" for one in objects))
    _write("gallery.md", "Gallery", _GALLERY, *map(_picture, _figures()), _claims())
    (STAGE / "extra.css").write_text(_STYLE)


_GALLERY = (
    "Figures of the papers, drawn by `penstock reproduce NAME --out DIR`, and a count of the "
    "claims that hold. The pages of the papers have every claim with its number, its source and "
    "our measurement."
)
_STYLE = """math { font-size: 1.05em; }
.md-typeset table:not([class]) th { min-width: 3rem; }
"""


def _write(name: str, title: str, *parts: str) -> None:
    file = STAGE / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n\n".join([f"# {title}", *parts]) + "\n")


def _figures() -> list[Path]:
    """Return the pictures that experiments have drawn."""
    names = {file.stem for file in (ROOT / "docs" / "papers" / "results").glob("*.json")}
    prefixes = {name.partition("-")[0] for name in names}
    pictures = sorted((ROOT / "docs" / "pictures").glob("*-*.png"))
    return [file for file in pictures if file.stem.partition("-")[0] in prefixes]


def _picture(file: Path) -> str:
    command = f"`penstock reproduce {file.stem}`"
    return f"## {file.stem}\n\n![{file.stem}](pictures/{file.name})\n\n{command}"


def _claims() -> str:
    """Return a table of all stored results, with the number of claims that hold."""
    rows = ["## Stored results", "", "| result | date | streams | claims that hold |"]
    rows.append("| --- | --- | --- | --- |")
    for file in sorted((ROOT / "docs" / "papers" / "results").glob("*.json")):
        found = json.loads(file.read_text())
        held = sum(claim["holds"] for claim in found["claims"])
        count = f"{held} of {len(found['claims'])}"
        rows.append(
            f"| `{found['name']}` | {found['date']} | {found['params']['streams']} | {count} |"
        )
    return "\n".join(rows)


def main(arguments: list[str]) -> int:
    """Stage the pages, then build the site, or show it on this machine."""
    stage()
    command = ["serve"] if "--serve" in arguments else ["build", "--strict"]
    done = subprocess.run(  # noqa: S603 - mkdocs of this environment
        [sys.executable, "-m", "mkdocs", *command, "--config-file", str(ROOT / "mkdocs.yml")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tools"), "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
