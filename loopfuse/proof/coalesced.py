"""Do the loops inside coalesced ones run their body once for each place along the size?

`tree.rewrite.coalesce` runs them for another size, the product of the joined loops' iterations and the size itself, which no set can
say. So what is asked is asked for any size: the points of those loops, and the places that they stand for, are as many
as each other, one for one: { [b, c] -> place[c] : .. } is a bijection onto 0 <= place < C.
"""

from __future__ import annotations

from typing import Any

from loopfuse.lang.linear import constant_value
from loopfuse.poly import isl
from loopfuse.tree.looptree import Launch, LoopTree
from loopfuse.tree.rewrite.coalesce import Coalesced, find_coalesced


def find_uncovered(context: Any, tree: LoopTree) -> str:
    """What is wrong with the loops of a coalesced launch, in a tree of the right form; "" if nothing is. `context`: an isl set whose
    isl context is asked."""
    buffers = {buffer.name: buffer for buffer in tree.buffers}
    for launch in tree.launches:
        if launch.coalesced:
            form = find_coalesced(launch, buffers)
            if isinstance(form, str) or not _covers(isl.context_of(context), form):
                return _fault(launch)
    return ""


def _fault(launch: Launch) -> str:
    *joined, size = launch.coalesced
    return f"{', '.join(joined)} of {launch.name} cannot run as one with {size}: not every place along it is run once"


def _covers(context: Any, form: Coalesced) -> bool:
    names = [loop.var for loop in form.inside]
    reader = isl.Reader(isl.set_space(context, (form.size,), names))
    points = isl.universe(reader.space)
    for loop in form.inside:
        here, step = reader.affine({loop.var: 1}), loop.step
        lower, upper = reader.piecewise(loop.lower), reader.piecewise(loop.upper)
        if here is None or lower is None or upper is None or step < 1:
            return False
        points = points.intersect(here.ge_set(lower)).intersect(here.lt_set(upper))
        if step > 1:
            points = points.intersect(here.sub(lower).mod_val(step).eq_set(reader.constant(0)))
    extents = [constant_value(extent) for _, extent in form.rest]
    parts = [reader.piecewise(part, points) for part in (form.place, *(part for part, _ in form.rest))]
    if any(each is None for each in (*parts, *extents)):
        return False
    places = isl.relation_of(reader.space, parts, "place").intersect_domain(points)
    found = isl.Reader(isl.set_space(context, (form.size,), [f"p{k}" for k in range(len(parts))], "place"))
    wanted = isl.universe(found.space)
    ends = [found.affine({form.size: 1}), *(found.constant(extent) for extent in extents if extent is not None)]
    for k, end in enumerate(ends):
        here = found.affine({f"p{k}": 1})
        wanted = wanted.intersect(here.ge_set(found.constant(0))).intersect(here.lt_set(end))
    return bool(places.is_injective()) and bool(places.range().is_equal(wanted))
