"""How a Python kernel names functions: NumPy's that are operators, and what is proposed for a function
that it does not have, which must exist, compile and compute the same."""

from __future__ import annotations

import importlib.util
import itertools
import math
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import loopfuse
from loopfuse.base.diagnostics import UserError
from loopfuse.lang import ops

OPERATORS = {word: meaning for word, meaning in ops.NUMPY_OPERATORS.items() if hasattr(np, word)}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 7.25, 1e-40, 1e30, math.inf, -math.inf, math.nan]
WHOLE = [0, 1, 2, 3, 7, 100]
HEAD = "import cmath\nimport math\nimport operator\nimport numpy as np\nimport loopfuse\n"


def module_of(folder: Path, text: str) -> ModuleType:
    """The text as a module with a file of its own."""
    path = folder / f"kernels_of_names_{len(list(folder.iterdir()))}.py"
    path.write_text(HEAD + text, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ----------------------------------------------------------------------- NumPy's operators


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"])
def test_operators(dtype: str, tmp_path: Path) -> None:
    """Bit for bit NumPy's, in its type."""
    whole = [*WHOLE, *(() if dtype[0] == "u" else (-1, -3, -100))]
    values = SPECIAL if dtype[0] == "f" else [False, True] if dtype == "bool" else whole
    with np.errstate(all="ignore"):
        x, w = (np.ascontiguousarray(each) for each in np.array(list(itertools.product(values, values)), dtype).T)
        shifts = w if dtype[0] in "bf" else np.abs(w) % 8
        rows: dict[str, list[tuple[str, str]]] = {}
        for word, meaning in OPERATORS.items():
            given = (x, shifts if "shift" in word else w)[: 1 + ("y" in meaning)]
            try:
                expected = getattr(np, word)(*given)
            except TypeError:  # NumPy has none for this type
                continue
            counted = dtype == "bool" and (expected.dtype != bool or "<" in meaning or ">" in meaning or word == "square")
            # Numbers that NumPy makes of bools are refused here, and so is an order of theirs.
            if not counted and not (dtype[0] not in "fb" and word == "reciprocal"):
                arguments = ["x[i]", "s[i]" if "shift" in word else "w[i]"][: len(given)]
                rows.setdefault(str(expected.dtype), []).append((word, f"np.{word}({', '.join(arguments)})"))
        lines = ["@loopfuse.kernel(fp='strict', reassociate=False, target='cpu')", "def k(x, w, s):"]
        lines += [f"    r_{kind} = np.empty(({len(every)}, x.shape[0]), np.{kind})" for kind, every in rows.items()]
        lines.append("    for i in range(len(x)):")
        lines += [f"        r_{kind}[{row}, i] = {call}" for kind, every in rows.items() for row, (_, call) in enumerate(every)]
        lines.append(f"    return {', '.join(f'r_{kind}' for kind in rows)}")
        kernel = module_of(tmp_path, "\n".join(lines) + "\n").k
        made, wanted = kernel(x, w, shifts), kernel.reference(x, w, shifts)
        for (kind, every), ours, theirs in zip(rows.items(), *((a if len(rows) > 1 else (a,)) for a in (made, wanted))):
            for (word, _), got, expected in zip(every, ours, theirs):
                equal = (got == expected) | ((got != got) & (expected != expected))
                if kind[0] == "f":
                    equal &= (np.signbit(got) == np.signbit(expected)) | np.isnan(got)
                assert equal.all(), (word, x[~equal][:3], w[~equal][:3], got[~equal][:3], expected[~equal][:3])


def test_operators_give_numpys_numbers(tmp_path: Path) -> None:
    """Of Python numbers too, where an operator gives a Python number."""
    text = """
@loopfuse.kernel(fp="strict", target="cpu")
def k(x, h, flag, n):
    r = np.empty((10, len(x)), np.float64)
    for i in range(len(x)):
        r[0, i] = np.add(0.1, 0.2) * x[i]
        r[1, i] = np.subtract(3, 1) * x[i]
        r[2, i] = np.multiply(n, 2) * x[i]
        r[3, i] = np.add(x[i], 0.1) * 0.1
        r[4, i] = np.square(0.1) * x[i] + np.negative(0.1) * x[i] + np.reciprocal(3.0) * x[i]
        r[5, i] = np.power(0.1, 2) * x[i]
        r[6, i] = np.deg2rad(h[i]) * np.float32(0.1) + np.degrees(x[i]) * 0.1
        r[7, i] = np.logical_xor(x[i], flag[i]) * 0.1 + np.logical_not(x[i]) * 0.1
        r[8, i] = np.divide(h[i], np.int8(3)) * x[i] + np.true_divide(1, 3) * x[i]
        r[9, i] = np.add(flag[i], x[i]) * 0.1 + np.maximum(np.floor_divide(7, 2), 1) * x[i]
    return r
"""
    kernel = module_of(tmp_path, text).k
    given = np.array([0.0, 0.3, 7.7], np.float32), np.array([1, -7, 90], np.int8), np.array([True, False, True]), 3
    assert np.array_equal(kernel(*given), kernel.reference(*given))


def test_an_operators_result_that_depends_on_the_path(tmp_path: Path) -> None:
    """`max(x, 0.1)` is an f32 or a Python float: of two, NumPy's `multiply` gives an f32 or an f64."""
    text = """
@loopfuse.kernel(target="cpu")
def k(x, y):
    for i in range(len(x)):
        y[i] = np.multiply(max(x[i], 0.1), max(x[i], 0.3)) * y[i]

@loopfuse.kernel(target="cpu", fp="strict")
def fixed(x, y):
    for i in range(len(x)):
        y[i] = np.multiply(max(x[i], np.float32(0.1)), max(x[i], np.float32(0.3))) * y[i]
"""
    module = module_of(tmp_path, text)
    x = np.array([0.0, 0.2, 0.7], np.float32)
    with pytest.raises(UserError, match="weak-mix"):
        module.k(x, x.copy())
    got, expected = np.ones_like(x), np.ones_like(x)
    module.fixed(x, got)
    module.fixed.reference(x, expected)
    assert np.array_equal(got, expected)


def test_math_that_python_makes_of_other_functions(tmp_path: Path) -> None:
    text = """
@loopfuse.kernel(fp="strict", target="cpu")
def k(x):
    r = np.empty((4, len(x)), np.float64)
    for i in range(len(x)):
        r[0, i] = math.log(x[i], 2)
        r[1, i] = math.log(x[i], x[i] + 1.5)
        r[2, i] = math.radians(x[i])
        r[3, i] = math.degrees(x[i])
    return r
"""
    kernel = module_of(tmp_path, text).k
    x = np.array([0.1, 0.75, 3.0, 1e6], np.float32)
    got, expected = kernel(x), kernel.reference(x)
    assert np.array_equal(got[2:], expected[2:])
    assert np.allclose(got, expected, rtol=1e-15, atol=0)


# --------------------------------------------------------------------- what is proposed instead

SAME = [  # what is written, and what the fix makes of it; both compute the same in CPython
    ("math.erfc(x[i])", "1.0 - math.erf(x[i])"),
    ("np.sinc(x[i])", "np.sin(3.141592653589793 * x[i]) / (3.141592653589793 * x[i]) if x[i] != 0.0 else 1.0"),
    ("np.ldexp(x[i], 2)", "x[i] * 2.0 ** 2"),
    ("math.ldexp(x[i], 2)", "x[i] * 2.0 ** 2"),
    ("np.isneginf(-y[i])", "(-y[i]) == -np.inf"),
    ("np.isposinf(y[i])", "y[i] == np.inf"),
    ("np.signbit(y[i])", "np.copysign(1.0, y[i]) < 0.0"),
    ("math.isqrt(i)", "int(math.sqrt(i))"),
    ("np.heaviside(x[i], 0.5)", "0.5 if x[i] == 0.0 else (1.0 if x[i] > 0.0 else 0.0)"),
    ("np.logaddexp(x[i], x[i] * 2.0)", "max(x[i], x[i] * 2.0) + np.log1p(np.exp(-abs(x[i] - (x[i] * 2.0))))"),
    ("np.logaddexp2(x[i], 1.0)", "max(x[i], 1.0) + np.log2(1.0 + np.exp2(-abs(x[i] - 1.0)))"),
    ("np.isclose(x[i], 0.5)", "abs(x[i] - 0.5) <= 1e-8 + 1e-5 * abs(0.5)"),
    ("math.isclose(x[i], 0.5)", "abs(x[i] - 0.5) <= 1e-9 * abs(x[i]) or abs(x[i] - 0.5) <= 1e-9 * abs(0.5)"),
    ("math.remainder(x[i], 0.75)", "x[i] - 0.75 * np.rint(x[i] / 0.75)"),
    ("np.float_power(x[i], 2)", "np.float64(x[i]) ** np.float64(2)"),
    ("np.fix(x[i])", "np.trunc(x[i])"),
    ("operator.add(x[i], y[i])", "x[i] + y[i]"),
    ("operator.truediv(x[i] + 1.0, x[i] + 2.0)", "(x[i] + 1.0) / (x[i] + 2.0)"),
    ("np.where(x[i] > 0.3, x[i], 0.0)", "x[i] if x[i] > 0.3 else 0.0"),
    ("math.hypot(x[i], 1.0, 2.0)", "math.hypot(math.hypot(x[i], 1.0), 2.0)"),
    ("math.hypot(x[i])", "abs(x[i])"),
    ("pow(i, 2, 3)", "pow(i, 2) % 3"),
    ("np.emath.sqrt(x[i])", "np.sqrt(x[i])"),
    ("x[i].clip(0.25, 0.5)", "np.clip(x[i], 0.25, 0.5)"),
    ("x[i].round()", "np.rint(x[i])"),
    ("x[i].sum()", "x[i]"),
    ("x[i].max()", "x[i]"),
]
INSTEAD = [  # the same of what CPython does not have
    ("loopfuse.sin(x[i])", "np.sin(x[i])"),
    ("math.arctan(x[i])", "math.atan(x[i])"),
    ("np.ln(x[i])", "np.log(x[i])"),
    ("np.erf(x[i])", "loopfuse.erf(x[i])"),
    ("np.erfc(x[i])", "1.0 - loopfuse.erf(x[i])"),
    ("np.expit(x[i] - 1.0)", "1.0 / (1.0 + np.exp(-(x[i] - 1.0)))"),
    ("np.cot(x[i])", "1.0 / np.tan(x[i])"),
    ("np.sind(x[i])", "np.sin(x[i] * 0.017453292519943295)"),
    ("np.fma(x[i], y[i], 1.0)", "x[i] * y[i] + 1.0"),
    ("math.mod(x[i], y[i])", "x[i] % y[i]"),
    ("x[i].sin()", "np.sin(x[i])"),
    ("(x[i] + y[i]).sin()", "np.sin(x[i] + y[i])"),
    ("sqrt(x[i])", "np.sqrt(x[i])"),
    ("erfc(x[i])", "1.0 - loopfuse.erf(x[i])"),
    ("np.sine(x[i])", "np.sin"),
    ("math.sqr(x[i])", "x[i] * x[i]"),
    ("np.arctanh2(x[i], y[i])", "np.arctan2"),
    ("np.maximun(x[i], y[i])", "np.maximum"),
    ("np.substract(x[i], y[i])", "np.subtract"),
    ("loopfuse.clmp(i, 8)", "loopfuse.clamp"),
    ("helpr(x[i])", "helper"),
]
NOTHING = [  # no other spelling: these are other mathematics
    "loopfuse.foo(x[i])", "np.frexp(x[i])", "math.gamma(x[i])", "math.gcd(i, 4)", "np.spacing(x[i])",
    "np.i0(x[i])", "math.ulp(x[i])", "math.nextafter(x[i], y[i])", "loopfuse.cross(x[i], y[i])",
    "np.gcd(i, 4)", "math.lgamma(x[i])", "np.random.rand()", "print(x[i])", "np.angle(x[i])",
    "np.log3(x[i])", "x[i].foo()",
]  # fmt: skip
LOOPS = [
    "np.argmax(x)", "np.argmin(x)", "np.linalg.norm(x)", "np.maximum.reduce(x)", "np.add.reduce(x)",
    "np.any(x)", "np.all(x)", "np.prod(x)", "np.count_nonzero(x)", "np.ptp(x)", "np.nansum(x)", "np.nanmax(x)",
    "np.inner(x, y)", "np.dot(x, y)", "np.std(x)", "np.var(x)", "math.fsum(x)", "x.max()",
]  # fmt: skip
X, Y = np.linspace(0.25, 2, 8).astype(np.float32), np.array([1, -2, 0.5, -0.5, 3, 4, -5, math.inf], np.float32)


def kernel_of(folder: Path, line: str) -> Any:
    """A kernel of one line."""
    text = f"def helper(a):\n    return a\n\ndef k(x, y, r):\n    for i in range(len(x)):\n        {line}\n"
    return loopfuse.kernel(module_of(folder, text).k, target="cpu", fp="strict")


def answer(folder: Path, expression: str) -> str:
    """The fix that the expression gets."""
    with pytest.raises(UserError) as caught:
        kernel_of(folder, f"r[i] = {expression}").specialise(X, Y, np.zeros(8)).program()
    return caught.value.diagnostics[0].fix


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("expression", "wanted"), SAME, ids=lambda one: one)
def test_the_proposal_computes_the_same(expression: str, wanted: str, tmp_path: Path) -> None:
    fix = answer(tmp_path, expression)
    assert f"`{wanted}`" in fix, fix
    kernel = kernel_of(tmp_path, f"r[i] = {wanted}")
    got, expected = np.zeros(8), np.zeros(8)
    kernel(X, Y, got)
    kernel_of(tmp_path, f"r[i] = {expression}").reference(X, Y, expected)
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-7, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("expression", "wanted"), INSTEAD, ids=lambda one: one)
def test_the_proposal_compiles(expression: str, wanted: str, tmp_path: Path) -> None:
    fix = answer(tmp_path, expression)
    assert f"`{wanted}`" in fix, fix
    line = wanted if "(" in wanted or "[" in wanted else wanted + expression[expression.index("(") :]
    kernel_of(tmp_path, f"r[i] = {line}")(X, Y, np.zeros(8))


@pytest.mark.parametrize("expression", NOTHING)
def test_no_other_mathematics_is_proposed(expression: str, tmp_path: Path) -> None:
    fix = answer(tmp_path, expression)
    assert "did you mean" not in fix and "`" not in fix, fix


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", LOOPS)
def test_a_loop_is_proposed_for_a_whole_array(expression: str, tmp_path: Path) -> None:
    """And what it says compiles and computes the same."""
    fix = answer(tmp_path, expression)
    codes = re.findall(r"`([^`]*)`", fix)
    lines, inside = ["def k(x, y):"], list[str]()
    result = codes[0].split()[0]
    first = fix.index(" in a `for`") if " in a `for`" in fix else fix.index("`for`")
    for found in re.finditer(r"`([^`]*)`", fix):
        code, before = found[1], found.start() < first
        if code == "for":
            continue
        is_start = re.fullmatch(r"\w+ = (x\[0\]|[\d.]+|True|False)", code) is not None
        if "another" in fix and code.startswith("v +="):
            lines += ["    v = 0.0", "    for i in range(len(x)):", f"        {code}"]
        elif before and is_start:
            lines.append(f"    {code}")
        elif before:
            inside.append(("    " if inside and inside[0].strip().endswith(":") else "") + "        " + code.replace("...", "x[i]"))
        elif code.startswith("m = "):
            lines.append(f"    {code}")
        else:
            result = code
        if not before or found.end() == first:
            lines += ["    for i in range(len(x)):", *inside] if inside else []
            inside = []
    if "arg" in expression:
        result = "k"
    kernel = loopfuse.kernel(
        module_of(tmp_path, "\n".join([*lines, f"    return {result}", ""])).k, target="cpu", fp="strict"
    )
    expected = eval(expression, {"np": np, "math": math, "x": X, "y": Y[:7].sum() * X})
    assert np.isclose(float(kernel(X, Y[:7].sum() * X)), float(expected), rtol=1e-6), lines


def test_a_function_of_another_library_that_numpy_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("torch")
    other.sin = other.foo = type("builtin", (), {"__name__": "sin"})()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "other_library", other)
    text = "import other_library as torch\ndef k(x, r):\n    for i in range(len(x)):\n        r[i] = torch.sin(x[i])\n"
    with pytest.raises(UserError, match=r"write `np\.sin\(x\[i\]\)`"):
        loopfuse.kernel(module_of(tmp_path, text).k, target="cpu")(X, np.zeros(8))


def test_a_library_that_is_not_imported(tmp_path: Path) -> None:
    text = "def k(x, r):\n    for i in range(len(x)):\n        r[i] = numpy.sin(x[i])\n"
    with pytest.raises(UserError, match="import it at the top"):
        loopfuse.kernel(module_of(tmp_path, text).k, target="cpu")(X, np.zeros(8))


# ------------------------------------------------------------------------------ the same in .lf

LF = [
    ("erfc(x[i])", "1.0 - erf(x[i])"), ("mod(x[i], 2.0)", "x[i] % 2.0"), ("cot(x[i])", "1.0 / tan(x[i])"),
    ("isneginf(x[i])", "x[i] == -inf"), ("float32(x[i])", "f32"), ("sine(x[i])", "sin"),
    ("where(x[i] > 0, x[i], 0.0)", "x[i] if x[i] > 0 else 0.0"), ("square(x[i] + 1)", "(x[i] + 1) * (x[i] + 1)"),
    ("ln(x[i])", "log"), ("isqrt(i)", "i64(sqrt(i))"), ("log(x[i], 2)", "log2(x[i])"),
    ("log(x[i], 3.0)", "log(x[i]) / log(3.0)"), ("hypot(x[i], 1.0, 2.0)", "hypot(hypot(x[i], 1.0), 2.0)"),
    ("round(x[i], 2)", "round(x[i] * 10.0 ** 2) / 10.0 ** 2"), ("sum(x)", "sum(k in 0..N: x[k])"),
    ("mean(x)", "sum(k in 0..N: x[k]) / N"), ("norm(x)", "sqrt(sum(k in 0..N: x[k] * x[k]))"),
    ("any(x)", "any(k in 0..N: x[k] != 0)"), ("prod(x)", "prod(k in 0..N: x[k])"),
    ("argmax(x)", "argmax(k in 0..N: x[k])"), ("logical_and(x[i] > 0, x[i] < 1)", "(x[i] > 0) and (x[i] < 1)"),
    ("logaddexp(x[i], 1.0)", "max(x[i], 1.0) + log1p(exp(-abs(x[i] - 1.0)))"), ("clamp(x[i], 0.0, 1.0)", "clip"),
    ("twise(x[i])", "twice"), ("int(x[i])", "i32(x[i])"),
]  # fmt: skip
LF_NOTHING = ["print(x[i])", "gamma(x[i])", "frexp(x[i])", "cross(x[i], x[i])", "i33(x[i])", "foo(x[i])"]


def lf(expression: str) -> str:
    """The fix that the expression gets; "" where it is accepted."""
    kind = "bool" if re.search("any|isneg|inf|logical| and ", expression) else "f32"
    cast = re.search("isqrt|arg|i64|int|i32", expression)
    text = (
        "func twice(a: f32) -> f32: return a + a\n"
        f"kernel k(x: f32[N], out y: {'i64' if cast else kind}[N]):\n    for i in 0..N:\n        y[i] = {expression}\n"
    )
    try:
        loopfuse.loads(text).compile(target="cpu")
    except UserError as error:
        return error.diagnostics[0].fix
    return ""


@pytest.mark.parametrize(("expression", "wanted"), LF, ids=lambda one: one)
def test_lf(expression: str, wanted: str) -> None:
    fix = lf(expression)
    assert f"`{wanted}`" in fix, fix
    assert lf(wanted if re.search(r"\W", wanted) else wanted + expression[expression.index("(") :]) == ""


@pytest.mark.parametrize("expression", LF_NOTHING)
def test_lf_proposes_no_other_mathematics(expression: str) -> None:
    assert "did you mean" not in lf(expression)
