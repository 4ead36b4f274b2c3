"""Generated call paths on the GPU: launches straight from prepacked memory.

A launch is one call of cuLaunchKernelEx through ctypes: its configuration (grid, block, stream)
and its arguments lie ready in the state's memory, so that four addresses are passed. Workspaces
come from the pool of the caller's library at each call, which is ordered by stream and safe under
graph capture.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, LimitError
from loopfuse.runtime.arrays.native_reader import Where
from loopfuse.runtime.call.drafts import Clears, Draft, Making
from loopfuse.runtime.call.fast import Machine, Output, words_of
from loopfuse.runtime.call.fast_native import ASK_STREAM, NEVER, Native
from loopfuse.runtime.devices import cuda
from loopfuse.runtime.devices.gpu_clear import clear_pieces, entries, pack
from loopfuse.runtime.devices.gpu_clearing import Clearing, Made, choose, fill_table
from loopfuse.runtime.devices.steps import buffer_bytes, launches_of
from loopfuse.runtime.formulas import names_in
from loopfuse.runtime.native_code import ELSEWHERE, launcher
from loopfuse.runtime.unwritten import descriptions, pieces_at

GRID_LIMIT = (1 << 31) - 1
_CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_SPACING = 256  # what every pool aligns to


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h, with the three words of a cluster's size."""

    _fields_ = [
        ("id", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("x", ctypes.c_uint32),
        ("y", ctypes.c_uint32),
        ("z", ctypes.c_uint32),
        ("rest", ctypes.c_uint8 * 52),
    ]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = [
        ("grid_x", ctypes.c_uint32),
        ("grid_y", ctypes.c_uint32),
        ("grid_z", ctypes.c_uint32),
        ("block_x", ctypes.c_uint32),
        ("block_y", ctypes.c_uint32),
        ("block_z", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.c_uint64),
        ("attribute_count", ctypes.c_uint32),
    ]


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver's functions that a call path calls, through ctypes. `launch` and `clear` let
    other threads run meanwhile: a full queue blocks, and what empties it may need Python.
    The addresses of `current` and `launch` are for native code (0: there are none)."""

    launch: Callable[..., int]
    clear: Callable[..., int]
    current: Callable[[int], int]
    current_address: int
    launch_address: int


@lru_cache(maxsize=1)
def driver() -> Driver | None:
    """The driver's functions; None where the library or one of them is missing."""
    try:
        # The name by which cuda.bindings has it open already.
        library = ctypes.CDLL("libcuda.so.1")
        pointer = ctypes.c_void_p
        addresses = (
            ctypes.cast(one, pointer).value or 0
            for one in (library.cuCtxGetCurrent, library.cuLaunchKernelEx)
        )
        return Driver(
            ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer)(
                ("cuLaunchKernelEx", library)
            ),
            ctypes.CFUNCTYPE(
                ctypes.c_int, ctypes.c_uint64, ctypes.c_uint8, ctypes.c_size_t, pointer
            )(("cuMemsetD8Async", library)),
            ctypes.PYFUNCTYPE(ctypes.c_int, pointer)(("cuCtxGetCurrent", library)),
            *addresses,
        )
    except (OSError, AttributeError):
        return None


def _fail(status: int, name: str, grid: int, threads: int) -> None:
    """Raise what `cuda.run` raises for this status of a launch."""
    result = cuda.driver_api().CUresult(status)
    cuda.check_call((result,), f"launching `{name}` ({grid} blocks of {threads} threads)")


def _fail_clear(status: int, name: str) -> None:
    cuda.check_call((cuda.driver_api().CUresult(status),), f"clearing `{name}`")


def _at_site(
    draft: Draft,
    key: str,
    site: int,
    own: Callable[[Making], int],
    clearing: Callable[[Clearing], int],
) -> str:
    """A field of launch number `site`: its own, or that of the launch that clears in its place."""

    def value(making: Making) -> int:
        found = making.clears.clearing
        return own(making) if found is None or found.site != site else clearing(found)

    return draft.field((key, site), value)


def _check_grid(name: str, grid: int, cluster: int) -> None:
    if grid * max(1, cluster) > GRID_LIMIT:
        raise LimitError(
            Diagnostic("grid-too-large", f"`{name}` would need {grid} blocks, over 2**31 - 1")
        )


def _in_context(index: int, call: Callable[[Any, Any], Any], args: Any, kwargs: Any) -> Any:
    """The call again, on the GPU where its arrays are."""
    with cuda.on_gpu(index):
        return call(args, kwargs)


def _stream_reader(library: str, index: int) -> tuple[Callable[..., Any], str]:
    """A function, and source that calls it as STREAM to get the caller's current stream; see
    `cuda.current_stream`. GPU `index` is the current one by then."""
    if library == "torch":
        raw = getattr(sys.modules["torch"]._C, "_cuda_getCurrentRawStream", None)
        if raw is not None:
            return raw, f"STREAM({index})"
    elif library == "cupy":
        current = sys.modules["cupy"].cuda.get_current_stream
        try:
            current(index)
        except TypeError:  # CuPy before 12 knows the current device's alone
            return current, "STREAM().ptr"
        return current, f"STREAM({index}).ptr"
    return (lambda: cuda.current_stream(library, index)), "STREAM()"


Variants = Callable[[Mapping[str, Any]], int]
"""The function of a launch's variant that clears as well (`gpu_clearing`); 0: there is none."""


def machine(
    module: cuda.LoadedModule, index: int, library: str, variants: Variants | None = None
) -> Machine | None:
    """The device's part of call paths to `module`, for arrays of PyTorch or CuPy; None for
    others, where the driver lacks a function, and where each call waits for its checks."""
    waits = module.word is not None and module.manifest.get("check") == "sync"
    if library not in ("torch", "cupy") or waits or not driver():
        return None
    return Gpu(module, index, library, variants)


class Gpu(Machine):
    """Launches of a loaded module; see `cuda.run`, which does the same from scratch."""

    def __init__(
        self, module: cuda.LoadedModule, index: int, library: str, variants: Variants | None = None
    ) -> None:
        self._module, self._index, self._library = module, index, library
        self._variants = variants
        self._sites = launches_of(module.manifest["steps"])
        calls = driver()
        assert calls is not None  # see `machine`
        self._calls = calls
        self._context = int(cuda.primary_context(index))
        self._launch: Callable[..., int] | None = None
        self.clear = partial(clear_pieces, index=index)
        if any(descriptions(module.manifest).values()):
            entries(index)  # now: a call may be captured into a graph, where nothing can be loaded
        self.where = Where(index, self._context, calls.current_address)

    def can_weave(self) -> bool:
        """Where there are no host loops, each turn of which would clear again."""
        return self._variants is not None and all("launch" in step for step in self._module.manifest["steps"])

    def plan_clears(self, making: Making, outputs: Mapping[str, Output]) -> Clears:
        """By the launch with the most threads, or else by one launch for several pieces."""
        pieces = {name: pieces_at(one.boxes, one.shape, one.item) for name, one in outputs.items()}
        parts: dict[str, Any] = {name: pack(each) for name, each in pieces.items()}
        made = {
            name: Made(one.number, one.item * math.prod(one.shape), pieces[name] or ())
            for name, one in outputs.items()
            if one.untouched
        }
        if not self.can_weave() or not any(one.pieces for one in made.values()):
            return Clears(parts)
        grids = [making.formula(str(one["grid"]), ())() for one in self._sites]
        sizes = [grid * one["threads"] for grid, one in zip(grids, self._sites, strict=True)]
        site = max(range(len(sizes)), key=sizes.__getitem__)
        chosen = choose(made, sizes[site])
        if sizes[site] <= 0 or not chosen:
            return Clears(parts)
        launch = self._sites[site]
        assert self._variants is not None  # `can_weave`
        function = self._variants(launch)
        if not function:
            return Clears(parts)
        table = fill_table([made[name] for name in chosen], grids[site], launch["threads"])
        arguments = making.block(site, launch["arguments"]).places
        return Clears(parts | dict.fromkeys(chosen, ()), Clearing(site, function, table, arguments))

    def guard(self, draft: Draft) -> str:
        """Nothing."""
        return ""

    def accepts(self, manifest: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Whatever was accepted once."""
        return True

    def error_word(self, making: Making) -> int:
        """The module's."""
        assert self._module.word is not None  # there are checks
        return self._module.word.pointer

    def _write_look(self, draft: Draft) -> None:
        """What earlier calls noted is raised; what this one notes is described by its sizes."""
        word = self._module.word
        if word is None:
            return
        draft.names |= {"WORD": word, "NOTED": word.value}
        draft.add("if NOTED.value:", "    WORD.look()")
        draft.add(f"WORD.sizes = {draft.field('sizes', lambda m: m.integers)}")

    def _config(self, draft: Draft, site: int) -> str:
        return draft.field(("config", site), lambda m: self._make_config(m, site))

    def _make_config(self, making: Making, site: int) -> LaunchConfig:
        one = self._sites[site]

        def make() -> LaunchConfig:
            config = LaunchConfig(0, 1, 1, one["threads"], 1, 1, one["shared_bytes"], 0, 0, 0)
            if one["cluster"] > 1:
                attribute = LaunchAttribute(_CLUSTER_DIMENSION, 0, one["cluster"], 1, 1)
                making.once(("attribute", site), lambda: attribute)
                config.attributes = ctypes.addressof(attribute)
                config.attribute_count = 1
            return config

        return making.once(("config", site), make)

    def prepare(
        self, draft: Draft, manifest: Mapping[str, Any], native: Native | None, allocates: bool
    ) -> str:
        """The right GPU's context (which the launch itself asks for, where it is all that a call does),
        and the caller's stream in every configuration."""
        calls = self._calls
        stream, read = _stream_reader(self._library, self._index)
        draft.names |= {
            "LAUNCH": calls.launch, "CLEAR": calls.clear, "CURRENT": calls.current,
            "STREAM": stream, "IN_CONTEXT": _in_context, "FAIL": _fail, "CHECK_GRID": _check_grid,
            "FAIL_CLEAR": _fail_clear,
        }  # fmt: skip

        self._write_look(draft)
        last = draft.field("stream", lambda _: 0)
        if native:
            draft.add(ASK_STREAM)
            draft.depth += 1
        steps = manifest["steps"]
        alone = not native and not allocates and len(steps) == 1 and "launch" in steps[0]
        self._launch = launcher(calls.current_address, calls.launch_address) if alone else None
        if self._launch is not None:
            draft.names["LAUNCH"] = self._launch
        else:

            def cell(making: Making) -> Any:
                return making.once("context", lambda: (ctypes.c_uint64 * 1)())

            held = draft.field("context", cell)
            where = draft.field("context address", lambda m: ctypes.addressof(cell(m)))
            draft.add(
                f"CURRENT({where})",
                f"if {held}[0] != {self._context}:",
                f"    return IN_CONTEXT({self._index}, call, args, kwargs)",
            )
        draft.add(f"stream = {read}")
        if native:
            native.write_stream(draft, NEVER)
        draft.add(f"if {last} != stream:", f"    {last} = None")
        draft.add(*(f"    {self._config(draft, site)}.stream = stream" for site in range(len(self._sites))))
        draft.add(f"    {last} = stream")
        if native:
            native.write_stream(draft, "stream")
            draft.depth -= 1
            if manifest["buffers"]:
                draft.add("else:", f"    stream = {last}")
        return last

    def workspace(self, draft: Draft, manifest: Mapping[str, Any]) -> None:
        """One piece of memory from the pool for all workspaces, let go when the call returns."""
        buffers = manifest["buffers"]
        if not buffers:
            return

        def places(making: Making) -> tuple[dict[str, int], dict[str, int], int]:
            offset, starts, sizes = 0, {}, {}
            for buffer in buffers:
                # As `cuda.run`: no workspace is smaller than 16 bytes.
                starts[buffer["name"]] = offset
                sizes[buffer["name"]] = max(16, buffer_bytes(buffer, making.values))
                offset += -(-sizes[buffer["name"]] // _SPACING) * _SPACING
            return starts, sizes, offset

        total = draft.field("workspace", lambda m: places(m)[2])
        if self._library == "torch":
            torch = sys.modules["torch"]
            draft.names |= {
                "EMPTY": torch.empty, "BYTE": torch.uint8,
                "WHERE": torch.device("cuda", self._index),
            }  # fmt: skip
            draft.add(f"space = EMPTY({total}, dtype=BYTE, device=WHERE)", "base = space.data_ptr()")
        else:
            draft.names["TAKE"] = sys.modules["cupy"].cuda.alloc
            draft.add(f"space = TAKE({total})", "base = space.ptr")
        offsets = {
            buffer["name"]: draft.field(
                ("offset", buffer["name"]), lambda m, n=buffer["name"]: places(m)[0][n]
            )
            for buffer in buffers
        }
        for site, one in enumerate(self._sites):
            for slot, argument in enumerate(one["arguments"]):
                if argument["kind"] == "pointer" and argument["name"] in offsets:
                    words = words_of(draft, site, one)
                    draft.add(f"{words}[{slot}] = base + {offsets[argument['name']]}")
        for buffer in buffers:
            name = buffer["name"]
            if buffer["zeroed"]:
                size = draft.field(("size", name), lambda m, n=name: places(m)[1][n])
                draft.add(
                    f"if {size}:",
                    f"    status = CLEAR(base + {offsets[name]}, 0, {size}, stream)",
                    "    if status:", f"        FAIL_CLEAR(status, {name!r})",
                )  # fmt: skip

    def launch(
        self, draft: Draft, site: int, one: Mapping[str, Any], variables: tuple[str, ...]
    ) -> None:
        """One call of cuLaunchKernelEx where the grid is not empty."""
        text, name, threads = str(one["grid"]), one["name"], one["threads"]
        plain = int(self._module.functions[name])
        function: int | str = plain
        if draft.weaves:
            function = _at_site(draft, "function", site, lambda m: plain, lambda c: c.function)
        config = self._config(draft, site)
        where = draft.field(
            ("config address", site), lambda m: ctypes.addressof(self._make_config(m, site))
        )
        arguments = one["arguments"]
        slots = _at_site(draft, "slots", site, lambda m: m.block(site, arguments).slots, lambda c: c.slots)
        if names_in(text) & set(variables):
            draft.add(f"grid = {draft.over(text, variables)}", "if grid > 0:")
            draft.add(f"    CHECK_GRID({name!r}, grid, {one['cluster']})", f"    {config}.grid_x = grid")
            grid = "grid"
        else:

            def fixed(making: Making) -> int:
                found = making.formula(text, ())()
                self._make_config(making, site).grid_x = max(0, found)
                return found

            grid = draft.field(("grid", site), fixed)
            draft.add(f"if {grid} > 0:")
        context = self._context if self._launch is not None else None
        draft.add(f"    status = LAUNCH({where}, {function}, {slots}, {context})", "    if status:")
        if self._launch is not None:
            draft.add(
                f"        if status == {ELSEWHERE}:",
                f"            return IN_CONTEXT({self._index}, call, args, kwargs)",
            )
        draft.add(
            f"        FAIL(status, {name!r}, {grid}, {threads})",
        )
