"""Which tests may notice a change of a module?"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "penstock"
TESTS = [ROOT / "tests" / name for name in ("policies", "control", "sim", "checks")]


def dotted(module: Path) -> str:
    """Return the name of a module."""
    parts = ("penstock", *module.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


def public(module: Path) -> set[str]:
    """Return the classes and functions that a module defines for others."""
    body = ast.parse(module.read_text()).body
    names = {one.name for one in body if isinstance(one, ast.ClassDef | ast.FunctionDef)}
    return {name for name in names if not name.startswith("_")}


def imported(module: Path) -> set[str]:
    """Return the names that a module imports from the package."""
    body = ast.parse(module.read_text()).body
    imports = [one for one in body if isinstance(one, ast.ImportFrom)]
    ours = [one for one in imports if (one.module or "").startswith("penstock")]
    return {alias.name for one in ours for alias in one.names}


def naming(names: set[str], module: Path) -> list[Path]:
    """Return the test files that use some names, those that do so most often first.

    A test file also uses the names of the helpers beside it that it imports. Files that import from
    the package of the module come first: many functions have names that are words.
    """
    package, stem = dotted(module).rpartition(".")[0], module.stem
    uses_module = re.compile(rf"\b{stem}\.\w|\b{re.escape(dotted(module))} import")
    words = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b" if names else r"(?!)")
    found = {}
    for file in sorted(one for folder in TESTS for one in folder.rglob("test_*.py")):
        text = file.read_text()
        beside = {
            file.with_name(f"{one}.py") for one in re.findall(r"^from (\w+) import", text, re.M)
        }
        helpers = [one.read_text() for one in sorted(beside) if one.exists()]
        count = sum(len(words.findall(one)) for one in [text, *helpers])
        near = 1_000 * (f"from {package}" in text) * bool(count)
        its_own = file.stem == f"test_{stem}" or (near and uses_module.search(text))
        found[file] = count + near + 10_000 * bool(its_own)
    return sorted((file for file in found if found[file]), key=lambda file: -found[file])


def matching(module: Path, most: int) -> tuple[list[Path], list[Path]]:
    """Return the test files of a module, and those of what imports it and of what it imports."""
    package = dotted(module).rpartition(".")[0]
    using = rf"^from {dotted(module)} import |^from {package} import .*\b{module.stem}\b"
    users = (one for one in SOURCE.rglob("*.py") if re.search(using, one.read_text(), re.M))
    names = [
        public(module),
        {name for one in users for name in public(one)},
        imported(module),
    ]
    own, above, below = (naming(some, module)[: 2 * most] for some in names)
    files = list(dict.fromkeys([*own, *above, *below]))
    first = len(own[:most]) or most
    return files[:first], files[first:]
