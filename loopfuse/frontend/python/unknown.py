"""Refuses calls of what a kernel does not have, each with what does the same: a function of another
library, a method, a function of whole arrays, a misspelt name."""

from __future__ import annotations

import ast
import math
import sys
from types import FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python import refuse as pyfunc_refuse
from loopfuse.frontend.python import vocabulary as words
from loopfuse.frontend.python.context import Reader
from loopfuse.frontend.python.source import MISSING
from loopfuse.frontend.python.subscripts import parts_of
from loopfuse.lang import idioms, ops

OTHERWISE = "write it as a function of your own, of numbers, or compute it before the call and pass it"
IMPORTS = {"np": "import numpy as np", "numpy": "import numpy", "math": "import math", "loopfuse": "import loopfuse"}
OWN = ("erf", "rsqrt")
VIEWS = ("T", "mT", "flat", "real", "imag")
COMPLEX = ("cmath", "emath", "scimath")
"""Modules whose functions give a complex number where these give NaN."""


def ranks(reader: Reader) -> dict[str, int]:
    """How many dimensions each array has."""
    return {name: len(array.extents) for name, array in reader.arrays.items()}


def is_foreign(function: FunctionType) -> bool:
    """Part of NumPy or the standard library: its source is no kernel code."""
    module = (function.__module__ or "").split(".")[0]
    return module in ("numpy", "math", "builtins", "scipy", "torch", "cupy", "functools", "loopfuse")


# ----------------------------------------------------------------------------------- spelling


def _module(reader: Reader, module: ModuleType, usual: str) -> str:
    """What the function's file calls a module."""
    around = {**reader.python.namespace, **reader.python.cells}
    names = [name for name, value in around.items() if value is module]
    return usual if usual in names or not names else names[0]


def _numpy_word(operation: str) -> str:
    """NumPy's word for an operation; "" where it has none."""
    known = (word for word, name in ops.named("numpy").items() if name == operation)
    return next((word for word in known if hasattr(np, word)), "")


def _meant(word: str) -> str:
    """The operation that some library calls so."""
    for each in ops.OPERATIONS:
        if each.function and word in (each.name, *each.numpy, *each.math, *each.near):
            return each.name
    return ""


def _spell(reader: Reader, operation: str, library: str) -> str:
    """How a kernel calls an operation, or writes a cast or infinity: in `math` if the call did."""
    numpy = _module(reader, np, "np")
    if operation in ("abs", "min", "max", "int"):
        return operation
    if operation in ("inf", "f64"):
        return f"{numpy}.{'inf' if operation == 'inf' else 'float64'}"
    if library == "math" and hasattr(math, operation) and operation in ops.named("math"):
        return f"{_module(reader, math, 'math')}.{operation}"
    if operation in OWN:
        return f"{_own(reader)}.{operation}"
    return f"{numpy}.{_numpy_word(operation)}"


def _own(reader: Reader) -> str:
    package = sys.modules.get("loopfuse")
    return _module(reader, package, "loopfuse") if package is not None else "loopfuse"


def _written(reader: Reader, word: str, arguments: list[str], library: str) -> str:
    """`write ...` for a function that is called `word` somewhere; "" where nothing does the same."""
    idiom = idioms.find(word, library)
    if idiom is not None:
        return idioms.write(idiom, arguments, lambda name: _spell(reader, name, library))
    operation = _meant(word)
    if not operation or operation == "fma" or (operation in OWN and not arguments):
        return ""
    if operation in ("pow", "clip"):
        spelt = {"pow": "pow", "clip": f"{_module(reader, np, 'np')}.clip"}[operation]
    else:
        spelt = _spell(reader, operation, library)
    note = ", which gives NaN where the result would be complex" if library in COMPLEX else ""
    return f"write `{spelt}({', '.join(arguments)})`{note}"


def _texts(reader: Reader, node: ast.Call) -> list[str]:
    return [reader.python.text(part) for part in node.args]


# -------------------------------------------------------------------------- names without a meaning


def refuse_name(reader: Reader, node: ast.Call) -> NoReturn:
    """Refuse a call of a name that nothing defines, or of a method of a number."""
    python, text = reader.python, reader.python.text(node.func)
    if not isinstance(node.func, ast.Attribute):
        fix = _written(reader, text, _texts(reader, node), "")
        near = idioms.misspelt(text, _callable_names(reader))
        if not fix and near:
            fix = f"did you mean `{near}`?"
        place = node if fix.startswith("write") else node.func
        python.refuse("undefined-name", f"`{text}` is not defined", place, fix or "check the spelling")
    root = _root(node.func)
    if root is not None and _is_undefined(reader, root.id):
        near = idioms.misspelt(root.id, {**python.namespace, **python.cells})
        fix = f"did you mean `{near}`?" if near else "check the spelling"
        if root.id in IMPORTS:
            fix = f"import it at the top of the file: `{IMPORTS[root.id]}`"
        python.refuse("undefined-name", f"`{root.id}` is not defined", root, fix)
    base = pyfunc_expr.resolve(reader, node.func.value)
    if base is MISSING:
        _refuse_number_method(reader, node)
    word = node.func.attr
    library = getattr(base, "__name__", "").rpartition(".")[2]
    fix = _written(reader, word, _texts(reader, node), library)
    if not fix and isinstance(base, ModuleType):
        near = idioms.misspelt(word, _names_of(base))
        fix = f"did you mean `{python.text(node.func.value)}.{near}`?" if near else ""
    python.refuse(
        "unknown-call",
        f"`{text}` is not a function that a kernel can call",
        node if fix.startswith("write") else node.func,
        fix or OTHERWISE,
    )


def _names_of(module: ModuleType) -> list[str]:
    """What a kernel can call of a module."""
    if module is np:
        known = [*ops.named("numpy"), *ops.NUMPY_OPERATORS]
    elif module is math:
        known = [*ops.named("math"), *ops.named("whole"), *ops.MATH_ANGLES]
    elif module.__name__ == "loopfuse":
        known = [*OWN, *(function.__name__ for function in words.EDGES)]
    else:
        known = list[str]()
    return [word for word in known if hasattr(module, word)]


def _callable_names(reader: Reader) -> list[str]:
    """Functions of the user's own around the kernel, and Python's that it can call."""
    around = {**reader.python.namespace, **reader.python.cells}
    mine = [name for name, value in around.items() if isinstance(value, FunctionType)]
    return [*mine, *ops.named("python"), "len", "float", "int", "bool"]


def _root(node: ast.expr) -> ast.Name | None:
    """The name that a dotted name begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _is_undefined(reader: Reader, name: str) -> bool:
    """Neither the kernel nor anything around it defines the name."""
    known = (reader.locals, reader.arrays, reader.scalars, reader.values, reader.created_names, reader.iterators)
    return not any(name in names for names in known) and reader.python.find(name) is MISSING


# ----------------------------------------------------------------------------------- methods


def is_array_method(reader: Reader, node: ast.Call) -> bool:
    """`x.sum()`, `x[i].item()`, `x.T.sum()` of an array."""
    function = node.func
    return isinstance(function, ast.Attribute) and _base(function.value) in reader.arrays


def _base(node: ast.expr) -> str:
    """The array that `x`, `x[i]` or `x.T` is of."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in VIEWS):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_element(reader: Reader, node: ast.expr) -> bool:
    if not isinstance(node, ast.Subscript):
        return False
    base, parts = parts_of(node)
    rank = len(reader.arrays[base.id].extents) if isinstance(base, ast.Name) and base.id in reader.arrays else 0
    return len(parts) == rank and not any(isinstance(part, ast.Slice) for part in parts)


def refuse_method(reader: Reader, node: ast.Call) -> NoReturn:
    """Refuse a method of an array, or of an element of one."""
    assert isinstance(node.func, ast.Attribute)
    value, name = node.func.value, node.func.attr
    if _is_element(reader, value):
        _refuse_number_method(reader, node)
    fixes = {
        "copy": f"`t = {reader.python.text(node)}` on a line of its own, and use `t`",
        "astype": "a cast of each element: `np.float32(x[i])`",
        "fill": "a loop that assigns its elements",
        "item": "the element itself: `x[0]`",
    }
    fix = fixes.get(name, "a loop over its elements")
    if name in pyfunc_refuse.WHOLE_ARRAY:
        fix = pyfunc_refuse.loop_of(name, node, ranks(reader))
    elif name not in fixes and isinstance(value, ast.Name):
        index = ", ".join("ijklmnpq"[k % 8] for k in range(ranks(reader)[value.id]))
        one = _written(reader, name, [f"{value.id}[{index}]", *_texts(reader, node)], "")
        fix = f"{one.removeprefix('write ')} in a loop over its elements" if one else fix
    reader.python.refuse(
        "array-method", f"`{reader.python.text(node.func)}` works on a whole array", node, f"write {fix}"
    )


def _refuse_number_method(reader: Reader, node: ast.Call) -> NoReturn:
    """Refuse `x[i].sin()`: NumPy's numbers have the methods of arrays."""
    assert isinstance(node.func, ast.Attribute)
    python, name = reader.python, node.func.attr
    value = python.text(node.func.value)
    if name in ("sum", "prod", "mean", "min", "max", "copy", "item", "conj", "conjugate", "squeeze", "ravel"):
        fix = f"write `{value}`, which is the number itself"
    else:
        fix = _written(reader, name, [value, *_texts(reader, node)], "") or OTHERWISE
    python.refuse("unknown-call", f"`{value}` is a number, whose methods a kernel does not have", node, fix)


# ---------------------------------------------------------------------------- functions that exist


def refuse_function(reader: Reader, node: ast.Call, function: Any) -> NoReturn:
    """Refuse a call of something that exists, and that a kernel cannot call."""
    python, text = reader.python, reader.python.text(node.func)
    _refuse_arrays(reader, node, function)
    _refuse_types(reader, node, function)
    name = getattr(function, "__name__", "")
    ufunc = getattr(function, "__self__", None)
    if isinstance(ufunc, np.ufunc):
        name = f"{ufunc.__name__}.{name}"
        name = pyfunc_refuse.UFUNC_METHODS.get(name, name)
    if name in pyfunc_refuse.ELSEWHERE:
        python.refuse(
            "whole-array-function",
            f"`{text}` works on whole arrays",
            node,
            "call it before the kernel, and pass what it gives",
        )
    arguments = _texts(reader, node)
    if name == "where" and len(arguments) == 3:
        python.refuse(
            "whole-array-function",
            f"`{text}` works on whole arrays, which is not compiled yet",
            node,
            _written(reader, name, arguments, ""),
        )
    arrays = any(_base(part) in reader.arrays and not _is_element(reader, part) for part in node.args)
    if name in pyfunc_refuse.WHOLE_ARRAY or isinstance(ufunc, np.ufunc) or arrays:
        known = name in pyfunc_refuse.WHOLE_ARRAY
        python.refuse(
            "whole-array-function",
            f"`{text}` works on whole arrays, which is not compiled yet",
            node,
            f"write {pyfunc_refuse.loop_of(name, node, ranks(reader)) if known else 'a loop over its elements'}",
        )
    if function is print:
        fix = "write the number to an array, and print that after the call"
    elif function is pow and len(arguments) == 3:
        fix = f"write `pow({arguments[0]}, {arguments[1]}) % {arguments[2]}`"
    else:
        module = getattr(function, "__module__", None) or ""
        fix = _written(reader, name, arguments, module.rpartition(".")[2])
    python.refuse(
        "unknown-call",
        f"`{text}` is not a function that a kernel can call",
        node if fix.startswith("write `") else node.func,
        fix or OTHERWISE,
    )


def _refuse_arrays(reader: Reader, node: ast.Call, function: Any) -> None:
    python, text = reader.python, reader.python.text(node.func)
    if fix := words.lookup(words.PYTHON_REDUCTIONS, function):
        python.refuse(
            "python-reduction", f"`{text}` runs over many values", node, f"write the loop: {fix}"
        )
    if function is np.array and not (node.args and isinstance(node.args[0], ast.Name)):
        python.refuse(
            "unknown-call",
            f"`{text}` makes an array of a list",
            node.func,
            "create it, and assign its elements: `t = np.empty(2, np.float32)`, `t[0] = ...`",
        )
    if words.lookup(words.CREATIONS, function):
        python.refuse(
            "array-in-expression",
            f"`{text}` creates an array, which must have a name",
            node,
            f"assign it on a line of its own: `t = {python.text(node)}`",
        )
    if function is np.arange and len(node.args) == 1:
        count = python.text(node.args[0])
        python.refuse(
            "loop-over-elements",
            f"`{text}` is not a number",
            node,
            f"create the array, and count: `t = np.empty({count}, np.int64)`, then `for i in range({count}):`, "
            "and `t[i] = i`",
        )
    if fix := words.lookup(words.LOOPS, function):
        python.refuse("loop-over-elements", f"`{text}` is not a number", node, f"write {fix}")


def _refuse_types(reader: Reader, node: ast.Call, function: Any) -> None:
    python, text = reader.python, reader.python.text(node.func)
    if function is np.ndarray:
        arguments = python.text(node)[len(text) :]
        python.refuse(
            "unknown-call",
            f"a kernel cannot make a `{text}`",
            node.func,
            f"write `{text.removesuffix('ndarray')}empty{arguments}`"
            if text.endswith(".ndarray")
            else f"write `np.empty{arguments}`",
        )
    if isinstance(function, type):
        python.refuse(
            "unknown-call", f"a kernel cannot make a `{text}`", node.func, "use arrays and numbers"
        )
