"""Store results, and write the tables of claims at the end of the papers' pages.

Example: python docs/papers/update.py penstock-out/posg-provisioning.json
"""

import json
import sys
from pathlib import Path

from penstock.experiments import EXPERIMENTS
from penstock.experiments.results import write_json
from penstock.experiments.tables import stored, with_tables

HERE = Path(__file__).parent
RESULTS = HERE / "results"
# Pages by the first word of an experiment's name.
PAGES = {
    "posg": "posg.md",
    "cg": "cg.md",
    "las": "las.md",
    "autoscale": "autoscale.md",
    "milp": "albic.md",
    "albic": "albic.md",
    "batch": "batches.md",
    "cost": "batches.md",
    "hostile": "cg.md",
}


def pages() -> dict[Path, str]:
    """Return the present text of each page, by its path."""
    found = {}
    for page in dict.fromkeys(PAGES.values()):
        names = [name for name in EXPERIMENTS if PAGES[name.partition("-")[0]] == page]
        files = {name: RESULTS / f"{name}.json" for name in names}
        missing = [name for name, file in files.items() if not file.exists()]
        documents = [json.loads(file.read_text()) for file in files.values() if file.exists()]
        found[HERE / page] = with_tables((HERE / page).read_text(), documents, missing=missing)
    return found


def main(files: list[str]) -> None:
    """Store these results, and write all pages."""
    for file in files:
        document = stored(json.loads(Path(file).read_text()))
        write_json(document, RESULTS / f"{document['name']}.json")
    for path, text in pages().items():
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
