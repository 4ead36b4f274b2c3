"""Compiled code under an address sanitizer of our own making: every array lies between pages that
nobody may touch (`guarded`), once with its first element at the lower one, once with its last at
the upper one, with vectorisation on; and what it computes is what the interpreter does.

An access outside kills the process, so programs run in children, some in each: the failure names the
program that was being run. A sample by default; all programs with `-m slow`, for each width of
vectors, and as views.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from case_files import ROOT, Case, read_cases, read_examples, read_suites
from fuzz import engines, seeds
from fuzz.arguments import arguments_of, copied
from fuzz.compare import differs, has_reductions
from fuzz.program import Program
from guarded import SIDES, guard_all, guarded, guarded_workspaces, run_apart

from loopfuse.base.diagnostics import Source, UserError
from loopfuse.kernels import kernel as kernels

PARTS = 24
SAMPLE = 3
"""Of the parts that the programs are dealt out to, the default run takes one program each of so many."""
LEVELS = ("x86-64-v2", "x86-64-v3", "native")


def programs() -> tuple[Case, ...]:
    """Every case that compiles, and every example."""
    return tuple(case for case in read_cases() if case.error is None) + read_examples() + read_suites()


def part(number: int) -> tuple[Case, ...]:
    """One in `PARTS` of the programs."""
    return programs()[number::PARTS]


@pytest.mark.parametrize("number", range(SAMPLE))
def test_a_sample_touches_nothing_outside(number: int) -> None:
    """Two programs of a part; what they are differs with the part."""
    names = [case.path.stem for case in part(8 * number)[number::5][:2]]
    out = run_apart("test_guard_pages", "packed", *names)
    assert out.count(" ok") == len(names), out


def test_random_programs_touch_nothing_outside(tmp_path: Path) -> None:
    """A few; test_campaigns.py and `tests/loopfuse-fuzz --seeds` have more."""
    few = seeds.Settings("lf", 2_000_000, 2_000_008, failures=tmp_path)
    totals = seeds.run_seeds(few)
    found = [path.read_text() for path in tmp_path.glob("*.lf")]
    assert not totals.kinds and len(totals.done) == 8, "\n".join([totals.summary(few), *found])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("number", range(PARTS))
def test_programs_touch_nothing_outside(number: int, level: str) -> None:
    """Every program, packed; as views too where code is made for this machine."""
    names = [case.path.stem for case in part(number)]
    for kind in ("packed", "views") if level == "native" else ("packed",):
        out = run_apart("test_guard_pages", kind, *names, seconds=1700, LOOPFUSE_CPU=level)
        assert out.count(" ok") == len(names), out


# ------------------------------------------------------------------------------- in the child


def calls(case: Case) -> Iterator[Program]:
    """The program at each of its sizes, with data of another seed each."""
    text = case.path.read_text()
    for seed, sizes in enumerate(case.sizes or ({},)):
        yield Program(text, sizes, case.scalars, case.data, seed)


def check(case: Case, kind: str) -> None:
    """Each kernel of the case at each side and size; AssertionError where a result differs."""
    call_sets = list(calls(case))
    for kernel in kernels.load_all(case.source).values():
        constants = {name: int(case.scalars[name]) for name in kernel.constants}
        checked = kernel.program(constants)
        node = checked.kernel(kernel.name)
        if has_reductions(node):
            kernel = kernel.with_options(reassociate=False)
        for program in call_sets:
            arrays = [p.name for p in node.arrays]
            if kind == "views":
                views = zip(arrays, ("every_other", "window", "reversed", "upside_down") * len(arrays))
                program = replace(program, views=tuple(views))
            arguments = arguments_of(program, node)
            it = engines.Session(program, case.source, node, checked, arguments)
            expected = engines.interpret(it)
            for side in SIDES:
                held = guard_all(copied(program, arguments), side)
                with guarded_workspaces(side):
                    try:
                        got = engines.call_kernel(it, kernel, held)
                    except UserError as error:
                        # What a kernel may ask of its sizes, its first ones meet.
                        assert program is not call_sets[0], error
                        continue
                assert not (found := differs(it, expected, got)), f"{program.sizes} {side}: {found}"


def main() -> None:
    """`python -m test_guard_pages packed|views NAME...`"""
    kind, *names = sys.argv[1:]
    known = {case.path.stem: case for case in programs()}
    warnings.simplefilter("ignore")
    for name in names:
        print(known[name].path.relative_to(ROOT), flush=True)
        check(known[name], kind)
        print(f"{name} ok", flush=True)


# --------------------------------------------------------------------------- the sanitizer itself


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 9), (3, 4, 1025), (0, 3)])
def test_guarded_arrays_hold_what_they_should(shape: tuple[int, ...], side: str) -> None:
    """Their elements, strides and dtype, also as views."""
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    views = [array] if not shape else [array, array.T, array[::-1], array[..., ::2], array[1:]]
    for view in views:
        held = guarded(view, side)
        assert np.array_equal(held, view) and held.dtype == view.dtype
        assert held.strides == view.strides or view.size == 0
    broadcast = np.broadcast_to(np.arange(3), (4, 3))
    assert np.array_equal(guarded(broadcast, side), broadcast)


@pytest.mark.parametrize("where", ["before", "behind", "before a view", "behind a workspace"])
def test_what_touches_the_outside_is_killed(where: str) -> None:
    """One element is enough, on either side; the message says what it was at."""
    with pytest.raises(AssertionError, match="exit status -11") as caught:
        run_apart("guarded_outside", where)
    assert f"at\n{where}" in str(caught.value) and "Segmentation fault" in str(caught.value)


BACKWARDS = """\
kernel k(x: f64[N], out y: f64[N]):
    temp t: f64[N]
    t[0] = x[0]
    for i in 1..N:
        t[i] = t[i-1] + x[i]
    for i in 0..N:
        y[i] = t[N - 1 - i]
"""


@pytest.mark.parametrize("side", SIDES)
def test_workspaces_are_guarded(side: str) -> None:
    """What the runtime allocates for a call comes from there, on the first path and the generated one."""
    kernel = kernels.load_all(Source("k.lf", BACKWARDS))["k"]
    x = np.arange(40.0)
    for size in (40, 40, 8):
        with guarded_workspaces(side):
            held = guard_all({"x": x[:size], "y": np.zeros(size)}, side)
            kernel(**held)
        assert np.array_equal(held["y"], np.cumsum(x[:size])[::-1])
    with guarded_workspaces(side) as made:
        kernels.load_all(Source("k.lf", BACKWARDS))["k"](x, np.zeros(40))
    assert made[0] == 8 * 40, "the runtime allocates workspaces otherwise: see guarded.py"


if __name__ == "__main__":
    main()
