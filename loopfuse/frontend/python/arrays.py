"""Arrays of a Python kernel: arguments and their sizes, and arrays that it creates."""

from __future__ import annotations

import ast
from dataclasses import replace

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.frontend.python import exchange as pyfunc_exchange
from loopfuse.frontend.python import expr as pyfunc_expr
from loopfuse.frontend.python import vocabulary as words
from loopfuse.frontend.python.context import Argument, Array, Reader
from loopfuse.frontend.python.expr import resolve, whole_number
from loopfuse.frontend.python.source import MISSING, PythonSource
from loopfuse.frontend.python.types import PYTHON_BOOL, WEAK_INT, Kind, literal
from loopfuse.lang.surface import syntax


def extent_kind(extent: syntax.Expr) -> Kind:
    """The kind of an extent: a Python int."""
    return literal(extent.value) if isinstance(extent, syntax.Number) else WEAK_INT


# ---------------------------------------------------------------------------------- arguments


Dimension = tuple[str, int]
"""An array argument and which of its extents."""

Dimensions = tuple[Dimension, ...]


def declare_arguments(
    reader: Reader,
    arguments: tuple[Argument, ...],
    stores: dict[str, int],
    equal: tuple[Dimensions, ...] = (),
) -> None:
    """Declare the parameters. Sizes without a name take the first that the function gives them
    (`H, W = img.shape`), else one made of the array's (`img_0`). `equal`: groups of extents that are
    taken to be one size."""
    python = reader.python
    nodes = {one.arg: one for one in _parameters(python.tree.args)}
    for argument in arguments:
        if argument.rank is None:
            python_bool = argument.weak and argument.dtype is DType.BOOL
            kind = PYTHON_BOOL if python_bool else Kind(argument.dtype, weak=argument.weak)
            reader.scalars[argument.name] = kind
            reader.shared.taken.add(argument.name)
            reader.visible[0].add(argument.name)
    named = _given_names(python.tree.body, stores)
    reader.loop_names = {
        node.target.id
        for node in ast.walk(python.tree)
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
    }
    used: set[str] = set()
    for argument in arguments:
        if argument.rank is None:
            continue
        node = nodes[argument.name]
        if argument.extents is not None:
            extents = tuple(_written_extent(reader, part, node) for part in argument.extents)
        else:
            parts: list[syntax.Expr] = []
            for position in range(argument.rank):
                size = named.get((argument.name, position), "")
                if not size or size in used:
                    size = reader.shared.free(f"{argument.name}_{position}")
                used.add(size)
                parts.append(syntax.Name(size, span=python.span(node)))
            extents = tuple(parts)
        reader.arrays[argument.name] = Array(
            argument.name, argument.dtype, extents, argument.mode, node
        )
        reader.shared.taken.add(argument.name)
        reader.visible[0].add(argument.name)
    free = {a.name for a in arguments if a.rank is not None and a.extents is None}
    _share_sizes(reader, free, named, equal)
    _name_sizes(reader)


def _share_sizes(
    reader: Reader, free: set[str], named: dict[Dimension, str], equal: tuple[Dimensions, ...]
) -> None:
    """Extents that the function itself says are equal, and those that are taken to be, have the
    size of the first. `free` arrays have extents without annotations."""
    places = [(name, k) for name in free for k in range(len(reader.arrays[name].extents))]
    order = [place for name in reader.arrays for place in places if place[0] == name]
    root = {place: place for place in order}

    def first_of(place: Dimension) -> Dimension:
        while root[place] != place:
            place = root[place]
        return place

    for group in (*_alike(reader, named), *equal):
        known = [first_of(place) for place in group if place in root]
        for place in known:
            # A size that the function names goes before one that is made up.
            root[place] = min(known, key=lambda p: (p not in named, order.index(p)))
    sizes = {(name, k): reader.arrays[name].extents[k] for name, k in order}
    for name in free:
        array = reader.arrays[name]
        array.extents = tuple(sizes[first_of((name, k))] for k in range(len(array.extents)))


def _alike(reader: Reader, named: dict[Dimension, str]) -> list[Dimensions]:
    """Extents that are equal: of arrays that the function exchanges, and as it asserts."""
    tree = reader.python.tree
    found: list[Dimensions] = []

    def whole(first: str, second: str) -> None:
        one, other = reader.arrays.get(first), reader.arrays.get(second)
        if one is not None and other is not None and len(one.extents) == len(other.extents):
            found.extend(((first, k), (second, k)) for k in range(len(one.extents)))

    for stmt in ast.walk(tree):
        match stmt:
            case ast.Assign(
                targets=[ast.Tuple(elts=targets) | ast.List(elts=targets)],
                value=ast.Tuple(elts=values) | ast.List(elts=values),
            ):
                names = [one.id for one in targets if isinstance(one, ast.Name)]
                given = [one.id for one in values if isinstance(one, ast.Name)]
                if len(names) == len(targets) and sorted(names) == sorted(given):
                    for name, other in zip(names, given):
                        whole(name, other)
            case _:
                continue
    places = {name: place for place, name in named.items()}
    for stmt in tree.body:
        if not isinstance(stmt, ast.Assert):
            continue
        tests = [stmt.test]
        if isinstance(stmt.test, ast.BoolOp) and isinstance(stmt.test.op, ast.And):
            tests = stmt.test.values
        for test in tests:
            match test:
                case ast.Compare(
                    left=ast.Attribute(attr="shape", value=ast.Name(id=a)),
                    ops=[ast.Eq()],
                    comparators=[ast.Attribute(attr="shape", value=ast.Name(id=b))],
                ):
                    whole(a, b)
                case ast.Compare(
                    left=ast.Attribute(attr="shape", value=ast.Name(id=a)),
                    ops=[ast.Eq()],
                    comparators=[ast.Tuple(elts=parts)],
                ):
                    extents = [_dimension(part, places) for part in parts]
                    found.extend(((a, k), e) for k, e in enumerate(extents) if e is not None)
                case ast.Compare(left=left, ops=ops, comparators=rest) if all(
                    isinstance(op, ast.Eq) for op in ops
                ):
                    group = [_dimension(part, places) for part in (left, *rest)]
                    found.append(tuple(place for place in group if place is not None))
                case _:
                    continue
    return found


def _dimension(node: ast.expr, places: dict[str, Dimension]) -> Dimension | None:
    """Which extent `len(a)`, `a.shape[k]` or a name for one is."""
    match node:
        case ast.Name(id=name):
            return places.get(name)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=array)]):
            return array, 0
        case ast.Subscript(
            value=ast.Attribute(attr="shape", value=ast.Name(id=array)),
            slice=ast.Constant(value=int() as position),
        ):
            return array, position
        case _:
            return None


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _name_sizes(reader: Reader) -> None:
    """Sizes that no parameter holds are names of the program too, and visible."""
    for array in reader.arrays.values():
        for extent in array.extents:
            for name in names_of(extent):
                reader.visible[0].add(name)
                reader.shared.taken.add(name)


def names_of(expr: syntax.Expr) -> set[str]:
    """The names in an expression of sizes."""
    match expr:
        case syntax.Name(name=name):
            return {name}
        case syntax.Unary(operand=operand):
            return names_of(operand)
        case syntax.Binary(left=left, right=right):
            return names_of(left) | names_of(right)
        case syntax.Call(arguments=arguments):
            return {name for part in arguments for name in names_of(part)}
        case _:
            return set()


def _given_names(body: list[ast.stmt], stores: dict[str, int]) -> dict[tuple[str, int], str]:
    """Which extent the function's own statements name: `H, W = img.shape`, `n = len(x)`."""
    found: dict[tuple[str, int], str] = {}
    for stmt in body:
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1:
            continue
        match stmt.targets[0], stmt.value:
            case ast.Tuple(elts=targets), ast.Attribute(attr="shape", value=ast.Name(id=array)):
                pairs = [(target, position) for position, target in enumerate(targets)]
            case ast.Name() as target, ast.Call(
                func=ast.Name(id="len"), args=[ast.Name(id=array)]
            ):
                pairs = [(target, 0)]
            case ast.Name() as target, ast.Subscript(
                value=ast.Attribute(attr="shape", value=ast.Name(id=array)),
                slice=ast.Constant(value=int() as position),
            ):
                pairs = [(target, position)]
            case _:
                continue
        for target, position in pairs:
            if isinstance(target, ast.Name) and stores.get(target.id) == 1:
                found.setdefault((array, position), target.id)
    return found


def _written_extent(reader: Reader, part: str | int, node: ast.arg) -> syntax.Expr:
    """An extent of an annotation: a number, or an expression of sizes as text."""
    span = reader.python.span(node)
    if isinstance(part, int):
        return syntax.Number(part, span=span)
    try:
        tree = ast.parse(part.strip(), mode="eval").body
        return _sizes(tree, span)
    except (SyntaxError, ValueError):
        reader.python.refuse(
            "annotation-extent",
            f"`{part}` is no extent",
            node,
            "write a name, a number, or both with `+ - * //`: `f32['H-2', 'W']`",
        )


def _sizes(node: ast.expr, span: object) -> syntax.Expr:
    match node:
        case ast.Name(id=name):
            return syntax.Name(name, span=span)  # type: ignore[arg-type]
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return syntax.Number(value, span=span)  # type: ignore[arg-type]
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() as op, right=right):
            sign = pyfunc_expr.BINARY[type(op)]
            return syntax.Binary(sign, _sizes(left, span), _sizes(right, span), span=span)  # type: ignore[arg-type]
        case _:
            raise ValueError


# ------------------------------------------------------------------------------ size locals


def declare_values(reader: Reader, body: list[ast.stmt], stores: dict[str, int]) -> None:
    """Locals set once, at the function's top, to a size, an expression of sizes or a literal:
    they stand for it, and are no values of the program."""
    for stmt in body:
        if not isinstance(stmt, ast.Assign) or len(stmt.targets) != 1:
            continue
        match stmt.targets[0], stmt.value:
            case ast.Tuple(elts=targets), ast.Attribute(
                attr="shape", value=ast.Name(id=array)
            ) if array in reader.arrays and len(targets) == len(reader.arrays[array].extents):
                for target, extent in zip(targets, reader.arrays[array].extents):
                    if isinstance(target, ast.Name) and stores.get(target.id) == 1:
                        reader.values[target.id] = (extent, extent_kind(extent))
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                for target, value in zip(targets, values):
                    _declare_value(reader, target, value, stores)
            case target, value:
                _declare_value(reader, target, value, stores)


def _declare_value(
    reader: Reader, target: ast.expr, value: ast.expr, stores: dict[str, int]
) -> None:
    if not isinstance(target, ast.Name) or stores.get(target.id) != 1:
        return
    if target.id in reader.arrays or target.id in reader.scalars:
        return
    if isinstance(value, ast.Constant) and isinstance(value.value, (bool, int, float)):
        reader.values[target.id] = reader.read(value)
    elif _is_size(reader, value):
        expr, kind = reader.read(value)
        reader.values[target.id] = expr, kind


def _is_size(reader: Reader, node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.Name(id=name):
            if name in reader.values:
                kind = reader.values[name][1]
                return kind is not None and kind.dtype is DType.I64 and kind.weak
            if name in reader.scalars:
                return reader.scalars[name] == WEAK_INT
            return name not in reader.locals and type(reader.python.find(name)) is int
        case ast.Subscript(value=ast.Attribute(attr="shape", value=ast.Name(id=array)), slice=ast.Constant()):
            return array in reader.arrays
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=array)]):
            return array in reader.arrays
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right=right):
            return _is_size(reader, left) and _is_size(reader, right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_size(reader, operand)
        case _:
            return False


# ----------------------------------------------------------------------------------- created


def is_creation(reader: Reader, value: ast.expr) -> bool:
    """`np.empty(...)` and its relatives, `x.copy()` of an array."""
    if not isinstance(value, ast.Call):
        return False
    copied = _copied(value)
    if copied is not None:
        return copied.id in reader.arrays or copied.id in reader.created_names
    function = resolve(reader, value.func)
    if function is np.array:  # of an array a copy; of a list nothing that is compiled
        known = {*reader.arrays, *reader.created_names}
        return any(isinstance(one, ast.Name) and one.id in known for one in value.args[:1])
    return function is not MISSING and words.lookup(words.CREATIONS, function) is not None


def _copied(value: ast.Call) -> ast.Name | None:
    """`x` in `x.copy()`."""
    match value:
        case ast.Call(func=ast.Attribute(attr="copy", value=ast.Name() as model), args=[], keywords=[]):
            return model
        case _:
            return None


def create(
    reader: Reader, stmt: ast.stmt, name: str, value: ast.expr
) -> list[syntax.Stmt] | None:
    """`name = np.empty(...)`: a temporary, or an output where the function returns it. None if
    `value` creates nothing."""
    python = reader.python
    if isinstance(value, ast.Name) and value.id in reader.arrays:
        python.refuse(
            "array-alias",
            f"`{name}` would be a second name of the array `{value.id}`",
            stmt,
            f"use `{value.id}` itself, or copy its elements in a loop",
        )
    if not is_creation(reader, value):
        return None
    assert isinstance(value, ast.Call)
    if name in reader.scalars or name in reader.iterators:
        python.refuse(
            "array-rebound",
            f"`{name}` is a number, and would become an array",
            stmt,
            f"use another name: `{name}2 = {python.text(value)}`",
        )
    if name in reader.arrays and (
        reader.arrays[name].node is not stmt or reader.arrays[name].is_parameter
    ):
        python.refuse(
            "array-rebound",
            f"`{name}` is an array already",
            stmt,
            f"use another name for the new array: `{name}2 = {python.text(value)}`",
        )
    copied = _copied(value)
    if copied is not None and copied.id not in reader.arrays:
        pyfunc_expr.read_name(reader, copied)  # complains that it has no value yet
    if copied is not None:
        model = reader.arrays[copied.id]
        extents, dtype = model.extents, model.dtype
        filled: syntax.Expr | Array | None = model
    else:
        start, like = words.CREATIONS[resolve(reader, value.func)]
        extents, dtype, filled = _creation(reader, value, start, like)
    returned = name in reader.returned
    if returned:
        if len(reader.visible) > 1:
            python.refuse(
                "return-place",
                f"`{name}` is {_use(reader, name)}, but created inside a loop or a branch",
                stmt,
                "create it at the function's top, before the loops",
            )
        _check_returned(reader, stmt, name, extents)
    array = Array(name, dtype, extents, "out" if returned else "temp", stmt, is_parameter=False)
    array.written = True
    reader.arrays[name] = array
    if returned:
        reader.created[name] = array
    elif name not in reader.visible[-1]:
        reader.visible[-1].add(name)
    span = python.span(stmt)
    out: list[syntax.Stmt] = [] if returned else [syntax.Temp(name, dtype, extents, span=span)]
    # An output that starts as zeros is allocated as zeros.
    if filled is not None and not (returned and filled == syntax.Number(0)):
        out.append(_fill(reader, stmt, array, filled))
    return out


def known_sizes(reader: Reader) -> set[str]:
    """The names whose values a caller knows before the call."""
    arrays = [array for array in reader.arrays.values() if array.is_parameter]
    return {n for array in arrays for e in array.extents for n in names_of(e)} | set(reader.scalars)


def _use(reader: Reader, name: str) -> str:
    """Why a created array is a parameter of the kernel."""
    value = reader.final.value if reader.final is not None else None
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    named = any(isinstance(one, ast.Name) and one.id == name for one in parts)
    return "returned" if named else "exchanged with an array that the caller has"


def _check_returned(
    reader: Reader, stmt: ast.stmt, name: str, extents: tuple[syntax.Expr, ...]
) -> None:
    known = known_sizes(reader)
    for extent in extents:
        strange = sorted(names_of(extent) - known)
        if strange or isinstance(extent, (syntax.Subscript, syntax.Conditional)):
            reader.python.refuse(
                "return-extent",
                f"the shape of `{name}`, which is {_use(reader, name)}, is not made of sizes alone",
                stmt,
                "write it with the arguments' shapes, integer arguments, numbers and `+ - * //`",
            )


def _given_text(
    python: PythonSource, given: dict[str, ast.expr], name: str, like: bool
) -> str:
    """The shape, or the model, that a creating call was given; else one to write."""
    return python.text(given[name]) if name in given else "x" if like else "(H, W)"


def _creation(
    reader: Reader, call: ast.Call, start: str, like: bool
) -> tuple[tuple[syntax.Expr, ...], DType, syntax.Expr | Array | None]:
    """(extents, dtype, what every element starts with: a value or an array's) of a creating call."""
    python = reader.python
    taken = [] if start == "copy" else ["dtype"]
    order = (["prototype"] if like else ["shape"]) + (["fill_value"] if start == "full" else [])
    given: dict[str, ast.expr] = dict(zip([*order, *taken], call.args))
    for keyword in call.keywords:
        name = {"a": "prototype"}.get(keyword.arg or "", keyword.arg or "**")
        given[name] = keyword.value
    unknown = [name for name in given if name not in (*order, *taken)]
    missing = [name for name in order if name not in given]
    if unknown or missing or len(call.args) > len(order) + len(taken):
        python.refuse(
            "creation-arguments",
            f"`{python.text(call.func)}` takes a "
            f"{'shape' if not like else 'model'}{', a value' if start == 'full' else ''} and a dtype "
            "here",
            call,
            f"write `{python.text(call.func)}({_given_text(python, given, order[0], like)}"
            f"{', 1.0' if start == 'full' else ''}, dtype=np.float32)`",
        )
    value = reader.read(given["fill_value"]) if "fill_value" in given else None
    if like:
        model = given["prototype"]
        if not isinstance(model, ast.Name) or model.id not in reader.arrays:
            python.refuse(
                "creation-arguments",
                f"`{python.text(model)}` is not an array of this kernel",
                model,
                "name an argument or an array created before",
            )
        extents, dtype = reader.arrays[model.id].extents, reader.arrays[model.id].dtype
        if start == "copy":
            return extents, dtype, reader.arrays[model.id]
    else:
        extents, dtype = _shape(reader, given["shape"]), DType.F64
        if value is not None and value[1] is not None:
            dtype = value[1].dtype
    if "dtype" in given:
        dtype = _dtype(reader, given["dtype"])
    filled = {
        "empty": None,
        "zeros": syntax.Number(0),
        "ones": syntax.Number(1),
        "full": value[0] if value else None,
    }[start]
    if isinstance(filled, syntax.Number) and dtype is DType.BOOL:
        filled = syntax.Number(bool(filled.value))
    if filled is not None:
        filled = replace(filled, span=python.span(call))
    return extents, dtype, filled


def _shape(reader: Reader, node: ast.expr) -> tuple[syntax.Expr, ...]:
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return tuple(whole_number(reader, part, "extent") for part in parts)
        case ast.Attribute(attr="shape", value=ast.Name(id=name)) if name in reader.arrays:
            return reader.arrays[name].extents
        case _:
            return (whole_number(reader, node, "extent"),)


def _dtype(reader: Reader, node: ast.expr) -> DType:
    match node:
        case ast.Attribute(attr="dtype", value=ast.Name(id=name)) if name in reader.arrays:
            return reader.arrays[name].dtype
        case ast.Constant(value=str() as text):
            found = words.dtype_of(text)
        case _:
            thing = resolve(reader, node)
            found = None if thing is MISSING else words.dtype_of(thing)
    if found is None:
        reader.python.refuse(
            "unknown-dtype",
            f"`{reader.python.text(node)}` is no dtype that a kernel has",
            node,
            "write `np.float32`, `np.float64`, `np.int32`, `np.int64`, `np.bool_` or `x.dtype`",
        )
    return found


def _fill(
    reader: Reader, stmt: ast.stmt, array: Array, value: syntax.Expr | Array
) -> syntax.Stmt:
    """Loops that give every element its first value."""
    span = reader.python.span(stmt)
    names: list[str] = []
    for position in range(len(array.extents)):
        name, count = f"{array.name}_i{position}", 1
        while name in reader.shared.taken or name in reader.locals:
            count += 1
            name = f"{array.name}_i{position}_{count}"
        names.append(name)
    index = tuple(syntax.Name(name, span=span) for name in names)
    if isinstance(value, Array):
        pyfunc_exchange.refuse_turned(reader, value, stmt)
        value = syntax.Subscript(value.name, index, span=span, array_span=span)
    store = syntax.Assign(
        syntax.Subscript(array.name, index, span=span, array_span=span), "", value, span=span
    )
    if not names:
        return store
    ranges = tuple(
        syntax.Range(name, syntax.Number(0, span=span), extent, span=span)
        for name, extent in zip(names, array.extents)
    )
    return syntax.For(ranges, (store,), span=span)


# ----------------------------------------------------------------------------------- promises


def read_promise(reader: Reader, test: ast.expr) -> syntax.Expr:
    """The condition of an `assert`; shapes are compared part by part."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            first, second = _shape_or_none(reader, left), _shape_or_none(reader, right)
            if first is None or second is None:
                return reader.read(test)[0]
            if len(first) != len(second):
                reader.python.refuse(
                    "shape-ranks",
                    f"shapes of {len(first)} and {len(second)} extents are never equal",
                    test,
                    "compare arrays of one rank",
                )
            span = reader.python.span(test)
            result: syntax.Expr = syntax.Number(True, span=span)
            for position, (a, b) in enumerate(zip(first, second)):
                equal = syntax.Comparison((a, b), ("==",), span=span)
                result = equal if not position else syntax.Binary("and", result, equal, span=span)
            return result
        case ast.BoolOp(op=ast.And(), values=values):
            parts = [read_promise(reader, value) for value in values]
            result = parts[0]
            for part in parts[1:]:
                result = syntax.Binary("and", result, part, span=reader.python.span(test))
            return result
        case _:
            return reader.read(test)[0]


def _shape_or_none(reader: Reader, node: ast.expr) -> tuple[syntax.Expr, ...] | None:
    if (isinstance(node, ast.Attribute) and node.attr == "shape") or isinstance(node, ast.Tuple):
        return _shape(reader, node)
    return None


def names_text(extent: syntax.Expr) -> str:
    """An extent that is one size, as its name; else something that is no name."""
    return extent.name if isinstance(extent, syntax.Name) else repr(extent)
