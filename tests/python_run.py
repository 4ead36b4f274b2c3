"""Runs a program's Python form (python_text.py): in CPython, and through the Python door."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import engines
import numpy as np
from case_files import copy_arguments
from python_names import door_names, plain_names
from python_text import python_text

import loopfuse
from loopfuse.base.diagnostics import Source
from loopfuse.frontend.lf.door import parse
from loopfuse.kernels import kernel as kernels
from loopfuse.lang import nodes
from loopfuse.lang.printer import print_kernel
from loopfuse.lang.semantics import array_dtype

_NUMBERS = count()


@dataclass(frozen=True)
class PythonForm:
    """A kernel as Python: the text, the function for CPython, and the one for the door."""

    text: str
    plain: Callable[..., None]
    door: Callable[..., None]
    names: Mapping[str, str]
    "Parameters whose names Python reserves, and what they are called here."


def python_form(source: Source, name: str, constants: Mapping[str, int] = {}) -> PythonForm:
    """Kernel `name` of `source` as Python. Raises Inexpressible."""
    text, called = python_text(parse(source), name, constants)
    plain, door = define(text, called, plain_names()), define(text, called, door_names())
    code = plain.__code__
    spoken = code.co_varnames[: code.co_argcount]
    module = parse(source)
    (kernel,) = (one for one in module.kernels if one.name == name)
    written = [param.name for param in kernel.params if not param.is_const]
    return PythonForm(text, plain, door, dict(zip(written, spoken)))


def define(text: str, name: str, names: dict[str, Any]) -> Callable[..., None]:
    """The function that `text` defines; its lines are found where `inspect` looks for them."""
    file = f"<python form {next(_NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names["__name__"] = f"python_form_{name}"
    exec(compile(text, file, "exec"), names)
    return names[name]


def run_plain(
    form: PythonForm, kernel: nodes.Kernel, arguments: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """What CPython makes of it, array by array."""
    held = copy_arguments(dict(arguments))
    given = {
        param.name: held[param.name]
        if isinstance(param, nodes.ArrayParam)
        else array_dtype(param.dtype).type(held[param.name])
        for param in kernel.params
        if param.name in form.names
    }
    with np.errstate(all="ignore"):
        form.plain(**{form.names[name]: value for name, value in given.items()})
    return engines.arrays_of(kernel, held)


def through_door(form: PythonForm) -> Any:
    """The kernel that the door reads, as `@loopfuse.kernel` would, in strict order."""
    return loopfuse.kernel(form.door, fp="strict", reassociate=False).specialise()


def run_door(
    found: Any, form: PythonForm, kernel: nodes.Kernel, arguments: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """What the decorated function makes of it."""
    held = copy_arguments(dict(arguments))
    found(**{form.names[n]: v for n, v in held.items() if n in form.names})
    return engines.arrays_of(kernel, held)


def run_text(
    source: Source, kernel: nodes.Kernel, arguments: Mapping[str, Any], sizes: dict[str, int]
) -> dict[str, np.ndarray]:
    """Compiled from the .lf text in strict order, fused, on the CPU."""
    held = copy_arguments(dict(arguments))
    call = kernels.load_all(source, fp="strict", reassociate=False)[kernel.name]
    call(**held, **engines.sizes_to_pass(kernel, sizes))
    return engines.arrays_of(kernel, held)


# --------------------------------------------------------------------------- same program


def normal(kernel: nodes.Kernel) -> str:
    """The core program as text, blind to what the two doors name by themselves: local scalars (a
    reduction in an expression has a local of its own in Python), iterators, labels, modes (an
    array that a function writes is `inout` to Python unless it is an `Out`)."""
    text = print_kernel(kernel)
    head, _, body = text.partition("\n")
    inside, _, _ = head.partition("(")[2].rpartition(")")
    params = [re.sub(r"\b(in|inout|out) ", "", part) for part in re.split(r", (?=\w+: )", inside)]
    fixed = set(re.findall(r"\w+", head))
    names: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        word = found[0]
        if word in fixed or word not in declared:
            return word
        return names.setdefault(word, f"v{len(names)}")

    declared = set(
        re.findall(
            r"(?:for|let|var|temp|over|sum|prod|min|max|any|all|,) ([A-Za-z_][\w.]*)(?= in\b| ?=|:)",
            body,
        )
    )
    body = re.sub(r"(?m)^( *)L[\d.]+ ", r"\1", body)
    body = re.sub(r"(?<!\w)(?<!\w\.)[A-Za-z_]\w*(?:\.[A-Za-z_0-9]\w*)*", rename, body)
    return "\n".join([*params, body])
