"""`NAME=VALUE` on the command line: read, and refused in the command line's words."""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.base.dtypes import DType
from loopfuse.kernels.kernel import Kernel
from loopfuse.kernels.trial import known_sizes
from loopfuse.runtime.arrays.arguments import Parameter, check_scalar, refuse
from loopfuse.runtime.arrays.samples import read_number, read_value


class BadUsage(UserError):
    """A command or an option that no program could take: exit code 2, as click's own."""

    exit_code = 2


def bad_usage(code: str, message: str, fix: str) -> BadUsage:
    """A BadUsage with one sentence."""
    return BadUsage(Diagnostic(code, message, fix=fix))


@contextmanager
def usage() -> Generator[None, None, None]:
    """What is refused inside is an option: exit code 2."""
    try:
        yield
    except UserError as error:
        raise BadUsage(*error.diagnostics) from None


# ------------------------------------------------------------------------------------- values


def split_values(
    kernel: Kernel, values: Sequence[str], sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """`NAME=VALUE` texts (and `--size`) as keyword arguments on NumPy."""
    parameters = {p.name: p for p in kernel.signature.parameters}
    names = [*parameters, *kernel.signature.sizes]
    found: dict[str, Any] = known_sizes(kernel, sizes)
    given: set[str] = set()
    for item in values:
        name, equals, text = item.partition("=")
        if not equals or not name:
            raise bad_usage("bad-value", f"`{item}` is not NAME=VALUE", _fix_form(item, names))
        if name in given:
            raise refuse("doubled-argument", f"`{name}` is given twice")
        given.add(name)
        if name in parameters:
            with in_words_of_the_command_line():
                value: Any = _read(kernel.name, parameters[name], text, seed)
        elif name in kernel.signature.sizes:
            value = _size(item, name, text)
        else:
            raise refuse(
                "unknown-argument",
                f"`{kernel.name}` has no parameter or size `{name}`",
                f"its parameters and sizes are {', '.join(names)}",
            )
        if name in sizes and value != sizes[name]:
            raise refuse(
                "doubled-argument", f"`{name}` is {text}, and {sizes[name]} by `--size`"
            )
        found[name] = value
    return found


def _fix_form(item: str, names: Sequence[str]) -> str:
    name = item.partition("=")[0]
    if name in names:
        return f"write `{name}=...`"
    return f"write a name before and a value behind `=`; the names are {', '.join(names)}"


def _size(item: str, name: str, text: str) -> int:
    if not text.isdecimal() or len(text.lstrip("0")) > 18:
        kind = "of 0 or more, below 10^18" if text.isdecimal() else "of 0 or more"
        raise refuse(
            "bad-value",
            f"`{item[:60]}`: the size `{name}` is a whole number {kind}",
            f"write `{name}=480`",
        )
    return int(text)


def _read(kernel: str, parameter: Parameter, text: str, seed: int) -> Any:
    """The value of `text`; what NumPy cannot make, and numbers that become infinite, are refused."""
    if not parameter.is_array:
        try:
            number = read_number(text, parameter.name)
        except UserError:
            one = "true" if parameter.dtype is DType.BOOL else "1"
            raise refuse(
                "bad-value",
                f"`{parameter.name}={text}` is not a number",
                f"give one, such as `{parameter.name}={one}`",
            ) from None
        _check_number(kernel, parameter, text, number)
        return number
    try:
        return read_value(text, parameter, seed)
    except UserError:
        raise
    except (MemoryError, ValueError, OverflowError, TypeError) as error:  # of NumPy's, for shapes
        raise refuse("out-of-memory", f"cannot allocate `{parameter.name}={text[:60]}`") from error


def _check_number(kernel: str, parameter: Parameter, text: str, number: bool | int | float) -> None:
    kind = parameter.dtype.value
    rounded = check_scalar(kernel, parameter.name, parameter.dtype, number)
    infinite = isinstance(rounded, float) and math.isinf(rounded)
    if infinite and "inf" not in text.lower():
        raise refuse(
            "scalar-range",
            f"`{parameter.name}={text[:60]}` is too large for {kind}",
            f"give a smaller number, or declare a wider type; `{parameter.name}=inf` is infinity",
        )


# -------------------------------------------------------------------------------------- words


@contextmanager
def in_words_of_the_command_line() -> Generator[None, None, None]:
    """Fixes that a call in Python is told become what one types here."""
    try:
        yield
    except UserError as error:
        told = [replace(one, fix=_fix(one)) for one in error.diagnostics]
        if [one.fix for one in told] == [one.fix for one in error.diagnostics]:
            raise
        raise type(error)(*told) from error


def _fix(one: Diagnostic) -> str:
    """The fix of an argument's message, for the command line."""
    quoted = one.message.split("`")
    match one.code:
        case "missing-argument":
            name, _, kind = quoted[3].partition(": ")
            if "[" not in kind:
                return f"add `{name}={'true' if kind == 'bool' else '1'}`"
            shape = ",".join(["480"] * (kind.count(",") + 1))
            return f"add `{name}=random:{shape}`, or `{name}=` with a file or an image"
        case "missing-size":
            return f"add `{quoted[1]}=480`"
        case "wrong-rank":
            found = re.search(r"of rank (\d+), but", one.message)
            rank = int(found[1]) if found else 1
            several = "" if rank == 1 else "s"
            example = ",".join(["480"] * rank)
            return f"give an array of {rank} dimension{several}, such as `{quoted[3]}=random:{example}`"
        case "wrong-dtype":
            return f"save the array as {_kind(one)}, and give that file"
        case "scalar-type":
            kind = DType(_kind(one))
            if kind is DType.BOOL:
                return "give `true` or `false`"
            return "give a whole number" if kind.is_integer else "give a number"
        case "size-mismatch":
            shape = re.sub(r"`\(([\d, ]+?),?\)`", lambda found: f"[{found[1]}]", one.fix)
            return re.sub(r"^pass ", "give ", shape)
        case _:
            return one.fix


def _kind(one: Diagnostic) -> str:
    """`f32` of "expects `x` as f32[N], but ..."."""
    found = re.search(r"` as (\w+)", one.message)
    return found[1] if found else ""
