"""Accesses of one array that never meet while a loop runs, for LLVM (CPU).

    for i in 1..N: for j in 0..M: x[i, j] = x[i - 1, j] + ...     rows i and i - 1 of x do not meet while j goes on
    for i in 2..N: for j in 0..N: c[1, j] = max(c[1, j], c[0, i])     nor does c[0, i] change

    for i in 0..N: for j in 0..i: x[i] -= l[i, j] * x[j]     and x[i] is none of the x[j] that it needs

LLVM sees one pointer and products of sizes it knows nothing about: it compares addresses when the code runs, or makes no
vectors at all. Here it is told: accesses whose subscripts along some dimension differ, whichever iterations they are of, are of
*scopes* of their own (`llvm.experimental.noalias.scope.decl`, once each time the loop starts; `alias.scope` and `noalias` at the accesses).

Needs: subscripts inside their arrays, and elements of an array that is written in places of their own (the runtime
refuses views that overlap themselves).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from loopfuse.codegen.abi import node_expressions
from loopfuse.codegen.build import Scope
from loopfuse.codegen.mlir.emit import Emitter
from loopfuse.codegen.mlir.index import (
    Atom,
    Facts,
    Linear,
    Operation,
    innermost,
    is_size,
    linear,
    mentions,
)
from loopfuse.lang import nodes
from loopfuse.lang.walk import children, loads
from loopfuse.tree import looptree
from loopfuse.tree.looptree import (
    Compute,
    Copy,
    Fold,
    Global,
    Guard,
    LineBuffer,
    Loop,
    TreeNode,
    modulus_of,
)

MOST = 12
"""Rows of an array, at most, that are told apart: each access names all others."""
STEPS = 6
"""Variables, at most, in whose place their bounds are put."""

Row = tuple[Linear | None, ...]
"""The subscripts of an access, as forms of variables; None for those that data says."""


@dataclass(slots=True)
class Scopes:
    """The scopes of the accesses in a loop, by rows of arrays: of each its own, and those that it never meets. `varying`: variables that change
    while the loop runs."""

    facts: Facts
    varying: set[str] = field(default_factory=set[str])
    declared: list[int] = field(default_factory=list[int])
    of: dict[str, dict[Row, Scope]] = field(default_factory=dict[str, "dict[Row, Scope]"])
    fixed: list[nodes.Load] = field(default_factory=list[nodes.Load])
    """Elements that each iteration reads and none changes, where LLVM would move their loads under a condition."""

    def find(self, load: nodes.Load) -> Scope | None:
        """The scope of an access, and those that do not meet it; None where nothing is known."""
        rows = self.of.get(load.array)
        return None if rows is None else rows.get(self.row(load.index))

    def row(self, index: tuple[nodes.Expr, ...]) -> Row:
        """The row of an access, as things stand."""
        forms = (linear(part, self.facts) for part in index)
        return tuple(None if _is_data(form) else form for form in forms)

    def is_settled(self, index: tuple[nodes.Expr, ...]) -> bool:
        """Is it the same element in all iterations?"""
        return all(form is not None and not self.varies(form) for form in self.row(index))

    def varies(self, form: Linear) -> bool:
        """Does it change while the loop runs?"""
        return any(mentions(form, name) for name in self.varying)

    def are_apart(self, one: Row, other: Row, modulus: int, stored: AbstractSet[Row]) -> bool:
        """Do accesses of these rows never meet? Of subscripts that change, only those are told from what is stored in one place, which then
        stays in a register. (Told otherwise, LLVM makes vectors of rows that are neighbours in memory, of which each store is half of the next
        load: `a[i] = a[i] / 2 + a[t]`, four t at once, took 3.2 times as long.)"""
        for dim, (a, b) in enumerate(zip(one, other, strict=True)):
            if a is None or b is None:
                continue
            if modulus and dim == 0:
                difference = a.plus(b, -1)
                if not self.varies(a) and not self.varies(b) and not difference.terms and difference.constant % modulus:
                    return True
                continue
            varying = [form for form in (a, b) if self.varies(form)]
            kept = [form for row, form in ((one, a), (other, b)) if row in stored and not self.varies(form)]
            if (not varying or kept) and always_differ(a, _in_another(b, self), self.facts):
                return True
        return False


def nowhere(_: nodes.Load) -> Scope | None:
    """No access is known not to meet others."""
    return None


def scopes_in(emitter: Emitter, body: tuple[TreeNode, ...], variable: str) -> Scopes:
    """What never meets while the loop of `variable` around `body` runs; nothing unless it is an innermost one."""
    found = Scopes(emitter.facts, {variable})
    rows: dict[str, dict[Row, None]] = {}
    written: dict[str, list[nodes.Load]] = {}
    targets: dict[str, set[Row]] = {}
    has_conditions = False

    def visit(body: tuple[TreeNode, ...]) -> bool:
        """False where there is a loop inside."""
        nonlocal has_conditions
        for node in body:
            for load in (load for expr in node_expressions(node) for load in loads(expr)):
                rows.setdefault(load.array, {})[found.row(load.index)] = None
            match node:
                case Loop(mapping=looptree.Mapping.UNROLLED):
                    times = constant_trips(emitter, node)
                    if times is None or emitter.facts.constants.get(node.var) is not None:
                        return False
                    for number in times:
                        emitter.facts.constants[node.var] = number
                        is_inside = visit(node.body)
                        del emitter.facts.constants[node.var]
                        if not is_inside:
                            return False
                case Loop(mapping=looptree.Mapping.VECTOR):
                    found.varying.add(node.var)
                    emitter.facts.ranges[node.var] = linear(node.lower, emitter.facts), linear(node.upper, emitter.facts)
                    if not visit(node.body):
                        return False
                case Loop():
                    return False
                case Guard(then=then, otherwise=otherwise):
                    has_conditions = True
                    if not (visit(then) and visit(otherwise)):
                        return False
                case Compute(target=target) | Copy(target=target) | Fold(target=target):
                    has_conditions |= isinstance(node, Compute) and node.predicate is not None
                    written.setdefault(target.array, []).append(target)
                    targets.setdefault(target.array, set()).add(found.row(target.index))
                case _:
                    pass
        return True

    if not visit(body):
        return Scopes(emitter.facts)
    for name in sorted(written):
        buffer = emitter.storage[name].buffer
        if not isinstance(buffer.home, Global | LineBuffer) or not 1 < len(rows[name]) <= MOST:
            continue
        modulus = modulus_of(buffer.home)
        stored = targets[name]
        apart = {one: [other for other in rows[name] if found.are_apart(one, other, modulus, stored)] for one in rows[name]}
        numbers = {row: emitter.scopes + k for k, row in enumerate(row for row in apart if apart[row])}
        emitter.scopes += len(numbers)
        found.declared += numbers.values()
        found.of[name] = {row: (number, tuple(numbers[other] for other in apart[row])) for row, number in numbers.items()}
    if has_conditions:
        settled = (load for load in _always_read(emitter, body) if found.is_settled(load.index))
        found.fixed = [load for load in settled if _is_fixed(emitter, load, written, found)]
    return found


def _always_read(emitter: Emitter, body: tuple[TreeNode, ...]) -> Iterator[nodes.Load]:
    """The elements that each run of `body` reads, or may read whatever it chooses."""
    found: dict[nodes.Load, None] = {}
    for node in body:
        if isinstance(node, Compute) and node.predicate is None:
            found |= dict.fromkeys(_read(emitter, node.value))
    return iter(found)


def _read(emitter: Emitter, expr: nodes.Expr) -> Iterator[nodes.Load]:
    match expr:
        case nodes.Select(condition=condition, then=then, otherwise=otherwise, eager=eager):
            yield from _read(emitter, condition)
            if eager:
                arms = (load for arm in (then, otherwise) for load in _read(emitter, arm))
                yield from (load for load in arms if emitter.storage[load.array].holds_all)
        case nodes.Binary(op="and" | "or", left=left):
            yield from _read(emitter, left)
        case _:
            for part in children(expr):
                yield from _read(emitter, part)
            if isinstance(expr, nodes.Load):
                yield expr


def _is_fixed(emitter: Emitter, load: nodes.Load, written: Mapping[str, list[nodes.Load]], scopes: Scopes) -> bool:
    """Does nothing in the loop change it?"""
    if not isinstance(emitter.storage[load.array].buffer.home, Global):
        return False
    own = scopes.find(load)
    targets = [scopes.find(each) for each in written.get(load.array, ())]
    return all(own is not None and each is not None and each[0] in own[1] for each in targets)


def constant_trips(emitter: Emitter, loop: Loop) -> range | None:
    """The values of a loop's variable, where they are constant."""
    lower, upper = linear(loop.lower, emitter.facts), linear(loop.upper, emitter.facts)
    return None if lower.terms or upper.terms else range(lower.constant, upper.constant, loop.step)


def _in_another(form: Linear, scopes: Scopes) -> Linear:
    """The form in another iteration: variables that change have other values there, in the same ranges."""
    terms: list[tuple[Atom, int]] = []
    for atom, factor in form.terms:
        match atom:
            case nodes.Iter(name=name) if name in scopes.varying:
                other = f"{name}'"
                if name in scopes.facts.ranges:
                    scopes.facts.ranges[other] = scopes.facts.ranges[name]
                terms.append((replace(atom, name=other), factor))
            case Operation(left=Linear() as left, right=Linear() as right):
                terms.append((Operation(atom.op, _in_another(left, scopes), _in_another(right, scopes)), factor))
            case _:
                terms.append((atom, factor))
    return Linear(tuple(terms), form.constant)


def _is_data(form: Linear) -> bool:
    return any(
        isinstance(atom, Operation)
        and (atom.op == "opaque" or any(isinstance(side, Linear) and _is_data(side) for side in (atom.left, atom.right)))
        for atom, _ in form.terms
    )


def always_differ(one: Linear, other: Linear, facts: Facts) -> bool:
    """Do two subscripts differ wherever the loops around run? (False: that is not seen.)"""
    difference = one.plus(other, -1)
    if not difference.terms:
        return difference.constant != 0
    match difference.terms:
        case (
            (Operation(op="mod", left=Linear() as left, right=Linear(terms=(), constant=whole)), 1 | -1),
            (Operation(op="mod", left=Linear() as right, right=Linear(terms=(), constant=same)), 1 | -1),
        ) if whole == same and whole and not difference.constant and difference.terms[0][1] != difference.terms[1][1]:
            apart = left.plus(right, -1)
            return not apart.terms and apart.constant % whole != 0
        case _:
            pass
    return _is_positive(difference, facts, STEPS) or _is_positive(difference.times(-1), facts, STEPS)


def _is_positive(form: Linear, facts: Facts, steps: int) -> bool:
    """Is it at least 1 wherever the loops around run? Each variable is put at an end of its range, inner ones first."""
    last = innermost(form, facts)
    if last is None:
        return form.constant > 0 and all(is_size(atom, facts) and factor > 0 for atom, factor in form.terms)
    if not steps:
        return False
    atom, factor = last
    lower, upper = facts.ranges[atom.name]
    rest = form.plus(Linear(((atom, factor),), 0), -1)
    ends = _ends("max", lower) if factor > 0 else _ends("min", upper.plus(Linear((), -1)))
    return any(_is_positive(rest.plus(end.times(factor)), facts, steps - 1) for end in ends)


def _ends(op: str, form: Linear) -> Iterator[Linear]:
    """`max(a, b) + c` is at least `a + c`, and at least `b + c`; the least of two is at most either."""
    match form.terms:
        case ((Operation(op=found, left=Linear() as left, right=Linear() as right), 1),) if found == op:
            for side in (left, right):
                yield from _ends(op, Linear(side.terms, side.constant + form.constant))
        case _:
            yield form
