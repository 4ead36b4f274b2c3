"""STRADDLED loops: rows of memory that start anywhere, moved in whole aligned vectors.

A lane's V elements start s elements behind a multiple of 16 bytes (of all its bytes, where that is
less); s is the same for the whole warp, and another in each row.

    load:    the vector in which the lane's first element lies, and the next
    settle:  of those, V elements from the s-th on; when they are needed, not when they were asked for
    store:   the last s elements of the lane before and the lane's own but the last s, as a vector;
             what is left at the ends of what the warp stores, element by element

Elements of less than 32 bits move as words, which a funnel shift puts in their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Attribute, SSAValue

from loopfuse.base.dtypes import DType
from loopfuse.codegen.mlir_build import I32, INDEX, STORAGE
from loopfuse.codegen.mlir_emit import Emitter, Storage
from loopfuse.codegen.mlir_expr import emit_value
from loopfuse.codegen.mlir_index import (
    Linear,
    bound,
    conjuncts,
    constant_form,
    divisor,
    linear,
    mentions,
)
from loopfuse.codegen.mlir_shuffle import shuffled
from loopfuse.lang import nodes
from loopfuse.lang.walk import iterators
from loopfuse.plan.looptree import Copy, Global, Guard, Loop, Window, straddled_elements

LANES = 32


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a lane's `columns` elements move: in `vectors` aligned vectors of `elements`, each of
    `units` of a type that has at least 32 bits."""

    dtype: DType
    columns: int

    @property
    def elements(self) -> int:
        return straddled_elements(self.dtype, self.columns)

    @property
    def vectors(self) -> int:
        return self.columns // self.elements

    @property
    def narrow(self) -> bool:
        """Several elements a unit."""
        return self.dtype.bytes < 4

    @property
    def units(self) -> int:
        return self.elements * self.dtype.bytes // 4 if self.narrow else self.elements

    @property
    def unit(self) -> Attribute:
        return I32 if self.narrow else STORAGE[self.dtype]

    @property
    def unit_dtype(self) -> DType:
        return DType.I32 if self.narrow else self.dtype

    @property
    def bytes(self) -> int:
        """Of a vector."""
        return self.elements * self.dtype.bytes


@dataclass(slots=True)
class _Arrivals:
    """The rows of a window as vectors: `vectors` + 1 of them a row, and where in them a row's
    elements start."""

    layout: _Layout
    rows: int
    memref: SSAValue
    shifts: SSAValue


def emit_straddled(emitter: Emitter, loop: Loop) -> bool:
    """The loop by whole vectors; False (and nothing) where it has to run element by element."""
    lower, upper = linear(loop.lower, emitter.facts), linear(loop.upper, emitter.facts)
    columns = upper.constant
    node, test = loop.body[0], None
    if isinstance(node, Guard):
        test, node = node.condition, node.then[0]
    if not isinstance(node, Copy) or not isinstance(node.value, nodes.Load):
        return False
    if lower != constant_form(0) or upper.terms or not emitter.lane or emitter.vector:
        return False
    layout = _Layout(node.target.dtype, columns)
    is_whole = columns in (2, 4, 8, 16) and layout.elements > 1 and layout.bytes >= 4
    if not is_whole:
        return False
    source, target = emitter.storage[node.value.array], emitter.storage[node.target.array]
    if isinstance(source.buffer.home, Global):
        return _load(emitter, loop.var, layout, node.target, node.value)
    if isinstance(target.buffer.home, Global):
        return _store(emitter, loop.var, layout, node.target, node.value, test)
    if node.target != node.value:
        return False
    _settle(emitter, loop.var, layout, node.target)
    return True


# --------------------------------------------------------------------------------- addresses


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a lane's elements lie: the place of the first, and how many elements behind a multiple
    of a vector's bytes (i32)."""

    storage: Storage
    form: Linear
    shift: SSAValue


def _place(emitter: Emitter, layout: _Layout, load: nodes.Load, var: str) -> _Place | None:
    """None where the elements are no neighbours, or the warp's lanes lie apart."""
    storage, whole = emitter.place(load.array, load.index)
    form = whole.without(var)
    if whole.coefficient(var) != 1 or mentions(form, var):
        return None
    if form.coefficient(emitter.lane) != layout.columns:
        return None
    facts, builder = emitter.facts, emitter.builder
    terms = [term for term in form.terms if divisor(Linear((term,), 0), facts) % layout.elements]
    moving = Linear(tuple(terms), form.constant % layout.elements)
    if mentions(moving, emitter.lane):
        return None

    # In bytes, so that nothing of the address has to be kept in a register.
    step = builder.constant(layout.dtype.bytes.bit_length() - 1, I32)
    first = builder.convert("index_cast", builder.address(storage.memref), I32)
    behind = builder.binary("shli", emitter.form(moving, I32, False), step)
    total = builder.binary("addi", first, behind)
    bytes_ = builder.binary("andi", total, builder.constant(layout.bytes - 1, I32))
    shift = builder.binary("shrui", bytes_, step)
    return _Place(storage, form, shift)


def _vector_index(emitter: Emitter, place: _Place, ahead: int) -> SSAValue:
    """The index of the vector in which the lane's first element lies, `ahead` elements on."""
    kind, builder = emitter.index_type, emitter.builder
    first = emitter.form(place.form, kind, nsw=True)
    # Without `nsw`, as it would be widened first: a 64-bit subtraction takes two instructions.
    start = builder.binary("subi", first, emitter.fit(place.shift, kind))
    index = builder.convert("index_cast", start, INDEX)
    return builder.binary("addi", index, builder.constant(ahead, INDEX)) if ahead else index


# ------------------------------------------------------------------------------------- loads


def _load(
    emitter: Emitter, var: str, layout: _Layout, target: nodes.Load, source: nodes.Load
) -> bool:
    """Memory to the row of a window: vectors, as they come."""
    place = _place(emitter, layout, source, var)
    home = emitter.storage[target.array].buffer.home
    if place is None or not isinstance(home, Window):
        return False
    builder = emitter.builder
    arrivals: _Arrivals | None = emitter.arrivals.get(target.array)
    if arrivals is None:
        words = layout.units * (layout.vectors + 1)
        arrivals = _Arrivals(
            layout,
            home.rows,
            builder.alloca(layout.unit, words * home.rows),
            builder.alloca(I32, home.rows),
        )
        emitter.arrivals[target.array] = arrivals
    row = _row(emitter, target, home.rows)
    builder.store(place.shift, arrivals.shifts, builder.constant(row, INDEX))
    number = row * layout.units * (layout.vectors + 1)
    for vector in range(layout.vectors + 1):
        index = _vector_index(emitter, place, vector * layout.elements)
        loaded = builder.vector_load(place.storage.memref, index, layout.elements, layout.bytes)
        for unit in _units(emitter, layout, loaded):
            builder.store(unit, arrivals.memref, builder.constant(number, INDEX))
            number += 1
    return True


def _settle(emitter: Emitter, var: str, layout: _Layout, target: nodes.Load) -> None:
    """The row of a window that came as vectors: its elements to their places."""
    arrivals: _Arrivals | None = emitter.arrivals.get(target.array)
    if arrivals is None:
        return  # they came one by one
    builder = emitter.builder
    row = _row(emitter, target, arrivals.rows)
    shift = builder.load(arrivals.shifts, builder.constant(row, INDEX))
    count = layout.units * (layout.vectors + 1)
    units = [
        builder.load(arrivals.memref, builder.constant(row * count + k, INDEX))
        for k in range(count)
    ]
    wanted = layout.units * layout.vectors
    found = _moved(emitter, layout, units, shift, 0, wanted + layout.narrow, 1)
    if layout.narrow:
        amount = _bits(emitter, layout, shift)
        found = [
            builder.intrinsic("llvm.fshr.i32", [found[k + 1], found[k], amount], I32)
            for k in range(wanted)
        ]
    for column, value in enumerate(_elements(emitter, layout, found)):
        builder.store(value, *_own(emitter, target, var, column))
    emitter.forget_loads()


def _row(emitter: Emitter, load: nodes.Load, rows: int) -> int:
    form = emitter.modulo(linear(load.index[0], emitter.facts), rows)
    assert not form.terms, f"the row of {load.array} is not constant"
    return form.constant


def _own(emitter: Emitter, load: nodes.Load, var: str, column: int) -> tuple[SSAValue, SSAValue]:
    """A lane's register: its memref, and its place there."""
    emitter.facts.constants[var] = column
    storage, place = emitter.place(load.array, load.index)
    del emitter.facts.constants[var]
    return storage.memref, emitter.index(place)


# ------------------------------------------------------------------------------------ stores


def _store(
    emitter: Emitter,
    var: str,
    layout: _Layout,
    target: nodes.Load,
    source: nodes.Load,
    test: nodes.Expr | None,
) -> bool:
    """The row of a window to memory, by the lanes for which `test` holds."""
    active = _active_lanes(emitter, test)
    place = None if active is None else _place(emitter, layout, target, var)
    if place is None or active is None:
        return False
    first, last, where = active
    builder = emitter.builder
    own = [builder.load(*_own(emitter, source, var, k)) for k in range(layout.columns)]
    vectors = _from_lane_before(emitter, layout, own, place.shift)
    lane = emitter.fit(emitter.variables[emitter.lane], I32)
    tests = [_between(emitter, lane, first + 1, last)]
    tests += [builder.compare("eq", lane, builder.constant(k, I32)) for k in (first, last - 1)]
    if where is not None:
        tests = [builder.binary("andi", where, each) for each in tests]
    inner, *ends = tests
    indices = [_vector_index(emitter, place, k * layout.elements) for k in range(len(vectors))]

    def whole() -> None:
        for vector, index in zip(vectors, indices, strict=True):
            builder.vector_store(vector, place.storage.memref, index, layout.bytes)

    if last - first > 1:
        builder.branch(inner, whole)
    for column, value in enumerate(own):
        mine = _is_left_over(emitter, layout, place.shift, column, ends[0], ends[1])
        index = emitter.index(place.form.plus(constant_form(column)))

        def one(value: SSAValue = value, index: SSAValue = index) -> None:
            builder.store(value, place.storage.memref, index)

        builder.branch(mine, one)
    emitter.forget_loads()
    return True


def _active_lanes(
    emitter: Emitter, test: nodes.Expr | None
) -> tuple[int, int, SSAValue | None] | None:
    """The first and last lane (exclusive) for which the test holds, and what is left of it, the
    same for all lanes; None where that is not what it says."""
    first, last, rest = 0, LANES, list[SSAValue]()
    for each in conjuncts(test) if test is not None else ():
        match each:
            case nodes.Compare(
                op="ge" | "lt" as op, left=nodes.Iter(name=name), right=nodes.Const(value=value)
            ) if name == emitter.lane:
                first = max(first, int(value)) if op == "ge" else first
                last = min(last, int(value)) if op == "lt" else last
            case _ if emitter.lane in iterators(each):
                return None
            case _:
                rest.append(emit_value(emitter, each))
    if first >= last:
        return None
    where: SSAValue | None = None
    for each in rest:
        where = each if where is None else emitter.builder.binary("andi", where, each)
    return first, last, where


def _between(emitter: Emitter, lane: SSAValue, first: int, last: int) -> SSAValue:
    """Is the lane one of first..last?"""
    builder = emitter.builder
    low = builder.compare("sge", lane, builder.constant(first, I32))
    high = builder.compare("slt", lane, builder.constant(last, I32))
    return builder.binary("andi", low, high)


def _is_left_over(
    emitter: Emitter,
    layout: _Layout,
    shift: SSAValue,
    column: int,
    first: SSAValue,
    last: SSAValue,
) -> SSAValue:
    """Is the lane's own element in none of the vectors? Of the first lane all are but the last
    `shift`, of the last lane those; `first` and `last`: is it that lane?"""
    builder = emitter.builder
    if column == 0:
        return first
    kept = builder.compare("slt", shift, builder.constant(layout.columns - column, I32))
    return builder.select(kept, first, last)


def _from_lane_before(
    emitter: Emitter, layout: _Layout, own: Sequence[SSAValue], shift: SSAValue
) -> list[SSAValue]:
    """The vectors of the elements from `shift` before the lane's own on."""
    builder = emitter.builder
    units = list(own)
    if layout.narrow:
        units = _units(emitter, layout, builder.from_elements(own))
    count = layout.units if layout.narrow else layout.units - 1
    form = linear(nodes.Iter(emitter.lane), emitter.facts).plus(constant_form(-1))
    source = emitter.form(form, I32, bound(form, emitter.facts) < 1 << 31)
    before = [
        shuffled(emitter, "idx", unit, source, layout.unit_dtype)
        for unit in units[len(units) - count :]
    ]
    start = count - layout.narrow
    found = _moved(emitter, layout, [*before, *units], shift, start, len(units) + layout.narrow, -1)
    if layout.narrow:
        amount = _bits(emitter, layout, shift)
        found = [
            builder.intrinsic("llvm.fshl.i32", [found[k + 1], found[k], amount], I32)
            for k in range(len(units))
        ]
    out: list[SSAValue] = []
    for k in range(layout.vectors):
        vector = builder.from_elements(found[k * layout.units : (k + 1) * layout.units])
        out.append(builder.recast(vector, STORAGE[layout.dtype]) if layout.narrow else vector)
    return out


# --------------------------------------------------------------------------- units and shifts


def _units(emitter: Emitter, layout: _Layout, vector: SSAValue) -> list[SSAValue]:
    """A vector's units."""
    builder = emitter.builder
    if layout.narrow:
        vector = builder.recast(vector, I32)
    return [builder.extract(vector, k) for k in range(vector.type.get_shape()[0])]  # pyright: ignore


def _elements(emitter: Emitter, layout: _Layout, units: Sequence[SSAValue]) -> list[SSAValue]:
    """The elements in units."""
    if not layout.narrow:
        return list(units)
    builder = emitter.builder
    vector = builder.recast(builder.from_elements(units), STORAGE[layout.dtype])
    return [builder.extract(vector, k) for k in range(layout.columns)]


def _moved(
    emitter: Emitter,
    layout: _Layout,
    units: Sequence[SSAValue],
    shift: SSAValue,
    start: int,
    count: int,
    sign: int,
) -> list[SSAValue]:
    """`count` units from `start + sign * n` on, n the units in `shift` elements: chosen by one bit
    of n after the other."""
    builder = emitter.builder
    each = 4 // layout.dtype.bytes if layout.narrow else 1  # elements a unit
    found: dict[int, SSAValue] = dict(enumerate(units))
    step = layout.units // 2
    while step:
        bit = builder.binary("andi", shift, builder.constant(step * each, I32))
        is_set = builder.compare("ne", bit, builder.constant(0, I32))
        low, high = start, start + count  # and what smaller steps may move by
        if sign < 0:
            low -= step - 1
        else:
            high += step - 1
        found = {
            k: builder.select(is_set, found[k + sign * step], found[k]) for k in range(low, high)
        }
        step //= 2
    return [found[start + k] for k in range(count)]


def _bits(emitter: Emitter, layout: _Layout, shift: SSAValue) -> SSAValue:
    """`shift` in bits; a funnel shift takes it modulo a word's."""
    width = emitter.builder.constant((layout.dtype.bytes * 8).bit_length() - 1, I32)
    return emitter.builder.binary("shli", shift, width)
