"""`loopfuse bench`: fused against unfused and tuned, beside a plain copy of the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from loopfuse.base.options import parse_target
from loopfuse.base.progress import progress_bar
from loopfuse.commands.bench_clock import WallClock, time_in_turns
from loopfuse.commands.bench_report import Found, Row, sizes_text
from loopfuse.commands.common import (
    Common,
    open_kernels,
    refuse,
    say,
    say_json,
)
from loopfuse.commands.values import in_words_of_the_command_line, split_values, usage
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.sizes import accepted_near
from loopfuse.kernels.targets import default_target
from loopfuse.kernels.trial import (
    constants_of,
    known_sizes,
    random_arguments,
    sizes_for,
)
from loopfuse.runtime.formulas import evaluate
from loopfuse.tuning.remember import Tuned, device_words
from loopfuse.tuning.session import choose_budget

# Without sizes given: the side of an array by its rank, about 64 MiB of f32 each.
DEFAULT_SIDES = {0: 1, 1: 1 << 24, 2: 4096, 3: 256, 4: 64}
DEFAULT_STEPS = 8
SECONDS_EACH = 0.6


def bench_file(
    file: str,
    common: Common,
    values: Sequence[str],
    seed: int,
    form: str = "text",
    tune: bool = False,
    seconds: float | None = None,
) -> bool:
    """Time every chosen kernel on random data and print what was found; `tune`: search for a tuning
    first, for about so many `seconds`. False where a tuning computed something else."""
    with usage():
        budget = choose_budget(tune, seconds)
    target = parse_target(common.target) if common.target else default_target(for_running=True)
    if target.is_gpu:
        from loopfuse.runtime.devices.cuda import need_gpu

        need_gpu()
    kernels = open_kernels(file, common)
    if values and len(kernels) > 1:
        raise refuse("which-kernel", "values need one kernel", "name it with `--kernel`")
    found: list[Found] = []
    for kernel, given in zip(kernels, sizes_for(kernels, dict(common.sizes))):
        with in_words_of_the_command_line():
            found.append(_bench(kernel, common, given, values, seed, target.is_gpu, budget))
        if form == "text":
            say(found[-1].to_text())
    if form == "json":
        several = len(found) != 1 or (common.kernel is None and len(kernels) > 1)
        data = [one.to_dict() for one in found]
        say_json(data if several else data[0])
    return not any(one.tuned and one.tuned.wrong for one in found)


def default_sizes(kernel: Kernel, given: Mapping[str, int]) -> dict[str, int]:
    """`given`, and for every other size the side of an array of its rank."""
    ranks: dict[str, int] = {}
    for parameter in kernel.signature.parameters:
        for extent in parameter.extents or ():
            if extent in kernel.signature.sizes:
                ranks[extent] = max(ranks.get(extent, 0), len(parameter.extents or ()))
    sizes = {
        name: DEFAULT_SIDES[min(4, ranks.get(name, 1))]
        for name in kernel.signature.sizes
    }
    for parameter in kernel.signature.parameters:
        if not parameter.is_array and parameter.dtype.is_integer:
            sizes[parameter.name] = DEFAULT_STEPS
    return sizes | dict(given)


def _accepted(
    kernel: Kernel, common: Common, sizes: dict[str, int], given: Mapping[str, int]
) -> dict[str, int]:
    """`sizes`, or those close to them that the kernel accepts: only what was given may be refused."""
    if set(sizes) <= set(given):
        return sizes
    target = common.target or default_target(for_running=True).words
    preconditions = kernel.report(target=target, **constants_of(kernel, sizes)).preconditions
    return accepted_near(kernel, sizes, given, preconditions)


def _bench(
    kernel: Kernel,
    common: Common,
    given: dict[str, int],
    values: Sequence[str],
    seed: int,
    on_gpu: bool,
    budget: float | None,
) -> Found:
    typed: dict[str, Any] = split_values(kernel, values, given, seed) if values else dict(given)
    for parameter in kernel.signature.parameters:  # sizes that typed arrays fix
        array = typed.get(parameter.name)
        if parameter.is_array and array is not None:
            for extent, actual in zip(parameter.extents or (), array.shape):
                if extent in kernel.signature.sizes:
                    given[extent] = actual
    integers = {name: v for name, v in typed.items() if type(v) is int}
    sizes = _accepted(kernel, common, default_sizes(kernel, given | integers), given | integers)
    try:
        arguments = random_arguments(kernel, sizes, seed) | typed
    except MemoryError:
        raise refuse(
            "out-of-memory", f"the arrays of `{kernel.name}` do not fit at {sizes_text(sizes)}"
        ) from None
    unfused = kernel.with_options(fuel=0)
    ready, library = _on_gpu(arguments) if on_gpu else (arguments, "numpy")
    numbers = known_sizes(kernel, sizes, strict=False)
    target = common.target or default_target(for_running=True).words
    report = kernel.explain(target=target, **numbers).report
    moved = report.traffic_after.value
    if moved is None:
        moved = int(evaluate(report.traffic_after.text, sizes))
    was = report.traffic_before.value
    if was is None:
        was = int(evaluate(report.traffic_before.text, sizes))
    perfect = _perfect_bytes(kernel, sizes)
    measured: list[tuple[str, Callable[[], Any], int, int | str]] = [
        ("fused", lambda: kernel(**ready), moved, report.launches_after)
    ]
    outputs = [p.name for p in kernel.signature.parameters if p.mode == "out"]
    if outputs and library:  # as a call that leaves its outputs out
        fixed = {name: value for name, value in numbers.items() if name in kernel.signature.sizes}
        left = {n: v for n, v in ready.items() if n not in outputs}
        given_arrays = [p for p in kernel.signature.parameters if p.is_array and p.name in left]
        taken = {extent for p in given_arrays for extent in p.extents or ()}
        left |= {name: value for name, value in fixed.items() if name not in taken}
        if given_arrays or not on_gpu:
            measured.append(("allocated", lambda: kernel(**left), moved, report.launches_after))
    tuned: Tuned | None = None
    if budget is not None:
        other = kernel.with_options(tune=True, tune_budget=budget)
        tuned = other.tune(**ready)
        # Steps in one launch change both; the report of a call knows the tuning.
        plan = other.explain(**ready).report
        now = plan.traffic_after.value
        count = int(evaluate(plan.traffic_after.text, sizes)) if now is None else now
        measured.append(("tuned", lambda: other(**ready), count, plan.launches_after))
    measured.append(("unfused", lambda: unfused(**ready), was, report.launches_before))
    measured.append(("copy", _copy(perfect, on_gpu), perfect, ""))
    calls = [call for _, call, _, _ in measured]
    with closing(_clock(on_gpu, library)) as clock, progress_bar(f"timing {kernel.name}") as tell:
        tell(0.0, ", ".join(name for name, *_ in measured))
        times = time_in_turns(calls, clock, SECONDS_EACH * len(calls))
    rows = tuple(
        Row(name, one.median, count, launches, one.humps, one.quickest)
        for (name, _, count, launches), one in zip(measured, times, strict=True)
    )
    device = device_words(0 if on_gpu else None)
    return Found(kernel.name, report.target, device, sizes, perfect, rows, tuned, report.fp)


def _perfect_bytes(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """Each argument read once if it is read, and written once if it is written."""
    total = 0
    for parameter in kernel.signature.parameters:
        if parameter.extents is not None:
            count = math.prod(int(evaluate(extent, sizes)) for extent in parameter.extents)
            total += count * parameter.dtype.bytes * (2 if parameter.mode == "inout" else 1)
    return total


class _Wall(WallClock):
    def close(self) -> None:
        """Nothing."""


def _clock(on_gpu: bool, library: str) -> Any:
    if not on_gpu:
        return _Wall()
    from loopfuse.commands.bench_device import EventClock

    return EventClock(covers=not library)


def _copy(moved: int, on_gpu: bool) -> Callable[[], None]:
    """A plain copy that reads and writes `moved` bytes together."""
    half = max(64, moved // 2)
    source, target = np.ones(half, np.uint8), np.empty(half, np.uint8)
    if not on_gpu:
        return lambda: np.copyto(target, source)
    from loopfuse.runtime.devices.gpu_arrays import DeviceArray, copy_device

    there, here = DeviceArray(target), DeviceArray(source)
    return lambda: copy_device(there, here, half)


def _on_gpu(arguments: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    from loopfuse.commands.bench_device import on_gpu

    return on_gpu(arguments)
