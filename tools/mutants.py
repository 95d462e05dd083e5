"""Mutation testing: how many small changes of the source do the tests notice?

Mutants are imported from memory, so no file changes. Kernels run as plain Python: nothing is
compiled, and a mutant takes seconds. First the matching tests run without a mutant. Tests that fail
or are slow without the compiler are left out. Then each mutant meets the others, the quickest
first, until one of them fails. Surviving mutants also meet tests of neighbouring modules. Tests
count only if they pass together with the unchanged module, within the limits of a mutant.

    python tools/mutants.py policies/scaling/preventive.py     # all mutants of one module
    python tools/mutants.py policies control sim --sample 6    # six of each module
"""

import argparse
import ast
import importlib.abc
import importlib.util
import itertools
import json
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numba
import numpy as np  # noqa: F401
import pyarrow as pa  # noqa: F401
import pyspark.sql  # noqa: F401
import pytest
from interpreted import interpreted
from matching import ROOT, SOURCE, dotted, matching
from mutations import Mutation, mutations

# Longest computing time of a test without the compiler, and of all tests of a mutant.
SLOW_S, ENOUGH_S = 2.0, 120.0
# Computing time of a file, after which its tests must be this much quicker.
LONG_S, QUICKER = 30.0, 10
# Time of all tests that a mutant meets at once; the slowest ones are left out.
TOGETHER_S = 20.0
# Inputs of a property test: enough for most mutants, and quick in plain Python.
EXAMPLES = 20
# Longest time on the clock, over computing time.
PATIENCE = 20
KILLED, SURVIVED = 1, 0


class Mutant(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports a changed module in the place of the true one."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(self, name: str, *_: object) -> Any:  # noqa: ANN401 - a spec, or None
        """Return the spec of the changed module."""
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def get_source(self, name: str) -> str:
        """Return the true source, for tracebacks."""
        return self.path.read_text()

    def get_code(self, name: str) -> CodeType:
        """Return the changed code."""
        return compile(self.tree, str(self.path), "exec")

    def get_filename(self, name: str) -> str:
        """Return the path of the true module."""
        return str(self.path)


class TooSlow(BaseException):
    """Ends a slow test. It is no Exception: Hypothesis would try smaller inputs for minutes."""


class Choice:
    """A plugin of pytest that runs known tests, the quickest first, or measures all of them."""

    def __init__(self, known_s: dict[str, float] | None) -> None:
        self.known_s = known_s
        # A mutant may be slower than the true source, but not endless.
        self.limit_s = SLOW_S if known_s is None else 3 * SLOW_S
        self.setup_s = 0.0
        self.passed_s: dict[str, float] = {}

    def pytest_sessionstart(self) -> None:
        """Let property tests try few inputs, always the same ones."""
        # Later than this module: pytest rewrites the assertions of its plugins first.
        from hypothesis import Phase, settings  # noqa: PLC0415

        few = {"max_examples": EXAMPLES, "phases": (Phase.explicit, Phase.generate)}
        settings.register_profile("mutants", deadline=None, derandomize=True, **few)
        settings.load_profile("mutants")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the known tests only."""
        if self.known_s is not None:
            chosen = [item for item in items if item.nodeid in self.known_s]
            items[:] = sorted(chosen, key=lambda item: self.known_s[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Stop fixtures that are too slow."""
        return (yield from self._limited())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Stop a test that is too slow."""
        return (yield from self._limited())

    def _limited(self) -> Iterator[None]:
        quicker = QUICKER if self.known_s is None and time.process_time() > LONG_S else 1
        signal.setitimer(signal.ITIMER_VIRTUAL, self.limit_s / quicker)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember quick tests that pass, and their times with those of their fixtures."""
        if report.when == "setup":
            self.setup_s = report.duration
        if report.when == "call" and report.passed:
            self.passed_s[report.nodeid] = self.setup_s + report.duration


def run_tests(files: list[Path], choice: Choice) -> int:
    """Run tests in this process, without a word; return the code of pytest."""
    quiet = ["-q", "-x" if choice.known_s is not None else "--tb=no", "-p", "no:cacheprovider"]
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)

    def stop(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGVTALRM, stop)
    options = ["-W", "ignore::RuntimeWarning", "--doctest-glob=", "-m", "not spark"]
    return pytest.main([*quiet, *options, *map(str, files)], plugins=[choice])


def forked(work: Callable[[], int], limit_s: float) -> int:
    """Start a process that ends with the code that `work` returns; return its id.

    It may compute for so many seconds. A limit of its computing time does not depend on the load of
    the machine: a mutant that waits for a core is not noticed by that.
    """
    process = os.fork()
    if process:
        return process
    code = KILLED
    try:
        most = math.ceil(limit_s)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))
        code = int(bool(work()))
    except BaseException:  # noqa: S110 - a mutant that cannot even be imported is noticed
        pass
    finally:
        os._exit(code)


def waited(process: int, limit_s: float) -> int:
    """Return the code of a process; one that does not end is ended, and counts as noticed.

    A process that waits for ever does not compute, so it is given the patience for a busy machine.
    """
    end_s = time.monotonic() + PATIENCE * limit_s
    while time.monotonic() < end_s:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return KILLED


def at_once(works: list[Callable[[], int]], limit_s: float, processes: int) -> list[int]:
    """Run pieces of work, some at once, each in a process of its own; return their codes."""
    codes: list[int] = []
    running: deque[int] = deque()
    for work in works:
        if len(running) == processes:
            codes.append(waited(running.popleft(), limit_s))
        running.append(forked(work, limit_s))
    return codes + [waited(process, limit_s) for process in running]


def baselines(files: list[Path], processes: int) -> dict[Path, dict[str, float]]:
    """Return the durations of the tests that pass quickly without the compiler, by file."""

    def measure(file: Path, place: Path) -> int:
        choice = Choice(None)
        run_tests([file], choice)
        place.write_text(json.dumps(choice.passed_s))
        return SURVIVED

    with tempfile.TemporaryDirectory() as folder:
        found = {file: Path(folder) / f"{number}.json" for number, file in enumerate(files)}
        at_once([partial(measure, *one) for one in found.items()], 10 * ENOUGH_S, processes)
        return {
            file: json.loads(place.read_text()) if place.exists() else {}
            for file, place in found.items()
        }


def quick(known_s: dict[str, float]) -> dict[str, float]:
    """Return the quickest tests, as many as a mutant may meet at once."""
    ordered = sorted(known_s.items(), key=lambda one: one[1])
    ends_s = itertools.accumulate(duration for _, duration in ordered)
    return dict(one for one, end_s in zip(ordered, ends_s, strict=True) if end_s <= TOGETHER_S)


def surviving(
    module: Path, drawn: list[Mutation], known_s: dict[str, float], *, processes: int
) -> list[Mutation]:
    """Return the mutants with which all tests pass; all of them if tests fail without a mutant."""
    files = sorted({ROOT / test.split("::")[0] for test in known_s})

    def meet(mutation: Mutation | None) -> int:
        if mutation is not None:
            sys.meta_path.insert(0, Mutant(dotted(module), module, mutation.tree))
        return run_tests(files, Choice(known_s))

    limit_s = min(30 + 5 * sum(known_s.values()), ENOUGH_S)
    if at_once([partial(meet, None)], limit_s, 1) != [SURVIVED]:
        print(f"{module.relative_to(SOURCE)}: its tests fail together, without a mutant")
        return drawn
    codes = at_once([partial(meet, one) for one in drawn], limit_s, processes)
    return [one for one, code in zip(drawn, codes, strict=True) if code == SURVIVED]


def modules_of(places: list[str]) -> list[Path]:
    """Return the modules of folders and files below src/penstock."""
    found: list[Path] = []
    for place in places:
        path = SOURCE / place
        if not path.exists():
            raise SystemExit(f"modules must be below {SOURCE.relative_to(ROOT)}; got {place!r}")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def tried(module: Path, options: argparse.Namespace, known: dict[Path, dict[str, float]]) -> Any:  # noqa: ANN401
    """Try mutants of a module; return their number, and the survivors."""
    drawn = mutations(module.read_text())
    # By the name, so that the mutants of a module do not depend on the other modules.
    generator = random.Random(f"{options.seed} {module.name}")  # noqa: S311 - no secret
    if options.sample is not None and len(drawn) > options.sample:
        drawn = sorted(generator.sample(drawn, options.sample), key=lambda one: one.line)
    left = drawn
    for some in matching(module, options.files):
        if not left:
            break
        known |= baselines([file for file in some if file not in known], options.processes)
        tests = quick({test: s for file in some for test, s in known[file].items()})
        if not tests:
            print(f"{module.relative_to(SOURCE)}: no quick test in {len(some)} files that name it")
        else:
            left = surviving(module, left, tests, processes=options.processes)
    return len(drawn), left


def main() -> int:
    """Try mutants of modules, print the survivors and the score."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="+", help="files or folders below src/penstock")
    parser.add_argument("--sample", type=int, help="mutants of each module; all by default")
    parser.add_argument("--seed", type=int, default=0, help="seed of the samples")
    parser.add_argument("--files", type=int, default=3, help="test files that mutants meet first")
    parser.add_argument("--processes", type=int, default=2, help="mutants at a time")
    parser.add_argument("--least", type=float, default=0.0, help="least score, or code 1")
    options = parser.parse_args()
    os.chdir(ROOT)
    numba.njit = interpreted
    sys.path.insert(0, str(ROOT / "src"))
    known: dict[Path, dict[str, float]] = {}
    total = left = 0
    for module in modules_of(options.modules):
        count, survivors = tried(module, options, known)
        total, left = total + count, left + len(survivors)
        if count:
            print(
                f"{module.relative_to(SOURCE)}: {count - len(survivors)} of {count} noticed",
                flush=True,
            )
        for one in survivors:
            print(f"  line {one.line}: {one.before!r} -> {one.after!r}", flush=True)
    score = (total - left) / total if total else 1.0
    print(f"{total - left} of {total} mutants are noticed: {score:.1%}")
    return 0 if score >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
