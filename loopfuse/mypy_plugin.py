"""For mypy: `x: f32["H", "W"]` in a signature. Switched on in mypy's own settings:

    [tool.mypy]
    plugins = ["loopfuse.mypy_plugin"]

mypy takes text in an annotation's brackets for the name of a class, and there is none called `H`.
So the brackets of our types are taken away before it looks at them; what stays, `f32`, it knows.
An `Out` parameter becomes one that may be left out, and is then returned.
(pyright needs no plugin, and `Annotated[np.ndarray, f32["H", "W"]]` none with either.)
"""

from __future__ import annotations

from collections.abc import Iterable

from mypy.nodes import (
    ARG_OPT,
    Block,
    ClassDef,
    Decorator,
    FuncDef,
    IfStmt,
    Import,
    ImportFrom,
    MypyFile,
    Node,
    OverloadedFuncDef,
    TryStmt,
    WithStmt,
)
from mypy.plugin import Plugin
from mypy.types import AnyType, CallableType, Type, TypeOfAny, UnboundType, UnionType

NAMES = {
    "Out", "bf16", "boolean", "f16", "f32", "f64",
    "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
}  # fmt: skip


Names = dict[str, str]


class _Loopfuse(Plugin):
    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        """Called for each file once it is parsed, before anything is looked up in it."""
        names = _names(file)
        if names:
            _walk(file.defs, names)
        return []


def plugin(version: str) -> type[Plugin]:
    """What mypy asks a plugin's module for."""
    return _Loopfuse


def _names(file: MypyFile) -> Names:
    """What the file calls our types (`f32`, `loopfuse.f32`, `lf.f32`), and which each is."""
    found: Names = {}
    for one in file.imports:
        if isinstance(one, ImportFrom) and one.id == "loopfuse":
            found |= {alias or name: name for name, alias in one.names if name in NAMES}
        elif isinstance(one, Import):
            modules = [alias or name for name, alias in one.ids if name == "loopfuse"]
            found |= {f"{module}.{name}": name for module in modules for name in NAMES}
    return found


def _walk(nodes: Iterable[Node], names: Names) -> None:
    for node in nodes:
        match node:
            case FuncDef():
                for found in (node.type, node.unanalyzed_type):
                    _strip(found, names)
                for argument in node.arguments:
                    _strip(argument.type_annotation, names)
                _let_out_be_left_out(node, names)
                _walk(node.body.body, names)
            case Decorator():
                _walk([node.func], names)
            case OverloadedFuncDef():
                _walk(node.items, names)
            case ClassDef():
                _walk(node.defs.body, names)
            case IfStmt():
                _walk([*node.body, *([node.else_body] if node.else_body else [])], names)
            case TryStmt():
                rest = (node.else_body, node.finally_body)
                _walk([node.body, *node.handlers, *(one for one in rest if one)], names)
            case WithStmt():
                _walk([node.body], names)
            case Block():
                _walk(node.body, names)
            case _:
                pass


def _let_out_be_left_out(node: FuncDef, names: Names) -> None:
    """before: def scale(x: f32, y: Out, factor: f32) -> None
    after:  def scale(x: f32, y: Out = ..., factor: f32) -> Any"""
    out = [
        k for k, one in enumerate(node.arguments)
        if isinstance(found := one.type_annotation, UnboundType)
        and names.get(found.name) == "Out"
    ]  # fmt: skip
    if not out:
        return
    for k in out:
        node.arguments[k].kind = node.arg_kinds[k] = ARG_OPT
    for kind in (node.type, node.unanalyzed_type):
        if isinstance(kind, CallableType):
            for k in out:
                kind.arg_kinds[k] = ARG_OPT
            kind.ret_type = AnyType(TypeOfAny.explicit)


def _strip(found: Type | None, names: Names) -> None:
    match found:
        case UnboundType() if found.name in names:
            found.args = ()
        case UnboundType():
            for one in found.args:
                _strip(one, names)
        case CallableType():
            for one in (*found.arg_types, found.ret_type):
                _strip(one, names)
        case UnionType():
            for one in found.items:
                _strip(one, names)
        case _:
            pass
