"""Python kernels sent to other processes: pickled by name where they can be imported, else whole.

A function of an importable module is sent as `module` and `qualified.name`. One of a notebook, a
script or an interactive session, or one defined inside another function, is sent with all that it
is read with: its lines, its code, the outer values that it names, and its helpers likewise. In the
receiving process its lines stand in `linecache`, so that it is read, and errors in it are shown, as
where it came from. What arrives twice is one kernel there, compiled once.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import importlib.util
import inspect
import linecache
import marshal
import os
import pickle
import sys
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import CellType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

from loopfuse.base.diagnostics import Diagnostic, UserError
from loopfuse.base.function_text import FunctionText, NoText, text_of, trust
from loopfuse.kernels.types import annotated_types

KEPT = 256
"""How many kernels that arrived are known again when they arrive again."""

_received: dict[tuple[bytes, str], Any] = {}


# ------------------------------------------------------------------------------------ by name


def import_path(function: FunctionType) -> tuple[str, str] | None:
    """The module and the name in it by which another process finds `function`, decorated or not;
    None where there is none."""
    plain = _plain(_find(function))
    same = plain is function or (plain is not None and inspect.unwrap(plain) is function)
    return (function.__module__, function.__qualname__) if same else None


def _find(named: Any) -> Any:
    """What another process finds where `named` says that it stands; None for nothing."""
    name, path = getattr(named, "__module__", None), getattr(named, "__qualname__", None)
    module = sys.modules.get(name or "")
    if name == "__main__" or path is None or getattr(module, "__spec__", None) is None:
        return None
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _plain(value: Any) -> FunctionType | None:
    """The function that is a kernel's or numba's dispatcher's; a function itself, which a wrapper
    is too."""
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


# -------------------------------------------------------------------------------------- whole


@dataclass(frozen=True, slots=True)
class _Ref:
    """Number of a function that is sent along."""

    number: int


@dataclass(frozen=True, slots=True)
class _Module:
    """A module, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class _Holder:
    """A class that cannot be imported, or an instance of one: the attributes that are named."""

    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Named:
    """A named tuple whose class cannot be imported."""

    name: str
    fields: tuple[str, ...]
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Partial:
    """A function with some of its arguments (functools.partial)."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Sent:
    """One function: `code` is marshalled, `lines` its text from line `first` of `file`;
    `outer` are the globals that it names, `cells` what its closure holds (None: not assigned)."""

    name: str
    qualified: str
    module: str
    doc: str | None
    file: str
    first: int
    lines: tuple[str, ...]
    code: bytes
    outer: dict[str, Any]
    cells: tuple[tuple[Any] | None, ...] | None
    defaults: tuple[Any, ...] | None
    keyword_defaults: dict[str, Any] | None
    annotations: dict[str, Any]
    wrapped: Any
    """What the function says it wraps."""


class _Packer:
    """Collects a function and its helpers."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.functions: list[FunctionType] = []
        self.sent: list[_Sent] = []

    def pack(self, function: FunctionType) -> _Ref:
        known = self.numbers.get(id(function))
        if known is None:
            known = self.numbers[id(function)] = len(self.functions)
            self.functions.append(function)
        return _Ref(known)

    def value(self, value: Any, names: set[str]) -> Any:
        """`value` as it is sent; `names` are those that the function may ask of it."""
        if isinstance(value, ModuleType):
            return _Module(value.__name__)
        if type(value) is tuple:
            return tuple(self.value(part, names) for part in value)
        if isinstance(value, partial):
            given = {name: self.value(one, names) for name, one in value.keywords.items()}
            return _Partial(self.value(value.func, names), self.value(value.args, names), given)
        function = _plain(value)
        if function is not None:
            # By name only what is found by it: what a decorator wraps is not.
            return value if _find(value) is value else self.pack(function)
        if not _is_foreign(value if isinstance(value, type) else type(value)):
            return value
        match value:
            case int():  # an enumeration's member, say
                return int(value)
            case float():
                return float(value)
            case str():
                return str(value)
            case tuple():
                parts = tuple(self.value(part, names) for part in value)
                fields = getattr(value, "_fields", None)
                return parts if fields is None else _Named(type(value).__name__, fields, parts)
            case _:
                held = {n: getattr(value, n) for n in sorted(names) if hasattr(value, n)}
                return _Holder({n: self.value(v, names) for n, v in held.items() if v is not value})

    def one(self, function: FunctionType) -> _Sent:
        try:
            # Of the code: of a function that wraps another, the text would be the other's.
            text = text_of(function)
            path, lines, first = text.path, text.block, text.first
        except NoText:
            path, lines, first = function.__code__.co_filename, (), 0  # what arrives is refused as it would be here: no source
        names = _names(function.__code__)
        outer: dict[str, Any] = {}
        for name in sorted(names & function.__globals__.keys()):
            value = self.value(function.__globals__[name], names)
            if _can_be_sent(value):
                outer[name] = value
        return _Sent(
            function.__name__, function.__qualname__, function.__module__, function.__doc__,
            path, first, lines,
            marshal.dumps(function.__code__), outer, self.cells(function, names),
            self.value(function.__defaults__, names),
            {n: self.value(v, names) for n, v in (function.__kwdefaults__ or {}).items()} or None,
            _annotations(function), self.value(function.__dict__.get("__wrapped__"), names),
        )  # fmt: skip

    def cells(self, function: FunctionType, names: set[str]) -> tuple[tuple[Any] | None, ...] | None:
        if function.__closure__ is None:
            return None
        found: list[tuple[Any] | None] = []
        for cell in function.__closure__:
            try:
                found.append((self.value(cell.cell_contents, names),))
            except ValueError:
                found.append(None)
        return tuple(found)


def _is_foreign(kind: type) -> bool:
    """Another process cannot import the class."""
    module = sys.modules.get(kind.__module__)
    here = kind.__module__ == "__main__" or getattr(module, "__spec__", None) is None
    return here or "<locals>" in kind.__qualname__


def _annotations(function: FunctionType) -> dict[str, Any]:
    """The annotations that give types, evaluated: what their text names need not be sent."""
    types = annotated_types(function)
    found: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        if name in types:
            around = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
            while isinstance(annotation, str):
                annotation = eval(annotation, around)
            found[name] = annotation
    return found


def _names(code: CodeType) -> set[str]:
    """The names that `code`, and what is defined in it, may look up outside."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return found


def _can_be_sent(value: Any) -> bool:
    """`co_names` has attributes' names too: a global of such a name need not be what is meant, and
    is left out where it cannot be sent."""
    if isinstance(value, (_Ref, _Module, _Partial, int, float, str)):
        return True
    try:
        _dumps(value)
    except Exception:  # whatever a stranger's __reduce__ raises
        return False
    return True


def _dumps(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        cloudpickle = sys.modules.get("cloudpickle") or sys.modules.get("joblib.externals.cloudpickle")
        if cloudpickle is None:
            raise
        return cloudpickle.dumps(value, protocol=5)


def pack(function: FunctionType) -> bytes:
    """All that another process needs to have `function`."""
    packer = _Packer()
    packer.pack(function)
    while len(packer.sent) < len(packer.functions):
        packer.sent.append(packer.one(packer.functions[len(packer.sent)]))
    return _dumps((importlib.util.MAGIC_NUMBER, tuple(packer.sent)))


def unpack(data: bytes) -> FunctionType:
    """The function that `pack` wrote. UserError[other-python] where another version of Python
    wrote it."""
    magic, sent = pickle.loads(data)
    if magic != importlib.util.MAGIC_NUMBER:
        raise UserError(
            Diagnostic(
                "other-python",
                f"the kernel `{sent[0].name}` was sent by another version of Python, and cannot be "
                "imported here",
                fix="put it in a module that both can import",
            )
        )
    made: list[FunctionType] = []
    for one in sent:
        code: CodeType = marshal.loads(one.code)
        file = _place_lines(one) if one.lines else one.file
        outer: dict[str, Any] = {"__builtins__": builtins, "__name__": one.module}
        cells = None if one.cells is None else tuple(CellType() for _ in one.cells)
        code = code.replace(co_filename=file)
        function = FunctionType(code, outer, one.name, None, cells)
        if one.lines:
            trust(code, FunctionText(file, tuple(linecache.getlines(file)), one.first, one.lines))
        function.__qualname__, function.__module__ = one.qualified, one.module
        function.__doc__, function.__annotations__ = one.doc, dict(one.annotations)
        made.append(function)

    def value(found: Any) -> Any:
        match found:
            case _Ref():
                return made[found.number]
            case _Partial():
                given = {name: value(one) for name, one in found.keywords.items()}
                return partial(value(found.function), *value(found.arguments), **given)
            case _Module():
                return importlib.import_module(found.name)
            case _Holder():
                return SimpleNamespace(**{n: value(v) for n, v in found.attributes.items()})
            case _Named():
                # As a class of a script: it cannot be imported when it is sent on either.
                kind: Any = namedtuple(found.name, found.fields, module="__main__")  # pyright: ignore[reportUntypedNamedTuple]
                return kind(*map(value, found.values))
            case tuple():
                return tuple(value(part) for part in found) if type(found) is tuple else found
            case _:
                return found

    for one, function in zip(sent, made):
        function.__globals__.update({n: value(v) for n, v in one.outer.items()})
        function.__defaults__ = value(one.defaults)
        function.__kwdefaults__ = (
            {n: value(v) for n, v in one.keyword_defaults.items()} if one.keyword_defaults else None
        )  # pyright: ignore[reportAttributeAccessIssue]
        if one.wrapped is not None:
            function.__dict__["__wrapped__"] = value(one.wrapped)
        for cell, held in zip(function.__closure__ or (), one.cells or ()):
            if held is not None:
                cell.cell_contents = value(held[0])
    return made[0]


def _place_lines(sent: _Sent) -> str:
    """The file name under which the function's lines can be read here: its own, where they stand
    there or nothing else does."""
    known = list(linecache.getlines(sent.file))
    last = sent.first - 1 + len(sent.lines)
    if tuple(known[sent.first - 1 : last]) == sent.lines:
        return sent.file
    entry = linecache.cache.get(sent.file)
    ours = entry is not None and len(entry) == 4 and entry[1] is None
    free = not any(line.strip() for line in known[sent.first - 1 : last])
    name = sent.file
    if os.path.exists(name) or (known and not (ours and free)):
        digest = hashlib.sha256("".join(sent.lines).encode()).hexdigest()[:8]
        name, known = f"<{os.path.basename(sent.file).strip('<>')} {digest}>", []
    known += ["\n"] * (last - len(known))
    known[sent.first - 1 : last] = sent.lines
    linecache.cache[name] = (sum(map(len, known)), None, known, name)
    return name


# ----------------------------------------------------------------------------------- receiving


def reduce_kernel(kind: type[Any], function: FunctionType, options: Mapping[str, Any]) -> tuple[Any, ...]:
    """What `PythonKernel.__reduce__` gives; `kind` is that class, which is sent by name."""
    found = import_path(function)
    if found is not None:
        return receive_by_name, (kind, *found, dict(options))
    return receive_whole, (kind, pack(function), dict(options))


def receive_by_name(kind: type[Any], module: str, path: str, options: Mapping[str, Any]) -> Any:
    """The kernel of that name, if it is one and has these options, else one of the function."""
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    if isinstance(found, kind) and found.options == options:
        return found
    key = (f"{module}:{path}".encode(), repr(sorted(options.items())))
    function = _plain(found)
    return _keep(key, lambda: kind(function or found, **options))


def receive_whole(kind: type[Any], data: bytes, options: Mapping[str, Any]) -> Any:
    """The kernel that `pack` wrote the function of."""
    key = (hashlib.sha256(data).digest(), repr(sorted(options.items())))
    return _keep(key, lambda: kind(unpack(data), **options))


def _keep(key: tuple[bytes, str], make: Callable[[], Any]) -> Any:
    found = _received.get(key)
    if found is None:
        while len(_received) >= KEPT:
            _received.pop(next(iter(_received)), None)
        found = _received.setdefault(key, make())
    return found
