"""The loops of a kernel in one line, which of them must run in order, and because of which arrays.

    t!(i(j) i(j))           a loop over t, and in it two nests, one after the other
    i(j k+(j))              one over i; in it one over j, then one over k with one over j in it

`!`: a dependence forbids running its iterations in any order. `+`: only the order of a reduction does, and that is
free by default. Neither: it is parallel. Exact, for all sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopfuse.plan.report import base_name
from loopfuse.plan.units.forest import order_is_free
from loopfuse.poly.deps_report import common_loops, source_name, split_by_carrier
from loopfuse.poly.model import Loop, Statement

Carried = dict[str, dict[str, set[str]]]
"""By iterator (as the compiler names it): the arrays, by `flow`, `storage` or `reduction`."""


def carried(planned: Any) -> Carried:
    """What each loop carries. `storage`: an element is used again by another iteration, for another value."""
    program, found = planned.program, Carried()
    assert planned.dependences.complete, planned.dependences.why
    for one in planned.dependences.all:
        source, sink = program.statement(one.source), program.statement(one.sink)
        relation = one.relation.intersect_params(program.context)
        for level, _ in split_by_carrier(relation, common_loops(source, sink)):
            if level is not None:
                free = order_is_free(one, source, True) or _both_update(source, sink)
                kind = "reduction" if free else "flow" if one.kind == "flow" else "storage"
                arrays = found.setdefault(source.loops[level].iterator, {})
                arrays.setdefault(kind, set()).add(base_name(one.array))
    return found


def _both_update(source: Statement, sink: Statement) -> bool:
    """Updates by one operation, at places that depend on data: whichever element they meet in, either may be first."""
    return source.scatter != "" and source.scatter == sink.scatter and source.target.array == sink.target.array


def loops_text(planned: Any) -> str:
    """The loops in one line."""
    marks = {
        iterator: "!" if kinds.keys() - {"reduction"} else "+" for iterator, kinds in carried(planned).items()
    }
    shown = [s for s in planned.program.statements if s.kind != "init" and not s.is_hidden]
    return " ".join(_nests(shown, 0, marks))


def _nests(statements: Iterable[Statement], depth: int, marks: dict[str, str]) -> list[str]:
    inside: dict[str, tuple[Loop, list[Statement]]] = {}
    for s in statements:
        if len(s.loops) > depth:
            loop = s.loops[depth]
            inside.setdefault(loop.iterator, (loop, []))[1].append(s)
    found: list[str] = []
    for iterator, (_, members) in inside.items():
        inner = _nests(members, depth + 1, marks)
        name = source_name(iterator) + marks.get(iterator, "")
        found.append(f"{name}({' '.join(inner)})" if inner else name)
    return found


def carried_text(planned: Any) -> str:
    """`t=u,v r=(row)`: for each iterator, as the source names it, the arrays whose values it carries to later
    iterations; in parentheses, if there are none, those whose storage alone it uses again. Reductions not."""
    flow: dict[str, set[str]] = {}
    storage: dict[str, set[str]] = {}
    for iterator, kinds in carried(planned).items():
        if kinds.keys() - {"reduction"}:
            name = source_name(iterator)
            flow.setdefault(name, set()).update(kinds.get("flow", ()))
            storage.setdefault(name, set()).update(kinds.get("storage", ()))
    return " ".join(
        f"{name}={','.join(sorted(arrays))}" if arrays else f"{name}=({','.join(sorted(storage[name]))})"
        for name, arrays in flow.items()
    ) or "nothing"  # fmt: skip


def fused_text(planned: Any) -> str:
    """`L1+L2 L2+L3`: the pairs that the plan put together."""
    pairs = dict.fromkeys("+".join(one.between) for one in planned.report.decisions if one.fused)
    return " ".join(pairs) or "nothing"
