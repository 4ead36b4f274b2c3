"""Names the loops (`L1`, `L1.2`) and statements (`S1`) of a kernel in text order."""

from __future__ import annotations

from dataclasses import replace

from loopfuse.lang.nodes import Block, Define, For, If, Reduce, Stmt, Store

CONTINUES = "&"
"""The label of an inner loop of the same header, until it is given its header's."""


HIDDEN = "-"
"""The label of a scalar of the compiler's own (a loop's data-dependent bound): it is not counted."""


class _Counter:
    def __init__(self) -> None:
        self.nests = self.parts = self.statements = 0
        self.nest = self.header = ""

    def statement(self) -> str:
        self.statements += 1
        return f"S{self.statements}"

    def enter_nest(self) -> str:
        self.nests, self.parts = self.nests + 1, 0
        self.nest = f"L{self.nests}"
        return self.nest

    def part(self) -> str:
        self.parts += 1
        return f"{self.nest}.{self.parts}"


def label_statements(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with its labels.

    An outermost loop is `L1`, `L2`, ...; the loop headers and reductions inside it are its parts
    `L1.1`, `L1.2`, ...; an assignment or a reduction outside all loops has an `L` of its own (its
    `loop`). Assignments, `let`s, `var`s and reductions are `S1`, `S2`, ...
    """
    return _label(body, _Counter(), outermost=True)


def _label(body: tuple[Stmt, ...], counter: _Counter, outermost: bool) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For(label=label):
                if label == CONTINUES and not outermost:
                    name = counter.header
                else:
                    name = counter.enter_nest() if outermost else counter.part()
                counter.header = name
                inner = _label(stmt.body, counter, outermost=False)
                out.append(replace(stmt, label=name, body=inner))
            case Reduce():
                name = counter.enter_nest() if outermost else counter.part()
                label = counter.statement()
                inner = _label(stmt.body, counter, outermost=False)
                out.append(replace(stmt, label=label, loop=name, body=inner))
            case Store():
                loop = counter.enter_nest() if outermost else ""
                out.append(replace(stmt, label=counter.statement(), loop=loop))
            case Define(label=label) if label == HIDDEN:
                out.append(replace(stmt, label=""))
            case Define():
                out.append(replace(stmt, label=counter.statement()))
            case If():
                then = _label(stmt.then, counter, outermost)
                otherwise = _label(stmt.otherwise, counter, outermost)
                out.append(replace(stmt, then=then, otherwise=otherwise))
            case Block():
                out.append(replace(stmt, body=_label(stmt.body, counter, outermost)))
            case _:
                out.append(stmt)
    return tuple(out)
