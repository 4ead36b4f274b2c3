"""`STEM.affine.mlir`: a kernel as it was written, in upstream's `affine`, `memref`, `arith`, `math`.

For reading and for other tools: nothing is compiled from it. Bounds, conditions and subscripts
are affine operations wherever affine maps can say them; edge modes, swaps and the rest are `scf`,
`memref` and `arith`. A bool is an i1, sizes are `index` arguments after the parameters, and the
math functions are `math`'s (the module that is compiled calls ours instead).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import assert_never

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import not_lowered
from loopfuse.codegen.build import INDEX, Builder
from loopfuse.codegen.ir import AffineMap, Block, Operation, Type, Value, module_of
from loopfuse.codegen.mlir.print import print_module
from loopfuse.codegen.mlir.scalar import value_type
from loopfuse.codegen.upstream.fused import emit_fused
from loopfuse.codegen.upstream.maps import Applied
from loopfuse.codegen.upstream.values import Array, Values, memref_of
from loopfuse.lang import nodes
from loopfuse.lang.index_text import to_python
from loopfuse.lang.walk import expressions, walk_expr, walk_stmts


def emit_affine(kernel: nodes.Kernel) -> str:
    """The text of a module with one `func.func`.

    before: for i in 1..N-1: b[i] = a[i-1] + a[i+1]
    after:  affine.for %i = 1 to affine_map<()[s0] -> (s0 - 1)>()[%N] { affine.load %a[%i - 1] ... }
    """
    return print_module(module_of([_function(kernel)]))


def _function(kernel: nodes.Kernel) -> Operation:
    kinds: list[Type] = []
    notes: list[list[str]] = []
    for param in kernel.params:
        if isinstance(param, nodes.ArrayParam):
            extents = ", ".join(f'"{to_python(each)}"' for each in param.extents)
            kinds.append(memref_of(param.dtype, param.extents))
            words = [f'loopfuse.mode = "{param.mode}"', f"loopfuse.extents = [{extents}]"]
            notes.append([*words, *_unsigned(param.dtype)])
        else:
            kinds.append(value_type(param.dtype))
            notes.append([*_unsigned(param.dtype), *(["loopfuse.const"] if param.is_const else [])])
    kinds += [INDEX] * len(kernel.sizes)
    notes += [[] for _ in kernel.sizes]
    block = Block(kinds)
    builder = Builder(block)
    emitter = _Statements(builder)
    for param, argument in zip(kernel.params, block.args, strict=False):
        if isinstance(param, nodes.ArrayParam):
            emitter.arrays[param.name] = Array(argument, param.extents)
        else:
            emitter.scalars[param.name] = argument
    emitter.symbols.update(zip(kernel.sizes, block.args[len(kernel.params) :], strict=True))
    used = {
        each.name
        for stmt in walk_stmts(kernel.body)
        for expression in expressions(stmt)
        for each in walk_expr(expression)
        if isinstance(each, nodes.Symbol)
    }
    for scalar in kernel.scalars:
        if scalar.dtype is DType.I64 and scalar.name in used:
            value = emitter.scalars[scalar.name]
            emitter.symbols[scalar.name] = builder.convert("index_cast", value, INDEX)
    emitter.statements(kernel.body)
    block.add(Operation("func.return"))
    builder.close()
    properties = {
        "sym_name": _symbol(kernel.name), "outputs": (), "arg_attrs": notes,
        "hints": [*(param.name for param in kernel.params), *kernel.sizes],
    }  # fmt: skip
    return Operation("func.func", properties=properties, blocks=(block,))


_NEUTRAL: dict[str, tuple[float | int, int]] = {
    "sum": (0, 0),
    "prod": (1, 1),
    "any": (0, 0),
    "all": (1, 1),
}


class _Statements(Values):
    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self.blocks = 0
        self.block: str | None = None

    def statements(self, body: tuple[nodes.Stmt, ...]) -> None:
        """Each of `body`, names declared inside it forgotten afterwards."""
        arrays, scalars = dict(self.arrays), dict(self.scalars)
        for stmt in body:
            self.statement(stmt)
        self.arrays, self.scalars = arrays, scalars

    def statement(self, stmt: nodes.Stmt) -> None:
        """One statement."""
        match stmt:
            case nodes.For(iterator=iterator, lower=lower, upper=upper, step=step, body=body):
                notes = ["loopfuse.parallel"] if stmt.parallel else []
                if self.block is not None:
                    notes.append(self.block)
                    self.block = None
                self.loop(iterator, lower, upper, step, lambda: self.statements(body), notes)
            case nodes.If(condition=condition, then=then, otherwise=otherwise):
                self.condition(condition, then, otherwise)
            case nodes.Store(target=target, value=value):
                self.store(target, self.value(value))
            case nodes.Define(name=name, dtype=dtype, value=value, label=label):
                result = self.value(value)
                self.declare(name, dtype, (), "" if label else "loopfuse.bound")
                self.store(nodes.Load(name, (), dtype), result)
            case nodes.Reduce():
                self.reduce(stmt)
            case nodes.Temp(name=name, dtype=dtype, extents=extents):
                self.declare(name, dtype, extents)
            case nodes.Assume(condition=condition):
                self.put(Operation("cf.assert", (self.value(condition),), (), {"message": "assumed"}))
            case nodes.Block(kind=kind, body=body):
                # Names declared in a `fuse:` block live on after it.
                self.blocks += 1
                number = self.blocks
                for inner in body:
                    self.block = f"loopfuse.{kind} = {number}"
                    self.statement(inner)
                self.block = None
            case _:
                assert_never(stmt)

    def declare(
        self, name: str, dtype: DType, extents: tuple[nodes.Expr, ...], note: str = ""
    ) -> None:
        """A `memref.alloc` (`alloca` for a scalar). The note `loopfuse.let`: the program gave a
        reduction this name, which is then no part of an expression; `loopfuse.bound`: a bound
        that is data, which has no name in the program."""
        sizes = [self.index(extent) for extent in extents if not isinstance(extent, nodes.Const)]
        notes = [*([note] if note else []), *_unsigned(dtype)]
        properties = {"hint": _NUMBERED.sub("", name), "notes": notes}
        word = "memref.alloc" if extents else "memref.alloca"
        memref = self.builder.add(Operation(word, sizes, (memref_of(dtype, extents),), properties))
        self.arrays[name] = Array(memref, extents)

    def loop(
        self,
        iterator: str,
        lower: nodes.Expr,
        upper: nodes.Expr,
        step: int,
        body: Callable[[], None],
        notes: list[str] | None = None,
    ) -> None:
        """`affine.for`, or `scf.for` where a bound is not affine; a loop that counts down is one
        that counts its iterations up."""
        name = _NUMBERED.sub("", iterator)
        block = Block((INDEX,))
        ends = self.ends(lower, upper, step)
        if ends is None:
            operation = self.serial_loop(block, name, iterator, lower, upper, step, body)
            operation.properties = {**operation.properties, "notes": notes or []}
            return
        (low, first), (high, last) = ends
        count = name if step > 0 else f"{name}_count"
        properties = {"lower": low, "upper": high, "step": max(step, 1), "hint": count, "notes": notes or []}

        def run() -> None:
            self.iterators[iterator] = block.args[0] if step > 0 else self.counted(name, block.args[0], lower, step)
            body()
            del self.iterators[iterator]

        self.builder.into(block, run)
        self.put(Operation("affine.for", (*first, *last), (), properties, (block,)))

    def ends(
        self, lower: nodes.Expr, upper: nodes.Expr, step: int
    ) -> tuple[Applied, Applied] | None:
        """The bounds of an `affine.for`, of the iterations where it counts down; None where one is not affine."""
        low, high = self.bound(lower, "max"), self.bound(upper, "min")
        if step < 0:
            # lower, lower - |s|, ... while above upper: ceil((lower - upper) / |s|) iterations.
            gap = nodes.Binary("sub", lower, upper, DType.I64)
            round_up = nodes.Binary("add", gap, nodes.Const(-step - 1, DType.I64), DType.I64)
            size = nodes.Const(-step, DType.I64)
            low = AffineMap(0, 0, ("0",)), ()
            high = self.bound(nodes.Binary("floordiv", round_up, size, DType.I64), "min")
        return None if low is None or high is None else (low, high)

    def counted(self, name: str, count: Value, lower: nodes.Expr, step: int) -> Value:
        """The iterator of a loop that counts down, in its iteration `count`."""
        found = self.bound(lower, "max")
        assert found is not None
        where, operands = found
        if isinstance(lower, nodes.Const):
            start = self.constant_index(int(lower.value))
        else:
            start = self.builder.add(Operation("affine.apply", operands, (INDEX,), {"map": where}))
        moved = {"map": AffineMap(2, 0, (f"d1 - d0 * {-step}",)), "hint": name}
        return self.builder.add(Operation("affine.apply", (count, start), (INDEX,), moved))

    def serial_loop(
        self,
        block: Block,
        name: str,
        iterator: str,
        lower: nodes.Expr,
        upper: nodes.Expr,
        step: int,
        body: Callable[[], None],
    ) -> Operation:
        """`scf.for`, whose iterator affine operations may not use."""
        first, last = self.index(lower), self.index(upper)
        size = self.constant_index(abs(step))
        head = (first, last, size)
        if step < 0:
            gap = self.builder.binary("subi", first, last)
            head = (self.constant_index(0), self.builder.binary("ceildivsi", gap, size), self.constant_index(1))

        def run() -> None:
            count = block.args[0]
            if step > 0:
                self.others[iterator] = count
            else:
                moved = (first, self.builder.binary("muli", count, size))
                self.others[iterator] = self.builder.add(Operation("arith.subi", moved, (INDEX,), {"hint": name}))
            body()
            del self.others[iterator]
            self.put(Operation("scf.yield"))

        self.builder.into(block, run)
        hint = name if step > 0 else f"{name}_count"
        operation = Operation("scf.for", head, (), {"hint": hint}, (block,))
        self.put(operation)
        return operation

    def condition(
        self,
        condition: nodes.Expr,
        then: tuple[nodes.Stmt, ...],
        otherwise: tuple[nodes.Stmt, ...],
    ) -> None:
        """`affine.if` where the condition is a conjunction of affine comparisons, else `scf.if`."""
        found = self.integer_set(condition)
        value = self.value(condition) if found is None else None

        def arm(body: tuple[nodes.Stmt, ...]) -> Block:
            return self.builder.into(Block(), lambda: self.statements(body))

        arms = (arm(then), arm(otherwise)) if otherwise else (arm(then),)
        if found is None:
            assert value is not None
            self.put(Operation("scf.if", (value,), blocks=arms))
        else:
            where, operands = found
            self.put(Operation("affine.if", operands, (), {"set": where}, arms))

    def reduce(self, stmt: nodes.Reduce) -> None:
        """An accumulator, set to the neutral element, and the loops over its ranges."""
        if stmt.op in ("argmin", "argmax"):
            raise not_lowered(stmt.op)
        hoisted = _HOISTED.search(stmt.name)
        self.declare(stmt.name, stmt.dtype, (), "" if hoisted else "loopfuse.let")
        place = nodes.Load(stmt.name, (), stmt.dtype)
        self.store(place, self.value(nodes.Const(_neutral(stmt.op, stmt.dtype), stmt.dtype)))

        def inside(number: int) -> None:
            if number == len(stmt.ranges):
                for inner in stmt.body:
                    self.statement(inner)
                self.store(place, self.value(stmt.value))
                return
            each = stmt.ranges[number]
            self.loop(each.iterator, each.lower, each.upper, each.step, lambda: inside(number + 1))

        arrays, scalars = dict(self.arrays), dict(self.scalars)
        inside(0)
        self.arrays, self.scalars = arrays, scalars


def _neutral(op: str, dtype: DType) -> float | int:
    if op in _NEUTRAL:
        return float(_NEUTRAL[op][0]) if dtype.is_float else _NEUTRAL[op][1]
    sign = 1 if op == "min" else -1
    if dtype.is_float:
        return sign * float("inf")
    high = (1 << (dtype.bits - dtype.is_signed)) - 1
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    return high if op == "min" else low


_HOISTED = re.compile(r"\.(sum|prod|min|max|any|all|or|and)\d*$")
"""The names of reductions that are a part of an expression."""


_NUMBERED = re.compile(r"\.\d+$")
"""What the core puts behind a name that is declared again; here a scope tells them apart."""


def _unsigned(dtype: DType) -> list[str]:
    """MLIR's integers have no sign: a note says which are unsigned."""
    return [f'loopfuse.dtype = "{dtype.value}"'] if dtype.is_unsigned else []


def _symbol(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


__all__ = ["emit_affine", "emit_fused"]
