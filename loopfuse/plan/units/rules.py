"""What the planner may do."""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.machine import Machine, machine_of
from loopfuse.base.options import Options, Tuning
from loopfuse.poly.model import PolyProgram

DEFAULT = Tuning()


@dataclass(frozen=True, slots=True)
class Rules:
    """`machine` is planned for. `strided` arguments are views, `rows` of which have so many last dimensions without gaps. `lines`: rows of a
    chain of stencils lie in line buffers of CPU workers, not in registers; `blocks`: time loops may run in blocks
    of steps; `most_steps`: of at most so many (0: any number). `chains`: loops run together that no common
    iteration could run; `teams`: several threads may run one point of a
    group together, and a thread several sums of one in lanes; `tiles`: products may run in tiles of registers; `turns`: two launches that are one with arrays
    exchanged are one; `orders`: nests may run in another order than the program's; `crossings`: loops along rows and
    others down columns may be one pass."""

    machine: Machine
    strided: frozenset[str] = frozenset()
    rows: tuple[tuple[str, int], ...] = ()
    tuning: Tuning = DEFAULT
    lines: bool = False
    blocks: bool = True
    most_steps: int = 0
    chains: bool = True
    teams: bool = True
    tiles: bool = True
    turns: bool = True
    orders: bool = True
    crossings: bool = True

    @staticmethod
    def of(options: Options, program: PolyProgram) -> Rules:
        """What `options` allow. A program that sums is planned for the entry of its architecture, whatever the
        device at hand: the plan decides the order of its sums, which is one for all devices of a target."""
        target = options.target
        sums = any(statement.reduction for statement in program.statements)
        machine = target.fitted(machine_of(target.name) if sums else target.planned)
        shares = machine.has_warps or machine.device == "cpu"
        return Rules(
            machine,
            frozenset(options.strided),
            options.rows,
            options.tuning,
            lines=machine.device == "cpu",
            chains=options.tuning.windows and shares,
            teams=shares,
        )
