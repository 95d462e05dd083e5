"""What every policy must do."""

import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder

from penstock.errors import PenstockError
from penstock.policies import Policy


def check_clone(policy: Policy) -> None:
    """A clone is equal, and another object."""
    clone = policy.clone()
    assert clone is not policy
    assert clone == policy
    assert clone.snapshot() == policy.clone().snapshot()


def check_repr(policy: Policy) -> None:
    """`repr` names the class and every parameter."""
    text = repr(policy)
    assert text.startswith(type(policy).__name__)
    assert all(f"{name}=" in text for name in policy.parameters())


def check_snapshot_refuses(policy: Policy) -> None:
    """A foreign, a truncated and a damaged snapshot are refused, and change nothing."""
    before = policy.snapshot()
    damaged = bytearray(before)
    damaged[-1] ^= 1
    for wrong in (b"", b"something else", before[:-3], bytes(damaged)):
        try:
            policy.clone().restore(wrong)
        except PenstockError:
            continue
        raise AssertionError(f"a wrong snapshot was taken: {wrong[:20]!r}")
    assert policy.snapshot() == before
    if "seed" in policy.parameters():
        try:
            policy.clone(seed=getattr(policy, "seed", 0) + 1).restore(before)
        except PenstockError:
            return
        raise AssertionError("a snapshot of another seed was taken")


def check_no_pyspark(policy: Policy) -> None:
    """The policy's module does not import Spark."""
    module = type(policy).__module__
    file = getattr(sys.modules[module], "__file__", None)
    if module == "__main__" or file is None:
        return  # typed in, or a script: it cannot be imported again
    by_name = "." in module or PathFinder.find_spec(module) is not None
    load = f"import {module}" if by_name else f"import runpy; runpy.run_path({file!r})"
    code = f"import sys; sys.path[:] = {sys.path!r}; {load}; sys.exit('pyspark' in sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], check=False, capture_output=True
    )
    assert not done.stderr, f"{module} cannot be imported: {done.stderr.decode()[-500:]}"
    assert done.returncode == 0, f"{module} imports pyspark"


CHECKS: list[Callable[..., None]] = [
    check_clone,
    check_repr,
    check_snapshot_refuses,
    check_no_pyspark,
]
