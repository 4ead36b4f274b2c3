"""Are all subscripts in bounds? Proved once from the sizes, never tested per access.

before: `for i in 0..N: b[i + 1] = ...` with `b: f32[M]`
after: the precondition `N <= M - 1`, checked before anything runs

What fails for every size that runs the statement, or for every large one, is the user's mistake
and an error here; what fails for some is a Precondition. Guards count, data does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopfuse.base.diagnostics import NOWHERE, Diagnostic, Label, LimitError, Span, UserError
from loopfuse.lang.index import is_checked
from loopfuse.lang.index_text import to_python
from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import Assume, Binary, Const, Expr, For, Load, integer
from loopfuse.lang.walk import iterators, loads, substitute, walk_stmts
from loopfuse.poly import isl
from loopfuse.poly.build import obviously_inside
from loopfuse.poly.deps import flow_of_read
from loopfuse.poly.edges import lower_subscript
from loopfuse.poly.model import (
    Access,
    Dependences,
    IslSet,
    Loop,
    PolyProgram,
    Precondition,
    Statement,
)

LARGE = 64
"""Sizes from here on count as large."""


@dataclass(frozen=True, slots=True)
class _Violation:
    """Dimension `dim` of an access to `array` passes the low or the high end for `params`."""

    statement: Statement
    access: Access
    array: str
    dim: int
    low: bool
    writes: bool
    params: IslSet


def find_preconditions(program: PolyProgram) -> tuple[tuple[Precondition, ...], IslSet]:
    """(what every call must satisfy, the program's context with that added).

    UserError[subscript-range] where a subscript is out of bounds whenever it runs or for all
    large sizes; LimitError[subscript-unproved] for a subscript that isl cannot express.
    """
    found = _assumptions(program)
    context = program.context
    errors: list[Diagnostic] = []
    seen: set[tuple[Load, int, bool]] = set()
    for statement in program.statements:
        accesses = [(statement.write, True), *((read, False) for read in statement.reads)]
        if statement.predicate is not None:
            accesses.pop()  # the target once more
        for access, writes in accesses:
            for violation in _violations(program, statement, access, writes, program.context):
                key = (access.load, violation.dim, violation.low)
                if _is_mistake(program, violation):
                    if key not in seen:
                        errors.append(_diagnostic(program, violation))
                    seen.add(key)
                    continue
                good = context.subtract(violation.params).coalesce()
                if good.is_equal(context):
                    continue
                holds = good.gist(context).coalesce()
                text = isl.params_text(holds)
                context = good
                found.append(
                    Precondition(text, _message(program, violation), _span(violation), holds)
                )
    if errors:
        raise UserError(*errors)
    return tuple(found), context


def _assumptions(program: PolyProgram) -> list[Precondition]:
    """The kernel's `assume`s on sizes and parameters, which every call is held to. (One that
    speaks of iterators or data stays a promise.)"""
    found: list[Precondition] = []
    reader = isl.Reader(program.context.get_space())
    for stmt in walk_stmts(program.kernel.body):
        if not isinstance(stmt, Assume) or iterators(stmt.condition) or loads(stmt.condition):
            continue
        holds = reader.condition(stmt.condition)
        if holds is not None:
            params = holds.params().coalesce()
            text = isl.params_text(params)
            message = f"`{program.kernel.name}` assumes `{text}`"
            found.append(Precondition(text, message, stmt.span, params))
    return found


def _violations(
    program: PolyProgram, statement: Statement, access: Access, writes: bool, context: IslSet
) -> list[_Violation]:
    found: list[_Violation] = []
    load = access.load
    for name, relation in access.parts:
        array = program.arrays[name]
        lead = len(array.private_to)
        todo = [
            dim
            for dim, (subscript, extent) in enumerate(zip(load.index, array.extents, strict=True))
            if not is_checked(subscript)
            and not obviously_inside(subscript, extent, statement.loops)
        ]
        if not todo:
            continue
        if not access.exact:
            for dim in _check_inexact(program, statement, load, array.extents):
                params = _runs_on_nothing(statement, array.extents[dim], context)
                if not params.is_empty():
                    found.append(_Violation(statement, access, name, dim, False, writes, params))
        touched = relation.intersect_params(context).range()
        for position in range(touched.dim(isl.SET)):
            touched = touched.set_dim_name(isl.SET, position, f"d{position}")
        reader = isl.Reader(touched.get_space())
        for dim in todo:
            here = reader.affine({f"d{lead + dim}": 1})
            end = reader.piecewise(array.extents[dim])
            if end is None:
                raise LimitError(_unproved(load, dim))
            for low, outside in ((True, here.lt_set(reader.constant(0))), (False, here.ge_set(end))):
                bad = touched.intersect(outside)
                if not bad.is_empty():
                    params = bad.project_out(isl.SET, 0, bad.dim(isl.SET)).params()
                    found.append(_Violation(statement, access, name, dim, low, writes, params))
    return found


def _check_inexact(
    program: PolyProgram, statement: Statement, load: Load, extents: tuple[Expr, ...]
) -> list[int]:
    """The dimensions whose subscript isl cannot express, but whose form says that it is in
    bounds of any array that is not empty: `e % extent`, or one of the edge modes."""
    folded: list[int] = []
    reader = isl.Reader(statement.domain.get_space())
    where = statement.domain.intersect_params(program.context)
    for dim, (subscript, extent) in enumerate(zip(load.index, extents, strict=True)):
        if is_checked(subscript) or reader.piecewise(subscript, where) is not None:
            continue
        if _folds(subscript, extent):
            folded.append(dim)
            continue
        raise LimitError(_unproved(load, dim))
    return folded


def _runs_on_nothing(statement: Statement, extent: Expr, context: IslSet) -> IslSet:
    """The parameters for which the statement runs while `extent` is 0."""
    runs = statement.domain.intersect_params(context).params()
    reader = isl.Reader(runs.get_space())
    end: IslSet = reader.piecewise(extent)
    return runs if end is None else runs.intersect(end.le_set(reader.constant(0)))


def _folds(subscript: Expr, extent: Expr) -> bool:
    """The arithmetic of an edge mode (`poly.edges`), right for any distance by construction.

    `e % n`; for reflect and symmetric `min(m, q - m)` with `m = e % p`, where q - m is in 0..n
    for the upper half of m and m itself for the lower.
    """
    match subscript:
        case Binary(op="mod", right=right):
            return right == extent
        case Binary(op="min", left=Binary(op="mod", left=inner)):
            return any(
                lower_subscript(mode, inner, extent, False, False) == subscript
                for mode in ("reflect", "symmetric")
            )
        case _:
            return False


def _unproved(load: Load, dim: int) -> Diagnostic:
    return Diagnostic(
        "subscript-unproved",
        f"whether `{_load_text(load)}` stays inside `{load.array}` cannot be decided",
        _place(load, dim),
        fix="use subscripts affine in iterators and sizes, or an array of higher rank",
    )


def _is_mistake(program: PolyProgram, violation: _Violation) -> bool:
    runs = violation.statement.domain.intersect_params(program.context)
    for name, relation in violation.access.parts:
        if name == violation.array:
            runs = relation.intersect_params(program.context).domain()
    running = runs.params()
    if running.is_subset(violation.params):
        return True
    if isinstance(program.arrays[violation.array].extents[violation.dim], Const):
        return False  # `taps[k]` of a fixed extent bounds a size; that is a fair precondition
    reader = isl.Reader(running.get_space())
    large = isl.universe(running.get_space())
    for size in program.kernel.sizes:
        large = large.intersect(reader.affine({size: 1}).ge_set(reader.constant(LARGE)))
    large = large.intersect(running)
    return not large.is_empty() and large.is_subset(violation.params)


# --------------------------------------------------------------------------------- messages


def _compact(expr: Expr) -> str:
    """An index expression as a user writes it inside brackets: `x-2`."""
    return to_python(expr).replace(" - ", "-").replace(" + ", "+")


def _load_text(load: Load) -> str:
    if not load.index:
        return load.array
    return f"{load.array}[{', '.join(_safe(subscript) for subscript in load.index)}]"


def _safe(expr: Expr) -> str:
    try:
        return _compact(expr)
    except ValueError:
        return "..."


def _place(load: Load, dim: int) -> Span:
    span = load.index[dim].span
    return load.span if span == NOWHERE else span


def _span(violation: _Violation) -> Span:
    return _place(violation.access.load, violation.dim)


def _unit(rank: int, dim: int) -> str:
    if rank == 1:
        return "element"
    if rank == 2:
        return ("row", "column")[dim]
    return f"index of dimension {dim + 1}"


def _message(program: PolyProgram, violation: _Violation) -> str:
    array = program.arrays[violation.array]
    verb = "writes" if violation.writes else "reads"
    unit = _unit(len(array.extents), violation.dim)
    where = f"before the first {unit}" if violation.low else f"after the last {unit}"
    return f"`{_load_text(violation.access.load)}` {verb} {where} of `{violation.array}`"


def _driving_loop(violation: _Violation) -> tuple[Loop, int] | None:
    """The one loop whose iterator the subscript follows, and the coefficient."""
    subscript = violation.access.load.index[violation.dim]
    coefficients = linear(subscript)
    names = iterators(subscript)
    if coefficients is None or len(names) != 1:
        return None
    (name,) = names
    for loop in violation.statement.loops:
        if loop.iterator == name and coefficients.get(name):
            return loop, coefficients[name]
    return None


def _iterator_span(program: PolyProgram, loop: Loop) -> Span:
    """Where the loop's header names its iterator."""
    width = len(loop.iterator.split(".")[0])
    for stmt in walk_stmts(program.kernel.body):
        if isinstance(stmt, For) and stmt.iterator == loop.iterator:
            span = stmt.span
            return Span(span.line, span.column, span.line, span.column + width)
    return NOWHERE


def _diagnostic(program: PolyProgram, violation: _Violation) -> Diagnostic:
    array = program.arrays[violation.array]
    load, dim = violation.access.load, violation.dim
    extent = _safe(array.extents[dim])
    unit = _unit(len(array.extents), dim)
    units = {"element": "elements", "row": "rows", "column": "columns"}.get(unit, "indices")
    labels: tuple[Label, ...] = ()
    fixes: list[str] = []
    driver = _driving_loop(violation)
    if driver is not None:
        loop, coefficient = driver
        name = loop.iterator.split(".")[0]
        first, last = loop.lower, loop.upper - 1
        if loop.step < 0:
            first, last = loop.upper + 1, loop.lower
        at_start = violation.low == (coefficient > 0)
        end = first if at_start else last
        verb = ("starts" if at_start else "ends") if loop.step > 0 else "reaches"
        value = substitute(load.index[dim], {loop.iterator: end})
        text = f"{name} {verb} at {_safe(end)}, so {_safe(load.index[dim])} {verb} at {_safe(value)}"
        if verb == "reaches":
            text = text.replace("reaches at", "reaches")
        span = _iterator_span(program, loop)
        if span != NOWHERE:
            labels = (Label(span, text),)
        fixes += _bounds_fix(violation, loop, coefficient, at_start, array.extents[dim])
        if violation.low and _is_below_zero(load.index[dim], loop, last if at_start else first):
            # Every element counts from the end, as Python's negative subscripts do.
            fixes = [f"count from the end: `{_counted_from_the_end(load, dim, array.extents[dim])}`"]
    if not violation.writes and not array.private_to and not any("from the end" in fix for fix in fixes):
        modes = f"{load.array}.clamp[{', '.join(map(_safe, load.index))}]"
        fixes.append(f"repeat the edge: `{modes}`")
    return Diagnostic(
        "subscript-range",
        _message(program, violation),
        _span(violation),
        f"{units} of {violation.array} are 0..{extent}",
        labels,
        fix=", or ".join(fixes),
    )


def _is_below_zero(subscript: Expr, loop: Loop, end: Expr) -> bool:
    """The subscript is a negative number where the loop is at `end`."""
    value = _safe(substitute(subscript, {loop.iterator: end}))
    return value[:1] == "-" and value[1:].isdigit()


def _counted_from_the_end(load: Load, dim: int, extent: Expr) -> str:
    index = list(map(_safe, load.index))
    below = index[dim]
    index[dim] = f"{_safe(extent)}{below}" if below.startswith("-") else _safe(extent + load.index[dim])
    return f"{load.array}[{', '.join(index)}]"


def _bounds_fix(
    violation: _Violation, loop: Loop, coefficient: int, at_start: bool, extent: Expr
) -> list[str]:
    """The bounds that would keep this subscript inside, for `i + c` and `c - i`."""
    if abs(coefficient) != 1 or abs(loop.step) != 1:
        return []
    subscript = violation.access.load.index[violation.dim]
    rest = substitute(subscript, {loop.iterator: integer(0)})
    limit = integer(0) if violation.low else extent - 1
    # subscript = coefficient * i + rest = limit, solved for i.
    bound = limit - rest if coefficient > 0 else rest - limit
    name = loop.iterator.split(".")[0]
    step = "" if loop.step == 1 else f" step {loop.step}"
    if (loop.step > 0) == at_start:
        lower, upper = bound, loop.upper
        word = f"start at {_safe(bound)}"
    else:
        stop = bound + 1 if loop.step > 0 else bound - 1
        lower, upper = loop.lower, stop
        word = f"end at {_safe(stop)}"
    return [f"{word} (`{name} in {_safe(lower)}..{_safe(upper)}{step}`)"]


# ---------------------------------------------------------------------- uninitialised reads


def find_uninitialised(program: PolyProgram, deps: Dependences) -> tuple[Diagnostic, ...]:
    """Reads of temporaries and scalars that nothing wrote, for every size that runs them.

    Each is an `uninitialised-read` with an iteration as witness. (A `temp` element that is not
    written for some sizes only reads as zero.)
    """
    found: list[Diagnostic] = []
    seen: set[Load] = set()
    if not deps.complete:
        return ()
    for statement in program.statements:
        if statement.predicate is not None:
            continue
        for number, access in enumerate(statement.reads):
            array = program.arrays[access.array]
            if array.is_argument or not access.exact or access.load in seen:
                continue
            _, missing = flow_of_read(program, deps, statement.id, number)
            missing = missing.intersect_params(program.context)
            if missing.is_empty():
                continue
            running = statement.domain.intersect_params(program.context).params()
            if not running.is_subset(missing.params()):
                continue
            seen.add(access.load)
            found.append(_uninitialised(statement, access, missing))
    return tuple(found)


def _uninitialised(statement: Statement, access: Access, missing: IslSet) -> Diagnostic:
    notes: tuple[str, ...] = ()
    witness = isl.sample(missing)
    if witness is not None:
        sizes, iteration = witness
        at = [f"{name} = {value}" for name, value in sizes.items()]
        at += [
            f"{name.split('.')[0]} = {value}"
            for name, value in zip(statement.iterators, iteration, strict=True)
        ]
        if at:
            notes = (f"for example where {', '.join(at)}",)
    return Diagnostic(
        "uninitialised-read",
        f"`{_load_text(access.load)}` is read, but nothing has written it",
        access.load.span,
        "never written before this",
        notes=notes,
        fix=f"write `{access.array}` in an earlier statement",
    )
