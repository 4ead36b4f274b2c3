"""Expressions on whole arrays, which are not compiled: the loop that says the same.

before:  return s*a + b                after:  out = np.empty_like(a)
                                               for i in range(len(a)):
                                                   out[i] = s*a[i] + b[i]
                                               return out
"""

from __future__ import annotations

import ast
import copy

from loopfuse.base.diagnostics import LoopfuseError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.python.context import Array, Reader

ITERATORS = "ijklmnpq"


def refuse_whole(reader: Reader, value: ast.expr, target: str = "") -> None:
    """Refuse `value`, which becomes the local `target` or is returned, if it is made of whole
    arrays of one rank; what it is then can be written as a loop."""
    names = _whole(reader, value)
    arrays = [reader.arrays[name.id] for name in names]
    if not names or len({len(array.extents) for array in arrays}) != 1:
        return
    rank = len(arrays[0].extents)
    used = {*reader.locals, *reader.arrays, *reader.scalars, *reader.values}
    free = [name for name in ITERATORS if name not in used]
    dtype = _dtype(reader, value, rank)
    if dtype is None or target in reader.arrays or len(free) < rank:
        return
    made = target or next(n for n in ("out", *(f"out{k}" for k in range(2, 99))) if n not in used)
    model, created = _creation(names, arrays, dtype)
    shape = [f"{model}.shape[{k}]" for k in range(rank)] if rank > 1 else [f"len({model})"]
    index = ", ".join(free[:rank])
    element = ast.unparse(_Elements(reader, [ast.Name(n, ast.Load()) for n in free[:rank]]).of(value))
    lines = [
        f"{made} = {created}",
        *(f"for {name} in range({extent}):" for name, extent in zip(free, shape)),
        f"{made}[{index}] = {element}",
    ]
    final = reader.final
    if not target and final is not None and final.value is not None:
        parts = final.value.elts if isinstance(final.value, ast.Tuple) else [final.value]
        texts = [made if part is value else reader.python.text(part) for part in parts]
        lines.append(f"return {', '.join(texts)}")
    reader.python.refuse(
        "whole-array",
        f"`{names[0].id}` is a whole array here; expressions on whole arrays are not compiled yet",
        names[0],
        "write the loop: " + ", ".join(f"`{line}`" for line in lines),
    )


def _creation(names: list[ast.Name], arrays: list[Array], dtype: DType) -> tuple[str, str]:
    """(whose shape the result has, the call that creates it)."""
    for name, array in zip(names, arrays):
        if array.dtype is dtype:
            return name.id, f"np.empty_like({name.id})"
    model = names[0].id
    word = "bool_" if dtype is DType.BOOL else _numpy_name(dtype)
    return model, f"np.empty({model}.shape, np.{word})"


def _numpy_name(dtype: DType) -> str:
    words = {"f": "float", "i": "int", "u": "uint"}
    return f"{words[dtype.value[0]]}{dtype.value[1:]}"


def _dtype(reader: Reader, value: ast.expr, rank: int) -> DType | None:
    """The type of an element of `value`; None where such an element cannot be compiled either."""
    zeros: list[ast.expr] = [ast.Constant(0) for _ in range(rank)]
    try:
        _, kind = reader.read(_Elements(reader, zeros).of(value))
    except LoopfuseError:
        return None
    return None if kind is None else kind.dtype


def _whole(reader: Reader, value: ast.expr) -> list[ast.Name]:
    """The arrays without subscripts in `value`, in text order."""
    finder = _Elements(reader, [])
    finder.visit(value)  # without subscripts to give it changes nothing
    return finder.found


class _Elements(ast.NodeTransformer):
    """An element of an expression on whole arrays: each array gets the subscripts `index`."""

    def __init__(self, reader: Reader, index: list[ast.expr]) -> None:
        self.reader, self.index = reader, index
        self.found: list[ast.Name] = []

    def of(self, value: ast.expr) -> ast.expr:
        """The element of `value`, which stays as it is."""
        return ast.fix_missing_locations(self.visit(copy.deepcopy(value)))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.reader.arrays:
            return node
        self.found.append(node)
        if not self.index:
            return node
        index = self.index[0] if len(self.index) == 1 else ast.Tuple(self.index, ast.Load())
        return ast.copy_location(ast.Subscript(node, index, ast.Load()), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return node  # an element already

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return node  # `x.shape`, `np.sqrt`

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "len":
            return node
        node.args = [self.visit(part) for part in node.args]
        return node
