"""Values that stay the same in a whole tile are read before its first row and kept in registers.

    before:  for each row: for v in 0..4: c[..] = w[n, 0] * a[..] + w[n, 1] * a[..] + bias[n]
    after:   w_kept = w[n, 0]; w_kept_1 = w[n, 1]; bias_kept = bias[n]; for each row: ...

Needs: the element moves with outer dimensions alone, the array is written by none of the
pipeline's loops, and no condition of the program decides whether it is read. LLVM does not do
this: a shuffle might not return, and reading before it what is read behind it is a guess then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopfuse.lang.index import TRUE, conjoin, in_range, is_checked
from loopfuse.lang.nodes import Const, Expr, Iter, Load
from loopfuse.lang.walk import iterators, loads
from loopfuse.plan.mapping.space import value_at
from loopfuse.plan.strategies.sliding.windows.invariants import MOST
from loopfuse.plan.strategies.sliding.windows.records import Step, array_name
from loopfuse.tree.looptree import Buffer, Copy, Global, Guard, Register, TreeNode

if TYPE_CHECKING:
    from loopfuse.plan.strategies.sliding.gpu.tile import WindowTile


class Invariants:
    """The registers of one tile that hold such values; filled where its rows are planned."""

    def __init__(self, tile: WindowTile) -> None:
        self.tile = tile
        self.registers: dict[tuple[Load, Expr], Load] = {}
        self.words = 0
        group = tile.group
        host = {loop.iterator for loop in group.scope.host} if group.scope else set[str]()
        self.fixed = {*tile.outer.values(), *host}
        self.written = {array_name(n) for step in tile.pipeline.steps for n in step.writes.values()}

    def register(self, load: Load, step: Step) -> Load:
        """The register that holds `load` of memory, which the step reads in every iteration; the
        load itself where none does."""
        names = self.tile.site.names
        buffer = names.buffers[load.array]
        if not isinstance(buffer.home, Global) or buffer.array in self.written or not load.index:
            return load
        if any(loads(e) or is_checked(e) or iterators(e) - self.fixed for e in load.index):
            return load
        key = load, self._runs(step)
        words = max(1, buffer.dtype.bytes // 4)
        if key not in self.registers:
            if self.words + words > MOST:
                return load
            self.words += words
            name = names.fresh(f"{load.array}_kept")
            names.add(Buffer(name, buffer.array, buffer.dtype, (), Register(), zeroed=True))
            self.registers[key] = Load(name, (), load.dtype)
        return self.registers[key]

    def copies(self) -> tuple[TreeNode, ...]:
        """What fills the registers."""
        by_condition: dict[Expr, list[TreeNode]] = {}
        for (load, condition), target in self.registers.items():
            by_condition.setdefault(condition, []).append(Copy(target, load))
        out: list[TreeNode] = []
        for condition, copies in by_condition.items():
            out += copies if condition == TRUE else [Guard(condition, tuple(copies))]
        return tuple(out)

    def _runs(self, step: Step) -> Expr:
        """The step runs somewhere in this iteration of the outer dimensions: else its elements
        need not exist."""
        tile, pipeline = self.tile, self.tile.pipeline
        stage = next(s for s in pipeline.stages if s.step is step)
        tests: list[Expr] = []
        for dim, var in tile.outer.items():
            extent = tile.extents[dim]
            if tile.bounds(stage, dim) != (extent.lower, extent.upper):
                tests += in_range(value_at(extent, Iter(var)), *tile.bounds(stage, dim))
        for dim in filter(None, (pipeline.stream, pipeline.across, *pipeline.between)):
            low, high = tile.bounds(stage, dim)
            if (low, high) != tile.stored[dim]:
                tests.append(low < high)
        return conjoin(*(t for t in dict.fromkeys(tests) if t != Const(True, TRUE.dtype)))
