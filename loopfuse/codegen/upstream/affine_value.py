"""Expressions as upstream MLIR text, for `affine`."""

from __future__ import annotations

from typing import assert_never

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import not_lowered
from loopfuse.codegen.build import VALUE
from loopfuse.codegen.mlir.print import print_float, print_type
from loopfuse.lang import nodes

FAILED = ""
"""What the affine printers give for an expression that is not affine."""

_FLOAT = {
    "add": "arith.addf",
    "sub": "arith.subf",
    "mul": "arith.mulf",
    "div": "arith.divf",
    "min": "arith.minimumf",
    "max": "arith.maximumf",
    "fmin": "arith.minnumf",
    "fmax": "arith.maxnumf",
    "pow": "math.powf",
    "atan2": "math.atan2",
    "copysign": "math.copysign",
    "fmod": "arith.remf",
}
_INTEGER = {
    "add": "arith.addi",
    "sub": "arith.subi",
    "mul": "arith.muli",
    "and": "arith.andi",
    "or": "arith.ori",
    "xor": "arith.xori",
}
_CALLS = {"abs": "absf", "round": "roundeven"}


def type_text(dtype: DType) -> str:
    """The MLIR type that values of `dtype` have; a bool is an i1."""
    kind = VALUE.get(dtype)
    if kind is None:
        raise not_lowered(f"{dtype.value} values")
    return print_type(kind)


def affine_text(expr: nodes.Expr, names: dict[str, str]) -> str:
    """`expr` as an affine expression over `names`, or FAILED."""
    match expr:
        case nodes.Const(value=value):
            return str(int(value))
        case nodes.Iter(name=name) | nodes.Symbol(name=name):
            return names.get(name, FAILED)
        case nodes.Unary(op="neg", operand=operand):
            inner = affine_text(operand, names)
            return f"(-1 * {inner})" if inner else FAILED
        case nodes.Binary(op="add" | "sub" as op, left=left, right=right):
            a, b = affine_text(left, names), affine_text(right, names)
            return f"({a} {'+' if op == 'add' else '-'} {b})" if a and b else FAILED
        case nodes.Binary(op="mul", left=left, right=right):
            if not isinstance(left, nodes.Const) and not isinstance(right, nodes.Const):
                return FAILED
            a, b = affine_text(left, names), affine_text(right, names)
            return f"({a} * {b})" if a and b else FAILED
        case nodes.Binary(op="floordiv" | "mod" as op, left=left, right=nodes.Const(value=value)):
            a = affine_text(left, names)
            return f"({a} {op} {int(value)})" if a and int(value) > 0 else FAILED
        case _:
            return FAILED


class ValueText:
    """Lines of text, names in scope, and the values of expressions."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = ""
        self.count = 0
        self.taken: set[str] = set()
        self.iterators: dict[str, str] = {}
        self.others: dict[str, str] = {}
        self.symbols: dict[str, str] = {}
        self.scalars: dict[str, str] = {}
        self.arrays: dict[str, tuple[str, str, tuple[nodes.Expr, ...]]] = {}

    def line(self, text: str) -> None:
        """One line."""
        self.lines.append(self.indent + text)

    def put(self, text: str) -> str:
        """A new value."""
        self.count += 1
        name = f"%{self.count}"
        self.line(f"{name} = {text}")
        return name

    def fresh_name(self, name: str) -> str:
        """A value name like `name` that nothing else has."""
        base = "%" + "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
        found, number = base, 2
        while found in self.taken or found[1:2].isdigit():
            found, number = f"{base if not base[1:2].isdigit() else '%v' + base[1:]}_{number}", number + 1
        self.taken.add(found)
        return found

    def array_type(self, dtype: DType, extents: tuple[nodes.Expr, ...]) -> str:
        """`memref<?x4xf32>`: constant extents are static."""
        shape = "".join(
            f"{int(extent.value)}x" if isinstance(extent, nodes.Const) else "?x"
            for extent in extents
        )
        return f"memref<{shape}{type_text(dtype)}>"

    # -------------------------------------------------------------------------- affine maps

    def names(self) -> dict[str, str]:
        """Iterators and symbols that affine operations may use, by name."""
        return {**self.symbols, **self.iterators}

    def bound(self, expr: nodes.Expr, op: str) -> str:
        """A bound of `affine.for`: a number, a name, or a map (of several results under `op`)."""
        parts = self._parts(expr, op)
        dims = {name: f"d{n}" for n, name in enumerate(self.iterators)}
        symbols = {name: f"s{n}" for n, name in enumerate(self.symbols)}
        texts = [affine_text(part, {**symbols, **dims}) for part in parts]
        if FAILED in texts:
            return FAILED
        if len(texts) == 1 and isinstance(parts[0], nodes.Const):
            return texts[0]
        head = f"({', '.join(dims.values())})[{', '.join(symbols.values())}]"
        tail = f"({', '.join(self.iterators.values())})[{', '.join(self.symbols.values())}]"
        word = f"{op} " if len(texts) > 1 else ""
        return f"{word}affine_map<{head} -> ({', '.join(texts)})>{tail}"

    def _parts(self, expr: nodes.Expr, op: str) -> tuple[nodes.Expr, ...]:
        match expr:
            case nodes.Binary(op=word, left=left, right=right) if word == op:
                return (*self._parts(left, op), *self._parts(right, op))
            case _:
                return (expr,)

    def integer_set(self, condition: nodes.Expr) -> str:
        """`affine_set<...>(...)[...]` of a conjunction of affine comparisons, or FAILED."""
        dims = {name: f"d{n}" for n, name in enumerate(self.iterators)}
        symbols = {name: f"s{n}" for n, name in enumerate(self.symbols)}
        names = {**symbols, **dims}
        constraints: list[str] = []

        def visit(each: nodes.Expr) -> bool:
            match each:
                case nodes.Binary(op="and", left=left, right=right, dtype=DType.BOOL):
                    return visit(left) and visit(right)
                case nodes.Compare(op=op, left=left, right=right) if left.dtype is DType.I64:
                    a, b = affine_text(left, names), affine_text(right, names)
                    if not a or not b or op == "ne":
                        return False
                    constraints.append(
                        {
                            "lt": f"{b} - {a} - 1 >= 0",
                            "le": f"{b} - {a} >= 0",
                            "gt": f"{a} - {b} - 1 >= 0",
                            "ge": f"{a} - {b} >= 0",
                            "eq": f"{a} - {b} == 0",
                        }[op]
                    )
                    return True
                case _:
                    return False

        if not visit(condition):
            return FAILED
        head = f"({', '.join(dims.values())})[{', '.join(symbols.values())}]"
        tail = f"({', '.join(self.iterators.values())})[{', '.join(self.symbols.values())}]"
        return f"affine_set<{head} : ({', '.join(constraints)})>{tail}"

    # ------------------------------------------------------------------------------- index

    def constant_index(self, value: int) -> str:
        """An index constant."""
        return self.put(f"arith.constant {value} : index")

    def index(self, expr: nodes.Expr) -> str:
        """`expr` as an `index` value."""
        known = {**self.names(), **self.others}
        match expr:
            case nodes.Const(value=value):
                return self.constant_index(int(value))
            case nodes.Iter(name=name) | nodes.Symbol(name=name) if name in known:
                return known[name]
            case nodes.Binary(op=op, left=left, right=right) if op in (
                *("add", "sub", "mul", "min", "max", "floordiv", "mod"),
            ):
                a, b = self.index(left), self.index(right)
                return self.index_operation(op, a, b)
            case nodes.Unary(op="neg", operand=operand):
                return self.index_operation("sub", self.constant_index(0), self.index(operand))
            case _:
                return self.put(f"arith.index_cast {self.value(expr)} : i64 to index")

    def index_operation(self, op: str, a: str, b: str) -> str:
        """One operation on index values; divisors are not 0."""
        if op == "mod":
            quotient = self.put(f"arith.floordivsi {a}, {b} : index")
            return self.put(
                f"arith.subi {a}, {self.put(f'arith.muli {quotient}, {b} : index')} : index"
            )
        word = {"min": "minsi", "max": "maxsi", "floordiv": "floordivsi"}.get(op, f"{op}i")
        return self.put(f"arith.{word} {a}, {b} : index")

    # ------------------------------------------------------------------------------ memory

    def place(self, access: nodes.Load) -> tuple[str, str, str, str]:
        """Memref, its type, the subscripts, and which dialect's load and store take them."""
        memref, kind, extents = self.arrays[access.array]
        if access.swapped is not None:
            other = self.arrays[access.swapped.array][0]
            parity = self.index(access.swapped.parity)
            odd = self.put(f"arith.cmpi eq, {parity}, {self.constant_index(1)} : index")
            memref = self.put(f"arith.select {odd}, {other}, {memref} : {kind}")
        if not access.mode:
            texts = [affine_text(each, self.names()) for each in access.index]
            if FAILED not in texts:
                return memref, kind, ", ".join(_bare(text) for text in texts), "affine"
        indices = [self.index(each) for each in access.index]
        if access.mode:
            sizes = [self.index(extent) for extent in extents]
            indices = [self.edge(access.mode, i, n) for i, n in zip(indices, sizes)]
        return memref, kind, ", ".join(indices), "memref"

    def edge(self, mode: str, index: str, size: str) -> str:
        """Where an edge mode sends a subscript."""
        if mode == "zero":
            return index
        one, zero = self.constant_index(1), self.constant_index(0)
        last = self.index_operation("sub", size, one)
        if mode == "clamp":
            return self.index_operation("max", self.index_operation("min", index, last), zero)
        if mode == "wrap":
            return self.index_operation("mod", index, size)
        two = self.constant_index(2)
        span = last if mode == "reflect" else size
        # reflect: period 2 (n - 1), at least 1; symmetric: period 2 n, mirrored about n - 1/2.
        period = self.index_operation("max", self.index_operation("mul", span, two), one)
        place = self.index_operation("mod", index, period)
        mirror = period if mode == "reflect" else self.index_operation("sub", period, one)
        return self.index_operation("min", place, self.index_operation("sub", mirror, place))

    def load(self, access: nodes.Load) -> str:
        """The value of an element; `.zero` outside the array is 0."""
        if access.array in self.scalars and access.array not in self.arrays:
            return self.scalars[access.array]
        if access.mode == "zero":
            return self.load_or_zero(access)
        memref, kind, index, dialect = self.place(access)
        return self.put(f"{dialect}.load {memref}[{index}] : {kind}")

    def load_or_zero(self, access: nodes.Load) -> str:
        """`scf.if` around the load."""
        _, _, extents = self.arrays[access.array]
        inside = FAILED
        for each, extent in zip(access.index, extents):
            index, size = self.index(each), self.index(extent)
            # As unsigned numbers, negative ones are too large as well.
            fits = self.put(f"arith.cmpi ult, {index}, {size} : index")
            inside = fits if not inside else self.put(f"arith.andi {inside}, {fits} : i1")
        zero = nodes.Const(0.0 if access.dtype.is_float else 0, access.dtype)
        return self.choose(
            inside, nodes.Load(access.array, access.index, access.dtype, "", access.swapped), zero
        )

    def choose(self, condition: str, then: nodes.Expr, otherwise: nodes.Expr) -> str:
        """`scf.if` with a result; only one arm is computed."""
        kind = type_text(then.dtype)
        self.count += 1
        name = f"%{self.count}"
        self.line(f"{name} = scf.if {condition} -> ({kind}) {{")
        for number, arm in enumerate((then, otherwise)):
            self.indent += "  "
            self.line(f"scf.yield {self.value(arm)} : {kind}")
            self.indent = self.indent[:-2]
            self.line("}" if number else "} else {")
        return name

    def store(self, target: nodes.Load, value: str) -> None:
        """`target = value`."""
        memref, kind, index, dialect = self.place(target)
        self.line(f"{dialect}.store {value}, {memref}[{index}] : {kind}")

    # ------------------------------------------------------------------------------ values

    def value(self, expr: nodes.Expr) -> str:
        """The value of `expr`."""
        kind = type_text(expr.dtype)
        match expr:
            case nodes.Const(value=value, dtype=dtype):
                if dtype is DType.BOOL:
                    return self.put(f"arith.constant {'true' if value else 'false'}")
                text = print_float(float(value), VALUE[dtype]) if dtype.is_float else str(int(value))
                return self.put(f"arith.constant {text} : {kind}")
            case nodes.Iter(name=name):
                return self.put(f"arith.index_cast {self.index(expr)} : index to i64")
            case nodes.Symbol(name=name):
                if name in self.scalars:
                    return self.scalars[name]
                return self.put(f"arith.index_cast {self.symbols[name]} : index to i64")
            case nodes.Load():
                return self.load(expr)
            case nodes.Unary(op=op, operand=operand, dtype=dtype):
                return self.unary(op, self.value(operand), dtype)
            case nodes.Binary(op=op, left=left, right=right, dtype=dtype):
                return self.binary(op, self.value(left), self.value(right), dtype)
            case nodes.Compare(op=op, left=left, right=right):
                return self.compare(op, self.value(left), self.value(right), left.dtype)
            case nodes.Select(condition=condition, then=then, otherwise=otherwise):
                return self.choose(self.value(condition), then, otherwise)
            case nodes.Cast(operand=operand, dtype=dtype):
                return self.cast(self.value(operand), operand.dtype, dtype)
            case nodes.Call(function="inside", arguments=(subscript, _)):
                return self.value(subscript)  # as written: the checks come with the compiled module
            case nodes.Call(function="sign", arguments=(operand,), dtype=dtype):
                return self.sign(self.value(operand), dtype)
            case nodes.Call(function=function, arguments=arguments, dtype=dtype):
                word = _CALLS.get(function, function)
                if function == "abs" and not dtype.is_float:
                    word = "absi"
                operands = ", ".join(self.value(each) for each in arguments)
                return self.put(f"math.{word} {operands} : {kind}")
            case nodes.Fma(a=a, b=b, c=c):
                operands = ", ".join(self.value(each) for each in (a, b, c))
                return self.put(f"math.fma {operands} : {kind}")
            case _:
                assert_never(expr)

    def unary(self, op: str, a: str, dtype: DType) -> str:
        """`neg`, `not`, `invert`."""
        kind = type_text(dtype)
        if op == "neg" and dtype.is_float:
            return self.put(f"arith.negf {a} : {kind}")
        if op == "neg":
            return self.put(f"arith.subi {self.put(f'arith.constant 0 : {kind}')}, {a} : {kind}")
        ones = "true" if dtype is DType.BOOL else f"-1 : {kind}"
        return self.put(f"arith.xori {a}, {self.put(f'arith.constant {ones}')} : {kind}")

    def binary(self, op: str, a: str, b: str, dtype: DType) -> str:
        """One binary operation; divisions by 0 give 0."""
        kind = type_text(dtype)
        sign = "s" if dtype.is_signed else "u"
        if dtype.is_float:
            if op == "floordiv":
                return self.float_floordiv(a, b, kind)
            if op == "mod":
                return self.float_mod(a, b, kind)
            if op == "hypot":
                return self.hypot(a, b, kind)
            return self.put(f"{_FLOAT[op]} {a}, {b} : {kind}")
        if op in _INTEGER:
            return self.put(f"{_INTEGER[op]} {a}, {b} : {kind}")
        if op in ("min", "max", "fmin", "fmax"):
            return self.put(f"arith.{op[-3:]}{sign}i {a}, {b} : {kind}")
        zero = self.put(f"arith.constant 0 : {kind}")
        if op in ("shl", "shr"):
            width = self.put(f"arith.constant {dtype.bits} : {kind}")
            word = "shli" if op == "shl" else f"shr{sign}i"
            shifted = self.put(f"arith.{word} {a}, {b} : {kind}")
            inside = self.put(f"arith.cmpi ult, {b}, {width} : {kind}")
            return self.put(f"arith.select {inside}, {shifted}, {zero} : {kind}")
        if op == "fmod":
            one = self.put(f"arith.constant 1 : {kind}")
            is_zero = self.put(f"arith.cmpi eq, {b}, {zero} : {kind}")
            safe = self.put(f"arith.select {is_zero}, {one}, {b} : {kind}")
            rest = self.put(f"arith.rem{sign}i {a}, {safe} : {kind}")
            return self.put(f"arith.select {is_zero}, {zero}, {rest} : {kind}")
        if op not in ("floordiv", "mod"):
            raise not_lowered(f"{op} of {dtype.value}")
        one = self.put(f"arith.constant 1 : {kind}")
        is_zero = self.put(f"arith.cmpi eq, {b}, {zero} : {kind}")
        safe = self.put(f"arith.select {is_zero}, {one}, {b} : {kind}")
        word = "floordivsi" if dtype.is_signed else "divui"
        quotient = self.put(f"arith.{word} {a}, {safe} : {kind}")
        if op == "mod":
            product = self.put(f"arith.muli {quotient}, {safe} : {kind}")
            quotient = self.put(f"arith.subi {a}, {product} : {kind}")
        return self.put(f"arith.select {is_zero}, {zero}, {quotient} : {kind}")

    def sign(self, a: str, dtype: DType) -> str:
        """-1, 0 or 1; a NaN stays."""
        kind = type_text(dtype)
        names = ("0.0", "1.0", "-1.0") if dtype.is_float else ("0", "1", "-1")
        zero, one = (self.put(f"arith.constant {text} : {kind}") for text in names[:2])
        if dtype.is_unsigned:
            some = self.put(f"arith.cmpi ne, {a}, {zero} : {kind}")
            return self.put(f"arith.select {some}, {one}, {zero} : {kind}")
        minus = self.put(f"arith.constant {names[2]} : {kind}")
        rest = zero
        compare = "arith.cmpf o" if dtype.is_float else "arith.cmpi s"
        if dtype.is_float:
            level = self.put(f"arith.cmpf oeq, {a}, {zero} : {kind}")
            rest = self.put(f"arith.select {level}, {zero}, {a} : {kind}")
        below = self.put(f"{compare}lt, {a}, {zero} : {kind}")
        rest = self.put(f"arith.select {below}, {minus}, {rest} : {kind}")
        above = self.put(f"{compare}gt, {a}, {zero} : {kind}")
        return self.put(f"arith.select {above}, {one}, {rest} : {kind}")

    def hypot(self, a: str, b: str, kind: str) -> str:
        """m sqrt(1 + (n/m)^2), m the greater of both sizes: `math` has no word for it."""

        def put(text: str) -> str:
            return self.put(f"{text} : {kind}")

        first, second = put(f"math.absf {a}"), put(f"math.absf {b}")
        most, least = (put(f"arith.{word}f {first}, {second}") for word in ("maximum", "minimum"))
        zero, one = (put(f"arith.constant {text}") for text in ("0.0", "1.0"))
        ratio = put(f"arith.divf {least}, {most}")
        root = put(f"math.sqrt {put(f'math.fma {ratio}, {ratio}, {one}')}")
        level = put(f"arith.cmpf oeq, {least}, {zero}")
        found = put(f"arith.select {level}, {most}, {put(f'arith.mulf {most}, {root}')}")
        endless = put("arith.constant 0x7F800000" if kind == "f32" else "arith.constant 0x7FF0000000000000")
        for size in (first, second):
            found = put(f"arith.select {put(f'arith.cmpf oeq, {size}, {endless}')}, {endless}, {found}")
        return found

    def float_floordiv(self, a: str, b: str, kind: str) -> str:
        """From the exact remainder, so that it agrees with `%` (`floor(a / b)` rounds first)."""

        def put(text: str) -> str:
            return self.put(f"{text} : {kind}")

        zero, one, half = (put(f"arith.constant {text}") for text in ("0.0", "1.0", "0.5"))
        whole = put(f"arith.divf {a}, {b}")
        rest = put(f"arith.remf {a}, {b}")
        exact = put(f"arith.divf {put(f'arith.subf {a}, {rest}')}, {b}")
        uneven = put(f"arith.cmpf une, {rest}, {zero}")
        below, under = (put(f"arith.cmpf olt, {each}, {zero}") for each in (rest, b))
        apart = self.put(f"arith.xori {below}, {under} : i1")
        both = self.put(f"arith.andi {uneven}, {apart} : i1")
        quotient = put(f"arith.select {both}, {put(f'arith.subf {exact}, {one}')}, {exact}")
        floor = put(f"math.floor {quotient}")
        far = put(f"arith.cmpf ogt, {put(f'arith.subf {quotient}, {floor}')}, {half}")
        near = put(f"arith.select {far}, {put(f'arith.addf {floor}, {one}')}, {floor}")
        nothing = put(f"arith.cmpf oeq, {quotient}, {zero}")
        signed = put(f"math.copysign {zero}, {whole}")
        finite = put(f"arith.select {nothing}, {signed}, {near}")
        by_zero = put(f"arith.cmpf oeq, {b}, {zero}")
        return put(f"arith.select {by_zero}, {whole}, {finite}")

    def float_mod(self, a: str, b: str, kind: str) -> str:
        """fmod, moved to the divisor's sign."""
        rest = self.put(f"arith.remf {a}, {b} : {kind}")
        zero = self.put(f"arith.constant 0.0 : {kind}")
        one = self.put(f"arith.constant 1.0 : {kind}")
        unlike = self.put(f"math.copysign {one}, {rest} : {kind}")
        sign = self.put(f"math.copysign {one}, {b} : {kind}")
        apart = self.put(f"arith.cmpf one, {unlike}, {sign} : {kind}")
        moved = self.put(f"arith.addf {rest}, {b} : {kind}")
        signed = self.put(f"arith.select {apart}, {moved}, {rest} : {kind}")
        is_zero = self.put(f"arith.cmpf oeq, {rest}, {zero} : {kind}")
        none = self.put(f"math.copysign {rest}, {b} : {kind}")
        return self.put(f"arith.select {is_zero}, {none}, {signed} : {kind}")

    def compare(self, op: str, a: str, b: str, dtype: DType) -> str:
        """A comparison of two values of `dtype`."""
        kind = type_text(dtype)
        if dtype.is_float:
            return self.put(f"arith.cmpf {'une' if op == 'ne' else 'o' + op}, {a}, {b} : {kind}")
        sign = "" if op in ("eq", "ne") else ("s" if dtype.is_signed else "u")
        return self.put(f"arith.cmpi {sign}{op}, {a}, {b} : {kind}")

    def cast(self, a: str, before: DType, after: DType) -> str:
        """A conversion."""
        old, new = type_text(before), type_text(after)
        if before is after:
            return a
        if after is DType.BOOL:
            zero = self.put(f"arith.constant {'0.0' if before.is_float else '0'} : {old}")
            return self.compare("ne", a, zero, before)
        if before.is_float and after.is_float:
            word = "extf" if before.bits < after.bits else "truncf"
        elif after.is_float:
            word = "sitofp" if before.is_signed else "uitofp"
        elif before.is_float:
            name = f"llvm.fpto{'s' if after.is_signed else 'u'}i.sat.{new}.{old}"
            return self.put(f'llvm.call_intrinsic "{name}"({a}) : ({old}) -> {new}')
        elif before is not DType.BOOL and before.bits == after.bits:
            return a
        elif before is not DType.BOOL and before.bits > after.bits:
            word = "trunci"
        else:
            word = "extsi" if before.is_signed else "extui"
        return self.put(f"arith.{word} {a} : {old} to {new}")


def _bare(text: str) -> str:
    """Without the outermost parentheses."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text
