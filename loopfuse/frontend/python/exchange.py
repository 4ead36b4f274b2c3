"""Exchanges of arrays, `a, b = b, a`: no copy, only names that change hands.

Outside loops the names are known at every statement, so an exchange is no statement of the program:
before:  a, b, c = b, c, a             after:  `a` is the program's b, `b` its c, `c` its a
         y[0] = a[0]                           y[0] = b[0]

In a loop the program exchanges them too (`swap`), and what a name refers to afterwards depends on
how often the loop ran.
"""

from __future__ import annotations

import ast
from typing import NoReturn

from loopfuse.frontend.python.context import Array, Reader
from loopfuse.lang.surface import syntax


def is_exchange(reader: Reader, names: list[str], given: list[str]) -> bool:
    """The assignment gives arrays each other's names."""
    return (
        all(name in reader.arrays for name in given)
        and sorted(names) == sorted(given)
        and len(set(names)) == len(names)
    )


def exchanged_names(node: ast.AST) -> tuple[list[str], list[str]] | None:
    """The names of both sides of `a, b = c, d`; None for anything else."""
    match node:
        case ast.Assign(
            targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)],
            value=ast.Tuple(elts=values) | ast.List(elts=values),
        ):
            names = [one.id for one in targets if isinstance(one, ast.Name)]
            given = [one.id for one in values if isinstance(one, ast.Name)]
            both = len(names) == len(targets) == len(given) == len(values)
            return (names, given) if both else None
        case _:
            return None


def exchange(
    reader: Reader, stmt: ast.Assign, names: list[str], given: list[str]
) -> list[syntax.Stmt]:
    """The arrays `given` get the names `names`."""
    moved = [(name, other) for name, other in zip(names, given) if name != other]
    for name, other in moved:
        _check_alike(reader, stmt, name, other)
    for name, _ in moved:
        refuse_turned(reader, reader.arrays[name], stmt)
    in_ring = any(reader.arrays[name].name in reader.rotated for name, _ in moved)
    if in_ring and len(reader.visible) not in (1, reader.level):
        refuse_ring(reader, stmt)
    if reader.branches:
        reader.python.refuse(
            "exchange-condition",
            f"whether `{reader.python.text(stmt)}` is done depends on a condition, and so what "
            f"`{moved[0][0] if moved else names[0]}` is afterwards",
            stmt,
            "exchange outside the `if`, or copy elements in a loop there",
        )
    if len(reader.visible) == reader.level:
        before = dict(reader.arrays)
        for name, other in moved:
            reader.arrays[name] = before[other]
        return []
    pairs = {tuple(sorted(pair)) for pair in moved}
    out: list[syntax.Stmt] = []
    for left, right in sorted(pairs):
        one, other = reader.arrays[left], reader.arrays[right]
        one.written = other.written = True
        reader.exchanged.append((one.name, other.name))
        out.append(syntax.Swap(one.name, other.name, span=reader.python.span(stmt)))
    return out


def _check_alike(reader: Reader, stmt: ast.Assign, name: str, other: str) -> None:
    """Sizes are read by the names that arrays start with, so those that are exchanged must have the
    same ones; in a loop they must be of one type, and temporaries of one loop."""
    one, two = reader.arrays[name], reader.arrays[other]
    why = ""
    if one.extents != two.extents:
        why = "their extents differ"
    elif len(reader.visible) > 1 and one.dtype is not two.dtype:
        why = f"one is {one.dtype.value} and the other {two.dtype.value}"
    if why:
        reader.python.refuse(
            "exchange-mismatch",
            f"`{name}` and `{other}` cannot be exchanged: {why}",
            stmt,
            "exchange arrays of one type and shape" + _alike(one, two),
        )


def _alike(one: Array, two: Array) -> str:
    """How to say that two arrays have one shape: in the annotation where that names the extents, since
    no `assert` makes one size of two that have names."""
    if one.dtype is not two.dtype or len(one.extents) != len(two.extents):
        return ""
    named = [
        (array, [extent.name for extent in array.extents if isinstance(extent, syntax.Name)])
        for array in (one, two)
    ]
    if any(len(names) != len(array.extents) for array, names in named):
        return ""
    if not any(name == f"{array.name}_{axis}" for array, names in named for axis, name in enumerate(names)):
        extents = ", ".join(f'"{name}"' for name in named[0][1])
        return f": `{two.name}: loopfuse.{two.dtype.value}[{extents}]`"
    return f": `assert {one.name}.shape == {two.name}.shape`"


def connected(arrays: set[str], pairs: list[tuple[str, str]]) -> set[str]:
    """`arrays`, and those that loops exchange with them."""
    found = set(arrays)
    while True:
        more = {name for pair in pairs if found & {*pair} for name in pair}
        if more <= found:
            return found
        found |= more


def refuse_ring(reader: Reader, place: ast.AST) -> NoReturn:
    """Refuse an exchange of more than two arrays that is done an unknown number of times."""
    reader.python.refuse(
        "exchange-rotation",
        "more than two arrays change places in a loop, and how often does not follow from sizes",
        place,
        "let them change places directly in the body of one loop at the function's top, "
        "`for t in range(steps):`, or keep them in one array: `u[(t + 1) % 3, i]`",
    )


def refuse_turned(reader: Reader, array: Array, node: ast.AST) -> None:
    """Refuse an array that a name refers to after some numbers of passes."""
    if array.turns:
        reader.python.refuse(
            "exchange-rotation",
            "which array this is depends on how often a loop ran, in which more than two change "
            "places; it can only be returned",
            node,
            "return it, and go on in another kernel, or keep the arrays in one: `u[t % 3, i]`",
        )
