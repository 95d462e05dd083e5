"""Mutations of Python source: small changes that a good test notices."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
    "ceil": "floor",
    "floor": "ceil",
}
# Parts that are for people or for the type checker, or that nobody can test.
_LEFT_OUT = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Mutation:
    """One change of a module.

    Attributes:
        line: line that changes.
        before: source of the changed part.
        after: source of the changed part after the change.
        tree: module after the change.
    """

    line: int
    before: str
    after: str
    tree: ast.Module


def mutations(source: str) -> list[Mutation]:
    """Return all mutations of a module, in the order of its lines.

    Example:
        >>> [(one.before, one.after) for one in mutations("a = b < 2")]
        [('b < 2', 'b <= 2'), ('2', '3')]
    """
    tree = ast.parse(source)
    nodes = list(_tested(tree))
    found = []
    for number, node in enumerate(nodes):
        for choice in range(len(_changes(node))):
            mutant = copy.deepcopy(tree)
            changed = list(_tested(mutant))[number]
            before = ast.unparse(changed)
            _changes(changed)[choice]()
            ast.fix_missing_locations(mutant)
            line = getattr(node, "lineno", 0)
            found.append(
                Mutation(line=line, before=before, after=ast.unparse(changed), tree=mutant)
            )
    return sorted(found, key=lambda one: one.line)


def _tested(node: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes that may change: no annotations, decorators, messages or docstrings."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, _LEFT_OUT):
                continue
            yield child
            yield from _tested(child)


def _changes(node: ast.AST) -> list:  # noqa: PLR0911 - one return for each kind of node
    """Return functions that change a node in place."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        swapped = _COMPARISONS.get(type(node.ops[0]))
        return [lambda: setattr(node, "ops", [swapped()])] if swapped else []
    if isinstance(node, ast.BinOp | ast.AugAssign):
        operator = _OPERATORS.get(type(node.op))
        return [lambda: setattr(node, "op", operator())] if operator else []
    if isinstance(node, ast.BoolOp):
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        return [lambda: setattr(node, "op", other())]
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        return [lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))]
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return [lambda: setattr(node, "value", _other(node.value))]
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return [lambda: setattr(node, "id", _NAMES[node.id])]
    if isinstance(node, ast.Attribute) and node.attr in _NAMES:
        return [lambda: setattr(node, "attr", _NAMES[node.attr])]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [lambda: setattr(node, "value", ast.Constant(None))]
    return []


def _other(value: float) -> float:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) or not value else 2 * value
