"""Peers that compile a case's loops ahead of time, through a C++ compiler: pythran and DaCe.

A case becomes a module of its own: the function, the functions that it calls and the constants that it reads.
pythran gets `range` with an OpenMP directive in front for `prange`, DaCe `range` alone, and extents as constants: what
is parallel it finds out.
What is compiled stays in a folder named by a hash of the text, with what is refused beside it: $LOOPFUSE_PEERS, else
`loopfuse-peers` among the temporary files. Delete the folder to compile again.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import inspect
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from cpu_cases.case import Arguments, Case, Function

LIMIT = 60.0
"""Seconds to compile a case, where two or three are usual: more, and it counts as refused."""

FLAGS = ("-O3", "-march=native", "-ffast-math", "-fopenmp")
"""pythran's; DaCe has its own, which are much the same."""


# ------------------------------------------------------------------------------------ the text


def number_text(value: Any) -> str:
    """A constant as an expression."""
    if isinstance(value, np.generic):
        return f"np.{value.dtype.name}({number_text(value.item())})"
    if isinstance(value, float) and math.isinf(value):
        return "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def definition(function: Function) -> ast.FunctionDef:
    """A function's text without decorators, annotations and a docstring."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(tree, ast.FunctionDef)
    tree.decorator_list, tree.returns = [], None
    for argument in tree.args.args:
        argument.annotation = None
    if ast.get_docstring(tree) is not None:
        del tree.body[0]
    return tree


def gathered(function: Function, constants: dict[str, str], functions: dict[str, ast.FunctionDef]) -> None:
    """Add the function to `functions`, what it calls before it, and the constants that all of them read."""
    known, local = function.__globals__, function.__code__.co_varnames
    for name in function.__code__.co_names:
        value = known.get(name)
        if name == "prange" or name in local or value is None or isinstance(value, ModuleType):
            continue
        if isinstance(value, FunctionType):
            if name not in functions:
                gathered(value, constants, functions)
        elif isinstance(value, BuiltinFunctionType):
            constants[name] = f"{value.__module__}.{value.__name__}"
        elif isinstance(value, type):
            constants[name] = f"np.{value.__name__}"
        else:
            constants[name] = number_text(value)
    functions[function.__name__] = definition(function)


class Ranges(ast.NodeTransformer):
    """`range` for `prange`."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """The word."""
        return ast.Name("range", node.ctx) if node.id == "prange" else node


class Directives(ast.NodeTransformer):
    """`range` for `prange`, with OpenMP's directive in front of the outermost ones: what their bodies set is renamed,
    so that each loop has variables of its own, and a total, a least or a greatest value is a reduction, as to numba."""

    def __init__(self) -> None:
        self.count = 0

    def visit_For(self, node: ast.For) -> Any:
        """A loop."""
        call = node.iter
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "prange"):
            return self.generic_visit(node)
        plain = Ranges().visit(node)
        joined = reductions(plain)
        names = {each.id for each in ast.walk(plain) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        for each in ast.walk(plain):
            if isinstance(each, ast.Name) and each.id in names - joined.keys():
                each.id = f"{each.id}_{self.count}"
        self.count += 1
        clauses = [f" reduction({operator}:{name})" for name, operator in joined.items()]
        return [ast.Expr(ast.Constant("omp parallel for" + "".join(clauses))), plain]


class Dace(ast.NodeTransformer):
    """`range` for `prange`; without the statements that name an array argument's extents, which are `known` then, as
    it takes no others for an array's; `if` and `else` for a conditional expression that is assigned, which it refuses."""

    def __init__(self, arguments: Arguments) -> None:
        self.shapes = {name: value.shape for name, value in arguments.items() if isinstance(value, np.ndarray)}
        self.known: dict[str, int] = {}

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """The word."""
        return Ranges().visit_Name(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        """`h, w = x.shape`, `n = x.shape[0]`, `n = len(x)`, `y = a if c else b`."""
        (target,) = node.targets
        if isinstance(node.value, ast.IfExp):
            body, orelse = ([ast.Assign([target], value, lineno=0)] for value in (node.value.body, node.value.orelse))
            return ast.If(node.value.test, body, orelse)
        names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
        array = next((each.id for each in ast.walk(node.value) if isinstance(each, ast.Name) and each.id in self.shapes), "")
        text, shape = ast.unparse(node.value), self.shapes.get(array, ())
        if text == f"{array}.shape" and len(names) == len(shape):
            self.known.update(zip(names, shape))
            return None
        extents = {f"len({array})": 0} | {f"{array}.shape[{axis}]": axis for axis in range(len(shape))}
        if text in extents and isinstance(target, ast.Name):
            self.known[target.id] = shape[extents[text]]
            return None
        return self.generic_visit(node)


def reductions(loop: ast.For) -> dict[str, str]:
    """The names that a loop's body only adds to, or only takes the least or greatest of, with OpenMP's operators."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            operator = "+" if isinstance(node.op, ast.Add | ast.Sub) else ""
            found.setdefault(node.target.id, set()).add(operator)
        elif isinstance(node, ast.Assign):
            for name in (each.id for target in node.targets for each in ast.walk(target) if is_stored(each)):
                found.setdefault(name, set()).add(extreme(name, node.value))
        elif isinstance(node, ast.For):
            for name in (each.id for each in ast.walk(node.target) if is_stored(each)):
                found.setdefault(name, set()).add("")
    return {name: min(operators) for name, operators in found.items() if len(operators) == 1 and "" not in operators}


def is_stored(node: ast.AST) -> bool:
    """Is it a name that is set?"""
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def extreme(name: str, value: ast.expr) -> str:
    """`min` or `max` for the least or greatest of `name` and something else, "" for others."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("min", "max"):
        first = value.args[0]
        return value.func.id if isinstance(first, ast.Name) and first.id == name else ""
    return ""


def module_text(function: Function, rewrite: ast.NodeTransformer, types: Mapping[str, str]) -> str:
    """The module of a function: loops rewritten, annotations `types` for its arguments."""
    constants: dict[str, str] = {}
    functions: dict[str, ast.FunctionDef] = {}
    gathered(function, constants, functions)
    for argument in functions[function.__name__].args.args:
        if argument.arg in types:
            argument.annotation = ast.parse(types[argument.arg], mode="eval").body
    texts = [ast.unparse(ast.fix_missing_locations(rewrite.visit(tree))) for tree in functions.values()]
    sizes = rewrite.known if isinstance(rewrite, Dace) else {}
    held = [f"{name} = {text}" for name, text in (constants | sizes).items()]
    return "\n\n".join(["import math", "import numpy as np", *held, *texts]) + "\n"


def pythran_text(case: Case, arguments: Arguments) -> tuple[str, str]:
    """The form with the most parallel loops for pythran, and its name; arrays are as they lie, rows last."""

    def spelled(value: Any) -> str:
        if not isinstance(value, np.ndarray):
            return value.dtype.name if isinstance(value, np.generic) else type(value).__name__
        order = " order(C)" if value.ndim == 2 else ""
        return f"{value.dtype.name}[{','.join(':' * value.ndim)}]{order}"

    form = case.parallel if callable(case.parallel) else case.numba or case.function
    signature = ", ".join(spelled(value) for value in arguments.values())
    return f"# pythran export {form.__name__}({signature})\n{module_text(form, Directives(), {})}", form.__name__


def dace_text(case: Case, arguments: Arguments) -> tuple[str, str]:
    """The serial form for DaCe, arrays of these very shapes, and its name."""

    def spelled(value: Any) -> str:
        if isinstance(value, np.ndarray):
            return f"dace.{value.dtype.name}[{', '.join(map(str, value.shape))}]"
        return f"dace.{np.asarray(value).dtype.name}"

    form = case.numba or case.function
    types = {name: spelled(value) for name, value in arguments.items()}
    return f"import dace\n\n{module_text(form, Dace(arguments), types)}", form.__name__


TEXTS = {"pythran": pythran_text, "dace": dace_text}


# --------------------------------------------------------------------------------- the compilers


def commands(peer: str, name: str) -> list[str]:
    """What compiles `program.py` of the folder it runs in, whose function is `name`."""
    if peer == "pythran":
        return [sys.executable, "-m", "pythran.run", "program.py", "-o", "program.so", *FLAGS]
    return [sys.executable, str(Path(__file__).resolve()), name]


def built(peer: str, case: Case, arguments: Arguments) -> Path:
    """The folder of what a peer compiled, now or before. RuntimeError where it refused, with its words."""
    text, name = TEXTS[peer](case, arguments)
    version = importlib.metadata.version(peer)
    key = hashlib.sha256("\n".join((version, *commands(peer, name), text)).encode()).hexdigest()[:20]
    root = Path(os.environ.get("LOOPFUSE_PEERS") or Path(tempfile.gettempdir()) / "loopfuse-peers")
    folder = root / peer / key
    ended = folder / "ended.txt"
    if not ended.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.py").write_text(text)
        ended.write_text(compiled(commands(peer, name), folder, LIMIT))
    words = ended.read_text()
    if words:
        raise RuntimeError(words)
    return folder


def compiled(command: list[str], folder: Path, limit: float) -> str:
    """Run a compiler in a folder, for so many seconds: nothing, or why there is no result."""
    log = folder / "log.txt"
    with (
        log.open("w") as said,
        subprocess.Popen(command, cwd=folder, stdout=said, stderr=subprocess.STDOUT, start_new_session=True) as process,
    ):
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"not compiled after {limit:g} s"
    if status == 0:
        return ""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*Error:", line)]
    telling = raised[-1:] or [line for line in lines if "rror" in line] or lines or [f"the compiler died ({status})"]
    return telling[0].strip()


def loaded(path: Path) -> ModuleType:
    """A file as a module."""
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pythran_function(case: Case, arguments: Arguments) -> Function:
    """The case as pythran compiled it."""
    folder = built("pythran", case, arguments)
    return getattr(loaded(folder / "program.so"), pythran_text(case, arguments)[1])


def dace_function(case: Case, arguments: Arguments) -> Function:
    """The case as DaCe compiled it."""
    from dace.codegen.compiler import load_precompiled_sdfg

    program = load_precompiled_sdfg(built("dace", case, arguments) / "build")
    names = list(arguments)
    return lambda *values: program(**dict(zip(names, values, strict=True)))


def build_dace(name: str) -> None:
    """Compile `program.py` of this folder through DaCe into `build`: optimised for a CPU on its own or, where a step of
    that fails, its loops made parallel alone."""
    import dace
    from dace.sdfg.validation import InvalidSDFGError
    from dace.transformation.interstate import LoopToMap

    program = dace.program(auto_optimize=True)(getattr(loaded(Path("program.py").resolve()), name))
    try:
        sdfg = program.auto_optimize(program.to_sdfg())
    except (InvalidSDFGError, KeyError):
        sdfg = program.to_sdfg()
        sdfg.apply_transformations_repeated(LoopToMap)
        sdfg.simplify()
    sdfg.build_folder = str(Path("build").resolve())
    sdfg.compile()


if __name__ == "__main__":
    build_dace(sys.argv[1])
