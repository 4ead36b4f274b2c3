"""The types of a Python kernel's arguments: from annotations, and from the values of a call."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from loopfuse.base.annotations import ArrayType, ScalarType
from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.base.dtypes import DType, from_numpy_name
from loopfuse.runtime.arrays.not_arrays import what_to_pass
from loopfuse.runtime.arrays.views import view

if TYPE_CHECKING:
    from loopfuse.frontend.python.context import Argument

Type = tuple[Any, ...]
"""A type as a key: ("array", dtype, rank, extents or None, mode) or ("number", dtype, weak)."""

_PYTHON = {float: (DType.F64, True), int: (DType.I64, True), bool: (DType.BOOL, True)}


def annotated_types(function: FunctionType) -> dict[str, Type]:
    """The types that annotations give. Those of other libraries (`np.ndarray`) say nothing here;
    UserError[unknown-annotation] for text that cannot be evaluated."""
    found: dict[str, Type] = {}
    around = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            around[name] = cell.cell_contents
        except ValueError:
            continue
    for name, annotation in function.__annotations__.items():
        if name == "return":
            continue
        if isinstance(annotation, str):
            try:
                while isinstance(annotation, str):  # as typing.get_type_hints does
                    annotation = eval(annotation, around)
            except Exception as error:
                raise UserError(
                    Diagnostic(
                        "unknown-annotation",
                        f"the annotation of `{name}` in `{function.__name__}` cannot be read: "
                        f"{error}",
                        fix='write `loopfuse.f32["N"]` for an array, `loopfuse.f32` for a number',
                    )
                ) from error
        known = type_of_annotation(annotation)
        if known is not None:
            found[name] = known
    return found


def type_of_annotation(annotation: Any) -> Type | None:
    """The type an annotation names, or None where it says nothing to us."""
    if isinstance(annotation, ArrayType):
        return ("array", annotation.dtype, len(annotation.extents), annotation.extents, annotation.mode)
    if isinstance(annotation, ScalarType):
        return ("number", annotation.dtype, False)
    # Annotated[np.ndarray, f32["N"]]: for type checkers the first, for us the second.
    for said in getattr(annotation, "__metadata__", ()):
        if isinstance(said, (ArrayType, ScalarType)):
            return type_of_annotation(said)
    if getattr(annotation, "__metadata__", None):
        return type_of_annotation(getattr(annotation, "__origin__", None))
    if annotation in _PYTHON:
        return ("number", *_PYTHON[annotation])
    dtype = getattr(annotation, "dtype", None)
    if isinstance(annotation, type) and dtype is not None:  # np.float32 and its kin
        known = from_numpy_name(annotation.__name__.rstrip("_"))
        return ("number", known, False) if known is not None else None
    return None


def type_of_value(
    kernel: str, name: str, value: Any, writes: Callable[[], bool] = lambda: False
) -> Type:
    """The type that a call's argument has. `writes`: whether the function changes it, as far as is
    known, for what is no array."""
    kind = type(value)
    if kind in _PYTHON:
        return ("number", *_PYTHON[kind])
    if isinstance(value, (ArrayType, ScalarType)):
        found = type_of_annotation(value)
        assert found is not None
        return found
    try:
        is_number = getattr(value, "shape", None) == () and hasattr(value, "dtype")
        dtype = from_numpy_name(str(value.dtype).removeprefix("torch.")) if is_number else None
    except Exception:  # a nested tensor has no shape, and says so as an error of its own
        dtype = None
    if dtype is not None:
        return ("number", dtype, False)
    seen = view(value) if not isinstance(value, numbers.Number) else None
    if seen is not None and seen.dtype is not None:
        return ("array", seen.dtype, len(seen.shape), None, "")
    what = f"{seen.dtype_name} array" if seen is not None else type(value).__name__
    fix = "pass arrays of numbers (NumPy, CuPy, PyTorch) and Python or NumPy numbers"
    problem = ""
    if seen is None:
        problem, fix = what_to_pass(name, value, writes(), fix)
    raise UserError(
        Diagnostic(
            "argument-type",
            f"`{kernel}` got `{name}` as a {what}, which no kernel can take",
            notes=(problem,) if problem else (),
            fix=fix,
        )
    )


def call_parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters' names with their defaults (`inspect.Parameter.empty` where there is none)."""
    return {
        name: parameter.default for name, parameter in inspect.signature(function).parameters.items()
    }


Dimensions = tuple[tuple[str, int], ...]
"""Extents, each an array argument and a position."""


def shapes_of(types: Mapping[str, Type], given: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the given arrays whose extents no annotation says."""
    found: dict[str, tuple[int, ...]] = {}
    for name, known in types.items():
        if known[0] == "array" and known[3] is None and name in given:
            seen = view(given[name])
            if seen is not None:
                found[name] = tuple(seen.shape)
    return found


def equal_extents(shapes: Mapping[str, tuple[int, ...]]) -> tuple[Dimensions, ...]:
    """Groups of two or more extents that are equal in `shapes`."""
    groups: dict[int, list[tuple[str, int]]] = {}
    for name, shape in shapes.items():
        for position, extent in enumerate(shape):
            groups.setdefault(extent, []).append((name, position))
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def in_both(
    first: tuple[Dimensions, ...], second: tuple[Dimensions, ...]
) -> tuple[Dimensions, ...]:
    """Groups of extents that are equal by `first` and by `second`."""
    parts = (tuple(place for place in one if place in other) for one in first for other in second)
    return tuple(part for part in parts if len(part) > 1)


def holds(equal: tuple[Dimensions, ...], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether extents of one group are equal in `shapes` too."""
    return all(
        len({shapes[name][position] for name, position in group if name in shapes}) <= 1
        for group in equal
    )


def to_arguments(types: Mapping[str, Type]) -> tuple[Argument, ...]:
    """The types as the reader of functions takes them."""
    from loopfuse.frontend.python.context import Argument

    out: list[Argument] = []
    for name, known in types.items():
        if known[0] == "number":
            out.append(Argument(name, known[1], weak=known[2]))
        else:
            out.append(Argument(name, known[1], known[2], known[3], known[4]))
    return tuple(out)
