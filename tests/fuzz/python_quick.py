"""Random Python functions by seed: `@loopfuse.kernel` beside the function in CPython, to the bit.

The function is read, interpreted and compiled once, under `fp="strict", reassociate=False`, and called
for three sets of sizes; each array lies between pages that may not be touched. CPython runs it on copies
of the same arguments, with loopfuse's math functions (whose last places are tested elsewhere) and zeros
in arrays of anything. Where Python has no result (a division by zero, an integer that its array does not
hold) nothing is compared; where the results differ, the function is run once more with each operation
watched for what docs/python.md says may differ (`python_watch`).
"""

from __future__ import annotations

import functools
import linecache
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import engines
import numpy as np
from guarded import SIDES, guard_all, guarded_workspaces

import loopfuse
from fuzz.campaigns import Checked
from fuzz.choices import RandomChoices
from fuzz.compare import described
from fuzz.python_programs import PythonProgram, generate
from fuzz.python_watch import deviation
from fuzz.quick import WRONGLY
from loopfuse.base.diagnostics import LimitError, UserError
from loopfuse.kernels.results import hand_back, known_values
from loopfuse.runtime.binding import numpy_dtype
from loopfuse.runtime.formulas import evaluate

SUFFIX = ".py"
NO_RESULT = (ArithmeticError, IndexError, TypeError, ValueError)
MOST_LINES = 40
HEAD = "import math\n\nimport numpy as np\n\nimport loopfuse\n\nGAIN, COUNT = 0.75, 7\n\n\n"


def program_of(number: int) -> PythonProgram:
    """Program `number`."""
    for turn in range(8):
        program = generate(RandomChoices(f"python:{number}:{turn}"))
        if program.text.count("\n") <= MOST_LINES and program.text.count("[") <= 60:
            break
    return program


def text(number: int, notes: str) -> str:
    """See `campaigns`: a module that compares when it is run."""
    program = program_of(number)
    lines = [f"# {line}".rstrip() for line in notes.splitlines()]
    return "\n".join(lines) + "\n" + HEAD + program.text


def check(number: int, is_compiled: bool = True) -> Checked:
    """See `campaigns`; without `is_compiled` what is read is interpreted alone."""
    return check_program(program_of(number), number, is_compiled)


def check_program(program: PythonProgram, number: int, is_compiled: bool = True) -> Checked:
    """The first difference counts."""
    ran: Counter[str] = Counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = _check(program, number, is_compiled, ran)
        except (UserError, LimitError) as error:
            found = Checked("refused", error.diagnostics[0].code, ran=dict(ran))
        except Exception as error:
            failure = described("compiled", error)
            return Checked("failed", "", failure.kind, failure.detail, dict(ran))
    noticed = [str(one.message) for one in said if WRONGLY in str(one.message)]
    if noticed and found.status != "failed":
        return Checked("failed", "", "planned wrongly, noticed", noticed[0], dict(ran))
    return found


def define(program: PythonProgram, name: str) -> Callable[..., Any]:
    """The function that the text defines, whose lines `inspect` finds under `name`."""
    whole = HEAD + program.text
    linecache.cache[name] = (len(whole), None, whole.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "random_python"}
    exec(compile(whole, name, "exec"), scope)
    return scope["kernel"]


def _check(program: PythonProgram, number: int, is_compiled: bool, ran: Counter[str]) -> Checked:
    name = f"<random python {number}>"
    plain, function = define(program, name), define(program, name)
    plain.__globals__.update(plain_names())
    called, refusal = False, None
    kernel = loopfuse.kernel(function, fp="strict", reassociate=False)
    for turn in range(3 if is_compiled else 1):
        arguments = program.arguments(number, turn)
        expected = _in_python(plain, copied(arguments))
        ran["CPython"] += 1
        if expected is None:
            ran["without a result"] += 1
            if turn or is_compiled:
                continue
            kernel.specialise(**arguments).program()  # it is read all the same
            continue
        ways: list[tuple[str, Callable[[], Any]]] = []
        if not turn:
            ways.append(("interpreted", lambda given=arguments: _interpreted(kernel, copied(given))))
        if is_compiled:
            for side in SIDES if turn == 1 else SIDES[turn // 2 :][:1]:
                ways.append((f"compiled ({side})", lambda side=side, given=arguments: _compiled(kernel, given, side)))
        for way, run in ways:
            try:
                got = run()
            except UserError as error:
                refusal = error
                break
            called = True
            ran[way.split()[0]] += 1
            difference = differs(expected, got)
            if difference and (reason := deviation(plain, HEAD + program.text, copied(arguments))):
                ran[f"may differ: {reason}"] += 1
                return Checked("ok", "", ran=dict(ran))
            if difference:
                sizes = program.sizes(number, turn)
                return Checked(
                    "failed", "", f"differ: {way.split()[0]}", f"{way} at {sizes}: {difference}", dict(ran)
                )
    if not called and refusal is not None:
        raise refusal
    return Checked("ok", ran=dict(ran))


def copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of their own."""
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in arguments.items()}


Result = tuple[dict[str, np.ndarray], tuple[Any, ...]]
"""The arrays among the arguments, and what was returned."""


def _results(held: Mapping[str, Any], returned: Any) -> Result:
    values = returned if isinstance(returned, tuple) else () if returned is None else (returned,)
    return {k: v for k, v in held.items() if isinstance(v, np.ndarray)}, values


def _in_python(function: Callable[..., Any], held: dict[str, Any]) -> Result | None:
    """None where Python has no result."""
    with np.errstate(all="ignore"):
        try:
            return _results(held, function(**held))
        except NO_RESULT:
            return None


def _interpreted(kernel: Any, held: dict[str, Any]) -> Result:
    """What was read, one operation at a time."""
    found = kernel.specialise(**held)
    known = known_values(found.signature, held)
    made = {
        one.name: np.zeros([evaluate(e, known) for e in one.extents], numpy_dtype(one.dtype))
        for one in found.signature.parameters
        if one.name in found.allocated
    }
    found.reference(**held, **made)
    if found.results is None:
        return _results(held, None)
    values = hand_back(found.results, True, found.signature, made, held)
    return _results(held, values)


def _compiled(kernel: Any, arguments: Mapping[str, Any], side: str) -> Result:
    held = guard_all(arguments, side)
    with guarded_workspaces(side):
        return _results(held, kernel(**held))


def differs(expected: Result, got: Result) -> str:
    """The first difference in words; "" where all bits are equal (NaNs are)."""
    if len(expected[1]) != len(got[1]):
        return f"{len(got[1])} values are returned, not {len(expected[1])}"
    pairs = [(name, value, got[0][name]) for name, value in expected[0].items()]
    pairs += [(f"result {k}", one, got[1][k]) for k, one in enumerate(expected[1])]
    for name, one, other in pairs:
        left, right = np.asarray(one), np.asarray(other)
        if left.dtype != right.dtype or left.shape != right.shape:
            return f"{name} is {right.dtype}{list(right.shape)}, not {left.dtype}{list(left.shape)}"
        bits = np.dtype(f"u{left.dtype.itemsize}")
        same = np.ascontiguousarray(left).view(bits) == np.ascontiguousarray(right).view(bits)
        if left.dtype.kind == "f":
            same |= np.isnan(left) & np.isnan(right)
        if not same.all():
            place = tuple(int(k) for k in np.argwhere(~np.atleast_1d(same))[0])
            return f"{name}{list(place)}: CPython {left[place]!r}, loopfuse {right[place]!r}"
    return ""


# -------------------------------------------------------------------------- names, in CPython


@functools.cache
def plain_names() -> dict[str, Any]:
    """What CPython runs a function with."""
    return {"np": _Module(np, _numpy_math), "math": _Module(math, _python_math)}


OURS = ("exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "sin", "cos", "tan", "atan")


def _numpy_math(name: str, value: Any) -> Any:
    """As NumPy's: of a Python number or an integer in f64."""
    kind = np.float32 if isinstance(value, np.float32) else np.float64
    return kind(engines.our_math()[f"{name}_{'f32' if kind is np.float32 else 'f64'}"](kind(value)))


def _python_math(name: str, value: Any) -> Any:
    """As `math`'s: a Python float, computed in f64; too large a result is no result."""
    found = float(engines.our_math()[f"{name}_f64"](np.float64(float(value))))
    if math.isinf(found) and math.isfinite(value):
        raise OverflowError("math range error")
    return found


class _Module:
    """`np` or `math` with loopfuse's functions, and zeros in arrays of anything."""

    def __init__(self, module: Any, ours: Callable[[str, Any], Any]) -> None:
        self._module, self._ours = module, ours

    def __getattr__(self, name: str) -> Any:
        if name in OURS:
            return functools.partial(self._ours, name)
        return getattr(self._module, {"empty": "zeros", "empty_like": "zeros_like"}.get(name, name))
