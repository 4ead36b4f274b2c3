"""Messages of the checker and the planner, which speak .lf, in Python's spelling; and what the
decorator's options may be."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, Label, UserError
from loopfuse.base.words import spell

_RANGE = re.compile(r"`(\w+) in ([^`]+?)\.\.([^`]+?)(?: step (-?\d+))?`")
_EXTENT = re.compile(r"\b0\.\.([\w+*/() -]+?)(?=$|[;,`])")
_EDGE = re.compile(r"repeat the edge: `(\w+)\.clamp\[([^`\]]*)\]`")
_FROM_END = re.compile(r"(?<=count from the end: )`(\w+\[)([^`]*)`")
_CAST = re.compile(r"`([^`]*)\b(f16|f32|f64|i8|i16|i32|i64|u8|u16|u32|u64)\(([^`]*)`")
_NUMPY = {"f": "float", "i": "int", "u": "uint"}

FIXES = {
    "assign-to-let": "use another name",
    "not-affine": "use subscripts and bounds made of iterators and sizes, with `+ -` and `* // %` "
    "by constants",
    "step-not-constant": "use a number, or one from outside the function, such as `STEP = 2`: another one is "
    "another compile",
    "not-parallel": "write `range` instead of `loopfuse.prange`, or write to another array",
    "swap-rotation": "exchange each array with one other in loops, or copy elements in a loop",
    "swap-too-deep": "exchange directly in the body of one loop, outside any `if`",
    "swap-mismatch": "exchange arrays that are created before the loop, of one type and shape",
}
"""Fixes that are said otherwise in Python, by code."""


Shapes = Mapping[str, tuple[str, ...]]
"""The extents of the arrays that the function names."""


Spelled = Mapping[str, str]
"""What a programmer writes for sizes that have no name in the function (`x_0`): `len(x)`, `x.shape[1]`."""


def in_python(diagnostic: Diagnostic, shapes: Shapes | None = None, spelled: Spelled | None = None) -> Diagnostic:
    """The diagnostic as a Python programmer would say it; others than .lf's stay as they are. In a
    fix, sizes are said as `len(x)` and `x.shape[1]`: nothing else has their names in the function."""
    shapes, spelled = shapes or {}, spelled or {}

    def said(text: str) -> str:
        return spell(_extents(text), spelled)

    fix = diagnostic.fix if "wraps" in diagnostic.fix else FIXES.get(diagnostic.code, diagnostic.fix)
    return replace(
        diagnostic,
        message=spell(diagnostic.message, spelled),
        label=said(diagnostic.label),
        labels=tuple(Label(one.span, said(one.text)) for one in diagnostic.labels),
        notes=tuple(spell(_fix(note, {}), spelled) for note in diagnostic.notes),
        fix=spell(_fix(fix, shapes), spelled, is_code=True),
    )


def unnamed_sizes(shapes: Shapes, words: Collection[str]) -> dict[str, str]:
    """What a programmer writes for each size of the arrays that was named after one of them (`x_0`), as the function has no
    name for it: none of `words`."""
    made = {f"{name}_{axis}" for name, extents in shapes.items() for axis in range(len(extents))}

    def is_made(size: str) -> bool:
        return size not in words and (size in made or size.rpartition("_")[0] in made)

    return {size: text for size, text in _sizes(shapes).items() if is_made(size)}


def _extents(text: str) -> str:
    return _EXTENT.sub(lambda found: f"range({found[1].strip()})", text)


def _sizes(shapes: Shapes) -> dict[str, str]:
    """What a size is in the function: the length of an array of one dimension, where there is one."""
    found: dict[str, str] = {}
    for name, extents in sorted(shapes.items(), key=lambda one: len(one[1])):
        for axis in range(len(extents)):
            found.setdefault(extents[axis], extent_text(name, axis, len(extents)))
    return {size: text for size, text in found.items() if size.isidentifier()}


def extent_text(name: str, axis: int, rank: int) -> str:
    """What a programmer writes for an extent of an array of so many dimensions."""
    return f"len({name})" if rank == 1 else f"{name}.shape[{axis}]"


def _fix(text: str, shapes: Shapes) -> str:
    sizes = _sizes(shapes)

    def spelt(code: str) -> str:
        return re.sub(r"[A-Za-z_]\w*", lambda found: sizes.get(found[0], found[0]), code)

    def loop(found: re.Match[str]) -> str:
        lower, upper, step = spelt(found[2]), spelt(found[3]), found[4]
        bounds = [lower, upper] if lower != "0" or step else [upper]
        return f"`for {found[1]} in range({', '.join([*bounds, *([step] if step else [])])})`"

    def edge(found: re.Match[str]) -> str:
        name, extents = found[1], shapes.get(found[1], ())
        parts = [spelt(part.strip()) for part in found[2].split(",")]
        if len(parts) != len(extents):
            return f"repeat the edge: `{name}[..., loopfuse.clamp(i, n), ...]` with n that extent"
        moved = [not part.isidentifier() for part in parts]
        clamped = [
            f"loopfuse.clamp({part}, {extent_text(name, axis, len(extents))})" if moved[axis] or not any(moved) else part
            for axis, part in enumerate(parts)
        ]
        return f"repeat the edge: `{name}[{', '.join(clamped)}]`"

    text = _EDGE.sub(edge, _RANGE.sub(loop, text))
    text = _FROM_END.sub(lambda found: f"`{found[1]}{spelt(found[2])}`", text)
    return _CAST.sub(lambda m: f"`{m[1]}np.{_NUMPY[m[2][0]]}{m[2][1:]}({m[3]}`", text)


def remedy_in_python(text: str) -> str:
    """A report's remedy with the blocks that a Python kernel has."""
    text = text.replace("`fuse:`", "`with loopfuse.fuse():`")
    text = text.replace("`nofuse:`", "`with loopfuse.nofuse():`")
    return re.sub(r"`swap (\w+), (\w+)`", r"`\1, \2 = \2, \1`", text)


def plain_function(function: Any) -> Callable[..., Any]:
    """The plain function below other decorators; UserError for what is none."""
    plain = function
    if isinstance(function, FunctionType) and function.__name__ == "<lambda>":
        raise UserError(
            Diagnostic(
                "not-a-function-definition",
                "a kernel is a function written with `def`, not a lambda",
                fix="write `def name(x, y): ...` over loops",
            )
        )
    while not isinstance(plain, FunctionType):
        inner = getattr(plain, "py_func", None) or getattr(plain, "__wrapped__", None)
        if inner is None or inner is plain:
            raise UserError(
                Diagnostic(
                    "not-a-function-definition",
                    f"a kernel is a function written with `def`, not a {type(plain).__name__}",
                    fix="write `def name(x, y): ...` over loops",
                )
            )
        plain = inner
    plain = inspect.unwrap(plain)
    if _is_method(plain):
        raise UserError(
            Diagnostic(
                "not-a-function-definition",
                f"a kernel is a function, not a method: `{plain.__qualname__}` has a "
                f"`{next(iter(inspect.signature(plain).parameters))}`",
                fix="write it outside the class, with what it reads of the object as parameters",
            )
        )
    return plain


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether it stands in a class and takes its object. (Without that it is a static one.)"""
    around, _, _ = function.__qualname__.rpartition(".")
    first = next(iter(inspect.signature(function).parameters), "")
    return bool(around) and not around.endswith("<locals>") and first in ("self", "cls")
