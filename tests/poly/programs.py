"""Random kernels for the dependence tests, from a seed: shared and transposed subscripts, steps
(also negative), triangular loops, imperfect nests, guards, `//` and `%`, time loops, edge modes,
reductions, scalars and swaps. Subscripts may leave the arrays: nothing here is executed.
"""

from __future__ import annotations

import random

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import (
    ArrayParam,
    Binary,
    Compare,
    Const,
    Define,
    Expr,
    Fma,
    For,
    If,
    Iter,
    Kernel,
    Load,
    Range,
    Reduce,
    Select,
    Stmt,
    Store,
    Swapped,
    Symbol,
    Temp,
    Unary,
    combine,
    integer,
)

F = DType.F64
N, M = Symbol("N", DType.I64), Symbol("M", DType.I64)
ZERO = Const(0.0, F)


def compare(op: str, left: Expr, right: Expr) -> Expr:
    return Compare(op, left, right)


def both(op: str, left: Expr, right: Expr) -> Expr:
    return Binary(op, left, right, DType.BOOL)


class Generator:
    """One random kernel."""

    def __init__(self, seed: int, data_guards: bool = False) -> None:
        self.random = random.Random(seed)
        self.iterators: list[str] = []
        self.counts = {"i": 0, "S": 0, "x": 0}
        self.scalars: list[str] = []
        self.mutable: list[str] = []
        self.data_guards = data_guards
        self.time: str | None = None

    def fresh(self, prefix: str) -> str:
        self.counts[prefix] += 1
        return f"{prefix}{self.counts[prefix]}"

    def pick(self, *options: object) -> object:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    # ---------------------------------------------------------------- expressions

    def iterator(self) -> Expr:
        if not self.iterators:
            return integer(self.random.randint(0, 2))
        return Iter(self.random.choice(self.iterators))

    def subscript(self) -> Expr:
        i, j = self.iterator(), self.iterator()
        offset = integer(self.random.randint(-2, 2))
        return self.random.choice(
            [
                lambda: i,
                lambda: i,
                lambda: combine("add", i, offset),
                lambda: combine("add", i, offset),
                lambda: combine("add", i, j),
                lambda: combine("sub", i, j),
                lambda: combine("sub", combine("sub", N, integer(1)), i),
                lambda: combine("add", combine("mul", integer(2), i), offset),
                lambda: combine("floordiv", combine("add", i, offset), integer(2)),
                lambda: combine("mod", combine("add", i, offset), integer(self.random.randint(2, 3))),
                lambda: combine("mod", combine("add", i, offset), N),
                lambda: combine("min", i, combine("add", j, offset)),
                lambda: combine("max", combine("sub", i, integer(1)), integer(0)),
                lambda: integer(self.random.randint(0, 2)),
            ]
        )()

    def load(self, array: str | None = None, may_have_mode: bool = True) -> Load:
        name = array or str(self.pick("a", "a", "b", "c", "c", "t"))
        mode = ""
        if may_have_mode and self.chance(0.25):
            mode = str(self.pick("clamp", "wrap", "reflect", "symmetric", "zero"))
        rank = 2 if name == "c" else 1
        if mode:
            index: tuple[Expr, ...] = tuple(
                combine("add", self.iterator(), integer(self.random.randint(-2, 2)))
                for _ in range(rank)
            )
        elif rank == 2 and len(self.iterators) >= 2 and self.chance(0.5):
            first, second = self.random.sample(self.iterators, 2)
            index = (
                combine("add", Iter(first), integer(self.random.randint(-1, 1))),
                combine("add", Iter(second), integer(self.random.randint(-1, 1))),
            )
        else:
            index = tuple(self.subscript() for _ in range(rank))
        swapped = None
        if name in ("a", "b") and self.time is not None and self.chance(0.15):
            other = "b" if name == "a" else "a"
            swapped = Swapped(other, combine("mod", Iter(self.time), integer(2)))
        return Load(name, index, F, mode, swapped)

    def value(self) -> Expr:
        terms: list[Expr] = [self.load() for _ in range(self.random.randint(1, 2))]
        if self.scalars and self.chance(0.5):
            terms.append(Load(self.random.choice(self.scalars), (), F))
        out: Expr = terms[0]
        for term in terms[1:]:
            out = Binary(str(self.pick("add", "mul")), out, term, F)
        if self.chance(0.15):
            return Select(self.condition(), out, self.load(), F)
        if self.chance(0.1):
            return Fma(self.load(), Const(2.0, F), out, F)
        return Unary("neg", out, F) if self.chance(0.1) else out

    def condition(self, depth: int = 0) -> Expr:
        i = self.iterator()
        kind = self.random.randint(0, 6 if depth < 2 else 3)
        if kind <= 1:
            return compare(str(self.pick("lt", "ge", "ne", "eq")), i, self.subscript())
        if kind == 2:
            return compare("eq", combine("mod", i, integer(2)), integer(0))
        if kind == 3:
            return compare("gt", i, integer(1))
        if kind == 4:
            return both("and", self.condition(depth + 1), self.condition(depth + 1))
        if kind == 5:
            return both("or", self.condition(depth + 1), self.condition(depth + 1))
        return Unary("not", self.condition(depth + 1), DType.BOOL)

    # ----------------------------------------------------------------- statements

    def bounds(self) -> tuple[Expr, Expr, int]:
        size = self.pick(N, N, M)
        assert isinstance(size, Symbol)
        outer = self.iterator() if self.iterators else integer(1)
        return self.random.choice(
            [
                (integer(0), size, 1),
                (integer(0), size, 1),
                (integer(0), size, 1),
                (integer(1), combine("sub", size, integer(1)), 1),
                (combine("sub", size, integer(1)), integer(-1), -1),
                (integer(0), size, 2),
                (size, integer(0), -2),
                (integer(0), combine("add", outer, integer(1)), 1),
                (outer, size, 1),
                (outer, combine("add", size, integer(1)), 2),
                (integer(0), combine("floordiv", combine("add", size, integer(1)), integer(2)), 1),
                (integer(0), combine("min", size, integer(3)), 1),
                (combine("mod", outer, integer(2)), size, 2),
            ]
        )

    def store(self) -> list[Stmt]:
        line = self.counts["S"] + 1
        span = Span(line, 1, line, 2)
        if self.mutable and self.chance(0.3):
            name = self.random.choice(self.mutable)
            target = Load(name, (), F)
            return [Store(target, Binary("add", target, self.load(), F), "sum", self.fresh("S"), span=span)]
        target = self.load(str(self.pick("a", "b", "c", "t")), may_have_mode=False)
        if self.chance(0.2):
            value: Expr = Binary("add", target, self.load(), F)
            return [Store(target, value, "sum", self.fresh("S"), span=span)]
        before: list[Stmt] = []
        value = self.value()
        if self.chance(0.15):
            name = self.fresh("x")
            before.append(self.reduce(name))
            value = Binary("add", value, Load(name, (), F), F)
        return [*before, Store(target, value, "", self.fresh("S"), span=span)]

    def reduce(self, name: str) -> Stmt:
        label = self.fresh("S")
        iterator = self.fresh("i")
        lower, upper, step = self.bounds()
        self.iterators.append(iterator)
        accumulator = Load(name, (), F)
        value = Binary("add", accumulator, self.value(), F)
        self.iterators.pop()
        return Reduce(name, F, "sum", (Range(iterator, lower, upper, step),), (), value, label)

    def body(self, depth: int) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        scalars, mutable = list(self.scalars), list(self.mutable)
        if self.iterators and self.chance(0.2):
            name = self.fresh("x")
            changes = self.chance(0.5)
            out.append(Define(name, F, self.value(), changes, self.fresh("S")))
            self.scalars.append(name)
            if changes:
                self.mutable.append(name)
        for _ in range(self.random.choice([1, 1, 1, 2, 2, 3])):
            if depth < 3 and self.chance(0.65 if not self.iterators else 0.4):
                out.append(self.loop(depth + 1))
            elif self.iterators and self.chance(0.25):
                test = self.condition()
                if self.data_guards and self.chance(0.6):
                    test = compare("gt", self.load(), ZERO)
                    if self.chance(0.3):
                        test = both("and", self.condition(), test)
                then = tuple(self.store())
                otherwise = tuple(self.store()) if self.chance(0.4) else ()
                out.append(If(test, then, otherwise))
            else:
                out += self.store()
        self.scalars, self.mutable = scalars, mutable
        return tuple(out)

    def loop(self, depth: int) -> Stmt:
        lower, upper, step = self.bounds()
        iterator = self.fresh("i")
        is_time = depth == 1 and self.chance(0.3)
        if is_time:
            self.time, lower, upper, step = iterator, integer(0), M, 1
        self.iterators.append(iterator)
        body = self.body(depth)
        self.iterators.pop()
        if is_time:
            self.time = None
        return For(iterator, lower, upper, step, body)

    def kernel(self) -> Kernel:
        # One more than the size, so that the edge modes have an element to read where it is 0.
        # All alike, so that `% N` is inside wherever it stands.
        rows = combine("add", N, integer(1))
        body: list[Stmt] = [Temp("t", F, (rows,))]
        body += self.body(0)
        while self.counts["S"] < 2:
            body.append(self.loop(1))
        params = (
            ArrayParam("a", F, (rows,), "inout"),
            ArrayParam("b", F, (rows,), "out"),
            ArrayParam("c", F, (rows, rows), "inout"),
        )
        return Kernel("random", params, ("N", "M"), tuple(body))


def random_kernel(seed: int, data_guards: bool = False) -> Kernel:
    """The kernel of this seed."""
    return Generator(seed, data_guards).kernel()
