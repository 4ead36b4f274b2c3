"""Edge modes as plain index arithmetic.

Each mode of NumPy's `pad` is a function of the subscript and the extent, right for any distance
from the array; after this no Load has a mode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.dtypes import DType
from loopfuse.lang.index import checked, is_affine
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Load, Select, combine, integer
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import map_expr

Known = Callable[[Expr, Expr], tuple[bool, bool]]
"""What is provable of (subscript, extent): never below 0, never at or past the extent."""


def _nothing_known(subscript: Expr, extent: Expr) -> tuple[bool, bool]:
    return False, False


def lower_subscript(mode: str, subscript: Expr, extent: Expr, low: bool, high: bool) -> Expr:
    """The plain subscript that `mode` reads; `low` and `high` say which ends cannot be passed.

    clamp: max(min(e, n - 1), 0). wrap: e mod n. reflect (NumPy's, edge not repeated): with
    p = max(2n - 2, 1) and m = e mod p, min(m, 2n - 2 - m), which is 0 for n = 1. symmetric
    (edge repeated): with m = e mod 2n, min(m, 2n - 1 - m). All mods floor.
    """
    if low and high:
        return subscript
    last = extent - 1
    match mode:
        case "clamp":
            out = subscript if high else combine("min", subscript, last)
            return out if low else combine("max", out, integer(0))
        case "wrap":
            return subscript % extent
        case "reflect":
            turn = 2 * last
            folded = subscript % combine("max", turn, integer(1))
            return combine("min", folded, turn - folded)
        case "symmetric":
            turn = 2 * extent
            folded = subscript % turn
            mirrored = turn - 1 - folded
            return combine("min", folded, mirrored)
        case _:
            raise InternalError(Diagnostic("edge-mode", f"there is no edge mode `{mode}`"))


def lower_load(
    load: Load,
    extents: tuple[Expr, ...],
    known: Known = _nothing_known,
    is_known: Callable[[Expr], bool] = is_affine,
) -> Expr:
    """before: `a.clamp[i - 1]`
    after: `a[max(min(i - 1, n - 1), 0)]`; for `.zero`, `a[i - 1] if 0 <= i - 1 < n else 0`.

    An end that `known` proves unreachable costs nothing. A subscript that depends on data (not
    `is_known`) is marked as checked besides: only an empty array fails the check.
    """
    if not load.mode:
        return load
    facts = [known(e, n) for e, n in zip(load.index, extents, strict=True)]
    index = tuple(
        e if load.mode == "zero" else lower_subscript(load.mode, e, n, low, high)
        for e, n, (low, high) in zip(load.index, extents, facts, strict=True)
    )
    index = tuple(
        new if is_known(old) else checked(replace(new, span=old.span), n)
        for new, old, n in zip(index, load.index, extents, strict=True)
    )
    plain = Load(load.array, index, load.dtype, "", load.swapped, span=load.span)
    if load.mode != "zero":
        return plain
    tests: list[Expr] = []
    for subscript, extent, (low, high) in zip(load.index, extents, facts, strict=True):
        if not low:
            tests.append(Compare("ge", subscript, integer(0), span=subscript.span))
        if not high:
            tests.append(Compare("lt", subscript, extent, span=subscript.span))
    if not tests:
        return plain
    condition = tests[0]
    for test in tests[1:]:
        condition = Binary("and", condition, test, DType.BOOL, span=load.span)
    nothing = Const(neutral("sum", load.dtype), load.dtype)
    return Select(condition, plain, nothing, load.dtype, span=load.span)


def lower_edges(
    expr: Expr, extents: Mapping[str, tuple[Expr, ...]], known: Known = _nothing_known
) -> Expr:
    """`expr` with no edge mode left; `extents` gives each array's extents by name.

    before: `a.wrap[i + 1]`
    after: `a[(i + 1) % n]`. It does not check that plain subscripts are in bounds.
    """

    def lower(node: Expr) -> Expr:
        return lower_load(node, extents[node.array], known) if isinstance(node, Load) else node

    return map_expr(lower, expr)
