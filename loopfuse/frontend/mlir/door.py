"""The third door: MLIR functions of `affine`, `memref`, `arith`, `math` and structured `scf`.

before:  func.func @scale(%x: memref<?xf32>, %y: memref<?xf32>, %n: index) { affine.for ... }
after:   kernel scale(x: f32[x_0], out y: f32[y_0], n: i64): for i in 0..n: ...

Like every door it gives the surface `Module`, so that labels, checks of subscripts and messages
are the language's own, and any MLIR file can be printed as a program of loops. MLIR says exactly
what is computed: it is to be checked under `fp="strict"`, where only `math.fma` is an FMA.
"""

from __future__ import annotations

import ast
import sys
from typing import Any

from xdsl.dialects import builtin, func, memref
from xdsl.dialects.builtin import ArrayAttr, IndexType, MemRefType, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from loopfuse.base.diagnostics import Diagnostic, LimitError, LoopfuseError, Source, Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.mlir.arith import Unread, dtype_of
from loopfuse.frontend.mlir.block import read_block
from loopfuse.frontend.mlir.names import RESERVED, WORDS, Names, helper_name
from loopfuse.frontend.mlir.state import Array, State, signed_as
from loopfuse.frontend.mlir.terms import Term, number
from loopfuse.frontend.mlir.text import Parsed, parse_text, refuse
from loopfuse.frontend.mlir.unused import without_unused
from loopfuse.frontend.mlir.values import read_result
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.syntax import Binary, Expr, Name, Number, Unary


def parse(source: Source) -> syntax.Module:
    """The functions of an MLIR text as kernels, in text order.

    UserError[mlir-syntax | mlir-operation | mlir-invalid | mlir-unread | mlir-step | mlir-function],
    LimitError[mlir-limit | nesting-too-deep], each at its operation.
    """
    parsed = parse_text(source)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 12_000))
    try:
        return _module(source, parsed)
    except RecursionError:
        raise LimitError(
            Diagnostic(
                "nesting-too-deep", "values are made of values more often than can be read",
                source=source,
            )
        ) from None  # fmt: skip
    finally:
        sys.setrecursionlimit(limit)


def _module(source: Source, parsed: Parsed) -> syntax.Module:
    """The functions of a module that was parsed."""
    functions = [op for op in parsed.module.walk() if isinstance(op, func.FuncOp)]
    for op in parsed.module.body.block.ops:
        if not isinstance(op, (func.FuncOp, builtin.ModuleOp)):
            refuse(
                source, parsed.places.get(op, Span(1, 1, 1, 2)), "mlir-operation",
                f"`{op.name}` stands outside every function",
            )  # fmt: skip
    names = _kernel_names(functions)
    called = _called(functions)
    items: list[Any] = []
    for each in functions:
        if not each.body.blocks:
            continue  # a declaration
        if each.sym_name.data in called:
            items.append(_helper(source, parsed, each))
        else:
            items.append(_Function(source, parsed, each, names[each.sym_name.data]).kernel())
    return syntax.Module(tuple(items), source)


def _kernel_names(functions: list[func.FuncOp]) -> dict[str, str]:
    names = Names(set(RESERVED))
    return {each.sym_name.data: names.fresh(each.sym_name.data, "k") for each in functions}


def _called(functions: list[func.FuncOp]) -> set[str]:
    return {
        op.callee.root_reference.data
        for each in functions
        for op in each.walk()
        if isinstance(op, func.CallOp)
    }


def _single_block(source: Source, parsed: Parsed, op: func.FuncOp) -> Block:
    span = parsed.places[op]
    if len(op.body.blocks) != 1:
        refuse(
            source, span, "mlir-function", f"`{op.sym_name.data}` has branches between blocks",
            "loopfuse reads structured loops: affine.for, scf.for, affine.if, scf.if",
        )  # fmt: skip
    return op.body.block


def _helper(source: Source, parsed: Parsed, op: func.FuncOp) -> syntax.Func:
    """A function that others call: scalars in, one scalar out, no memory."""
    block = _single_block(source, parsed, op)
    span = parsed.places[op]
    names = Names(set(WORDS))
    state = State(source, parsed.places, names, read_result)
    params: list[syntax.Param] = []
    last = block.last_op
    if last is None or len(last.operands) != 1:
        refuse(
            source, span, "mlir-function", f"`{op.sym_name.data}` is called, but gives no one value"
        )
    for argument in block.args:
        try:
            dtype = dtype_of(argument.type)
        except Unread as error:
            refuse(
                source, span, "mlir-function",
                f"`{op.sym_name.data}` is called, and takes what is no number: {error}",
                "inline it first: mlir-opt --inline",
            )  # fmt: skip
        name = names.fresh(argument.name_hint, "x")
        params.append(syntax.Param(name, dtype, span=span))
        state.terms[argument] = Term(Name(name), dtype)
    statements = read_block(state, block)
    lets = tuple(each for each in statements if isinstance(each, syntax.Let) and not each.mutable)
    if len(lets) != len(statements):
        refuse(
            source, span, "mlir-function", f"`{op.sym_name.data}` is called, and has loops or stores",
            "inline it first: mlir-opt --inline",
        )  # fmt: skip
    term = state.value(last.operands[0])
    return syntax.Func(helper_name(op.sym_name.data), tuple(params), term.dtype, lets, term.expr, span=span)


class _Function:
    """One function as a kernel."""

    def __init__(self, source: Source, parsed: Parsed, op: func.FuncOp, name: str) -> None:
        self.source, self.parsed, self.op, self.name = source, parsed, op, name
        self.span = parsed.places[op]
        self.names = Names(set(WORDS) | {name})
        self.state = State(source, parsed.places, self.names, read_result)

    def kernel(self) -> syntax.Kernel:
        """Parameters, results, and the statements between."""
        block = _single_block(self.source, self.parsed, self.op)
        sizes = self.sizes(block)
        entries = [self.parameter(k, argument, sizes) for k, argument in enumerate(block.args)]
        results = self.results(block)
        statements = without_unused(read_block(self.state, block))
        made = [self.finished(each) for each in entries if each is not None]
        params = (*made, *results)
        return syntax.Kernel(
            self.name, params, tuple(statements), span=self.span, name_span=self.span
        )

    # ------------------------------------------------------------------------ parameters

    def attributes(self, position: int) -> dict[str, Any]:
        """What the text says of an argument."""
        held = self.op.arg_attrs
        return dict(held.data[position].data) if held is not None else {}

    def sizes(self, block: Block) -> set[str]:
        """The names that `loopfuse.extents` speak of: `index` arguments of these names are sizes,
        not parameters."""
        found: set[str] = set()
        for k in range(len(block.args)):
            for expr in self.extents(k) or ():
                found |= _names(expr)
        return found

    def extents(self, position: int) -> tuple[Expr, ...] | None:
        """The extents an argument promises."""
        held = self.attributes(position).get("loopfuse.extents")
        if not isinstance(held, ArrayAttr):
            return None
        out: list[Expr] = []
        for each in held.data:
            expr = _extent(each.data, self.span) if isinstance(each, StringAttr) else None
            if expr is None:
                refuse(
                    self.source, self.span, "mlir-attribute",
                    "`loopfuse.extents` holds strings such as \"N\" or \"2*N + 1\"",
                    "write `[\"N\"]` or `[\"2*N + 1\"]`: a text for each dimension",
                )  # fmt: skip
            out.append(expr)
        return tuple(out)

    def parameter(self, position: int, argument: SSAValue, sizes: set[str]) -> Any:
        """A parameter, its mode still unknown; None for a size."""
        kind = argument.type
        attributes = self.attributes(position)
        try:
            if isinstance(kind, MemRefType):
                return self.array(position, argument, kind, attributes)
            dtype = signed_as(dtype_of(kind), attributes.get("loopfuse.dtype"))
        except Unread as error:
            refuse(self.source, self.span, "mlir-unread", str(error), error.fix)
        hint = argument.name_hint
        is_index = isinstance(kind, IndexType)
        if is_index and hint in sizes:
            self.names.taken.add(str(hint))
            self.state.terms[argument] = Term(Name(str(hint)), DType.I64, True)
            return None
        name = self.names.fresh(hint, "arg")
        self.state.terms[argument] = Term(Name(name, span=self.span), dtype, is_index)
        return syntax.Param(name, dtype, is_const="loopfuse.const" in attributes, span=self.span)

    def array(
        self, position: int, argument: SSAValue, kind: Any, attributes: dict[str, Any]
    ) -> syntax.Param:
        """A memref argument: each `?` is a size of its own where nothing says which."""
        if not isinstance(kind.layout, builtin.NoneAttr):
            refuse(
                self.source, self.span, "mlir-unread",
                "a memref with a layout is not read: the caller's strides are not part of the program",
                "use the plain memref type; loopfuse takes strided arrays at the call",
            )  # fmt: skip
        dtype = signed_as(dtype_of(kind.element_type), attributes.get("loopfuse.dtype"))
        name = self.names.fresh(argument.name_hint, "arg")
        shape = kind.get_shape()
        promised = self.extents(position)
        extents: list[Expr] = []
        for k, size in enumerate(shape):
            if promised is not None and len(promised) == len(shape):
                extents.append(promised[k])
            elif size < 0:
                extents.append(Name(self.names.fresh(f"{name}_{k}", "n"), span=self.span))
            else:
                extents.append(number(size, DType.I64, self.span))
        if not shape:
            extents.append(number(1, DType.I64, self.span))
        self.state.arrays[argument] = Array(name, dtype, tuple(extents))
        mode = attributes.get("loopfuse.mode")
        held = (
            mode.data
            if isinstance(mode, StringAttr) and mode.data in ("in", "out", "inout")
            else ""
        )
        return syntax.Param(name, dtype, tuple(extents), held or "?", span=self.span)

    def finished(self, param: syntax.Param) -> syntax.Param:
        """With the mode that the body shows: written and read is `inout`."""
        if param.extents is None:
            return param
        read, written = param.name in self.state.loaded, param.name in self.state.written
        mode = param.mode
        if mode == "?":
            mode = "in" if not written else ("inout" if read else "out")
        return syntax.Param(param.name, param.dtype, param.extents, mode, span=param.span)

    # --------------------------------------------------------------------------- results

    def results(self, block: Block) -> list[syntax.Param]:
        """Allocations that the function returns are `out` parameters."""
        last = block.last_op
        out: list[syntax.Param] = []
        if not isinstance(last, func.ReturnOp):
            return out
        for value in last.operands:
            span = self.parsed.places.get(last, self.span)
            if value in self.state.arrays:
                continue  # an argument
            owner = value.owner
            if (
                not isinstance(owner, (memref.AllocOp, memref.AllocaOp))
                or owner.parent_block() is not block
            ):
                refuse(
                    self.source, span, "mlir-result",
                    "a result is neither an argument nor a memref allocated here",
                    "store a scalar result to a memref argument, such as memref<1xf32>",
                )  # fmt: skip
            out.append(self.result(owner, span))
        return out

    def result(self, op: Any, span: Span) -> syntax.Param:
        """The `out` parameter that an allocation is."""
        kind = op.memref.type
        dtype = self.state.element_type(op, kind)
        sizes = iter(self.size_of(each, op) for each in op.dynamic_sizes)
        extents = tuple(
            next(sizes) if size < 0 else number(size, DType.I64, span) for size in kind.get_shape()
        ) or (number(1, DType.I64, span),)
        name = self.names.fresh(op.memref.name_hint, "result")
        self.state.arrays[op.memref] = Array(name, dtype, extents)
        return syntax.Param(name, dtype, extents, "out", span=span)

    def size_of(self, value: SSAValue, op: Operation) -> Expr:
        """The extent of a result."""
        try:
            return self.state.value(value).expr
        except LoopfuseError as error:
            raise UserError(
                Diagnostic(
                    "mlir-result",
                    "the size of a result is not known at the call",
                    self.parsed.places.get(op, self.span),
                    source=self.source,
                )
            ) from error


def _names(expr: Expr) -> set[str]:
    match expr:
        case Name(name=name):
            return {name}
        case Binary(left=left, right=right):
            return _names(left) | _names(right)
        case Unary(operand=operand):
            return _names(operand)
        case _:
            return set()


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip


def _extent(text: str, span: Span) -> Expr | None:
    """`2*N + 1`, None where it is anything else."""
    if len(text) > 1_000:
        return None
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return _tree(tree, span)


def _tree(tree: ast.expr, span: Span) -> Expr | None:
    match tree:
        case ast.Name(id=name):
            return Name(name, span=span)
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return Number(value, str(value), span=span)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _tree(operand, span)
            return None if inner is None else Unary("-", inner, span=span)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = _tree(left, span), _tree(right, span)
            return None if a is None or b is None else Binary(_OPERATORS[type(op)], a, b, span=span)
        case _:
            return None
