"""What the tiles of windows (GPU) and of line buffers (CPU) have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.plan.mapping.body import declare_global
from loopfuse.plan.mapping.space import Site, dim_extents, hint_of, value_at
from loopfuse.plan.strategies.sliding.windows.cuts import Shape
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, Step
from loopfuse.plan.units.groups import whole_name
from loopfuse.plan.units.storage import Store
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Buffer, Global, Home


class PipelineTile:
    """One tile of a pipeline, for one iteration of the outer dimensions: `outer` has their variables.
    By dimension of the windows, `blocks` has the variables that number tiles, `own` the group's place of
    what a thread counts from 0."""

    outer: dict[str, str]
    own: dict[str, Expr]
    blocks: dict[str, str]

    def __init__(self, pipeline: Pipeline, shape: Shape, site: Site) -> None:
        self.pipeline, self.shape, self.site = pipeline, shape, site
        self.program = pipeline.program
        self.group, self.time = pipeline.group, pipeline.group.time
        self.extents = dim_extents(self.group, site.program)
        self.outputs = stored_stages(pipeline, site.stores)
        self.read_ranges: dict[tuple[str, str], tuple[Expr, Expr]] = {}

    def fresh(self, dim: str, suffix: str = "") -> str:
        """A new variable, named after a dimension of the group."""
        return self.site.names.fresh(f"{hint_of(self.group, dim)}{suffix}")

    def point(self, *place: Expr) -> dict[str, Expr]:
        """The group's point at a place of the tile, which has a number for each dimension of the windows,
        also for the one without a name where nothing streams."""
        point = {dim: value_at(self.extents[dim], Iter(var)) for dim, var in self.outer.items()}
        for (dim, first), part in zip(self.own.items(), place, strict=True):
            point[dim] = tidy(first + part)
        return point

    def element(self, stage: Stage, *place: Expr) -> tuple[Expr, ...]:
        """The subscripts of the array's own element there."""
        return self.element_at(stage, self.point(*place))

    def element_at(self, stage: Stage, point: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """The subscripts of the array's own element at a point of the group."""
        return tuple(
            tidy(point[dim] + shift)
            for dim, shift in zip(stage.frame.dims, stage.frame.shifts, strict=True)
        )

    def memory(self, array: str, index: tuple[Expr, ...], copy: bool = False) -> Load:
        """An element of the array in memory, or of the copy that time blocks keep."""
        site, dtype = self.site, self.program.arrays[array].dtype
        if copy:
            return Load(declare_copy(site, self.program, array), index, dtype)
        load = self.pipeline.parts.whole(Load(array, index, dtype))
        declare_global(site.program, site.stores, site.extents, site.names, load.array)
        return load

    def cell(self, stage: Stage, *place: Expr) -> Load:
        """Where the stage has its value at a place of the tile."""
        raise NotImplementedError

    def invariant(self, load: Load, step: Step) -> Load:
        """Where the tile keeps an element of memory that stays the same in all of it: there."""
        return load

    def declare(self, stage: Stage, suffix: str, extents: Sequence[int], home: Home, zeroed: bool = False) -> str:
        """A new buffer for elements of the stage; its name."""
        dtype = self.program.arrays[stage.array].dtype
        name = self.site.names.fresh(f"{identifier(stage.array)}_{suffix}")
        sizes = tuple(integer(extent) for extent in extents)
        self.site.names.add(Buffer(name, whole_name(stage.array), dtype, sizes, home, zeroed=zeroed))
        return name


def stored_stages(pipeline: Pipeline, stores: Mapping[str, Store]) -> tuple[Stage, ...]:
    """The computed stages whose array others need in memory."""
    made = [s for s in pipeline.stages if s.step is not None]
    time = pipeline.group.time

    def is_wanted(array: str) -> bool:
        return array in time.stored if time else stores[whole_name(array)].home == "global"

    return tuple(s for s in made if is_wanted(s.array) and pipeline.last(s.array) is s)


def holding_stages(pipeline: Pipeline) -> tuple[Stage, ...]:
    """The stages that have a window of their own."""
    return tuple(stage for stage in pipeline.stages if not pipeline.passes_on(stage))


def identifier(array: str) -> str:
    """The array's name, or that of a plane, as names in trees are made."""
    return array.replace("@", "_")


def declare_copy(site: Site, program: PolyProgram, array: str) -> str:
    """The workspace that holds the array after every other block of time steps."""
    names = site.names
    if array not in names.copies:
        about = program.arrays[array]
        name = names.copies[array] = names.fresh(f"{identifier(array)}__copy")
        names.add(Buffer(name, whole_name(array), about.dtype, about.extents, Global()))
    return names.copies[array]
