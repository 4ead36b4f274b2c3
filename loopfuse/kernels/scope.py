"""What a Python function's meaning depends on besides its arguments: its text, the helpers it
calls, and the constants of the scopes around it, which may change between two calls.

A helper is known by what it computes: its text, its defaults, and the values of its own scopes, in
depth. So a function defined anew under its name (a notebook's cell run again, `importlib.reload`), a
default or a closure that changed, and an attribute of a class or an object that was set are all
seen by the next call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from loopfuse.base.function_text import NoText, text_of

_MISSING = object()
_LIBRARIES = ("numpy", "math", "builtins", "loopfuse", "scipy", "torch", "cupy", "numba")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))

_Check = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Look:
    """How to look at an outer thing: `read` gives it, or `_MISSING`; `source` is an expression over `names` that does the
    same where it is there, and raises KeyError or ValueError where it is not (none: an empty text)."""

    read: Callable[[], Any]
    source: str = ""
    names: tuple[Any, ...] = ()

    def __call__(self) -> Any:
        return self.read()


class Scope:
    """`text` tells two functions apart that would compile differently; `holds` says whether nothing outside has changed
    since."""

    def __init__(self, text: str, checks: list[_Check], quick: list[tuple[str, tuple[Any, ...]]]) -> None:
        self.text = text
        self.holds = _written(checks, quick)


def _written(checks: list[_Check], quick: list[tuple[str, tuple[Any, ...]]]) -> _Check:
    """One function that asks all checks (a call of each would cost a call of a kernel 0.1 us): first what is quick, where
    there is something, an expression over its names `{0}`, `{1}`..., which is true only where the check is."""
    names: dict[str, Any] = {"CHECKS": checks}
    terms: list[str] = []
    for number, (expression, values) in enumerate(quick):
        own = [f"V{number}_{k}" for k in range(len(values))]
        names |= zip(own, values)
        asked = f"CHECKS[{number}]()"
        terms.append(f"({expression.format(*own)} or {asked})" if expression else asked)
    text = f"""\
def holds():
    try:
        return {" and ".join(terms) or "True"}
    except (KeyError, ValueError):  # a name that is gone, an empty cell
        return all(check() for check in CHECKS)
"""
    exec(text, names)
    return names["holds"]


def capture(function: FunctionType) -> Scope:
    """The scope of `function` as it is now."""
    found = _Capture()
    found.function(function)
    return Scope("\n".join(found.texts), found.checks, found.quick)


class _Capture:
    """A walk over functions and the outer values that they name."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.checks: list[_Check] = []
        self.quick: list[tuple[str, tuple[Any, ...]]] = []
        self.seen: set[tuple[int, str]] = set()
        self.kept: list[Any] = []
        """What `seen` knows by its id, so that it stays the only one of that id."""

    def function(self, function: FunctionType) -> None:
        """Everything that `function` is made of."""
        if not self._is_new(function):
            return
        code = function.__code__
        self.texts.append(f"{code.co_filename}:{code.co_firstlineno}")
        try:
            self.texts.append("".join(text_of(function).block))
        except NoText:
            self.texts.append(repr((code.co_code, code.co_names, _constants(code))))
        self.texts.append(repr(_state((function.__defaults__, function.__kwdefaults__))))
        self._check(_same_function(function), *_quick_function(function))
        cells = dict(zip(code.co_freevars, function.__closure__ or ()))
        names = _names(code)
        for name in (*names, *code.co_freevars):
            if name in cells:
                look = _cell_reader(cells[name])
            elif name in function.__globals__:
                look = _global_reader(function.__globals__, name)
            else:
                continue
            self.value(name, look, names)

    def value(self, name: str, look: _Look, attributes: tuple[str, ...]) -> None:
        """An outer value that is called `name`; `attributes`: the names that the function uses,
        among them those of its parts."""
        value = look()
        if isinstance(value, ModuleType):
            self._check(_same(look, value), *_quick(look, value))
            if value.__name__.split(".")[0] not in _LIBRARIES:
                self._parts(name, value, attributes, _Look(lambda: sys.modules.get(value.__name__, value)))
            return
        function = _function_below(value)
        if function is not None:
            self._check(_same(look, value), *_quick(look, value))
            if not _is_of_library(function):
                self.function(function)
            return
        state = _state(value)
        self.texts.append(f"{name} = {state!r}")
        if isinstance(value, (*_PLAIN, tuple, list)) or _is_array(value):
            # A value that can change in place is compared each time; any other if it is another.
            always = _can_change(value)
            self._check(_equal(look, value, state, always), *(("", ()) if always else _quick(look, value)))
            return
        self._check(_same(look, value), *_quick(look, value))
        if not _is_of_library(value if isinstance(value, type) else type(value)):
            self._parts(name, value, attributes, look)

    def _check(self, check: _Check, source: str, names: tuple[Any, ...]) -> None:
        self.checks.append(check)
        self.quick.append((source, names))

    def _parts(self, name: str, value: Any, attributes: tuple[str, ...], look: _Look) -> None:
        for attribute in attributes:
            if hasattr(value, attribute) and self._is_new(value, attribute):
                read = _attribute_reader(look, attribute)
                self.value(f"{name}.{attribute}", read, attributes)

    def _is_new(self, value: Any, attribute: str = "") -> bool:
        key = (id(value), attribute)
        if key in self.seen:
            return False
        self.seen.add(key)
        self.kept.append(value)
        return True


def _names(code: CodeType) -> tuple[str, ...]:
    """The outer names and attributes in a function, those in functions inside it too."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return tuple(names)


def _constants(code: CodeType) -> tuple[Any, ...]:
    return tuple(
        (one.co_code, one.co_names, _constants(one)) if isinstance(one, CodeType) else repr(one)
        for one in code.co_consts
    )


def _function_below(value: Any) -> FunctionType | None:
    """The function that a call of `value` reads: itself, or that below numba's or functools'
    wrappers."""
    for _ in range(100):
        if isinstance(value, FunctionType):
            return value
        if isinstance(value, (type, ModuleType)):
            return None
        inner = getattr(value, "py_func", None) or getattr(value, "__wrapped__", None)
        if inner is None or inner is value:
            return None
        value = inner
    return None


def _is_of_library(value: Any) -> bool:
    return (getattr(value, "__module__", "") or "").split(".")[0] in _LIBRARIES


def _is_array(value: Any) -> bool:
    # np.float32 itself is no array, though it has `tobytes`.
    return hasattr(value, "tobytes") and hasattr(value, "dtype") and not isinstance(value, type)


def _can_change(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_can_change(part) for part in value)
    if isinstance(value, _PLAIN):
        return False
    return isinstance(value, list) or getattr(value, "ndim", 0) > 0


def _state(value: Any) -> Any:
    """What is compared and hashed of an outer value."""
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(_state(part) for part in value))
    if isinstance(value, dict):
        return ("dict", *((repr(key), _state(part)) for key, part in value.items()))
    if isinstance(value, _PLAIN):
        return (type(value).__name__, repr(value))
    if _is_array(value):
        return (str(value.dtype), getattr(value, "shape", ()), value.tobytes())
    # NumPy's functions had no qualified name before 2.2; every one of them has a name.
    name = getattr(value, "__qualname__", "") or getattr(value, "__name__", "")
    return (type(value).__name__, name)


# ------------------------------------------------------------------------ looking, and comparing


def _cell_reader(cell: Any) -> _Look:
    def look() -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return _MISSING

    return _Look(look, "{0}.cell_contents", (cell,))


def _global_reader(names: dict[str, Any], name: str) -> _Look:
    return _Look(lambda: names.get(name, _MISSING), "{0}[{1}]", (names, name))


def _attribute_reader(look: _Look, name: str) -> _Look:
    return _Look(lambda: getattr(look(), name, _MISSING))


def _quick(look: _Look, value: Any) -> tuple[str, tuple[Any, ...]]:
    """The expression for "it is the very same", and what it names."""
    if not look.source:
        return "", ()
    return f"{look.source} is {{{len(look.names)}}}", (*look.names, value)


def _same(look: _Look, value: Any) -> _Check:
    return lambda: look() is value


def _equal(look: _Look, value: Any, state: Any, always: bool) -> _Check:
    def check() -> bool:
        now = look()
        return (now is value and not always) or _state(now) == state

    return check


def _quick_function(function: FunctionType) -> tuple[str, tuple[Any, ...]]:
    if function.__kwdefaults__:
        return "", ()
    same = "{0}.__code__ is {1} and {0}.__defaults__ is {2} and not {0}.__kwdefaults__"
    return same, (function, function.__code__, function.__defaults__)


def _same_function(function: FunctionType) -> _Check:
    """It has the code and the defaults that it had: all of them can be set."""
    code, defaults, named = function.__code__, function.__defaults__, function.__kwdefaults__
    state = _state(named) if named else None

    def check() -> bool:
        return (
            function.__code__ is code
            and function.__defaults__ is defaults
            and (function.__kwdefaults__ is named)
            and (named is None or _state(named) == state)
        )

    return check
