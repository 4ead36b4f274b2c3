"""What a Python kernel cannot hold, each with the nearest form that it can."""

from __future__ import annotations

import ast
import re
from typing import NoReturn

from loopfuse.base.diagnostics import UserError
from loopfuse.frontend.python.source import PythonSource

STATEMENTS: dict[type[ast.stmt], tuple[str, str, str]] = {
    ast.While: (
        "while-loop",
        "a kernel has no `while`",
        "count the turns: `for t in range(steps):`",
    ),
    ast.Break: (
        "break-statement",
        "a kernel's loop runs to its end: no `break`",
        "shorten the range, or guard what follows with `if`",
    ),
    ast.Continue: (
        "continue-statement",
        "a kernel has no `continue`",
        "put the rest of the loop's body under the opposite `if`",
    ),
    ast.Try: ("try-statement", "a kernel raises and catches nothing", "remove `try`"),
    ast.Raise: (
        "raise-statement",
        "a kernel cannot raise",
        "state what must hold of the sizes: `assert n > 0`",
    ),
    ast.Global: (
        "global-statement",
        "a kernel changes nothing outside its arrays",
        "pass an array, and write to that",
    ),
    ast.Nonlocal: (
        "global-statement",
        "a kernel changes nothing outside its arrays",
        "pass an array, and write to that",
    ),
    ast.FunctionDef: (
        "nested-function",
        "a function inside a kernel",
        "define it outside; a kernel may call it",
    ),
    ast.AsyncFunctionDef: (
        "nested-function",
        "a function inside a kernel",
        "define it outside; a kernel may call it",
    ),
    ast.ClassDef: ("nested-class", "a class inside a kernel", "use arrays and numbers"),
    ast.Import: ("import-statement", "an import inside a kernel", "import at the top of the file"),
    ast.ImportFrom: (
        "import-statement",
        "an import inside a kernel",
        "import at the top of the file",
    ),
    ast.Delete: ("delete-statement", "a kernel deletes nothing", "remove it"),
    ast.Match: ("match-statement", "a kernel has no `match`", "write `if` and `elif`"),
}

EXPRESSIONS: dict[type[ast.expr], tuple[str, str, str]] = {
    ast.Lambda: (
        "lambda-expression",
        "a lambda inside a kernel",
        "define a function outside, and call it",
    ),
    ast.ListComp: (
        "comprehension",
        "a kernel has no comprehensions",
        "write the loop, and assign elements of an array",
    ),
    ast.SetComp: (
        "comprehension",
        "a kernel has no comprehensions",
        "write the loop, and assign elements of an array",
    ),
    ast.DictComp: (
        "comprehension",
        "a kernel has no comprehensions",
        "write the loop, and assign elements of an array",
    ),
    ast.GeneratorExp: (
        "comprehension",
        "a kernel has no comprehensions",
        "write the loop: `s = 0.0`, then `s += ...` in a `for`",
    ),
    ast.List: (
        "container-value",
        "a list inside a kernel",
        "use an array (`np.empty(n, np.float32)`), or a table defined outside",
    ),
    ast.Tuple: (
        "container-value",
        "a tuple as a value",
        "use one name for each number",
    ),
    ast.Dict: ("container-value", "a dict inside a kernel", "use arrays and numbers"),
    ast.Set: ("container-value", "a set inside a kernel", "use arrays and numbers"),
    ast.JoinedStr: ("string-value", "a kernel computes with numbers, not text", "use a number"),
    ast.NamedExpr: (
        "assignment-expression",
        "`:=` inside an expression",
        "assign on a line of its own",
    ),
    ast.Yield: (
        "yield-expression",
        "a kernel gives its results at once",
        "write them to an array, and return that",
    ),
    ast.YieldFrom: (
        "yield-expression",
        "a kernel gives its results at once",
        "write them to an array, and return that",
    ),
    ast.Await: ("yield-expression", "a kernel waits for nothing", "remove `await`"),
    ast.Starred: ("unpacking", "`*` unpacks a value of unknown length", "name each part"),
    ast.Slice: (
        "slice",
        "slices are not compiled yet",
        "loop over the elements: `for i in range(n): y[i] = x[i]`",
    ),
}

WHOLE_ARRAY = {
    "sum": "`s = 0.0`, then `s += x[i]` in a `for`",
    "prod": "`p = 1.0`, then `p *= x[i]` in a `for`",
    "mean": "`s = 0.0`, then `s += x[i]` in a `for`, then `s / len(x)`",
    "max": "`m = x[0]`, then `m = max(m, x[i])` in a `for`",
    "min": "`m = x[0]`, then `m = min(m, x[i])` in a `for`",
    "amax": "`m = x[0]`, then `m = max(m, x[i])` in a `for`",
    "amin": "`m = x[0]`, then `m = min(m, x[i])` in a `for`",
    "dot": "`s = 0.0`, then `s += a[i, k] * b[k, j]` in a `for`",
    "matmul": "`s = 0.0`, then `s += a[i, k] * b[k, j]` in a `for`",
    "where": "`a if condition else b`, for one element",
    "cumsum": "`s = 0.0`, then `s += x[i]`, `y[i] = s` in a `for`",
    "cumprod": "`p = 1.0`, then `p *= x[i]`, `y[i] = p` in a `for`",
    "argmax": "`m = x[0]`, `k = 0`, then `if x[i] > m:`, `m = x[i]`, `k = i` in a `for`",
    "argmin": "`m = x[0]`, `k = 0`, then `if x[i] < m:`, `m = x[i]`, `k = i` in a `for`",
    "any": "`found = False`, then `found = found or x[i] != 0` in a `for`",
    "all": "`good = True`, then `good = good and x[i] != 0` in a `for`",
    "count_nonzero": "`n = 0`, then `n += 1 if x[i] != 0 else 0` in a `for`",
    "norm": "`s = 0.0`, then `s += x[i] * x[i]` in a `for`, then `np.sqrt(s)`",
    "var": "`s = 0.0`, then `s += x[i]` in a `for`, `m = s / len(x)`, and `v += (x[i] - m) ** 2` in another, "
    "then `v / len(x)`",
    "std": "`s = 0.0`, then `s += x[i]` in a `for`, `m = s / len(x)`, and `v += (x[i] - m) ** 2` in another, "
    "then `np.sqrt(v / len(x))`",
    "ptp": "`a = x[0]`, `b = x[0]`, then `a = min(a, x[i])`, `b = max(b, x[i])` in a `for`, then `b - a`",
    "nansum": "`s = 0.0`, then `if not np.isnan(x[i]):`, `s += x[i]` in a `for`",
    "nanmax": "`m = x[0]`, then `m = np.fmax(m, x[i])` in a `for`",
    "nanmin": "`m = x[0]`, then `m = np.fmin(m, x[i])` in a `for`",
    "inner": "`s = 0.0`, then `s += a[i] * b[i]` in a `for`",
    "vdot": "`s = 0.0`, then `s += a[i] * b[i]` in a `for`",
    "sumprod": "`s = 0.0`, then `s += a[i] * b[i]` in a `for`",
    "outer": "`c[i, j] = a[i] * b[j]` in two `for`s",
    "cross": "`c[0] = a[1] * b[2] - a[2] * b[1]`, `c[1] = a[2] * b[0] - a[0] * b[2]` and "
    "`c[2] = a[0] * b[1] - a[1] * b[0]`",
    "diff": "`y[i] = x[i + 1] - x[i]` in `for i in range(len(x) - 1):`",
    "transpose": "`y[j, i] = x[i, j]` in two `for`s",
    "roll": "`y[i] = x[(i - k) % len(x)]` in a `for`",
    "flip": "`y[i] = x[len(x) - 1 - i]` in a `for`",
    "linspace": "`t = np.empty(n)`, then `t[i] = start + i * step` in a `for`",
}
"""Functions of whole arrays, and the loop that does the same."""

UFUNC_METHODS = {
    "add.reduce": "sum", "multiply.reduce": "prod", "maximum.reduce": "max", "minimum.reduce": "min",
    "fmax.reduce": "nanmax", "fmin.reduce": "nanmin", "logical_or.reduce": "any",
    "logical_and.reduce": "all", "add.accumulate": "cumsum", "multiply.accumulate": "cumprod",
    "multiply.outer": "outer",
}  # fmt: skip
"""Those that are functions of `WHOLE_ARRAY`."""

ELSEWHERE = (
    "sort", "argsort", "sorted", "lexsort", "partition", "argpartition", "unique", "median", "nanmedian",
    "percentile", "quantile", "histogram", "bincount", "digitize", "searchsorted", "nonzero", "argwhere",
    "flatnonzero", "solve", "inv", "pinv", "det", "eig", "eigh", "svd", "qr", "cholesky", "lstsq", "fft",
    "ifft", "rfft", "irfft", "fft2", "rfft2", "einsum", "tensordot", "kron", "interp", "polyfit", "meshgrid",
)  # fmt: skip
"""Functions of whole arrays that are no loop to write beside others."""

FLAT_DOTS = ("dot", "matmul")


def loop_of(name: str, node: ast.Call, ranks: dict[str, int]) -> str:
    """The loop that does what a function of a whole array, or of a part of one, does, with the name
    of the array that the call speaks of, of those that have these ranks."""
    spoken = [*node.args, node.func.value] if isinstance(node.func, ast.Attribute) else node.args
    fix = WHOLE_ARRAY[name]
    flat = [one.id for one in node.args if isinstance(one, ast.Name) and ranks.get(one.id) == 1]
    if len(flat) == 2 and len(node.args) == 2:
        fix = WHOLE_ARRAY["inner"] if name in FLAT_DOTS else fix
        return re.sub(r"\b[ab]\[", lambda found: f"{flat['ab'.index(found[0][0])]}[", fix)
    for one in spoken:
        parts: list[ast.expr] = []
        base = one
        while isinstance(base, ast.Subscript):
            index = base.slice
            parts = [*(index.elts if isinstance(index, ast.Tuple) else [index]), *parts]
            base = base.value
        if isinstance(base, ast.Name) and base.id in ranks:
            break
    else:
        return fix
    rank = ranks[base.id]
    free = iter(c for c in "ijklmnpqrstuvwxyz" if c not in {n.id for n in ast.walk(one) if isinstance(n, ast.Name)})
    every, first, dims, bounds = list[str](), list[str](), list[int](), list[str]()
    for position in range(rank):
        part = parts[position] if position < len(parts) else ast.Slice()
        if isinstance(part, ast.Slice):
            every.append(next(free))
            first.append(ast.unparse(part.lower) if part.lower is not None else "0")
            dims.append(position)
            last = "" if part.upper is None else ast.unparse(part.upper)
            end = f"{base.id}.shape[{position}]"
            end = f"{end} - {last[1:]}" if last[:1] == "-" else last or end
            bounds.append(end if part.lower is None else f"{first[-1]}, {end}")
        else:
            every.append(ast.unparse(part))
            first.append(every[-1])
    if rank == 1:
        size = f"len({base.id})"
    elif len(dims) == rank:
        size = f"{base.id}.size"
    else:
        size = " * ".join(f"{base.id}.shape[{k}]" for k in dims)
    texts = {"x[i]": f"{base.id}[{', '.join(every)}]", "x[0]": f"{base.id}[{', '.join(first)}]", "len(x)": size}
    for old, new in texts.items():
        fix = fix.replace(old, new)
    if parts and dims:  # which of its subscripts is to be counted
        fix = fix.replace("in a `for`", f"in `for {every[dims[0]]} in range({bounds[0]}):`", 1)
    return fix


# What is refused wherever it stands, before names are looked at.
EVERYWHERE = (
    ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr,
    ast.Yield, ast.YieldFrom, ast.Await, ast.JoinedStr,
)  # fmt: skip


def foreign_parts(python: PythonSource, body: list[ast.stmt]) -> None:
    """Refuse every statement and expression whose kind alone has no place in a kernel."""
    errors: list[UserError] = []

    def visit(node: ast.AST) -> None:
        try:
            if isinstance(node, ast.stmt) and (
                type(node) in STATEMENTS or type(node).__name__ == "TryStar"
            ):
                statement(python, node)
            if isinstance(node, EVERYWHERE):
                expression(python, node)
        except UserError as error:
            errors.append(error)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    for stmt in body:
        visit(stmt)
    if errors:
        raise UserError(*(one for error in errors for one in error.diagnostics))


def statement(python: PythonSource, stmt: ast.stmt) -> NoReturn:
    """Refuse a statement that has no place in a kernel."""
    for kind, (code, message, fix) in STATEMENTS.items():
        if isinstance(stmt, kind) or (kind is ast.Try and type(stmt).__name__ == "TryStar"):
            python.refuse(code, message, first_line(python, stmt), fix)
    python.refuse(
        "unknown-statement",
        f"a kernel has no `{type(stmt).__name__}` statement",
        first_line(python, stmt),
        "write loops, assignments and `if`",
    )


def first_line(python: PythonSource, stmt: ast.stmt) -> ast.AST:
    """The statement's first line only: its body is not what is wrong."""
    body = getattr(stmt, "body", None)
    if not isinstance(body, list) or python.override is not None:
        return stmt
    marker = ast.Pass()
    line = python.lines[stmt.lineno - 1] if stmt.lineno <= len(python.lines) else ""
    length = len(line.rstrip().encode("utf-8"))
    marker.lineno = marker.end_lineno = stmt.lineno
    marker.col_offset, marker.end_col_offset = stmt.col_offset, max(length, stmt.col_offset + 1)
    return marker


def expression(python: PythonSource, expr: ast.expr) -> NoReturn:
    """Refuse an expression that has no place in a kernel."""
    for kind, (code, message, fix) in EXPRESSIONS.items():
        if isinstance(expr, kind):
            python.refuse(code, message, expr, fix)
    python.refuse(
        "unknown-expression",
        f"a kernel cannot hold `{python.text(expr)}`",
        expr,
        "use numbers, elements of arrays, operators and functions of numbers",
    )


def parameters(python: PythonSource) -> None:
    """Refuse parameter lists that a kernel cannot have."""
    arguments = python.tree.args
    for variadic, star in ((arguments.vararg, "*"), (arguments.kwarg, "**")):
        if variadic is not None:
            python.refuse(
                "variadic-parameters",
                f"`{star}{variadic.arg}` stands for any number of arguments",
                variadic,
                "name each array and number",
            )
