"""Late copies: elements that go from global to shared memory by themselves, as `nvgpu` operations
(`cp.async` of a GPU from sm_80 on), without a register to wait in."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.base.machine import LANES
from loopfuse.codegen.abi import broken
from loopfuse.codegen.build import WIDEST_COPY
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.mlir.expr import each_lane
from loopfuse.codegen.mlir.index import Linear, linear, mentions
from loopfuse.lang.nodes import Compare, Const, Expr, Iter, Load, integer
from loopfuse.lang.walk import conjuncts, substitute
from loopfuse.tree.looptree import Arrive, Copy, Guard, Loop, TreeNode


def emit_late(emitter: Emitter, node: Copy) -> None:
    """One copy of all SIMD lanes, where their elements are neighbours that an access of that width may
    touch; else one each."""
    source = node.value
    if not emitter.gpu or not isinstance(source, Load):
        raise broken("a late copy that is none from memory, or on the CPU")
    vector = emitter.vector
    if not vector:
        _copy(emitter, source, node.target, 1)
        return
    here, there = (emitter.place(load.array, load.index) for load in (source, node.target))
    whole = emitter.lanes * source.dtype.bytes
    together = whole <= WIDEST_COPY and all(
        place.coefficient(vector) == 1
        and not mentions(place.without(vector), vector)
        and emitter.alignment(storage, place.without(vector)) == whole
        for storage, place in (here, there)
    )
    if together:
        _copy(emitter, source, node.target, emitter.lanes)
        return
    each_lane(emitter, lambda: emit_late(emitter, node))


def _copy(emitter: Emitter, source: Load, target: Load, elements: int) -> None:
    places = [emitter.place(load.array, load.index) for load in (source, target)]
    if elements > 1:
        places = [(storage, place.without(emitter.vector)) for storage, place in places]
    (here, first), (there, second) = places
    emitter.forget_loads()
    emitter.builder.copy_late(
        here.memref, emitter.index(first), there.memref, emitter.index(second), elements
    )


def spread_over_lanes(emitter: Emitter, loop: Loop) -> Loop:
    """The loop with its elements so divided that neighbouring lanes take neighbours:

    before:  for v: a[lane * V + v] = b[x + lane * V + v]
    after:   for v: a[v * 32 + lane] = b[x + v * 32 + lane]

    Not where something depends on the lane or on `v` otherwise than by `lane * V + v`."""
    if not emitter.lane or loop.lower != integer(0) or not isinstance(loop.upper, Const):
        return loop
    columns, lane, element = int(loop.upper.value), emitter.lane, loop.var

    def is_whole(form: Linear) -> bool:
        own = form.coefficient(element)
        rest = form.without(element).without(lane)
        depends = mentions(rest, element) or mentions(rest, lane)
        return form.coefficient(lane) == columns * own and not depends

    def may_move(node: TreeNode) -> bool:
        match node:
            case Guard(condition=condition, then=then, otherwise=otherwise):
                tests = conjuncts(condition)
                return all(map(may_move, (*then, *otherwise))) and all(
                    isinstance(test, Compare)
                    and is_whole(linear(test.left, emitter.facts))
                    and is_whole(linear(test.right, emitter.facts))
                    for test in tests
                )
            case Copy(target=target, value=value):
                ends = [each for each in (target, value) if isinstance(each, Load)]
                return all(is_whole(emitter.place(e.array, e.index)[1]) for e in ends)
            case _:
                raise broken("a spread loop over other things than copies")

    if not all(map(may_move, loop.body)):
        return loop
    moved = Iter(lane) * (1 - columns)
    place = {element: Iter(element) * LANES + moved}
    return replace(loop, body=tuple(_moved(node, place) for node in loop.body))


def _moved(node: TreeNode, place: dict[str, Expr]) -> TreeNode:
    match node:
        case Guard(condition=condition, then=then, otherwise=otherwise):
            ways = [tuple(_moved(each, place) for each in way) for way in (then, otherwise)]
            return Guard(substitute(condition, place), ways[0], ways[1])
        case Copy(target=target, value=value):
            to = substitute(target, place)
            assert isinstance(to, Load)
            return replace(node, target=to, value=substitute(value, place))
        case _:
            return node


def emit_arrive(emitter: Emitter, node: Arrive) -> None:
    """Ends a group, and waits for all but the last few."""
    emitter.forget_loads()
    emitter.builder.arrive(node.pending)
