"""Facts about operations that the table does not have: rows are added to `loopfuse/lang/ops.py` as it is loaded.

    python tests/lang/more_operations.py

Prints one JSON object; `test_more_operations.py` says what must be in it.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "tools")]

ROWS = """\
    _expanded("softsign", "x / (1 + abs(x))", (12, 26), (10, 10), near=("soft_sign",)),
    _expanded("logaddexp", "max(x, y) + log1p(exp(-abs(x - y)))", (50, 200), (150, 310), arity=2, numpy="logaddexp"),
    _expanded("sinc", "1 if x == 0 else sin(pi * x) / (pi * x)", (58, 95), (140, 175), numpy="sinc"),
"""
BEFORE = "    # ----"


def load_with_rows() -> None:
    """`loopfuse.lang.ops` with the rows at the start of its table, before anything reads it."""
    name, file = "loopfuse.lang.ops", ROOT / "loopfuse" / "lang" / "ops.py"
    head, table = file.read_text("utf-8").split("OPERATIONS: tuple[Operation, ...] = (\n")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(f"{head}OPERATIONS: tuple[Operation, ...] = (\n{ROWS}{table}", str(file), "exec"), module.__dict__)
    import loopfuse.lang

    loopfuse.lang.ops = module  # type: ignore[attr-defined]


TEXT = """\
func abs(x: f32) -> f32:
    return x

kernel k(x: {0}[N], w: {0}[N], out s: {0}[N], out l: {0}[N], out c: {0}[N]):
    for i in 0..N:
        s[i] = softsign(x[i])
        l[i] = logaddexp(x[i], w[i])
        c[i] = sinc(x[i])
"""


def facts() -> dict[str, Any]:
    """What every part of the compiler makes of the rows."""
    import engines
    import make_functions
    import numpy as np

    import loopfuse
    from loopfuse.base.diagnostics import Source, UserError
    from loopfuse.base.dtypes import DType
    from loopfuse.base.options import CPU, Target
    from loopfuse.lang import nodes, ops, price
    from loopfuse.lang.walk import walk_expr

    found: dict[str, Any] = {}
    x = np.concatenate([np.linspace(-9, 9, 37), [0.0, -0.0, 80.0, -80.0, np.inf, np.nan]])
    w = x[::-1].copy()
    with np.errstate(all="ignore"):
        expected = {"s": x / (1 + np.abs(x)), "l": np.logaddexp(x, w), "c": np.sinc(x)}
    for word in ("f32", "f64"):
        source = Source("more.lf", TEXT.format(word))
        (kernel,) = engines.read(source).kernels
        dtype = np.float32 if word == "f32" else np.float64
        given = {"x": x.astype(dtype), "w": w.astype(dtype), **{name: np.zeros(x.size, dtype) for name in "slc"}}
        sizes = {"N": x.size}
        ways = {
            "interpreted": engines.interpret(kernel, given, sizes),
            "tree": engines.run_plan(source, kernel, given, sizes, target=CPU),
            "tree for a GPU": engines.run_plan(source, kernel, given, sizes, target=Target("sm_90")),
            "compiled": engines.run_compiled(source, kernel, given, sizes),
        }
        bits = {way: {name: arrays[name].view(f"u{dtype().itemsize}") for name in "slc"} for way, arrays in ways.items()}
        numbers = ~np.isnan(given["x"]) & ~np.isnan(given["w"])
        found[f"bits {word}"] = [
            f"{way} {name}"
            for way, arrays in bits.items()
            for name in "slc"
            if not np.array_equal(arrays[name][numbers], bits["interpreted"][name][numbers])
        ]
        room = 1e-5 if word == "f32" else 1e-13
        finite = np.isfinite(given["x"]) & np.isfinite(given["w"])
        found[f"far {word}"] = [
            name
            for name in "slc"
            if not np.allclose(ways["compiled"][name][finite], expected[name][finite], room, room)
        ]
        stored = [each.value for each in kernel.body[0].body if isinstance(each, nodes.Store)]  # type: ignore[union-attr]
        calls = [part for value in stored for part in walk_expr(value) if isinstance(part, nodes.Call)]
        found[f"left {word}"] = [part.function for part in calls if part.function in ("softsign", "logaddexp", "sinc")]
        found[f"prices {word}"] = [
            [price.expression_price(value, device) for value in stored] for device in ("cpu", "gpu")
        ]
    parts = [ops.price(name, DType.F32, "gpu") for name in ("max", "add", "log1p", "exp", "neg", "abs", "sub")]
    found["parts of logaddexp"] = sum(parts) + 4 * price.OPERATION
    ptx = loopfuse.loads(TEXT.format("f32")).compile("sm_90", emit=("ptx",)).ptx
    found["ptx"] = ".entry" in str(ptx)

    def f(x, w, l, c):  # type: ignore[no-untyped-def]  # noqa: E741
        for i in range(len(x)):
            l[i] = np.logaddexp(x[i], w[i])
            c[i] = np.sinc(x[i])

    python = loopfuse.kernel(f)
    for word in ("float32", "float64"):
        given = [x.astype(word), w.astype(word), np.zeros(x.size, word), np.zeros(x.size, word)]
        python(*given)
        short = "f32" if word == "float32" else "f64"
        (kernel,) = engines.read(Source("more.lf", TEXT.format(short))).kernels
        zeros = {name: np.zeros(x.size, word) for name in "slc"}
        same = engines.interpret(kernel, {"x": given[0], "w": given[1], **zeros}, {"N": x.size})
        found[f"python {word}"] = bool(
            np.array_equal(given[2], same["l"], equal_nan=True) and np.array_equal(given[3], same["c"], equal_nan=True)
        )
    found["language"] = make_functions.language()
    found["python page"] = make_functions.python()
    found["costs"] = make_functions.costs()
    for key, call in {"count": "logaddexp(x[i])", "bool": "softsign(x[i] > 0)", "near": "soft_sign(x[i])"}.items():
        try:
            loopfuse.loads(f"kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        y[i] = {call}\n")
        except UserError as error:
            found[key] = str(error)
    return found


if __name__ == "__main__":
    load_with_rows()
    print(json.dumps(facts()))
