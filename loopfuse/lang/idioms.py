"""What people call by a name that loopfuse does not know, and what says the same with the operations
that it has: read by both doors, each of which spells it in its own words.

A name that stands in NumPy, `math` or Python is no misspelling: where nothing here says the same, none
is proposed for it.
"""

from __future__ import annotations

import builtins
import difflib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from loopfuse.lang import ops


@dataclass(frozen=True, slots=True)
class Idiom:
    """`codes` with `x`, `y`, `z` for the operands, functions by the core's names, and casts as `.lf`
    writes them; more than one where the function gives more than one number. `note` says where it is
    not the same."""

    codes: tuple[str, ...]
    note: str = ""

    @property
    def arity(self) -> int:
        """How many operands it takes."""
        return len({word for code in self.codes for word in re.findall(r"\b[xyz]\b", code)})


def _idioms(**codes: str) -> dict[str, Idiom]:
    return {word: Idiom((code,)) for word, code in codes.items()}


_DEGREE, _RADIAN = "0.017453292519943295", "57.29577951308232"
IDIOMS: dict[str, Idiom] = {
    **_idioms(**ops.NUMPY_OPERATORS),
    # Python's `operator`, PyTorch, Fortran, C
    **_idioms(
        sub="x - y", mul="x * y", div="x / y", truediv="x / y", floordiv="x // y", modulo="x % y",
        neg="-x", eq="x == y", ne="x != y", lt="x < y", le="x <= y", gt="x > y", ge="x >= y",
        and_="x & y", or_="x | y", xor="x ^ y", not_="not x", inv="~x", lshift="x << y", rshift="x >> y",
        fdim="max(x - y, 0.0)", ldexp="x * 2.0 ** y", scalbn="x * 2.0 ** y", lerp="x + z * (y - x)", fma="x * y + z",
        nearbyint="round(x)", roundeven="round(x)", around="round(x)", fix="trunc(x)", lrint="round(x)",
        float_power="f64(x) ** f64(y)",
    ),
    # neural networks
    **_idioms(
        sigmoid="1.0 / (1.0 + exp(-x))", expit="1.0 / (1.0 + exp(-x))", logistic="1.0 / (1.0 + exp(-x))",
        logit="log(x / (1.0 - x))", softplus="max(x, 0.0) + log1p(exp(-abs(x)))", relu="max(x, 0.0)",
        silu="x / (1.0 + exp(-x))", swish="x / (1.0 + exp(-x))", saturate="min(max(x, 0.0), 1.0)",
        logaddexp="max(x, y) + log1p(exp(-abs(x - y)))",
        logaddexp2="max(x, y) + log2(1.0 + exp2(-abs(x - y)))",
    ),
    # powers and angles
    **_idioms(
        sqr="x * x", cube="x * x * x", exp10="10.0 ** x",
        sec="1.0 / cos(x)", csc="1.0 / sin(x)", cot="1.0 / tan(x)",
        sech="1.0 / cosh(x)", csch="1.0 / sinh(x)", coth="1.0 / tanh(x)",
        sind=f"sin(x * {_DEGREE})", cosd=f"cos(x * {_DEGREE})", tand=f"tan(x * {_DEGREE})",
        asind=f"asin(x) * {_RADIAN}", acosd=f"acos(x) * {_RADIAN}", atand=f"atan(x) * {_RADIAN}",
        sinc="sin(3.141592653589793 * x) / (3.141592653589793 * x) if x != 0.0 else 1.0",
    ),
    # tests
    **_idioms(
        isneginf="x == -inf", isposinf="x == inf", signbit="copysign(1.0, x) < 0.0",
        isclose="abs(x - y) <= 1e-8 + 1e-5 * abs(y)", where="y if x else z", select="y if x else z",
    ),
    "math.isclose": Idiom(("abs(x - y) <= 1e-9 * abs(x) or abs(x - y) <= 1e-9 * abs(y)",)),
    "math.remainder": Idiom(("x - y * round(x / y)",), "which rounds more than once"),
    "erfc": Idiom(("1.0 - erf(x)",), "which loses digits where `erf` is near 1"),
    "isqrt": Idiom(("int(sqrt(x))",), "which is exact below 2**52"),
    "heaviside": Idiom(("y if x == 0.0 else (1.0 if x > 0.0 else 0.0)",), "which takes NaN for a number below 0"),
    "divmod": Idiom(("x // y", "x % y")),
    "modf": Idiom(("x - trunc(x)", "trunc(x)")),
}  # fmt: skip
"""By the word in lower case, or by the word with its library where that means something else there."""


def find(word: str, library: str = "") -> Idiom | None:
    """What says the same as `library.word`."""
    return IDIOMS.get(f"{library}.{word}") or IDIOMS.get(word.lower())


def write(idiom: Idiom, arguments: Sequence[str], call: Callable[[str], str]) -> str:
    """The fix: its codes for these arguments, with letters where their number is another; `call` says
    how a door spells a function, a cast, or infinity."""
    given = dict(zip("xyz", arguments)) if len(arguments) == idiom.arity else {}
    codes = [f"`{_filled(code, given, call)}`" for code in idiom.codes]
    return f"write {' and '.join(codes)}" + (f", {idiom.note}" if idiom.note else "")


def _filled(code: str, given: dict[str, str], call: Callable[[str], str]) -> str:
    def word(found: re.Match[str]) -> str:
        name = found[0]
        if name not in given:
            known = name == "inf" or code[found.end() : found.end() + 1] == "("
            return call(name) if known and name not in ("if", "else") else name
        text = given[name]
        before, after = code[: found.start()].rstrip()[-1:], code[found.end() :].lstrip()[:1]
        if code == name or (before in "(," and after in "),") or (choice and " if " not in text):
            return text
        return text if _is_one(text) else f"({text})"

    choice = code == IDIOMS["where"].codes[0]
    return re.sub(r"\b[a-z_]\w*\b", word, code)


def _is_one(text: str) -> bool:
    """`x`, `2.0`, `x[i]`, `np.sin(a + b)`: no operator stands outside its brackets."""
    if re.fullmatch(r"[\w.]+", text):
        return True
    depth, ends = 0, list[int]()
    for place, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if depth == 0 and sign in ")]":
            ends.append(place)
    return re.match(r"[\w.]+[\[(]", text) is not None and ends == [len(text) - 1]


def is_known_elsewhere(word: str) -> bool:
    """Python, `math` or NumPy have it: it is no misspelling."""
    return any(hasattr(library, word) for library in (builtins, math, np))


def misspelt(word: str, candidates: Iterable[str]) -> str:
    """The candidate that `word` is a misspelling of: one letter off, or two in a long word; "" where
    none is, or `word` is a name that means something else."""
    known = sorted(set(candidates))
    folded = [one for one in known if one.lower() == word.lower()]
    if folded:
        return folded[0]
    if is_known_elsewhere(word) or find(word) or len(word) < 3:
        return ""
    limit = 2 if len(word) >= 7 else 1
    near = [
        (distance, -difflib.SequenceMatcher(None, word, one).ratio(), one)
        for one in known
        if len(one) >= 3
        and re.sub(r"\D", "", one) == re.sub(r"\D", "", word)
        and (distance := _distance(word.lower(), one.lower())) <= limit
    ]
    return min(near)[2] if near else ""


def _distance(left: str, right: str) -> int:
    """Letters to add, drop, replace or exchange with their neighbours, of the one to get the other."""
    before, row = list[int](), list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        oldest, before, row = before, row, [i]
        for j, b in enumerate(right, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == right[j - 2] and left[i - 2] == b:
                cost = min(cost, oldest[j - 2] + 1)
            row.append(cost)
    return row[-1]
