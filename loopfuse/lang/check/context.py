"""The state of checking one kernel: scopes, names, hoisted statements, and what went wrong."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NoReturn

from loopfuse.base.diagnostics import (
    Diagnostic,
    Label,
    LimitError,
    LoopfuseError,
    Source,
    Span,
    UserError,
)
from loopfuse.base.dtypes import DType
from loopfuse.lang.check.narrow import finish, widen
from loopfuse.lang.check.scope import Entry, Globals, Names, PoisonEntry, Scope, describe
from loopfuse.lang.check.swap import Swaps
from loopfuse.lang.check.typing import (
    LiteralRange,
    MixedHalves,
    Value,
    convert,
    join,
    same_kind,
)
from loopfuse.lang.nodes import Expr, Stmt
from loopfuse.lang.surface import syntax
from loopfuse.lang.walk import children

MAX_ERRORS = 20
MAX_NODES = 50_000
"""The largest right-hand side, in nodes after inlining."""

MAX_STATEMENTS = 5_000
"""The most statements of a kernel after unrolling."""


class Poisoned(Exception):
    """Something used here was already reported: stop quietly."""


@dataclass(slots=True)
class Report:
    """Diagnostics of a whole module, each once."""

    source: Source
    errors: list[tuple[type[LoopfuseError], Diagnostic]] = field(
        default_factory=list[tuple[type[LoopfuseError], Diagnostic]]
    )
    warnings: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def add(self, error: LoopfuseError) -> None:
        """Keep the diagnostics of `error` that are new."""
        known = {(diagnostic.code, diagnostic.span) for _, diagnostic in self.errors}
        for diagnostic in error.diagnostics:
            if (diagnostic.code, diagnostic.span) not in known:
                self.errors.append((type(error), diagnostic))

    def warn(self, code: str, message: str, span: Span, *, label: str = "", fix: str = "") -> None:
        """Keep one warning, if it is new."""
        warning = Diagnostic(
            code, message, span, label=label, fix=fix, severity="warning", source=self.source
        )
        if warning not in self.warnings:
            self.warnings.append(warning)

    def raise_errors(self) -> None:
        """Raise what was found: a UserError, or a LimitError where there is nothing else."""
        if not self.errors:
            return
        users = [diagnostic for kind, diagnostic in self.errors if kind is UserError]
        if users:
            raise UserError(*users[:MAX_ERRORS])
        raise LimitError(*(diagnostic for _, diagnostic in self.errors[:MAX_ERRORS]))


@dataclass(slots=True)
class Context:
    """What elaboration carries through one kernel (or one `func` on its own).

    `elaborator` types any expression (`lang.check.elaborate`). `hoists` collects the statements that must
    run before the one being elaborated; `target` names what that one assigns. `affine` maps a `let` of the core to its value as an index expression.
    `alone`: this is a `func` without a caller, whose arguments are not known. `unknown` are the
    iterators whose range is known only when the program runs, `ends` are the bounds of the others.
    `related` are the names that assumptions speak of together. `accumulators` are reductions of
    f16 or bf16, which the core keeps as f32.
    """

    report: Report
    module: Globals
    elaborator: Callable[[Context, syntax.Expr], Value]
    fp: str = "fast"
    scope: Scope = field(default_factory=Scope)
    names: Names = field(default_factory=Names)
    hoists: list[Stmt] = field(default_factory=list[Stmt])
    target: str = "value"
    depth: int = 0
    affine: dict[str, Expr] = field(default_factory=dict[str, Expr])
    ended: dict[str, Span] = field(default_factory=dict[str, Span])
    used: set[str] = field(default_factory=set[str])
    written: set[str] = field(default_factory=set[str])
    declared: list[tuple[str, str, Span]] = field(default_factory=list[tuple[str, str, Span]])
    inlining: tuple[str, ...] = ()
    swaps: Swaps = field(default_factory=Swaps)
    statements: int = 0
    alone: bool = False
    accumulators: set[str] = field(default_factory=set[str])
    unknown: set[str] = field(default_factory=set[str])
    ends: dict[str, tuple[Expr, Expr]] = field(default_factory=dict[str, tuple[Expr, Expr]])
    related: set[frozenset[str]] = field(default_factory=set[frozenset[str]])
    tree_sizes: dict[int, tuple[Expr, int]] = field(default_factory=dict[int, tuple[Expr, int]])

    def elaborate(self, expr: syntax.Expr) -> Value:
        """`expr` as a typed core expression; statements it needs first go to `hoists`."""
        return self.elaborator(self, expr)

    # ------------------------------------------------------------------------- complaints

    def fail(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        label: str = "",
        labels: Iterable[Label] = (),
        notes: Iterable[str] = (),
        fix: str = "",
    ) -> NoReturn:
        """Raise the user's mistake."""
        raise UserError(
            Diagnostic(
                code,
                message,
                span,
                label,
                tuple(place for place in labels if place.span.line > 0),
                tuple(notes),
                fix,
                source=self.report.source,
            )
        )

    def limit(
        self, code: str, message: str, span: Span, *, notes: Iterable[str] = (), fix: str = ""
    ) -> NoReturn:
        """Raise a limit of this version."""
        raise LimitError(
            Diagnostic(code, message, span, notes=tuple(notes), fix=fix, source=self.report.source)
        )

    def text(self, span: Span, fallback: str = "x") -> str:
        """The source text of a span on one line."""
        if span.line == 0 or span.line != span.end_line:
            return fallback
        line = self.report.source.line(span.line)
        return line[span.column - 1 : span.end_column - 1] or fallback

    @property
    def is_full(self) -> bool:
        """Whether the limit on statements is passed."""
        return self.statements > MAX_STATEMENTS

    def count_statement(self, span: Span) -> None:
        """One statement more; a limit where unrolling makes too many."""
        self.statements += 1
        if self.statements > MAX_STATEMENTS:
            self.limit(
                "kernel-too-large",
                f"this kernel has more than {MAX_STATEMENTS} statements after unrolling",
                span,
                fix="pass the tables as arrays, so that their loops stay loops",
            )

    # ----------------------------------------------------------------------------- names

    @contextmanager
    def inner(self) -> Generator[None, None, None]:
        """A scope inside the present one; afterwards its names are remembered as ended."""
        outer = self.scope
        self.scope = Scope(outer)
        try:
            yield
        finally:
            for name, entry in self.scope.entries.items():
                self.ended[name] = entry.span
            self.scope = outer

    def define(self, name: str, entry: Entry) -> None:
        """Declare `name` here; an error if it is already visible."""
        known = self.scope.find(name)
        if known is not None and not isinstance(known, PoisonEntry):
            local = name in self.scope.entries
            self.fail(
                "duplicate-name" if local else "shadowed-name",
                f"`{name}` is already {describe(known)} here",
                entry.span,
                labels=[Label(known.span, "first declared here")],
                fix=f"choose another name, such as `{self.free_name(name)}`",
            )
        self.scope.entries[name] = entry

    def free_name(self, name: str) -> str:
        """A name like `name` that nothing visible has."""
        visible = set(self.scope.names())
        return next(f"{name}{k}" for k in range(2, 10_000) if f"{name}{k}" not in visible)

    def find(self, name: str, span: Span) -> Entry:
        """What `name` refers to; an error with the likeliest spelling if nothing."""
        entry = self.scope.find(name)
        if isinstance(entry, PoisonEntry):
            raise Poisoned
        if entry is not None:
            return entry
        notes: list[str] = []
        fix = closest(name, self.scope.names())
        if name in self.ended:
            notes.append(f"the `{name}` of line {self.ended[name].line} ends with its block")
            fix = f"declare `{name}` before the block, or use it inside"
        elif name in self.module.functions or name in self.module.kernels:
            notes.append(f"`{name}` is the name of a function, which can only be called")
        self.fail("unknown-name", f"`{name}` is not defined", span, notes=notes, fix=fix)

    # ----------------------------------------------------------------------- conversions

    def join(self, left: Value, right: Value, span: Span) -> DType:
        """The dtype in which an operation on `left` and `right` is done."""
        try:
            return join(left, right)
        except MixedHalves:
            text = self.text(right.expr.span)
            self.fail(
                "mixed-halves",
                f"{left.dtype.value} and {right.dtype.value} do not mix: neither holds the other's "
                "numbers",
                span,
                fix=f"write `f32({text})`, or convert one to the other",
            )

    def finish(self, expr: Expr) -> Expr:
        """One whole right-hand side as it will be computed (see `lang.check.narrow`)."""
        return finish(expr, self.fp, self.accumulators)

    def widen(self, expr: Expr) -> Expr:
        """`expr` as an f32 where it is an f16 or bf16 (see `lang.check.narrow`)."""
        return widen(expr, self.fp, self.accumulators)

    def convert(self, value: Value, dtype: DType, span: Span) -> Expr:
        """`value` as `dtype`, whatever it was; an integer literal must fit."""
        try:
            return convert(value, dtype)
        except LiteralRange as error:
            wider = "f64" if dtype is DType.I64 else "i64"
            self.fail(
                "literal-range",
                f"{error.value} does not fit {dtype.value}",
                span,
                fix=f"use a wider type: `{wider}(...)` on the other operand",
            )

    def assign(self, value: Value, dtype: DType, span: Span, target: str) -> Expr:
        """`value` as the `dtype` of `target`, if an assignment may convert it."""
        whole = value.weak and value.dtype.is_integer and dtype.is_integer
        if not whole and not same_kind(value.dtype, dtype):
            text = self.text(span)
            if dtype is DType.BOOL:
                fix = f"compare it: `{parenthesise(text)} != 0`"
            else:
                fix = f"write the conversion: `{dtype.value}({text})`"
            self.fail(
                "bad-conversion",
                f"{article(value.dtype)} does not convert to `{target}`, which is {dtype.value}",
                span,
                label=f"this is {value.dtype.value}",
                fix=fix,
            )
        return self.convert(value, dtype, span)

    def check_size(self, expr: Expr, span: Span) -> None:
        """Refuse an expression that inlining has made enormous."""
        if self.tree_size(expr) > MAX_NODES:
            self.limit(
                "expression-too-large",
                f"this expression has more than {MAX_NODES} operations after inlining",
                span,
                fix="bind the parts that are used several times with `let`",
            )

    def tree_size(self, expr: Expr) -> int:
        """How many nodes `expr` has, shared ones counted at each use."""
        known = self.tree_sizes.get(id(expr))
        if known is not None:
            return known[1]
        size = 1 + sum(self.tree_size(child) for child in children(expr))
        self.tree_sizes[id(expr)] = (expr, size)  # holding `expr` keeps its id its own
        return size


def place(expr: Expr, span: Span) -> Expr:
    """`expr` standing at `span`."""
    return replace(expr, span=span)


def parenthesise(text: str) -> str:
    """`text`, in parentheses unless it is one word, subscript or call."""
    return text if " " not in text else f"({text})"


def article(dtype: DType) -> str:
    """`an f32`, `a bool`."""
    return f"a {dtype.value}" if dtype in (DType.BOOL, DType.BF16) or dtype.is_unsigned else (
        f"an {dtype.value}"
    )


def closest(name: str, candidates: Iterable[str]) -> str:
    """A fix that proposes the candidate most like `name`; empty where none is."""
    words = sorted(set(candidates))
    folded = [word for word in words if word.lower() == name.lower()]
    found = folded or difflib.get_close_matches(name, words, 1, 0.6)
    return f"did you mean `{found[0]}`?" if found else ""
