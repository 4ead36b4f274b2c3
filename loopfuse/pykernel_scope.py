"""What a Python function's meaning depends on besides its arguments: its text, the helpers it
calls, and the constants of the scopes around it, which may change between two calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

_MISSING = object()
_LIBRARIES = ("numpy", "math", "builtins", "loopfuse", "scipy", "torch", "cupy", "numba")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Scope:
    """`text` tells two functions apart that would compile differently; `watched` are the outer
    values it was made of, and how to look at them again."""

    text: str
    watched: tuple[tuple[Callable[[], Any], Any, Any], ...]

    def holds(self) -> bool:
        """Nothing outside has changed since."""
        for look, value, state in self.watched:
            now = look()
            if now is value and state is None:
                continue
            if _state(now) != (_state(value) if state is None else state):
                return False
        return True


def capture(function: FunctionType) -> Scope:
    """The scope of `function` as it is now."""
    texts: list[str] = []
    watched: list[tuple[Callable[[], Any], Any, Any]] = []
    _capture(function, texts, watched, set())
    return Scope("\n".join(texts), tuple(watched))


def _capture(
    function: FunctionType,
    texts: list[str],
    watched: list[tuple[Callable[[], Any], Any, Any]],
    seen: set[int],
) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    texts.append(f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}")
    try:
        texts.append(inspect.getsource(function))
    except (OSError, TypeError):
        texts.append(repr(function.__code__.co_code))
    code = function.__code__
    texts.append(repr((function.__defaults__, function.__kwdefaults__)))
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    for name in (*code.co_names, *code.co_freevars):
        if name in cells:
            look = _cell_reader(cells[name])
        elif name in function.__globals__:
            look = _global_reader(function.__globals__, name)
        else:
            continue
        value = look()
        if isinstance(value, ModuleType):
            if value.__name__.split(".")[0] in _LIBRARIES:
                continue
            for attribute in code.co_names:
                if hasattr(value, attribute):
                    read = _attribute_reader(value, attribute)
                    _watch(f"{name}.{attribute}", read, texts, watched, seen)
            continue
        _watch(name, look, texts, watched, seen)


def _watch(
    name: str,
    look: Callable[[], Any],
    texts: list[str],
    watched: list[tuple[Callable[[], Any], Any, Any]],
    seen: set[int],
) -> None:
    value = look()
    function = value if isinstance(value, FunctionType) else getattr(value, "py_func", None)
    if isinstance(function, FunctionType):
        watched.append((look, value, None))
        if (function.__module__ or "").split(".")[0] not in _LIBRARIES:
            _capture(function, texts, watched, seen)
        return
    state = _state(value)
    texts.append(f"{name} = {state!r}")
    # A value that can change in place is compared each time; any other only if it is another.
    watched.append((look, value, state if _can_change(value) else None))


def _can_change(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_can_change(part) for part in value)
    if isinstance(value, (list, type)):  # np.float32 itself is no array, though it has `tobytes`
        return isinstance(value, list)
    return hasattr(value, "tobytes") and getattr(value, "ndim", 0) > 0


def _state(value: Any) -> Any:
    """What is compared and hashed of an outer value."""
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(_state(part) for part in value))
    if isinstance(value, _PLAIN):
        return (type(value).__name__, repr(value))
    if hasattr(value, "tobytes") and hasattr(value, "dtype") and not isinstance(value, type):
        return (str(value.dtype), getattr(value, "shape", ()), value.tobytes())
    # NumPy's functions had no qualified name before 2.2; every one of them has a name.
    name = getattr(value, "__qualname__", "") or getattr(value, "__name__", "")
    return (type(value).__name__, name)


def _cell_reader(cell: Any) -> Callable[[], Any]:
    def look() -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            return _MISSING

    return look


def _global_reader(names: dict[str, Any], name: str) -> Callable[[], Any]:
    return lambda: names.get(name, _MISSING)


def _attribute_reader(module: ModuleType, name: str) -> Callable[[], Any]:
    return lambda: getattr(sys.modules.get(module.__name__, module), name, _MISSING)
