"""A kernel's PTX, run on the machine of `ptx_machine`, against the interpreter, bit for bit.

The machine says where an access is not aligned, or reaches outside its array by a byte, or a
shuffle runs without its whole warp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from engines import our_math
from ptx_machine import Machine, Memory, read_ptx

from loopfuse import pipeline
from loopfuse.base.artifact import Artifact
from loopfuse.base.diagnostics import Source
from loopfuse.base.dtypes import DType
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.codegen.abi import to_python
from loopfuse.lang.interp import interpret
from loopfuse.lang.nodes import Kernel
from loopfuse.runtime.devices.steps import ERROR_WORD, run_steps
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import LoopTree

DTYPES = ("f32", "f64", "i32", "i64", "f16", "bf16", "u8", "i16", "u16", "i8")



@cache
def compiled(
    text: str, tuning: Tuning, bits: int = 32, strategy: str = "sliding", fp: str = "fast"
) -> tuple[Kernel, LoopTree, Artifact]:
    """The kernel `f` of the text, for sm_90. `strategy`: whose its first launches are ("": anybody's)."""
    program = pipeline.read_program(Source("t.lf", text.lstrip()), fp)
    options = Options(target=Target("sm_90"), tuning=tuning, index_bits=bits, fp=fp)
    planned = pipeline.plan_kernel(program, "f", options)
    assert planned.verdict.answer == "proved"
    assert not strategy or all(launch.strategy == strategy for launch in planned.tree.launches[:2])
    artifact = pipeline.compile_kernel(program, "f", options, emit=frozenset({"ptx"}))
    return planned.kernel, planned.tree, artifact


def run(
    text: str,
    tuning: Tuning,
    sizes: dict[str, int],
    offset: int,
    bits: int = 32,
    strategy: str = "sliding",
    data_of: Callable[[str, list[int]], Any] | None = None,
    fp: str = "fast",
) -> dict[int, int]:
    """Run and compare; how often how many bytes were stored at once. Arrays start `offset`
    elements behind a multiple of 16 bytes, with nothing around them. `data_of`: the values of an array of that name and
    shape; then the tree says what comes out, whose sums have an order of their own."""
    kernel, tree, artifact = compiled(text, tuning, bits, strategy, fp)
    random = np.random.default_rng(3)
    arguments: dict[str, Any] = {}
    values = dict(sizes)
    for array in kernel.arrays:
        kind = numpy_kind(array.dtype.numpy_name)
        shape = [int(eval(to_python(extent), {}, values)) for extent in array.extents]
        data = random.integers(0, 100, shape) if data_of is None else data_of(array.name, shape)
        arguments[array.name] = data.astype(kind)
    wanted = {name: data.copy() for name, data in arguments.items()}
    scalars = {name: value for name, value in values.items() if name == "n"}
    expected: Mapping[str, Any] = wanted
    if data_of is None:
        expected = interpret(kernel, {**wanted, **scalars}, sizes)
    else:
        run_tree(tree, {**wanted, **scalars}, sizes, our_math(), aligned=not offset)
    stored = run_ptx(artifact, arguments, values, offset)
    for name, data in arguments.items():
        there = np.asarray(expected.get(name, wanted[name]))
        if data_of is not None:  # which NaN is nobody's business
            assert (np.isnan(data) == np.isnan(there)).all(), name
            there = np.where(np.isnan(data), data, there)
        assert data.tobytes() == there.tobytes(), name
    return stored


def run_ptx(
    artifact: Artifact, arrays: Mapping[str, Any], values: Mapping[str, Any], offset: int = 0
) -> dict[int, int]:
    """Runs the launches of an artifact with these arrays, which it changes, and these sizes and scalars; how often how
    many bytes were stored at once. Arrays start `offset` elements behind a multiple of 16 bytes."""
    memory, pointers, address = Memory({}), dict[str, int](), 1 << 20
    for name, data in arrays.items():
        start = address + offset * data.dtype.itemsize
        memory.place(start, data)
        pointers[name] = start
        address += (data.nbytes + (1 << 12)) // 256 * 256
    for buffer in artifact.manifest["buffers"]:
        kind = numpy_kind(buffer["dtype"], short=True)
        shape = [max(0, int(eval(str(each), {}, dict(values)))) for each in buffer["extents"]]
        data = np.zeros(shape, kind)
        memory.place(address, data)
        pointers[buffer["name"]] = address
        address += (data.nbytes + (1 << 12)) // 256 * 256
    error = np.zeros(1, np.int64)
    memory.place(address, error)
    pointers[ERROR_WORD] = address
    entries = read_ptx(artifact.ptx)
    stored: dict[int, int] = {}

    def launch(one: Any, grid: int, block: Any) -> None:
        entry = entries[one["name"]]
        given = one["shared_bytes"]
        machine = Machine(
            entry, list(block.words), grid, one["threads"], memory, given, cluster=one["cluster"]
        )
        machine.run()
        for size, count in machine.bytes_stored.items():
            stored[size] = stored.get(size, 0) + count

    run_steps(artifact.manifest, pointers, dict(values), not offset, launch)
    assert not error.any(), "a subscript is outside"
    return stored


def numpy_kind(name: str, short: bool = False) -> Any:
    """NumPy's type of that name, or of that type of ours."""
    import ml_dtypes

    if short:
        name = DType(name).numpy_name
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def size_of(dtype: str) -> int:
    """Bytes of an element."""
    return DType(dtype).bytes
