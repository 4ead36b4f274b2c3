"""Every case and every example, run in every way there is; the results must have the same bits.

Also: the examples against NumPy in float64, the number of kernels and the homes that the headers
promise, and refusals with the promised diagnostic.
"""

from __future__ import annotations

import json
from typing import Any

import engines
import numpy as np
import pytest
import references
from case_files import Case, assert_same, make_arguments, read_cases, read_examples, read_suites
from loop_facts import carried_text, fused_text, loops_text

from loopfuse import pipeline
from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.base.options import CPU, Options
from loopfuse.lang import nodes
from loopfuse.tree.looptree import HostLoop

EXAMPLES = read_examples()
PROGRAMS = tuple(case for case in read_cases() if case.error is None) + EXAMPLES + read_suites()
REFUSED = tuple(case for case in read_cases() if case.error is not None)


def named(case: Case) -> str:
    """How pytest shows a case."""
    return case.title


def arguments_of(
    case: Case, kernel: nodes.Kernel, sizes: dict[str, int], data: str
) -> dict[str, Any]:
    """Arguments for one run of a case."""
    return references.prepare(kernel.name, make_arguments(kernel, sizes, case.scalars, data))


@pytest.fixture(scope="module", params=PROGRAMS, ids=named)
def case(request: pytest.FixtureRequest) -> Case:
    """Each program in turn, with all its tests: they share its plans."""
    return request.param


def test_all_ways_agree(case: Case) -> None:
    """Interpreter = fused = LoopTree interpreter (CPU and GPU plans) = compiled. Trees run with
    their threads in both orders at the first size, backwards at the second."""
    agree(case, None)


def test_unfused_ways_agree(case: Case) -> None:
    """The same of the unfused plans, which in other cases than the examples are all alike."""
    agree(case, 0)


def agree(case: Case, fuel: int | None) -> None:
    """What the interpreter writes is what trees and compiled code write."""
    for kernel in engines.read(case.source).kernels:
        for number, sizes in enumerate(case.sizes or ({},)):
            arguments = arguments_of(case, kernel, sizes, case.data)
            expected = engines.interpret(kernel, arguments, sizes)
            common = (case.source, kernel, arguments, sizes)
            for target in (CPU, engines.GPU):
                wide = engines.is_wide(engines.plan(case.source, kernel.name, target, fuel, False))
                if number > 1 or (wide and (fuel == 0 or number > 0)):
                    continue
                one_order = wide or fuel == 0 or number > 0
                for order in ("reverse",) if one_order else ("forward", "reverse"):
                    got = engines.run_plan(*common, target=target, fuel=fuel, order=order)
                    who = f"{kernel.name} {sizes}: {target.name} tree, fuel={fuel}, {order}"
                    assert_same(kernel, expected, got, who)
            got = engines.run_compiled(*common, fuel=fuel)
            assert_same(kernel, expected, got, f"{kernel.name} {sizes}: compiled, fuel={fuel}")


def test_reordered_reductions_agree_on_whole_numbers(case: Case) -> None:
    """With reductions free to change order, plans and compiled code agree with each other bit for
    bit on any data where they are the same plan, and with the interpreter where sums are exact."""
    for kernel in engines.read(case.source).kernels:
        if not engines.has_reductions(case.source, kernel.name):
            continue
        for sizes in case.sizes or ({},):
            arguments = arguments_of(case, kernel, sizes, "small")
            common = (case.source, kernel, arguments, sizes)
            expected = engines.interpret(kernel, arguments, sizes)
            tree = engines.run_plan(*common, reassociate=True)
            if is_exact_on_whole_numbers(case):
                assert_same(kernel, expected, tree, f"{kernel.name} {sizes}: reordered tree")
                wide = engines.is_wide(
                    engines.plan(case.source, kernel.name, engines.GPU, None, True)
                )
                if not wide or sizes == case.sizes[0]:
                    device = engines.run_plan(*common, target=engines.GPU, reassociate=True)
                    assert_same(kernel, expected, device, f"{kernel.name}: reordered GPU tree")
            got = engines.run_compiled(*common, reassociate=True)
            assert_same(kernel, tree, got, f"{kernel.name} {sizes}: reordered, compiled")


def is_exact_on_whole_numbers(case: Case) -> bool:
    """Whether every partial sum of the program is exact on small whole numbers: not where what is
    summed is itself rounded (a quotient, an exponential), as in these."""
    return case.name not in {
        "alibi",
        "attention",
        "causal_attention",
        "group_norm",
        "selective_scan",
        "softmax",
        "softmax_loops",
        "cross_entropy",
        "layernorm_gelu",
        "correlation",
        "durbin",
        "gramschmidt",
        "ludcmp",
        "lu",
        "cholesky",
        "trisolv",
        "06_linear_recurrence",
        "gemver",
    }


@pytest.mark.parametrize("case", EXAMPLES, ids=named)
def test_examples_are_right(case: Case) -> None:
    """Each example against its NumPy reference, computed in float64."""
    for kernel in engines.read(case.source).kernels:
        for sizes in case.sizes:
            arguments = arguments_of(case, kernel, sizes, "random")
            if has_empty_reduction(kernel.name, arguments):
                continue
            wide = {
                name: np.asarray(value, np.float64)
                if np.asarray(value).dtype.kind == "f"
                else value
                for name, value in arguments.items()
            }
            with np.errstate(all="ignore"):
                right = references.REFERENCES[kernel.name](wide)
                narrow = references.REFERENCES[kernel.name](arguments)
            got = engines.interpret(kernel, arguments, sizes)
            written = {param.name for param in kernel.arrays if param.mode != "in"}
            assert written == set(right)
            for name, value in right.items():
                limit = references.TOLERANCE.get(str(got[name].dtype), 0.0)
                scale = max(1.0, float(np.max(np.abs(value), initial=0.0)))
                np.testing.assert_allclose(got[name], value, rtol=0, atol=limit * scale)
                assert narrow[name].dtype == got[name].dtype
                np.testing.assert_allclose(got[name], narrow[name], rtol=0, atol=2 * limit * scale)


def has_empty_reduction(kernel: str, arguments: dict[str, Any]) -> bool:
    """NumPy has no maximum of nothing, and its mean of nothing warns."""
    return kernel in {"l2norm", "stats"} and arguments["x"].size == 0


def test_plans_are_as_promised(case: Case) -> None:
    """The loops and what they carry, what was fused, the number of kernels, the strategy and the homes
    that the header states; and a report of each plan, whatever the program holds."""
    for kernel in engines.read(case.source).kernels:
        gpu = engines.plan(case.source, kernel.name, engines.GPU, None, True)
        cpu = engines.plan(case.source, kernel.name, CPU, None, True)
        for planned in (gpu, cpu):
            assert json.loads(json.dumps(planned.report.to_dict()))["kernel"] == kernel.name
        if case.kernels is not None:
            assert launches(gpu) == case.kernels, decisions(gpu)
        if case.cpu_kernels is not None:
            assert launches(cpu) == case.cpu_kernels, decisions(cpu)
        if case.strategy is not None:
            assert gpu.tree.launches[0].strategy == case.strategy
        for wanted, found in (
            (case.loops, loops_text(cpu)),
            (case.carried, carried_text(cpu)),
            (case.fused, fused_text(gpu)),
            (case.cpu_fused, fused_text(cpu)),
        ):
            assert wanted is None or found == wanted
        if case.homes is not None:
            homes = dict(pair for info in gpu.report.kernels for pair in info.homes)
            assert case.homes.items() <= homes.items(), homes


def launches(planned: Any) -> int:
    """How many launches the plan has: of those of which sizes say which runs, that one."""
    fits = planned.scheduled.fits.values()
    again = sum(node.turns != () for node in host_loops(planned.tree.body))  # one that is run in two turns
    return sum({id(fit): fit.launches for fit in fits}.values()) + again


def host_loops(nodes: Any) -> Any:
    """Every loop around launches."""
    for node in nodes:
        if isinstance(node, HostLoop):
            yield node
            yield from host_loops(node.body)


def decisions(planned: Any) -> str:
    """Why the loops are together or apart, to be read in a failure."""
    return "\n".join(f"{one.between}: {one.fused} {one.reason}" for one in planned.report.decisions)


@pytest.mark.parametrize("case", REFUSED, ids=named)
def test_refused(case: Case) -> None:
    """The program is refused with the promised diagnostic, by check, the model or the planner."""
    with pytest.raises(LoopfuseError) as caught:
        program = pipeline.read_program(case.source)
        for kernel in program.kernels:
            pipeline.plan_kernel(program, kernel.name, Options())
    assert case.error in {one.code for one in caught.value.diagnostics}


def test_there_are_enough_cases() -> None:
    """The directory was found: an empty parametrisation would pass silently."""
    assert len(read_cases()) >= 100
    assert {case.name for case in EXAMPLES} == set(references.REFERENCES)
