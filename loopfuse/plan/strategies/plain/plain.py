"""The plain route: a kernel as it is written, by one thread, with nothing proved.

before:  for i in 0..N: t[i] = a[i]          after:  launch k_0: one thread, for i in 0..N
         for i in 0..N: b[i] = t[N-1-i]              launch k_1: one thread, for i in 0..N

It reads the core alone and asks isl nothing, so it is there when every question about a program is
too hard (docs/decisions/unknown.md). Each outermost statement is a launch of its own, in text
order, run by one thread: that is the program's own order, which needs no proof. Subscripts that
are not obviously inside their array are checked where they run, as data-dependent ones are. All
storage is in memory; what is private to an iteration has one copy, which the iterations use in
turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from loopfuse.base.diagnostics import Diagnostic, LimitError, Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.index import checked, is_checked, trip_count
from loopfuse.lang.index_text import to_python
from loopfuse.lang.nodes import (
    Assume,
    Binary,
    Block,
    Compare,
    Const,
    Define,
    Expr,
    For,
    If,
    Iter,
    Kernel,
    Load,
    Range,
    Reduce,
    Stmt,
    Store,
    Swapped,
    Temp,
    combine,
    compare,
    integer,
)
from loopfuse.lang.semantics import neutral
from loopfuse.lang.walk import children, iterators, loads, substitute, walk_stmts, with_children
from loopfuse.plan.mapping.body import Names, view_strides
from loopfuse.plan.units.records import LoopInfo
from loopfuse.poly.edges import lower_load
from loopfuse.poly.model import Precondition
from loopfuse.tree.looptree import (
    Buffer,
    Compute,
    Copy,
    Global,
    Guard,
    Launch,
    Loop,
    LoopTree,
    TreeNode,
)
from loopfuse.tree.looptree import Mapping as Where


@dataclass(frozen=True, slots=True)
class PlainPlan:
    """The tree; one record a launch, as reports name it; the place of each statement; what every
    call is held to."""

    tree: LoopTree
    loops: tuple[LoopInfo, ...]
    spans: dict[str, Span]
    preconditions: tuple[Precondition, ...]


def plan_plain(
    kernel: Kernel,
    device: str,
    strided: tuple[str, ...] = (),
    rows: tuple[tuple[str, int], ...] = (),
) -> PlainPlan:
    """`kernel` for `device` (cpu or gpu), without any analysis; `strided` arguments are views,
    so many of whose last dimensions as `rows` says lie without gaps.

    LimitError[temp-extent] for a temporary whose extents depend on an iterator, and
    LimitError[arg-reduction], as the planner's own model gives them.
    """
    return _Plain(kernel, device, strided, dict(rows)).plan()


@dataclass(frozen=True, slots=True)
class _Around:
    """Where the walk stands: the tree's value of each iterator, and the loops around (an
    iterator's start and end where it counts up)."""

    values: dict[str, Expr] = field(default_factory=dict[str, Expr])
    loops: tuple[tuple[str, Expr, Expr], ...] = ()


class _Plain:
    def __init__(
        self, kernel: Kernel, device: str, strided: tuple[str, ...], rows: dict[str, int]
    ) -> None:
        self.kernel, self.device = kernel, device
        declared = [s.name for s in walk_stmts(kernel.body) if isinstance(s, Define | Reduce | Temp)]
        self.names = Names({*kernel.sizes, *(p.name for p in kernel.params), *declared})
        self.extents: dict[str, tuple[Expr, ...]] = {}
        self.parity: dict[Expr, int] = {}
        self.spans: dict[str, Span] = {}
        self.numbers: dict[str, int] = {}
        for param in kernel.arrays:
            views = view_strides(param.name, param.extents, rows.get(param.name, 0))
            self.names.add(
                Buffer(
                    param.name,
                    param.name,
                    param.dtype,
                    param.extents,
                    Global(),
                    argument=True,
                    strides=views if param.name in strided else None,
                )
            )
            self.extents[param.name] = param.extents

    def plan(self) -> PlainPlan:
        launches: list[Launch] = []
        loops: list[LoopInfo] = []
        for stmt in _flattened(self.kernel.body):
            body = tuple(self.statement(stmt, _Around()))
            if not body:
                continue
            label = self.number("L")
            loops.append(self.info(label, stmt))
            name = f"{self.kernel.name}_{len(launches)}"
            launches.append(Launch(name, "plain", (label,), self.one_thread(body)))
        buffers = tuple(self.names.buffers.values())
        tree = LoopTree(self.kernel.name, self.device, buffers, tuple(launches))
        return PlainPlan(tree, tuple(loops), self.spans, _assumptions(self.kernel))

    def one_thread(self, body: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        places = (Where.BLOCK, Where.GRID) if self.device == "gpu" else (Where.THREAD,)
        for place in places:
            var = self.names.fresh("one")
            body = (Loop(var, integer(0), integer(1), 1, place, body),)
        return body

    def number(self, prefix: str) -> str:
        self.numbers[prefix] = self.numbers.get(prefix, 0) + 1
        return f"{prefix}{self.numbers[prefix]}"

    def info(self, label: str, stmt: Stmt) -> LoopInfo:
        """What a report says of an outermost statement."""
        inside = list(walk_stmts((stmt,)))
        arrays = set(self.extents)
        written = [s.target.array for s in inside if isinstance(s, Store)]
        scalars = [s.name for s in inside if isinstance(s, Define | Reduce)]
        writes = tuple(dict.fromkeys([n for n in written if n in arrays] or written or scalars))
        reads = [load.array for s in inside for e in _expressions(s) for load in loads(e)]
        labels = [s.label for s in inside if isinstance(s, Store | Define | Reduce) and s.label]
        return LoopInfo(
            label,
            stmt.span.line,
            writes,
            tuple(n for n in dict.fromkeys(reads) if n in arrays),
            tuple(dict.fromkeys(labels)),
        )

    # ------------------------------------------------------------------------- statements

    def body(self, body: Iterable[Stmt], around: _Around) -> list[TreeNode]:
        return [node for stmt in body for node in self.statement(stmt, around)]

    def statement(self, stmt: Stmt, around: _Around) -> list[TreeNode]:
        match stmt:
            case For(body=body):
                each = Range(stmt.iterator, stmt.lower, stmt.upper, stmt.step)
                return self.loop(each, around, lambda inside: self.body(body, inside))
            case If(condition=condition, then=then, otherwise=otherwise):
                # Tested once, before anything inside runs.
                name = self.names.fresh("condition")
                self.scalar(name, DType.BOOL)
                test = Load(name, (), DType.BOOL, span=condition.span)
                first = self.compute(self.number("C"), stmt.span, test, condition, around)
                branches = tuple(self.body(then, around)), tuple(self.body(otherwise, around))
                return [*first, Guard(test, *branches)]
            case Block(body=body):
                return self.body(body, around)
            case Assume():
                return []
            case Temp():
                return self.temporary(stmt)
            case Define(name=name, dtype=dtype, value=value, label=label, span=span):
                self.scalar(name, dtype)
                target = Load(name, (), dtype, span=span)
                return self.compute(label or self.number("S_"), span, target, value, around)
            case Store(target=target, value=value, label=label, span=span):
                return self.compute(label or self.number("S_"), span, target, value, around)
            case Reduce():
                return self.reduction(stmt, around)

    def loop(self, each: Range, around: _Around, inside: _Body) -> list[TreeNode]:
        lower = self.value(each.lower, around)
        upper = self.value(each.upper, around)
        var = self.names.fresh(each.iterator)
        value: Expr = Iter(var)
        bounds = (lower, upper, each.step)
        loops = (*around.loops, (each.iterator, each.lower, each.upper))
        if each.step < 0:
            value = lower - Iter(var) * (-each.step)
            bounds = (integer(0), trip_count(lower, upper, each.step), 1)
            loops = around.loops
        body = inside(_Around({**around.values, each.iterator: value}, loops))
        return [Loop(var, *bounds, Where.SERIAL, tuple(body))] if body else []

    def reduction(self, stmt: Reduce, around: _Around) -> list[TreeNode]:
        """before: `let s = sum(k in 0..K: a[k])`
        after: `s = 0`, then `for k in 0..K: s = s + a[k]`."""
        try:
            start = Const(neutral(stmt.op, stmt.dtype), stmt.dtype, span=stmt.span)
        except ValueError:
            raise LimitError(
                Diagnostic(
                    "arg-reduction",
                    f"`{stmt.op}` cannot be compiled yet",
                    stmt.span,
                    fix="reduce to the value, then find its index with a loop",
                )
            ) from None
        self.scalar(stmt.name, stmt.dtype)
        target = Load(stmt.name, (), stmt.dtype, span=stmt.span)
        label = stmt.label or self.number("S_")

        def ranges(left: tuple[Range, ...], around: _Around) -> list[TreeNode]:
            if left:
                return self.loop(left[0], around, lambda inside: ranges(left[1:], inside))
            body = self.body(stmt.body, around)
            return body + self.compute(label, stmt.span, target, stmt.value, around)

        return [Copy(target, start), *ranges(stmt.ranges, around)]

    def temporary(self, stmt: Temp) -> list[TreeNode]:
        """A temporary is zero until it is written, in every iteration it is private to."""
        if any(iterators(extent) or loads(extent) for extent in stmt.extents):
            raise LimitError(
                Diagnostic(
                    "temp-extent",
                    f"the extents of `{stmt.name}` depend on an iterator",
                    stmt.span,
                    fix="declare it with extents made of sizes and integer parameters",
                )
            )
        extents = tuple(combine("max", integer(0), extent) for extent in stmt.extents)
        self.extents[stmt.name] = stmt.extents
        self.names.add(Buffer(stmt.name, stmt.name, stmt.dtype, extents, Global()))
        index = tuple(Iter(self.names.fresh("z")) for _ in extents)
        nothing = Const(neutral("sum", stmt.dtype), stmt.dtype)
        body: tuple[TreeNode, ...] = (Copy(Load(stmt.name, index, stmt.dtype), nothing),)
        for var, extent in zip(reversed(index), reversed(extents), strict=True):
            body = (Loop(var.name, integer(0), extent, 1, Where.SERIAL, body),)
        return list(body)

    def scalar(self, name: str, dtype: DType) -> None:
        """A place in memory for a scalar."""
        self.names.add(Buffer(name, name, dtype, (), Global()))

    def compute(
        self, name: str, span: Span, target: Load, value: Expr, around: _Around
    ) -> list[TreeNode]:
        """One statement; a version for each parity of a swap in it."""
        swaps = {swap.parity for e in (target, value) for swap in _swaps(e)}
        open_swaps = sorted((p for p in swaps if p not in self.parity), key=repr)
        if open_swaps:
            parity = open_swaps[0]
            versions: list[tuple[TreeNode, ...]] = []
            for number in (1, 0):
                self.parity[parity] = number
                versions.append(tuple(self.compute(name, span, target, value, around)))
            del self.parity[parity]
            odd, even = versions
            test = compare("eq", self.value(parity, around), integer(1))
            return [Guard(test, odd, even)]
        self.spans.setdefault(name, span)
        place = self.value(target, around)
        assert isinstance(place, Load)
        return [Compute(name, tuple(around.values.values()), place, self.value(value, around))]

    # ------------------------------------------------------------------------ expressions

    def value(self, expr: Expr, around: _Around) -> Expr:
        """`expr` over tree variables and buffers: no edge mode, no swap, and every subscript
        either obviously inside its array or checked when it runs."""
        return substitute(self.lowered(expr, around), around.values)

    def lowered(self, expr: Expr, around: _Around) -> Expr:
        below = children(expr)
        if below:
            expr = with_children(expr, tuple(self.lowered(child, around) for child in below))
        if not isinstance(expr, Load) or not expr.index:
            return expr
        plain = lower_load(expr, self.extents[expr.array])
        if isinstance(plain, Load):
            return self.access(plain, around)
        # `.zero`: the access stands under a test that it is inside.
        return with_children(
            plain,
            tuple(self.access(e, around) if isinstance(e, Load) else e for e in children(plain)),
        )

    def access(self, load: Load, around: _Around) -> Load:
        extents = self.extents[load.array]
        index = tuple(
            e if is_checked(e) or _obviously_inside(e, n, around) else checked(e, n)
            for e, n in zip(load.index, extents, strict=True)
        )
        array = load.array
        if load.swapped is not None and self.parity[load.swapped.parity]:
            array = load.swapped.array
        return Load(array, index, load.dtype, span=load.span)


_Body = Callable[[_Around], list[TreeNode]]


def _obviously_inside(subscript: Expr, extent: Expr, around: _Around) -> bool:
    """An iterator that counts up from 0 or more to the extent, or a constant inside a constant."""
    match subscript, extent:
        case Iter(name=name), _:
            return any(
                iterator == name
                and isinstance(lower, Const)
                and int(lower.value) >= 0
                and (upper == extent or _at_most(upper, extent))
                for iterator, lower, upper in around.loops
            )
        case Const(), _:
            return int(subscript.value) >= 0 and _at_most(
                integer(int(subscript.value) + 1), extent
            )
        case _:
            return False


def _at_most(least: Expr, most: Expr) -> bool:
    return (
        isinstance(least, Const) and isinstance(most, Const) and int(least.value) <= int(most.value)
    )


def _swaps(expr: Expr) -> list[Swapped]:
    return [load.swapped for load in loads(expr) if load.swapped is not None]


def _flattened(body: Iterable[Stmt]) -> list[Stmt]:
    """The statements of `body`, blocks entered."""
    out: list[Stmt] = []
    for stmt in body:
        out += _flattened(stmt.body) if isinstance(stmt, Block) else [stmt]
    return out


def _expressions(stmt: Stmt) -> tuple[Expr, ...]:
    match stmt:
        case Store(value=value) | Define(value=value) | Reduce(value=value):
            return (value,)
        case If(condition=condition):
            return (condition,)
        case _:
            return ()


def _assumptions(kernel: Kernel) -> tuple[Precondition, ...]:
    """The kernel's `assume`s on sizes and parameters that are comparisons (one that says more
    stays a promise, which nothing here relies on)."""
    found: list[Precondition] = []
    for stmt in walk_stmts(kernel.body):
        if isinstance(stmt, Assume) and not iterators(stmt.condition):
            text = _condition_text(stmt.condition)
            if text is not None:
                message = f"`{kernel.name}` assumes `{text}`"
                found.append(Precondition(text, message, stmt.span))
    return tuple(found)


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _condition_text(condition: Expr) -> str | None:
    match condition:
        case Compare(op=op, left=left, right=right) if left.dtype.is_integer:
            try:
                return f"{to_python(left)} {_SIGNS[op]} {to_python(right)}"
            except ValueError:
                return None
        case Binary(op="and", left=left, right=right):
            first, second = _condition_text(left), _condition_text(right)
            return None if first is None or second is None else f"{first} and {second}"
        case _:
            return None
