"""What `loopfuse deps` shows: dependences by statement label, as JSON (schema 1) and as text.

One record stands for one kind, array, source, sink and carrying loop. Hidden statements (the
first value of a Reduce, the saved condition of an `if`) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, LimitError, UserError
from loopfuse.poly import isl
from loopfuse.poly.deps import find_dependences
from loopfuse.poly.model import (
    KEPT,
    Dependence,
    Dependences,
    IslMap,
    Loop,
    PolyProgram,
    Statement,
)

PATIENCE = 30 * isl.OPERATIONS
"""isl operations that a question may take here."""
MOST_PAIRS = 1_000_000
"""Pairs of iterations that are listed: some seconds, and twenty megabytes of text."""

_SIMPLER = "split the kernel, or use simpler subscripts and conditions"

Range = tuple[int | None, int | None]
"""The smallest and largest distance along a loop, None where unbounded."""


@dataclass(slots=True)
class _Record:
    kind: str
    array: str
    source: Statement
    sink: Statement
    carrier: Loop | None
    ranges: list[Range]
    reduction: bool
    exact: bool
    pairs: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=list[tuple[tuple[int, ...], tuple[int, ...]]]
    )


def describe_dependences(
    program: PolyProgram,
    deps: Dependences,
    sizes: Mapping[str, int] | None = None,
    instances: bool = False,
) -> dict[str, Any]:
    """The JSON of `loopfuse deps`.

    `sizes` restricts every claim to those sizes and integer parameters; `instances` lists the
    pairs of iterations of each exact record, and needs all of them (UserError[missing-size]).
    LimitError[dependences-unknown] where isl gives up, [too-many-instances] where there may be
    more than `MOST_PAIRS`.
    """
    given = dict(sizes or {})
    if instances:
        _need_all(program, given)
    may = any(statement.predicate is not None for statement in program.statements)
    if may or not deps.complete:
        # Readers want to know what may reach a read, not what passes an old value on; and they
        # have the patience that a compile has not.
        deps = find_dependences(program, may, PATIENCE)
    if not deps.complete:
        raise LimitError(
            Diagnostic("dependences-unknown", deps.why, program.kernel.span, fix=_SIMPLER)
        )
    if instances:
        _check_pairs(program, deps, given)
    records: dict[tuple[Any, ...], _Record] = {}
    for dependence in deps.all:
        for record in _records_of(program, dependence, given, instances):
            carrier = record.carrier.iterator if record.carrier else None
            ends = (_label(record.source), _label(record.sink))
            key = (record.kind, record.array, *ends, carrier)
            known = records.get(key)
            records[key] = record if known is None else _merge(known, record)
    return {
        "schema": 1,
        "kernel": program.kernel.name,
        "dependences": [_to_dict(record, instances) for record in records.values()],
    }


def _need_all(program: PolyProgram, given: Mapping[str, int]) -> None:
    missing = [
        symbol
        for symbol in program.symbols
        if symbol not in given and symbol not in program.unknown
    ]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        wanted = ",".join(f"{name}=6" for name in missing)
        raise UserError(
            Diagnostic(
                "missing-size",
                f"listing instances needs a value for {names}",
                fix=f"add `--size {wanted}`",
            )
        )


def _check_pairs(program: PolyProgram, deps: Dependences, given: Mapping[str, int]) -> None:
    """LimitError where listing would take minutes. A read has one source and an overwritten value
    one overwriter, so that there are no more pairs than iterations at one end; those are counted
    by the box around them."""
    most = 0
    for dependence in deps.all:
        if dependence.exact and not _is_hidden(program, dependence):
            relation = isl.fix_parameters(dependence.relation, given)
            relation = isl.without_parameters(relation, program.unknown)
            if not relation.is_empty():
                most += max(_box(relation.domain()), _box(relation.range()))
    if most > MOST_PAIRS:
        sizes = ", ".join(f"{name}={value}" for name, value in given.items())
        raise LimitError(
            Diagnostic(
                "too-many-instances",
                f"at {sizes} there may be {most} pairs of iterations, and at most {MOST_PAIRS} are "
                "listed",
                program.kernel.span,
                fix="give smaller sizes: a dependence shows itself at 6 as well",
            )
        )


def _box(points: Any) -> int:
    """How many points the smallest box around a set holds."""
    count = 1
    for level in range(points.dim(isl.SET)):
        low = isl.integer_of(points.dim_min_val(level))
        high = isl.integer_of(points.dim_max_val(level))
        count *= MOST_PAIRS + 1 if low is None or high is None else max(0, high - low + 1)
    return count


# ----------------------------------------------------------------------------------- records


def _is_hidden(program: PolyProgram, dependence: Dependence) -> bool:
    ends = (program.statement(dependence.source), program.statement(dependence.sink))
    hidden = any(end.kind == "init" or end.is_hidden for end in ends)
    own = dependence.array in program.unknown or dependence.array.startswith(KEPT)
    return hidden or own


def common_loops(source: Statement, sink: Statement) -> int:
    """How many loops stand around both statements."""
    count = 0
    for one, other in zip(source.loops, sink.loops, strict=False):
        if one.iterator != other.iterator:
            break
        count += 1
    return count


def split_by_carrier(relation: IslMap, common: int) -> Iterator[tuple[int | None, IslMap]]:
    """(level, part) for each common loop that carries pairs of `relation`; (None, part) for the
    pairs within one iteration of all of them."""
    rest = relation
    for level in range(common):
        equal = rest.equate(isl.IN, level, isl.OUT, level)
        carried = rest.subtract(equal)
        if not carried.is_empty():
            yield level, carried
        rest = equal
    if not rest.is_empty():
        yield None, rest


def distances(relation: IslMap, loops: tuple[Loop, ...]) -> list[Range]:
    """The least and the greatest distance along each of the common `loops`, in iterations,
    over all pairs of `relation` and all parameter values."""
    common = len(loops)
    if not common:
        return []
    relation = relation.project_out(isl.IN, common, relation.dim(isl.IN) - common)
    relation = relation.project_out(isl.OUT, common, relation.dim(isl.OUT) - common)
    relation = relation.project_out(isl.PARAM, 0, relation.dim(isl.PARAM))
    relation = relation.set_tuple_name(isl.IN, "d").set_tuple_name(isl.OUT, "d")
    deltas = relation.deltas()
    found: list[Range] = []
    for level, loop in enumerate(loops):
        ends = [isl.integer_of(deltas.dim_min_val(level)), isl.integer_of(deltas.dim_max_val(level))]
        if loop.step < 0:
            ends.reverse()
        low, high = (None if end is None else end // loop.step for end in ends)
        found.append((low, high))
    return found


def _records_of(
    program: PolyProgram, dependence: Dependence, sizes: Mapping[str, int], instances: bool
) -> Iterator[_Record]:
    if _is_hidden(program, dependence):
        return
    source, sink = program.statement(dependence.source), program.statement(dependence.sink)
    common = common_loops(source, sink)
    relation = isl.fix_parameters(dependence.relation, sizes)
    for level, part in split_by_carrier(relation, common):
        record = _Record(
            dependence.kind,
            dependence.array,
            source,
            sink,
            None if level is None else source.loops[level],
            distances(part, source.loops[:common]),
            dependence.reduction,
            dependence.exact,
        )
        if instances and dependence.exact:
            cut = len(source.loops)
            pairs = isl.without_parameters(part, program.unknown).wrap()
            record.pairs = [(point[:cut], point[cut:]) for point in isl.points_of(pairs)]
        yield record


def _merge(first: _Record, second: _Record) -> _Record:
    """Two statements of one label (a loop unrolled over a table) make one record."""
    first.ranges = [
        (
            None if a[0] is None or b[0] is None else min(a[0], b[0]),
            None if a[1] is None or b[1] is None else max(a[1], b[1]),
        )
        for a, b in zip(first.ranges, second.ranges, strict=False)
    ]
    first.reduction &= second.reduction
    first.exact &= second.exact
    first.pairs = sorted({*first.pairs, *second.pairs})
    return first


def _direction(span: Range) -> str:
    low, high = span
    if low is not None and low > 0:
        return "<"
    if high is not None and high < 0:
        return ">"
    return "=" if low == high == 0 else "*"


def source_name(iterator: str) -> str:
    """An iterator as the source spells it, without the suffix that makes it unique."""
    return iterator.split(".")[0]


def _label(statement: Statement) -> str:
    return statement.label.removesuffix(".if")


def _to_dict(record: _Record, instances: bool) -> dict[str, Any]:
    out: dict[str, Any] = {
        "kind": record.kind,
        "array": record.array,
        "source": {"statement": _label(record.source), "line": record.source.line},
        "sink": {"statement": _label(record.sink), "line": record.sink.line},
        "distance": [low if low == high else None for low, high in record.ranges],
        "direction": [_direction(span) for span in record.ranges],
        "carried_by": None if record.carrier is None else source_name(record.carrier.iterator),
        "reduction": record.reduction,
        "exact": record.exact,
    }
    if instances and record.exact:
        out["pairs"] = [[list(one), list(other)] for one, other in record.pairs]
    return out


# -------------------------------------------------------------------------------------- text


def print_dependences(described: Mapping[str, Any]) -> str:
    """The text form of `describe_dependences`, at most 80 columns wide where names allow.

    `jacobi`: one line a dependence, with kind, array, statements and lines, distance or
    direction of each common loop, and the loop that carries it.
    """
    rows = described["dependences"]
    lines = [f"{described['kernel']}   {_count(len(rows))}"]
    if not rows:
        return lines[0] + "\n"
    table = [("kind", "array", "from", "to", "distance", "carried by", "")]
    for row in rows:
        ends = [f"{end['statement']} line {end['line']}" for end in (row["source"], row["sink"])]
        vector = ", ".join(
            sign if number is None else str(number)
            for number, sign in zip(row["distance"], row["direction"], strict=True)
        )
        notes = [word for word, on in (("reduction", row["reduction"]), ("may", not row["exact"])) if on]
        carrier = row["carried_by"] or "-"
        table.append(
            (row["kind"], row["array"], ends[0], ends[1], f"({vector})", carrier, ", ".join(notes))
        )
    widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
    lines.append("")
    for row, cells in zip([None, *rows], table, strict=True):
        text = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"  {text}".rstrip())
        if row is not None and "pairs" in row:
            lines += _print_pairs(row["pairs"])
    return "\n".join(lines) + "\n"


def _count(number: int) -> str:
    return "no dependences" if not number else f"{number} dependence{'s' if number > 1 else ''}"


def _print_pairs(pairs: list[list[list[int]]]) -> list[str]:
    """The instances, as many on a line as fit in 80 columns."""
    lines: list[str] = []
    current = "     "
    for source, sink in pairs:
        text = f" ({', '.join(map(str, source))})->({', '.join(map(str, sink))})"
        if len(current) + len(text) > 80 and current.strip():
            lines.append(current)
            current = "     "
        current += text
    return [*lines, current] if current.strip() else lines
