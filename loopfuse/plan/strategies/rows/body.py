"""What is done with one row, read off the nodes that one thread would run.

    m = -inf;  for c: m = max(m, x[r, c])          a value of the row;  a pass, with an update
    s = 0;     for c: s = s + exp(x[r, c] - m)     a value of the row;  a pass, with an update
    for c: y[r, c] = exp(x[r, c] - m) / s          a pass

A pass is a loop over the row, or a nest of loops (`for h, w: s = s + x[n, h, w]`), of which the innermost is the one
that COLUMN stands for. Its iterations go to the threads of a team, the same to the same thread in
each pass, and what is outside passes every thread does for itself. So that no thread needs what another
has, but for the results of reductions:

- an array that is written in a pass is accessed at one place of the row, the iteration's own, in passes that
  start at the same place and have the same loops around;
- one that is written outside passes at one place too, which no iteration names: a value of the row, which
  lies in a register of each thread;
- a register that a pass sets, it sets before it reads it, and nobody else reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from loopfuse.lang.index import is_checked
from loopfuse.lang.linear import linear, tidy
from loopfuse.lang.nodes import Expr, Iter, Load, combine, integer
from loopfuse.lang.walk import (
    iterators,
    loads,
    subscript_iterators,
    substitute,
    sure_loads,
    walk_expr,
)
from loopfuse.plan.mapping.body import Names
from loopfuse.plan.mapping.lanes import Update
from loopfuse.plan.mapping.space import Site
from loopfuse.plan.units.forest import Scope, fold_of, may_reorder
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Buffer, Compute, Guard, Loop, Register, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import as_load, map_expressions, node_expressions, walk_guarded, walk_nodes

COLUMN = "@column"
"""Stands for the place in the row in what `read_body` returns."""

Range = tuple[Expr, Expr]
"""The first place of a pass, and the one behind its last."""

Space = tuple["Around | Range", ...]
"""The places of a pass: the loops around, and the innermost one's range."""


@dataclass(frozen=True, slots=True)
class Around:
    """A loop of a pass that is not its innermost, by the variable that stands for it: `around` says which."""

    var: str
    lower: Expr
    upper: Expr


def around(depth: int) -> str:
    """Stands for the loop of a pass so deep inside it."""
    return f"@around{depth}"


@dataclass(frozen=True, slots=True)
class Pass:
    """A loop over places of the row, from `lower` on to before `upper`: what an iteration does, at COLUMN; `outer`: the
    loops around it that belong to the pass too, outermost first."""

    nodes: tuple[TreeNode, ...]
    updates: tuple[Update, ...]
    lower: Expr
    upper: Expr
    outer: tuple[Around, ...] = ()

    @property
    def length(self) -> Expr:
        """How many places."""
        return tidy(self.upper - self.lower)

    @property
    def range(self) -> Range:
        """The first place, and the one behind the last."""
        return self.lower, self.upper

    @property
    def space(self) -> Space:
        """All loops."""
        return (*self.outer, self.range)

    @property
    def vars(self) -> frozenset[str]:
        """What stands for them."""
        return frozenset((COLUMN, *(each.var for each in self.outer)))

    @property
    def start(self) -> tuple[object, ...]:
        """Where each loop starts: which thread has a place depends on it."""
        return (*((each.var, each.lower) for each in self.outer), self.lower)


@dataclass(frozen=True, slots=True)
class Body:
    """What is done with a row, in order. `values`: arrays in memory that hold one value of the row, and which;
    `fixed`: those in memory that nothing here writes; `made`: the elements of a place that one pass writes and
    others over the same places read, and nobody else does; `once`: of the values, those that one computation
    makes; `registers`: those that a thread has of its own."""

    steps: tuple[TreeNode | Pass, ...]
    values: dict[str, Load]
    fixed: frozenset[str]
    made: tuple[Load, ...]
    once: frozenset[Load]
    registers: tuple[Buffer, ...]

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The loops over the row."""
        return tuple(step for step in self.steps if isinstance(step, Pass))

    @property
    def has_nests(self) -> bool:
        """Is some pass of several loops?"""
        return any(one.outer for one in self.passes)

    @property
    def reordered(self) -> frozenset[str]:
        """The statements whose updates go to several accumulators."""
        return frozenset(update.statement for one in self.passes for update in one.updates)

    @property
    def length(self) -> Expr:
        """The most places that the innermost loop of a pass has."""
        return _most(one.length for one in self.passes)

    @property
    def outer_length(self) -> Expr:
        """The most iterations that the outermost loop of a pass of several has; 1 where no pass has several."""
        return _most([tidy(one.outer[0].upper - one.outer[0].lower) for one in self.passes if one.outer] or [integer(1)])

    def at(self, point: Mapping[str, Expr]) -> Body:
        """The same for the row at a point: with these values of the variables that stand for it."""

        def moved(expr: Expr) -> Expr:
            return tidy(substitute(expr, point))

        def load(each: Load) -> Load:
            return as_load(moved(each))

        def step(each: TreeNode | Pass) -> TreeNode | Pass:
            if not isinstance(each, Pass):
                return map_expressions((each,), moved)[0]
            updates = tuple(replace(one, target=load(one.target)) for one in each.updates)
            return replace(each, nodes=map_expressions(each.nodes, moved), updates=updates)

        return replace(
            self,
            steps=tuple(map(step, self.steps)),
            values={name: load(value) for name, value in self.values.items()},
            made=tuple(map(load, self.made)),
            once=frozenset(map(load, self.once)),
        )

    def asked(self, one: Pass) -> list[Load]:
        """What a pass reads of each place that may be asked for before it is needed: elements of arrays that
        nothing here writes, where the place says alone which (not data), and that some pass over these places
        reads at every one of them. (What is read under a condition alone need not be there.)"""
        sure = {load for other in self.passes if other.space == one.space for load in _always(other)}
        out = [
            load
            for node in walk_nodes(one.nodes)
            for expr in node_expressions(node)
            for load in loads(expr)
            if load in sure and load.array in self.fixed
            if COLUMN in subscript_iterators(load) and not any(map(loads, load.index))
        ]
        return list(dict.fromkeys(out))


    @property
    def constants(self) -> list[Load]:
        """What passes read at every place of a row though no place says which element: of arrays that nothing here writes, and not where data say."""
        found = [load for one in self.passes for load in sorted(_always(one), key=repr) if load.array in self.fixed]
        return [load for load in dict.fromkeys(found) if COLUMN not in subscript_iterators(load) and not any(map(loads, load.index))]


def _most(lengths: Iterable[Expr]) -> Expr:
    return reduce(lambda one, other: combine("max", one, other), dict.fromkeys(lengths))


class _Other(Exception):
    """The nodes have another form."""


def read_body(
    nodes: Sequence[TreeNode],
    program: PolyProgram,
    names: Names,
    reassociate: bool,
    private: frozenset[str] = frozenset(),
    alone: bool = False,
) -> Body | None:
    """`nodes` as what is done with a row; None where they have another form, or threads would need what
    others have. `private`: arrays that nothing else touches. `alone`: one thread has all of a value in memory, so that it may be
    updated as it was found, and set under conditions."""
    try:
        return _Reader(program, names, reassociate, private, alone).read(nodes)
    except _Other:
        return None


def body_of(ids: frozenset[str], scope: Scope | None, site: Site, nodes: Sequence[TreeNode], names: Names) -> Body | None:
    """What the statements do with a row, of which the nodes are all; None where the loops have another form."""
    assert scope is not None
    outside = {
        name
        for s in site.program.statements
        if s.id not in ids
        for access in (*s.reads, s.write)
        for name, _ in access.parts
    }
    private = frozenset(a.name for a in site.program.arrays.values() if a.kind == "temp") - outside
    return read_body(nodes, site.program, names, scope.reassociate, private, alone=site.device == "cpu")


class _Reader:
    def __init__(
        self, program: PolyProgram, names: Names, reassociate: bool, private: frozenset[str], alone: bool
    ) -> None:
        self.by_id, self.buffers, self.reassociate = program.by_id, names.buffers, reassociate
        self.private, self.alone = private, alone

    def read(self, nodes: Sequence[TreeNode]) -> Body:
        steps: list[TreeNode | Pass] = []
        for node in nodes:
            if isinstance(node, Loop):
                steps.append(self.one_pass(node))
            elif all(isinstance(each, Compute | Guard) for each in walk_nodes((node,))):
                steps.append(node)
            else:
                raise _Other
        passes = [step for step in steps if isinstance(step, Pass)]
        targets = [update.target for one in passes for update in one.updates]
        if not passes or len(set(targets)) < len(targets):
            raise _Other  # of several reductions into one place the checker proves nothing
        values, fixed = self.memory(steps)
        self.registers(steps)
        own = {
            load.array: self.buffers[load.array]
            for node, _, _ in _leaves(steps)
            for expr in node_expressions(node)
            for load in loads(expr)
            if self.is_register(load)
        }
        made = tuple(place for name in sorted(self.private) if (place := self.made(steps, name)) is not None)
        written = [node.target for node, _, _ in _leaves(steps) if isinstance(node, Compute)]
        outside = {step.target for step in steps if isinstance(step, Compute)}
        once = frozenset(each for each in values.values() if written.count(each) == 1 and each in outside)
        return Body(tuple(steps), values, fixed, made, once, tuple(own.values()))

    def one_pass(self, loop: Loop) -> Pass:
        outer: list[Around] = []
        at: dict[str, Expr] = {}
        while len(loop.body) == 1 and isinstance(loop.body[0], Loop):
            self.check_loop(loop)
            outer.append(Around(around(len(outer)), loop.lower, loop.upper))
            at[loop.var] = Iter(outer[-1].var)
            loop = loop.body[0]
        self.check_loop(loop)
        if not all(isinstance(each, Compute | Guard) for each in walk_nodes(loop.body)):
            raise _Other
        at[loop.var] = Iter(COLUMN)
        body = map_expressions(loop.body, lambda expr: substitute(expr, at))
        found: dict[str, Update] = {}
        own = {n.target.array for n in walk_nodes(body) if isinstance(n, Compute) and self.is_set(n)}
        for node in walk_nodes(body):
            if isinstance(node, Compute) and COLUMN not in subscript_iterators(node.target) and node.target.array not in own:
                update = self.update(node)
                if update is not None:
                    if any(each.var in subscript_iterators(update.target) for each in outer):
                        raise _Other  # a result for each iteration of a loop around
                    found[node.statement] = update
        targets = {update.target.array for update in found.values()}
        for node in walk_nodes(body):
            used = {load.array for expr in node_expressions(node) for load in loads(expr)}
            is_update = isinstance(node, Compute) and node.statement in found
            if not is_update and used & targets:
                raise _Other  # a partial result is used
        return Pass(body, tuple(found.values()), loop.lower, loop.upper, tuple(outer))

    @staticmethod
    def check_loop(loop: Loop) -> None:
        """It goes by ones, between bounds that are the same for all rows."""
        fixed = not (iterators(loop.lower) | iterators(loop.upper) or loads(loop.lower) or loads(loop.upper))
        if loop.mapping is not Where.SERIAL or loop.step != 1 or not fixed:
            raise _Other

    def is_set(self, node: Compute) -> bool:
        """Does a computation give a register a value that does not depend on the one before?"""
        return self.is_register(node.target) and node.target not in loads(node.value)

    def update(self, node: Compute) -> Update | None:
        """The reduction that a statement is part of, along the row; None where it is none."""
        statement, count = self.by_id[node.statement], loads(node.value).count(node.target)
        if not statement.reduction or statement.kind == "init" or not count:
            return None
        if not may_reorder(statement, self.reassociate) or statement.predicate is not None or count > 1:
            raise _Other
        return Update(statement.id, fold_of(statement.reduction), node.target, statement.kind == "update")

    # ------------------------------------------------------------------------------ who needs what

    def memory(self, steps: Sequence[TreeNode | Pass]) -> tuple[dict[str, Load], frozenset[str]]:
        """The values of the row that lie in memory, and the arrays that nothing here writes."""
        accesses: dict[str, list[Load]] = {}
        written: set[str] = set()
        guarded: set[str] = set()
        for node, inside, under in _leaves(steps):
            for expr in node_expressions(node):
                for load in (each for each in walk_expr(expr) if isinstance(each, Load)):
                    if not self.is_register(load):
                        accesses.setdefault(load.array, []).append(load)
            if isinstance(node, Compute) and not self.is_register(node.target):
                written.add(node.target.array)
                if under or node.predicate is not None:
                    guarded.add(node.target.array)
                if inside is not None and inside.vars & subscript_iterators(node.target):
                    self.own_place(node.target, inside.vars)
        values: dict[str, Load] = {}
        for name in sorted(written):
            places = list(dict.fromkeys(load.index for load in accesses[name]))
            if len(places) != 1 or any(is_checked(part) for part in places[0]):
                raise _Other
            one = accesses[name][0]
            starts = {step.start for step in steps if isinstance(step, Pass) and name in touched(step)}
            if COLUMN in subscript_iterators(one) and len(starts) > 1:
                raise _Other  # the same place would be another thread's
            if COLUMN not in subscript_iterators(one):
                if (name in guarded and not self.alone) or any(loads(part) for part in one.index):
                    raise _Other
                values[name] = one
        updated = {update.target for step in steps if isinstance(step, Pass) for update in step.updates} if self.alone else set[Load]()
        if not all(place in updated or self.is_set_first(steps, place) for place in values.values()):
            raise _Other
        return values, frozenset(accesses.keys() - written)

    def made(self, steps: Sequence[TreeNode | Pass], name: str) -> Load | None:
        """The element of an array that each iteration of a pass makes before it or another reads it, all over
        the same places; None where the array is no such."""
        found: Load | None = None
        spaces: set[Space] = set()
        for step in steps:
            for node, under in walk_guarded(step.nodes if isinstance(step, Pass) else (step,)):
                reads = [load for expr in _sources(node) for load in loads(expr) if load.array == name]
                if reads and found is None:
                    return None
                is_write = isinstance(node, Compute) and node.target.array == name
                if not reads and not is_write:
                    continue
                if not isinstance(step, Pass):
                    return None
                spaces.add(step.space)
                if isinstance(node, Compute) and is_write and found is None:
                    if under or node.predicate is not None or COLUMN not in subscript_iterators(node.target):
                        return None
                    found = node.target
        return found if len(spaces) == 1 else None

    def own_place(self, target: Load, loops: frozenset[str]) -> None:
        """Each iteration writes an element of its own: one subscript moves with each of the loops, by ones."""
        moving = [part for part in target.index if loops & iterators(part)]
        terms = [linear(part) or {} for part in moving]
        found = [var for each in terms for var, factor in each.items() if var in loops and factor == 1]
        if len(moving) != len(loops) or sorted(found) != sorted(loops):
            raise _Other

    def is_set_first(self, steps: Sequence[TreeNode | Pass], place: Load) -> bool:
        """Is the value set, outside of passes, before anything reads it?"""
        for step in steps:
            nodes = step.nodes if isinstance(step, Pass) else (step,)
            for node in walk_nodes(nodes):
                reads = [load for expr in _sources(node) for load in loads(expr)]
                if place in reads:
                    return False
                if isinstance(node, Compute) and node.target == place:
                    return not isinstance(step, Pass)
        return False

    def registers(self, steps: Sequence[TreeNode | Pass]) -> None:
        """Registers that a pass sets are its own."""
        for step in steps:
            if not isinstance(step, Pass):
                continue
            updated = {update.target.array for update in step.updates}
            set_here: set[str] = set()
            for node, under in walk_guarded(step.nodes):
                for load in (each for expr in _sources(node) for each in loads(expr)):
                    known = load.array in set_here | updated
                    if self.is_register(load) and not known and self.is_set_in(step, load.array):
                        raise _Other  # read before it is set: the iteration before set it
                if not isinstance(node, Compute) or node.target.array in updated:
                    continue
                if self.is_register(node.target):
                    if node.predicate is not None or under:
                        raise _Other
                    set_here.add(node.target.array)
                elif COLUMN not in subscript_iterators(node.target):
                    raise _Other  # the last iteration's value
            for other in steps:
                if other is not step and set_here & touched(other):
                    raise _Other

    def is_set_in(self, step: Pass, name: str) -> bool:
        return any(isinstance(n, Compute) and n.target.array == name for n in walk_nodes(step.nodes))

    def is_register(self, load: Load) -> bool:
        return isinstance(self.buffers[load.array].home, Register)


def _leaves(steps: Sequence[TreeNode | Pass]) -> Iterator[tuple[TreeNode, Pass | None, bool]]:
    """Every node, the pass that it is in, and whether a condition stands above it."""
    for step in steps:
        inside = step if isinstance(step, Pass) else None
        for node, under in walk_guarded(step.nodes if isinstance(step, Pass) else (step,)):
            yield node, inside, under


def _sources(node: TreeNode) -> tuple[Expr, ...]:
    """The expressions of a node but what it writes; the target's subscripts are read."""
    found = node_expressions(node)
    if isinstance(node, Compute):
        return (*found[:-1], *node.target.index)
    return found


def _always(one: Pass) -> Iterator[Load]:
    """What each iteration of a pass reads, whatever conditions hold."""
    running = {update.target for update in one.updates}
    for node, under in walk_guarded(one.nodes):
        if isinstance(node, Compute) and not under:
            yield from sure_loads(node.value if node.predicate is None else node.predicate, running)


def touched(step: TreeNode | Pass) -> set[str]:
    """What a step reads or writes."""
    nodes = step.nodes if isinstance(step, Pass) else (step,)
    return {load.array for n in walk_nodes(nodes) for expr in node_expressions(n) for load in loads(expr)}


def own_registers(body: Body, names: Names) -> dict[Load, Load]:
    """Registers of a launch's own, for those of the row: nothing is to be proved between launches then."""
    return {
        Load(each.name, (), each.dtype): names.register(each.array, Load(each.array, (), each.dtype))
        for each in body.registers
    }
