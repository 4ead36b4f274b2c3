"""Loops and `if`s that do something: statements with bodies.

Values that they carry or give are variables. What stands inside is read by the `read_block` they
are handed (`affine_block.read_block`): blocks hold loops, and loops hold blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import affine
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType
from xdsl.ir import Block, SSAValue

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.ops import UPDATES, arms_of, is_update, maker, starts_of
from loopfuse.frontend.mlir.ranges import extreme_of, loop_range
from loopfuse.frontend.mlir.state import State
from loopfuse.frontend.mlir.terms import Term, map_results, number
from loopfuse.frontend.mlir.text import refuse
from loopfuse.frontend.mlir.values import condition_of
from loopfuse.lang.semantics import neutral
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.syntax import Assign, Expr, For, If, Let, Name, Range, Stmt

ReadBlock = Callable[[State, Block], list[Stmt]]


_PARALLEL = {
    "addf": ("sum", "+"), "addi": ("sum", "+"), "mulf": ("prod", "*"), "muli": ("prod", "*"),
    "minimumf": ("min", "min"), "maximumf": ("max", "max"), "mins": ("min", "min"),
    "maxs": ("max", "max"), "ori": ("or", "|"), "andi": ("and", "&"),
}  # fmt: skip


def read_loop(state: State, op: Any, read_block: ReadBlock) -> list[Stmt]:
    """A loop; values it carries are variables."""
    span = state.place(op)
    starts = starts_of(op)
    before, names = _carried(state, starts, op.body.block.args[1:], op.results, span)
    with state.names.scope():
        head = loop_range(state, op)
        body = read_block(state, op.body.block)
        body += _assign_all(state, names, op.body.block.last_op, span)
    made = _loop_of(head, body, span, "loopfuse.parallel" in op.attributes)
    for word in ("fuse", "nofuse"):
        held = op.attributes.get(f"loopfuse.{word}")
        if made and not before and isinstance(held, IntegerAttr):
            made = [_Numbered(word, tuple(made), held.value.data, span=span)]
    return [*before, *made]


def _carried(
    state: State,
    starts: Iterable[SSAValue],
    arguments: Iterable[SSAValue],
    results: Iterable[SSAValue],
    span: Span,
) -> tuple[list[Stmt], list[str]]:
    """Variables for values that a loop carries."""
    out: list[Stmt] = []
    names: list[str] = []
    for start, argument, result in zip(starts, arguments, results, strict=True):
        loop = maker(result)
        if loop is not None and isinstance(result.type, MemRefType):
            raise state.limit(
                loop, "a loop that carries a memref is not read",
                "use the memref itself in the loop; where two take turns, write the loop twice in "
                "one that takes two steps",
            )  # fmt: skip
        term = state.value(start)
        name = state.names.fresh(result.name_hint or argument.name_hint, "s")
        dtype = state.typed(result.type, span)
        out.append(Let(name, dtype, term.expr, True, span=span, name_span=span))
        here = Term(
            Name(name, span=span), dtype, isinstance(result.type, IndexType), frozenset({name})
        )
        state.terms[argument] = here
        state.terms[result] = here
        names.append(name)
    return out, names


def _assign_all(state: State, names: list[str], terminator: Any, span: Span) -> list[Stmt]:
    """All variables at once: what reads one that is assigned before it is kept first."""
    out: list[Stmt] = []
    if not names:
        return out
    terms = [state.value(each) for each in terminator.operands]
    ready: list[Term] = []
    for k, term in enumerate(terms):
        if term.reads & set(names[:k]) and term.expr != Name(names[k]):
            kept = state.names.fresh(None, "v")
            out.append(Let(kept, term.dtype, term.expr, span=span, name_span=span))
            term = Term(Name(kept), term.dtype)
        ready.append(term)
    for name, term, yielded in zip(names, ready, terminator.operands):
        if term.expr == Name(name):
            continue
        step = maker(yielded)
        if step is not None and step.name in UPDATES and not isinstance(term.expr, Name):
            first = state.terms.get(step.operands[0])
            other = state.terms.get(step.operands[1])
            if (
                first is not None
                and other is not None
                and first.expr == Name(name)
                and is_update(step.name, term.dtype)
            ):
                out.append(Assign(Name(name, span=span), UPDATES[step.name], other.expr, span=span))
                continue
        out.append(Assign(Name(name, span=span), "", term.expr, span=span))
    return out


def read_parallel(state: State, op: affine.ParallelOp, read_block: ReadBlock) -> list[Stmt]:
    """Loops in any order; what it reduces are variables."""
    span = state.place(op)
    block = op.body.block
    lower_map, upper_map = op.lowerBoundsMap.data, op.upperBoundsMap.data
    count = lower_map.num_dims + lower_map.num_symbols
    operands = state.indices(op.map_operands)
    lows = map_results(lower_map, operands[:count], span)
    highs = map_results(upper_map, operands[count:], span)
    kinds = [each.data for each in op.reductions]
    before, names = _reduced(state, op, kinds, span)
    with state.names.scope():
        heads = _parallel_ranges(state, op, lows, highs, span)
        body = read_block(state, block)
        yielded = block.last_op.operands if block.last_op else ()
        for name, kind, value in zip(names, kinds, yielded):
            update = _PARALLEL[kind][1]
            body.append(Assign(Name(name, span=span), update, state.value(value).expr, span=span))
    if not body:
        return before
    return [*before, For(heads, tuple(body), span=span)]


def _reduced(
    state: State, op: affine.ParallelOp, kinds: list[str], span: Span
) -> tuple[list[Stmt], list[str]]:
    """Variables for values that a parallel loop reduces."""
    out: list[Stmt] = []
    names: list[str] = []
    if len(kinds) != len(op.results):
        refuse(state.source, span, "mlir-invalid", "as many results as reductions are expected",
               "give a reduction for each result")
    for kind, result in zip(kinds, op.results):
        if kind not in _PARALLEL:
            raise state.limit(
                op, f"the reduction `{kind}` of `affine.parallel` is not read",
                "write it as an `affine.for` with `iter_args`",
            )  # fmt: skip
        dtype = state.typed(result.type, span)
        name = state.names.fresh(result.name_hint, "s")
        start = number(_start(_PARALLEL[kind][0], dtype), dtype, span)
        out.append(Let(name, dtype, start, True, span=span, name_span=span))
        state.terms[result] = Term(Name(name), dtype, False, frozenset({name}))
        names.append(name)
    return out, names


def _parallel_ranges(
    state: State, op: affine.ParallelOp, lows: list[Expr], highs: list[Expr], span: Span
) -> tuple[Range, ...]:
    """The ranges of a parallel loop; each has a group of the bounds."""
    out: list[Range] = []
    low, high = iter(lows), iter(highs)
    lower_groups = op.lowerBoundsGroups.get_values()
    upper_groups = op.upperBoundsGroups.get_values()
    for k, argument in enumerate(op.body.block.args):
        name = state.names.fresh(argument.name_hint, "i")
        state.terms[argument] = Term(Name(name, span=span), DType.I64, True)
        first = [next(low) for _ in range(int(lower_groups[k]))]
        last = [next(high) for _ in range(int(upper_groups[k]))]
        step = op.steps.data[k].value.data
        lower, upper = extreme_of("max", first, span), extreme_of("min", last, span)
        stride = None if step == 1 else number(step, DType.I64, span)
        out.append(Range(name, lower, upper, stride, span=span))
    return tuple(out)


def read_if(state: State, op: Any, read_block: ReadBlock) -> list[Stmt]:
    """An `if`; values it gives are variables."""
    span = state.place(op)
    out: list[Stmt] = []
    names: list[str] = []
    condition = condition_of(state, op)
    for result in op.results:
        dtype = state.typed(result.type, span)
        name = state.names.fresh(result.name_hint, "s")
        out.append(Let(name, dtype, number(0, dtype, span), True, span=span, name_span=span))
        state.terms[result] = Term(Name(name), dtype, False, frozenset({name}))
        names.append(name)
    arms: list[tuple[Stmt, ...]] = []
    for region in arms_of(op):
        if not region.blocks:
            arms.append(())
            continue
        with state.names.scope():
            body = read_block(state, region.block)
        body += _assign_all(state, names, region.block.last_op, span)
        arms.append(tuple(body))
    then, otherwise = arms
    if not then and not otherwise:
        return out
    if not then:
        return [
            *out,
            If(syntax.Unary("not", condition.expr, span=span), otherwise, (), span=span),
        ]
    return [*out, If(condition.expr, then, otherwise, span=span)]


def _start(kind: str, dtype: DType) -> Any:
    """What a reduction of `affine.parallel` starts from."""
    if kind in ("or", "and"):
        if dtype is DType.BOOL:
            return kind == "and"
        return -1 if kind == "and" else 0
    return neutral(kind, dtype)


@dataclass(frozen=True, slots=True)
class _Numbered(syntax.Block):
    """A block around one loop; neighbours of one number are one block."""

    number: int = 0


def grouped(body: list[Stmt]) -> list[Stmt]:
    """Neighbouring blocks of one number joined."""
    out: list[Stmt] = []
    last = -1
    for stmt in body:
        if not isinstance(stmt, _Numbered):
            out.append(stmt)
            last = -1
        elif out and last == stmt.number and isinstance(out[-1], syntax.Block):
            out[-1] = syntax.Block(stmt.kind, (*out[-1].body, *stmt.body), span=out[-1].span)
        else:
            out.append(syntax.Block(stmt.kind, stmt.body, span=stmt.span))
            last = stmt.number
    return out


def _loop_of(head: Range, body: list[Stmt], span: Span, parallel: bool) -> list[Stmt]:
    """A loop, in one header with the loop that is all of its body."""
    if not body:
        return []
    if len(body) == 1 and isinstance(body[0], For) and not body[0].parallel:
        inner = body[0]
        return [For((head, *inner.ranges), inner.body, parallel, span=span)]
    return [For((head,), tuple(body), parallel, span=span)]
