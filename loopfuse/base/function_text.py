"""The text of Python functions, as it was when they were defined.

A function runs the code that was loaded, and its file may have been edited since. So what a file holds
is kept when a kernel in it is decorated, and text is taken for a function's only if it compiles to the
function's code: at its line, or elsewhere if the function was only moved. What was found stays.
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import importlib.machinery
import inspect
import linecache
import warnings
import weakref
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

KEPT = 8
"""How many states of a file are kept."""

_FUTURES = functools.reduce(int.__or__, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names))
_PLAIN_LOADERS = (importlib.machinery.SourceFileLoader, importlib.machinery.SourcelessFileLoader)


class NoText(LookupError):
    """There is no text of the function."""


class ChangedText(NoText):
    """There is text where the function was, but the function was made of another."""


@dataclass(frozen=True, slots=True)
class FunctionText:
    """`block`: the function's lines, which begin at line `first` of `lines`, those of the file."""

    path: str
    lines: tuple[str, ...]
    first: int
    block: tuple[str, ...]


_states: dict[str, list[tuple[str, ...]]] = {}
_found: dict[int, tuple[weakref.ref[CodeType], FunctionText]] = {}


def keep(function: FunctionType) -> None:
    """Remember what the function's file holds now, for it and for all that was defined with it."""
    code = function.__code__
    _keep(code.co_filename, _read(code.co_filename, function.__globals__))


def trust(code: CodeType, text: FunctionText) -> None:
    """`text` is that of `code`: they came together."""
    number = id(code)
    _found[number] = (weakref.ref(code, lambda _: _found.pop(number, None)), text)


def text_of(function: FunctionType) -> FunctionText:
    """The text that `function` was made of. NoText where none is found, ChangedText where there is
    another in its place."""
    code = function.__code__
    known = _found.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    try:
        path = inspect.getsourcefile(code) or code.co_filename
    except TypeError:
        path = code.co_filename
    _keep(path, _read(path, function.__globals__))
    states = _states.get(path, [])
    if not states:
        raise NoText
    strict = _is_compiled_as_it_stands(function.__globals__)
    for search in (_same_place, _moved, *([] if strict else [_rewritten])):
        for lines in reversed(states):
            first = search(lines, code)
            if first:
                found = FunctionText(path, lines, first, tuple(inspect.getblock(lines[first - 1 :])))
                trust(code, found)
                return found
    raise ChangedText


def _read(path: str, around: dict[str, Any]) -> tuple[str, ...]:
    linecache.checkcache(path)
    return tuple(linecache.getlines(path, around))


def _keep(path: str, lines: tuple[str, ...]) -> None:
    if not lines:
        return
    states = _states.setdefault(path, [])
    if lines in states:
        states.remove(lines)
    states.append(lines)
    del states[:-KEPT]


def _same_place(lines: tuple[str, ...], code: CodeType) -> int:
    known = _functions(lines, code.co_flags & _FUTURES).get(code.co_name, [])
    return next((c.co_firstlineno for c in known if c.co_firstlineno == code.co_firstlineno and _alike(c, code)), 0)


def _moved(lines: tuple[str, ...], code: CodeType) -> int:
    known = _functions(lines, code.co_flags & _FUTURES).get(code.co_name, [])
    places = [c.co_firstlineno for c in known if _alike(c, code)]
    return min(places, key=lambda place: abs(place - code.co_firstlineno), default=0)


def _rewritten(lines: tuple[str, ...], code: CodeType) -> int:
    """Of a module that is changed while it is imported (pytest rewrites what `assert` does): what the
    text says besides assertions is in the code."""
    known = _functions(lines, code.co_flags & _FUTURES, 1).get(code.co_name, [])
    here = [c for c in known if c.co_firstlineno == code.co_firstlineno]
    return code.co_firstlineno if any(_operations(c) <= _operations(code) for c in here) else 0


def _is_compiled_as_it_stands(around: dict[str, Any]) -> bool:
    loader = around.get("__loader__")
    return loader is None or isinstance(loader, type) or type(loader) in _PLAIN_LOADERS


@functools.lru_cache(maxsize=32)
def _functions(lines: tuple[str, ...], flags: int, optimize: int = -1) -> dict[str, list[CodeType]]:
    """The code of every function in a text, by name; of none where it cannot be compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            whole = compile(
                "".join(lines), "<text>", "exec", flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True, optimize
            )
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}
    found: dict[str, list[CodeType]] = {}
    rest = [whole]
    while rest:
        inner = [one for one in rest.pop().co_consts if isinstance(one, CodeType)]
        rest += inner
        for one in inner:
            found.setdefault(one.co_name, []).append(one)
    return found


def _alike(one: Any, other: Any) -> bool:
    """Both compute the same, wherever they stand."""
    if isinstance(one, CodeType) and isinstance(other, CodeType):
        return (
            one.co_code == other.co_code
            and one.co_names == other.co_names
            and one.co_varnames == other.co_varnames
            and one.co_freevars == other.co_freevars
            and one.co_cellvars == other.co_cellvars
            and (one.co_argcount, one.co_kwonlyargcount, one.co_posonlyargcount)
            == (other.co_argcount, other.co_kwonlyargcount, other.co_posonlyargcount)
            and _alike(one.co_consts, other.co_consts)
        )
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, frozenset):
        return one == other
    return type(one) is type(other) and repr(one) == repr(other)  # -0.0 is not 0.0, nan is nan


def _operations(code: CodeType) -> set[tuple[str, str]]:
    """What is done in a function, without the order."""
    found: set[tuple[str, str]] = set()
    for step in dis.get_instructions(code):
        value = step.argval
        if step.opname in ("BINARY_OP", "COMPARE_OP"):
            found.add((step.opname, step.argrepr))
        elif isinstance(value, CodeType):
            found |= _operations(value)
        elif step.opname.startswith(("LOAD_", "STORE_", "RETURN_CONST")):
            for name in value if isinstance(value, tuple) and step.opname.count("FAST") > 1 else (value,):
                found.add(("FAST" if "FAST" in step.opname else "", repr(name)))
    return found
