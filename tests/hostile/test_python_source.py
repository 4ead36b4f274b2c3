"""Mutated Python kernels: each is refused with a diagnostic, or compiled."""

from __future__ import annotations

import ast
import copy
import linecache
import random
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import pytest

from loopfuse.base.diagnostics import InternalError, LoopfuseError

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "examples").glob("*.py"))
NUMBERS = (0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 1e308, 1e400, float("nan"), 0.5, True,
           None, "text", b"x", 1j, ..., (1, 2))  # fmt: skip
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift,
             ast.RShift, ast.BitAnd, ast.MatMult)  # fmt: skip


def mutate(tree: ast.Module, generator: random.Random) -> ast.Module:
    """A few changes inside the functions of `tree`."""
    tree = copy.deepcopy(tree)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        return tree
    for _ in range(generator.choice((1, 1, 2, 3))):
        function = generator.choice(functions)
        nodes = [node for stmt in function.body for node in ast.walk(stmt)]
        if nodes:
            _change(function, generator.choice(nodes), nodes, generator)
    return ast.fix_missing_locations(tree)


def _change(
    function: ast.FunctionDef, node: ast.AST, nodes: list[ast.AST], generator: random.Random
) -> None:
    names = [n.id for n in nodes if isinstance(n, ast.Name)] or ["x"]
    expressions = [n for n in nodes if isinstance(n, ast.expr)]
    match node:
        case ast.Constant():
            node.value = generator.choice(NUMBERS)
        case ast.Name():
            node.id = generator.choice([*names, "nothing", "len", "range", "print", "np", "é"])
        case ast.BinOp():
            node.op = generator.choice(OPERATORS)()
        case ast.Compare():
            node.ops = [generator.choice((ast.Is, ast.In, ast.Eq, ast.Lt, ast.NotIn))() for _ in node.ops]
        case ast.Subscript():
            node.slice = copy.deepcopy(generator.choice(expressions))
        case ast.Call():
            if node.args and generator.randrange(2):
                node.args.pop(generator.randrange(len(node.args)))
            else:
                node.args.append(copy.deepcopy(generator.choice(expressions)))
        case ast.For() | ast.If() | ast.While():
            match generator.randrange(4):
                case 0:
                    node.orelse = [copy.deepcopy(generator.choice(function.body))]
                case 1:
                    node.body = [copy.deepcopy(node), *node.body]
                case 2:
                    node.body = [generator.choice((ast.Break, ast.Continue, ast.Pass))()]
                case _:
                    node.body.append(ast.Return(None))
        case ast.Assign():
            node.value = copy.deepcopy(generator.choice(expressions))
        case ast.Attribute():
            node.attr = generator.choice(("shape", "T", "dtype", "exp", "sum", "nothing"))
        case _:
            place = generator.randrange(len(function.body))
            if generator.randrange(2) and len(function.body) > 1:
                del function.body[place]
            else:
                function.body.insert(place, copy.deepcopy(generator.choice(function.body)))


def try_source(text: str, number: int) -> dict[str, int]:
    """Import `text` as a module and compile its kernels; how many were refused and compiled."""
    name = f"mutant_{number}"
    path = f"<{name}>.py"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    module: Any = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    counts = {"refused": 0, "compiled": 0}
    try:
        exec(compile(text, path, "exec"), module.__dict__)
        for thing in list(vars(module).values()):
            if hasattr(thing, "compile") and hasattr(thing, "dependences"):
                try:
                    thing.explain(target="cpu")
                    counts["compiled"] += 1
                except InternalError:
                    raise
                except LoopfuseError as error:
                    assert str(error)
                    counts["refused"] += 1
    except InternalError:
        raise
    except LoopfuseError as error:
        assert str(error)
        counts["refused"] += 1
    finally:
        del sys.modules[name], linecache.cache[path]
    return counts


def fuzz(seed: int, count: int) -> None:
    generator = random.Random(seed)
    trees = [ast.parse(file.read_text()) for file in FILES]
    total = {"refused": 0, "compiled": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(count):
            text = ast.unparse(mutate(generator.choice(trees), generator))
            try:
                compile(text, "mutant", "exec")
            except (SyntaxError, ValueError):
                continue
            try:
                for answer, times in try_source(text, number).items():
                    total[answer] += times
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
    assert min(total.values()) > count // 20, total


def test_mutated_functions() -> None:
    fuzz(1, 150)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_mutated_functions(seed: int) -> None:
    fuzz(seed, 1500)


SHAPE_NAME = """
import numpy as np
import loopfuse
from loopfuse import f32

@loopfuse.kernel
def k(x: f32["N", "M"]):
    N, y = x.shape
    y = np.empty_like(x)
    for i in range(N):
        y[i, 0] = x[i, 0]
    return y
"""
EMPTY_HULL = """
import numpy as np
import loopfuse
from loopfuse import f32

@loopfuse.kernel
def k(x: f32["T"]):
    T = len(x)
    y = np.empty_like(x)
    for t in range(T):
        h = np.empty(4, np.float32)
        for s in range(4):
            h[s] = 0.0
        for s in range(t):
            h[s] = h[s] + x[t]
        y[t] = h[0]
    return y
"""


@pytest.mark.parametrize("text, answer", [(SHAPE_NAME, "refused"), (EMPTY_HULL, "compiled")])
def test_found_by_fuzzing(text: str, answer: str) -> None:
    """A size's name that becomes an array; a temporary no large call can use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert try_source(text, 0)[answer] == 1
