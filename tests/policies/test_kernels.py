"""Kernels whose machine code is cached, and loaded by other processes."""

import os

from penstock.policies.kernels import kernel


def doubled(value):
    return 2 * value


def symbol():
    """The symbol of a function that is compiled now."""
    compiled = kernel(doubled)
    compiled._cache.disable()
    compiled.compile("(int64,)")
    (found,) = compiled.overloads.values()
    return found.fndesc.mangled_name


def test_processes_never_give_one_symbol_to_two_functions():
    """A fork has the state of its parent; the numbers of its functions differ all the same."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, symbol().encode())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 10_000).decode()
    assert "doubled" in theirs
    assert len({theirs, symbol(), symbol()}) == 3
