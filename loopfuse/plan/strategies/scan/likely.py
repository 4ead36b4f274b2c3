"""Would a loop be taken as a scan? Read off its statements, before anything has a home: what decides that it stays
whole."""

from __future__ import annotations

from loopfuse.lang.index import is_checked
from loopfuse.lang.linear import constant_value, linear, tidy
from loopfuse.lang.nodes import Binary, Call, Expr, Load
from loopfuse.lang.walk import iterators, loads, walk_expr
from loopfuse.plan.mapping.body import guard_of, loop_conditions
from loopfuse.plan.units.forest import Nest, Unit
from loopfuse.plan.units.running import Running
from loopfuse.poly.model import PolyProgram, Statement


def is_likely(unit: Unit, running: Running, program: PolyProgram, device: str, short: int) -> bool:
    """Is the unit, a loop with running values, longer than `short`, whose iterations make what they add in registers?
    A CPU computes math functions in vectors, in loops of their own."""
    (nest,) = unit.items
    assert isinstance(nest, Nest)
    bounds = (nest.loop.lower, nest.loop.upper)
    if nest.loop.step < 0 or (device == "cpu" and nest.loop.step != 1) or any(iterators(each) or loads(each) for each in bounds):
        return False
    length = constant_value(tidy(bounds[1] - bounds[0]))
    if length is not None and length <= short * nest.loop.step:
        return False
    known = loop_conditions(nest.loop.iterator, *bounds, nest.loop.step)
    for s in unit.statements:
        array = program.arrays[s.target.array]
        own = array.kind == "scalar" and running.iterator in array.private_to
        if s.id in running.feeding and not own:
            return False
        if not all(is_along(load, running.iterator) for load in (s.target, *(access.load for access in s.reads))):
            return False
        if device == "cpu" and (_calls(s) or asks_for_phases(guard_of(s, known, program))):
            return False
    return True


def is_along(load: Load, iterator: str) -> bool:
    """Do iterations touch neighbours in memory, or one place? (One that data say may be any.)"""
    if any(iterator in iterators(part) for part in load.index[:-1]):
        return False
    if not load.index or iterator not in iterators(load.index[-1]):
        return True
    terms = linear(load.index[-1])
    return terms is None or abs(terms.get(iterator, 0)) == 1


def asks_for_phases(condition: Expr) -> bool:
    """Does it hold in every so many-th iteration? (The proof of a CPU's rounds would pass its limit.)"""
    return any(isinstance(part, Binary) and part.op in ("mod", "floordiv") for part in walk_expr(condition))


def _calls(s: Statement) -> bool:
    """Does it call a math function?"""
    exprs = (s.value,) if s.predicate is None else (s.value, s.predicate)
    return any(isinstance(part, Call) and not is_checked(part) for expr in exprs for part in walk_expr(expr))
