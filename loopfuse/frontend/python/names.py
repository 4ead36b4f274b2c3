"""Which assignments of a Python local belong together, and where each group is declared.

before:  for i in range(n):            after:  `t` of the first loop and `t` of the second are two
             t = x[i]                          values, each private to its loop's body
             y[i] = t * t
         for i in range(n):
             t = y[i]
             z[i] = t + 1.0

Two assignments that one read may see are one *web* (Muchnick's term); a web is declared in the
smallest block that holds all of it, so that what Python lets live in the whole function becomes
private to an iteration wherever it can.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from loopfuse.frontend.python.types import Kind

Path = tuple[tuple[int, int], ...]
State = dict[str, frozenset[int]]
_UNASSIGNED, _COUNTED = -1, -2
"""In place of the number of an assignment: none, and a loop that counts with the name."""


@dataclass(slots=True, eq=False)
class Web:
    """Assignments of one local that share a reader, with everything that reads them."""

    name: str
    definitions: list[ast.stmt] = field(default_factory=list[ast.stmt])
    paths: list[Path] = field(default_factory=list[Path])
    home: ast.stmt | None = None
    "The assignment that declares it; None where a declaration is put before a statement."
    kind: Kind | None = None
    start: Kind | None = None
    "What its first assignment gives it."
    gathers: bool = False
    "Every assignment but the first updates it: `s = 0.0`, then `s += x[i]`."
    spoken: str = ""
    "The name it goes by in the program, once declared."

    @property
    def is_constant(self) -> bool:
        """Assigned once, where it is declared."""
        return self.home is not None and len(self.definitions) == 1


@dataclass(slots=True)
class Webs:
    """All webs of a function, by the names and assignments that belong to them."""

    of_use: dict[int, Web] = field(default_factory=dict[int, Web])
    of_definition: dict[tuple[int, str], Web] = field(default_factory=dict[tuple[int, str], Web])
    declared_before: dict[int, list[Web]] = field(default_factory=dict[int, list[Web]])
    unassigned: list[ast.Name] = field(default_factory=list[ast.Name])
    after_loop: set[int] = field(default_factory=set[int])
    "Uses that may see what a loop left in its iterator."
    at_start: set[int] = field(default_factory=set[int])
    "Uses that may see what the first assignment of a gathering web gave it, if arrays are not empty."
    all: list[Web] = field(default_factory=list[Web])


def find_webs(body: list[ast.stmt], names: set[str]) -> Webs:
    """The webs of the locals `names` in a function's body."""
    finder = _Finder(names)
    finder.block(body, {}, ())
    webs = finder.webs(body)
    filled = _Finder(names, _changed_in_loops(body))
    filled.block(body, {}, ())
    for use, (_, _, reaching) in filled.uses.items():
        web = webs.of_use.get(use)
        if web is not None and web.gathers:
            seen = {id(filled.definitions[number][0]) for number in reaching if number >= 0}
            if id(web.definitions[0]) in seen:
                webs.at_start.add(use)
    return webs


def _changed_in_loops(body: list[ast.stmt]) -> set[str]:
    """Names that count loops, or that loops assign."""
    return {
        node.id
        for stmt in body
        for loop in ast.walk(stmt)
        if isinstance(loop, ast.For)
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def assigned_names(target: ast.expr) -> list[ast.Name]:
    """The plain names that an assignment target sets."""
    if isinstance(target, ast.Name):
        return [target]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in assigned_names(part)]
    return []


class _Finder:
    """Reaching definitions over structured statements. With `changing` names, loops run at least once,
    but for those whose bounds depend on such names or on data."""

    def __init__(self, names: set[str], changing: set[str] | None = None) -> None:
        self.names = names
        self.changing = changing
        self.definitions: list[tuple[ast.stmt, str, Path]] = []
        self.numbers: dict[tuple[int, str], int] = {}
        self.uses: dict[int, tuple[ast.Name, Path, set[int]]] = {}

    def block(self, body: list[ast.stmt], state: State, path: Path) -> State:
        for index, stmt in enumerate(body):
            state = self.statement(stmt, state, (*path, (id(body), index)))
        return state

    def statement(self, stmt: ast.stmt, state: State, path: Path) -> State:
        match stmt:
            case ast.Assign(targets=targets, value=value):
                self.read(value, state, path)
                for target in targets:
                    self.read(target, state, path)
                    for name in assigned_names(target):
                        state = self.define(stmt, name.id, state, path)
                return state
            case ast.AugAssign(target=target, value=value):
                self.read(value, state, path)
                if isinstance(target, ast.Name):
                    self.use(target, state, path)
                    return self.define(stmt, target.id, state, path)
                self.read(target, state, path)
                return state
            case ast.For(target=target, iter=bounds, body=body, orelse=orelse):
                self.read(bounds, state, path)
                counted = {name.id: frozenset({_COUNTED}) for name in assigned_names(target)}
                while True:
                    end = self.block(body, {**state, **counted}, path)
                    after = _merge(state, end)
                    if after == state:
                        break
                    state = after
                return self.block(orelse, end if self.runs(bounds) else state, path)
            case ast.If(test=test, body=body, orelse=orelse):
                self.read(test, state, path)
                then = self.block(body, dict(state), path)
                return _merge(then, self.block(orelse, dict(state), path))
            case ast.With(body=body):
                return self.block(body, state, path)
            case _:
                self.read(stmt, state, path)
                return state

    def runs(self, bounds: ast.expr) -> bool:
        """A loop with these bounds runs at least once, as far as its text shows."""
        return self.changing is not None and not any(
            (isinstance(part, ast.Name) and part.id in self.changing)
            or (isinstance(part, ast.Subscript) and not _is_shape(part.value))
            for part in ast.walk(bounds)
        )

    def read(self, node: ast.AST, state: State, path: Path) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                self.use(part, state, path)

    def use(self, name: ast.Name, state: State, path: Path) -> None:
        if name.id not in self.names:
            return
        found = self.uses.setdefault(id(name), (name, path, set[int]()))
        found[2].update(state.get(name.id, frozenset({_UNASSIGNED})))

    def define(self, stmt: ast.stmt, name: str, state: State, path: Path) -> State:
        if name not in self.names:
            return state
        number = self.numbers.setdefault((id(stmt), name), len(self.definitions))
        if number == len(self.definitions):
            self.definitions.append((stmt, name, path))
        return {**state, name: frozenset({number})}

    def webs(self, body: list[ast.stmt]) -> Webs:
        parents = list(range(len(self.definitions)))

        def root(number: int) -> int:
            while parents[number] != number:
                number = parents[number]
            return number

        result = Webs()
        for name, _, reaching in self.uses.values():
            if _UNASSIGNED in reaching:
                result.unassigned.append(name)
            if _COUNTED in reaching:
                result.after_loop.add(id(name))
            known = sorted(reaching - {_UNASSIGNED, _COUNTED})
            for number in known[1:]:
                first, second = sorted((root(known[0]), root(number)))
                parents[second] = first
        webs: dict[int, Web] = {}
        for number, (stmt, name, path) in enumerate(self.definitions):
            web = webs.setdefault(root(number), Web(name))
            web.definitions.append(stmt)
            web.paths.append(path)
            result.of_definition[(id(stmt), name)] = web
        for name, path, reaching in self.uses.values():
            known = sorted(reaching - {_UNASSIGNED, _COUNTED})
            if known:
                web = webs[root(known[0])]
                web.paths.append(path)
                result.of_use[id(name)] = web
        for web in webs.values():
            updates = [_updates(stmt, web, result) for stmt in web.definitions]
            web.gathers = len(updates) > 1 and not updates[0] and all(updates[1:])
        statements = {id(stmt): stmt for stmt in _all_statements(body)}
        lists = _all_blocks(body)
        for web in webs.values():
            _place(web, lists, result, statements)
        result.all = list(webs.values())
        return result


def _is_shape(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def _updates(stmt: ast.stmt, web: Web, webs: Webs) -> bool:
    """The assignment makes the variable's new value of its old one."""
    return any(
        isinstance(node, ast.Name) and node.id == web.name and webs.of_use.get(id(node)) is web
        for node in ast.walk(stmt)
    )


def _merge(left: State, right: State) -> State:
    missing = frozenset({_UNASSIGNED})
    return {
        name: left.get(name, missing) | right.get(name, missing) for name in {*left, *right}
    }


def _all_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    return [node for stmt in body for node in ast.walk(stmt) if isinstance(node, ast.stmt)]


def _all_blocks(body: list[ast.stmt]) -> dict[int, list[ast.stmt]]:
    found = {id(body): body}
    for stmt in _all_statements(body):
        for part in ("body", "orelse"):
            inner = getattr(stmt, part, None)
            if isinstance(inner, list):
                found[id(inner)] = inner
    return found


def _place(
    web: Web, lists: dict[int, list[ast.stmt]], result: Webs, statements: dict[int, ast.stmt]
) -> None:
    """The smallest block that holds every path of the web, and the statement it first stands in."""
    depth = 0
    shortest = min(len(path) for path in web.paths)
    while depth + 1 < shortest and len({path[depth] for path in web.paths}) == 1:
        if len({path[depth + 1][0] for path in web.paths}) > 1:
            break
        depth += 1
    block = lists[web.paths[0][depth][0]]
    first = block[min(path[depth][1] for path in web.paths)]
    if any(stmt is first for stmt in web.definitions):
        web.home = first
    else:
        result.declared_before.setdefault(id(first), []).append(web)
