"""Running the threads of a launch as generators, stopped and released at barriers and the like.

A thread yields a `Wait` where it needs others. Threads of one block (or warp, or cluster) that
all wait at the same node go on together; a thread that ends, or waits elsewhere, while others of
its scope wait is an error, as it would hang on a GPU.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.machine import LANES
from loopfuse.tree import chains

Cell = tuple[list[Any], int]
"""A place in a buffer: its list of elements, and an offset."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread waits for: `kind` barrier, combine, ticket, raise or await at node `node`."""

    scope: str
    node: int
    kind: str = "barrier"
    # combine: (group, position, count, operation, neutral, value); ticket: (cell, count);
    # raise and await: (cell, value); chain: (position, count, operation, neutral, value, block, made, is_linear)
    detail: Any = None


@dataclass(slots=True)
class Thread:
    """One running thread; `warp` and `block` say which others it may wait for."""

    run: Generator[Wait, Any, None]
    warp: Any
    block: Any
    wait: Wait | None = None
    send: Any = None
    done: bool = False


def _fail(message: str) -> InternalError:
    return InternalError(Diagnostic("tree-run", message))


@dataclass(slots=True)
class Cluster:
    """Blocks that may wait for each other: threads in the order they take turns."""

    threads: list[Thread]
    reorder: Callable[[list[Thread]], list[Thread]]
    groups: dict[str, list[list[Thread]]] = field(default_factory=dict[str, list[list[Thread]]])

    def __post_init__(self) -> None:
        warps: dict[Any, list[Thread]] = {}
        blocks: dict[Any, list[Thread]] = {}
        for thread in self.threads:
            warps.setdefault(thread.warp, []).append(thread)
            blocks.setdefault(thread.block, []).append(thread)
        self.groups = {
            "warp": list(warps.values()),
            "block": list(blocks.values()),
            "cluster": [self.threads],
        }

    def advance(self) -> bool:
        """Run until every thread is done or awaits a flag; was anything run at all?"""
        moved = False
        while True:
            for thread in self.reorder(self.threads):
                if not thread.done and thread.wait is None:
                    moved = True
                    try:
                        thread.wait = thread.run.send(thread.send)
                    except StopIteration:
                        thread.done = True
                    thread.send = None
            if not self._release():
                self._check_stuck()
                return moved

    @property
    def done(self) -> bool:
        """Have all threads ended?"""
        return all(thread.done for thread in self.threads)

    def _release(self) -> bool:
        released = False
        for scope in ("warp", "block", "cluster"):
            for group in self.groups[scope]:
                first = group[0].wait
                if first is None or first.scope != scope:
                    continue
                waits = [thread.wait for thread in group]
                if any(wait is None or wait.node != first.node for wait in waits):
                    continue
                if _meet(first, group):
                    released = True
                    for thread in group:
                        thread.wait = None
        return released

    def _check_stuck(self) -> None:
        for thread in self.threads:
            wait = thread.wait
            if wait is None or wait.kind in ("await", "chain"):
                continue
            raise _fail(f"a {wait.scope} never meets at the {wait.kind} of node {wait.node}")


def _meet(first: Wait, group: list[Thread]) -> bool:
    """Do what the group came together for; False if it has to wait longer (await)."""
    match first.kind:
        case "combine":
            _combine(group, reduce_in_warps)
        case "append":
            _combine(group, append_in_warps)
        case "scan":
            _combine(group, scan_in_warps)
        case "chain":
            return _chain(group)
        case "ticket":
            (cells, offset), count = first.detail
            number = cells[offset]
            last = number == count - 1
            cells[offset] = 0 if last else number + 1
            for thread in group:
                thread.send = last
        case "raise":
            (cells, offset), value = first.detail
            cells[offset] = value
        case "await":
            (cells, offset), value = first.detail
            return bool(cells[offset] >= value)
        case _:
            pass
    return True


def _combine(group: list[Thread], together: Callable[[Sequence[Any], Callable[[Any, Any], Any], Any], Any]) -> None:
    """Combine's and Scan's order, see there: `together` makes one value of all, or one for each."""
    parts: dict[Any, list[Thread]] = {}
    for thread in group:
        assert thread.wait is not None
        parts.setdefault(thread.wait.detail[0], []).append(thread)
    for threads in parts.values():
        details = sorted(
            ((t.wait.detail, t) for t in threads if t.wait is not None), key=lambda d: d[0][1]
        )
        _, _, count, operation, neutral, _, everywhere = details[0][0]
        if len(details) != count:
            raise _fail(f"{len(details)} of {count} threads come to a combine")
        values = [detail[5] for detail, _ in details]
        made = together(values, operation, neutral)
        results = made if isinstance(made, list) else [made] * len(details)
        for result, (_, thread) in zip(results, details if everywhere else details[:1]):
            thread.send = (result,)


def _chain(group: list[Thread]) -> bool:
    """Scan's order over the blocks of a grid, see there, for the threads of one block; False: a block before it has not come."""
    details = sorted(((t.wait.detail, t) for t in group if t.wait is not None), key=lambda d: d[0][0])
    (_, count, operation, neutral, _, block, made, is_linear, part, parts), _ = details[0]
    if len(details) != count:
        raise _fail(f"{len(details)} of {count} threads come to a scan")
    if block and block - 1 not in made:
        return False
    first = block // chains.CHAIN * chains.CHAIN
    padding = [neutral] * (count - (block - first))
    reduce = append_in_warps if is_linear else reduce_in_warps
    reduced = reduce([*(made[k][0] for k in range(first, block)), *padding], operation, neutral)
    all_before = made[first - 1][1] if first else neutral
    before = operation(all_before, reduced)
    own, total = _scan([detail[4] for detail, _ in details], operation, neutral)
    if part:
        own = [operation(made[block, "parts"], each) for each in own]
        total = operation(made[block, "parts"], total)
    made[block, "parts"] = total
    if part == parts - 1:
        made[block] = (total, operation(all_before, operation(reduced, total)))
    for (_, thread), each in zip(details, own):
        thread.send = (operation(before, each),)
    return True


def reduce_in_warps(
    values: Sequence[Any], operation: Callable[[Any, Any], Any], neutral: Any
) -> Any:
    """The reduction of the values of threads in the order that Combine defines."""

    def warp(part: Sequence[Any]) -> Any:
        x = [*part, *([neutral] * (LANES - len(part)))]
        distance = 16
        while distance:
            for t in range(distance):
                x[t] = operation(x[t], x[t + distance])
            distance //= 2
        return x[0]

    groups = [warp(values[k : k + LANES]) for k in range(0, len(values), LANES)]
    first = groups[:LANES]
    for k in range(LANES, len(groups), LANES):
        others = [*groups[k : k + LANES], *([neutral] * (k + LANES - len(groups)))]
        first = [operation(one, other) for one, other in zip(first, others, strict=True)]
    return warp(first)


def append_in_warps(
    values: Sequence[Any], operation: Callable[[Any, Any], Any], neutral: Any
) -> Any:
    """The same of an operation that takes at most 1024 threads in their order."""

    def warp(part: Sequence[Any]) -> Any:
        x = [*part, *([neutral] * (LANES - len(part)))]
        for distance in (1, 2, 4, 8, 16):
            x = [operation(x[t], x[t + distance]) if t + distance < LANES else x[t] for t in range(LANES)]
        return x[0]

    return warp([warp(values[k : k + LANES]) for k in range(0, len(values), LANES)])


def scan_in_warps(
    values: Sequence[Any], operation: Callable[[Any, Any], Any], neutral: Any
) -> list[Any]:
    """What comes before each of at most 1024 values, in the order that Scan defines."""
    return _scan(values, operation, neutral)[0]


def _scan(values: Sequence[Any], operation: Callable[[Any, Any], Any], neutral: Any) -> tuple[list[Any], Any]:
    """That, and what all make together."""

    def warp(part: Sequence[Any]) -> list[Any]:
        x = [*part, *([neutral] * (LANES - len(part)))]
        for distance in (1, 2, 4, 8, 16):
            x = [operation(x[t - distance], x[t]) if t >= distance else x[t] for t in range(LANES)]
        return x

    groups = [warp(values[k : k + LANES]) for k in range(0, len(values), LANES)]
    through = warp([group[-1] for group in groups])
    before = [operation(b, e) for b, group in zip([neutral, *through], groups) for e in (neutral, *group[:-1])]
    return before, through[len(groups) - 1]


def run_clusters(clusters: Iterable[Cluster], together: bool) -> None:
    """Run the clusters in the order given; all of them alive at once where blocks await flags."""
    if not together:
        for cluster in clusters:
            cluster.advance()
            if not cluster.done:
                raise _fail("a block waits for a flag that nothing raises")
        return
    pending = list(clusters)
    while pending:
        moved = [cluster.advance() for cluster in pending]
        pending = [cluster for cluster in pending if not cluster.done]
        if pending and not any(moved):
            raise _fail("a block waits for a flag that nothing raises")


Order = Callable[[list[Any]], list[Any]]


def ordering(order: str, seed: int = 0) -> Order:
    """The function that puts parallel iterations into the order called `order`."""
    generator = random.Random(seed)

    def shuffled(items: list[Any]) -> list[Any]:
        items = list(items)
        generator.shuffle(items)
        return items

    match order:
        case "forward":
            return list
        case "reverse":
            return lambda items: items[::-1]
        case "shuffled":
            return shuffled
        case _:
            raise ValueError(f"an order is forward, reverse or shuffled, not {order!r}")
