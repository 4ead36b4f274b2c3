"""Values: the core's expressions in `arith`, `math` and `vector`, scalar or in SIMD lanes.

Inside a VECTOR loop a value that depends on the loop's variable is a vector with one lane an
iteration; one that does not stays scalar until it meets a vector. An access is a `vector.load`
where it has unit stride in the variable, a scalar load where it is invariant, else one load a
lane. Nothing here carries a fast-math flag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import broken, not_lowered
from loopfuse.codegen.build import (
    F32,
    I1,
    I8,
    I64,
    INDEX,
    lanes_of,
    vector_type,
)
from loopfuse.codegen.ir import Operation, Value
from loopfuse.codegen.math.functions import LOOPS
from loopfuse.codegen.math.native import emit_instruction
from loopfuse.codegen.mlir.division import multiplied
from loopfuse.codegen.mlir.emit import Emitter, Storage
from loopfuse.codegen.mlir.half import cast_half
from loopfuse.codegen.mlir.index import Linear, constant_form, is_index, linear, mentions
from loopfuse.codegen.mlir.integer import divide, remainder, shift
from loopfuse.codegen.mlir.lanes import load_lanes, own_place
from loopfuse.codegen.mlir.packed import load_half, load_halves, store_half, store_halves
from loopfuse.codegen.mlir.saturate import saturate, saturation_of
from loopfuse.codegen.mlir.scalar import binary, cast, direct, predicate, unary, value_type
from loopfuse.codegen.mlir.sign import copysign, sign
from loopfuse.codegen.mlir.together import of_lanes, value_of
from loopfuse.codegen.select.value_ranges import range_of
from loopfuse.lang import nodes
from loopfuse.lang.index import is_checked
from loopfuse.lang.ops import APPROXIMATE, OURS
from loopfuse.lang.price import expression_price, own_price
from loopfuse.lang.walk import has_checks, loads, walk_expr
from loopfuse.tree.looptree import columns_of

EAGER = 32.0
"""Instructions of two arms, at most, that a CPU computes both rather than ask which: what a branch costs that is foretold wrong."""
CHEAP = 4.0
"""The same of each operation in them: LLVM makes a branch again where one arm divides."""


def emit_value(emitter: Emitter, expr: nodes.Expr) -> Value:
    """The value of `expr`: of `VALUE[dtype]`, or a vector of it where it varies by lane."""
    builder = emitter.builder
    if not isinstance(expr, nodes.Const) and is_index(expr):
        return _index_value(emitter, expr)
    match expr:
        case nodes.Const(value=value, dtype=dtype):
            number = float(value) if dtype.is_float else int(value)
            return builder.constant(number, value_type(dtype))
        case nodes.Iter():
            raise AssertionError("an iterator is an index expression")
        case nodes.Symbol(name=name):
            return emitter.symbols[name]
        case nodes.Load():
            return _load(emitter, expr)
        case nodes.Unary(op=op, operand=operand, dtype=dtype):
            return unary(builder, op, emit_value(emitter, operand), dtype)
        case nodes.Binary(op="div", left=left) if emitter.rare is not None:
            value = emit_value(emitter, left)
            quotient = multiplied(emitter, value, expr)
            if quotient is not None:
                return quotient
            a, b = together(emitter, value, emit_value(emitter, expr.right))
            return emit_binary(emitter, "div", a, b, expr.dtype)
        case nodes.Binary(op="div") | nodes.Call() if (done := value_of(emitter, expr)) is not None:
            return done
        case nodes.Binary(op=op, left=left, right=right, dtype=dtype):
            a, b = together(emitter, emit_value(emitter, left), emit_value(emitter, right))
            return emit_binary(emitter, op, a, b, dtype)
        case nodes.Compare():
            return _compare(emitter, expr)
        case nodes.Select():
            return _select(emitter, expr)
        case nodes.Cast(operand=operand, dtype=dtype):
            if emitter.gpu and (found := saturation_of(expr)) is not None:
                known = range_of(found.value, emitter.held())
                return saturate(builder, found, emit_value(emitter, found.value), known)
            return _cast(emitter, emit_value(emitter, operand), operand.dtype, dtype)
        case nodes.Call(function=function, arguments=arguments, dtype=dtype):
            operands = together(emitter, *(emit_value(emitter, each) for each in arguments))
            return _call(emitter, function, operands, dtype)
        case nodes.Fma(a=a, b=b, c=c):
            values = together(emitter, *(emit_value(emitter, each) for each in (a, b, c)))
            return builder.fma(*values)
        case _:
            assert_never(expr)


def together(emitter: Emitter, *values: Value) -> list[Value]:
    """`values`, all broadcast to vectors if one is a vector."""
    lanes = max(lanes_of(value.type) for value in values)
    if not lanes:
        return list(values)
    return [spread(emitter, value, lanes) for value in values]


def spread(emitter: Emitter, value: Value, lanes: int) -> Value:
    """`value` as a vector."""
    if lanes_of(value.type):
        return value
    owner = value.owner
    if isinstance(owner, Operation) and owner.name == "arith.constant":
        number = owner.properties["value"]
        return emitter.builder.constant(number, vector_type(value.type, lanes))
    return emitter.remembered(
        (value, "spread", lanes), lambda: emitter.builder.broadcast(value, lanes)
    )


def each_lane(emitter: Emitter, make: Callable[[], None]) -> None:
    """Runs `make` once a lane, as scalar code."""
    variable, lanes = emitter.vector, emitter.lanes
    emitter.vector, emitter.lanes = "", 0
    for lane in range(lanes):
        emitter.facts.constants[variable] = lane
        make()
    del emitter.facts.constants[variable]
    emitter.vector, emitter.lanes = variable, lanes


def per_lane(emitter: Emitter, make: Callable[[], Value]) -> Value:
    """`make` run once a lane as scalar code, the results gathered into a vector."""
    values: list[Value] = []
    each_lane(emitter, lambda: values.append(make()))
    return emitter.builder.from_elements(values)


def varies(emitter: Emitter, expr: nodes.Expr) -> bool:
    """Whether `expr` may differ between the lanes of the VECTOR loop around."""
    if not emitter.vector:
        return False
    for each in walk_expr(expr):
        match each:
            case nodes.Iter(name=name) if name == emitter.vector:
                return True
            case nodes.Load(array=array) if emitter.storage[array].lane_variable == emitter.vector:
                return True
            case _:
                pass
    return False


# -------------------------------------------------------------------------------- index values


def _index_value(emitter: Emitter, expr: nodes.Expr) -> Value:
    """An i64 value made of iterators and symbols alone."""
    form = linear(expr, emitter.facts)
    kind, safe = emitter.width(form)
    vector = emitter.vector
    if not vector or not mentions(form, vector) or not varies(emitter, expr):
        return emitter.fit(emitter.form(form, kind, safe), I64)
    builder = emitter.builder
    step = form.coefficient(vector)
    base = form.without(vector)
    if mentions(base, vector):
        return per_lane(emitter, lambda: _index_value(emitter, expr))
    start = emitter.fit(emitter.form(base, *emitter.width(base)), I64)
    lane = builder.iota(vector_type(I64, emitter.lanes))
    if step != 1:
        lane = builder.binary("muli", lane, builder.constant(step, lane.type))
    return builder.binary("addi", spread(emitter, start, emitter.lanes), lane)


def _compare(emitter: Emitter, expr: nodes.Compare) -> Value:
    dtype = expr.left.dtype
    if is_index(expr.left) and is_index(expr.right) and not varies(emitter, expr):
        left, right = linear(expr.left, emitter.facts), linear(expr.right, emitter.facts)
        if not left.terms and not right.terms:
            a, b = left.constant, right.constant
            holds = {
                "eq": a == b,
                "ne": a != b,
                "lt": a < b,
                "le": a <= b,
                "gt": a > b,
                "ge": a >= b,
            }[expr.op]
            return emitter.builder.constant(int(holds), I1)
        kind, safe = emitter.width(left, right)
        a, b = emitter.form(left, kind, safe), emitter.form(right, kind, safe)
        dtype = DType.I64
    else:
        a, b = together(emitter, emit_value(emitter, expr.left), emit_value(emitter, expr.right))
    return emitter.builder.compare(predicate(expr.op, dtype), a, b)


# -------------------------------------------------------------------------------- operations


def emit_binary(emitter: Emitter, op: str, a: Value, b: Value, dtype: DType) -> Value:
    """One binary operation of the core on values of one type and shape."""
    builder = emitter.builder
    signed = dtype.is_signed
    if op in OURS:
        return _call(emitter, op, [a, b], dtype)
    if dtype.is_float:
        if (found := of_lanes(emitter, op, (a, b), dtype)) is not None:
            return found
        if op in LOOPS:
            return _call(emitter, op, [a, b], dtype)
        if op == "copysign":
            return copysign(builder, dtype.bits, lanes_of(a.type), a, b)
        if op in ("fmin", "fmax"):
            # Not `minnumf`: which zero that gives depends on the machine.
            both = binary(builder, op[1:], a, b, dtype)
            assert both is not None
            known = builder.select(builder.compare("uno", b, b), a, both)
            return builder.select(builder.compare("uno", a, a), b, known)
    if op == "fmod":
        return remainder(builder, a, b, signed)
    if op in ("floordiv", "mod"):
        return divide(builder, op, a, b, signed)
    if op in ("shl", "shr"):
        return shift(builder, op, a, b, signed)
    found = binary(builder, op, a, b, dtype)
    assert found is not None, op
    return found


def _call(
    emitter: Emitter, function: str, operands: list[Value], dtype: DType
) -> Value:
    builder = emitter.builder
    value = operands[0]
    if function == "sign":
        return sign(builder, value, dtype)
    found = direct(builder, function, value, dtype)
    if found is not None:
        return found
    found = of_lanes(emitter, function, operands, dtype)
    if found is not None:
        return found
    lanes = lanes_of(value.type)
    if lanes and function in (*LOOPS, *APPROXIMATE):
        # An exact remainder loops as often as the exponents differ; the hardware's approximations are of scalars.
        rows = [[builder.extract(each, lane) for each in operands] for lane in range(lanes)]
        return builder.from_elements([_call(emitter, function, row, dtype) for row in rows])
    if function in APPROXIMATE and (known := emit_instruction(builder, function, value)) is not None:
        return known
    name = emitter.request_function(function, dtype, lanes)
    return builder.call(name, operands, value.type)


def _cast(emitter: Emitter, value: Value, before: DType, after: DType) -> Value:
    builder = emitter.builder
    if before is after or not (before.is_narrow_float or after.is_narrow_float):
        return cast(builder, value, before, after)
    if before is DType.BOOL:
        value, before = builder.convert("uitofp", value, F32), DType.F32
    wide = emitter.halves.wide.get(value)
    if wide is not None:
        value, before = wide, DType.F32
        if not after.is_narrow_float:
            return cast(builder, value, before, after)
    half = cast_half(builder, value, before, after, emitter.converted)
    if before is DType.F32 and after is DType.BF16 and emitter.packed:
        emitter.halves.source[half] = value
    return half if after.is_narrow_float else cast(builder, half, DType.F32, after)


def _select(emitter: Emitter, expr: nodes.Select) -> Value:
    """`arith.select` where both arms can be computed, else `scf.if`."""
    builder = emitter.builder
    arms = (expr.then, expr.otherwise)
    if is_eager(emitter, expr) or all(_is_safe(emitter, each) for arm in arms for each in loads(arm)):
        condition = emit_value(emitter, expr.condition)
        a, b = together(emitter, *(emit_value(emitter, arm) for arm in arms))
        lanes = max(lanes_of(condition.type), lanes_of(a.type))
        if lanes:
            condition, a, b = (spread(emitter, each, lanes) for each in (condition, a, b))
        return builder.select(condition, a, b)
    if varies(emitter, expr.condition):
        return per_lane(emitter, lambda: _select(emitter, expr))
    condition = emit_value(emitter, expr.condition)
    lanes = emitter.lanes if any(varies(emitter, arm) for arm in arms) else 0
    kind = value_type(expr.dtype)

    def arm(value: nodes.Expr) -> Callable[[], Value]:
        def make() -> Value:
            with emitter.scope():
                result = emit_value(emitter, value)
                return spread(emitter, result, lanes) if lanes else result

        return make

    result = builder.branch(
        condition, arm(expr.then), arm(expr.otherwise), vector_type(kind, lanes) if lanes else kind
    )
    assert result is not None
    return result


def is_eager(emitter: Emitter, expr: nodes.Select) -> bool:
    """Are both arms computed, on a CPU: cheap, and made of elements that are there whatever is chosen?"""
    arms = (expr.then, expr.otherwise)
    if not expr.eager or emitter.gpu or has_checks(*arms):
        return False
    found = [load for arm in arms for load in loads(arm)]
    if not all(emitter.storage[load.array].holds_all or _is_safe(emitter, load) for load in found):
        return False
    parts = [part for arm in arms for part in walk_expr(arm) if not isinstance(part, nodes.Load)]
    is_cheap = all(own_price(part, "cpu") <= CHEAP for part in parts)
    return is_cheap and sum(expression_price(arm, "cpu") for arm in arms) <= EAGER


def _is_safe(emitter: Emitter, load: nodes.Load) -> bool:
    """Whether a load may run although nobody asked: it already has, or cannot miss."""
    if any(not is_index(each) for each in load.index):
        return False
    storage, place = emitter.place(load.array, load.index)
    if storage.is_static and not place.without(emitter.vector).terms:
        return True
    number = emitter.number((load.array, place))
    return any(number in scope for scope in emitter.loaded)


# -------------------------------------------------------------------------------------- memory


def _load(emitter: Emitter, expr: nodes.Load) -> Value:
    if emitter.early and (known := emitter.early.get(expr)) is not None:
        return known
    if any(is_checked(each) for each in expr.index):
        return _checked_load(emitter, expr)
    if columns_of(emitter.storage[expr.array].buffer.home):
        return _load_strip(emitter, expr)
    storage, place = emitter.place(expr.array, expr.index)
    number = emitter.number((expr.array, place))
    if all(is_index(each) for each in expr.index):
        for scope in reversed(emitter.loaded):
            if number in scope:
                return scope[number]
    value = emitter.loaded[-1][number] = _load_place(emitter, expr, storage, place)
    return value


def _load_strip(emitter: Emitter, expr: nodes.Load) -> Value:
    if varies(emitter, expr):
        return per_lane(emitter, lambda: _load_strip(emitter, expr))
    return load_lanes(emitter, expr)


def _checked_load(emitter: Emitter, expr: nodes.Load) -> Value:
    """before: x[inside(e, n)]        after: x[e] if 0 <= e < n else (note the offender, 0)"""
    if varies(emitter, expr):
        return per_lane(emitter, lambda: _load(emitter, expr))
    fits, plain, note = checked_access(emitter, expr, writes=False)

    def good() -> Value:
        with emitter.scope():
            return _load(emitter, plain)

    def bad() -> Value:
        with emitter.scope():
            note()
            zero = 0.0 if expr.dtype.is_float else 0
            return emitter.builder.constant(zero, value_type(expr.dtype))

    result = emitter.builder.branch(fits, good, bad, value_type(expr.dtype))
    assert result is not None
    return result


def checked_access(
    emitter: Emitter, load: nodes.Load, writes: bool
) -> tuple[Value, nodes.Load, Callable[[], None]]:
    """Whether the checked subscripts are inside; the access without the checks, for where they
    are; and what notes the offender, for where they are not."""
    builder = emitter.builder
    index: list[nodes.Expr] = []
    tests: list[tuple[Value, Value, int]] = []
    for position, each in enumerate(load.index):
        if not is_checked(each):
            index.append(each)
            continue
        subscript, extent = (emit_value(emitter, part) for part in each.arguments)
        emitter.subscripts += 1
        name = f"subscript {emitter.subscripts}"
        emitter.variables[name] = subscript
        index.append(nodes.Iter(name))
        # A negative subscript is a large unsigned number.
        inside = builder.compare("ult", subscript, extent)
        code = emitter.check_code(load, position, writes)
        tests.append((inside, subscript, code))
    fits = tests[0][0]
    for inside, _, _ in tests[1:]:
        fits = builder.binary("andi", fits, inside)

    def note() -> None:
        assert emitter.error is not None
        word: Value | None = None
        for inside, subscript, code in reversed(tests):
            low = builder.binary("maxsi", subscript, builder.constant(-(1 << 47), I64))
            value = builder.binary("minsi", low, builder.constant((1 << 47) - 1, I64))
            moved = builder.binary("muli", value, builder.constant(1 << 16, I64))
            mine = builder.binary("ori", moved, builder.constant(code, I64))
            word = mine if word is None else builder.select(inside, word, mine)
        assert word is not None
        error, noted, place = emitter.error, word, builder.constant(0, INDEX)
        empty = builder.compare("eq", builder.load(error, place), builder.constant(0, I64))
        builder.branch(empty, lambda: builder.store(noted, error, place))

    return fits, replace(load, index=tuple(index)), note


def _load_place(emitter: Emitter, expr: nodes.Load, storage: Storage, place: Linear) -> Value:
    builder, vector = emitter.builder, emitter.vector
    if vector and mentions(place, vector) and varies(emitter, expr):
        base = place.without(vector)
        if place.coefficient(vector) != 1 or mentions(base, vector) or not _in_words(emitter, storage, base):
            return per_lane(emitter, lambda: _load(emitter, expr))
        if storage.is_packed:
            return load_halves(builder, storage.memref, base.constant, emitter.lanes)
        aligned, scope = emitter.alignment(storage, base), emitter.scope_of(expr)
        value = builder.vector_load(storage.memref, emitter.index(base), emitter.lanes, aligned, scope)
    elif storage.is_packed:
        return load_half(builder, emitter.halves, storage.memref, place.constant)
    else:
        value = builder.load(storage.memref, emitter.index(place), emitter.scope_of(expr))
    if storage.buffer.dtype is DType.BOOL:
        value = builder.compare("ne", value, builder.constant(0, value.type))
    return value


def _in_words(emitter: Emitter, storage: Storage, base: Linear) -> bool:
    """May a vector from `base` on be moved as one, as far as words go?"""
    return not storage.is_packed or (base.constant % 2 == 0 and emitter.lanes % 2 == 0)


def store(emitter: Emitter, target: nodes.Load, value: Value) -> None:
    """`target = value`; nothing where a checked subscript is outside."""
    builder, vector = emitter.builder, emitter.vector
    if any(is_checked(each) for each in target.index):
        if vector:
            raise not_lowered("a write at a place that depends on data, in SIMD lanes")
        fits, plain, note = checked_access(emitter, target, writes=True)

        def write() -> None:
            with emitter.scope():
                store(emitter, plain, value)

        builder.branch(fits, write, note)
        return
    if columns_of(emitter.storage[target.array].buffer.home):
        if vector:
            raise broken("a strip written in SIMD lanes")
        storage, place = emitter.storage[target.array], constant_form(own_place(emitter, target))
        emitter.versions[target.array] = emitter.versions.get(target.array, 0) + 1
    else:
        storage, place = emitter.place(target.array, target.index)
    emitter.forget_loads()
    if storage.buffer.dtype is DType.BOOL:
        value = builder.convert("extui", value, I8)
    if not vector or not mentions(place, vector):
        if lanes_of(value.type):
            value = builder.extract(value, emitter.lanes - 1)
        if storage.is_packed:
            store_half(builder, emitter.halves, target.array, storage.memref, place.constant, value)
            return
        past = emitter.past.get(target.array)
        memref, index = (storage.memref, emitter.index(place)) if past is None else past
        builder.store(value, memref, index, emitter.scope_of(target), nontemporal=past is not None)
        return
    base = place.without(vector)
    value = spread(emitter, value, emitter.lanes)
    if place.coefficient(vector) == 1 and not mentions(base, vector) and _in_words(emitter, storage, base):
        if storage.is_packed:
            store_halves(builder, storage.memref, base.constant, value)
            return
        aligned, scope = emitter.alignment(storage, base), emitter.scope_of(target)
        builder.vector_store(value, storage.memref, emitter.index(base), aligned, scope)
        return
    lanes = iter(range(emitter.lanes))

    def scatter() -> None:
        _, where = emitter.place(target.array, target.index)
        one = builder.extract(value, next(lanes))
        if storage.is_packed:
            store_half(builder, emitter.halves, target.array, storage.memref, where.constant, one)
            return
        builder.store(one, storage.memref, emitter.index(where), emitter.scope_of(target))

    each_lane(emitter, scatter)
