"""Value-based flow over isl maps: the last write before each access.

The core of `poly.deps`, on maps and times only; it knows nothing of programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import islpy

SET: Any = islpy.dim_type.set
IN: Any = islpy.dim_type.in_
OUT: Any = islpy.dim_type.out


def pieces_of(relation: Any) -> list[Any]:
    """The basic maps of a map, each as a map."""
    listing = relation.get_basic_map_list()
    return [islpy.Map.from_basic_map(listing.get_at(k)) for k in range(listing.n_basic_map())]


def before_at(time: Any, level: int, forward: bool) -> Any:
    """{ time -> earlier time }: equal before dimension `level`, less there (more, if not
    `forward`)."""
    space = time.map_from_set()
    relation = islpy.Map.universe(space)
    for k in range(level):
        relation = relation.equate(IN, k, OUT, k)
    return relation.order_gt(IN, level, OUT, level) if forward else relation.order_lt(
        IN, level, OUT, level
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A writer in a question about flow: { source -> element }, { source -> time }, the levels
    (dimensions of time) at which it can come before the sink, and whether it certainly writes."""

    writes: Any
    times: Any
    levels: tuple[int, ...]
    must: bool


def last_sources(sink: Any, times: Any, sources: Sequence[Source], forward: bool) -> list[Any]:
    """For each source { source -> [sink -> element] }: the last write before each access of
    `sink` ({ sink -> element }); the first after it, if not `forward`.

    Feautrier's algorithm (1991): a source that shares more of the time vector comes later, so
    levels are tried from the deepest outwards, and what is fed needs no earlier source; within a
    level the lexicographic maximum decides. A source that only may write never ends the search,
    and feeds every access whose last certain write is not after it. (isl's own
    `compute_flow` is not used: isl 0.27 answers wrongly for strided loops that count down, see
    docs/decisions/flow.md.)
    """
    at = sink.domain_map().apply_range(times)  # { [sink -> element] -> time }
    return _last(sink.range_map(), at, sink.wrap(), sources, forward)


def last_sources_of_one(sink: Any, times: Any, sources: Sequence[Source]) -> list[Any]:
    """For each source { source -> sink }: the last write before each access of `sink`, of which each touches one
    element. (That need not be told apart from the access then, in half the dimensions.)"""
    return _last(sink, times, sink.domain(), sources, True)


def _last(accesses: Any, at: Any, rest: Any, sources: Sequence[Source], forward: bool) -> list[Any]:
    """For each source { source -> access }, of { access -> element } at { access -> time }; `rest`: those accesses."""
    time = at.get_space().range()
    candidates: list[Any | None] = []
    for source in sources:
        pairs = accesses.apply_range(source.writes.reverse())
        candidates.append(None if pairs.is_empty() else pairs.apply_range(source.times))
    last: Any = None
    for level in sorted({level for source in sources for level in source.levels}, reverse=True):
        earlier: Any = None
        best: Any = None
        for source, candidate in zip(sources, candidates, strict=True):
            if not source.must or candidate is None or level not in source.levels:
                continue
            if earlier is None:
                earlier = at.apply_range(before_at(time, level, forward)).intersect_domain(rest)
            part = candidate.intersect(earlier)
            best = part if best is None else best.union(part)
        if best is None or best.is_empty():
            continue
        if not best.plain_is_single_valued():
            best = best.lexmax() if forward else best.lexmin()
        last = best if last is None else last.union(best)
        rest = rest.subtract(best.domain())
        if rest.is_empty():
            break
    found: list[Any] = []
    for source, candidate in zip(sources, candidates, strict=True):
        if source.must:
            chosen = None if last is None or candidate is None else last.intersect(candidate)
        else:
            chosen = candidate and _not_ended(candidate, source, at, time, last, rest, forward)
        back = None if chosen is None else chosen.apply_range(source.times.reverse()).reverse()
        found.append(back)
    return found


def _not_ended(
    candidate: Any, source: Source, at: Any, time: Any, last: Any, rest: Any, forward: bool
) -> Any:
    """The times of a source that may write, before the sink and after the last certain write."""
    order: Any = None
    since: Any = None
    for level in range(time.dim(SET)):
        step = before_at(time, level, forward)
        since = step if since is None else since.union(step)
        if level in source.levels:
            order = step if order is None else order.union(step)
    if order is None:
        return None
    possible = candidate.intersect(at.apply_range(order))
    free = possible.intersect_domain(rest)
    if last is None:
        return free
    return free.union(possible.intersect(last.apply_range(since.reverse())))
