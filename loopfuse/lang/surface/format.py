"""Prints a surface tree in the one canonical style: `loopfuse fmt`.

`parse(format_module(m)) == m` for every tree that can be read, and printing is idempotent. Four
spaces a level, a blank line between kernels and functions, subscripts and bounds tight, no
parentheses that precedence does not need. Comments stay; of several blank lines one stays. Long
expressions are not broken; long parameter lists and constant tables are.
"""

from __future__ import annotations

from typing import assert_never

from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.format_comments import Comments, place_comments
from loopfuse.lang.surface.format_expr import format_expr, format_range

WIDTH = 100
"""Parameter lists and tables that would pass this column are written one entry a line."""

_END = 1 << 60
"""A line after every line."""


def format_module(module: syntax.Module) -> str:
    """`module` as text, ending in a newline (empty for an empty module)."""
    printer = _Printer(place_comments(module))
    previous: syntax.Func | syntax.Const | syntax.Kernel | None = None
    for item in module.items:
        both_const = isinstance(previous, syntax.Const) and isinstance(item, syntax.Const)
        printer.blank_next = previous is not None and not both_const
        printer.item(item)
        previous = item
    printer.blank_next = previous is not None and not isinstance(previous, syntax.Const)
    printer.own_comments(_END, 0)
    return "".join(f"{line}\n" for line in printer.out)


class _Printer:
    """The lines printed so far, and the comments still to print."""

    def __init__(self, comments: Comments) -> None:
        self.out: list[str] = []
        self.comments = comments
        self.blank_next = False
        self.at_start = True  # of the file or of a block: no blank line here

    # ---------------------------------------------------------------------------- lines

    def put(self, level: int, text: str, line: int) -> None:
        """Prints a statement (or its header) that stood at `line`, with its comments."""
        first = self.comments.first_line(line)
        self.own_comments(first, level)
        self.space(first)
        trailing = self.comments.take_trailing(line)
        pad = "    " * level
        lines = [pad + part if part else part for part in text.split("\n")]
        if trailing:
            lines[-1] += f"  {trailing}"
        self.out += lines
        self.at_start = False

    def own_comments(self, before: int, level: int, column: int = 1) -> None:
        """Prints the comments that stood on lines of their own above line `before`."""
        for line, text in self.comments.take_own(before, column):
            self.space(line)
            self.out.append("    " * level + text)
            self.at_start = False

    def space(self, line: int) -> None:
        """A blank line, if one stood above `line` or is due."""
        wanted = self.blank_next or self.comments.follows_blank(line)
        if wanted and not self.at_start:
            self.out.append("")
        self.blank_next = False

    # ------------------------------------------------------------------------- top level

    def item(self, item: syntax.Func | syntax.Const | syntax.Kernel) -> None:
        """One item of the module."""
        match item:
            case syntax.Const():
                self.put(0, _const(item), item.span.line)
            case syntax.Func():
                head = _header(f"func {item.name}", item.params, f" -> {item.result.value}:")
                self.put(0, head, item.span.line)
                self.at_start = True
                for let in item.lets:
                    self.put(1, _let(let), let.span.line)
                self.put(1, f"return {format_expr(item.value)}", item.value.span.line)
            case syntax.Kernel():
                self.put(0, _header(f"kernel {item.name}", item.params, ":"), item.span.line)
                self.body(1, item.body, _END)
            case _:
                assert_never(item)

    # ------------------------------------------------------------------------ statements

    def body(self, level: int, body: tuple[syntax.Stmt, ...], until: int) -> None:
        """A block's statements, and the comments after its last one, down to line `until`."""
        self.at_start = True
        for place, stmt in enumerate(body):
            following = body[place + 1].span.line if place + 1 < len(body) else until
            self.stmt(level, stmt, following)
        if body:
            # A comment belongs to the block it is aligned with; above the first column of this
            # block's statements it is the surrounding block's.
            self.own_comments(until, level, max(body[0].span.column, 2))

    def stmt(self, level: int, stmt: syntax.Stmt, until: int) -> None:
        """One statement; `until` is the line of what comes after it."""
        line = stmt.span.line
        match stmt:
            case syntax.For():
                word = "parallel for" if stmt.parallel else "for"
                ranges = ", ".join(format_range(item) for item in stmt.ranges)
                self.put(level, f"{word} {ranges}:", line)
                self.body(level + 1, stmt.body, until)
            case syntax.Block():
                self.put(level, f"{stmt.kind}:", line)
                self.body(level + 1, stmt.body, until)
            case syntax.If():
                self.if_chain(level, stmt, until)
            case _:
                self.put(level, _simple(stmt), line)

    def if_chain(self, level: int, stmt: syntax.If, until: int) -> None:
        """An `if` with its `elif`s and its `else`."""
        word = "if"
        while True:
            self.put(level, f"{word} {format_expr(stmt.condition)}:", stmt.span.line)
            match stmt.otherwise:
                case ():
                    self.body(level + 1, stmt.then, until)
                    return
                case (syntax.If() as rest,) if self.is_elif(stmt, rest):
                    self.body(level + 1, stmt.then, rest.span.line)
                    word, stmt = "elif", rest
                case rest:
                    after, before = stmt.then[-1].span.end_line, rest[0].span.line
                    line = self.comments.find_else(after, before)
                    self.body(level + 1, stmt.then, line)
                    self.put(level, "else:", line)
                    self.body(level + 1, rest, until)
                    return

    def is_elif(self, stmt: syntax.If, rest: syntax.If) -> bool:
        """Whether `rest`, alone in the else of `stmt`, was written `elif`: the two are one tree.

        An `else:` that holds only an `if` is printed as `elif`, unless comments stand at the
        `else` and would lose their place.
        """
        line = self.comments.find_else(stmt.then[-1].span.end_line, rest.span.line)
        if line == 0:
            return True
        own = any(line < place <= rest.span.line for place, _, _ in self.comments.own)
        return not own and self.comments.first_line(line) not in self.comments.trailing


def _simple(stmt: syntax.Assign | syntax.Let | syntax.Temp | syntax.Swap | syntax.Assume) -> str:
    """A statement of one line."""
    match stmt:
        case syntax.Assign():
            return f"{format_expr(stmt.target)} {stmt.op}= {format_expr(stmt.value)}"
        case syntax.Let():
            return _let(stmt)
        case syntax.Temp():
            return f"temp {stmt.name}: {stmt.dtype.value}{_extents(stmt.extents)}"
        case syntax.Swap():
            return f"swap {stmt.left}, {stmt.right}"
        case syntax.Assume():
            return f"assume {format_expr(stmt.condition)}"
        case _:
            assert_never(stmt)


def _let(let: syntax.Let) -> str:
    word = "var" if let.mutable else "let"
    dtype = "" if let.dtype is None else f": {let.dtype.value}"
    return f"{word} {let.name}{dtype} = {format_expr(let.value)}"


def _extents(extents: tuple[syntax.Expr, ...] | None) -> str:
    if extents is None:
        return ""
    return "[" + ", ".join(format_expr(extent, True) for extent in extents) + "]"


def _param(param: syntax.Param) -> str:
    mode = "" if param.mode == "in" else f"{param.mode} "
    const = "const " if param.is_const else ""
    return f"{mode}{param.name}: {const}{param.dtype.value}{_extents(param.extents)}"


def _header(start: str, params: tuple[syntax.Param, ...], end: str) -> str:
    """`start(params)end`, on one line or one parameter a line."""
    texts = [_param(param) for param in params]
    line = f"{start}({', '.join(texts)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{start}(", *(f"    {text}," for text in texts), f"){end}"])


def _const(const: syntax.Const) -> str:
    dtype = "" if const.dtype is None else f": {const.dtype.value}{_extents(const.extents)}"
    start = f"const {const.name}{dtype} = "
    if not isinstance(const.values, tuple):
        return start + format_expr(const.values)
    line = start + _table(const.values)
    if len(line) <= WIDTH:
        return line
    if any(isinstance(value, tuple) for value in const.values):
        rows = [f"    {_table(value)}," for value in const.values]
    else:
        rows = _filled([_table(value) for value in const.values])
    return "\n".join([f"{start}[", *rows, "]"])


def _table(value: object) -> str:
    """A constant, or a bracketed list of them."""
    if isinstance(value, tuple):
        return "[" + ", ".join(_table(part) for part in value) + "]"
    assert isinstance(value, syntax.Expr)
    return format_expr(value)


def _filled(texts: list[str]) -> list[str]:
    """`texts` with commas, as many to a line as fit."""
    rows: list[str] = []
    for text in texts:
        if rows and len(rows[-1]) + len(text) + 2 <= WIDTH:
            rows[-1] += f" {text},"
        else:
            rows.append(f"    {text},")
    return rows
