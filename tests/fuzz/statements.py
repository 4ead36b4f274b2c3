"""Statements: stores, updates, conditions, inner loops, private values, and whole nests."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.builder import NAMES, TIME, Array, Builder, Extent, Iterator, is_integer
from fuzz.expressions import (
    comparison,
    condition,
    expression,
    leaf,
    literal,
    mixed,
    ragged_range,
    ragged_value,
    reduction,
    typed,
)
from fuzz.ranges import size_range
from fuzz.subscripts import load, single_edge, subscript, target


def nest(
    b: Builder, sizes: tuple[str, ...], full: bool, body: Callable[[], None], parallel: bool = False
) -> None:
    """A loop nest over `sizes` around what `body()` adds; just that, where names ran out."""
    headers: list[str] = []
    if not sizes or not b.free_names():
        return body()
    for name, size in zip(b.free_names(), sizes):
        it, header = size_range(b, name, size, full)
        b.enter(it)
        headers.append(header)
    count = len(headers)
    split = b.integer(1, count) if count > 1 and b.chance(3) else count
    b.line(f"{'parallel ' if parallel else ''}for {', '.join(headers[:split])}:")
    b.indent += 1
    if split < count:
        if b.maybe("imperfect_nests", 2) and not full:
            inner, b.scope = b.scope, b.scope[: len(b.scope) - (count - split)]
            store(b)
            b.scope = inner
        b.line(f"for {', '.join(headers[split:])}:")
        b.indent += 1
    before = set(b.scalars)
    filled(b, body)
    b.scalars = {k: v for k, v in b.scalars.items() if k in before}
    b.indent -= 1 + (split < count)
    b.leave(count)


def filled(b: Builder, body: Callable[[], None]) -> None:
    """`body()`, and a harmless statement if it added nothing (a suite is never empty)."""
    before = len(b.lines)
    body()
    if len(b.lines) == before:
        b.line(f"let {b.fresh('v')}: i64 = 0")


def update_operators(dtype: str) -> list[str]:
    """Operators of updates that suit a type."""
    if dtype == "bool":
        return ["|=", "&=", "^="]
    return ["+=", "min=", "max=", "-=", "*="] + ["&=", "|=", "^="] * is_integer(dtype)


def store(b: Builder) -> None:
    """An assignment or an update."""
    options = b.writable()
    if not options:
        return
    array = b.pick(options)
    place = target(b, array)
    if array.name in b.readable and (b.maybe("updates", 2) or b.maybe("reducing_updates", 2)):
        operator = b.pick(update_operators(array.dtype))
        b.line(f"{place} {operator} {expression(b, array.dtype)}")
    else:
        b.line(f"{place} = {expression(b, array.dtype)}")


def statements(b: Builder, budget: int) -> None:
    """Between one and `budget` statements; the last is a store where possible."""
    for _ in range(b.integer(1, budget)):
        if b.maybe("lets", 5):
            dtype = b.pick(b.dtypes)
            name = b.fresh("v")
            b.line(f"let {name}: {dtype} = {expression(b, dtype)}")
            b.scalars[name] = dtype
            store(b)
        elif b.scope and b.maybe("overwritten_vars", 2):
            overwritten(b)
        elif b.depth < 2 and b.maybe("size_products", 3):
            product_loop(b)
        elif b.maybe("iterator_guards", 4) or b.maybe("data_guards", 4):
            guarded(b)
        elif b.depth < 3 and b.scope and b.maybe("imperfect_nests", 4):
            nest(b, (b.pick(b.sizes),), False, lambda: statements(b, 1))
            store(b)
        elif b.depth < 3 and b.maybe("accumulators", 3):
            accumulate(b)
        elif b.depth < 3 and b.scope and (b.maybe("local_temps", 3) or b.maybe("rewritten_temps", 2)):
            local_temp(b)
        elif (b.maybe("ragged", 2) and ragged_loop(b)) or (b.maybe("own_operands", 2) and own_operand(b)):
            pass
        else:
            store(b)


def guarded(b: Builder) -> None:
    """`if`, at times with `elif` and `else`."""
    b.line(f"if {condition(b)}:")
    block(b)
    if b.maybe("elif", 2):
        b.line(f"elif {condition(b)}:")
        block(b)
    if b.chance(2):
        b.line("else:")
        block(b)


def block(b: Builder) -> None:
    """An indented suite with its own scalars."""
    before = dict(b.scalars)
    b.indent += 1
    filled(b, lambda: statements(b, 1))
    b.indent -= 1
    b.scalars = before


def overwritten(b: Builder) -> None:
    """A `var` that is assigned anew where conditions on iterators hold, then stored."""
    dtype = b.pick(b.dtypes)
    name = b.fresh("u")
    b.line(f"var {name}: {dtype} = {expression(b, dtype)}")
    b.scalars[name] = dtype

    def assign() -> None:
        b.indent += 1
        b.line(f"{name} = {expression(b, dtype)}")
        if b.chance(4):
            b.line(f"if {place(b)}:")
            assign()
        b.indent -= 1

    for _ in range(b.integer(1, 2)):
        b.line(f"if {place(b)}:")
        assign()
        if b.chance(3):
            b.line(f"elif {place(b)}:")
            assign()
        if b.chance(3):
            b.line("else:")
            assign()
    store(b)


def place(b: Builder) -> str:
    """A condition on the iterators here alone."""
    it = b.pick(b.scope[::-1])
    return b.pick(
        [
            f"{it.name} < {b.integer(1, 3)}",
            f"2 * {it.name} < {it.size}",
            f"{it.name} == {b.integer(0, 3)}",
            f"{it.name} > {it.size} // 2",
            f"{it.name} % 2 == {b.integer(0, 1)}",
            f"{it.name} >= {it.size} - {b.integer(1, 3)}",
        ]
    )


def product_loop(b: Builder) -> None:
    """A loop as long as two sizes are together, around a temporary of its own."""
    b.line(f"for {b.fresh('p')} in 0..{b.pick(b.sizes)} * {b.pick(b.sizes)}:")
    b.indent += 1
    before, features = dict(b.scalars), b.features
    b.features = features - {"gathers"}  # of the temporary: not proved, as it is cleared each time
    (accumulate if b.chance(3) else local_temp)(b)
    b.scalars, b.features = before, features
    b.indent -= 1


def accumulate(b: Builder) -> None:
    """A `var` carried around an inner loop."""
    dtype = b.pick([d for d in b.dtypes if d != "bool"] or ["f32"])
    name = b.fresh("s")
    b.line(f"var {name}: {dtype} = {literal(b, dtype)}")
    b.scalars[name] = dtype

    def body() -> None:
        operator = b.pick(["+=", "min=", "max=", "*="])
        value = expression(b, dtype, 1)
        b.line(f"{name} = {name} + {value}" if b.chance(3) else f"{name} {operator} {value}")
        if b.chance(3):
            store(b)

    nest(b, (b.pick(b.sizes),), False, body)
    store(b)


def own_operand(b: Builder) -> bool:
    """A loop of updates of one element by others of its array, as in a triangular solve: `x[i] -= l[i, k] * x[k]`
    for k < i; False where no array fits. At times the element is among them."""
    options = [
        (array, it)
        for array in b.writable()
        if array.name in b.readable and array.dtype != "bool" and b.free_names()
        for it in b.scope
        if Extent(it.size) in array.extents
        and all(not e.size or (e.scale == 1 and not e.extra) for e in array.extents)
    ]
    if not options:
        return False
    array, it = b.pick(options)
    k = b.free_names()[0]
    axis = array.extents.index(Extent(it.size))
    index = ["0" if not extent.size else b.over(extent.size)[0].name for extent in array.extents]
    index[axis] = it.name
    others = [*index[:axis], k, *index[axis + 1 :]]
    ranges = [f"0..{it.name}", f"{it.name} + 1..{it.size}", f"0..{it.name} + 1", f"0..{it.size}"]
    operator = b.pick(["+=", "-=", "max=", "min=", "*="])
    operand = f"{array.name}[{', '.join(others)}]"
    if b.chance(2):
        operand = f"({expression(b, array.dtype, 1)}) * {operand}"
    b.line(f"for {k} in {ranges[b.integer(0, 7) % 4 if b.chance(4) else b.integer(0, 1)]}:")
    b.line(f"    {array.name}[{', '.join(index)}] {operator} {array.dtype}({operand})")
    if b.chance(3):
        store(b)
    return True


def declared_outside(b: Builder, array: Array) -> bool:
    """Declares an array in front of the outermost loop around this place; False where something else is outermost."""
    place = max((k for k, line in enumerate(b.lines) if not line.startswith("     ")), default=-1)
    if place < 0 or not b.lines[place].startswith(("    for ", "    parallel for ")):
        return False
    b.lines.insert(place, f"    temp {array.declared}")
    return True


def local_temp(b: Builder) -> None:
    """A temporary private to the iteration, filled and read; or one outside of all loops, which each fills anew."""
    dtype, size = b.pick(b.dtypes), b.pick(b.sizes)
    array = Array(b.fresh("t"), dtype, (Extent(size),), "local")
    if not (b.maybe("rewritten_temps", 2) and declared_outside(b, array)):
        b.line(f"temp {array.declared}")

    def fill() -> None:
        b.line(f"{array.name}[{b.scope[-1].name}] = {expression(b, dtype)}")

    nest(b, (size,), True, fill)
    b.arrays[array.name] = array
    b.readable.add(array.name)
    options = b.writable()
    if options:
        written = b.pick(options)
        nest(b, (size,), False, lambda: b.line(
            f"{target(b, written)} = {written.dtype}({load(b, array)})"
        ))  # fmt: skip
    del b.arrays[array.name]
    b.readable.discard(array.name)


def ragged_loop(b: Builder) -> bool:
    """`for k in rows[i]..rows[i+1]:` around an update; False where none fits."""
    free = b.free_names()
    options = [a for a in b.writable() if a.name in b.readable]
    header = ragged_range(b, free[0]) if free and options else ""
    if not header:
        return False
    array = b.pick(options)
    place = target(b, array)
    b.line(f"for {header}:")
    b.indent += 1
    value = ragged_value(b, array.dtype, free[0])
    b.line(f"{place} {b.pick(update_operators(array.dtype)[:4])} {value}")
    b.indent -= 1
    return True


# --------------------------------------------------------------------------------- whole nests


def fill(b: Builder, array: Array, parallel: bool = False) -> None:
    """A nest that writes every element of `array`, which may then be read."""
    axes = list(range(len(array.extents)))
    order = axes[::-1] if b.maybe("transposes", 2) else axes

    def body() -> None:
        names = dict(zip(order, (it.name for it in b.scope[len(b.scope) - len(axes) :])))
        index = [names[axis] for axis in axes]
        axis = b.integer(0, len(axes) - 1) if b.maybe("single_ranges", 3) else -1
        if axis >= 0:
            inner = b.fresh("r")
            b.line(f"for {inner} in {index[axis]}..{index[axis]} + 1:")
            b.indent += 1
            index[axis] = inner
        if b.maybe("flips", 4):
            index[0] = f"{array.extents[0]} - 1 - {index[0]}"
        quiet = b.maybe("no_loads", 2)
        value = literal(b, array.dtype) if quiet else expression(b, array.dtype)
        b.line(f"{array.name}[{', '.join(index)}] = {value}")
        b.indent -= axis >= 0

    once = not parallel and b.maybe("single_ranges", 3)
    if once:
        b.line(f"for {b.fresh('q')} in {b.pick(['1..2', '0..1', '3..2 step -1'])}:")
        b.indent += 1
    nest(b, tuple(array.extents[axis].size for axis in order), True, body, parallel)
    b.indent -= once
    b.readable.add(array.name)


def halves(b: Builder) -> None:
    """A nest of which each iteration writes two elements of a new array, half of it apart."""
    shapes = [s for s in b.shapes if all(e.size and e.scale == 1 and not e.extra for e in s)]
    shape = list(b.pick(shapes))
    axis = len(shape) - 1 - b.integer(0, len(shape) - 1)
    size = shape[axis].size
    shape[axis] = Extent(size, 2)
    array = Array(b.fresh("t"), b.pick(b.dtypes), tuple(shape), "temp")

    def body() -> None:
        names = [it.name for it in b.scope[len(b.scope) - len(shape) :]]
        there = [*names[:axis], f"{names[axis]} + {size}", *names[axis + 1 :]]
        b.line(f"let {(first := b.fresh('h'))}: {array.dtype} = {expression(b, array.dtype)}")
        b.line(f"let {(second := b.fresh('h'))}: {array.dtype} = {expression(b, array.dtype)}")
        both = [(names, first), (there, second)]
        for index, value in both if b.chance(2) else both[::-1]:
            b.line(f"{array.name}[{', '.join(index)}] = {value}")

    b.line(f"temp {array.declared}")
    b.arrays[array.name] = array
    nest(b, tuple(extent.size for extent in shape), True, body)
    b.readable.add(array.name)


def temporary(b: Builder) -> None:
    """A temporary, filled and then read by whatever comes later."""
    shapes = [s for s in b.shapes if all(e.size and e.scale == 1 and not e.extra for e in s)]
    array = Array(b.fresh("t"), b.pick(b.dtypes), b.pick(shapes), "temp")
    b.line(f"temp {array.declared}")
    b.arrays[array.name] = array
    fill(b, array)


def plain_nest(b: Builder) -> None:
    """A nest over the sizes of some array that is written."""
    array = b.pick(first_written(b))
    sizes = array.sizes or (b.sizes[0],)
    if b.maybe("transposes", 3):
        sizes = sizes[::-1]
    most = 4 if b.has("four_dimensions") else 3
    if len(sizes) + b.depth < most and (
        b.maybe("extra_loops", 2) or b.maybe("reducing_updates", 3)
    ):
        sizes += (b.pick(b.sizes),)
    nest(b, sizes, False, lambda: statements(b, 2 if len(sizes) < 3 else 1))


def branched(b: Builder) -> None:
    """A nest over an array, each element of which takes one of two ways: by data, by iterators, or by
    both; what stands on either reads beyond some array along one dimension."""
    options = [
        a for a in first_written(b)
        if len(a.extents) > 1 and all(e.size and e.scale == 1 and not e.extra for e in a.extents)
    ]  # fmt: skip
    if not options:
        return plain_nest(b)
    array = b.pick(options)

    def way() -> None:
        """A store, of what lies beyond an edge where something can be read."""
        place = f"{array.name}[{', '.join(it.name for it in b.scope[-len(array.extents):])}]"
        fit = [a for a in b.loadable() if all(e.size for e in a.extents)]
        value = f"{array.dtype}({single_edge(b, b.pick(fit))})" if fit else leaf(b, array.dtype)
        if b.chance(3):
            value = f"({value} {'|' if array.dtype == 'bool' else '+'} {leaf(b, array.dtype)})"
        b.line(f"{place} = {typed(array.dtype, value)}")

    def body() -> None:
        by_data = mixed(b) or comparison(b)
        by_place = f"{b.scope[-2].name} >= 1 and {b.scope[-2].name} < {b.scope[-2].size} - 1"
        tests = [by_data, by_data, by_place, f"{by_place} and {by_data}"]
        for word in (f"if {b.pick(tests)}:", "else:"):
            b.line(word)
            b.indent += 1
            way()
            b.indent -= 1

    nest(b, array.sizes, not b.chance(3), body)


def first_written(b: Builder) -> list[Array]:
    """Arrays that may be written, those of the caller first."""
    return [a for a in b.arrays.values() if a.mode in ("inout", "out")] + [
        a for a in b.arrays.values() if a.mode == "temp"
    ]


def whole_reduction(b: Builder) -> None:
    """A reduction outside all loops, kept in a one-element array."""
    cells = [a for a in b.arrays.values() if a.mode != "in" and all(not e.size for e in a.extents)]
    if not cells:
        return plain_nest(b)
    array = b.pick(cells)
    index = ", ".join(subscript(b, e) for e in array.extents)
    value = reduction(b, array.dtype) or leaf(b, array.dtype)
    b.line(f"{array.name}[{index}] = {typed(array.dtype, value)}")


def recurrence(b: Builder) -> None:
    """`a[i] = a[i-1] op e` along one dimension of an array that holds values."""
    options = [
        a for a in b.arrays.values()
        if a.mode in ("inout", "temp") and a.name in b.readable and a.dtype != "bool"
        and all(e.size and e.scale == 1 for e in a.extents)
    ]  # fmt: skip
    if not options:
        return plain_nest(b)
    array = b.pick(options)
    axis = b.integer(0, len(array.extents) - 1)
    names = b.free_names()[: len(array.extents)]
    distance, back = b.integer(1, 2), b.maybe("backwards", 2)
    headers, before = [], list(names)
    for position, (name, extent) in enumerate(zip(names, array.extents)):
        low = distance if position == axis else 0
        size = extent.size
        if position == axis and back:
            b.enter(Iterator(name, size, 0, low))
            headers.append(f"{name} in {size} - {1 + low}..-1 step -1")
            before[position] = f"{name}+{distance}"
        else:
            b.enter(Iterator(name, size, low, 0))
            headers.append(f"{name} in {low}..{size}")
            before[position] = f"{name}-{low}" if position == axis else name
    b.line(f"for {', '.join(headers)}:")
    b.indent += 1
    last = f"{array.name}[{', '.join(before)}]"
    value = expression(b, array.dtype, 1)
    b.line(f"{array.name}[{', '.join(names)}] = {last} {b.pick(['+', '*', '-'])} {value}")
    b.indent -= 1
    b.leave(len(names))


def time_loop(b: Builder) -> None:
    """A time loop around one or two nests, with a swap where two arrays match."""
    b.enter(Iterator("t", TIME))
    b.line(f"for t in 0..{TIME}:")
    b.indent += 1
    for _ in range(b.integer(1, 2)):
        (recurrence if b.maybe("sweeps", 2) else plain_nest)(b)
    arrays = [a for a in b.arrays.values() if a.mode in ("inout", "temp") and a.name in b.readable]
    pairs = [
        (one.name, other.name) for k, one in enumerate(arrays) for other in arrays[k + 1 :]
        if (one.dtype, one.extents, one.mode) == (other.dtype, other.extents, other.mode)
    ]  # fmt: skip
    if pairs and b.has("swaps"):
        b.line("swap {}, {}".format(*b.pick(pairs)))
    b.indent -= 1
    b.leave(1)


def independent(b: Builder, parallel: bool) -> None:
    """A nest that fills an array from inputs alone, so that it is parallel."""
    options = [
        a for a in b.arrays.values()
        if a.mode in ("inout", "out") and all(e.size and e.scale == 1 and not e.extra for e in a.extents)
    ]  # fmt: skip
    if not options:
        return plain_nest(b)
    b.inputs_only = True
    fill(b, b.pick(options), parallel)
    b.inputs_only = False


def wished_block(b: Builder, word: str) -> None:
    """Two nests in a `fuse:` or `nofuse:` block."""
    b.line(f"{word}:")
    b.indent += 1
    if word == "fuse":
        shapes = {a.extents for a in b.arrays.values() if a.mode in ("inout", "out")}
        alike = [
            s
            for s in sorted(shapes, key=str)
            if all(e.size and e.scale == 1 and not e.extra for e in s)
        ]
        before = b.features
        # What could forbid it: other orders, and reads of what the block writes.
        b.features = b.features - {
            "transposes",
            "flips",
            "backwards",
            "reductions",
            "tables",
            "funcs",
            "arg_reductions",
        }
        wanted = b.pick(alike) if alike else ()
        for array in [
            a for a in b.arrays.values() if a.extents == wanted and a.mode in ("inout", "out")
        ][:2]:
            b.inputs_only = True
            fill(b, array)
        b.inputs_only, b.features = False, before
        if not alike:
            plain_nest(b)
    else:
        plain_nest(b)
        plain_nest(b)
    b.indent -= 1


assert len(NAMES) == 4
