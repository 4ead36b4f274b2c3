"""Running native objects: load with LLVM's JIT linker, launch over threads.

Every entry gets an adapter of one C type (numba's gufunc type) that unpacks an argument block and
a chunk of iterations, so that any pool can call any entry (`threads`). Which thread runs a chunk, and
how many there are, never changes a result: iterations of a launch are independent.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.base.dtypes import DType
from loopfuse.base.options import cpu_from_environment
from loopfuse.runtime.binding import Binding
from loopfuse.runtime.builtins import released
from loopfuse.runtime.checks import ERROR_WORD, raise_offender
from loopfuse.runtime.devices.native_steps import (
    FUNCTION,
    FUNCTION_NAME,
    NativeSteps,
    Run,
    native_steps,
    steps_caller,
    steps_text,
)
from loopfuse.runtime.devices.sharing import Share, Work, share_out, work_of
from loopfuse.runtime.devices.steps import ArgumentBlock, launches_of, walk_steps
from loopfuse.runtime.devices.threads import ADAPTER, Launch, OwnPool, pool, thread_count
from loopfuse.runtime.devices.workspaces import Workspaces
from loopfuse.runtime.native_code import linked

_LLVM_TYPES = {
    DType.BOOL: "i8", DType.I8: "i8", DType.I16: "i16", DType.I32: "i32", DType.I64: "i64",
    DType.U8: "i8", DType.U16: "i16", DType.U32: "i32", DType.U64: "i64",
    DType.F16: "i16", DType.BF16: "i16", DType.F32: "float", DType.F64: "double",
}  # fmt: skip

@dataclass(frozen=True, slots=True)
class LoadedObject:
    """A native object in memory: the address of each entry's adapter, by entry name."""

    manifest: dict[str, Any]
    adapters: dict[str, int]
    native: tuple[NativeSteps, Run] | None
    """The manifest's steps as one function, where they are more than one launch."""
    engine: Any = field(repr=False)


# ------------------------------------------------------------------------------------ loading


def _adapter_ir(launch: Mapping[str, Any]) -> str:
    """LLVM IR of the adapter of one entry.

    before: entry(arguments..., i64 begin, i64 end)
    after: adapter(ptr args, ptr dims, ptr steps, ptr block), where args[0] points at {begin, end}
    """
    name = launch["name"]
    types: list[str] = []
    lines: list[str] = []
    call: list[str] = []
    for slot, argument in enumerate(launch["arguments"]):
        kind = argument["kind"]
        dtype = DType.BOOL if kind == "aligned" else DType(argument.get("dtype", "i64"))
        llvm_type = "ptr" if kind in ("pointer", "error") else _LLVM_TYPES[dtype]
        lines.append(f"  %p{slot} = getelementptr i8, ptr %block, i64 {8 * slot}")
        lines.append(f"  %v{slot} = load {llvm_type}, ptr %p{slot}, align 8")
        if dtype is DType.BOOL and kind != "pointer":
            # An i1 parameter is passed in one byte, zero-extended: the C convention for bool.
            lines.append(f"  %b{slot} = trunc i8 %v{slot} to i1")
            types.append("i1 zeroext")
            call.append(f"i1 zeroext %b{slot}")
        else:
            types.append(llvm_type)
            call.append(f"{llvm_type} %v{slot}")
    parameters = ", ".join([*types, "i64", "i64"])
    passed = ", ".join([*call, "i64 %begin", "i64 %end"])
    body = "\n".join(lines)
    return f"""declare void @"{name}"({parameters})
define void @"{name}.adapter"(ptr %args, ptr %dims, ptr %steps, ptr %block) {{
  %chunk = load ptr, ptr %args, align 8
  %begin = load i64, ptr %chunk, align 8
  %past = getelementptr i8, ptr %chunk, i64 8
  %end = load i64, ptr %past, align 8
{body}
  call void @"{name}"({passed})
  ret void
}}
"""


def load(manifest: dict[str, Any], data: bytes) -> LoadedObject:
    """Link the object file `data` into this process.

    InternalError[bad-object] when an entry of the manifest is missing from it.
    """
    names = {launch["name"]: launch for launch in launches_of(manifest["steps"])}
    found = native_steps(manifest)
    text = "\n".join([*map(_adapter_ir, names.values()), steps_text(found) if found else ""])
    engine = linked(text, data if names else b"")
    adapters = {name: engine.get_function_address(f"{name}.adapter") for name in names}
    missing = [name for name in names if not engine.get_function_address(name)]
    if missing or not all(adapters.values()):
        raise InternalError(
            Diagnostic("bad-object", f"the object file lacks the entry {', '.join(missing)}")
        )
    native = (found, FUNCTION(engine.get_function_address(FUNCTION_NAME))) if found else None
    return LoadedObject(manifest, adapters, native, engine)


def host_cpu() -> str:
    """What CPU code is made for now: the level that `LOOPFUSE_CPU` names, or this machine's name and
    features as LLVM has them; part of a native object's cache key."""
    return cpu_from_environment() or _this_cpu()


@lru_cache(maxsize=1)
def _this_cpu() -> str:
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def llvm_version() -> str:
    """The version of LLVM in llvmlite; ImportError or OSError where it does not load."""
    import llvmlite.binding as llvm

    return ".".join(map(str, llvm.llvm_version_info))


# ------------------------------------------------------------------------------------ running


def launcher(adapter: int, block: int, work: Work) -> Callable[[int], None]:
    """A function that runs an entry over a grid, for one thread at a time to call: `block` is the
    address of its argument block.

    Decides about threads as `run` does; the thread count is the one of now.
    """
    chunk = (ctypes.c_int64 * 2)(0, 0)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(chunk))
    call = _caller(adapter, (ctypes.addressof(arguments), 0, 0, block))
    threads = thread_count()
    shares: dict[int, Share] = {}
    launch: Launch | None = None

    def serial(grid: int, keep: Any = arguments) -> None:
        if grid > 0:
            chunk[1] = grid
            call()

    def parallel(grid: int) -> None:
        nonlocal launch
        share = shares.get(grid)
        if share is None:
            if len(shares) >= 64:  # a grid that follows a host loop may have any number of sizes
                shares.clear()
            share = shares[grid] = share_out(grid, work, threads)
        if share.threads <= 1:
            serial(grid)
            return
        if launch is None:
            launch = pool(threads).launcher(adapter, block)
        launch(grid, share.step, share.chunks, share.threads)

    return serial if threads == 1 else parallel


class Chunk:
    """The iterations 0..grid as adapters take them: `address` of a pointer to the two ends."""

    def __init__(self, grid: int) -> None:
        self._ends = (ctypes.c_int64 * 2)(0, grid)
        self._arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self._ends))
        self.address = ctypes.addressof(self._arguments)


def launch_of(adapter: int, block: int, work: Work, grid: int, chunk: Chunk) -> Callable[[], Any]:
    """The same for one grid, `chunk`, which must live as long: nothing is decided when it is called."""
    threads = thread_count()
    share = share_out(grid, work, threads)
    if grid <= 0:
        return _nothing
    if share.threads <= 1:
        return _caller(adapter, (chunk.address, 0, 0, block))
    return partial(pool(threads).launcher(adapter, block), grid, share.step, share.chunks, share.threads)


def _nothing() -> None:
    pass


def _caller(adapter: int, given: tuple[int, int, int, int]) -> Callable[[], Any]:
    """Calls an adapter with these arguments."""
    return released(adapter, given, answers=False) or partial(ADAPTER(adapter), *given)


def steps_runner(
    loaded: LoadedObject, blocks: Sequence[ArgumentBlock], values: Mapping[str, Any], touched: int
) -> Callable[[], None]:
    """A function that runs all steps, for one thread at a time to call; `blocks` are those of the launches, in text order.
    The thread count is the one of now."""
    works = [work_of(one, touched, values) for one in launches_of(loaded.manifest["steps"])]
    if loaded.native is None:
        return _steps_in_python(loaded, blocks, values, works)
    threads = thread_count()
    found = pool(threads) if threads > 1 else None
    native, run = loaded.native
    words = native.words(values)
    if words is None or not (found is None or isinstance(found, OwnPool)):
        return _steps_in_python(loaded, blocks, values, works)
    native.tell(words, found.native(threads) if found else (0, 0, 1), [block.address for block in blocks], works)
    return steps_caller(run, words, blocks)


def _steps_in_python(
    loaded: LoadedObject, blocks: Sequence[ArgumentBlock], values: Mapping[str, Any], works: Sequence[Work]
) -> Callable[[], None]:
    """The same with other threads than ours, of one launch, and where a formula reads more than integers of 64 bits."""
    steps: list[Mapping[str, Any]] = loaded.manifest["steps"]
    launches = launches_of(steps)
    launchers = {
        id(one): launcher(loaded.adapters[one["name"]], block.address, work)
        for one, block, work in zip(launches, blocks, works, strict=True)
    }
    known = {id(one): block for one, block in zip(launches, blocks, strict=True)}

    def whole() -> None:
        walk_steps(steps, values, lambda one: known[id(one)], lambda one, grid, _: launchers[id(one)](grid))

    return whole


def run(loaded: LoadedObject, binding: Binding) -> None:
    """Run the kernel on the bound arguments; returns when it is done."""
    manifest = loaded.manifest
    pointers = {name: found.pointer for name, found in binding.views.items()}
    spaces = Workspaces(manifest, binding.values)
    touched = sum(found.size_bytes for found in binding.views.values()) + spaces.total
    try:
        if spaces.offsets:
            base = spaces.take()
            pointers.update((name, base + offset) for name, offset in spaces.offsets.items())
        _run(loaded, binding, pointers, touched)
    finally:
        spaces.free()


def _run(loaded: LoadedObject, binding: Binding, pointers: dict[str, int], touched: int) -> None:
    """The launches; `touched`: bytes of all arrays and workspaces."""
    manifest, values = loaded.manifest, binding.values
    word = ctypes.c_int64(0)
    pointers[ERROR_WORD] = ctypes.addressof(word)

    blocks = [ArgumentBlock(one["arguments"], pointers, values, binding.aligned) for one in launches_of(manifest["steps"])]
    steps_runner(loaded, blocks, values, touched)()
    raise_offender(manifest, word.value, values)
