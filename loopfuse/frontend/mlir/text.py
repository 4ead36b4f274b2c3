"""MLIR text -> xDSL operations, each with its place in the text.

xDSL reads most of upstream's syntax; what it lacks is here under upstream's names: `affine.if`,
`affine.parallel`, `affine.max`, `symbol(%n)` in affine subscripts and `llvm.call_intrinsic`. Its
operations keep no place, so the parser notes where each starts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.context import Context
from xdsl.dialects import affine, arith, builtin, cf, func, llvm, memref, scf, vector
from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr, IndexType, StringAttr
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.parser.affine_parser import AffineParser
from xdsl.parser.generic_parser import ParserState
from xdsl.traits import Pure
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from loopfuse.base.diagnostics import Diagnostic, LimitError, Source, Span, UserError
from loopfuse.frontend.mlir.math import MATH
from loopfuse.frontend.mlir.rules import broken_rule, used_too_early

DEEPEST = 200
"""Regions inside regions, as many as the language allows blocks."""


@irdl_op_definition
class MaxOp(IRDLOperation):
    """`affine.max`: the largest result of a map."""

    name = "affine.max"
    arguments = var_operand_def(IndexType())
    result = result_def(IndexType())
    map = prop_def(AffineMapAttr)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> MaxOp:
        """`affine.max #map(%dims)[%symbols]`."""
        mapping, operands = _map_use(parser)
        return MaxOp(operands=[operands], properties={"map": mapping}, result_types=[IndexType()])


@irdl_op_definition
class RemFOp(arith.FloatingPointLikeBinaryOperation):
    """`arith.remf`: the remainder of a division that rounds towards zero."""

    name = "arith.remf"
    traits = traits_def(Pure())


@dataclass(frozen=True, slots=True)
class Parsed:
    """A module, and the place of each of its operations."""

    module: builtin.ModuleOp
    places: dict[Operation, Span]


def parse_text(source: Source) -> Parsed:
    """The operations of `source`, verified.

    UserError[mlir-syntax] where it is not MLIR, [mlir-operation] for an operation of a dialect
    that is not read, [mlir-invalid] where an operation breaks its own rules;
    LimitError[nesting-too-deep].
    """
    context = Context()
    for dialect in (
        builtin.Builtin, cf.Cf, func.Func, MATH, memref.MemRef, scf.Scf, vector.Vector, llvm.LLVM,
    ):  # fmt: skip
        context.load_dialect(dialect)
    context.load_dialect(
        Dialect("affine", [*affine.Affine.operations, MaxOp], list(affine.Affine.attributes))
    )
    context.load_dialect(
        Dialect("arith", [*arith.Arith.operations, RemFOp], list(arith.Arith.attributes))
    )
    parser = PlacedParser(context, Source(source.name, "", source.language))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 12_000))
    try:
        parser = PlacedParser(context, source)
        module = parser.parse_module()
    except ParseError as error:
        raise _syntax_error(source, error) from None
    except RecursionError:
        raise _too_deep(source, parser.place(parser.pos)) from None
    except (LimitError, UserError):
        raise
    except VerifyException as error:
        raise _invalid(source, parser.place(parser.started), str(error)) from None
    except Exception as error:  # xDSL asserts and indexes where the text is wrong
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise _invalid(source, parser.place(parser.started), what) from None
    finally:
        sys.setrecursionlimit(limit)
    parsed = Parsed(module, parser.places)
    _verify(parsed, source)
    return parsed


def _verify(parsed: Parsed, source: Source) -> None:
    """Each operation's own rules, innermost first, so that the place is the smallest."""
    for op in reversed(list(parsed.module.walk())):
        place = parsed.places.get(op, Span(1, 1, 1, 2))
        try:
            if not isinstance(op, affine.ParallelOp):  # xDSL counts a result as an operand
                op.verify(verify_nested_ops=False)
            wrong = broken_rule(op)
        except Exception as error:
            raise _invalid(source, place, str(error)) from None
        if wrong is not None:
            raise _invalid(source, place, wrong)
    early = used_too_early(parsed.module)
    if early is not None:
        place = parsed.places.get(early, Span(1, 1, 1, 2))
        raise _invalid(source, place, "it uses a value before it is made")


class _Lexer(MLIRLexer):
    """xDSL's lexer, but a string without an end is found at once: xDSL's pattern tries every way
    of cutting it into pieces, which takes minutes."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class PlacedParser(Parser):
    """xDSL's parser with upstream's syntax where xDSL has none, and a place for each operation."""

    def __init__(self, context: Context, source: Source) -> None:
        super().__init__(context, "", source.name)
        self._parser_state = ParserState(_Lexer(Input(source.text, source.name)))
        self.source = source
        self.places: dict[Operation, Span] = {}
        self.started = 0
        self.depth = 0
        self.starts = [0]
        for line in source.text.split("\n")[:-1]:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def place(self, start: int, end: int = -1) -> Span:
        """The span from `start` to `end`, at most to the end of its line."""
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.starts[middle] <= start else (low, middle)
        first = self.starts[low]
        text = self.source.text[
            first : self.starts[low + 1] - 1 if low + 1 < len(self.starts) else None
        ]
        stop = len(text) if end < 0 else min(len(text), end - first)
        stop = len(text[:stop].split("//")[0].rstrip())
        column = start - first
        return Span(low + 1, column + 1, low + 1, max(stop, column + 1) + 1)

    def parse_operation(self) -> Operation:
        """One operation, its place noted."""
        start = self._current_token.span.start
        self.started = start
        self.depth += 1
        if self.depth > DEEPEST:
            raise _too_deep(self.source, self.place(start))
        op = super().parse_operation()
        self.depth -= 1
        self.places[op] = self.place(start, self._current_token.span.start)
        return op

    def _get_op_by_name(self, name: str) -> type[Operation]:
        found = super()._get_op_by_name(name)
        generic = self.source.text[self.started : self._current_token.span.start].rstrip()
        if generic.endswith('"'):
            return found
        return _CUSTOM.get(name, found)  # pyright: ignore[reportReturnType]

    def parse_dimension_list(self) -> list[int]:
        """`4x8x` or `4 x 8 x`, up to the last `x`, which whoever asked reads. (xDSL's goes back one
        character to find it again, and finds the space behind it.)"""
        found: list[int] = []
        kinds = (MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.QUESTION)
        while self._current_token.kind in kinds:
            found.append(self.parse_shape_dimension())
            before = self._current_token.span.start
            if self._parse_optional_shape_delimiter() is None:  # pyright: ignore[reportPrivateUsage]
                break
            if self._current_token.kind not in kinds:
                self._resume_from(before)  # pyright: ignore[reportPrivateUsage]
                break
        return found

    def parse_affine_map_of_ssa_ids(self) -> tuple[AffineMap, Sequence[SSAValue[IndexType]]]:
        """`[%i + 1, symbol(%n) - %j]`."""
        return self.affine_list(self.Delimiter.SQUARE, lambda one: [one()])[:2]

    def affine_list(
        self,
        delimiter: Parser.Delimiter,
        element: Callable[[Callable[[], AffineExpr]], list[AffineExpr]],
    ) -> tuple[AffineMap, list[SSAValue[IndexType]], tuple[int, ...]]:
        """Affine expressions over values, listed; `element` reads one place of the list, and the
        last result says how many each gave. Every value becomes a symbol of the map."""
        inner = _AffineParser(self._parser_state)
        optional, symbols, spans = inner._get_parse_optional_ssa_value()  # pyright: ignore[reportPrivateUsage]
        groups = self.parse_comma_separated_list(
            delimiter,
            lambda: element(lambda: inner._parse_affine_expr(optional)),  # pyright: ignore[reportPrivateUsage]
        )
        mapping = AffineMap(0, len(symbols), tuple(each for group in groups for each in group))
        operands = [self.resolve_operand(self._unresolved(span), IndexType()) for span in spans]
        return mapping, operands, tuple(len(group) for group in groups)

    @staticmethod
    def _unresolved(span: Any) -> Any:
        from xdsl.parser.core import UnresolvedOperand

        return UnresolvedOperand(span, 0)


class _AffineParser(AffineParser):
    """`symbol(%n)` is `%n`."""

    def _get_parse_optional_ssa_value(self) -> Any:
        plain, symbols, spans = super()._get_parse_optional_ssa_value()

        def parse() -> AffineExpr | None:
            token = self._current_token
            if token.kind == MLIRTokenKind.BARE_IDENT and token.span.text == "symbol":
                self._consume_token()
                self._parse_token(MLIRTokenKind.L_PAREN, "Expected `(`")
                found = plain()
                self._parse_token(MLIRTokenKind.R_PAREN, "Expected `)`")
                return found
            return plain()

        return parse, symbols, spans


# ------------------------------------------------------------------------ custom syntax


def _map_use(parser: Parser) -> tuple[AffineMapAttr, list[SSAValue]]:
    """`affine_map<...>(%dims)[%symbols]`."""
    position = parser.pos
    mapping = parser.parse_attribute()
    if not isinstance(mapping, AffineMapAttr):
        parser.raise_error("expected an affine map", at_position=position)
    return mapping, _operands(parser)


def _operands(parser: Parser) -> list[SSAValue]:
    def one() -> SSAValue:
        return parser.parse_operand(IndexType())

    dims = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, one) or []
    return dims + (parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, one) or [])


def _result_types(parser: Parser) -> list[Any]:
    if parser.parse_optional_punctuation("->") is None:
        return []
    found = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    return [parser.parse_type()] if found is None else list(found)


def _terminated(region: Any) -> Any:
    """`region` with the `affine.yield` that upstream lets one leave out."""
    if not region.blocks:
        from xdsl.ir import Block

        region.add_block(Block())
    block = region.blocks[0]
    if block.last_op is None or not isinstance(block.last_op, affine.YieldOp):
        block.add_op(affine.YieldOp.get())
    return region


class _If(affine.IfOp):
    """`affine.if #set(%dims)[%symbols] -> (types) { } else { }`."""

    @classmethod
    def parse(cls, parser: Parser) -> affine.IfOp:
        position = parser.pos
        condition = parser.parse_attribute()
        if not isinstance(condition, AffineSetAttr):
            parser.raise_error("expected an integer set", at_position=position)
        operands = _operands(parser)
        if len(operands) != condition.data.num_dims + condition.data.num_symbols:
            parser.raise_error("expected as many operands as the set has dimensions and symbols")
        types = _result_types(parser)
        then = _terminated(parser.parse_region())
        otherwise: Any = []
        if parser.parse_optional_keyword("else") is not None:
            otherwise = [_terminated(parser.parse_region())]
        attributes = parser.parse_optional_attr_dict()
        from xdsl.ir import Region

        return affine.IfOp(
            operands=[operands],
            properties={"condition": condition},
            attributes=attributes,
            result_types=[types],
            regions=[then, otherwise[0] if otherwise else Region()],
        )


class _Parallel(affine.ParallelOp):
    """`affine.parallel (%i, %j) = (0, 0) to (%n, min(%m, 8)) step (1, 2) reduce ("addf") -> f32`."""

    @classmethod
    def parse(cls, parser: Parser) -> affine.ParallelOp:
        assert isinstance(parser, PlacedParser)
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False)
        )
        parser.parse_punctuation("=")
        lower, lower_operands, lower_groups = parser.affine_list(
            parser.Delimiter.PAREN, lambda one: _bound(parser, "max", one)
        )
        parser.parse_keyword("to")
        upper, upper_operands, upper_groups = parser.affine_list(
            parser.Delimiter.PAREN, lambda one: _bound(parser, "min", one)
        )
        steps = [1] * len(arguments)
        if parser.parse_optional_keyword("step") is not None:
            steps = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer)
        reductions: list[str] = []
        if parser.parse_optional_keyword("reduce") is not None:
            reductions = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_str_literal
            )
        types = _result_types(parser)
        if not len(arguments) == len(lower_groups) == len(upper_groups) == len(steps):
            parser.raise_error("expected as many bounds and steps as iterators")
        body = parser.parse_region([each.resolve(IndexType()) for each in arguments])
        attributes = parser.parse_optional_attr_dict()
        i32, i64 = builtin.i32, builtin.i64
        return affine.ParallelOp(
            operands=[[*lower_operands, *upper_operands]],
            properties={
                "reductions": builtin.ArrayAttr([StringAttr(each) for each in reductions]),
                "lowerBoundsMap": AffineMapAttr(lower),
                "lowerBoundsGroups": builtin.DenseIntElementsAttr.from_list(
                    builtin.TensorType(i32, [len(lower_groups)]), lower_groups
                ),
                "upperBoundsMap": AffineMapAttr(upper),
                "upperBoundsGroups": builtin.DenseIntElementsAttr.from_list(
                    builtin.TensorType(i32, [len(upper_groups)]), upper_groups
                ),
                "steps": builtin.ArrayAttr([builtin.IntegerAttr(each, i64) for each in steps]),
            },
            attributes=attributes,
            result_types=[types],
            regions=[_terminated(body)],
        )


def _bound(parser: Parser, word: str, one: Callable[[], AffineExpr]) -> list[AffineExpr]:
    if parser.parse_optional_keyword(word) is None:
        return [one()]
    parser.parse_punctuation("(")
    found = [one()]
    while parser.parse_optional_punctuation(",") is not None:
        found.append(one())
    parser.parse_punctuation(")")
    return found


class _Copy(memref.CopyOp):
    """`memref.copy %source, %target : type to type`."""

    @classmethod
    def parse(cls, parser: Parser) -> memref.CopyOp:
        source = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        target = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kinds = [parser.parse_type()]
        parser.parse_keyword("to")
        kinds.append(parser.parse_type())
        operands = parser.resolve_operands([source, target], kinds, parser.pos)
        return memref.CopyOp.build(operands=operands, attributes=attributes)


_CUSTOM: dict[str, Any] = {
    "affine.if": _If, "affine.parallel": _Parallel, "memref.copy": _Copy,
}  # fmt: skip

# ------------------------------------------------------------------------------- errors

_LOWER_FIRST = {
    "linalg": "lower it first: mlir-opt --convert-linalg-to-affine-loops",
    "tensor": "bufferize it first: mlir-opt --one-shot-bufferize",
    "tosa": "lower it first to linalg, then to affine loops",
    "stablehlo": "lower it first to linalg, then to affine loops",
    "cf": "loopfuse reads structured loops (affine.for, scf.for), not branches",
    "gpu": "loopfuse makes the kernel: give it the loops before gpu outlining",
    "memref": "access the memref that was allocated or passed itself, not a view of it",
    "scf": "loopfuse reads scf.for and scf.if with bounds that are affine",
    "omp": "loopfuse finds the parallelism: give it the plain loops",
}


def _syntax_error(source: Source, error: ParseError) -> UserError:
    span = error.span
    first = source.text.count("\n", 0, span.start) + 1
    column = span.start - (source.text.rfind("\n", 0, span.start) + 1) + 1
    width = max(1, min(span.end, len(source.text)) - span.start)
    message = str(error.args[-1] if error.args else error).strip().splitlines()[-1].strip()
    message = getattr(error, "message", message) or message
    named = re.search(r"Operation (\S+) is not registered", message)
    if named:  # xDSL stands behind the name
        line = source.text[span.start - column + 1 : span.start]
        begin = line.rfind(named[1])
        if begin >= 0:
            column, width = begin + 1, len(named[1])
        return unknown_operation(source, named[1], Span(first, column, first, column + width))
    return UserError(
        Diagnostic(
            "mlir-syntax",
            f"not MLIR that loopfuse reads: {message[:1].lower() + message[1:]}".rstrip("."),
            Span(first, column, first, column + width),
            fix="mend the text here; `mlir-opt --mlir-print-op-generic` prints what is always read",
            source=source,
        )
    )


def unknown_operation(source: Source, name: str, span: Span) -> UserError:
    """What is said of an operation that is not read."""
    dialect = name.split(".")[0]
    return UserError(
        Diagnostic(
            "mlir-operation",
            f"loopfuse does not read the operation `{name}`"[:200],
            span,
            fix=_LOWER_FIRST.get(
                dialect, "it reads func, affine, memref, arith, math and structured scf"
            ),
            source=source,
        )
    )


def _invalid(source: Source, span: Span, why: str) -> UserError:
    lines = [line.strip() for line in why.strip().splitlines() if line.strip()] or [
        "no reason given"
    ]
    return UserError(
        Diagnostic(
            "mlir-invalid",
            f"not a valid operation: {lines[-1]}"[:400],
            span,
            fix="give the operation what it asks for; `mlir-opt` on the file says its rule",
            source=source,
        )
    )


def _too_deep(source: Source, span: Span) -> LimitError:
    return LimitError(
        Diagnostic(
            "nesting-too-deep", f"operations nest more than {DEEPEST} deep", span, source=source
        )
    )


def refuse(source: Source, span: Span, code: str, message: str, fix: str = "") -> NoReturn:
    """Raise a UserError at `span`."""
    raise UserError(Diagnostic(code, message, span, fix=fix, source=source))
