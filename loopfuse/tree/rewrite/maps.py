"""Linear maps as two numbers: what trees say of a buffer that holds maps `x -> f * x + v`, said of `v` and of `f`.

    before:  M: f32[] holds maps                 after:  M: f32[], M_factor: f32[]
             M = 0.0        (the identity)               M = 0.0;  M_factor = 1.0
             S[t]: M = a[t] * M + b[t]                   M_factor = a[t] * M_factor;  S[t]: M = a[t] * M + b[t]
             fold M by N    (M first, then N)            M = N_factor * M + N;  M_factor = N_factor * M_factor
             fold s by N    (s a plain number)           s = N_factor * s + N

Of floats, a product of factors may be greater than any number though what it is applied to is 0 all the time: so of 0 N
makes N, whatever its factor. And it may be 0, as each of them is less than 1, though what it is applied to is infinite and stays so: then
it is taken as 1, or -1.

A Combine and a Scan stay as they are: who runs them takes both numbers of each thread. The checker looks at the
tree before; interpreters and code generation run the one after.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Binary, Compare, Const, Expr, Load, Select
from loopfuse.lang.slope import slope
from loopfuse.tree.looptree import LINEAR, Buffer, Compute, Copy, Fold, LoopTree, TreeNode
from loopfuse.tree.walk import map_nodes


def has_maps(tree: LoopTree) -> bool:
    """Does a buffer hold linear maps?"""
    return any(buffer.factors for buffer in tree.buffers)


def as_numbers(tree: LoopTree) -> LoopTree:
    """The tree in which maps are two numbers."""
    if not has_maps(tree):
        return tree
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    return map_nodes(lambda node: _as_numbers(node, buffers), tree)


def _as_numbers(node: TreeNode, buffers: Mapping[str, Buffer]) -> tuple[TreeNode, ...]:
    match node:
        case Compute(target=target, value=value) if buffers[target.array].factors:
            factor = _factor(target, buffers)
            found = slope(value, target)
            assert found is not None
            return (Copy(factor, _times(found, factor)), node)
        case Copy(target=target, value=Load() as value) if buffers[target.array].factors:
            return (node, Copy(_factor(target, buffers), _factor(value, buffers)))
        case Copy(target=target, value=value) if buffers[target.array].factors:
            one = Const(1.0 if target.dtype.is_float else 1, target.dtype)
            return (node, Copy(_factor(target, buffers), one))
        case Fold(op=op, target=target, value=value) if op == LINEAR:
            by = _factor(value, buffers)
            applied = Copy(target, _applied(by, value, target))
            if not buffers[target.array].factors:
                return (applied,)
            factor = _factor(target, buffers)
            return (applied, Copy(factor, _times(by, factor)))
        case _:
            return (node,)


def _applied(by: Expr, added: Expr, to: Expr) -> Expr:
    """What a map makes of a number."""
    dtype = to.dtype
    if not dtype.is_float:
        return Binary("add", _times(by, to), added, dtype)
    zero, apart = Const(0.0, dtype), Binary("sub", to, to, dtype)
    is_lost = Binary("and", Compare("eq", by, zero), Compare("ne", apart, apart), DType.BOOL)
    held = Select(is_lost, Binary("copysign", Const(1.0, dtype), by, dtype), by, dtype)
    return Select(Compare("eq", to, zero), added, Binary("add", _times(held, to), added, dtype), dtype)


def _factor(load: Load, buffers: Mapping[str, Buffer]) -> Load:
    """The other number of a map."""
    return Load(buffers[load.array].factors, load.index, load.dtype)


def _times(left: Expr, right: Expr) -> Expr:
    return Binary("mul", left, right, left.dtype)
