"""STRADDLED loops: rows of memory that start anywhere, moved by way of shared memory.

A lane has V neighbouring elements of a row, and 16-byte accesses where they lie need not be
aligned. So the warp moves the row as 32 lanes see it best, and shared memory, which each warp has a
strip of, puts it in order:

    load:    units 0..31 of the row, one a lane; units 32..63; ... into registers, as they come
    settle:  those to the strip, and each lane's own from there as a vector; when they are needed,
             not when they were asked for
    store:   each lane's own to the strip as a vector, and from there units 0..31, 32..63, ... to
             memory

A unit is an element, or, of elements of less than 32 bits, an aligned word of memory: these start up
to three bytes before the row's first element, the same in all lanes and another in each row, and a
funnel shift puts the elements in their places. At both ends of what is stored, the elements of words
in part are stored one a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES
from loopfuse.codegen.abi import walk_nodes
from loopfuse.codegen.build import I32, INDEX, STORAGE
from loopfuse.codegen.ir import Scalar, Value
from loopfuse.codegen.mlir.emit import Emitter, Storage
from loopfuse.codegen.mlir.expr import emit_value
from loopfuse.codegen.mlir.gpu import emit_barrier
from loopfuse.codegen.mlir.index import Linear, constant_form, linear, mentions
from loopfuse.lang import nodes
from loopfuse.lang.walk import conjuncts, iterators, substitute
from loopfuse.tree.looptree import (
    Copy,
    Global,
    Guard,
    Loop,
    Mapping,
    TreeNode,
    Window,
    straddled_elements,
)

VECTOR = 16
"""Bytes of the widest access."""
BESIDE = 4
"""Units of a strip before a row that is stored, and behind one that is loaded: words that hold no
whole element of a lane. Four of them keep vectors aligned."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a lane's `columns` elements move: as `units` of a type that has at least 32 bits."""

    dtype: DType
    columns: int

    @property
    def narrow(self) -> bool:
        """Several elements a unit."""
        return self.dtype.bytes < 4

    @property
    def units(self) -> int:
        """Of a lane."""
        return self.columns * self.dtype.bytes // 4 if self.narrow else self.columns

    @property
    def elements(self) -> int:
        """Of a unit."""
        return 4 // self.dtype.bytes if self.narrow else 1

    @property
    def unit(self) -> Scalar:
        return I32 if self.narrow else STORAGE[self.dtype]

    @property
    def unit_dtype(self) -> DType:
        return DType.I32 if self.narrow else self.dtype

    @property
    def vector(self) -> int:
        """Units that a lane moves to or from its strip at once."""
        return min(self.units, VECTOR // max(self.dtype.bytes, 4))

    @property
    def strip(self) -> int:
        """Units of a warp's strip."""
        return LANES * self.units + BESIDE


@dataclass(slots=True)
class Arrivals:
    """The rows of a window as they came: `each` units a lane and row, and how many bytes the row's
    first element lies behind the start of the first."""

    rows: int
    each: int
    memref: Value
    behind: Value | None


def emit_straddled(emitter: Emitter, loop: Loop) -> bool:
    """The loop by whole rows of the warp; False (and nothing) where it has to run element by
    element."""
    lower, upper = linear(loop.lower, emitter.facts), linear(loop.upper, emitter.facts)
    columns = upper.constant
    node, test = loop.body[0], None
    if isinstance(node, Guard):
        test, node = node.condition, node.then[0]
    if not isinstance(node, Copy) or not isinstance(node.value, nodes.Load):
        return False
    if lower != constant_form(0) or upper.terms or not emitter.lane or emitter.vector:
        return False
    if emitter.thread is None:
        return False
    layout = _Layout(node.target.dtype, columns)
    is_whole = columns in (2, 4, 8, 16) and straddled_elements(layout.dtype, columns) > 1
    if not is_whole or columns * layout.dtype.bytes < 4:
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
class _Row:
    """Where the warp's row lies: the place of its first element; for narrow ones, how many bytes
    that is behind the start of a word (i32)."""

    storage: Storage
    first: Linear
    behind: Value | None


def _row_of(emitter: Emitter, layout: _Layout, load: nodes.Load, var: str) -> _Row | None:
    """None where the elements are no neighbours, or the warp's lanes lie apart."""
    storage, whole = emitter.place(load.array, load.index)
    form = whole.without(var)
    if whole.coefficient(var) != 1 or mentions(form, var):
        return None
    if form.coefficient(emitter.lane) != layout.columns:
        return None
    first = form.without(emitter.lane)
    if mentions(first, emitter.lane):
        return None
    if not layout.narrow:
        return _Row(storage, first, None)
    # In bytes, so that nothing of the address has to be kept in a register.
    builder = emitter.builder
    step = builder.constant(layout.dtype.bytes.bit_length() - 1, I32)
    start = builder.convert("index_cast", builder.address(storage.memref), I32)
    moved = builder.binary("shli", emitter.form(first, I32, False), step)
    total = builder.binary("addi", start, moved)
    return _Row(storage, first, builder.binary("andi", total, builder.constant(3, I32)))


def _index(emitter: Emitter, layout: _Layout, row: _Row, lane: Value | None) -> Value:
    """The place of the row's first unit; of the lane-th, where there is a lane (i32)."""
    kind, builder = emitter.index_type, emitter.builder
    first = emitter.form(row.first, kind, nsw=True)
    if row.behind is not None:
        step = builder.constant(layout.dtype.bytes.bit_length() - 1, I32)
        # Without `nsw`, as it would be widened first: a 64-bit subtraction takes two instructions.
        elements = builder.binary("shrui", row.behind, step)
        first = builder.binary("subi", first, emitter.fit(elements, kind))
    if lane is not None:
        ahead = builder.binary("muli", lane, builder.constant(layout.elements, I32))
        first = builder.binary("addi", first, emitter.fit(ahead, kind))
    return builder.convert("index_cast", first, INDEX)


def _ahead(emitter: Emitter, index: Value, number: int) -> Value:
    """`index + number`."""
    if not number:
        return index
    return emitter.builder.binary("addi", index, emitter.builder.constant(number, INDEX))


def _lane(emitter: Emitter) -> Value:
    """The lane's number (i32)."""
    return emitter.fit(emitter.variables[emitter.lane], I32)


# ------------------------------------------------------------------------------------- strips


def _strip(emitter: Emitter, layout: _Layout) -> tuple[Value, Value]:
    """Shared memory, and the place in it where the warp's strip starts."""
    builder = emitter.builder
    size = emitter.threads // LANES * layout.strip
    memref = emitter.request_shared(layout.unit_dtype, size)
    if emitter.threads == LANES:
        return memref, builder.constant(0, INDEX)
    assert emitter.thread is not None
    warp = builder.binary("shrui", emitter.thread, builder.constant(5, I32))
    first = builder.binary("muli", warp, builder.constant(layout.strip, I32))
    return memref, builder.convert("index_cast", first, INDEX)


def _places(
    emitter: Emitter, layout: _Layout, start: Value
) -> tuple[Value, Value, Value]:
    """In the strip: where the lane's own units start, the lane-th unit, and the lane's number."""
    builder, lane = emitter.builder, _lane(emitter)
    each = builder.binary("muli", lane, builder.constant(layout.units, I32))
    own = builder.binary("addi", start, builder.convert("index_cast", each, INDEX))
    return own, builder.binary("addi", start, builder.convert("index_cast", lane, INDEX)), lane


def _bytes(layout: _Layout) -> int:
    """Of a vector of units."""
    return layout.vector * max(layout.dtype.bytes, 4)


# ------------------------------------------------------------------------------------- loads


def _load(
    emitter: Emitter, var: str, layout: _Layout, target: nodes.Load, source: nodes.Load
) -> bool:
    """Memory to the row of a window: units, as they come."""
    row = _row_of(emitter, layout, source, var)
    home = emitter.storage[target.array].buffer.home
    if row is None or not isinstance(home, Window):
        return False
    builder = emitter.builder
    arrivals: Arrivals | None = emitter.arrivals.get(target.array)
    if arrivals is None:
        each = layout.units + layout.narrow
        units = builder.alloca(layout.unit, each * home.rows)
        behind = builder.alloca(I32, home.rows) if layout.narrow else None
        arrivals = Arrivals(home.rows, each, units, behind)
        emitter.arrivals[target.array] = arrivals
    number = _number(emitter, target, home.rows)
    if arrivals.behind is not None and row.behind is not None:
        builder.store(row.behind, arrivals.behind, builder.constant(number, INDEX))
    first = _index(emitter, layout, row, _lane(emitter))
    for k in range(arrivals.each):
        index = _ahead(emitter, first, k * LANES * layout.elements)
        if k == layout.units:  # what the last lane has in part, to all of them
            start = _index(emitter, layout, row, None)
            index = _ahead(emitter, start, k * LANES * layout.elements)
        place = builder.constant(number * arrivals.each + k, INDEX)
        builder.store(_unit(emitter, layout, row, index), arrivals.memref, place)
    return True


def arrivals_in(emitter: Emitter, body: tuple[TreeNode, ...]) -> Iterator[Arrivals]:
    """Where the rows that STRADDLED loops of `body` load wait."""
    for node in walk_nodes(body):
        if isinstance(node, Loop) and node.mapping is Mapping.STRADDLED:
            for copy in walk_nodes(node.body):
                if isinstance(copy, Copy) and copy.target == copy.value:
                    arrivals = emitter.arrivals.get(copy.target.array)
                    if arrivals is not None:
                        yield arrivals


def _unit(emitter: Emitter, layout: _Layout, row: _Row, index: Value) -> Value:
    """A unit of memory."""
    builder = emitter.builder
    if not layout.narrow:
        return builder.load(row.storage.memref, index)
    word = builder.vector_load(row.storage.memref, index, layout.elements, 4)
    return builder.extract(builder.recast(word, I32), 0)


def _settle(emitter: Emitter, var: str, layout: _Layout, target: nodes.Load) -> None:
    """The row of a window that came as units: its elements to their places."""
    arrivals: Arrivals | None = emitter.arrivals.get(target.array)
    if arrivals is None:
        return  # they came one by one
    builder = emitter.builder
    number = _number(emitter, target, arrivals.rows)
    strip, start = _strip(emitter, layout)
    own, there, _ = _places(emitter, layout, start)
    emit_barrier(emitter, "warp")
    for k in range(arrivals.each):
        came = builder.load(
            arrivals.memref, builder.constant(number * arrivals.each + k, INDEX)
        )
        # The last unit is the same in all lanes.
        place = there if k < layout.units else start
        builder.store(came, strip, _ahead(emitter, place, k * LANES))
    emit_barrier(emitter, "warp")
    units: list[Value] = []
    for k in range(0, layout.units, layout.vector):
        vector = builder.vector_load(strip, _ahead(emitter, own, k), layout.vector, _bytes(layout))
        units += [builder.extract(vector, unit) for unit in range(layout.vector)]
    if arrivals.behind is not None:
        units.append(builder.load(strip, _ahead(emitter, own, layout.units)))
        behind = builder.load(arrivals.behind, builder.constant(number, INDEX))
        bits = builder.binary("shli", behind, builder.constant(3, I32))
        units = [
            builder.intrinsic("llvm.fshr.i32", [units[k + 1], units[k], bits], I32)
            for k in range(layout.units)
        ]
    for column, value in enumerate(_elements(emitter, layout, units)):
        builder.store(value, *_own(emitter, target, var, column))
    emitter.forget_loads()


def _number(emitter: Emitter, load: nodes.Load, rows: int) -> int:
    """Which row of the window it is."""
    form = emitter.row(linear(load.index[0], emitter.facts), rows)
    assert not form.terms, f"the row of {load.array} is not constant"
    return form.constant


def _own(emitter: Emitter, load: nodes.Load, var: str, column: int) -> tuple[Value, Value]:
    """A lane's register: its memref, and its place there."""
    emitter.facts.constants[var] = column
    storage, place = emitter.place(load.array, load.index)
    del emitter.facts.constants[var]
    return storage.memref, emitter.index(place)


def _elements(emitter: Emitter, layout: _Layout, units: Sequence[Value]) -> list[Value]:
    """The elements in a lane's units."""
    if not layout.narrow:
        return list(units)
    builder = emitter.builder
    vector = builder.recast(builder.from_elements(units), STORAGE[layout.dtype])
    return [builder.extract(vector, k) for k in range(layout.columns)]


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
    active = _active_lanes(emitter, layout, test, var)
    row = None if active is None else _row_of(emitter, layout, target, var)
    if row is None or active is None:
        return False
    where = active.where
    builder = emitter.builder
    own = [builder.load(*_own(emitter, source, var, k)) for k in range(layout.columns)]

    def move() -> None:
        with emitter.scope():
            _by_units(emitter, layout, row, own, active, var)
            if row.behind is not None:
                _ends(emitter, layout, row, active)

    if where is None:
        move()
    else:
        builder.branch(where, move)
    emitter.forget_loads()
    return True


def _by_units(
    emitter: Emitter,
    layout: _Layout,
    row: _Row,
    own: Sequence[Value],
    active: _Active,
    var: str,
) -> None:
    """The units that lie wholly in what active lanes have."""
    builder = emitter.builder
    strip, start = _strip(emitter, layout)
    mine, there, lane = _places(emitter, layout, start)
    units = list(own)
    if layout.narrow:
        words = builder.recast(builder.from_elements(own), I32)
        units = [builder.extract(words, k) for k in range(layout.units)]
    emit_barrier(emitter, "warp")
    for k in range(0, layout.units, layout.vector):
        vector = builder.from_elements(units[k : k + layout.vector])
        builder.vector_store(vector, strip, _ahead(emitter, mine, BESIDE + k), _bytes(layout))
    emit_barrier(emitter, "warp")
    index = _index(emitter, layout, row, lane)
    for k in range(layout.units):
        place = _ahead(emitter, there, BESIDE + k * LANES)
        there_too = _ahead(emitter, index, k * LANES * layout.elements)

        def one(place: Value = place, index: Value = there_too) -> None:
            value = builder.load(strip, place)
            if row.behind is None:
                builder.store(value, row.storage.memref, index)
                return
            before = builder.load(strip, _ahead(emitter, place, -1))
            bits = builder.binary("shli", row.behind, builder.constant(3, I32))
            word = builder.intrinsic("llvm.fshl.i32", [value, before, bits], I32)
            vector = builder.recast(builder.from_elements([word]), STORAGE[layout.dtype])
            builder.vector_store(vector, row.storage.memref, index, 4)

        # The lane-th unit from here on is what the loop's variable is in lane 0.
        lane_th = nodes.Binary(
            "add", nodes.Iter(emitter.lane), nodes.Const(k * LANES, DType.I64), DType.I64
        )
        there_is = {emitter.lane: nodes.Const(0, DType.I64), var: lane_th}
        tests = [emit_value(emitter, substitute(each, there_is)) for each in active.each]
        _if_between(emitter, layout, row, k * LANES, active, tests, one)


def _if_between(
    emitter: Emitter,
    layout: _Layout,
    row: _Row,
    number: int,
    active: _Active,
    tests: list[Value],
    body: Callable[[], None],
) -> None:
    """`body`, where the lane-th unit from `number` on lies wholly in what active lanes have, and
    `tests` hold."""
    builder, lane = emitter.builder, _lane(emitter)
    low, high = active.first * layout.units - number, active.last * layout.units - number
    if row.behind is not None and low >= 0:  # the first word may begin before
        zero = builder.constant(0, I32)
        is_part = builder.compare("ne", row.behind, zero)
        least = builder.select(is_part, builder.constant(low + 1, I32), builder.constant(low, I32))
        tests.append(builder.compare("sge", lane, least))
    elif low > 0:
        tests.append(builder.compare("sge", lane, builder.constant(low, I32)))
    if high < LANES:
        tests.append(builder.compare("slt", lane, builder.constant(high, I32)))
    if low >= LANES or high <= 0:
        return
    if not tests:
        body()
        return
    holds = tests[0]
    for each in tests[1:]:
        holds = builder.binary("andi", holds, each)
    builder.branch(holds, body)


def _ends(emitter: Emitter, layout: _Layout, row: _Row, active: _Active) -> None:
    """The elements of words that only begin or end in what active lanes have, from the strip and at
    once: lanes 0 to 3 store those before the first whole word, from the first on; lanes 4 to 7 those
    behind the last, from the last back."""
    builder, lane, size = emitter.builder, _lane(emitter), layout.dtype.bytes
    assert row.behind is not None

    def constant(value: int) -> Value:
        return builder.constant(value, I32)

    is_last = builder.compare("sge", lane, constant(4))
    number = builder.binary("andi", lane, constant(3))
    # The first word holds as many bytes of others as it begins before the row; the last, of this one.
    before = builder.binary("andi", builder.binary("subi", constant(0), row.behind), constant(3))
    count = builder.select(is_last, row.behind, before)
    ahead = builder.binary("addi", number, constant(1))
    reaches = builder.compare("sle", builder.binary("muli", ahead, constant(size)), count)
    holds = builder.binary("andi", reaches, builder.compare("slt", lane, constant(8)))

    def one() -> None:
        strip, start = _strip(emitter, layout)
        ends = active.first * layout.units, active.last * layout.units - 1
        unit = builder.select(is_last, constant(BESIDE + ends[1]), constant(BESIDE + ends[0]))
        unit = builder.convert("index_cast", unit, INDEX)
        word = builder.load(strip, builder.binary("addi", start, unit))
        back = builder.binary("subi", constant(layout.elements - 1), number)
        within = builder.select(is_last, builder.binary("andi", back, constant(3)), number)
        bits = builder.binary("muli", within, constant(8 * size))
        moved = builder.from_elements([builder.binary("shrui", word, bits)])
        value = builder.extract(builder.recast(moved, STORAGE[layout.dtype]), 0)
        behind = builder.binary("subi", constant(active.last * layout.columns - 1), number)
        first = builder.binary("addi", number, constant(active.first * layout.columns))
        place = emitter.fit(builder.select(is_last, behind, first), emitter.index_type)
        start = emitter.form(row.first, emitter.index_type, nsw=True)
        index = builder.convert("index_cast", builder.binary("addi", start, place), INDEX)
        builder.store(value, row.storage.memref, index)

    builder.branch(holds, one)


@dataclass(frozen=True, slots=True)
class _Active:
    """The first and last lane (exclusive) that store; what holds for all of them; and what is asked
    of each element, by the lane and the loop's variable."""

    first: int
    last: int
    where: Value | None
    each: tuple[nodes.Expr, ...]


def _active_lanes(
    emitter: Emitter, layout: _Layout, test: nodes.Expr | None, var: str
) -> _Active | None:
    """Where the test holds; None where that is not what it says."""
    first, last = 0, LANES
    rest: list[Value] = []
    elements: list[nodes.Expr] = []
    for each in conjuncts(test) if test is not None else ():
        match each:
            case nodes.Compare(
                op="ge" | "lt" as op, left=nodes.Iter(name=name), right=nodes.Const(value=value)
            ) if name == emitter.lane:
                first = max(first, int(value)) if op == "ge" else first
                last = min(last, int(value)) if op == "lt" else last
            case _ if {emitter.lane, var} & iterators(each):
                if layout.narrow or not _is_of_columns(emitter, layout, each, var):
                    return None
                elements.append(each)
            case _:
                rest.append(emit_value(emitter, each))
    if first >= last:
        return None
    where: Value | None = None
    for each in rest:
        where = each if where is None else emitter.builder.binary("andi", where, each)
    return _Active(first, last, where, tuple(elements))


def _is_of_columns(emitter: Emitter, layout: _Layout, test: nodes.Expr, var: str) -> bool:
    """Does a test depend on the lane and the loop's variable by the element's column alone?"""
    match test:
        case nodes.Binary(op="and" | "or", left=left, right=right):
            return all(_is_of_columns(emitter, layout, part, var) for part in (left, right))
        case nodes.Unary(op="not", operand=operand):
            return _is_of_columns(emitter, layout, operand, var)
        case nodes.Compare(left=left, right=right):
            for part in (left, right):
                form = linear(part, emitter.facts)
                if form.coefficient(emitter.lane) != layout.columns * form.coefficient(var):
                    return False
                rest = form.without(emitter.lane).without(var)
                if mentions(rest, emitter.lane) or mentions(rest, var):
                    return False
            return True
        case _:
            return not {emitter.lane, var} & iterators(test)
