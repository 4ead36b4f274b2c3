"""What reading one Python function carries along: arrays, sizes, locals, constants, helpers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.frontend.python.names import Webs
from loopfuse.frontend.python.source import PythonSource
from loopfuse.frontend.python.types import Kind
from loopfuse.lang.surface import syntax

Typed = tuple[syntax.Expr, Kind | None]
"""An expression and its kind; None while the kind of a local it reads is not known."""


@dataclass(frozen=True, slots=True)
class Argument:
    """What is known of one parameter before the function is read: an array of `rank` dimensions
    (`extents` where an annotation names them) or, with rank None, a number."""

    name: str
    dtype: DType
    rank: int | None = None
    extents: tuple[str | int, ...] | None = None
    mode: str = ""
    weak: bool = False


@dataclass(slots=True)
class Array:
    """An array of the program, by its name there. Names of the function may change hands."""

    name: str
    dtype: DType
    extents: tuple[syntax.Expr, ...]
    mode: str
    node: ast.AST
    is_parameter: bool = True
    written: bool = False
    turns: tuple[str, ...] = ()
    "The arrays that the name may refer to after a loop in which several change places,"
    turn: str = ""
    "and which of them it is: a formula of sizes and integer parameters."


@dataclass(frozen=True, slots=True)
class Returned:
    """One value that is returned: the parameter `array` of the kernel, or with `number` its only
    element, as a Python number (`int`, `float`, `bool`) or NumPy's (`numpy`)."""

    array: str
    number: str = ""
    others: tuple[str, ...] = ()
    turn: str = ""
    "The array is `(array, *others)[turn]`."


@dataclass(slots=True)
class Shared:
    """What the kernel and its helpers share: the module's items, and the names they took."""

    constants: dict[str, syntax.Const] = field(default_factory=dict[str, syntax.Const])
    functions: dict[str, syntax.Func] = field(default_factory=dict[str, syntax.Func])
    known: dict[tuple[Any, ...], tuple[str, Kind]] = field(
        default_factory=dict[tuple[Any, ...], tuple[str, Kind]]
    )
    "Helpers by function, the kinds of the arguments, and which of several results it is."
    taken: set[str] = field(default_factory=set[str])
    reading: tuple[int, ...] = ()

    def free(self, name: str) -> str:
        """`name`, or with the first number that makes it new; taken from now on."""
        unique, count = name, 1
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        return unique


@dataclass(slots=True)
class Reader:
    """The state of reading one function (the kernel, or a helper)."""

    python: PythonSource
    shared: Shared
    expression: Callable[[Reader, ast.expr], Typed]
    "Reads any expression (`read_expression`)."
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    scalars: dict[str, Kind] = field(default_factory=dict[str, Kind])
    values: dict[str, Typed] = field(default_factory=dict[str, Typed])
    "Names that stand for an expression: sizes, literals, a helper's locals."
    webs: Webs = field(default_factory=Webs)
    iterators: dict[str, syntax.Range] = field(default_factory=dict[str, syntax.Range])
    locals: set[str] = field(default_factory=set[str])
    "Every name that the function assigns or loops over."
    visible: list[set[str]] = field(default_factory=lambda: [set[str]()])
    returned: set[str] = field(default_factory=set[str])
    "Created arrays that the function returns, or exchanges in a loop with one that it does."
    exchanged: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    "Pairs of arrays that some loop exchanges."
    rotated: set[str] = field(default_factory=set[str])
    "Arrays that change places with more than one other."
    level: int = 1
    "How many blocks there are where exchanges are known at every statement."
    unrolled: dict[str, Typed] = field(default_factory=dict[str, Typed])
    "Iterators of loops whose passes are written out, and their value in this one."
    branches: int = 0
    "How many `if`s stand around what is read."
    created: dict[str, Array] = field(default_factory=dict[str, Array])
    "The arrays that become further parameters: created ones that are returned, returned numbers."
    final: ast.Return | None = None
    "The function's last statement, where that returns something."
    results: list[Returned] = field(default_factory=list[Returned])
    created_names: set[str] = field(default_factory=set[str])
    "Names that some statement gives to a new array."
    accumulated: dict[int, Kind | None] = field(default_factory=dict[int, "Kind | None"])
    "The kind of what each accumulating assignment adds, by the statement's id."
    kept: list[syntax.Stmt] = field(default_factory=list[syntax.Stmt])
    "Those statements, so that their ids stay their own."
    part: tuple[int, int] | None = None
    "Which of how many numbers of a returned tuple is read, of a helper."
    loop_names: set[str] = field(default_factory=set[str])
    "Names that some loop counts with."

    def read(self, node: ast.expr) -> Typed:
        """`node` as a surface expression, with its kind."""
        return self.expression(self, node)

    @contextmanager
    def inner(self) -> Generator[None, None, None]:
        """A block inside the present one: what it declares ends with it."""
        self.visible.append(set())
        try:
            yield
        finally:
            self.visible.pop()

    def webs_names(self) -> set[str]:
        """The locals that hold numbers."""
        return {web.name for web in self.webs.all}

    def declare(self, name: str) -> str:
        """The program's name for a local declared here: its own, or a numbered one where the
        language would call it shadowed or doubled."""
        seen = set[str]().union(*self.visible)
        unique, count = name, 1
        while unique in seen or (count > 1 and (unique in self.locals or unique in self.shared.taken)):
            count += 1
            unique = f"{name}_{count}"
        self.visible[-1].add(unique)
        return unique
