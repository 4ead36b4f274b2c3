"""Strips of elements that a warp holds, some columns a lane: own columns are registers, another
lane's are read by shuffle.

A strip's last subscript is `lane * columns + c`: column c of the lane, where 0 <= c < columns, else
a column of the lane `c // columns` further on. A subscript taken modulo the strip's length goes
round from the last lane to the first, as the shuffle does. Any other subscript is found among the
columns of the lane it names.
"""

from __future__ import annotations

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES
from loopfuse.codegen.abi import broken
from loopfuse.codegen.build import I32, INDEX, STORAGE
from loopfuse.codegen.ir import Value
from loopfuse.codegen.mlir.emit import Emitter, Storage
from loopfuse.codegen.mlir.index import Linear, constant_form, linear
from loopfuse.codegen.mlir.shuffle import shuffle, shuffled
from loopfuse.lang import nodes
from loopfuse.tree.looptree import Window, columns_of


def load_lanes(emitter: Emitter, expr: nodes.Load) -> Value:
    """An element of a strip: a shuffle, unless it is always the lane's own."""
    storage = emitter.storage[expr.array]
    columns, row = columns_of(storage.buffer.home), _row(emitter, storage, expr)
    form = _column(emitter, expr, columns)
    builder, dtype = emitter.builder, storage.buffer.dtype

    def own(column: int) -> Value:
        return _raw(emitter, storage, row * columns + column)

    rest = form.without(emitter.lane)
    if form.coefficient(emitter.lane) == columns and not rest.terms:
        distance, column = divmod(rest.constant, columns)
        if not distance:
            return _value(emitter, own(column), dtype)
        form = linear(nodes.Iter(emitter.lane), emitter.facts).plus(constant_form(distance))
        source = emitter.form(form, I32, True)
        each = 4 // dtype.bytes  # elements that one shuffle can bring
        if each < 2 or columns % each:
            value = shuffled(emitter, "idx", own(column), source, dtype)
            return _value(emitter, value, dtype)
        first = column // each * each

        def word() -> Value:
            elements = builder.from_elements([own(first + k) for k in range(each)])
            return shuffle(emitter, "idx", builder.extract(builder.recast(elements, I32), 0), source)

        version = emitter.versions.get(expr.array, 0)
        found = emitter.remembered((expr.array, version, row, first, distance), word)
        parts = builder.recast(builder.from_elements([found]), STORAGE[dtype])
        return _value(emitter, builder.extract(parts, column - first), dtype)
    element = emitter.fit(emitter.form(form, *emitter.width(form)), I32)
    count = builder.constant(columns, I32)
    source = builder.binary("divui", element, count)
    column = builder.binary("remui", element, count)
    found: Value | None = None
    for number in range(columns):
        value = shuffled(emitter, "idx", own(number), source, dtype)
        if found is None:
            found = value
            continue
        here = builder.compare("eq", column, builder.constant(number, I32))
        found = builder.select(here, value, found)
    assert found is not None
    return _value(emitter, found, dtype)


def own_place(emitter: Emitter, target: nodes.Load) -> int:
    """Where a lane's own element of a strip lies among its registers."""
    storage = emitter.storage[target.array]
    columns = columns_of(storage.buffer.home)
    rest = _column(emitter, target, columns).without(emitter.lane)
    if rest.terms or not 0 <= rest.constant < columns:
        raise broken(f"a lane writes a column of {target.array} that is not its own")
    return _row(emitter, storage, target) * columns + rest.constant


def _row(emitter: Emitter, storage: Storage, load: nodes.Load) -> int:
    """The row of a window, a constant; 0 of a single strip."""
    home = storage.buffer.home
    if len(load.index) != 1 + isinstance(home, Window):
        raise broken(f"{load.array} has another number of dimensions")
    if not isinstance(home, Window):
        return 0
    form = emitter.row(linear(load.index[0], emitter.facts), home.rows)
    if form.terms:
        raise broken(f"the row of {load.array} is not constant")
    return form.constant


def _column(emitter: Emitter, load: nodes.Load, columns: int) -> Linear:
    """The column of a strip as a linear form, a final modulo its length left away."""
    index = load.index[-1]
    match index:
        case nodes.Binary(op="mod", left=left, right=nodes.Const(value=length)) if (
            length == LANES * columns
        ):
            form = linear(left, emitter.facts)
            rest = form.without(emitter.lane)
            if form.coefficient(emitter.lane) == columns and not rest.terms:
                return form
        case _:
            pass
    return linear(index, emitter.facts)


def _raw(emitter: Emitter, storage: Storage, place: int) -> Value:
    """A register as it is stored."""
    return emitter.builder.load(storage.memref, emitter.builder.constant(place, INDEX))


def _value(emitter: Emitter, value: Value, dtype: DType) -> Value:
    if dtype is not DType.BOOL:
        return value
    return emitter.builder.compare("ne", value, emitter.builder.constant(0, value.type))
