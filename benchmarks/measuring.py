"""Random data, clocks, and the comparison with float64."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from cases import NATIVE_TOLERANCES, TOLERANCES, Array, Case
from words import torch_words

DTYPES = {
    "u8": torch.uint8,
    "i32": torch.int32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}
AHEAD = 3 << 27
"""Elements of the copy (about a millisecond) that runs ahead of a clock."""


# -------------------------------------------------------------------------------------- data


def random_inputs(arrays: tuple[Array, ...], device: str) -> dict[str, Any]:
    """Fresh random `in` and `inout` arrays."""
    made: dict[str, Any] = {}
    for one in arrays:
        if one.mode == "out":
            continue
        if one.dtype == "u8":
            made[one.name] = torch.randint(0, 256, one.shape, dtype=torch.uint8, device=device)
        elif one.dtype == "i32":
            made[one.name] = torch.randint(0, one.below, one.shape, dtype=torch.int32, device=device)
        else:
            wide = torch.rand(one.shape, device=device, dtype=DTYPES[one.dtype])
            made[one.name] = wide.add_(0.01)
    return made


def poisoned(arrays: tuple[Array, ...], device: str) -> dict[str, Any]:
    """The `out` arrays, full of NaN (bytes: 0xA5)."""
    return {
        one.name: torch.full(
            one.shape,
            0xA5 if one.dtype == "u8" else math.nan,
            dtype=DTYPES[one.dtype],
            device=device,
        )
        for one in arrays
        if one.mode == "out"
    }


def inside(value: Any, margin: int) -> Any:
    """An array without its border in the last two dimensions."""
    return value[..., margin:-margin, margin:-margin] if margin else value


# --------------------------------------------------------------------------------- the check


@dataclass(frozen=True, slots=True)
class Error:
    """The error in the 2-norm over that of the reference; the worst element's over the largest
    element of the reference; and what is wrong besides."""

    norm: float
    worst: float
    fault: str = ""

    def within(self, dtype: str, fp: str = "fast") -> bool:
        """True where the dtype allows it at that level of arithmetic. NaN is never within."""
        norm, worst = (NATIVE_TOLERANCES if fp == "native" else TOLERANCES)[dtype]
        return self.norm <= norm and self.worst <= worst and not self.fault


def _pieces(
    case: Case, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Inputs and outputs cut along the first dimension, where the case allows it."""
    largest = max(outputs.values(), key=lambda value: value.numel())
    length = largest.shape[0]
    size = -(-length // case.pieces) if case.pieces > 1 else length

    def cut(value: Any, start: int) -> Any:
        whole = not torch.is_tensor(value) or value.dim() != largest.dim()
        if case.pieces == 1 or whole or value.shape[0] != length:
            return value
        return value[start : start + size]

    for start in range(0, length, size):
        yield (
            {name: cut(value, start) for name, value in inputs.items()},
            {name: cut(value, start) for name, value in outputs.items()},
        )


def compare(case: Case, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Error:
    """`outputs` (of `out` arrays the inside) against the formula in float64."""
    words = torch_words(exact=True)
    off = norm = worst = top = 0.0
    for given, got in _pieces(case, inputs, outputs):
        wide = {k: v.double() if torch.is_tensor(v) else v for k, v in given.items()}
        exact = case.formula(words, wide)
        del wide
        for name, value in exact.items():
            difference = got[name].double().sub_(value)
            off += float(difference.square().sum())
            norm += float(value.square().sum())
            # NaN must not be lost in a maximum: Python's `max` would drop it.
            here = float(difference.abs_().max())
            worst = here if math.isnan(here) or math.isnan(worst) else max(worst, here)
            top = max(top, float(value.abs().max()))
        del exact
    return Error(math.sqrt(off / norm), worst / top)


def check(
    case: Case, arrays: tuple[Array, ...], inputs: Mapping[str, Any], held: Mapping[str, Any]
) -> Error:
    """What a kernel left in `held` against float64; the border of its `out` arrays is unwritten."""
    modes = {one.name: one for one in arrays if one.mode != "in"}
    outputs = {
        name: inside(held[name], case.margin if one.mode == "out" else 0)
        for name, one in modes.items()
    }
    found = compare(case, inputs, outputs)
    for name, one in modes.items():
        if one.mode == "out" and one.dtype != "u8":
            unwritten = int(torch.isnan(held[name]).sum())
            border = held[name].numel() - outputs[name].numel()
            if unwritten != border:
                return Error(found.norm, found.worst, f"{unwritten} elements of {name} unwritten")
    return found


# ---------------------------------------------------------------------------------- the clock


@dataclass(frozen=True, slots=True)
class Time:
    """Milliseconds: the median, and the tenth and ninetieth percentiles."""

    median: float
    low: float
    high: float


def summary(times: list[float]) -> Time:
    """The median and the spread."""
    ranked = sorted(times)
    last = len(ranked) - 1
    return Time(statistics.median(ranked), ranked[round(0.1 * last)], ranked[round(0.9 * last)])


class Clock:
    """Times calls on `device` (`cuda`, or `cpu` for a rehearsal), `runs` times each."""

    def __init__(self, device: str, runs: int = 25, batch: int = 200) -> None:
        self.device, self.runs, self.batch = device, runs, batch
        self._ahead: list[Any] = []
        self._copies: dict[tuple[int, bool], Time] = {}

    def wait(self) -> None:
        """Until the device has nothing to do."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def free(self) -> None:
        """Give memory back to the device, for libraries with an allocator of their own."""
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def of_device(self, call: Callable[[], Any]) -> Time:
        """Device time of a call, by events."""
        if self.device != "cuda":
            return self.of_host(call, lambda _: None, 1)
        for _ in range(3):
            call()
        if not self._ahead:
            self._ahead = [torch.rand(AHEAD, device="cuda") for _ in range(2)]
        self.wait()
        times: list[float] = []
        for _ in range(self.runs):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            # Work ahead of the clock keeps the GPU busy while the host prepares the call, so that
            # the events hold device time alone; it also empties the cache of the call's data.
            self._ahead[0].copy_(self._ahead[1])
            start.record()
            call()
            stop.record()
            stop.synchronize()
            times.append(start.elapsed_time(stop))
        return summary(times)

    def of_host(self, call: Callable[[], Any], wait: Callable[[Any], Any], batch: int) -> Time:
        """Time of a call as the host sees it, `batch` in flight; `wait` waits for a result."""
        wait(call())
        self.wait()
        times: list[float] = []
        for _ in range(self.runs):
            start = time.perf_counter()
            results = [call() for _ in range(batch)]
            wait(results[-1])
            self.wait()
            times.append((time.perf_counter() - start) / batch * 1e3)
            del results
        return summary(times)

    def back_to_back(self, call: Callable[[], Any]) -> Time:
        """Host and device together, many calls in a row."""

        def several() -> None:
            for _ in range(self.batch):
                call()

        found = self.of_host(several, lambda _: None, 1)
        return Time(found.median / self.batch, found.low / self.batch, found.high / self.batch)

    def of_case(self, case: Case, call: Callable[[], Any]) -> Time:
        """As the case wants it."""
        return self.back_to_back(call) if case.back_to_back else self.of_device(call)

    def copy(self, case: Case, count: int) -> Time:
        """A copy on the device that reads and writes `count` bytes together, measured once."""
        key = (count, case.back_to_back)
        if key not in self._copies:
            source = torch.rand(max(count // 8, 1), device=self.device)
            target = torch.empty_like(source)
            self._copies[key] = self.of_case(case, lambda: target.copy_(source))
        return self._copies[key]
