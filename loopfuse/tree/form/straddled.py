"""STRADDLED loops: their form, and that nothing touches a row before its elements are in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopfuse.lang.linear import coefficients
from loopfuse.lang.nodes import Load
from loopfuse.lang.walk import walk_expr
from loopfuse.tree.looptree import (
    Buffer,
    Copy,
    Global,
    Guard,
    Loop,
    TreeNode,
    Window,
)
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import node_expressions, walk_nodes

Buffers = Mapping[str, Buffer]


def straddled_copy(loop: Loop) -> Copy | None:
    """What a STRADDLED loop does; None where its body is none."""
    body = loop.body
    if len(body) == 1 and isinstance(body[0], Guard) and not body[0].otherwise:
        body = body[0].then
    return body[0] if len(body) == 1 and isinstance(body[0], Copy) else None


def form_fault(loop: Loop, buffers: Buffers) -> str:
    """What is wrong with the form of a STRADDLED loop; "" if nothing is."""
    copy = straddled_copy(loop)
    if copy is None or not isinstance(copy.value, Load):
        return "its body is one copy of a load"
    if not {copy.value.array, copy.target.array} <= buffers.keys():
        return ""  # that is said elsewhere
    source, target = buffers[copy.value.array].home, buffers[copy.target.array].home
    if isinstance(target, Global):
        return "" if not isinstance(source, Global) else "it goes by way of registers"
    if isinstance(loop.body[0], Guard):
        return "only what goes to memory has a guard"
    if not isinstance(target, Window) or target.columns:
        return "it fills the row of a window"
    return "" if isinstance(source, Global) or copy.value == copy.target else "it moves nothing else"


def arrival_fault(loop: Loop, buffers: Buffers) -> str:
    """What touches a row that a STRADDLED loop in the STREAMED `loop` loads too early; "" if nothing
    does."""
    touched = list(_touched(loop.body, loop.var))
    for place in touched:
        name = place.array
        home = buffers[name].home if name in buffers else None
        if place.kind != "load" or not isinstance(home, Window):
            continue
        others = [each for each in touched if each.array == name and each is not place]
        settled = [each for each in others if each.kind == "settle"]
        if len(settled) != 1 or place.ahead is None or settled[0].ahead is None:
            return f"the rows loaded into {name} come to their places once"
        late = place.ahead - settled[0].ahead
        if not 0 <= late < home.rows or (late == 0 and settled[0].number < place.number):
            return f"the rows loaded into {name} do not come to their places in time"
        for each in others:
            if each.ahead is None or each.kind == "load":
                return f"the rows of {name} are not those of a step"
            behind = (place.ahead - each.ahead) % home.rows
            if behind < late or (behind == late and each.number < settled[0].number):
                return f"a row of {name} is touched before it is in its place"
    return ""


@dataclass(frozen=True, slots=True)
class _Touched:
    """Row `step + ahead` (None: another) of a buffer, touched by the `number`-th node: by a
    STRADDLED `load`, where it comes to its place (`settle`), or otherwise."""

    array: str
    ahead: int | None
    number: int
    kind: str = ""


def _touched(body: tuple[TreeNode, ...], step: str) -> Iterator[_Touched]:
    kinds: dict[int, str] = {}
    for number, node in enumerate(walk_nodes(body)):
        if isinstance(node, Loop) and node.mapping is Where.STRADDLED:
            copy = straddled_copy(node)
            if copy is not None and isinstance(node.body[0], Copy):
                kinds[id(copy)] = "settle" if copy.target == copy.value else "load"
        kind = kinds.pop(id(node), "")
        if isinstance(node, Copy) and kind:
            yield _Touched(node.target.array, _ahead(node.target, step), number, kind)
            continue
        for expr in node_expressions(node):
            for load in walk_expr(expr):
                if isinstance(load, Load) and load.index:
                    yield _Touched(load.array, _ahead(load, step), number)


def _ahead(load: Load, step: str) -> int | None:
    """c of a row `step + c`."""
    constant, named, linear = coefficients(load.index[0])
    is_row = linear and {name: n for name, n in named.items() if n} == {step: 1}
    return constant if is_row else None
