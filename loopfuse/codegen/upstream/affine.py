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
from loopfuse.codegen.upstream.affine_value import FAILED, ValueText, type_text
from loopfuse.codegen.upstream.fused import emit_fused
from loopfuse.lang import nodes
from loopfuse.lang.index_text import to_python
from loopfuse.lang.walk import expressions, walk_expr, walk_stmts


def emit_affine(kernel: nodes.Kernel) -> str:
    """The text of a module with one `func.func`.

    before: for i in 1..N-1: b[i] = a[i-1] + a[i+1]
    after:  affine.for %i = 1 to affine_map<()[s0] -> (s0 - 1)>()[%N] { affine.load %a[%i - 1] ... }
    """
    return _AffineText(kernel).module()


_NEUTRAL: dict[str, tuple[float | int, int]] = {
    "sum": (0, 0),
    "prod": (1, 1),
    "any": (0, 0),
    "all": (1, 1),
}


class _AffineText(ValueText):
    def __init__(self, kernel: nodes.Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.blocks = 0
        self.block: str | None = None

    def module(self) -> str:
        """Head, body and foot."""
        arguments: list[str] = []
        for param in self.kernel.params:
            name = self.fresh_name(param.name)
            notes = _unsigned(param.dtype)
            if isinstance(param, nodes.ArrayParam):
                kind = self.array_type(param.dtype, param.extents)
                self.arrays[param.name] = (name, kind, param.extents)
                extents = ", ".join(f'"{_extent(each)}"' for each in param.extents)
                notes = [f'loopfuse.mode = "{param.mode}"', f"loopfuse.extents = [{extents}]", *notes]
            else:
                kind = type_text(param.dtype)
                self.scalars[param.name] = name
                notes += ["loopfuse.const"] if param.is_const else []
            arguments.append(f"{name}: {kind}{_attributes(notes)}")
        for size in self.kernel.sizes:
            name = self.fresh_name(size)
            self.symbols[size] = name
            arguments.append(f"{name}: index")
        self.line("module {")
        self.indent += "  "
        self.line(f"func.func @{_symbol(self.kernel.name)}({', '.join(arguments)}) {{")
        self.indent += "  "
        used = {
            each.name
            for stmt in walk_stmts(self.kernel.body)
            for expression in expressions(stmt)
            for each in walk_expr(expression)
            if isinstance(each, nodes.Symbol)
        }
        for scalar in self.kernel.scalars:
            if scalar.dtype is DType.I64 and scalar.name in used:
                value = self.scalars[scalar.name]
                self.symbols[scalar.name] = self.put(f"arith.index_cast {value} : i64 to index")
        self.statements(self.kernel.body)
        self.line("return")
        self.indent = self.indent[:-2]
        self.line("}")
        self.indent = self.indent[:-2]
        self.line("}")
        return "\n".join(self.lines) + "\n"

    # -------------------------------------------------------------------------- statements

    def statements(self, body: tuple[nodes.Stmt, ...]) -> None:
        """Each of `body`, names declared inside it forgotten afterwards."""
        arrays, scalars, taken = dict(self.arrays), dict(self.scalars), set(self.taken)
        for stmt in body:
            self.statement(stmt)
        self.arrays, self.scalars, self.taken = arrays, scalars, taken

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
                self.line(f'cf.assert {self.value(condition)}, "assumed"')
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
        kind = self.array_type(dtype, extents)
        sizes = ", ".join(
            self.index(extent) for extent in extents if not isinstance(extent, nodes.Const)
        )
        word = "alloc" if extents else "alloca"
        value = self.fresh_name(_NUMBERED.sub("", name))
        notes = _attributes(([note] if note else []) + _unsigned(dtype))
        self.line(f"{value} = memref.{word}({sizes}){notes} : {kind}")
        self.arrays[name] = (value, kind, extents)

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
        taken = set(self.taken)
        name = self.fresh_name(_NUMBERED.sub("", iterator))
        if step < 0:
            # lower, lower - |s|, ... while above upper: ceil((lower - upper) / |s|) iterations.
            gap = nodes.Binary("sub", lower, upper, DType.I64)
            round_up = nodes.Binary("add", gap, nodes.Const(-step - 1, DType.I64), DType.I64)
            size = nodes.Const(-step, DType.I64)
            count = nodes.Binary("floordiv", round_up, size, DType.I64)
            high = self.bound(count, "min")
            head = f"{name}_count = 0 to {high} {{"
        else:
            low, high = self.bound(lower, "max"), self.bound(upper, "min")
            high = high if low != FAILED else FAILED
            head = f"{name} = {low} to {high}{f' step {step}' if step != 1 else ''} {{"
        if high != FAILED:
            self.line(f"affine.for {head}")
            self.indent += "  "
            if step < 0:
                start = self.bound(lower, "max")
                if start.startswith("affine_map"):
                    start = self.put(f"affine.apply {start}")
                else:
                    start = self.constant_index(int(start))
                moved = f"affine_map<(d0, d1) -> (d1 - d0 * {-step})>({name}_count, {start})"
                self.line(f"{name} = affine.apply {moved}")
            self.iterators[iterator] = name
        else:
            self.serial_head(name, lower, upper, step)
            self.others[iterator] = name
        body()
        self.iterators.pop(iterator, None)
        self.others.pop(iterator, None)
        self.taken = taken
        self.indent = self.indent[:-2]
        self.line("}" + _attributes(notes or []))

    def serial_head(self, name: str, lower: nodes.Expr, upper: nodes.Expr, step: int) -> None:
        """`scf.for`, whose iterator affine operations may not use."""
        first, last = self.index(lower), self.index(upper)
        if step > 0:
            self.line(f"scf.for {name} = {first} to {last} step {self.constant_index(step)} {{")
            self.indent += "  "
            return
        size = self.constant_index(-step)
        count = self.put(
            f"arith.ceildivsi {self.index_operation('sub', first, last)}, {size} : index"
        )
        zero, one = self.constant_index(0), self.constant_index(1)
        self.line(f"scf.for {name}_count = {zero} to {count} step {one} {{")
        self.indent += "  "
        moved = self.put(f"arith.muli {name}_count, {size} : index")
        self.line(f"{name} = arith.subi {first}, {moved} : index")

    def condition(
        self,
        condition: nodes.Expr,
        then: tuple[nodes.Stmt, ...],
        otherwise: tuple[nodes.Stmt, ...],
    ) -> None:
        """`affine.if` where the condition is a conjunction of affine comparisons, else `scf.if`."""
        text = self.integer_set(condition)
        if text == FAILED:
            text = f"scf.if {self.value(condition)}"
        else:
            text = f"affine.if {text}"
        self.line(f"{text} {{")
        self.indent += "  "
        self.statements(then)
        self.indent = self.indent[:-2]
        if otherwise:
            self.line("} else {")
            self.indent += "  "
            self.statements(otherwise)
            self.indent = self.indent[:-2]
        self.line("}")

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

        arrays, scalars, taken = dict(self.arrays), dict(self.scalars), set(self.taken)
        inside(0)
        self.arrays, self.scalars, self.taken = arrays, scalars, taken


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


def _attributes(notes: list[str]) -> str:
    return f" {{{', '.join(notes)}}}" if notes else ""


def _extent(extent: nodes.Expr) -> str:
    """An extent as a Python expression in the sizes."""
    return to_python(extent)


def _symbol(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


__all__ = ["emit_affine", "emit_fused"]
