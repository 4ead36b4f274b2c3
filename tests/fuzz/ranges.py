"""Loop headers."""

from __future__ import annotations

from fuzz.builder import Builder, Iterator


def size_range(b: Builder, name: str, size: str, full: bool = False) -> tuple[Iterator, str]:
    """An iterator over `size` and its `i in a..b step k`; `full` covers every value in order."""
    low = high = 0
    if not full and b.has("narrow_ranges"):
        low, high = b.integer(0, 2), b.integer(0, 2)
    upper = f"{size} - {high}" if high else size
    if full:
        if b.maybe("backwards", 4):
            return Iterator(name, size), f"{name} in {size} - 1..-1 step -1"
        return Iterator(name, size), f"{name} in 0..{size}"
    peers = b.over(size)
    if peers and b.maybe("triangles", 2):
        peer = b.pick(peers)
        form = b.integer(0, 3)
        if form == 0:
            return Iterator(
                name, size, min(low, peer.low), peer.high
            ), f"{name} in {low}..{peer.name} + 1"
        if form == 1:
            return Iterator(name, size, peer.low, high), f"{name} in {peer.name}..{upper}"
        if form == 2:
            header = f"{name} in {peer.name}..min({peer.name} + 3, {upper})"
            return Iterator(name, size, peer.low, high), header
        return Iterator(name, size, 0, peer.low), f"{name} in 0..{size} - {peer.name}"
    if b.maybe("steps", 3):
        return Iterator(name, size, low, high), f"{name} in {low}..{upper} step {b.integer(2, 3)}"
    if b.maybe("backwards", 3):
        header = f"{name} in {size} - {high + 1}..{low - 1} step {b.pick(['-1', '-2'])}"
        return Iterator(name, size, low, high), header
    if b.maybe("integer_parameters", 3) and "m" in b.scalars:
        form = b.integer(0, 2)
        if form == 0:
            return Iterator(name, size), f"{name} in max(m, 0)..{size}"
        if form == 1:
            return Iterator(name, size), f"{name} in 0..min(m, {size})"
        return Iterator(name, size), f"{name} in max(m - 1, 0)..min(m + 3, {size})"
    if b.constants and (b.maybe("consts", 3) or b.maybe("const_parameters", 3)):
        constant = b.pick(b.constants)
        return Iterator(name, size, b.constants[constant], high), f"{name} in {constant}..{upper}"
    return Iterator(name, size, low, high), f"{name} in {low}..{upper}"
