"""Checks of every policy."""

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder

from penstock.errors import PenstockError
from penstock.policies import Policy


def name_of(policy: Policy) -> str:
    """Return the name of a policy's class, for messages."""
    return type(policy).__name__


def check_clone(policy: Policy) -> None:
    """A clone is equal to the policy, and another object."""
    label = name_of(policy)
    _refuse_lost_parameters(policy)
    clone = policy.clone()
    assert clone is not policy, f"{label}.clone() must return a new policy; got the policy itself"
    assert clone == policy, (
        f"{label} must keep its constructor arguments as they are; "
        f"the clone of {policy!r} is {clone!r}"
    )
    assert clone.snapshot() == policy.clone().snapshot(), (
        f"{label} must start in the same state every time; two new clones have different snapshots"
    )


def check_repr(policy: Policy) -> None:
    """`repr` names the class and every parameter."""
    _refuse_lost_parameters(policy)
    text, label = repr(policy), name_of(policy)
    assert text.startswith(label), f"repr must start with the class name {label}; got {text}"
    missing = [name for name in policy.parameters() if f"{name}=" not in text]
    assert not missing, f"repr of {label} must name every parameter; {', '.join(missing)} missing"


def _refuse_lost_parameters(policy: Policy) -> None:
    lost = [name for name in policy.parameters() if not hasattr(policy, name)]
    assert not lost, (
        f"{name_of(policy)} must keep every constructor argument in an attribute of the same name; "
        f"{', '.join(lost)} missing"
    )


def check_snapshot_refuses(policy: Policy) -> None:
    """A foreign, a truncated and a damaged snapshot are refused, and change nothing."""
    label, before = name_of(policy), policy.snapshot()
    damaged = bytearray(before)
    damaged[-1] ^= 1
    for wrong in (b"", b"something else", before[:-3], bytes(damaged)):
        try:
            policy.clone().restore(wrong)
        except PenstockError:
            continue
        raise AssertionError(
            f"{label}.restore must refuse a wrong snapshot with a PenstockError; "
            f"it accepted {wrong[:20]!r}"
        )
    assert policy.snapshot() == before, (
        f"{label} must not change when a clone of it refuses a snapshot; its own snapshot differs"
    )
    if "seed" in policy.parameters():
        try:
            policy.clone(seed=getattr(policy, "seed", 0) + 1).restore(before)
        except PenstockError:
            return
        raise AssertionError(
            f"{label}.restore must refuse a snapshot of another seed with a PenstockError; "
            "it accepted one"
        )


def check_no_pyspark(policy: Policy) -> None:
    """The policy's module does not import Spark."""
    module = type(policy).__module__
    file = getattr(sys.modules[module], "__file__", None)
    if module == "__main__" or file is None:
        return  # an interactive session or a script: it cannot be imported again
    error, loaded = "", frozenset[str]()
    package = module.rpartition(".")[0]
    if package:
        error, loaded = _imported(f"import {package}")  # the same for all policies of a family
    if error or module not in loaded:
        by_name = package or PathFinder.find_spec(module) is not None
        load = f"import {module}" if by_name else f"import runpy; runpy.run_path({file!r})"
        error, loaded = _imported(load)
    assert not error, f"{module} must be importable in a new process; the import failed: {error}"
    assert "pyspark" not in loaded, f"{module} must not import pyspark; policies run without Spark"


@cache
def _imported(load: str) -> tuple[str, frozenset[str]]:
    """Import something in a new process; return the error, and the modules that are loaded."""
    code = f"import sys; sys.path[:] = {sys.path!r}; {load}; print(); print(*sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], check=False, capture_output=True
    )
    *_, last = ["", *done.stdout.decode().splitlines()]
    return done.stderr.decode()[-500:], frozenset(last.split())


CHECKS: list[Callable[..., None]] = [
    check_clone,
    check_repr,
    check_snapshot_refuses,
    check_no_pyspark,
]
