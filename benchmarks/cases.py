"""The benchmark cases: kernels, sizes, formulas and goals.

A case is a kernel of `examples/` or `benchmarks/kernels/` at three sets of sizes: one that fills
the GPU (`round`), one that is a multiple of nothing (`awkward`), and one for the tests (`tiny`).
Shapes and dtypes come from the kernel's own signature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import formulas as f

from loopfuse.base.diagnostics import Source
from loopfuse.kernels import kernel as kernels
from loopfuse.lang import native
from loopfuse.runtime.formulas import evaluate

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES, KERNELS = "examples", "benchmarks/kernels"

Sizes = Mapping[str, int]

BYTES = {"u8": 1, "f16": 2, "bf16": 2, "i32": 4, "f32": 4, "f64": 8}
TOLERANCES = {
    "f64": (1e-13, 1e-12),
    "f32": (1e-5, 1e-4),
    "f16": (1e-3, 2e-3),
    "bf16": (4e-3, 8e-3),
    "u8": (5e-4, 5e-3),
    "i32": (0.0, 0.0),
}
"""By the outputs' dtype: the error allowed in the 2-norm, and of the worst element against the
largest one. A byte may round the other way; a window that reads one wrong row is far outside."""


NATIVE_TOLERANCES = {**TOLERANCES, "f32": (5e-4, 1e-3)}
"""Under `fp="native"`, where a `tanh` may be off by 2**-11."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked of a case: `share` of the copy, `sweeps` per copy-time, or `call`
    (microseconds; smaller is better)."""

    kind: str
    value: float

    def text(self) -> str:
        """As the page says it."""
        words = {"share": "at least {:.2f}", "sweeps": "at least {:g}", "call": "under {:g} us"}
        return words[self.kind].format(self.value)

    def met(self, row: Mapping[str, Any]) -> bool:
        """True where a measured row reaches it."""
        if self.kind == "call":
            return row["loopfuse"] * 1e3 < self.value
        return row["share" if self.kind == "share" else "sweeps_per_copy"] >= self.value


@dataclass(frozen=True, slots=True)
class Array:
    """An array argument: its name, dtype, mode and shape."""

    name: str
    dtype: str
    mode: str
    shape: tuple[int, ...]
    below: int = 0
    """What elements of whole numbers are less than."""

    @property
    def bytes(self) -> int:
        """Its size in memory."""
        return BYTES[self.dtype] * math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table. `formula` gives what the kernel writes (`formulas`); `margin`: the
    width of the border, in the last two dimensions, that its `out` arrays keep; `fields`: the
    arrays of the copy it is held against, read and written once (none: every input read and every
    output written once); `sweeps`: time steps in a call; `pieces`: into how many parts along the
    first dimension the reference may be cut; `below`: of arrays of whole numbers the size that all
    elements are less than; `back_to_back`: the time of a call as the host sees many in a row, not
    the device's."""

    key: str
    title: str
    file: str
    kernel: str
    formula: Callable[[Any, f.Arrays], f.Arrays]
    round: Sizes
    awkward: Sizes
    tiny: Sizes
    scalars: Mapping[str, float | int] = field(default_factory=dict[str, float | int])
    goal: Goal | None = None
    margin: int = 0
    fields: tuple[str, ...] = ()
    sweeps: int = 0
    pieces: int = 1
    below: Mapping[str, str] = field(default_factory=dict[str, str])
    back_to_back: bool = False

    @property
    def source(self) -> Source:
        """The text of its file."""
        path = ROOT / self.file
        return Source(path.name, path.read_text())

    def load(self, **options: Any) -> Any:
        """Its kernel."""
        return kernels.load_all(self.source, **options)[self.kernel]

    def approximates(self) -> bool:
        """Does it compute something that `fp="native"` approximates?"""
        return _approximates(self.key)

    def sizes(self, variant: str) -> Sizes:
        """The sizes of `round`, `awkward` or `tiny`."""
        return {"round": self.round, "awkward": self.awkward, "tiny": self.tiny}[variant]

    def arrays(self, kernel: Any, variant: str) -> tuple[Array, ...]:
        """The kernel's array arguments at those sizes."""
        sizes = self.sizes(variant)
        return tuple(
            Array(
                one.name, one.dtype.value, one.mode,
                tuple(int(evaluate(extent, sizes)) for extent in one.extents),
                sizes.get(self.below.get(one.name, ""), 0),
            )
            for one in kernel.signature.parameters
            if one.extents is not None
        )  # fmt: skip

    def moved(self, arrays: tuple[Array, ...]) -> int:
        """The bytes that the copy reads and writes together."""
        if self.fields:
            return sum(2 * one.bytes for one in arrays if one.name in self.fields)
        return sum(one.bytes * (2 if one.mode == "inout" else 1) for one in arrays)

    def points(self, arrays: tuple[Array, ...]) -> int:
        """Points visited in a call: those of the largest array, once a sweep."""
        return max(math.prod(one.shape) for one in arrays) * max(self.sweeps, 1)


def grid(rows: int, columns: int) -> Sizes:
    """A plane's sizes."""
    return {"H": rows, "W": columns}


def box(planes: int, rows: int, columns: int) -> Sizes:
    """A volume's sizes."""
    return {"D": planes, "H": rows, "W": columns}


def plane(
    key: str,
    title: str,
    kernel: str,
    formula: Any,
    goal: Goal,
    file: str = "relaxation",
    **more: Any,
) -> Case:
    """A case on a plane of 8192^2, from `benchmarks/kernels`."""
    return Case(key, title, f"{KERNELS}/{file}.lf", kernel, formula, grid(8192, 8192),
                grid(8191, 8189), grid(37, 141), goal=goal, **more)  # fmt: skip


def steps(count: int, fields: tuple[str, ...], turns: int = 0) -> dict[str, Any]:
    """The parts of a case of `count` sweeps, in as many turns of its loop."""
    return {"scalars": {"steps": turns or count}, "sweeps": count, "fields": fields}


def softmax(width: int, dtype: str, share: float) -> Case:
    """Softmax of 2^27 elements in rows of that width."""
    key = f"softmax-{width}" if dtype == "f32" else f"softmax-{dtype}-{width}"
    file, kernel, formula = {
        "f32": (f"{EXAMPLES}/softmax.lf", "softmax", f.softmax),
        "bf16": (f"{KERNELS}/rows.lf", "softmax_bf16", f.row_softmax),
    }[dtype]
    rows = (1 << 27) // width
    return Case(key, f"softmax of rows of about {width}, {dtype}", file, kernel, formula, {"R": rows, "C": width},
                {"R": rows, "C": width - 1}, {"R": 13, "C": 37}, goal=Goal("share", share), pieces=8)  # fmt: skip


READ = 0.93
"""The time of a read over that of a copy of as many bytes."""
COPY, IMAGE = Goal("share", 0.97), Goal("share", 0.85)
BIG = 1 << 28
TENSOR = {"N": 64, "C": 64, "H": 112, "W": 112}

CASES = (
    Case("chain", "chain of ten, f32", f"{EXAMPLES}/chain.lf", "chain", f.chain,
         {"N": BIG}, {"N": BIG - 57}, {"N": 1003}, {"scale": 1.5}, COPY, pieces=8),
    Case("bias-gelu", "bias + GELU + residual, bf16", f"{KERNELS}/bias_gelu_residual.lf",
         "bias_gelu_residual", f.bias_gelu, {"R": 16384, "C": 8192}, {"R": 16381, "C": 8191},
         {"R": 13, "C": 37}, goal=COPY, pieces=8),
    Case("batchnorm", "batch-norm + ReLU + add, f32", f"{EXAMPLES}/batchnorm_relu_add.lf",
         "batchnorm_relu_add", f.batchnorm, TENSOR, {"N": 61, "C": 67, "H": 111, "W": 113},
         {"N": 2, "C": 3, "H": 5, "W": 7}, {"epsilon": 1e-5}, COPY, pieces=8),
    Case("chain-small", "chain of ten, f32, calls back to back", f"{EXAMPLES}/chain.lf", "chain",
         f.chain, {"N": 1 << 16}, {"N": (1 << 16) - 15}, {"N": 1003}, {"scale": 1.5},
         Goal("call", 10.0), back_to_back=True),
    Case("blur", "separable 3x3 blur, f32", f"{EXAMPLES}/blur.lf", "blur", f.blur,
         grid(8192, 8192), grid(8191, 8189), grid(37, 141), goal=IMAGE),
    plane("blur-f16", "separable 3x3 blur, f16", "blur_f16", f.blur, IMAGE, "images"),
    plane("blur-u8", "separable 3x3 blur, u8", "blur_u8", f.blur_bytes, IMAGE, "images"),
    Case("unsharp", "unsharp 5x5, f32", f"{EXAMPLES}/unsharp.lf", "unsharp", f.unsharp,
         grid(8192, 8192), grid(8191, 8189), grid(37, 141), {"amount": 1.5}, IMAGE),
    plane("unsharp-f16", "unsharp 5x5, f16", "unsharp_f16", f.unsharp, IMAGE, "images",
          scalars={"amount": 1.5}),
    plane("unsharp-u8", "unsharp 5x5, u8", "unsharp_u8", f.unsharp_bytes, IMAGE, "images",
          scalars={"amount": 1.5}),
    Case("harris", "Harris corners, f32", f"{EXAMPLES}/harris.lf", "harris", f.harris,
         grid(8192, 8192), grid(8191, 8189), grid(37, 141), goal=Goal("share", 0.75), margin=2),
    Case("diffusion", "horizontal diffusion, f32", f"{EXAMPLES}/horizontal_diffusion.lf",
         "horizontal_diffusion", f.horizontal_diffusion, {"K": 128, "J": 512, "I": 512},
         {"K": 127, "J": 511, "I": 509}, {"K": 3, "J": 17, "I": 141}, goal=Goal("share", 0.8),
         margin=2, pieces=8),
    plane("jacobi", "Jacobi 5-point, 16 sweeps, a temporary, f32", "jacobi", f.jacobi,
          Goal("sweeps", 5), **steps(16, ("a",))),
    plane("jacobi-swap", "Jacobi 5-point, 16 sweeps, swap, f32", "jacobi_swap", f.jacobi_swap,
          Goal("sweeps", 5), **steps(16, ("a",))),
    plane("jacobi-pair", "Jacobi 5-point, 8 turns of 2 sweeps, both arrays live, f32",
          "jacobi_pair", f.jacobi_pair, Goal("sweeps", 4.5), **steps(16, ("a",), 8)),
    plane("jacobi-sweep", "Jacobi 5-point, one sweep, f32", "jacobi_sweep", f.jacobi_sweep,
          Goal("share", 0.88), margin=1),
    plane("jacobi-f64", "Jacobi 5-point, 16 sweeps, a temporary, f64", "jacobi_double", f.jacobi,
          Goal("sweeps", 3), **steps(16, ("a",))),
    plane("box", "9-point box, 16 sweeps, f32", "box_nine", f.box_nine, Goal("sweeps", 3),
          **steps(16, ("a",))),
    plane("star", "radius-2 star (9 points), 16 sweeps, f32", "star_nine", f.star_nine,
          Goal("sweeps", 2.5), **steps(16, ("a",))),
    plane("fdtd", "FDTD-2D, three fields, 16 steps, f32", "fdtd", f.fdtd, Goal("sweeps", 2), "fdtd",
          **steps(16, ("ex", "ey", "hz"))),
    Case("heat", "heat 7-point, 8 steps, f32", f"{KERNELS}/heat.lf", "heat", f.heat,
         box(512, 512, 512), box(511, 509, 507), box(11, 13, 141), goal=Goal("sweeps", 2),
         **steps(8, ("a",))),
    Case("wave", "wave equation, 25 points, one step, f32", f"{KERNELS}/wave.lf", "wave_step",
         f.wave, box(512, 512, 512), box(511, 509, 507), box(13, 17, 141), {"courant": 0.1},
         Goal("share", 0.75)),
    Case("depthwise", "depthwise 3x3 + bias + ReLU, f32", f"{KERNELS}/depthwise_relu.lf",
         "depthwise_relu", f.depthwise, {"N": 32, "C": 256, "H": 112, "W": 112},
         {"N": 31, "C": 257, "H": 111, "W": 113}, {"N": 2, "C": 3, "H": 11, "W": 37}, goal=IMAGE,
         pieces=8),
    Case("bias-gelu-f32", "bias + GELU + residual, f32", f"{EXAMPLES}/bias_gelu_residual.lf",
         "bias_gelu_residual", f.bias_gelu, {"R": 16384, "C": 8192}, {"R": 16381, "C": 8191},
         {"R": 13, "C": 37}, pieces=8),
    Case("scale-relu-add", "scale + ReLU + add, f32", f"{EXAMPLES}/scale_relu_add.lf",
         "scale_relu_add", f.scale_relu_add, {"R": 16384, "C": 8192}, {"R": 16381, "C": 8191},
         {"R": 13, "C": 37}, {"scale": 1.5}, pieces=8),
    Case("colours", "three colours normalised, f32", f"{KERNELS}/colours.lf", "normalise_colours",
         f.colours, grid(4096, 8192), grid(4095, 8189), grid(37, 141), pieces=8),
    Case("softmax", "softmax of rows, f32", f"{EXAMPLES}/softmax.lf", "softmax", f.softmax,
         {"R": 32768, "C": 4096}, {"R": 32749, "C": 4093}, {"R": 13, "C": 37}, goal=Goal("share", 0.95)),
    Case("softmax-bf16", "softmax of rows, bf16", f"{KERNELS}/rows.lf", "softmax_bf16", f.row_softmax,
         {"R": 32768, "C": 4096}, {"R": 32749, "C": 4093}, {"R": 13, "C": 37}, pieces=8, goal=Goal("share", 0.92)),
    *(softmax(width, "f32", share) for width, share in ((128, 0.95), (1000, 0.95), (32768, 0.88), (131072, 0.8))),
    *(softmax(width, "bf16", share) for width, share in ((128, 0.92), (1000, 0.92), (32768, 0.85), (131072, 0.6))),
    Case("layernorm-gelu", "residual + layernorm + GELU, bf16", f"{KERNELS}/rows.lf", "layernorm_gelu_bf16",
         f.layernorm_gelu, {"R": 32768, "C": 4096}, {"R": 32749, "C": 4093}, {"R": 13, "C": 37}, {"epsilon": 1e-5}, pieces=8, goal=Goal("share", 0.92)),
    Case("swiglu", "SwiGLU, bf16", f"{KERNELS}/rows.lf", "swiglu_bf16", f.swiglu,
         {"R": 16384, "C": 8192}, {"R": 16381, "C": 8191}, {"R": 13, "C": 37}, pieces=8, goal=Goal("share", 0.9)),
    Case("log-sums", "logarithms of sums of exponentials of rows, bf16", f"{KERNELS}/rows.lf", "log_sums_bf16",
         f.log_sums, {"R": 8192, "C": 50264}, {"R": 8192, "C": 50257}, {"R": 13, "C": 37}, goal=Goal("share", 0.65 / READ)),
    Case("cross-entropy", "cross-entropy of rows by labels, bf16", f"{KERNELS}/rows.lf", "cross_entropy_bf16",
         f.cross_entropy, {"R": 8192, "C": 50264}, {"R": 8192, "C": 50257}, {"R": 13, "C": 37},
         goal=Goal("share", 0.65 / READ), below={"label": "C"}),
    Case("rmsnorm", "RMSnorm, bf16", f"{KERNELS}/rows.lf", "rmsnorm_bf16", f.rmsnorm,
         {"R": 32768, "C": 4096}, {"R": 32749, "C": 4093}, {"R": 13, "C": 37}, {"epsilon": 1e-5}, pieces=8, goal=Goal("share", 0.96)),
    Case("rope", "RoPE from tables, bf16", f"{KERNELS}/rows.lf", "rope_bf16", f.rope,
         {"B": 8, "T": 4096, "H": 32, "D": 128}, {"B": 7, "T": 4093, "H": 37, "D": 126}, {"B": 2, "T": 3, "H": 5, "D": 14},
         goal=Goal("share", 0.95)),
    Case("layernorm-backward", "layernorm's backward pass, f32", f"{EXAMPLES}/layernorm_backward.lf", "layernorm_backward",
         f.layernorm_backward, {"R": 32768, "C": 4096}, {"R": 32749, "C": 4093}, {"R": 13, "C": 37}, goal=Goal("share", 0.85)),
    Case("column-sums", "sums of columns, f32", f"{KERNELS}/rows.lf", "column_sums", f.column_sums,
         {"R": 32768, "C": 4096}, {"R": 32749, "C": 4093}, {"R": 13, "C": 37}, goal=Goal("share", 0.92 / READ)),
    Case("column-softmax", "softmax of columns, f32", f"{KERNELS}/rows.lf", "column_softmax", f.column_softmax,
         {"R": 8192, "C": 16384}, {"R": 8191, "C": 16381}, {"R": 13, "C": 37}, goal=Goal("share", 0.8)),
    Case("column-softmax-tall", "softmax of long columns, f32", f"{KERNELS}/rows.lf", "column_softmax", f.column_softmax,
         {"R": 32768, "C": 4096}, {"R": 32749, "C": 4093}, {"R": 13, "C": 37}, goal=Goal("share", 0.6)),
    Case("group-norm", "group norm, f32", f"{KERNELS}/rows.lf", "group_norm", f.group_norm,
         {"N": 64, "G": 8, "D": 8, "P": 3136}, {"N": 61, "G": 7, "D": 9, "P": 3131}, {"N": 2, "G": 3, "D": 5, "P": 7},
         {"epsilon": 1e-5}, goal=Goal("share", 0.85)),
    Case("batch-norm", "batch norm + ReLU, f32", f"{KERNELS}/rows.lf", "batch_norm_relu", f.batch_norm_relu,
         {"N": 64, "K": 64, "P": 3136}, {"N": 61, "K": 67, "P": 3131}, {"N": 2, "K": 3, "P": 35}, {"epsilon": 1e-5}, goal=Goal("share", 0.85)),
    Case("prefix-sum", "prefix sum, f32", f"{KERNELS}/scans.lf", "prefix_sum", f.prefix_sum,
         {"N": BIG}, {"N": BIG - 57}, {"N": 1003}, goal=Goal("share", 0.78)),
    Case("recurrence-middle", "linear recurrence, the second of three dimensions, f32", f"{KERNELS}/scans.lf",
         "recurrence_middle", f.recurrence, {"B": 8, "T": 4096, "D": 2048}, {"B": 9, "T": 3637, "D": 2045},
         {"B": 2, "T": 17, "D": 5}, goal=Goal("share", 0.94)),
    Case("recurrence-last", "linear recurrence along rows, f32", f"{KERNELS}/scans.lf", "recurrence_last",
         f.recurrence, {"R": 64, "T": 1 << 20}, {"R": 61, "T": (1 << 20) - 3}, {"R": 2, "T": 517}, goal=Goal("share", 0.8)),
    Case("gated-recurrence", "gate, recurrence, product and SiLU, f32", f"{KERNELS}/scans.lf", "gated_recurrence",
         f.gated_recurrence, {"B": 8, "T": 4096, "D": 2048}, {"B": 9, "T": 3637, "D": 2045},
         {"B": 2, "T": 17, "D": 5}, goal=Goal("share", 0.8)),
    Case("statistics", "mean, variance, least, greatest and length, f32", f"{EXAMPLES}/stats.lf", "stats", f.statistics,
         {"N": BIG}, {"N": BIG - 57}, {"N": 1003}, goal=Goal("share", 0.95 / READ)),
    Case("unit-vector", "l2 norm and scale, f32", f"{KERNELS}/rows.lf", "unit_vector", f.unit_vector,
         {"N": BIG}, {"N": BIG - 57}, {"N": 1003}, goal=Goal("share", 0.95 * 2 / 3)),
    Case("histogram", "histogram of bytes", f"{KERNELS}/rows.lf", "histogram_u8", f.histogram,
         {"N": BIG, "B": 256}, {"N": BIG - 57, "B": 256}, {"N": 1003, "B": 256}, goal=Goal("share", 0.6 / READ),
         below={"count": "B"}),
    Case("l2norm", "l2 norm, f32", f"{EXAMPLES}/l2norm.lf", "l2norm", f.l2norm, {"N": BIG},
         {"N": BIG - 57}, {"N": 1003}, goal=Goal("share", 0.95 / READ)),
)  # fmt: skip

BY_KEY = {case.key: case for case in CASES}
ONE_EACH = {(case.file, case.kernel): case.key for case in reversed(CASES)}.values()
"""The cases, of those with one kernel the first."""


@cache
def _approximates(key: str) -> bool:
    case = BY_KEY[key]
    return bool(native.bounds(case.load().program().kernel(case.kernel)))


def chosen(words: str) -> tuple[Case, ...]:
    """The cases that a comma-separated list names (a word ending in `*` is a prefix); all for an
    empty one. KeyError for a word that names none."""
    if not words:
        return CASES
    names: set[str] = set()
    for word in words.split(","):
        prefix = word.removesuffix("*")
        found = {k for k in BY_KEY if k == word or (word.endswith("*") and k.startswith(prefix))}
        if not found:
            raise KeyError(f"no case `{word}`; there are {', '.join(BY_KEY)}")
        names |= found
    return tuple(case for case in CASES if case.key in names)


def count_launches(steps: Any, values: Mapping[str, Any]) -> int:
    """How many launches a manifest's steps make with these sizes and parameters."""
    total = 0
    for step in steps:
        if "launch" in step:
            total += int(evaluate(str(step["launch"]["grid"]), values)) > 0
            continue
        loop = step["loop"]
        lower, upper = (int(evaluate(str(loop[name]), values)) for name in ("lower", "upper"))
        for number in range(lower, upper, int(evaluate(str(loop["step"]), values))):
            total += count_launches(loop["body"], {**values, loop["var"]: number})
    return total
