"""Subscripts, reads and writes."""

from __future__ import annotations

from fuzz.builder import TIME, Array, Builder, Extent, Iterator

EDGES = ("clamp", "zero", "wrap", "reflect", "symmetric")


def shifted(name: str, offset: int) -> str:
    """`i`, `i+1` or `i-2`."""
    return f"{name}{offset:+d}" if offset else name


def _constant(b: Builder, extent: int) -> str:
    """A subscript of a dimension of constant extent; time parity where there is a time loop."""
    time = next((it for it in b.scope if it.size == TIME), None)
    if time is None or extent != 2:
        return str(b.integer(0, extent - 1))
    return b.pick([f"{time.name} % 2", f"({time.name} + 1) % 2", "0"])


def subscript(b: Builder, extent: Extent, wild: bool = False, plain: bool = False) -> str:
    """An index into a dimension: in bounds, or anything near if `wild` (under an edge mode)."""
    if not extent.size:
        return _constant(b, extent.extra)
    it = b.pick(b.over(extent.size))
    if wild:
        return _wild(b, it)
    if extent.scale == 0:
        return f"{it.name} // 2"
    if extent.scale == 2:
        return (
            f"2 * {it.name}" if plain else b.pick([f"2 * {it.name}", f"2 * {it.name} + 1", it.name])
        )
    if plain:
        return it.name
    if b.maybe("flips", 4):
        offset = b.integer(-it.high, it.low + extent.extra)
        return f"{extent.size} - 1 - {shifted(it.name, offset)}"
    if b.maybe("halves_of_indices", 4):
        forms = ["0", f"{it.name} // 2", f"{it.name} - {it.name} % 2", f"min({it.name}, 1)"]
        forms += [f"({it.name} + 3) % {extent}", f"max({it.name} - 2, 0)", f"{extent} - 1"]
        return b.pick(forms if it.low == 0 else forms[:-3])
    if not b.has("offsets"):
        return it.name
    return shifted(it.name, b.integer(-it.low, it.high + extent.extra))


def _wild(b: Builder, it: Iterator) -> str:
    if b.given and b.maybe("const_parameters", 2):
        return f"{it.name} {b.pick('-+')} {b.pick(b.given)}"
    offset = b.integer(-4, 4)
    if b.maybe("flips", 3):
        return shifted(f"{it.size} - {it.name}", offset)
    if b.maybe("halves_of_indices", 3):
        return shifted(f"2 * {it.name}", offset)
    return shifted(it.name, offset)


def gathered(b: Builder, extent: Extent) -> str:
    """A subscript that is data, or '' where no index array is at hand."""
    indices = b.with_role("index")
    if not indices or not extent.size:
        return ""
    index = b.pick(indices)
    inner = ", ".join(subscript(b, each) for each in index.extents)
    text = f"{index.name}[{inner}]"
    if b.maybe("gathers_of_computed", 3):
        return b.pick([f"{text} % {extent}", f"{extent} - 1 - {text}", f"max({text}, 0)"])
    return text


def load(b: Builder, array: Array) -> str:
    """A read of `array`: at any element in bounds, with an edge mode, or where data says."""
    has_constant = any(not extent.size for extent in array.extents)
    if b.maybe("single_edges", 3) and not has_constant:
        return single_edge(b, array)
    if b.maybe("edges", 5) and not has_constant:
        index = [subscript(b, extent, wild=True) for extent in array.extents]
        return f"{array.name}.{b.pick(EDGES)}[{', '.join(index)}]"
    index = [subscript(b, extent) for extent in array.extents]
    if b.maybe("gathers", 3):
        position = b.integer(0, len(index) - 1)
        found = gathered(b, array.extents[position])
        if found:
            index[position] = found
            if b.maybe("edges", 4) and not has_constant:
                return f"{array.name}.{b.pick(EDGES)}[{', '.join(index)}]"
    return f"{array.name}[{', '.join(index)}]"


def single_edge(b: Builder, array: Array) -> str:
    """A read beyond the array along one dimension; along the others neighbours stay neighbours."""
    axis = b.integer(0, len(array.extents) - 1)
    index = [
        subscript(b, extent, wild=k == axis, plain=k != axis)
        for k, extent in enumerate(array.extents)
    ]
    return f"{array.name}.{b.pick(EDGES)}[{', '.join(index)}]"


def target(b: Builder, array: Array) -> str:
    """An element of `array` to write."""
    moved = b.maybe("offset_writes", 3)
    index = [subscript(b, extent, plain=not moved) for extent in array.extents]
    if b.maybe("scatters", 3):
        position = b.integer(0, len(index) - 1)
        index[position] = gathered(b, array.extents[position]) or index[position]
    return f"{array.name}[{', '.join(index)}]"
