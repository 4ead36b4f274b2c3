"""Random programs: every dependence isl finds against every one that happens."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import brute
import pytest
from programs import random_kernel

from loopfuse.lang.nodes import Kernel
from loopfuse.poly import isl
from loopfuse.poly.build import build_model
from loopfuse.poly.deps import find_dependences, flow_of_read
from loopfuse.poly.deps_report import describe_dependences
from loopfuse.poly.model import Dependences, PolyProgram

SIZES = ({"N": 1, "M": 1}, {"N": 2, "M": 3}, {"N": 4, "M": 2}, {"N": 0, "M": 3}, {"N": 3, "M": 4})
PROGRAMS = 320
BATCH = 20
LIMIT = 3_000_000  # random programs are worse than real ones


def model_pairs(program: PolyProgram, deps: Dependences, sizes: dict[str, int]) -> brute.Pairs:
    found: brute.Pairs = defaultdict(set)
    for dependence in deps.all:
        cut = len(program.statement(dependence.source).loops)
        relation = isl.fix_parameters(dependence.relation, sizes)
        key = (dependence.kind, dependence.array, dependence.source, dependence.sink)
        for point in isl.points_of(relation.wrap()):
            found[key].add((point[:cut], point[cut:]))
    return dict(found)


def check_pairs(program: PolyProgram, deps: Dependences, found: brute.Found, sizes: Any) -> None:
    exact = {(d.kind, d.array, d.source, d.sink): d.exact for d in deps.all}
    computed = model_pairs(program, deps, sizes)
    for key in computed.keys() | found.pairs.keys():
        mine, truth = computed.get(key, set()), found.pairs.get(key, set())
        assert truth <= mine, (key, sizes, truth - mine)
        if exact[key]:
            assert mine == truth, (key, sizes, mine - truth)


def check_live_out(
    program: PolyProgram, deps: Dependences, found: brute.Found, sizes: dict[str, int]
) -> None:
    last: dict[str, set[Any]] = defaultdict(set)
    for name, writers in deps.live_out.items():
        for writer, relation in writers.items():
            cut = len(program.statement(writer).loops)
            for point in isl.points_of(isl.fix_parameters(relation, sizes).wrap()):
                last[name].add((writer, point[:cut], point[cut:]))
    truth: dict[str, set[Any]] = defaultdict(set)
    for (name, element), (writer, iteration) in found.last.items():
        if program.arrays[name].is_live_out:
            truth[name].add((writer, iteration, element))
    assert last == truth, sizes


def check_sources(
    program: PolyProgram, deps: Dependences, found: brute.Found, sizes: dict[str, int]
) -> None:
    """flow_of_read names the one source of every read that happens."""
    computed: dict[Any, Any] = {}
    for statement in program.statements:
        for number, access in enumerate(statement.reads):
            if not access.exact:
                continue
            sources, rest = flow_of_read(program, deps, statement.id, number)
            for source, relation in sources.items():
                cut = len(program.statement(source).loops)
                for point in isl.points_of(isl.fix_parameters(relation, sizes).wrap()):
                    key = (statement.id, point[cut:], number)
                    assert key not in computed, "two sources for one read"
                    computed[key] = (source, point[:cut])
            for point in isl.points_of(isl.fix_parameters(rest, sizes)):
                key = (statement.id, point, number)
                assert key not in computed, "a source and none"
                computed[key] = None
    inexact = {
        (statement.id, number)
        for statement in program.statements
        for number, access in enumerate(statement.reads)
        if not access.exact
    }
    truth = {key: at for key, at in found.sources.items() if (key[0], key[2]) not in inexact}
    assert computed == truth, sizes


def carrier_of(program: PolyProgram, source: str, sink: str, pair: Any) -> tuple[Any, list[int]]:
    """(carrying iterator or None, distances) of one pair, from the iterator values."""
    one, other = program.statement(source), program.statement(sink)
    carrier, distances = None, []
    for a, b, x, y in zip(one.loops, other.loops, *pair, strict=False):
        if a.iterator != b.iterator:
            break
        distances.append((y - x) // a.step)
        if carrier is None and x != y:
            carrier = a.iterator
    return carrier, distances


def satisfied(record: dict[str, Any], distances: list[int]) -> bool:
    for number, sign, actual in zip(record["distance"], record["direction"], distances, strict=True):
        if number is not None and number != actual:
            return False
        if sign != "*" and sign != ("<" if actual > 0 else ">" if actual < 0 else "="):
            return False
    return True


def check_report(
    program: PolyProgram, described: dict[str, Any], found: brute.Found, with_pairs: bool
) -> None:
    """Every pair that happens is in a record that claims the truth of it."""
    records = {
        (r["kind"], r["array"], r["source"]["statement"], r["sink"]["statement"], r["carried_by"]): r
        for r in described["dependences"]
    }
    assert len(records) == len(described["dependences"])
    truth: dict[Any, set[Any]] = defaultdict(set)
    for (kind, array, source, sink), pairs in found.pairs.items():
        if source.endswith(".init") or sink.endswith(".init"):
            continue
        for pair in pairs:
            carrier, distances = carrier_of(program, source, sink, pair)
            key = (kind, array, source, sink, carrier)
            truth[key].add(pair)
            assert satisfied(records[key], distances), (records[key], pair)
    if with_pairs:
        for key, record in records.items():
            if record["exact"]:
                listed = {(tuple(one), tuple(other)) for one, other in record["pairs"]}
                assert listed == truth.get(key, set()), key
                # With the sizes given, what is constant is said to be constant.
                seen = [carrier_of(program, key[2], key[3], pair)[1] for pair in listed]
                for level, number in enumerate(record["distance"]):
                    if len({each[level] for each in seen}) == 1:
                        assert number == seen[0][level]


def check_kernel(kernel: Kernel, number: int) -> bool:
    """False if isl gave up, which it says."""
    program = build_model(kernel)
    deps = find_dependences(program, operations=LIMIT)
    if not deps.complete:
        assert deps.why
        return False
    symbolic = describe_dependences(program, deps)
    # A condition such as `i < j % N` that isl cannot express predicates its statements.
    certain = all(
        statement.predicate is None and statement.write.exact for statement in program.statements
    )
    if not certain:
        deps = find_dependences(program, may=True, operations=LIMIT)
    for turn, sizes in enumerate(SIZES):
        found = brute.find(brute.trace(kernel, sizes))
        check_pairs(program, deps, found, sizes)
        check_report(program, symbolic, found, with_pairs=False)
        if turn == number % len(SIZES):
            if certain:
                check_live_out(program, deps, found, sizes)
                check_sources(program, deps, found, sizes)
            described = describe_dependences(program, deps, sizes, instances=True)
            check_report(program, described, found, with_pairs=True)
    return True


@pytest.mark.parametrize("batch", range(PROGRAMS // BATCH))
def test_dependences_are_what_happens(batch: int) -> None:
    """20 programs that isl can answer; nearly all of them are."""
    checked, seed = 0, 1000 * batch
    while checked < BATCH:
        checked += check_kernel(random_kernel(seed), seed)
        seed += 1
    assert seed - 1000 * batch <= BATCH + 6


@pytest.mark.parametrize("seed", range(30))
def test_data_guards_are_covered(seed: int) -> None:
    """Whatever the data, what happens is among the dependences reported."""
    kernel = random_kernel(1000 + seed, data_guards=True)
    program = build_model(kernel)
    deps = find_dependences(program, operations=LIMIT)
    may = find_dependences(program, may=True, operations=LIMIT)
    assert deps.complete and may.complete
    symbolic = describe_dependences(program, deps)
    for sizes in SIZES:
        for salt in range(3):

            def decide(name: str, at: tuple[int, ...], salt: int = salt) -> bool:
                return hash((salt, at)) % 3 != 0

            found = brute.find(brute.trace(kernel, sizes, decide))
            known = dict(found.pairs)
            check_report(program, symbolic, brute.Found(known, {}, {}), with_pairs=False)
            check_pairs_covered(program, may, found, sizes)


def check_pairs_covered(
    program: PolyProgram, deps: Dependences, found: brute.Found, sizes: dict[str, int]
) -> None:
    computed: brute.Pairs = defaultdict(set)
    for (kind, array, source, sink), pairs in model_pairs(program, deps, sizes).items():
        # A saved condition belongs to the store it is named after.
        computed[kind, array, source.removesuffix(".if"), sink.removesuffix(".if")] |= pairs
    for key, truth in found.pairs.items():
        assert truth <= computed.get(key, set()), (key, sizes)
