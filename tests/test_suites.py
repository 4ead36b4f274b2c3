"""PolyBench, the Livermore kernels and other well-known programs: right in every form.

Each is a `.lf` text, a Python function and a reference in NumPy (`suites.py`). That the text's forms agree bit for
bit (interpreters, trees, compiled code), and that its plans are as its head says, is shown by `test_cases.py`, on a
GPU by `gpu/test_cases_gpu.py`.
"""

from __future__ import annotations

from typing import Any

import engines
import numpy as np
import pytest
import suites
from case_files import ROOT, Case, copy_arguments, read_suites, same_bits

import loopfuse
from loopfuse.kernels import kernel as kernels
from loopfuse.lang import nodes

PROGRAMS = read_suites()

TOLERANCE = {"float64": 1e-11, "float32": 1e-4}
"""What a program may differ from its reference, which is in float64, relative to the largest value there is;
integers are equal."""


def named(case: Case) -> str:
    """How pytest shows a program."""
    return case.title


def assert_right(case: Case, kernel: nodes.Kernel, arguments: dict[str, Any], got: dict[str, Any], who: str) -> None:
    """What was written is what the reference says."""
    right = suites.right_results(case, kernel, arguments)
    assert set(right) == {param.name for param in kernel.arrays if param.mode != "in"}
    for name, value in right.items():
        assert got[name].shape == value.shape, f"{who}: `{name}`"
        scale = max(1.0, float(np.max(np.abs(value), initial=0.0)))
        limit = TOLERANCE.get(str(got[name].dtype), 0.0) * scale
        np.testing.assert_allclose(got[name], value, rtol=0, atol=limit, err_msg=f"{who}: `{name}`")


def only_kernel(case: Case, fp: str = "fast") -> nodes.Kernel:
    """The program's kernel: it has one."""
    (kernel,) = engines.read(case.source, fp).kernels
    return kernel


@pytest.fixture(scope="module", params=PROGRAMS, ids=named)
def case(request: pytest.FixtureRequest) -> Case:
    """Each program in turn, with all its tests: they share its plans."""
    return request.param


def test_it_is_right(case: Case) -> None:
    """The interpreter against the reference, at all small sizes."""
    kernel = only_kernel(case)
    for sizes in case.sizes:
        arguments = suites.arguments_of(case, kernel, sizes)
        got = engines.interpret(kernel, arguments, sizes)
        assert_right(case, kernel, arguments, got, f"{case.name} {sizes}")


def test_compiled_code_is_right(case: Case) -> None:
    """Compiled for the CPU as a user would, reductions in any order, at all sizes."""
    kernel = only_kernel(case)
    call = kernels.load_all(case.source)[kernel.name]
    for sizes in (*case.sizes, *case.medium):
        arguments = suites.arguments_of(case, kernel, sizes)
        held = copy_arguments(arguments)
        call(**held, **engines.sizes_to_pass(kernel, sizes))
        assert_right(case, kernel, arguments, held, f"{case.name} {sizes}")


# ------------------------------------------------------------------------- as Python functions

WITHIN_ULPS = {"deriche", "22_planck"}
"""Their math functions are ours when compiled and NumPy's in CPython."""


def narrow(case: Case, arguments: dict[str, Any]) -> dict[str, Any]:
    """The same in f32, where the program is written for f64."""
    return {
        name: value.astype(np.float32) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value
        for name, value in arguments.items()
    }


def as_called(function: Any, kernel: nodes.Kernel, arguments: dict[str, Any]) -> dict[str, Any]:
    """Copies of what the Python function takes. Numbers are Python's, but for those it annotates."""
    held = {name: arguments[name] for name in function._names}
    annotated = function.reference.__annotations__
    return copy_arguments(
        {
            name: value if isinstance(value, np.ndarray) or name in annotated else value.item()
            for name, value in held.items()
        }
    )


def results(kernel: nodes.Kernel, held: dict[str, Any], returned: Any) -> dict[str, np.ndarray]:
    """The arrays written, by name: those given, and those returned, in the order of the text's `out` arrays."""
    outs = [param.name for param in kernel.arrays if param.mode == "out" and param.name not in held]
    values = returned if isinstance(returned, tuple) else () if returned is None else (returned,)
    found = {param.name: held[param.name] for param in kernel.arrays if param.mode != "in" and param.name in held}
    return {**found, **dict(zip(outs, values, strict=True))}


@pytest.mark.parametrize("floats", ["f64", "f32"])
def test_python_computes_the_same(case: Case, floats: str) -> None:
    """CPython = compiled under strict, bit for bit, for both floats; for those of the text, the text too; and both
    are right."""
    kernel = only_kernel(case, "strict")
    function = suites.function_of(case, kernel.name)
    is_texts = floats == "f64" or not any(param.dtype.value == "f64" for param in kernel.arrays)
    if floats == "f32" and is_texts:
        pytest.skip("the text has no f64")
    strict = function.with_options(fp="strict", reassociate=False)
    text = kernels.load_all(case.source, fp="strict", reassociate=False)[kernel.name]
    for sizes in (*case.sizes, *case.medium):
        arguments = suites.arguments_of(case, kernel, sizes)
        if floats == "f32":
            arguments = narrow(case, arguments)
        plain, compiled = (as_called(function, kernel, arguments) for _ in range(2))
        with np.errstate(all="ignore"):
            expected = results(kernel, plain, function.reference(**plain))
        got = results(kernel, compiled, strict(**compiled))
        who = f"{case.name} {sizes}"
        for name, value in expected.items():
            if case.name in WITHIN_ULPS:
                np.testing.assert_allclose(got[name], value, rtol=0, atol=1e-6 * max(1.0, abs(value).max(initial=0.0)))
            else:
                assert same_bits(value, got[name]), f"{who}: `{name}`, CPython against compiled"
        assert_right(case, kernel, arguments, got, f"{who}: Python")
        if is_texts:
            held = copy_arguments(arguments)
            text(**held, **engines.sizes_to_pass(kernel, sizes))
            for name, value in got.items():
                assert same_bits(value, held[name]), f"{who}: `{name}`, the text against Python"


def test_the_suites_are_whole() -> None:
    """Thirty programs of PolyBench; each has its function, its reference and all that a head says, and no more are there."""
    assert sum(case.path.parent.name == "polybench" for case in PROGRAMS) == 30
    for case in PROGRAMS:
        assert None not in (case.loops, case.carried, case.kernels, case.cpu_kernels, case.fused, case.cpu_fused)
        assert case.sizes and case.medium
    for folder in {case.path.parent.name for case in PROGRAMS}:
        names = {only_kernel(case).name for case in PROGRAMS if case.path.parent.name == folder}
        assert names == set(suites.part(folder, "references").REFERENCES)
        functions = vars(suites.part(folder, "kernels")).values()
        assert names == {one.__name__ for one in functions if hasattr(one, "reference")}


def test_a_multigrid_cycle_converges() -> None:
    """The smoother and the residual here, the restriction and the prolongation of the examples: each V-cycle leaves
    less than a quarter of the residual."""
    folder, examples = ROOT / "tests" / "algorithms", ROOT / "examples"
    smooth, residual = (loopfuse.load(folder / f"multigrid_{name}.lf") for name in ("smooth", "residual"))
    restrict, prolong = (loopfuse.load(examples / f"multigrid_{name}.lf") for name in ("restrict", "prolong"))

    def cycle(u: np.ndarray, f: np.ndarray, spacing: float) -> None:
        for _ in range(2 if len(u) > 3 else 20):
            smooth(u=u, f=f, spacing=spacing)
        if len(u) > 3:
            coarse = np.zeros(((len(u) + 1) // 2,) * 2)
            restrict(u=u, f=f, coarse=coarse, spacing=spacing)
            correction = np.zeros_like(coarse)
            cycle(correction, coarse, 2 * spacing)
            prolong(coarse=correction, u=u)
            smooth(u=u, f=f, spacing=spacing)

    def left(u: np.ndarray, f: np.ndarray, spacing: float) -> float:
        r = np.zeros_like(u)
        residual(u=u, f=f, r=r, spacing=spacing)
        return float(np.abs(r).max())

    n = 33
    u, f = np.zeros((n, n)), np.random.default_rng(5).standard_normal((n, n))
    before = left(u, f, 1 / (n - 1))
    for _ in range(4):
        cycle(u, f, 1 / (n - 1))
        now = left(u, f, 1 / (n - 1))
        assert now < before / 4
        before = now
