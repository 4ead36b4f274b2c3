"""Running native objects: load with LLVM's JIT linker, launch over threads.

Every entry gets an adapter of one C type (numba's gufunc type) that unpacks an argument block and
a chunk of iterations, so that any pool can call any entry. The pool is numba's omppool where it
is there, else a small one of our own. Which thread runs a chunk, and how many there are, never
changes a result: iterations of a launch are independent.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from loopfuse.base.diagnostics import Diagnostic, InternalError, UserError
from loopfuse.base.dtypes import DType
from loopfuse.runtime.arrays import Binding
from loopfuse.runtime.checks import ERROR_WORD, raise_offender
from loopfuse.runtime.native_code import linked
from loopfuse.runtime.steps import ArgumentBlock, buffer_bytes, launches_of, run_steps

# Under these many bytes touched by a call, threads cost more than they give: a region costs
# 5 us, and the first one imports numba, about 0.4 s.
SMALL_BYTES = 32 << 10
SMALL_BYTES_COLD = 256 << 10
CHUNKS_PER_THREAD = 4

_LLVM_TYPES = {
    DType.BOOL: "i8", DType.I8: "i8", DType.I16: "i16", DType.I32: "i32", DType.I64: "i64",
    DType.U8: "i8", DType.U16: "i16", DType.U32: "i32", DType.U64: "i64",
    DType.F16: "i16", DType.BF16: "i16", DType.F32: "float", DType.F64: "double",
}  # fmt: skip

_Adapter = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


@dataclass(frozen=True, slots=True)
class LoadedObject:
    """A native object in memory: the address of each entry's adapter, by entry name."""

    manifest: dict[str, Any]
    adapters: dict[str, int]
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
    text = "\n".join(_adapter_ir(launch) for launch in names.values())
    engine = linked(text, data if names else b"")
    adapters = {name: engine.get_function_address(f"{name}.adapter") for name in names}
    missing = [name for name in names if not engine.get_function_address(name)]
    if missing or not all(adapters.values()):
        raise InternalError(
            Diagnostic("bad-object", f"the object file lacks the entry {', '.join(missing)}")
        )
    return LoadedObject(manifest, adapters, engine)


@lru_cache(maxsize=1)
def host_cpu() -> str:
    """The host CPU's name and features as LLVM has them: part of a native object's cache key."""
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


def llvm_version() -> str:
    """The version of LLVM in llvmlite; ImportError or OSError where it does not load."""
    import llvmlite.binding as llvm

    return ".".join(map(str, llvm.llvm_version_info))


# ------------------------------------------------------------------------------------ threads


def thread_count() -> int:
    """Threads a launch may use: `LOOPFUSE_NUM_THREADS`, else the CPUs this process may run on."""
    text = os.environ.get("LOOPFUSE_NUM_THREADS", "")
    if not text:
        return len(os.sched_getaffinity(0))
    if not text.isdecimal() or int(text) < 1:
        raise UserError(
            Diagnostic(
                "bad-thread-count",
                f"LOOPFUSE_NUM_THREADS is `{text}`",
                fix="set it to a whole number of threads, 1 or more",
            )
        )
    return int(text)


class _OpenMpPool:
    """numba's omppool, called through its exported addresses."""

    def __init__(self, threads: int) -> None:
        # A compiled module without a stub.
        from numba.np.ufunc import omppool  # pyright: ignore[reportAttributeAccessIssue]

        launch = ctypes.CFUNCTYPE(None, ctypes.c_int)(omppool.launch_threads)
        launch(threads)
        self._parallel_for = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p,
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int,
        )(omppool.parallel_for)  # fmt: skip

    def run(self, adapter: int, chunks: Any, count: int, block: int, threads: int) -> None:
        """Call the adapter for each of the `count` chunks (16 bytes each)."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(chunks))
        dimensions = (ctypes.c_size_t * 1)(count)
        steps = (ctypes.c_size_t * 1)(16)
        self._parallel_for(adapter, arguments, dimensions, steps, block, 0, 1, threads)


    def prepare(
        self, adapter: int, chunks: Any, count: int, block: int, threads: int
    ) -> Callable[[], None]:
        """`run` with everything at hand: for launches that come again."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(chunks))
        dimensions = (ctypes.c_size_t * 1)(count)
        steps = (ctypes.c_size_t * 1)(16)
        given = (adapter, ctypes.addressof(arguments), ctypes.addressof(dimensions),
                 ctypes.addressof(steps), block, 0, 1, threads)  # fmt: skip
        parallel_for, keep = self._parallel_for, (arguments, dimensions, steps, chunks)

        def launch(keep: Any = keep) -> None:
            parallel_for(*given)

        return launch


class _OwnPool:
    """Python threads around C calls, which release the interpreter lock."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="loopfuse")

    def run(self, adapter: int, chunks: Any, count: int, block: int, threads: int) -> None:
        """Call the adapter for each of the `count` chunks (16 bytes each)."""
        call = _Adapter(adapter)
        base = ctypes.addressof(chunks)

        def one(index: int) -> None:
            call((ctypes.c_void_p * 1)(base + 16 * index), None, None, block)

        list(self._executor.map(one, range(count)))

    def prepare(
        self, adapter: int, chunks: Any, count: int, block: int, threads: int
    ) -> Callable[[], None]:
        """`run` with everything at hand."""
        return partial(self.run, adapter, chunks, count, block, threads)


_pool: _OpenMpPool | _OwnPool | None = None
_pool_lock = threading.Lock()
_forked = False


def _mark_forked() -> None:
    """Threads do not survive a fork, and OpenMP kills a child that asks for them: a child of a
    process that had started threads runs serially."""
    global _forked, _pool_lock
    _forked = _pool is not None
    _pool_lock = threading.Lock()


os.register_at_fork(after_in_child=_mark_forked)


def _start_pool(threads: int) -> _OpenMpPool | _OwnPool:
    global _pool
    with _pool_lock:
        if _pool is None:
            try:
                _pool = _OpenMpPool(max(threads, len(os.sched_getaffinity(0))))
            except (ImportError, AttributeError, OSError):
                _pool = _OwnPool(threads)
        return _pool


def pool_name() -> str:
    """Which pool a launch would use, for `doctor`: `omppool` or `own`."""
    return "omppool" if isinstance(_start_pool(thread_count()), _OpenMpPool) else "own"


# ------------------------------------------------------------------------------------ running


def _cut(count: int, parts: int) -> Any:
    """`parts` pairs (begin, end) that cover 0..count evenly, as a C array."""
    bounds = [count * k // parts for k in range(parts + 1)]
    pairs = [bound for k in range(parts) for bound in (bounds[k], bounds[k + 1])]
    return (ctypes.c_int64 * len(pairs))(*pairs)


@lru_cache(maxsize=256)
def _serial_chunk(count: int) -> Any:
    return (ctypes.c_int64 * 2)(0, count)


def launcher(adapter: int, block: int, touched: int) -> Callable[[int], None]:
    """A function that runs an entry over a grid, for one thread at a time to call: `block` is the
    address of its argument block, `touched` the bytes that the whole call touches.

    Decides about threads as `run` does; the thread count is the one of now.
    """
    chunk = (ctypes.c_int64 * 2)(0, 0)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(chunk))
    call, where = _Adapter(adapter), ctypes.addressof(arguments)
    threads = thread_count()
    prepared: dict[int, Callable[[], None]] = {}

    def serial(grid: int, keep: Any = arguments) -> None:
        if grid > 0:
            chunk[1] = grid
            call(where, None, None, block)

    def parallel(grid: int) -> None:
        if grid <= 1 or _forked or (_pool is None and touched < SMALL_BYTES_COLD):
            serial(grid)
            return
        launch = prepared.get(grid)
        if launch is None:
            parts = min(grid, threads * CHUNKS_PER_THREAD)
            launch = _start_pool(threads).prepare(adapter, _cut(grid, parts), parts, block, threads)
            if len(prepared) >= 64:  # a grid that follows a host loop may have any number of sizes
                prepared.clear()
            prepared[grid] = launch
        launch()

    return serial if threads == 1 or touched < SMALL_BYTES else parallel


def run(loaded: LoadedObject, binding: Binding) -> None:
    """Run the kernel on the bound arguments; returns when it is done."""
    manifest = loaded.manifest
    pointers = {name: found.pointer for name, found in binding.views.items()}
    touched = sum(found.size_bytes for found in binding.views.values())
    keep: list[Any] = []
    for buffer in manifest["buffers"]:
        size = buffer_bytes(buffer, binding.values)
        # 64 bytes more, so that the start can be moved to a cache line.
        make = np.zeros if buffer["zeroed"] else np.empty
        try:
            storage = make(size + 64, np.uint8)
        except (MemoryError, ValueError) as error:
            raise UserError(
                Diagnostic(
                    "out-of-memory",
                    f"cannot allocate `{buffer['name']}` of `{binding.kernel}`: {size} bytes",
                )
            ) from error
        keep.append(storage)
        pointers[buffer["name"]] = (storage.ctypes.data + 63) & ~63
        touched += size
    threads = 1 if _forked else thread_count()
    if touched < (SMALL_BYTES if _pool is not None else SMALL_BYTES_COLD):
        threads = 1

    def launch(one: Mapping[str, Any], grid: int, block: ArgumentBlock) -> None:
        adapter = loaded.adapters[one["name"]]
        if threads == 1 or grid == 1:
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(_serial_chunk(grid)))
            _Adapter(adapter)(ctypes.addressof(arguments), None, None, block.address)
            return
        parts = min(grid, threads * CHUNKS_PER_THREAD)
        chunks = _cut(grid, parts)
        _start_pool(threads).run(adapter, chunks, parts, block.address, threads)

    word = ctypes.c_int64(0)
    pointers[ERROR_WORD] = ctypes.addressof(word)
    run_steps(manifest, pointers, binding.values, binding.aligned, launch)
    raise_offender(manifest, word.value, binding.values)
