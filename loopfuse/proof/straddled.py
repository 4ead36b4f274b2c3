"""Do STRADDLED loops load from what the array has?

A row that starts within an aligned vector is loaded from that vector on, and up to the end of the
one behind its last: elements that no relation mentions are touched, though not looked at. They must
be the row's own neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.lang.linear import constant_value
from loopfuse.lang.nodes import Binary, Compare, Load, integer
from loopfuse.lang.walk import substitute
from loopfuse.tree.form.straddled import straddled_copy
from loopfuse.tree.looptree import Buffer, Global, Guard, Loop, TreeNode, straddled_elements
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import bodies


def find_cramped(
    nodes: tuple[TreeNode, ...],
    scope: Any,
    enter: Callable[[Any, Loop], Any],
    buffers: Mapping[str, Buffer],
) -> str:
    """An array that a STRADDLED loop in `nodes` may load beyond, "" if there is none. `scope` has
    the instances that come to the nodes; of those that a guard sends to its second branch, none
    is left out."""
    for node in nodes:
        match node:
            case Loop(mapping=Where.STRADDLED):
                if found := _cramped(node, scope, buffers):
                    return found
            case Loop():
                if found := find_cramped(node.body, enter(scope, node), enter, buffers):
                    return found
            case Guard(condition=condition):
                holds = scope.reader.condition(condition, scope.domain)
                domain = scope.domain if holds is None else scope.domain.intersect(holds)
                then = replace(scope, domain=domain)
                found = find_cramped(node.then, then, enter, buffers)
                found = found or find_cramped(node.otherwise, scope, enter, buffers)
                if found:
                    return found
            case _:
                for body in bodies(node):
                    if found := find_cramped(body, scope, enter, buffers):
                        return found
    return ""


def _cramped(loop: Loop, scope: Any, buffers: Mapping[str, Buffer]) -> str:
    copy, columns = straddled_copy(loop), constant_value(loop.upper)
    if copy is None or not isinstance(copy.value, Load):
        return ""
    buffer = buffers[copy.value.array]
    if not isinstance(buffer.home, Global):
        return ""
    if columns is None or not copy.value.index:
        return buffer.name
    room = straddled_elements(buffer.dtype, columns)
    if room == 1:
        return ""
    first = substitute(copy.value.index[-1], {loop.var: loop.lower})
    end = first + (columns + room)
    tests = Compare("ge", first, integer(room - 1)), Compare("le", end, buffer.extents[-1])
    holds = scope.reader.condition(Binary("and", *tests, DType.BOOL), scope.domain)
    return "" if holds is not None and scope.domain.is_subset(holds) else buffer.name
