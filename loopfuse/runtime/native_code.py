"""Native code made by LLVM while we run: IR and object files linked into this process, and the small
functions of call paths, which are kept for good."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from loopfuse.base import forks

_lock = forks.Lock()
_kept: list[Any] = []


def linked(text: str, data: bytes = b"") -> Any:
    """An engine that holds LLVM IR, compiled, and an object file (none: no bytes)."""
    import llvmlite.binding as llvm

    with _lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(text)
        target = llvm.Target.from_default_triple()
        module.triple = target.triple
        engine = llvm.create_mcjit_compiler(module, target.create_target_machine(opt=1, jit=True))
        if data:
            engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        engine.finalize_object()
    return engine


def function_at(name: str, text: str) -> int:
    """The address of a function of LLVM IR, compiled; 0 where LLVM does not load."""
    try:
        engine = linked(text)
    except (ImportError, OSError, RuntimeError):
        return 0
    _kept.append(engine)
    return int(engine.get_function_address(name))


def addresses_for_good(names: tuple[str, ...], text: str) -> tuple[int, ...] | None:
    """The addresses of functions of LLVM IR without addresses in it, compiled by the first process that
    asks and cached, in memory that is not given back even when the interpreter ends: threads of the
    system may be running them. None where LLVM does not load."""
    try:
        engine = linked("", _object_of(text))
    except (ImportError, OSError, RuntimeError):
        return None
    found = tuple(int(engine.get_function_address(name)) for name in names)
    engine.detach()
    return found


def _object_of(text: str) -> bytes:
    """The object file of LLVM IR, from the disk cache where it is there (40 ms otherwise)."""
    import llvmlite.binding as llvm

    from loopfuse.runtime import cache

    triple = llvm.get_default_triple()
    key = cache.key_of("native code", text, triple, llvm.llvm_version_info)
    entry = cache.get(key)
    if entry is not None and "object" in entry[1]:
        return entry[1]["object"]
    with _lock:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(text)
        module.triple = triple
        machine = llvm.Target.from_default_triple().create_target_machine(
            opt=1, reloc="pic", jit=True
        )
        data = bytes(machine.emit_object(module))
        del module, machine  # a fork between must not see LLVM let them go
    cache.put(key, {}, {"object": data})
    return data


ELSEWHERE = -1
"""The status of a launch that was not made: another context is current."""


@lru_cache(maxsize=4)
def launcher(current: int, launch: int) -> Callable[[int, int, int, int], int] | None:
    """`launch(configuration, function, slots, context)`: cuLaunchKernelEx in that context alone, from
    the addresses of cuCtxGetCurrent and cuLaunchKernelEx. Other threads run meanwhile."""
    address = function_at("launch", f"""
define i32 @launch(ptr %configuration, ptr %function, ptr %slots, i64 %context) {{
  %cell = alloca i64, align 8
  store i64 0, ptr %cell
  %current = inttoptr i64 {current} to ptr
  %asked = call i32 %current(ptr %cell)
  %now = load i64, ptr %cell
  %here = icmp eq i64 %now, %context
  br i1 %here, label %launched, label %elsewhere
launched:
  %launch = inttoptr i64 {launch} to ptr
  %status = call i32 %launch(ptr %configuration, ptr %function, ptr %slots, ptr null)
  ret i32 %status
elsewhere:
  ret i32 {ELSEWHERE}
}}
""") if current and launch else 0
    pointer = ctypes.c_void_p
    return ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer)(address) if address else None
