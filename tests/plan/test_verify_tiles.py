"""The two ways of a tile compared as text: what the planner makes is seen to be one, and no change
of the first way, or of the guard that chooses it, goes unnoticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.lang.nodes import Binary, Const, Expr, Iter, Load, combine, compare, integer
from loopfuse.proof import events as verify_events
from loopfuse.proof.check import verify
from loopfuse.proof.events import Events
from loopfuse.proof.straddled import find_cramped
from loopfuse.proof.tiles import only_second
from loopfuse.tree.looptree import Compute, Copy, Guard, Loop, Mapping, Prefetch, TreeNode
from loopfuse.tree.walk import is_tile, open_tiles, walk_nodes

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("blur", "harris", "horizontal_diffusion", "jacobi")

Asked = tuple[Guard, Any, Callable[[Any, Loop], Any]]


@cache
def planned(name: str) -> pipeline.Planned:
    path = EXAMPLES / f"{name}.lf"
    program = pipeline.read_program(Source(path.name, path.read_text("utf-8")))
    options = Options(target=Target("sm_90"), tuning=Tuning(steps=1))
    return pipeline.plan_kernel(program, program.kernels[0].name, options)


@cache
def questions(name: str) -> tuple[Asked, ...]:
    """What the checker asks `only_second` for the tiles of an example."""
    found: list[Asked] = []

    def note(node: Guard, scope: Any, enter: Callable[[Any, Loop], Any]) -> Any:
        found.append((node, scope, enter))
        return only_second(node, scope, enter)

    program = planned(name).program
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify_events, "only_second", note)
        Events(program, open_tiles(planned(name).tree))
    return tuple(found)


@pytest.mark.parametrize("name", NAMES)
def test_the_ways_of_a_planned_tile_are_one(name: str) -> None:
    asked = questions(name)
    assert asked and all(only_second(*each) is not None for each in asked)


def test_vector_loops_of_the_first_way_are_kept() -> None:
    node, scope, enter = questions("harris")[0]
    every = only_second(node, scope, enter)
    assert every is not None

    def vectors(nodes: tuple[TreeNode, ...]) -> int:
        return sum(isinstance(n, Loop) and n.mapping is Mapping.VECTOR for n in walk_nodes(nodes))

    first = node.then[0]
    assert isinstance(first, Guard) and is_tile(first)
    assert vectors(node.otherwise) == 0 < vectors(first.then) == vectors(every)


@pytest.mark.parametrize("name", NAMES)
def test_relations_say_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the short way is not taken, the long one comes to the same verdict."""
    monkeypatch.setattr(verify_events, "only_second", lambda *_: None)
    found = planned(name)
    assert found.verdict.answer == "proved"
    assert verify(found.program, found.dependences, found.tree).answer == "proved"


def plus_one(expr: Expr) -> Expr:
    return combine("add", expr, integer(1))


def moved(load: Load, position: int) -> Load:
    index = list(load.index)
    index[position] = plus_one(index[position])
    return replace(load, index=tuple(index))


def changes(node: TreeNode) -> Iterator[tuple[TreeNode, ...]]:
    """Other nodes, none of which does what `node` does."""
    yield ()
    match node:
        case Copy(target=target, value=value):
            for position in range(len(target.index)):
                yield (replace(node, target=moved(target, position)),)
            if isinstance(value, Load):
                for position in range(len(value.index)):
                    yield (replace(node, value=moved(value, position)),)
                yield (replace(node, value=Const(0.0, value.dtype)),)
            yield (node, node)
        case Compute(iteration=iteration, target=target, value=value):
            for position in range(len(iteration)):
                other = list(iteration)
                other[position] = plus_one(other[position])
                yield (replace(node, iteration=tuple(other)),)
            for position in range(len(target.index)):
                yield (replace(node, target=moved(target, position)),)
            yield (replace(node, value=Binary("add", value, value, value.dtype)),)
            yield (replace(node, statement="S0"),)
        case Loop():
            yield (replace(node, lower=plus_one(node.lower)),)
            yield (replace(node, upper=plus_one(node.upper)),)
            yield (replace(node, step=2),)
            yield (replace(node, mapping=Mapping.SERIAL),)
            if len(node.body) > 1 and not isinstance(node.body[0], Prefetch):
                yield (replace(node, body=(*node.body[1:], node.body[0])),)
        case Guard(condition=condition):
            if isinstance(condition, Binary) and condition.op == "and":
                yield (replace(node, condition=condition.left),)
                yield (replace(node, condition=condition.right),)
            yield node.then
        case _:
            pass


def bodies_of(node: TreeNode) -> tuple[TreeNode, ...]:
    return node.body if isinstance(node, Loop) else ()


def changed(nodes: tuple[TreeNode, ...]) -> Iterator[tuple[TreeNode, ...]]:
    """`nodes` with one node inside them changed, in every way."""
    for k, node in enumerate(nodes):
        if isinstance(node, Prefetch):
            continue  # it changes nothing
        if any(isinstance(n, Copy) and n.target == n.value for n in bodies_of(node)):
            continue  # it does nothing here: `tree_check` looks after it
        is_way = isinstance(node, Guard) and is_tile(node)  # which way of the two is taken is free
        for other in () if is_way else changes(node):
            yield (*nodes[:k], *other, *nodes[k + 1 :])
        match node:
            case Loop():
                inside = (replace(node, body=body) for body in changed(node.body))
            case Guard():
                inside = (replace(node, then=then) for then in changed(node.then))
                if is_way:
                    others = changed(node.otherwise)
                    inside = (*inside, *(replace(node, otherwise=each) for each in others))
            case _:
                continue
        for other in inside:
            yield (*nodes[:k], other, *nodes[k + 1 :])


@pytest.mark.parametrize("name", ["blur", "jacobi"])
def test_every_change_of_the_first_way_is_seen(name: str) -> None:
    node, scope, enter = questions(name)[0]
    count = 0
    for then in changed(node.then):
        count += 1
        assert only_second(replace(node, then=then), scope, enter) is None, then
    assert count > 100


def test_a_tile_that_reaches_beyond_is_seen() -> None:
    """Every bound that the guard of the tile asks for is needed, or follows from the others."""
    node, scope, enter = questions("harris")[0]
    parts: list[Expr] = []

    def split(condition: Expr) -> None:
        if isinstance(condition, Binary) and condition.op == "and":
            split(condition.left)
            split(condition.right)
        else:
            parts.append(condition)

    split(node.condition)
    assert len(parts) > 3
    needed = 0
    whole = scope.reader.condition(node.condition)
    buffers = {buffer.name: buffer for buffer in planned("harris").tree.buffers}
    assert not find_cramped((node,), scope, enter, buffers)
    for part in parts:
        others = [each for each in parts if each is not part]
        condition = others[0]
        for each in others[1:]:
            condition = Binary("and", condition, each, DType.BOOL)
        same = scope.domain.intersect(scope.reader.condition(condition)).is_subset(whole)
        wider = replace(node, condition=condition)
        cramped = find_cramped((wider,), scope, enter, buffers)
        assert same or cramped or only_second(wider, scope, enter) is None, part
        needed += not same
    assert needed >= 2
    everywhere = replace(node, condition=Const(True, DType.BOOL))
    assert only_second(everywhere, scope, enter) is None


def test_the_lanes_of_a_warp_take_one_way() -> None:
    """They read each other's registers."""
    node, scope, enter = questions("harris")[0]
    lane = next(loop.var for loop in scope.chain if loop.mapping is Mapping.LANE)
    # True for all of them; but that is not looked at.
    here = compare("ge", Iter(lane), integer(0))
    condition = Binary("and", node.condition, here, DType.BOOL)
    assert only_second(replace(node, condition=condition), scope, enter) is None


def test_a_hidden_variable_is_not_another() -> None:
    """A loop of the second way named as one around it would hide that one."""
    node, scope, enter = questions("harris")[0]
    outer = scope.chain[0].var
    first = next(n for n in walk_nodes(node.then) if isinstance(n, Loop))

    def renamed(nodes: tuple[TreeNode, ...]) -> tuple[TreeNode, ...]:
        return tuple(
            replace(n, var=outer) if isinstance(n, Loop) and n.var == first.var
            else replace(n, then=renamed(n.then), otherwise=renamed(n.otherwise))
            if isinstance(n, Guard)
            else n
            for n in nodes
        )  # fmt: skip

    assert only_second(replace(node, then=renamed(node.then)), scope, enter) is None
