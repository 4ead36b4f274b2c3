"""Programs changed in ways that must change no result, and mostly not the fusion either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import engines
import numpy as np
from case_files import array_dtype, copy_arguments, evaluate, same_bits
from metamorphic import Variant

from loopfuse import kernels, pipeline
from loopfuse.base.diagnostics import Source
from loopfuse.base.options import Options
from loopfuse.lang import nodes


def changed_source(variant: Variant) -> Source:
    """The changed program as a file."""
    return Source("changed.lf", variant.text)


def check_results(
    source: Source,
    name: str,
    variant: Variant,
    arguments: Mapping[str, Any],
    sizes: dict[str, int],
    compiled: bool,
) -> None:
    """Original and changed program give the same bits: interpreted, and compiled and fused."""
    kernel = engines.read(source, "strict").kernel(name)
    other = engines.read(changed_source(variant), "strict").kernel(variant.names.get(name, name))
    back = {new: old for old, new in variant.names.items()}
    held = copy_arguments(dict(arguments))
    if variant.zeroed in held:
        held[variant.zeroed][...] = 0
    given = {
        param.name: held[back.get(param.name, param.name)]
        for param in other.params
        if param.name != variant.zeroed or param.name in held
    }
    if variant.zeroed and variant.zeroed not in held:
        for param in other.arrays:
            if param.name == variant.zeroed:
                values = {**sizes, **{k: v for k, v in held.items() if np.ndim(v) == 0}}
                shape = tuple(evaluate(extent, values) for extent in param.extents)
                given[param.name] = np.zeros(shape, array_dtype(param.dtype))
    new_sizes = {variant.names.get(size, size): value for size, value in sizes.items()}
    expected = engines.interpret(kernel, held, sizes)
    compare(kernel, expected, engines.interpret(other, given, new_sizes), variant, "interpreted")
    if compiled:
        call = kernels.load_all(changed_source(variant), fp="strict", reassociate=False)[other.name]
        run = copy_arguments(given)
        call(**run, **engines.sizes_to_pass(other, new_sizes))
        compare(kernel, expected, run, variant, "compiled")


def compare(
    kernel: nodes.Kernel,
    expected: Mapping[str, np.ndarray],
    got: Mapping[str, Any],
    variant: Variant,
    who: str,
) -> None:
    """Every array but the one that is a temporary in one of the two."""
    for param in kernel.arrays:
        if param.name == variant.zeroed:
            continue
        right = got[variant.names.get(param.name, param.name)]
        assert same_bits(expected[param.name], right), f"{who}: `{param.name}`\n{variant.text}"


# ------------------------------------------------------------------------------------ plans


def facts(source: Source, name: str, names: dict[str, str], loops: dict[str, str]) -> dict[str, Any]:
    """What a plan says that a change should leave alone, in the changed program's names."""
    program = engines.read(source, "strict")
    planned = pipeline.plan_kernel(program, name, Options(target=engines.GPU))
    report = planned.report.to_dict()

    def loop(text: str) -> str:
        top = text.split(".")[0]
        return loops.get(top, top)

    def called(text: str) -> str:
        return names.get(text, text)

    sizes = {size: 97 + 4 * k for k, size in enumerate(sorted(map(called, symbols(report, program.kernel(name)))))}
    back = {old: sizes[called(old)] for old in symbols(report, program.kernel(name))}
    return {
        "launches": len(planned.tree.launches),
        "groups": sorted(sorted({loop(one) for one in info["loops"]}) for info in report["kernels"]),
        "homes": sorted((called(n), h) for info in report["kernels"] for n, h in info["homes"].items()),
        "traffic": value_of(report["traffic"]["after"]["bytes"], back),
    }


def symbols(report: Mapping[str, Any], kernel: nodes.Kernel) -> set[str]:
    """Names that formulas may hold."""
    found = set(kernel.sizes)
    return found | {param.name for param in kernel.scalars}


def value_of(formula: str, sizes: Mapping[str, int]) -> Any:
    """A formula at these sizes."""
    return eval(formula, {"__builtins__": {}, "min": min, "max": max}, dict(sizes))


def check_plan(source: Source, name: str, variant: Variant) -> list[str]:
    """What should be as before and is not."""
    before = facts(source, name, variant.names, variant.loops)
    after = facts(changed_source(variant), variant.names.get(name, name), {}, {})
    return [
        f"{what}: {before[what]} -> {after[what]}"
        for what in sorted(variant.same)
        if before[what] != after[what]
    ]
