"""`arith` and `math` operations as surface expressions with the same bits.

Where MLIR leaves a result undefined (a division by 0, a shift past the width, a float that no
integer holds) the language defines one, which is one of the results MLIR allows. What our own
export writes out in several operations (`//`, `%`, `<<`) is read back as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects import arith, builtin, llvm, math
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute, Operation, SSAValue

from loopfuse.base.diagnostics import Span
from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.terms import (
    SIGNED,
    UNSIGNED,
    Term,
    add,
    coerced,
    conditional,
    expression_of,
    join,
    linear_of,
    number,
)
from loopfuse.lang.ops import named
from loopfuse.lang.surface.syntax import Binary, Call, Comparison, Expr, Unary

Value = Callable[[SSAValue], Term]

_PLAIN = {
    "arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.addf": "+",
    "arith.subf": "-", "arith.mulf": "*", "arith.divf": "/", "arith.andi": "&",
    "arith.ori": "|", "arith.xori": "^", "math.powf": "**",
}  # fmt: skip
_EXTREMES = {
    "arith.minsi": ("min", True), "arith.maxsi": ("max", True), "arith.minui": ("min", False),
    "arith.maxui": ("max", False), "arith.minimumf": ("min", None),
    "arith.maximumf": ("max", None), "arith.minnumf": ("fmin", None),
    "arith.maxnumf": ("fmax", None),
}  # fmt: skip
_DIVISIONS = {
    "arith.divui": ("//", False), "arith.remui": ("%", False), "arith.floordivsi": ("//", True),
    "arith.shli": ("<<", None), "arith.shrsi": (">>", True), "arith.shrui": (">>", False),
}  # fmt: skip
_FUNCTIONS = {f"math.{word}": name for word, name in named("mlir").items() if name != "pow"}
_TESTS = ("math.isnan", "math.isinf", "math.isfinite")
_CONVERSIONS = (
    "arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui",
    "arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "arith.index_castui",
)  # fmt: skip
_INTEGER_SIGNS = {
    0: ("==", None), 1: ("!=", None), 2: ("<", True), 3: ("<=", True), 4: (">", True),
    5: (">=", True), 6: ("<", False), 7: ("<=", False), 8: (">", False), 9: (">=", False),
}  # fmt: skip
_FLOAT_SIGNS = {
    1: ("==", False), 2: (">", False), 3: (">=", False), 4: ("<", False), 5: ("<=", False),
    9: ("<=", True), 10: ("<", True), 11: (">=", True), 12: (">", True), 13: ("!=", False),
}  # fmt: skip


class Unread(Exception):
    """An operation or type that the language cannot say; the text says why, `fix` what to do."""

    def __init__(self, text: str, fix: str = "write it with the types and operations of docs/mlir.md") -> None:
        super().__init__(text)
        self.fix = fix


def dtype_of(kind: Attribute) -> DType:
    """The element type of an MLIR type; signless integers are signed, an i1 a bool."""
    match kind:
        case IndexType():
            return DType.I64
        case Float16Type():
            return DType.F16
        case BFloat16Type():
            return DType.BF16
        case Float32Type():
            return DType.F32
        case Float64Type():
            return DType.F64
        case IntegerType():
            width = kind.width.data
            if width == 1:
                return DType.BOOL
            sign = "u" if kind.signedness.data is Signedness.UNSIGNED else "i"
            name = f"{sign}{width}"
            if name in DType._value2member_map_:
                return DType(name)
            raise Unread(f"loopfuse has no type `{kind}`", f"use `{_nearest(sign, width)}`")
        case _:
            pass
    raise Unread(f"loopfuse has no type `{kind}`", "use `f64`, or another type of docs/types.md")


def _nearest(sign: str, width: int) -> str:
    """The smallest integer type that holds such integers, or the widest, as MLIR spells it."""
    held = next((each for each in (8, 16, 32) if each >= width), 64)
    return f"{'ui' if sign == 'u' else 'i'}{held}"


def constant_term(op: arith.ConstantOp, span: Span) -> Term:
    """`arith.constant`."""
    dtype = dtype_of(op.result.type)
    is_index = isinstance(op.result.type, IndexType)
    match op.value:
        case IntegerAttr(value=value):
            if dtype is DType.BOOL:
                return Term(number(bool(value.data), dtype, span), dtype)
            held = value.data & ((1 << dtype.bits) - 1)
            held -= (1 << dtype.bits) * (dtype.is_signed and held >= 1 << (dtype.bits - 1))
            return Term(number(held, dtype, span), dtype, is_index)
        case FloatAttr(value=value):
            return Term(number(value.data, dtype, span), dtype)
        case _:
            raise Unread("constants of tensors and vectors are not read")


def read_operation(op: Operation, value: Value, span: Span) -> Term | None:
    """The value of a pure operation of `arith` or `math`, None for any other."""
    name = op.name
    if isinstance(op, arith.ConstantOp):
        return constant_term(op, span)
    if name in _FUNCTIONS:
        parts = [value(each) for each in op.operands]
        called = _call(_FUNCTIONS[name], parts, parts[0].dtype, span)
        return replace(called, dtype=DType.BOOL) if name in _TESTS else called
    if name in _CONVERSIONS:
        return _convert(op, value, span)
    match op:
        case arith.CmpiOp():
            return _compare_integers(op, value, span)
        case arith.CmpfOp():
            return _compare_floats(op, value, span)
        case arith.SelectOp():
            return _select(op, value, span)
        case arith.NegfOp():
            part = value(op.operand)
            reads, size = join(part)
            return Term(Unary("-", part.expr, span=span), part.dtype, False, reads, size)
        case llvm.CallIntrinsicOp():
            return _intrinsic(op, value, span)
        case math.RoundOp():
            part = value(op.operands[0])
            if part.dtype.is_float:  # half away from zero: the language rounds half to even
                raise Unread(
                    "`math.round` rounds halves away from zero; use `math.roundeven`",
                    "write `math.roundeven`",
                )
        case _:
            pass
    if len(op.operands) != 2:
        return None
    if name in _PLAIN:
        return _plain(op, value, span)
    if name in _EXTREMES:
        word, signed = _EXTREMES[name]
        left, right = _signed(op, value, signed)
        return _call(word, [left, right], left.dtype, span)
    if name in _DIVISIONS:
        word, signed = _DIVISIONS[name]
        left, right = _signed(op, value, signed)
        return _binary(word, left, right, span)
    if name == "arith.remf":
        parts = [value(each) for each in op.operands]
        return _call("fmod", parts, parts[0].dtype, span)
    return _truncating(op, value, span)


def _signed(op: Operation, value: Value, signed: bool | None) -> tuple[Term, Term]:
    left, right = value(op.operands[0]), value(op.operands[1])
    if signed is None or left.dtype.is_float or left.dtype is DType.BOOL:
        return left, coerced(right, left.dtype)
    if left.is_index and right.is_index and signed:
        return left, right
    table = SIGNED if signed else UNSIGNED
    dtype = table.get(left.dtype, left.dtype)
    return coerced(left, dtype), coerced(right, dtype)


def _binary(op: str, left: Term, right: Term, span: Span) -> Term:
    if left.constant is not None and right.constant is None:
        left = coerced(left, right.dtype)
    right = coerced(right, left.dtype)
    reads, size = join(left, right)
    is_index = left.is_index and right.is_index
    expr: Expr = Binary(op, left.expr, right.expr, span=span)
    if is_index and op in "+-*":
        expr = expression_of(linear_of(expr), span)
    return Term(expr, left.dtype, is_index, reads, size)


def _plain(op: Operation, value: Value, span: Span) -> Term:
    found = _modulo(op, value, span)
    if found is not None:
        return found
    left, right = value(op.operands[0]), value(op.operands[1])
    name = _PLAIN[op.name]
    if left.constant is not None and right.constant is None:
        left = coerced(left, right.dtype)
    right = coerced(right, left.dtype)
    if op.name == "arith.xori" and right.constant in (True, -1):
        reads, size = join(left)
        word = "not" if left.dtype is DType.BOOL else "~"
        return Term(Unary(word, left.expr, span=span), left.dtype, False, reads, size)
    if op.name == "arith.subi" and left.constant == 0 and not left.is_index:
        reads, size = join(right)
        return Term(Unary("-", right.expr, span=span), left.dtype, False, reads, size)
    return _binary(name, left, right, span)


def _call(function: str, parts: list[Term], dtype: DType, span: Span) -> Term:
    parts = [coerced(part, dtype) for part in parts]
    reads, size = join(*parts)
    is_index = all(part.is_index for part in parts)
    expr = Call(function, tuple(part.expr for part in parts), span=span)
    return Term(expr, dtype, is_index, reads, size)


# ------------------------------------------------------------------ what the export writes out


def _defining(value: SSAValue, kind: type[Operation] | str) -> Operation | None:
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    found = owner.name == kind if isinstance(kind, str) else isinstance(owner, kind)
    return owner if found else None


def is_constant(value: SSAValue, wanted: float) -> bool:
    """Whether `value` is `arith.constant wanted`."""
    op = _defining(value, arith.ConstantOp)
    if not isinstance(op, arith.ConstantOp):
        return False
    match op.value:
        case IntegerAttr(value=held) | FloatAttr(value=held):
            return held.data == wanted
        case _:
            return False


def modulo_of(value: SSAValue) -> tuple[SSAValue, SSAValue, str] | None:
    """`a`, `b` where `value` is `a - (a / b) * b`, and the name of the division."""
    outer = _defining(value, "arith.subi")
    product = _defining(outer.operands[1], "arith.muli") if outer is not None else None
    if outer is None or product is None:
        return None
    for name in ("arith.floordivsi", "arith.divui"):
        quotient = _defining(product.operands[0], name)
        if (
            quotient is not None
            and quotient.operands[0] is outer.operands[0]
            and quotient.operands[1] is product.operands[1]
        ):
            return quotient.operands[0], quotient.operands[1], name
    return None


def _modulo(op: Operation, value: Value, span: Span) -> Term | None:
    found = modulo_of(op.results[0]) if op.name == "arith.subi" else None
    if found is None:
        return None
    left, right = value(found[0]), value(found[1])
    if not (left.is_index and right.is_index):
        table = SIGNED if found[2] == "arith.floordivsi" else UNSIGNED
        dtype = table.get(left.dtype, left.dtype)
        left, right = coerced(left, dtype), coerced(right, dtype)
    known = right.constant
    if known is not None and known <= 0:
        return None
    return _binary("%", left, right, span)


def _select(op: arith.SelectOp, value: Value, span: Span) -> Term:
    if isinstance(op.result.type, builtin.MemRefType):
        raise Unread("a `select` of memrefs is read only as the operand of a load or store")
    found = (
        _guarded(op, value, span) or _float_mod(op, value, span) or _float_floordiv(op, value, span)
    )
    if found is not None:
        return found
    return conditional(value(op.cond), value(op.lhs), value(op.rhs), span)


def _guarded(op: arith.SelectOp, value: Value, span: Span) -> Term | None:
    """`b == 0 ? 0 : a // (b == 0 ? 1 : b)` is `a // b`; `b < width ? a << b : 0` is `a << b`."""
    test = op.cond.owner
    if not isinstance(test, arith.CmpiOp):
        return None
    if test.predicate.value.data == 0 and is_constant(test.rhs, 0) and is_constant(op.lhs, 0):
        divided = op.rhs
        found = modulo_of(divided)
        if found is None:
            owner = divided.owner
            if not isinstance(owner, Operation) or owner.name not in (
                "arith.floordivsi", "arith.divui",
            ):  # fmt: skip
                return None
            found = (owner.operands[0], owner.operands[1], owner.name)
            word = "//"
        else:
            word = "%"
        safe = found[1].owner
        if not isinstance(safe, arith.SelectOp) or not (
            safe.cond is op.cond and is_constant(safe.lhs, 1) and safe.rhs is test.lhs
        ):
            return None
        left, right = value(found[0]), value(test.lhs)
        table = SIGNED if found[2] == "arith.floordivsi" else UNSIGNED
        dtype = table.get(left.dtype, left.dtype)
        return _binary(word, coerced(left, dtype), coerced(right, dtype), span)
    if test.predicate.value.data == 6 and is_constant(op.rhs, 0):
        shift = op.lhs.owner
        if (
            isinstance(shift, Operation)
            and shift.name in ("arith.shli", "arith.shrsi", "arith.shrui")
            and shift.operands[1] is test.lhs
        ):
            left = value(shift.operands[0])
            if is_constant(test.rhs, left.dtype.bits):
                return value(shift.results[0])
    return None


def _float_mod(op: arith.SelectOp, value: Value, span: Span) -> Term | None:
    """The whole of a floored `%` of floats: a remainder moved to the sign of the divisor."""
    zero = op.cond.owner
    inner = op.rhs.owner
    none = op.lhs.owner
    if not (
        isinstance(zero, arith.CmpfOp)
        and zero.predicate.value.data == 1
        and is_constant(zero.rhs, 0.0)
        and isinstance(inner, arith.SelectOp)
        and isinstance(none, math.CopySignOp)
    ):
        return None
    rest = zero.lhs.owner
    moved, apart = inner.lhs.owner, inner.cond.owner
    if not (
        isinstance(rest, Operation)
        and rest.name == "arith.remf"
        and inner.rhs is rest.results[0]
        and isinstance(moved, arith.AddfOp)
        and moved.lhs is rest.results[0]
        and moved.rhs is rest.operands[1]
        and none.operands[0] is rest.results[0]
        and none.operands[1] is rest.operands[1]
        and isinstance(apart, arith.CmpfOp)
        and apart.predicate.value.data == 6
    ):
        return None
    signs = (apart.lhs.owner, apart.rhs.owner)
    for sign, operand in zip(signs, (rest.results[0], rest.operands[1])):
        if not (
            isinstance(sign, math.CopySignOp)
            and is_constant(sign.operands[0], 1.0)
            and sign.operands[1] is operand
        ):
            return None
    return _binary("%", value(rest.operands[0]), value(rest.operands[1]), span)


_REST = "remf(a, b)"
_EXACT = f"divf(subf(a, {_REST}), b)"
_APART = f"andi(cmpf-13({_REST}, 0.0), xori(cmpf-4({_REST}, 0.0), cmpf-4(b, 0.0)))"
_QUOTIENT = f"select({_APART}, subf({_EXACT}, 1.0), {_EXACT})"
_FLOOR = f"floor({_QUOTIENT})"
_NEAR = f"select(cmpf-2(subf({_QUOTIENT}, {_FLOOR}), 0.5), addf({_FLOOR}, 1.0), {_FLOOR})"
_FINITE = f"select(cmpf-1({_QUOTIENT}, 0.0), copysign(0.0, divf(a, b)), {_NEAR})"
_FLOORDIV = f"select(cmpf-1(b, 0.0), divf(a, b), {_FINITE})"
"""What our export writes for `a // b` of floats."""


def _float_floordiv(op: arith.SelectOp, value: Value, span: Span) -> Term | None:
    """The whole of a floored `//` of floats."""
    whole = op.lhs.owner
    if not isinstance(whole, arith.DivfOp):
        return None
    a, b = whole.lhs, whole.rhs
    if _shape(op.result, {a: "a", b: "b"}, 12) != _FLOORDIV:
        return None
    return _binary("//", value(a), value(b), span)


def _shape(value: SSAValue, leaves: dict[SSAValue, str], depth: int) -> str:
    """A value as text over `leaves`: operations, predicates and constants; "?" for what else."""
    if value in leaves:
        return leaves[value]
    op = value.owner
    if not isinstance(op, Operation) or depth == 0:
        return "?"
    if isinstance(op, arith.ConstantOp):
        return str(op.value.value.data) if isinstance(op.value, FloatAttr) else "?"
    name = op.name.split(".")[-1]
    if isinstance(op, arith.CmpfOp):
        name += f"-{op.predicate.value.data}"
    return f"{name}({', '.join(_shape(each, leaves, depth - 1) for each in op.operands)})"


# ------------------------------------------------------------------------------ the rest


def _truncating(op: Operation, value: Value, span: Span) -> Term | None:
    """Divisions that round towards zero, and up, by those that round down."""
    if op.name == "arith.ceildivsi":
        left, right = _signed(op, value, True)
        if left.is_index and right.is_index and (right.constant or 0) > 0:
            reads, size = join(left, right)
            raised = add(
                linear_of(left.expr), linear_of(number(int(right.constant or 1) - 1, DType.I64))
            )
            expr = Binary("//", expression_of(raised, span), right.expr, span=span)
            return Term(expr, left.dtype, True, reads, size)
        return _raised(left, right, span)  # -(-a // b) overflows at the least a
    if op.name == "arith.ceildivui":
        return _raised(*_signed(op, value, False), span)
    if op.name not in ("arith.divsi", "arith.remsi"):
        return None
    left, right = _signed(op, value, True)
    word = "//" if op.name == "arith.divsi" else "%"
    known = right.constant
    if known is not None and known > 0 and op.name == "arith.divsi" and left.constant is not None:
        return Term(
            number(int(int(left.constant) / int(known)), left.dtype, span),
            left.dtype,
            left.is_index,
        )
    floor, rest = _binary(word, left, right, span), _binary("%", left, right, span)
    # Floored and truncated results part where the rest is not 0 and the signs differ.
    negative = _compare("<", left, _literal(0, left), span)
    below = _compare("<", right, _literal(0, left), span)
    uneven = _compare("!=", rest, _literal(0, left), span)
    apart = _binary(
        "and", uneven, _binary("!=" if known is None else "^", negative, below, span), span
    )
    if known is None:
        apart = _binary("and", uneven, _binary("^", negative, below, span), span)
    moved = (
        _binary("+", floor, _literal(1, left), span)
        if word == "//"
        else _binary("-", floor, right, span)
    )
    return conditional(apart, moved, floor, span)


def _raised(left: Term, right: Term, span: Span) -> Term:
    """A division that rounds up: 1 more than the floor where there is a rest."""
    rest = _compare("!=", _binary("%", left, right, span), _literal(0, left), span)
    one = conditional(rest, _literal(1, left), _literal(0, left), span)
    return _binary("+", _binary("//", left, right, span), one, span)


def _literal(value: float, like: Term) -> Term:
    return Term(number(value, like.dtype), like.dtype, like.is_index)


def _compare(op: str, left: Term, right: Term, span: Span) -> Term:
    right = coerced(right, left.dtype)
    a, b = left.constant, right.constant
    if a is not None and b is not None and left.dtype.is_integer:
        held = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]
        return Term(number(held, DType.BOOL, span), DType.BOOL)
    reads, size = join(left, right)
    return Term(
        Comparison((left.expr, right.expr), (op,), span=span), DType.BOOL, False, reads, size
    )


def _compare_integers(op: arith.CmpiOp, value: Value, span: Span) -> Term:
    word, signed = _INTEGER_SIGNS[op.predicate.value.data]
    left, right = _signed(op, value, signed)
    return _compare(word, left, right, span)


def _compare_floats(op: arith.CmpfOp, value: Value, span: Span) -> Term:
    left, right = value(op.lhs), value(op.rhs)
    code = op.predicate.value.data

    def ordered() -> Term:
        return _binary(
            "and", _compare("==", left, left, span), _compare("==", right, right, span), span
        )

    def negated(term: Term) -> Term:
        reads, size = join(term)
        return Term(Unary("not", term.expr, span=span), DType.BOOL, False, reads, size)

    if code in (0, 15):
        return Term(number(code == 15, DType.BOOL, span), DType.BOOL)
    if code in _FLOAT_SIGNS:
        word, unordered = _FLOAT_SIGNS[code]
        found = _compare(word, left, right, span)
        return negated(found) if unordered else found
    unequal = _binary(
        "or", _compare("<", left, right, span), _compare(">", left, right, span), span
    )
    match code:
        case 6:  # one
            return unequal
        case 8:  # ueq
            return negated(unequal)
        case 7:  # ord
            return ordered()
        case _:  # uno
            return negated(ordered())


def _convert(op: Operation, value: Value, span: Span) -> Term:
    part = value(op.operands[0])
    kind = op.results[0].type
    dtype = dtype_of(kind)
    is_index = isinstance(kind, IndexType)
    reads, size = join(part)
    name = op.name
    if (
        name in ("arith.uitofp", "arith.extui", "arith.index_castui")
        and part.dtype is not DType.BOOL
    ):
        part = coerced(part, UNSIGNED.get(part.dtype, part.dtype))
    elif name in ("arith.sitofp", "arith.extsi", "arith.index_cast") and not part.is_index:
        part = coerced(part, SIGNED.get(part.dtype, part.dtype))
    known = part.constant
    if part.dtype is DType.BOOL and name in ("arith.extsi", "arith.sitofp"):
        cast = Call(dtype.value, (part.expr,), span=span)
        return Term(Unary("-", cast, span=span), dtype, is_index, reads, size + 1)
    if dtype is DType.BOOL:  # the lowest bit
        one = _binary("&", part, _literal(1, part), span)
        return _compare("!=", one, _literal(0, part), span)
    if known is not None and dtype.is_integer and part.dtype.is_integer:
        held = int(known) & ((1 << dtype.bits) - 1)
        held -= (1 << dtype.bits) * (dtype.is_signed and held >= 1 << (dtype.bits - 1))
        return Term(number(held, dtype, span), dtype, is_index)
    if name in ("arith.fptoui",) and dtype in UNSIGNED:
        dtype = UNSIGNED[dtype]
    if part.dtype is DType.I64 and dtype is DType.I64:
        # `index` and i64 are one type here. A value that came from data stays what it is.
        return Term(part.expr, dtype, is_index, reads, part.size)
    origin = part if part.dtype.is_integer and dtype.is_integer else None
    return Term(Call(dtype.value, (part.expr,), span=span), dtype, is_index, reads, size, origin)


def _intrinsic(op: llvm.CallIntrinsicOp, value: Value, span: Span) -> Term:
    """`llvm.fptosi.sat`: the language's own conversion."""
    name = op.intrin.data
    if not name.startswith(("llvm.fptosi.sat.", "llvm.fptoui.sat.")) or len(op.results) != 1:
        raise Unread(f"the intrinsic `{name}` is not read")
    part = value(op.operands[0])
    dtype = dtype_of(op.results[0].type)
    if "fptoui" in name:
        dtype = UNSIGNED.get(dtype, dtype)
    reads, size = join(part)
    return Term(Call(dtype.value, (part.expr,), span=span), dtype, False, reads, size)
