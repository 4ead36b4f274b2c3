"""One argument at a time: which parameter it is for, and whether it is what that asks for."""

from __future__ import annotations

import ctypes
import inspect
import keyword
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.base.dtypes import DType
from loopfuse.runtime.arrays.not_arrays import what_to_pass
from loopfuse.runtime.arrays.overlap import overlaps_itself
from loopfuse.runtime.arrays.packing import can_pack
from loopfuse.runtime.arrays.views import view
from loopfuse.runtime.binding import ArrayView, Value, numpy_dtype


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter as the manifest states it; `extents` are formulas (None: a scalar)."""

    name: str
    dtype: DType
    mode: str = "in"
    extents: tuple[str, ...] | None = None

    @property
    def is_array(self) -> bool:
        """True for an array parameter."""
        return self.extents is not None

    def __str__(self) -> str:
        if self.extents is None:
            return self.dtype.value
        return f"{self.dtype.value}[{', '.join(self.extents)}]"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call must look like: kernel name, parameters in order, sizes. `door` is the language in
    which the caller declares them: `lf`, `mlir` or `python`."""

    kernel: str
    parameters: tuple[Parameter, ...]
    sizes: tuple[str, ...]
    door: str = "lf"


def read_signature(manifest: Mapping[str, Any]) -> Signature:
    """The signature that a manifest (or its `kernel`, `parameters`, `sizes` part) states."""
    parameters = tuple(
        Parameter(
            one["name"],
            DType(one["dtype"]),
            one.get("mode", "in"),
            tuple(str(extent) for extent in one["extents"]) if one["kind"] == "array" else None,
        )
        for one in manifest["parameters"]
    )
    return Signature(manifest["kernel"], parameters, tuple(manifest["sizes"]))


def python_signature(signature: Signature) -> inspect.Signature:
    """A kernel's signature as Python has them: what must be given in order, then what may be left
    out. Annotations are texts."""
    given: list[inspect.Parameter] = []
    made: list[inspect.Parameter] = []
    for p in signature.parameters:
        name = f"{p.name}_" if keyword.iskeyword(p.name) else p.name
        says = str(p) if p.mode == "in" else f"{p.mode} {p}"
        if p.mode == "out":
            kind, default = inspect.Parameter.KEYWORD_ONLY, None
            made.append(inspect.Parameter(name, kind, annotation=says, default=default))
        else:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            given.append(inspect.Parameter(name, kind, annotation=says))
    return inspect.Signature([*given, *made])


# ------------------------------------------------------------------------------------- errors


_FIXES = {
    "bad-value": "give a number, a file or one of the words that `--help` lists",
    "cannot-read": "name a file that is there, can be read, and is what its name says",
    "cannot-write": "name a directory that is there and can be written, with room",
    "doubled-argument": "give it once",
    "out-of-memory": "use smaller arrays, or free memory",
    "size-mismatch": "pass sizes of 0 or more that fit together",
}
"""What to do where a message has nothing better to say."""


def refuse(code: str, message: str, fix: str = "", notes: Sequence[str] = ()) -> UserError:
    """A UserError with no place in a program."""
    return UserError(Diagnostic(code, message, notes=tuple(notes), fix=fix or _FIXES.get(code, "")))


def negative_size(kernel: str, name: str, number: int) -> UserError:
    """The error of a size below 0."""
    return refuse("size-mismatch", f"the size `{name}` of `{kernel}` is {number}, below 0")


def named(kernel: str, parameter: Parameter) -> str:
    """The start of most messages: what the kernel expects."""
    return f"`{kernel}` expects `{parameter.name}` as {parameter}"


def shape_text(shape: Sequence[int]) -> str:
    """`[4, 5]`."""
    return "[" + ", ".join(str(extent) for extent in shape) + "]"


# ---------------------------------------------------------------------------------- arguments


def _looks_right(parameter: Parameter, value: Any) -> bool:
    """The value is of the parameter's sort: an array for an array, no array for a scalar."""
    if value is None:
        return parameter.mode == "out"
    try:
        shape = getattr(value, "shape", 0)
    except Exception:  # a nested tensor has none, and says so as an error of its own
        shape = 0
    is_scalar = isinstance(value, (numbers.Number, np.generic)) or shape == ()
    return not is_scalar if parameter.is_array and parameter.extents else is_scalar


def arrange(
    signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Parameter]:
    """The parameter of each positional argument, in order. `out` arrays may be left out at the
    end, or all of them wherever they stand: then the rest are taken in order. The answer depends
    on the names and on the sort of each argument (None, scalar or array) alone."""
    kernel = signature.kernel
    known = {parameter.name for parameter in signature.parameters}
    for name in kwargs:
        if name not in known and name not in signature.sizes:
            names = ", ".join([p.name for p in signature.parameters] + list(signature.sizes))
            raise refuse(
                "unknown-argument",
                f"`{kernel}` has no parameter or size `{name}`",
                f"its parameters and sizes are {names}",
            )
    open_ = [p for p in signature.parameters if p.name not in kwargs]
    inner = [p for p in open_ if p.mode != "out"]
    if len(args) > len(open_):
        doubled = [p.name for p in signature.parameters[: len(args)] if p.name in kwargs]
        if doubled and len(args) <= len(signature.parameters):
            raise refuse(
                "doubled-argument",
                f"`{kernel}` got `{doubled[0]}` both by position and by name",
                "give it once",
            )
        raise refuse(
            "too-many-arguments",
            f"`{kernel}` takes {len(signature.parameters)} arguments, but got "
            f"{len(args) + len(kwargs)}",
            "its parameters are " + ", ".join(p.name for p in signature.parameters),
        )

    def missing(order: list[Parameter]) -> list[Parameter]:
        return [p for p in inner if p not in order[: len(args)]]

    def fits(order: list[Parameter]) -> bool:
        pairs = zip(order, args)
        return not missing(order) and all(_looks_right(p, value) for p, value in pairs)

    order = open_
    if len(args) == len(inner) < len(open_) and not fits(open_) and (fits(inner) or missing(open_)):
        order = inner
    absent = missing(order)
    if absent:
        raise refuse(
            "missing-argument",
            f"`{kernel}` needs `{absent[0].name}: {absent[0]}`, which was not given",
            f"pass it in order or as `{absent[0].name}=...`",
        )
    return order[: len(args)]


def spread(
    signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments by parameter name (see `arrange`), and the sizes given by name."""
    order = arrange(signature, args, kwargs)
    known = {parameter.name for parameter in signature.parameters}
    given = {parameter.name: value for parameter, value in zip(order, args)}
    given.update({name: value for name, value in kwargs.items() if name in known})
    sizes = {name: value for name, value in kwargs.items() if name not in known}
    return given, sizes


def read_array(kernel: str, parameter: Parameter, value: Any, packs: bool = False) -> ArrayView:
    """`value` as the array that `parameter` asks for, all checks but the extents made. `packs`: the
    caller copies an array whose elements do not lie at multiples of their size, where it can."""
    expects = named(kernel, parameter)
    found = view(value)
    if found is None:
        hint = "pass a NumPy, CuPy or PyTorch array (`np.asarray(...)`)"
        problem, fix = what_to_pass(parameter.name, value, parameter.mode != "in", hint)
        notes = [problem] if problem else ()
        raise refuse("not-an-array", f"{expects}, but got {_kind_of(value)}", fix, notes)
    assert parameter.extents is not None
    if not found.pointer and not found.is_empty:
        raise refuse(
            "not-an-array",
            f"{expects}, but got {_kind_of(value)} of shape {shape_text(found.shape)} without memory",
            "pass an array that holds its elements",
        )
    if found.dtype is not parameter.dtype:
        raise refuse(
            "wrong-dtype",
            f"{expects}, but got {found.dtype.value if found.dtype else found.dtype_name}"
            f"{shape_text(found.shape)}",
            _cast_hint(parameter, found),
        )
    if len(found.shape) != len(parameter.extents):
        raise refuse(
            "wrong-rank",
            f"{expects}, of rank {len(parameter.extents)}, but got rank {len(found.shape)}: "
            f"shape {shape_text(found.shape)}",
            f"pass an array of {len(parameter.extents)} dimension{'s' * (len(parameter.extents) != 1)}"
            + (f", such as `{parameter.name}.ravel()`" if len(parameter.extents) == 1 else ""),
        )
    if not (packs and can_pack(found)):
        _check_places(expects, parameter, found)
    if parameter.mode == "in":
        return found
    if found.library == "jax":
        raise refuse(
            "read-only",
            f"`{kernel}` writes `{parameter.name}`, but JAX arrays never change",
            f"pass a copy that may, such as `np.array({parameter.name})`"
            if parameter.mode == "inout" or found.device.kind == "cpu"
            else "pass a CuPy or PyTorch array to write to",
        )
    if found.read_only:
        raise refuse(
            "read-only",
            f"`{kernel}` writes `{parameter.name}`, but the array given is read-only",
            f"pass a writable array, such as `{parameter.name}.copy()`",
        )
    if overlaps_itself(found):
        raise refuse(
            "self-overlap",
            f"`{kernel}` writes `{parameter.name}`, but elements of the array given share memory: "
            f"shape {shape_text(found.shape)}, {shape_text(found.byte_strides)} bytes apart",
            f"pass an array with memory for each element, such as {_copy_of(parameter, found)}",
        )
    return found


def _copy_of(parameter: Parameter, found: ArrayView) -> str:
    """How to copy an array without gaps, as source."""
    if found.library == "torch":
        return f"`{parameter.name}.contiguous()`"
    if found.library in ("numpy", "cupy"):
        return f"`{parameter.name}.copy()`"
    return "a packed copy"


def _check_places(expects: str, parameter: Parameter, found: ArrayView) -> None:
    """Elements lie at multiples of their size, as code assumes of them (and GPUs ask for)."""
    item = found.item
    if found.is_empty:
        return
    for axis, step in enumerate(found.byte_strides):
        if step % item:
            raise refuse(
                "uneven-strides",
                f"{expects}, but neighbours along axis {axis} of the array given lie {step} bytes "
                f"apart, no multiple of the element's {item}",
                f"pass {_copy_of(parameter, found)}",
            )
    if found.pointer % item:
        copy = f"`{parameter.name}.clone()`" if found.library == "torch" else _copy_of(parameter, found)
        raise refuse(
            "unaligned",
            f"{expects}, but the array given starts at an address that is no multiple of the "
            f"element's {item} bytes",
            f"pass {copy}",
        )


def _cast_hint(parameter: Parameter, found: ArrayView) -> str:
    if found.library == "torch":
        return f"convert it with `.to(torch.{parameter.dtype.numpy_name})`"
    if parameter.dtype is DType.BF16:
        return "convert it with `.astype(ml_dtypes.bfloat16)`"
    return f"convert it with `.astype(np.{_numpy_word(parameter.dtype)})`"


def _numpy_word(dtype: DType) -> str:
    return "bool_" if dtype is DType.BOOL else dtype.numpy_name


def _kind_of(value: Any) -> str:
    """What was passed, in a message."""
    shown = repr(value) if _is_small(value) else "\n"
    if len(shown) <= 40 and "\n" not in shown:
        return f"{shown} ({type(value).__name__})"
    return f"a {type(value).__name__}"


def _is_small(value: Any, depth: int = 0) -> bool:
    """May it be printed? NumPy takes seconds for an array of twenty dimensions, and Python refuses
    an integer of 5,000 digits."""
    if isinstance(value, int):
        return value.bit_length() < 128
    if isinstance(value, (str, bytes)):
        return len(value) <= 40
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return len(items) <= 8 and depth < 4 and all(_is_small(one, depth + 1) for one in items)
    return value is None or isinstance(value, (float, complex, np.generic))


def _shown_integer(value: Any) -> str:
    """The integer as a message says it."""
    return str(value) if _is_small(value) else f"one of {value.bit_length()} bits"


def check_scalar(kernel: str, name: str, dtype: DType, value: Any) -> Value:
    """`value` as a Python number that `dtype` can hold; floats round to it.

    Takes Python and NumPy numbers and 0-d NumPy arrays. UserError[scalar-type] for the wrong
    sort, [scalar-range] for an integer that does not fit.
    """
    expects = f"`{kernel}` expects `{name}` as {dtype.value}"
    plain: Any = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0 else value
    if dtype is DType.BOOL:
        good = isinstance(plain, bool)
    elif dtype.is_float:
        good = isinstance(plain, (int, float)) and not isinstance(plain, bool)
        # ml_dtypes scalars have no `numbers` registration but convert exactly.
        if not good and isinstance(value, np.generic) and value.dtype.name == "bfloat16":
            plain, good = float(value), True
    else:
        good = isinstance(plain, int) and not isinstance(plain, bool)
    if not good:
        hint = "pass a number" if dtype is not DType.BOOL else f"pass `bool({name})`"
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            hint = f"pass `{name}.item()`"
        elif dtype.is_integer and isinstance(plain, float):
            hint = f"pass `int({name})`"
        elif dtype is not DType.BOOL and isinstance(plain, bool):
            hint = f"pass `{'int' if dtype.is_integer else 'float'}({name})`"
        elif isinstance(plain, complex):
            hint = f"pass `{name}.real`"
        raise refuse("scalar-type", f"{expects}, but got {_kind_of(value)}", hint)
    if dtype.is_integer:
        low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
        high = (1 << (dtype.bits - 1 if dtype.is_signed else dtype.bits)) - 1
        if not low <= plain <= high:
            raise refuse(
                "scalar-range",
                f"{expects}, from {low} to {high}, but got {_shown_integer(plain)}",
                "pass a number of that range, or declare a wider type",
            )
        return plain
    if dtype is DType.BOOL:
        return plain
    return _round_to(dtype, plain, expects)


def _round_to(dtype: DType, value: int | float, expects: str) -> float:
    """`value` rounded to the float type (overflow gives infinity, as in NumPy)."""
    try:
        exact = float(value)
    except OverflowError:
        raise refuse(
            "scalar-range",
            f"{expects}, but got an integer past its range",
            "pass a number of its range, or an infinity",
        ) from None
    if dtype is DType.F64:
        return exact
    if dtype is DType.F32:
        return ctypes.c_float(exact).value
    with np.errstate(over="ignore"):
        return float(np.asarray(exact).astype(numpy_dtype(dtype)))
