"""Upstream's own lowering of MLIR text: `mlir-opt-22`, `mlir-translate-22`, then LLVM at O1.

The cross-check of everything we print. Nothing of our lowering (`codegen.llvm.walk`) takes part:
the text is parsed, lowered to the LLVM dialect and translated by upstream, and llvmlite only makes
machine code of the result, with no fast-math and no contraction.

    run_upstream(text, "f", [array, 3, ...])   any module of func, affine, memref, arith, math, scf
    lower_modules([text, ...])                 LLVM IR of many modules in two processes
    module_object(text, manifest)              an object in the place of ours: see `object_of`
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from loopfuse.base.options import CPU
from loopfuse.codegen.llvm.passes import initialize, target_machine
from loopfuse.codegen.targets import native

OPT, TRANSLATE = "mlir-opt-22", "mlir-translate-22"

# `convert-arith-to-llvm` stands before `arith-expand`, which is wanted for the rounding divisions
# only: its expansion of `maximumf` loses the sign of zero (maximumf(0.0, -0.0) gives -0.0).
PASSES = (
    "lower-affine",
    "convert-vector-to-llvm",
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-arith-to-llvm",
    "arith-expand",
    "convert-arith-to-llvm",
    "memref-expand",
    "finalize-memref-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "reconcile-unrealized-casts",
)
PIPELINE = f"--pass-pipeline=builtin.module({','.join(PASSES)})"

_MARKER = "// -----"
# Stands between modules in LLVM's text, where ours would be a syntax error inside one.
_SPLIT = f"\n{_MARKER}\n"


class Refused(Exception):
    """Upstream refuses a text; says what it said."""


def has_upstream() -> bool:
    """Whether both tools are on PATH."""
    return all(shutil.which(tool) for tool in (OPT, TRANSLATE))


def must_have_upstream() -> bool:
    """Whether a missing tool is an error and no reason to skip: in CI."""
    return os.environ.get("CI", "").lower() in ("1", "true")


# ------------------------------------------------------------------------------ text to LLVM IR


def run_tool(command: Sequence[str], text: str) -> str:
    """What a tool prints, given `text`; Refused where it exits with an error."""
    done = subprocess.run(
        list(command), input=text, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise Refused(f"{' '.join(command)}: {done.stderr.strip()[:4000]}")
    return done.stdout


def _run_on_many(command: Sequence[str], texts: Sequence[str]) -> list[str]:
    """A tool that splits its input, on all `texts` in one process."""
    split = [*command, "--split-input-file", f"--output-split-marker={_MARKER}"]
    parts = run_tool(split, _SPLIT.join(texts)).split(_MARKER)
    if len(parts) != len(texts):
        raise Refused(f"{command[0]} made {len(parts)} modules of {len(texts)}")
    return parts


def lower_modules(texts: Iterable[str]) -> list[str]:
    """The LLVM IR text of each module. Refused where upstream refuses any of them."""
    dialect = _run_on_many([OPT, PIPELINE], list(texts))
    return _run_on_many([TRANSLATE, "--mlir-to-llvmir"], dialect)


@functools.lru_cache(maxsize=256)
def lower_module(text: str) -> str:
    """The LLVM IR text of one module."""
    return lower_modules([text])[0]


def verify_all(texts: Sequence[str]) -> str:
    """What `mlir-opt-22 --verify-each` says against any of the modules; empty if nothing."""
    try:
        _run_on_many([OPT, "--verify-each"], texts)
    except Refused as refused:
        return str(refused)
    return ""


def optimized(text: str, speed_level: int = 1) -> llvm.ModuleRef:
    """LLVM IR text, parsed, verified and optimised for this machine."""
    initialize()
    module = llvm.parse_assembly(text)
    module.triple, layout = native.host_triple(CPU)
    module.data_layout = layout
    module.verify()
    machine = _machine()
    builder = llvm.create_pass_builder(
        machine, llvm.create_pipeline_tuning_options(speed_level=speed_level)
    )
    builder.getModulePassManager().run(module, builder)
    return module


def _machine() -> llvm.TargetMachine:
    return target_machine(llvm.get_default_triple(), *native.host_cpu(CPU))


def engine_of(text: str) -> Any:
    """LLVM IR text as code in this process."""
    machine = native.new_host_machine(CPU)
    for library in ("libm.so.6", "/usr/lib/llvm-22/lib/libmlir_c_runner_utils.so.22.1"):
        # The second holds `memrefCopy`, which only a copy between strided memrefs calls.
        if not library.startswith("/") or os.path.exists(library):
            llvm.load_library_permanently(library)
    engine = llvm.create_mcjit_compiler(optimized(text), machine)
    engine.finalize_object()
    return engine


# -------------------------------------------------------------------- any function on NumPy arrays

_DTYPES = {
    "i1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32), "i64": np.dtype(np.int64), "index": np.dtype(np.int64),
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Type:
    """A scalar (shape None) or a memref; an extent that is not known is -1."""

    element: str
    shape: tuple[int, ...] | None
    layout: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's name of the element."""
        return _DTYPES[self.element]

    @property
    def slots(self) -> int:
        """How many LLVM values it is passed as."""
        return 1 if self.shape is None else 3 + 2 * len(self.shape)


def _read_type(text: str) -> _Type:
    if not text.startswith("memref<"):
        if text not in _DTYPES:
            raise TypeError(f"run_upstream does not pass a value of type {text}")
        return _Type(text, None)
    inside, _, layout = text.removeprefix("memref<").removesuffix(">").partition(",")
    *extents, element = inside.strip().split("x")
    shape = tuple(-1 if each == "?" else int(each) for each in extents)
    return _Type(element, shape, layout.strip())


def _split_types(text: str) -> list[_Type]:
    """Types between commas, those inside <> and [] apart."""
    parts, depth, start = list[str](), 0, 0
    for place, letter in enumerate(text):
        if letter in "<[(":
            depth += 1
        elif letter in ")]" or (letter == ">" and text[place - 1] != "-"):
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [_read_type(part.strip()) for part in parts if part.strip()]


def _signature(text: str, name: str) -> tuple[list[_Type], list[_Type]]:
    """Types of arguments and results, from upstream's generic form of the module."""
    generic = run_tool([OPT, "--mlir-print-op-generic"], text)
    pattern = rf'"func\.func"\(\).*?function_type = \((.*)\) -> (.*?), (?:res_attrs = .*, )?sym_name = "{re.escape(name)}"'
    found = re.search(pattern, generic)
    if not found:
        raise Refused(f"there is no func.func @{name}")
    given, results = found[1], found[2]
    if results.startswith("("):
        results = results[1:-1]
    return _split_types(given), _split_types(results)


# Memory that a function allocates starts out full of 0xFF (NaN, -1, true), so that a result that
# depends on what nothing wrote is seen to.
_MALLOC = """
define internal ptr @upstream.malloc(i64 %size) {
  %p = call ptr @malloc(i64 %size)
  call void @llvm.memset.p0.i64(ptr %p, i8 FILL, i64 %size, i1 false)
  ret ptr %p
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


@dataclass(frozen=True, slots=True)
class _Function:
    arguments: list[_Type]
    results: list[_Type]
    call: Any
    engine: Any


@functools.lru_cache(maxsize=128)
def _compiled(text: str, name: str, fill: int) -> _Function:
    arguments, results = _signature(text, name)
    code = lower_module(text)
    if "@malloc(" in code:
        code = re.sub(r"call ptr @malloc\(", "call ptr @upstream.malloc(", code)
        declared = "" if re.search(r"^declare ptr @malloc\(", code, re.M) else "declare ptr @malloc(i64)"
        memset = _MALLOC.replace("FILL", str(fill))
        if "declare void @llvm.memset.p0.i64" in code:
            memset = memset[: memset.rindex("declare")]
        code += declared + memset
    function = llvm.parse_assembly(code).get_function(name)
    lines, passed = list[str](), list[str]()
    for slot, argument in enumerate(function.arguments):
        kind = str(argument.type)
        lines.append(f"  %p{slot} = getelementptr i8, ptr %block, i64 {8 * slot}")
        if kind == "i1":
            lines.append(f"  %w{slot} = load i8, ptr %p{slot}")
            lines.append(f"  %v{slot} = trunc i8 %w{slot} to i1")
        else:
            lines.append(f"  %v{slot} = load {kind}, ptr %p{slot}")
        passed.append(f"{kind} %v{slot}")
    kind = str(function.global_value_type).partition(" (")[0]
    call = f'call {kind} @"{name}"({", ".join(passed)})'
    if kind == "void":
        lines.append(f"  {call}")
    else:
        lines += [f"  %r = {call}", f"  store {kind} %r, ptr %result"]
    body = "\n".join(lines)
    code += f"\ndefine void @upstream.call(ptr %block, ptr %result) {{\n{body}\n  ret void\n}}\n"
    engine = engine_of(code)
    address = engine.get_function_address("upstream.call")
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    return _Function(arguments, results, kind(address), engine)


def _check(number: int, kind: _Type, value: Any) -> None:
    """TypeError or ValueError where an argument is not what the function takes."""
    if kind.shape is None:
        return
    if not isinstance(value, np.ndarray):
        raise TypeError(f"argument {number} is {type(value).__name__}, not an array")
    same = value.dtype == kind.dtype or (
        value.dtype.kind == "u" and kind.dtype.kind == "i" and value.itemsize == kind.dtype.itemsize
    )
    if not same:
        raise TypeError(f"argument {number} is of {value.dtype}, not {kind.dtype}")
    fits = value.ndim == len(kind.shape) and all(
        want in (-1, have) for want, have in zip(kind.shape, value.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"argument {number} has shape {value.shape}, not {kind.shape}")
    if not kind.layout and value.size and not value.flags.c_contiguous:
        raise ValueError(f"argument {number} is strided, its memref is not")


def run_upstream(
    text: str, name: str, arguments: Sequence[Any], *, fill: int = 0xFF
) -> tuple[Any, ...]:
    """Calls function `name` of the MLIR module `text`, lowered by upstream, on `arguments`.

    Arrays (NumPy's, of the memref's element type; unsigned ones pass as signless integers) are
    changed in place; scalars and `index` are passed by value. Gives the results: arrays are copies.
    Memory that the function allocates is full of `fill` bytes until written. Refused where upstream
    refuses the text; TypeError, ValueError for arguments that do not fit it.
    """
    function = _compiled(text, name, fill)
    if len(arguments) != len(function.arguments):
        raise TypeError(f"@{name} takes {len(function.arguments)} arguments, not {len(arguments)}")
    block = bytearray()
    for number, (kind, value) in enumerate(zip(function.arguments, arguments, strict=True)):
        _check(number, kind, value)
        if kind.shape is None:
            block += np.asarray(value).astype(kind.dtype).tobytes().ljust(8, b"\0")
            continue
        words = [value.ctypes.data, value.ctypes.data, 0, *value.shape]
        words += [stride // value.itemsize for stride in value.strides]
        block += np.asarray(words, np.int64).tobytes()
    given = (ctypes.c_char * max(len(block), 1)).from_buffer(block or bytearray(1))
    # A descriptor and every scalar but the small ones are whole words; LLVM lays out a struct as C.
    room = bytearray(8 * max(1, sum(each.slots for each in function.results)))
    result = (ctypes.c_char * len(room)).from_buffer(room)
    function.call(ctypes.addressof(given), ctypes.addressof(result))
    return _read_results(function.results, bytes(room))


def _read_results(kinds: Sequence[_Type], room: bytes) -> tuple[Any, ...]:
    found, place = list[Any](), 0
    for kind in kinds:
        size = kind.dtype.itemsize if kind.shape is None else 8
        place = -(-place // size) * size
        if kind.shape is None:
            found.append(np.frombuffer(room, kind.dtype, 1, place)[0])
            place += size
            continue
        rank = len(kind.shape)
        words = np.frombuffer(room, np.int64, 3 + 2 * rank, place)
        place += 8 * (3 + 2 * rank)
        shape, strides = words[3 : 3 + rank], words[3 + rank :]
        found.append(_array_at(int(words[1]), int(words[2]), kind.dtype, shape, strides))
    return tuple(found)


def _array_at(
    address: int, offset: int, dtype: np.dtype[Any], shape: Any, strides: Any
) -> np.ndarray:
    """A copy of what a descriptor describes. Its memory stays: whose it is, no descriptor says."""
    sizes = tuple(int(each) for each in shape)
    if 0 in sizes:
        return np.empty(sizes, dtype)
    last = sum((size - 1) * int(stride) for size, stride in zip(sizes, strides, strict=True))
    raw = (ctypes.c_char * ((last + 1) * dtype.itemsize)).from_address(
        address + offset * dtype.itemsize
    )
    flat = np.frombuffer(raw, dtype)
    steps = tuple(int(stride) * dtype.itemsize for stride in strides)
    return np.lib.stride_tricks.as_strided(flat, sizes, steps).copy()
