"""The five ways to run a kernel, each as a function from arguments to what the arrays then hold.

Arguments are never changed: each way works on copies, and gives every array back by name.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from case_files import copy_arguments
from fuzz.machines import machine, no_array_stays, without_proofs

from loopfuse import pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import CPU, Options, Target, Tuning
from loopfuse.codegen.math.host import compiled_math
from loopfuse.kernels import kernel as kernels
from loopfuse.lang import nodes
from loopfuse.lang.interp import interpret as run_program
from loopfuse.proof.reductions import free_updates
from loopfuse.tree.interp.run import run_tree
from loopfuse.tree.looptree import Loop

GPU = Target("sm_80")
SMALL = Tuning(columns=2, rows=8, warps=1, steps=2)
"""Short chunks, and blocks of two time steps: eight take four times as long to prove and show
nothing that two do not (tests/plan/test_time_blocks.py has more)."""

Arrays = dict[str, np.ndarray]


@functools.lru_cache(maxsize=1)
def our_math() -> Mapping[str, Any]:
    """The math functions with the bits of compiled code."""
    return {
        f"{name}_{dtype.value}": function for (name, dtype), function in compiled_math().items()
    }


@functools.lru_cache(maxsize=64)
def read(source: Source, fp: str = "fast") -> nodes.Program:
    """The checked program."""
    return pipeline.read_program(source, fp)


def arrays_of(kernel: nodes.Kernel, arguments: Mapping[str, Any]) -> Arrays:
    """The arrays among `arguments`."""
    return {param.name: arguments[param.name] for param in kernel.arrays}


def interpret(kernel: nodes.Kernel, arguments: Mapping[str, Any], sizes: dict[str, int]) -> Arrays:
    """The slow interpreter: the meaning of the program."""
    written = run_program(kernel, arguments, sizes, math=our_math())
    return arrays_of(kernel, {**arguments, **written})


def plan(source: Source, name: str, target: Target, fuel: int | None, reassociate: bool) -> Any:
    """The planned kernel: `.tree` and `.report`. Windows get short chunks (SMALL), and so do the
    other strategies, so that small arrays have seams too and the LoopTree interpreter few threads.
    What random programs found is planned for the machine on which it was found."""
    return _plan(source, name, target, fuel, reassociate and has_reductions(source, name))


def has_reductions(source: Source, name: str) -> bool:
    """Does the kernel have updates whose order `reassociate` sets free? No other plan changes."""
    program = _plan(source, name, CPU, None, False).program
    free = (
        [free_updates(program.statements, array, allowed) for array in program.arrays]
        for allowed in (True, False)
    )
    return next(free) != next(free)


@functools.lru_cache(maxsize=64)
def _plan(source: Source, name: str, target: Target, fuel: int | None, reassociate: bool) -> Any:
    small = replace(SMALL, steps=3) if "% 3" in source.text else SMALL  # as levels come round
    options = Options(target=target, fuel=fuel, reassociate=reassociate, tuning=small)
    tiles = "tiny" if "machine=tiny" in source.text else "small"
    # Where the order of sums shows, the CPU's plan is the one that is compiled.
    # Unfused trees are proved where random programs are; here their results are compared.
    proofs = without_proofs() if fuel == 0 else nullcontext()
    with machine("usual" if reassociate and not target.is_gpu else tiles), proofs:
        return pipeline.plan_kernel(read(source), name, options)


def compiled_plan(
    source: Source, name: str, target: Target, fuel: int | None, reassociate: bool
) -> Any:
    """The kernel planned as it is compiled: nothing is made small."""
    options = Options(target=target, fuel=fuel, reassociate=reassociate)
    with machine("usual"):
        return pipeline.plan_kernel(read(source), name, options)


def is_wide(planned: Any) -> bool:
    """Whether some launch has a great many threads whatever the sizes (a two-stage reduction):
    the LoopTree interpreter then takes seconds."""

    def threads(nodes_: tuple[Any, ...]) -> int:
        most = 1
        for node in nodes_:
            if isinstance(node, Loop):
                constant = isinstance(node.upper, nodes.Const) and node.mapping.is_parallel
                count = int(node.upper.value) if constant else 1  # type: ignore[union-attr]
                most = max(most, count * threads(node.body))
        return most

    return any(threads(launch.body) > 20_000 for launch in planned.tree.launches)


def run_plan(
    source: Source,
    kernel: nodes.Kernel,
    arguments: Mapping[str, Any],
    sizes: dict[str, int],
    *,
    target: Target = CPU,
    fuel: int | None = None,
    reassociate: bool = False,
    order: str = "forward",
    as_compiled: bool = False,
) -> Arrays:
    """The LoopTree interpreter on the plan for `target`; `fuel=0` is the unfused one; `as_compiled`:
    the very plan that is compiled, whose sums have the order that a device takes."""
    if as_compiled:
        planned = compiled_plan(source, kernel.name, target, fuel, reassociate)
    else:
        planned = plan(source, kernel.name, target, fuel, reassociate)
    held = copy_arguments(dict(arguments))
    integers = {
        param.name: int(held[param.name]) for param in kernel.scalars if param.dtype.is_integer
    }
    run_tree(planned.tree, held, {**sizes, **integers}, our_math(), order=order)
    return arrays_of(kernel, held)


@functools.lru_cache(maxsize=64)
def loaded(source: Source, name: str, fuel: int | None, reassociate: bool) -> kernels.Kernel:
    """The compiled kernel."""
    found = kernels.load_all(source, fuel=fuel, reassociate=reassociate)
    return found[name]


def run_compiled(
    source: Source,
    kernel: nodes.Kernel,
    arguments: Mapping[str, Any],
    sizes: dict[str, int],
    *,
    fuel: int | None = None,
    reassociate: bool = False,
) -> Arrays:
    """Compiled code on the CPU, called as a user would call it, but that no array is taken to stay in its
    caches: small ones would run no blocks of time steps."""
    held = copy_arguments(dict(arguments))
    call = loaded(source, kernel.name, fuel, reassociate and has_reductions(source, kernel.name))
    # tests/tools/print_plans.py proves what is compiled of each program, and `plan` above this in small: where that
    # was not what was chosen first, the proof decides here too.
    is_first = not plan(source, kernel.name, CPU, fuel, reassociate).used
    with no_array_stays(), without_proofs() if is_first else nullcontext():
        call(**held, **sizes_to_pass(kernel, sizes))
    return arrays_of(kernel, held)


def sizes_to_pass(kernel: nodes.Kernel, sizes: dict[str, int]) -> dict[str, int]:
    """Sizes that stand alone in no extent: the caller must name them. (Among `sizes` may be parameters, too,
    where each run has another value; those are arguments already.)"""
    alone = {
        extent.name
        for param in kernel.arrays
        for extent in param.extents
        if isinstance(extent, nodes.Symbol)
    } | {param.name for param in kernel.params}
    return {name: value for name, value in sizes.items() if name not in alone}
