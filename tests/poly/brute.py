"""Dependences by running the program: every access noted in order, no isl, no poly.

`trace` walks the core and yields what each statement instance touches; `find` turns that into
sets of instance pairs by the definitions of docs/dependences.md. Nothing is computed on data:
a data-dependent condition is decided by `decide`, and read by each store under it (what a `let`
or a reduction under it computes is nobody's business outside).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from loopfuse.lang.nodes import (
    Assume,
    Binary,
    Block,
    Call,
    Cast,
    Compare,
    Const,
    Define,
    Expr,
    For,
    If,
    Iter,
    Kernel,
    Load,
    Reduce,
    Select,
    Stmt,
    Store,
    Symbol,
    Temp,
    Unary,
)

Instance = tuple[str, tuple[int, ...]]
Element = tuple[str, tuple[int, ...]]


class Data(Exception):
    """The expression's value depends on data."""


@dataclass
class Event:
    """One statement instance: elements read (in evaluation order; None outside a `.zero` array
    or in an untaken arm) and the element written."""

    statement: str
    iteration: tuple[int, ...]
    reads: list[Element | None]
    write: Element
    hidden: bool = False
    happens: bool = True


def edge(mode: str, at: int, extent: int) -> int | None:
    """Where NumPy's padding would take the value from, step by step."""
    if mode == "zero":
        return at if 0 <= at < extent else None
    assert extent > 0, f"`{mode}` of an empty array"
    if mode == "clamp":
        return 0 if at < 0 else extent - 1 if at >= extent else at
    while not 0 <= at < extent:
        match mode:
            case "wrap":
                at += extent if at < 0 else -extent
            case "reflect":
                if extent == 1:
                    return 0
                at = -at if at < 0 else 2 * (extent - 1) - at
            case "symmetric":
                at = -at - 1 if at < 0 else 2 * extent - 1 - at
            case _:
                return at
    return at


@dataclass
class Walker:
    kernel: Kernel
    sizes: Mapping[str, int]
    decide: Callable[[str, tuple[int, ...]], bool] = lambda name, at: True
    values: dict[str, int] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    private: dict[str, tuple[str, ...]] = field(default_factory=dict)
    extents: dict[str, tuple[Expr, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = dict(self.sizes)
        for array in self.kernel.arrays:
            self.extents[array.name] = array.extents
            self.private[array.name] = ()

    # ----------------------------------------------------------------- expressions

    def value(self, expr: Expr) -> int | bool:
        match expr:
            case Const(value=value, dtype=dtype):
                if dtype.is_float:
                    raise Data
                return value  # type: ignore[return-value]
            case Iter(name=name):
                return self.values[name]
            case Symbol(name=name):
                if name not in self.values:
                    raise Data
                return self.values[name]
            case Cast(operand=operand, dtype=dtype):
                if dtype.is_float:
                    raise Data
                return self.value(operand)
            case Unary(op=op, operand=operand):
                inner = self.value(operand)
                return -inner if op == "neg" else not inner
            case Binary(op=op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                return {
                    "add": lambda: a + b,
                    "sub": lambda: a - b,
                    "mul": lambda: a * b,
                    "floordiv": lambda: a // b if b else 0,
                    "mod": lambda: a % b if b else 0,
                    "min": lambda: min(a, b),
                    "max": lambda: max(a, b),
                    "and": lambda: a and b,
                    "or": lambda: a or b,
                }[op]()
            case Compare(op=op, left=left, right=right):
                a, b = self.value(left), self.value(right)
                return {
                    "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
                }[op]  # fmt: skip
            case Select(condition=condition, then=then, otherwise=otherwise):
                return self.value(then) if self.value(condition) else self.value(otherwise)
            case Call() | Load():
                raise Data
            case _:
                raise Data

    def possible(self, test: Expr) -> bool:
        """False where a part of the condition that needs no data already fails."""
        if isinstance(test, Binary) and test.op == "and":
            return self.possible(test.left) and self.possible(test.right)
        try:
            return bool(self.value(test))
        except Data:
            return True

    def element(self, load: Load) -> Element | None:
        name = load.array
        if load.swapped is not None and self.value(load.swapped.parity) == 1:
            name = load.swapped.array
        index: list[int] = [self.values[owner] for owner in self.private[name]]
        for subscript, extent in zip(load.index, self.extents.get(name, ()), strict=True):
            at: int | None = int(self.value(subscript))
            if load.mode:
                at = edge(load.mode, at, int(self.value(extent)))
            if at is None:
                return None
            index.append(at)
        return name, tuple(index)

    def reads(self, expr: Expr, on: bool = True) -> list[Element | None]:
        match expr:
            case Load():
                found = [each for sub in expr.index for each in self.reads(sub, on)]
                return [*found, self.element(expr) if on else None]
            case Select(condition=condition, then=then, otherwise=otherwise):
                try:
                    chosen = bool(self.value(condition))
                    arms = (chosen, not chosen)
                except Data:
                    arms = (True, True)
                return [
                    *self.reads(condition, on),
                    *self.reads(then, on and arms[0]),
                    *self.reads(otherwise, on and arms[1]),
                ]
            case Unary(operand=operand) | Cast(operand=operand):
                return self.reads(operand, on)
            case Binary(left=left, right=right) | Compare(left=left, right=right):
                return self.reads(left, on) + self.reads(right, on)
            case Call(arguments=arguments):
                return [each for argument in arguments for each in self.reads(argument, on)]
            case Const() | Iter() | Symbol():
                return []
            case _:
                return self.reads(expr.a, on) + self.reads(expr.b, on) + self.reads(expr.c, on)

    # ------------------------------------------------------------------ statements

    def iteration(self) -> tuple[int, ...]:
        return tuple(self.values[name] for name in self.order)

    def run(
        self, body: tuple[Stmt, ...], condition: tuple[Expr, ...] = (), happens: bool = True
    ) -> Iterator[Event]:
        for stmt in body:
            match stmt:
                case For(iterator=name, lower=lower, upper=upper, step=step, body=inner):
                    bounds = range(int(self.value(lower)), int(self.value(upper)), step)
                    self.order.append(name)
                    for self.values[name] in bounds:
                        yield from self.run(inner, condition, happens)
                    self.order.pop()
                    self.values.pop(name, None)
                case If(condition=test, then=then, otherwise=otherwise):
                    try:
                        chosen = bool(self.value(test))
                    except Data:
                        chosen = self.possible(test) and self.decide("if", self.iteration())
                        yield from self.run(then, (*condition, test), happens and chosen)
                        yield from self.run(otherwise, (*condition, test), happens and not chosen)
                    else:
                        yield from self.run(then if chosen else otherwise, condition, happens)
                case Block(body=inner):
                    yield from self.run(inner, condition, happens)
                case Temp(name=name, extents=extents):
                    self.private[name] = tuple(self.order)
                    self.extents[name] = extents
                case Define(name=name, value=value, label=label):
                    self.private[name] = tuple(self.order)
                    yield self.event(label, value, Load(name, (), stmt.dtype), (), happens)
                case Store(target=target, value=value, label=label):
                    yield self.event(label, value, target, condition, happens)
                case Reduce():
                    yield from self.reduce(stmt, condition, happens)
                case Assume():
                    pass

    def reduce(
        self, stmt: Reduce, condition: tuple[Expr, ...], happens: bool
    ) -> Iterator[Event]:
        self.private[stmt.name] = tuple(self.order)
        target = Load(stmt.name, (), stmt.dtype)
        start = self.element(target)
        assert start is not None
        yield Event(f"{stmt.label}.init", self.iteration(), [], start, True, happens)

        def points(depth: int) -> Iterator[Event]:
            if depth == len(stmt.ranges):
                yield from self.run(stmt.body, condition, happens)
                yield self.event(stmt.label, stmt.value, target, (), happens)
                return
            each = stmt.ranges[depth]
            bounds = range(int(self.value(each.lower)), int(self.value(each.upper)), each.step)
            self.order.append(each.iterator)
            for self.values[each.iterator] in bounds:
                yield from points(depth + 1)
            self.order.pop()

        yield from points(0)

    def event(
        self, label: str, value: Expr, target: Load, condition: tuple[Expr, ...], happens: bool
    ) -> Event:
        reads = [read for test in condition for read in self.reads(test)] + self.reads(value)
        write = self.element(target)
        assert write is not None
        return Event(label, self.iteration(), reads, write, False, happens)


def trace(
    kernel: Kernel,
    sizes: Mapping[str, int],
    decide: Callable[[str, tuple[int, ...]], bool] = lambda name, at: True,
) -> list[Event]:
    """Every statement instance, in program order."""
    return list(Walker(kernel, sizes, decide).run(kernel.body))


Pairs = dict[tuple[str, str, str, str], set[tuple[tuple[int, ...], tuple[int, ...]]]]


@dataclass
class Found:
    """Pairs by (kind, array, source, sink); the last writer of each element; and the source of
    each read: (statement, iteration, read number) -> source instance or None."""

    pairs: Pairs
    last: dict[Element, Instance]
    sources: dict[tuple[str, tuple[int, ...], int], Instance | None]


def find(events: list[Event]) -> Found:
    """The definitions, word for word."""
    pairs: Pairs = defaultdict(set)
    last: dict[Element, Instance] = {}
    readers: dict[Element, list[Instance]] = defaultdict(list)
    sources: dict[tuple[str, tuple[int, ...], int], Instance | None] = {}

    def note(kind: str, element: Element, source: Instance, sink: Instance) -> None:
        if source != sink:
            pairs[kind, element[0], source[0], sink[0]].add((source[1], sink[1]))

    for event in events:
        if not event.happens:
            continue
        here = (event.statement, event.iteration)
        for number, element in enumerate(event.reads):
            if element is None:
                continue
            writer = last.get(element)
            sources[event.statement, event.iteration, number] = writer
            if writer is not None:
                note("flow", element, writer, here)
            readers[element].append(here)
        for reader in readers.pop(event.write, []):
            note("anti", event.write, reader, here)
        if event.write in last:
            note("output", event.write, last[event.write], here)
        last[event.write] = here
    return Found(dict(pairs), last, sources)
