"""What the tiles of windows (GPU) and of line buffers (CPU) have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loopfuse.lang.index import ceil_div, greatest, least
from loopfuse.lang.linear import tidy
from loopfuse.lang.nodes import Expr, Iter, Load, integer
from loopfuse.plan.mapping.body import declare_global
from loopfuse.plan.mapping.space import Site, count_of, dim_extents, hint_of, value_at
from loopfuse.plan.strategies.sliding.windows.cuts import Cut, Shape
from loopfuse.plan.strategies.sliding.windows.records import Pipeline, Stage, Step
from loopfuse.plan.units.groups import whole_name
from loopfuse.plan.units.storage import Store
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import Buffer, Global, Home


class PipelineTile:
    """One tile of a pipeline, as `shape` cuts it, for one iteration of the outer dimensions: `outer` has
    their variables.

    By dimension of the windows: `blocks` has the variables that number tiles; `stored` is from where to
    where all tiles store, `first` the first that this one stores, `start` the first that it computes,
    `within` how far behind that the thread's own begin, and `own` where these are in the group.
    """

    outer: dict[str, str]
    blocks: dict[str, str]

    def __init__(self, pipeline: Pipeline, shape: Shape, site: Site) -> None:
        self.pipeline, self.shape, self.site = pipeline, shape, site
        self.program = pipeline.program
        self.group, self.time = pipeline.group, pipeline.group.time
        self.extents = dim_extents(self.group, site.program)
        self.outputs = stored_stages(pipeline, site.stores)
        self.read_ranges: dict[tuple[str, str], tuple[Expr, Expr]] = {}

    def lay(self) -> None:
        """Finds where the tile lies, once its variables have names."""
        self.cuts = dict(zip(self.pipeline.dims, self.shape.cuts, strict=True))
        self.stored = {dim: self.store_range(dim) for dim in self.cuts}
        self.first: dict[str, Expr] = {}
        self.start: dict[str, Expr] = {}
        self.within: dict[str, Expr] = {}
        self.own: dict[str, Expr] = {}
        for dim, cut in self.cuts.items():
            self.first[dim] = tidy(self.stored[dim][0] + self.number(dim) * cut.stored)
            self.start[dim] = tidy(self.first[dim] - cut.pad)
            self.within[dim] = self.place_within(cut)
            self.own[dim] = tidy(self.start[dim] + self.within[dim])

    def hull(self, stage: Stage, dim: str) -> tuple[Expr, Expr]:
        """From where to where along `dim` the stage may be stored."""
        raise NotImplementedError

    def store_range(self, dim: str) -> tuple[Expr, Expr]:
        """From the first to behind the last that any output stores along `dim`."""
        lows, highs = zip(*(self.hull(s, dim) for s in self.outputs), strict=True)
        return least([*lows]), greatest([*highs])

    def number(self, dim: str) -> Expr:
        """Which of the tiles along `dim` this one is."""
        return Iter(self.blocks[dim]) if dim else integer(0)

    def place_within(self, cut: Cut) -> Expr:
        """Where in a dimension of the tile the thread's own begin."""
        return integer(0)

    def counts(self, tiles: Callable[[str], int]) -> list[tuple[str, Expr]]:
        """The variables that number iterations and groups of so many `tiles` of a dimension, with how many
        of each there are."""
        out = [(var, count_of(self.extents[dim])) for dim, var in self.outer.items()]
        for dim, var in self.blocks.items():
            first, end = self.stored[dim]
            out.append((var, ceil_div(tidy(end - first), self.cuts[dim].stored * tiles(dim))))
        return out

    def mirrors(self, stage: Stage, dim: str) -> bool:
        """The stage is computed, and read beyond its edge along `dim`, where it has a copy of
        what stands nearby."""
        return stage.step is not None and stage.frame.mode(dim) not in ("", "wrap")

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
