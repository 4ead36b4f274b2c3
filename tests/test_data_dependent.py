"""Subscripts outside their array: 0 is read, nothing is written, and the first is raised.

In every way to run a program, with the same bits: the interpreter, LoopTrees, the CPU, and (marked
`gpu`) the GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import engines
from case_files import Case, arguments_with_faults, assert_same, copy_arguments, read_cases

import loopfuse
from loopfuse import UserError
from loopfuse.base.diagnostics import Source
from loopfuse.lang.interp import Offence, OutOfBounds
from loopfuse.lang.interp import interpret as run_program
from loopfuse.runtime.devices import cuda
from loopfuse.tree.interp.run import run_tree

DATA = tuple(case for case in read_cases() if case.name.startswith("data_"))

GATHER = """
kernel gather(x: f32[N], idx: i64[M], out y: f32[M]):
    for i in 0..M:
        y[i] = x[idx[i]] + 1.0
"""
SCATTER = """
kernel scatter(x: f32[M], idx: i32[M], inout y: f32[N]):
    for i in 0..M:
        y[idx[i]] = x[i]
"""
ROWS = """
kernel rows(t: f64[V, D], i: i32[M], j: i32[M], out y: f64[M]):
    for m in 0..M:
        y[m] = t[i[m], j[m]]
"""


def places(found: list[Offence]) -> set[tuple[Any, ...]]:
    """Offences, in no order."""
    return {(o.array, o.dimension, o.index, o.writes, o.span) for o in found}


@pytest.mark.parametrize("case", DATA, ids=lambda case: case.name)
def test_all_ways_agree_on_wild_subscripts(case: Case) -> None:
    """Random integers as subscripts and bounds: the same elements and the same offenders."""
    for kernel in engines.read(case.source).kernels:
        for sizes in case.sizes:
            arguments = arguments_with_faults(kernel, sizes, case.scalars)
            found: list[Offence] = []
            written = run_program(kernel, arguments, sizes, offences=found, math=engines.our_math())
            expected = engines.arrays_of(kernel, {**arguments, **written})
            integers = {
                p.name: int(arguments[p.name]) for p in kernel.scalars if p.dtype.is_integer
            }
            for target in (engines.CPU, engines.GPU):
                for fuel in (0, None):
                    planned = engines.plan(case.source, kernel.name, target, fuel, False)
                    held = copy_arguments(arguments)
                    noted: list[Offence] = []
                    run_tree(
                        planned.tree, held, {**sizes, **integers}, engines.our_math(), offences=noted
                    )
                    who = f"{kernel.name} {target.name} fuel={fuel}"
                    assert_same(kernel, expected, engines.arrays_of(kernel, held), who)
                    assert places(noted) == places(found), who
            for fuel in (0, None):
                held = copy_arguments(arguments)
                call = engines.loaded(case.source, kernel.name, fuel, False)
                raised = None
                try:
                    call(**held, **engines.sizes_to_pass(kernel, sizes))
                except UserError as error:
                    raised = error.diagnostics[0]
                assert (raised is not None) == bool(found)
                if raised is not None:
                    assert raised.code == "subscript-out-of-range"
                    assert raised.span in {offence.span for offence in found}
                assert_same(kernel, expected, engines.arrays_of(kernel, held), f"fuel={fuel}")


def test_a_bad_read_gives_zero_and_is_raised() -> None:
    kernel = loopfuse.loads(GATHER)
    x, y = np.arange(1.0, 6.0, dtype=np.float32), np.full(4, 9, np.float32)
    with pytest.raises(UserError) as caught:
        kernel(x, np.array([0, 17, 4, -1]), y)
    assert y.tolist() == [2.0, 1.0, 6.0, 1.0]
    text = str(caught.value)
    assert "subscript-out-of-range" in text
    assert "element 17 of `x` is read, which has 5" in text
    assert "y[i] = x[idx[i]] + 1.0" in text
    assert kernel(x, np.array([0, 4])).tolist() == [2.0, 6.0]  # and the next call is a new one


def test_a_bad_write_is_dropped_and_raised() -> None:
    kernel = loopfuse.loads(SCATTER)
    y = np.zeros(3, np.float32)
    with pytest.raises(UserError, match="is written"):
        kernel(np.array([1, 2, 3, 4], np.float32), np.array([2, -1, 3, 0], np.int32), y)
    assert y.tolist() == [4.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("i", "j", "dimension", "index"), [([5], [0], "`t`", 5), ([0], [7], "dimension 2 of `t`", 7)]
)
def test_the_dimension_is_told(i: list[int], j: list[int], dimension: str, index: int) -> None:
    kernel = loopfuse.loads(ROWS)
    first, second = np.array(i, np.int32), np.array(j, np.int32)
    with pytest.raises(UserError) as caught:
        kernel(np.ones((4, 6)), first, second)
    assert f"element {index} of {dimension} is read" in str(caught.value)


def test_the_dimension_of_a_private_array_is_the_programs() -> None:
    """Each iteration has a copy, which the tree tells apart by a subscript before the program's own."""
    (case,) = (each for each in DATA if each.name == "data_private_copies")
    kernel = loopfuse.loads(case.source.text)
    with pytest.raises(UserError, match="element 4 of `t` is read, which has 4"):
        kernel(np.ones((3, 4), np.float32), np.array([0, 0, 4], np.int32))
    for target in ("cpu", "sm_90"):
        assert {each["dimension"] for each in kernel.compile(target).manifest["checks"]} == {0}



def test_the_first_of_many_calls_does_not_hide_later_ones() -> None:
    kernel = loopfuse.loads(GATHER)
    x = np.ones(3, np.float32)
    for _ in range(3):
        with pytest.raises(UserError):
            kernel(x, np.array([3]))
        assert kernel(x, np.array([2])).tolist() == [2.0]


def test_huge_subscripts_do_not_wrap() -> None:
    kernel = loopfuse.loads(GATHER)
    x = np.ones(3, np.float32)
    for index in (2**32, -(2**32), 2**63 - 1, -(2**63)):
        with pytest.raises(UserError):
            kernel(x, np.array([index]))


def test_unchecked() -> None:
    """`check="off"` tests nothing: no error word, and what is inside is right."""
    kernel = loopfuse.loads(GATHER, check="off")
    assert kernel(np.arange(4, dtype=np.float32), np.array([3, 1])).tolist() == [4.0, 2.0]
    for target in ("cpu", "sm_90"):
        artifact = kernel.compile(target, emit=("object",) if target == "cpu" else ("ptx",))
        assert not artifact.manifest["checks"]
        (step,) = artifact.manifest["steps"]
        assert all(each["kind"] != "error" for each in step["launch"]["arguments"])


def test_unknown_check() -> None:
    with pytest.raises(UserError, match="no way to check"):
        loopfuse.loads(GATHER, check="sometimes")


def test_manifest_says_whose_subscript_it_is() -> None:
    artifact = loopfuse.loads(ROWS).compile("sm_90", emit=("ptx",))
    found = [(c["array"], c["dimension"], c["extent"]) for c in artifact.manifest["checks"]]
    assert found == [("t", 0, "V"), ("t", 1, "D")]
    assert artifact.manifest["steps"][0]["launch"]["arguments"][-1] == {"kind": "error"}


def test_the_interpreter_raises_in_the_end() -> None:
    program = engines.read(Source("gather.lf", GATHER)).kernels[0]
    arguments = {"x": np.ones(3, np.float32), "idx": np.array([1, 9])}
    with pytest.raises(OutOfBounds, match="subscript 9 of dimension 0 is outside `x`"):
        run_program(program, arguments)


def test_the_reference_raises_too() -> None:
    kernel = loopfuse.loads(GATHER)
    y = np.full(2, 9, np.float32)
    with pytest.raises(UserError, match="element 9 of `x`"):
        kernel.reference(np.ones(3, np.float32), np.array([1, 9]), y)
    assert y.tolist() == [2.0, 1.0]


def test_deps_are_not_exact() -> None:
    (kernel,) = loopfuse.loads(SCATTER, name="s.lf"),
    records = kernel.dependences()["dependences"]
    assert records and not any(record["exact"] for record in records)
    assert {record["array"] for record in records} == {"y"}


@pytest.mark.gpu
@pytest.mark.parametrize("check", ["lazy", "sync"])
def test_on_the_gpu(check: str) -> None:
    """Lazily, the next call raises, or `synchronize`; with `sync`, the call itself."""
    from loopfuse.runtime.devices.gpu_arrays import DeviceArray

    assert cuda.gpu() is not None, "this test needs an NVIDIA GPU"
    kernel = loopfuse.loads(GATHER, check=check)
    x = DeviceArray(np.arange(1.0, 6.0, dtype=np.float32))
    bad, good = DeviceArray(np.array([0, 17, 4, -1])), DeviceArray(np.array([0, 1, 2, 3]))
    y = DeviceArray(np.full(4, 9, np.float32))
    if check == "sync":
        with pytest.raises(UserError, match="is read"):
            kernel(x, bad, y)
    else:
        kernel(x, bad, y)
        with pytest.raises(UserError, match="is read"):
            loopfuse.synchronize()
    assert y.download().tolist() == [2.0, 1.0, 6.0, 1.0]
    kernel(x, good, y)
    loopfuse.synchronize()
    assert y.download().tolist() == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.gpu
@pytest.mark.parametrize("case", DATA, ids=lambda case: case.name)
def test_wild_subscripts_on_the_gpu(case: Case) -> None:
    """As `test_all_ways_agree_on_wild_subscripts`."""
    from loopfuse.runtime.devices.gpu_arrays import DeviceArray

    for kernel in engines.read(case.source).kernels:
        for sizes in case.sizes:
            arguments = arguments_with_faults(kernel, sizes, case.scalars)
            found: list[Offence] = []
            written = run_program(kernel, arguments, sizes, offences=found, math=engines.our_math())
            expected = engines.arrays_of(kernel, {**arguments, **written})
            for fuel in (0, None):
                call = engines.loaded(case.source, kernel.name, fuel, False)
                held = {
                    k: DeviceArray(np.ascontiguousarray(v)) if isinstance(v, np.ndarray) else v
                    for k, v in copy_arguments(arguments).items()
                }
                call(**held, **engines.sizes_to_pass(kernel, sizes))
                if found:
                    with pytest.raises(UserError, match="which has"):
                        loopfuse.synchronize()
                else:
                    loopfuse.synchronize()
                got = {p.name: held[p.name].download() for p in kernel.arrays}
                assert_same(kernel, expected, got, f"fuel={fuel}")
