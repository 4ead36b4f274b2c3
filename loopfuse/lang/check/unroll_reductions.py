"""Small reductions over neighbours, written out: a stencil that is written as a sum becomes an
expression of its taps.

    before:  reduce s = sum over r in 0..3:  s = fma(x[i + r - 1], w[r], s)
    after:   s = fma(x[i + 1], w[2], fma(x[i], w[1], fma(x[i - 1], w[0], 0.0)))

    before:  for r in 0..3:  acc = fma(x[i + r - 1], w[r], acc)
    after:   acc = fma(x[i + 1], w[2], fma(x[i], w[1], fma(x[i - 1], w[0], acc)))

Needs: constant ranges with at most `MAX_POINTS` points in all, inside another loop; nothing in
them but steps of accumulators and `let`s; a read that the range moves around the iteration outside
(`x[i + r]`: others gain nothing). Leaves: the same operations in the same order, so the same bits;
the labels of statements. Does not: touch what the user calls parallel, or reorder anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from loopfuse.base.dtypes import DType
from loopfuse.lang.check.folding import fold_constant
from loopfuse.lang.index import evaluate_index, is_checked
from loopfuse.lang.nodes import (
    Binary,
    Block,
    Const,
    Define,
    Expr,
    For,
    If,
    Kernel,
    Load,
    Range,
    Reduce,
    Select,
    Stmt,
    Store,
)
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import (
    bodies,
    children,
    iterators,
    loads,
    map_expr,
    substitute,
    walk_expr,
)

MAX_POINTS = 64
"""The most points of a reduction that is written out."""

MAX_NODES = 4096
"""The most nodes of an expression that it becomes."""


def unroll_reductions(kernel: Kernel) -> Kernel:
    """The kernel with its small reductions over neighbours written out; itself where it has
    none."""
    body = _unroll(kernel.body, (), frozenset())
    return kernel if body == kernel.body else replace(kernel, body=body)


def _unroll(
    body: tuple[Stmt, ...], around: tuple[str, ...], own: frozenset[str]
) -> tuple[Stmt, ...]:
    """`body`, which stands in the loops of the iterators `around`; the scalars `own` are declared
    in the same iteration before it."""
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Reduce():
                value = _value_of(stmt, _Names()) if _has_taps(stmt, around) else None
                if value is None:
                    inside = (*around, *(each.iterator for each in stmt.ranges))
                    out.append(replace(stmt, body=_unroll(stmt.body, inside, frozenset())))
                else:
                    label, span = stmt.label, stmt.span
                    out.append(Define(stmt.name, stmt.dtype, value, label=label, span=span))
            case For():
                steps = _steps_of(stmt, around, own) if _has_taps(stmt, around) else None
                if steps is None:
                    inner = _unroll(stmt.body, (*around, stmt.iterator), frozenset())
                    out.append(replace(stmt, body=inner))
                else:
                    out += steps
            case If():
                then, otherwise = (_unroll(arm, around, own) for arm in (stmt.then, stmt.otherwise))
                out.append(replace(stmt, then=then, otherwise=otherwise))
            case Block():
                out.append(replace(stmt, body=_unroll(stmt.body, around, own)))
            case Define(name=name):
                own |= {name}
                out.append(stmt)
            case _:
                out.append(stmt)
    return tuple(out)


def _has_taps(stmt: For | Reduce, around: tuple[str, ...]) -> bool:
    """Does some subscript inside hold an iterator of `around` and one of the loop's own?"""
    outer = frozenset(around)
    return bool(outer) and any(
        names & outer and names - outer
        for expr in _values(stmt)
        for load in walk_expr(expr)
        if isinstance(load, Load)
        for subscript in load.index
        for names in [iterators(subscript)]
        if not is_checked(subscript)
    )


def _values(stmt: Stmt) -> Iterator[Expr]:
    """The right sides inside a statement."""
    match stmt:
        case For(body=body):
            for inner in body:
                yield from _values(inner)
        case Reduce(body=body, value=value):
            for inner in body:
                yield from _values(inner)
            yield value
        case Store(value=value) | Define(value=value):
            yield value
        case _:
            pass


# ------------------------------------------------------------------------------- writing out


@dataclass(slots=True)
class _Names:
    """What names inside a loop that is written out stand for at one of its points: iterators
    their values, `let`s and inner reductions their expressions."""

    iterators: Mapping[str, Expr] = field(default_factory=dict[str, Expr])
    scalars: dict[str, Expr] = field(default_factory=dict[str, Expr])

    def at(self, iterator: str, value: int) -> _Names:
        """With an iterator's value."""
        here = Const(value, DType.I64)
        return _Names({**self.iterators, iterator: here}, dict(self.scalars))

    def write_out(self, expr: Expr) -> Expr:
        """`expr` without these names."""
        return map_expr(_fold, _with_scalars(substitute(expr, self.iterators), self.scalars))


def _with_scalars(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    def one(node: Expr) -> Expr:
        if isinstance(node, Load) and not node.index and node.array in values:
            return values[node.array]
        return node

    return map_expr(one, expr) if values else expr


def _fold(node: Expr) -> Expr:
    """One node over operands that may have become constants."""
    below = children(node)
    if not below or isinstance(node, Load):
        return node
    if all(isinstance(each, Const) for each in below):
        folded = fold_constant(node)
        return node if folded is None else folded
    match node:
        case Select(condition=Const(value=value), then=then, otherwise=otherwise):
            return then if value else otherwise
        case Binary(op="add" | "sub" as op, left=left, right=Const(value=value), dtype=DType.I64):
            moved = int(value) if op == "add" else -int(value)
            match left:  # i + 1 - 1
                case Binary(op="add", left=first, right=Const(value=more)):
                    left, moved = first, moved + int(more)
                case Binary(op="sub", left=first, right=Const(value=more)):
                    left, moved = first, moved - int(more)
                case _:
                    pass
            return left + Const(moved, DType.I64)
        case Binary(op="add", left=Const(value=0), right=right, dtype=DType.I64):
            return right
        case _:
            return node


def _value_of(stmt: Reduce, names: _Names) -> Expr | None:
    """The reduction as one expression, or None where it has to stay a loop."""
    if stmt.op not in _WRITTEN_OUT:
        return None
    points = _points(stmt.ranges, names)
    if points is None:
        return None
    value: Expr = Const(neutral(stmt.op, stmt.dtype), stmt.dtype, span=stmt.span)
    for point in points:
        for inner in stmt.body:
            if not _name(inner, point):
                return None
        step = _joined(stmt.name, value, point.write_out(stmt.value))
        if step is None:
            return None
        value = step
    return value if value.dtype is stmt.dtype else None


_WRITTEN_OUT = ("sum", "prod", "min", "max", "any", "all")


def _name(stmt: Stmt, names: _Names) -> bool:
    """Adds what a `let` or an inner reduction stands for; False where it has to stay."""
    match stmt:
        case Define(name=name, value=value, mutable=False):
            names.scalars[name] = names.write_out(value)
        case Reduce(name=name):
            value = _value_of(stmt, names)
            if value is None:
                return False
            names.scalars[name] = value
        case _:
            return False
    return True


def _points(ranges: tuple[Range, ...], names: _Names) -> list[_Names] | None:
    """The names at each point of constant ranges, in order; None for others, and for many."""
    points = [names]
    for each in ranges:
        longer: list[_Names] = []
        for point in points:
            try:
                lower = evaluate_index(point.write_out(each.lower), {})
                upper = evaluate_index(point.write_out(each.upper), {})
            except (KeyError, ValueError):
                return None
            values = range(lower, upper, each.step)
            if len(longer) + len(values) > MAX_POINTS:
                return None
            longer += [point.at(each.iterator, value) for value in values]
        points = longer
    return [_Names(point.iterators, dict(point.scalars)) for point in points]


def _joined(name: str, before: Expr, step: Expr) -> Expr | None:
    """`step`, which reads the scalar `name` once, over the value that it had before."""
    found = [load for load in loads(step) if load.array == name]
    if len(found) != 1 or found[0].dtype is not before.dtype:
        return None
    value = _with_scalars(step, {name: before})
    return value if sum(1 for _ in walk_expr(value)) <= MAX_NODES else None


# ------------------------------------------------------------------- loops over accumulators


def _steps_of(stmt: For, around: tuple[str, ...], own: frozenset[str]) -> list[Stmt] | None:
    """A loop of steps of accumulators as one assignment to each, or None. The accumulators must
    belong to the iteration around: steps of others may be taken in another order, or at once."""
    stores: list[Store] = []
    if not _flatten(stmt, _Names(), stores) or not stores:
        return None
    out: list[Store] = []
    for store in stores:
        target = store.target
        belongs = around[-1] in iterators(target) if target.index else target.array in own
        if not belongs or target.swapped is not None:
            return None
        if not _merge(store, out):
            out.append(store)
    labels = [store.label for store in out]
    return list(out) if len(set(labels)) == len(labels) else None


def _flatten(stmt: For, names: _Names, out: list[Store]) -> bool:
    """Appends the assignments of a constant loop in the order they run; False where something
    else stands in it, or too much."""
    if stmt.parallel:
        return False
    points = _points((Range(stmt.iterator, stmt.lower, stmt.upper, stmt.step),), names)
    if points is None:
        return False
    for point in points:
        for inner in stmt.body:
            match inner:
                case Store(target=target, value=value, reduction=reduction):
                    if not reduction or iterators(target) & point.iterators.keys():
                        return False
                    out.append(replace(inner, value=point.write_out(value)))
                    if len(out) > MAX_POINTS:
                        return False
                case For():
                    if not _flatten(inner, point, out):
                        return False
                case _:
                    if not _name(inner, point):
                        return False
    return True


def _merge(store: Store, before: list[Store]) -> bool:
    """Joins a step to an earlier one of the same accumulator, past steps of others that have
    nothing to do with it. (All are steps: each reads what it writes.)"""
    name = store.target.array
    for position in reversed(range(len(before))):
        earlier = before[position]
        if earlier.target == store.target and earlier.label == store.label:
            value = _replaced(store, earlier.value)
            if value is not None:
                before[position] = replace(earlier, value=value, reduction="")
            return value is not None
        if earlier.target.array == name or _reads(earlier, name) or _reads(store, earlier.target.array):
            return False
    return False


def _replaced(store: Store, before: Expr) -> Expr | None:
    """The store's value over the one that its target had `before`."""
    found = [load for load in loads(store.value) if load.array == store.target.array]
    if found != [store.target] or before.dtype is not store.target.dtype:
        return None

    def one(node: Expr) -> Expr:
        return before if node == store.target else node

    value = map_expr(one, store.value)
    return value if sum(1 for _ in walk_expr(value)) <= MAX_NODES else None


def _reads(store: Store, name: str) -> bool:
    return any(
        name == load.array or (load.swapped is not None and load.swapped.array == name)
        for part in (store.value, *store.target.index)
        for load in loads(part)
    )


# --------------------------------------------------------------------------------- for reports


def absorbed_labels(before: Kernel, after: Kernel) -> dict[str, tuple[str, ...]]:
    """The statements of `before` that `after` no longer has (`let`s and reductions inside what
    was written out), by the statement that computes them now: the next one that is left."""
    kept = set(_labels(after.body))
    out: dict[str, tuple[str, ...]] = {}
    waiting: list[str] = []
    for label in _labels(before.body):
        if label in kept:
            if waiting:
                out[label] = tuple(waiting)
            waiting = []
        else:
            waiting.append(label)
    return out


def _labels(body: tuple[Stmt, ...]) -> Iterator[str]:
    """The labels of statements as they run: what stands in a reduction, then the reduction."""
    for stmt in body:
        for inner in bodies(stmt):
            yield from _labels(inner)
        if isinstance(stmt, Store | Define | Reduce) and stmt.label:
            yield stmt.label
