"""Loops over elements, written as loops that count.

before:  for i, v in enumerate(x, 1):        after:  for v_at in range(len(x)):
             y[i] = v                                    i = v_at + 1
                                                         v = x[v_at]
                                                         y[i] = v

before:  for a, t in zip(x, TABLE):           after:  for t_at in range(3):
             s += a * t                                  if t_at < len(x):
                                                             a = x[t_at]; t = TABLE[t_at]
                                                             s += a * t

before:  for d, w in ((-1, 1), (0, 0.5)):     after:  d = -1; w = 1
             s += w * x[i + d]                        s += w * x[i + d]
                                                      d = 0; w = 0.5
                                                      s += w * x[i + d]

Read are `for v in x`, `enumerate`, `zip` (which ends with its shortest), `np.ndindex`, of arrays and
tables that have names, and `reversed(range(...))`. Each element is read as its turn begins, as CPython's iterators do. What is not
of these forms is left as it is, for `pyfunc_stmt` to refuse.
"""

from __future__ import annotations

import ast
import builtins
import copy
from collections import Counter
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from loopfuse.frontend.python.source import MISSING, PythonSource
from loopfuse.frontend.python.tables import is_mixed, numbers_in
from loopfuse.frontend.python.vocabulary import CREATIONS, lookup

MOST_COPIED = 1000
"""Nodes of what follows an `elif` that ends in `continue`, which every other branch gets."""
MOST_TURNS = 64
"""Turns of a loop over a table that are written out for the types of its elements."""


def count_in_loops(python: PythonSource) -> None:
    """Rewrites the function's loops over elements. Places stay those of the text."""
    find_tables(python)
    writer = _Writer(python)
    python.tree.body = writer.block(python.tree.body)


class _Writer:
    def __init__(self, python: PythonSource) -> None:
        nodes = list(ast.walk(python.tree))
        self.python = python
        self.local = local_names(python)
        self.set_here = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        self.set_here |= {n.arg for n in nodes if isinstance(n, ast.arg)}
        in_loops = {id(part) for n in nodes if isinstance(n, ast.For) for part in ast.walk(n.target)}
        self.assigned = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load) and id(n) not in in_loops}
        "The names that something else than a loop sets."
        self.taken = {n.id for n in nodes if isinstance(n, ast.Name)} | self.set_here

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [made for stmt in body for made in self.statement(stmt)]

    def statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        for part in ("body", "orelse"):
            inner = getattr(stmt, part, None)
            if isinstance(inner, list):
                setattr(stmt, part, self.block(inner))
        if isinstance(stmt, ast.Assign):
            self.divided(stmt)
            return self.one_by_one(stmt)
        if not isinstance(stmt, ast.For):
            return [stmt]
        stmt.iter = self.named(stmt.iter, f"{_first_name(stmt.target)}_values")
        function = self.meant(stmt.iter.func) if isinstance(stmt.iter, ast.Call) else MISSING
        if isinstance(stmt.iter, ast.Call) and function is np.ndindex:
            return self.every_index(stmt, stmt.iter)
        if isinstance(stmt.iter, ast.Call) and function is builtins.reversed:
            stmt.iter = self.backwards(stmt.iter)
            return [stmt]
        return self.over_elements(stmt)

    def named(self, source: ast.expr, name: str) -> ast.expr:
        """What a loop goes over, with tables that stand in it as names of such."""
        if isinstance(source, ast.Call) and self.meant(source.func) in (zip, enumerate):
            source.args = [self.named(part, name) for part in source.args]
        table = numbers_of(self.python, source, self.local)
        if not table:
            return source
        name = self.fresh(name)
        self.python.cells[name] = table
        return self.placed(ast.Name(name, ast.Load()), source)

    def divided(self, stmt: ast.Assign) -> None:
        """`q, r = divmod(a, b)` as `q, r = a // b, a % b`."""
        match stmt.value:
            case ast.Call(func=function, args=[left, right], keywords=[]) if self.meant(function) is divmod:
                parts: list[ast.expr] = [
                    ast.BinOp(left, ast.FloorDiv(), right), ast.BinOp(left, ast.Mod(), right)
                ]  # fmt: skip
                stmt.value = self.placed(ast.Tuple(parts, ast.Load()), stmt.value)
            case _:
                pass

    def one_by_one(self, stmt: ast.Assign) -> list[ast.stmt]:
        """`a = b = e` as `v = e; a = v; b = v`, or with `e` twice where that is as good; left as it is where
        a target is taken apart or `e` makes an array."""
        names = {node.id for target in stmt.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        if len(stmt.targets) < 2 or self.is_array(stmt.value) or not all(
            isinstance(target, (ast.Name, ast.Subscript)) for target in stmt.targets
        ):
            return [stmt]
        value, before = stmt.value, list[ast.stmt]()
        if not self.is_plain(value, names):
            name = self.fresh(f"{_first_name(stmt.targets[0])}_value")
            before = [self.placed(ast.Assign([ast.Name(name, ast.Store())], value), stmt)]
            value = ast.copy_location(ast.Name(name, ast.Load()), value)
        sets = [ast.Assign([target], copy.deepcopy(value)) for target in stmt.targets]
        return [*before, *(ast.copy_location(one, stmt) for one in sets)]

    def is_array(self, value: ast.expr) -> bool:
        """An array or a table, of which two names would be names of one."""
        match value:
            case ast.Tuple() | ast.List():
                return True
            case ast.Call(func=ast.Attribute(attr="copy")):
                return True
            case ast.Call(func=function):
                return lookup(CREATIONS, self.meant(function)) is not None
            case _:
                return False

    def is_plain(self, value: ast.expr, names: set[str]) -> bool:
        """A number that is known without computing, of none of these names."""
        for part in ast.walk(value):
            if isinstance(part, ast.Call) and not (
                self.meant(part.func) is len
                or (isinstance(self.meant(part.func), type) and all(isinstance(a, ast.Constant) for a in part.args))
            ):
                return False
            if isinstance(part, ast.Subscript) and not (
                isinstance(part.value, ast.Attribute) and part.value.attr == "shape"
            ):
                return False
            if isinstance(part, ast.Name) and part.id in names and part is not value:
                return False
        return not isinstance(value, (ast.IfExp, ast.BoolOp, ast.Compare))

    def meant(self, node: ast.expr) -> Any:
        """What a dotted name outside the function refers to."""
        match node:
            case ast.Name(id=name):
                return MISSING if name in self.set_here else self.python.find(name)
            case ast.Attribute(value=value, attr=attr):
                base = self.meant(value)
                return MISSING if base is MISSING else getattr(base, attr, MISSING)
            case _:
                return MISSING

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    # -------------------------------------------------------------------- elements

    def over_elements(self, stmt: ast.For) -> list[ast.stmt]:
        found = self.elements(stmt.target, stmt.iter)
        if found is None:
            return [stmt]
        sets, sources = found
        assigned = {
            n.id
            for part in stmt.body
            for n in ast.walk(part)
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
        }
        if not sources or not assigned.isdisjoint(sources):
            return [stmt]  # an exchange of arrays would not change what CPython goes through
        lengths = {name: self.table_length(name) for name in sources}
        if not stmt.orelse and self.is_mixed([value for _, value in sets]):
            turns = min(length for length in lengths.values() if length is not None)
            if turns <= MOST_TURNS:
                arrays = [name for name, length in lengths.items() if length is None]
                return [part for turn in range(turns) for part in self.turn(stmt, sets, arrays, turn)]
        return [self.counted(stmt, sets, lengths)]

    def is_mixed(self, values: list[ast.expr]) -> bool:
        """Some name of the loop is given numbers of several types, from a table."""
        for value in values:
            column = None
            match value:
                case ast.Subscript(value=ast.Subscript(value=ast.Name(id=name)), slice=ast.Constant(value=column)):
                    pass
                case ast.Subscript(value=ast.Name(id=name)):
                    pass
                case _:
                    continue
            if self.table_length(name) is None:
                continue
            table = self.python.find(name)
            if is_mixed(numbers_in([row[column] for row in table] if column is not None else table)):
                return True
        return False

    def turn(
        self, stmt: ast.For, sets: list[tuple[ast.Name, ast.expr]], arrays: list[str], turn: int
    ) -> list[ast.stmt]:
        """What the loop does in its turn of this number. Each is written out where the elements of a table
        are of several types, for each to have its own."""
        made: list[ast.stmt] = []
        for target, value in copy.deepcopy(sets):
            number = self.placed(_filled(value, ast.Constant(turn)), target)
            made.append(self.placed(ast.Assign([target], number), target))
            if isinstance(value, ast.Subscript):
                self.python.turns.add(id(value))
        for part in stmt.body:
            copied = copy.deepcopy(part)
            both = zip(ast.walk(part), ast.walk(copied))
            self.python.turns |= {id(new) for old, new in both if id(old) in self.python.turns}
            made.append(copied)
        if not arrays:
            return made
        inside = _expression(" and ".join(f"{turn} < len({name})" for name in arrays))
        return [ast.copy_location(ast.If(self.placed(inside, stmt.iter), made, []), stmt)]

    def counted(
        self, stmt: ast.For, sets: list[tuple[ast.Name, ast.expr]], sizes: dict[str, int | None]
    ) -> ast.For:
        """The loop as one that counts."""
        plain = [one.id for one, value in sets if isinstance(value, ast.Name) and value.id == ""]
        counter = plain[0] if len(plain) == 1 else self.fresh(f"{_first_name(stmt.target)}_at")
        turn, start = ast.Name(counter, ast.Load()), self.counts_from(sets, sizes)
        if start is not None:
            counter, first = start
            turn = ast.BinOp(ast.Name(counter, ast.Load()), ast.Sub(), ast.Constant(first))
        made: list[ast.stmt] = []
        for target, value in sets:
            if isinstance(value, (ast.Name, ast.BinOp)) and target.id == counter:
                continue
            number = _filled(value, turn)
            made.append(self.placed(ast.Assign([target], number), target))
            if isinstance(value, ast.Subscript):
                self.python.turns.add(id(value))
        known = [size for size in sizes.values() if size is not None]
        lengths = [f"len({name})" for name, size in sizes.items() if size is None]
        body: list[ast.stmt] = [*made, *stmt.body]
        if known and lengths:  # a table's elements are constants: its turns are written out
            inside = _expression(" and ".join(f"{counter} < {length}" for length in lengths))
            body = [ast.copy_location(ast.If(self.placed(inside, stmt.iter), body, []), stmt)]
            lengths = [str(min(known))]
        elif known:
            lengths = [str(min(known))]
        count = lengths[0] if len(lengths) == 1 else f"min({', '.join(lengths)})"
        count = f"{start[1]}, {count} + {start[1]}" if start is not None else count
        return ast.copy_location(
            ast.For(
                self.placed(ast.Name(counter, ast.Store()), stmt.target),
                self.placed(_expression(f"range({count})"), stmt.iter),
                body,
                stmt.orelse,
            ),
            stmt,
        )

    def counts_from(
        self, sets: list[tuple[ast.Name, ast.expr]], sizes: dict[str, int | None]
    ) -> tuple[str, int] | None:
        """The name that counts the turns from a number other than 0, and the number, where a loop can count
        with it: nothing else sets it."""
        if any(size is not None for size in sizes.values()):
            return None
        match [(one.id, value) for one, value in sets if not isinstance(value, ast.Subscript)]:
            case [(name, ast.BinOp(right=ast.Constant(value=int(first))))] if first > 0:
                return None if name in self.assigned else (name, first)
            case _:
                return None

    def table_length(self, name: str) -> int | None:
        """The length of a table of the enclosing scope; None of an array."""
        table: Any = MISSING if name in self.set_here else self.python.find(name)
        if isinstance(table, (tuple, list)):
            return len(cast("tuple[Any, ...]", table))
        return len(table) if isinstance(table, np.ndarray) and table.ndim else None

    def elements(
        self, target: ast.expr, source: ast.expr
    ) -> tuple[list[tuple[ast.Name, ast.expr]], list[str]] | None:
        """What each name of the target is set to, in terms of a counter whose name is empty, and
        what is gone through; None where the form is another."""
        match source:
            case ast.Name(id=name) if isinstance(target, ast.Name):
                return [(target, _expression(f"{name}[_]", "_"))], [name]
            case ast.Name(id=name):  # `for dy, dx in OFFSETS`
                parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
                names = [part for part in parts if isinstance(part, ast.Name)]
                if len(names) != len(parts) or not names or self.row_length(name) != len(names):
                    return None
                return [(one, _expression(f"{name}[_][{k}]", "_")) for k, one in enumerate(names)], [name]
            case ast.Call(args=args, keywords=keywords):
                function = self.meant(source.func)
            case _:
                return None
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        if function is builtins.enumerate and len(parts) == 2 and isinstance(parts[0], ast.Name):
            starts = [*args[1:], *(word.value for word in keywords if word.arg == "start")]
            if not args or len(starts) > 1 or len(keywords) > 1 or any(w.arg != "start" for w in keywords):
                return None
            inner = self.elements(parts[1], args[0])
            if inner is None:
                return None
            turn = _expression("_", "_") if not starts else ast.BinOp(_expression("_", "_"), ast.Add(), starts[0])
            return [(parts[0], turn), *inner[0]], inner[1]
        if function is builtins.zip and parts and len(parts) == len(args) and not keywords:
            each = [self.elements(part, arg) for part, arg in zip(parts, args)]
            if any(one is None for one in each):
                return None
            known = [one for one in each if one is not None]
            return [pair for one in known for pair in one[0]], [name for one in known for name in one[1]]
        return None

    def row_length(self, name: str) -> int | None:
        """The length of each row of a table of the enclosing scope; None of anything else."""
        table: Any = MISSING if name in self.set_here else self.python.find(name)
        if isinstance(table, np.ndarray):
            return table.shape[1] if table.ndim > 1 else None
        if not isinstance(table, (tuple, list)):
            return None
        rows = cast("tuple[Any, ...]", table)
        lengths = {len(row) if isinstance(row, (tuple, list)) else None for row in rows}
        return lengths.pop() if len(lengths) == 1 else None

    def backwards(self, call: ast.Call) -> ast.expr:
        """`reversed(range(a, b))` as `range(b - 1, a - 1, -1)`."""
        match call:
            case ast.Call(args=[ast.Call(func=function, args=args, keywords=[])], keywords=[]) if (
                self.meant(function) is range
                and len(args) in (1, 2)
                and not any(isinstance(arg, ast.Starred) for arg in args)
            ):
                first: ast.expr = args[0] if len(args) == 2 else ast.Constant(0)
                one = ast.Constant(1)
                last = ast.UnaryOp(ast.USub(), one)
                before = last if len(args) == 1 else ast.BinOp(first, ast.Sub(), one)
                return self.placed(
                    ast.Call(function, [ast.BinOp(args[-1], ast.Sub(), one), before, last], []), call
                )
            case _:
                return call

    # --------------------------------------------------------------------- indices

    def every_index(self, stmt: ast.For, call: ast.Call) -> list[ast.stmt]:
        """`for i, j in np.ndindex(h, w)` as two loops; of a shape, with the shape taken apart first,
        which refuses another number of dimensions."""
        parts = stmt.target.elts if isinstance(stmt.target, (ast.Tuple, ast.List)) else []
        names = [part for part in parts if isinstance(part, ast.Name)]
        args: list[ast.expr] = list(call.args)
        if len(args) == 1 and isinstance(args[0], ast.Tuple):
            args = args[0].elts
        if not names or len(names) != len(parts) or call.keywords or stmt.orelse:
            return [stmt]
        before: list[ast.stmt] = []
        if len(args) == 1:
            shape = args[0].value if isinstance(args[0], ast.Starred) else args[0]
            if isinstance(shape, ast.Attribute) and shape.attr == "shape":
                ends = [ast.Name(self.fresh(f"{name.id}_end"), ast.Store()) for name in names]
                before = [self.placed(ast.Assign([ast.Tuple([*ends], ast.Store())], shape), call)]
                args = [ast.Name(end.id, ast.Load()) for end in ends]
        if len(args) != len(names) or any(isinstance(arg, ast.Starred) for arg in args):
            return [stmt]
        body: list[ast.stmt] = stmt.body
        for name, end in zip(reversed(names), reversed(args)):
            bounds = ast.Call(ast.Name("range", ast.Load()), [end], [])
            loop = ast.For(name, self.placed(bounds, call), body, [])
            body = [ast.copy_location(loop, stmt)]
        return [*before, *body]

    def placed(self, node: Any, like: ast.AST) -> Any:
        """The node, and what in it has no place yet, where `like` stands."""
        for part in ast.walk(node):
            if isinstance(part, (ast.expr, ast.stmt)) and not hasattr(part, "lineno"):
                ast.copy_location(part, like)
        return node


# ---------------------------------------------------------------------------------- continue


def turn_continues(python: PythonSource) -> None:
    """What follows an `if` that ends in `continue` becomes its other branch, or that of all branches which do
    not. A `continue` deeper inside is left as it is, for `pyfunc_refuse`.

    before:  if x[i] < 0:                 after:  if x[i] < 0:
                 continue                             pass
             y[i] = x[i]                          else:
                                                      y[i] = x[i]
    """
    for loop in ast.walk(python.tree):
        if isinstance(loop, ast.For):
            loop.body = _without_continues(loop.body)


def _without_continues(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a loop's body, or of a branch that is the last thing in it."""
    out: list[ast.stmt] = []
    for position, stmt in enumerate(body):
        rest = body[position + 1 :]
        if rest and isinstance(stmt, ast.If) and _elif_ends(stmt) and _size(rest) <= MOST_COPIED:
            stmt.orelse = [*stmt.orelse, *copy.deepcopy(rest)]
            stmt.body = [*stmt.body, *rest]
            rest = []
        if isinstance(stmt, ast.Continue):
            return out or [ast.copy_location(ast.Pass(), stmt)]
        if isinstance(stmt, ast.If) and (not rest or _ends(stmt.body) or _ends(stmt.orelse)):
            then = stmt.body if _ends(stmt.body) else [*stmt.body, *rest]
            otherwise = stmt.orelse if _ends(stmt.orelse) else [*stmt.orelse, *rest]
            stmt.body = _without_continues(then)
            stmt.orelse = _without_continues(otherwise)
            return [*out, stmt]
        out.append(stmt)
    return out


def _elif_ends(stmt: ast.If) -> bool:
    """Only some `elif` of it ends in `continue`: what follows it belongs to several branches."""
    if _ends(stmt.body) or _ends(stmt.orelse):
        return False
    while len(stmt.orelse) == 1 and isinstance(stmt.orelse[0], ast.If):
        stmt = stmt.orelse[0]
        if _ends(stmt.body) or _ends(stmt.orelse):
            return True
    return False


def _size(body: list[ast.stmt]) -> int:
    return sum(1 for stmt in body for _ in ast.walk(stmt))


def _ends(body: list[ast.stmt]) -> bool:
    """Every way through the block ends in `continue`."""
    match body[-1:]:
        case [ast.Continue()]:
            return True
        case [ast.If(body=then, orelse=otherwise)]:
            return _ends(then) and _ends(otherwise)
        case _:
            return False


# ------------------------------------------------------------------------------------- tables


def find_tables(python: PythonSource) -> None:
    """Locals that are set once, to a tuple or list of numbers, are tables as those of the enclosing
    scope: `weights = (0.25, 0.5, 0.25)`, if nothing changes their elements."""
    local = local_names(python)
    nodes = list(ast.walk(python.tree))
    stores = Counter(n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    written = {
        base.id
        for node in nodes
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        for base in ast.walk(node.value)
        if isinstance(base, ast.Name)
    }
    for owner in nodes:
        if isinstance(owner, ast.If):
            continue  # it may not be set at all
        for part in ("body", "orelse"):
            block = getattr(owner, part, None)
            if not isinstance(block, list):
                continue
            for position, stmt in enumerate(cast("list[ast.stmt]", block)):
                match stmt:
                    case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                        stores[name] == 1 and name not in written
                    ):
                        table = numbers_of(python, value, local)
                        if table:
                            python.cells[name] = table
                            block[position] = ast.copy_location(ast.Pass(), stmt)
                    case _:
                        pass


def numbers_of(python: PythonSource, node: ast.expr, local: set[str]) -> tuple[Any, ...]:
    """A tuple or list of numbers, or of rows of such, as the text has it; empty if it is anything
    else. `local`: the names that are no constants from outside."""

    def number(part: ast.expr) -> Any:
        match part:
            case ast.Constant(value=bool() | int() | float() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = number(operand)
                return None if inner is None else -inner
            case ast.Name(id=name) if name not in local:
                value = python.find(name)
                return value if type(value) in (bool, int, float) or isinstance(value, np.generic) else None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr), args=[one], keywords=[]) if (
                name not in local and python.find(name) is np
            ):
                inner, kind = number(one), getattr(np, attr, None)
                if not isinstance(kind, type) or not issubclass(kind, np.generic) or type(inner) not in (bool, int, float):
                    return None
                try:
                    return kind(inner)
                except (OverflowError, ValueError, TypeError):
                    return None
            case ast.Attribute(value=ast.Name(id="math"), attr="pi" | "e" | "inf" | "nan" as attr) if (
                "math" not in local
            ):
                return getattr(python.find("math"), attr, None)
            case ast.Tuple() | ast.List():
                return numbers_of(python, part, local) or None
            case _:
                return None

    if not isinstance(node, (ast.Tuple, ast.List)):
        return ()
    parts = tuple(number(part) for part in node.elts)
    return () if any(part is None for part in parts) else parts


def local_names(python: PythonSource) -> set[str]:
    """The names that belong to the function itself."""
    nodes = list(ast.walk(python.tree))
    names = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    return names | {n.arg for n in nodes if isinstance(n, ast.arg)} | python.declared


def _expression(text: str, counter: str = "") -> ast.expr:
    """The text as an expression without places; the name `counter` becomes empty in it."""
    made = ast.parse(text, mode="eval").body
    for part in ast.walk(made):
        for place in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            if hasattr(part, place):
                delattr(part, place)
        if counter and isinstance(part, ast.Name) and part.id == counter:
            part.id = ""
    return made


def _filled(value: ast.expr, turn: ast.expr) -> ast.expr:
    """The expression with `turn` in place of the counter, whose name is empty."""

    class Filled(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return copy.deepcopy(turn) if node.id == "" else node

    return Filled().visit(value)


def _first_name(target: ast.expr) -> str:
    names: Iterable[ast.AST] = ast.walk(target)
    found = [node.id for node in names if isinstance(node, ast.Name)]
    return found[-1] if found else "turn"
