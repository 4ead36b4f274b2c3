"""Makes loopfuse/codegen/math/single_tables.py: the polynomials of the f32 functions.

Each is the minimax of a weighted error (what it does to the result, in relative terms) by Remez'
exchange on a fine grid, or by linear programming; coefficients are rounded to f32 one by one, the lowest degree first, and
what is left is fitted again each time. Run it from the repository's root; the last
bits of what the exchange finds depend on NumPy's solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np
from scipy.optimize import linprog

mp.mp.prec = 200
LN2 = mp.log(2)
Function = Callable[[Any], Any]
HEADER = '''"""Coefficients of the f32 functions in `mathfns_single`, lowest degree first.

Made by `tests/tools/fit_math.py`; the comment is the largest error each polynomial makes in the
result, relative to it.
"""

from __future__ import annotations
'''


@dataclass(frozen=True, slots=True)
class Fit:
    """A polynomial of some degree for `function` on low..high; `weight` turns its absolute error
    into the result's relative one; `fixed` are the lowest coefficients, given."""

    name: str
    meaning: str
    function: Function
    weight: Function
    low: float
    high: float
    degree: int
    fixed: tuple[float, ...] = ()
    best: Callable[[np.ndarray, np.ndarray, np.ndarray, list[int]], np.ndarray] | None = None
    """How the best coefficients are found: by `remez`, if nothing is said."""


def _expm1_rest(r: Any) -> Any:
    return (mp.expm1(r) - r) / r**2 if abs(r) > 1e-9 else mp.mpf(1) / 2 + r / 6


def _tanh_quotient(z: Any) -> Any:
    x = mp.sqrt(z)
    return mp.tanh(x) / x if z > 1e-12 else 1 - z / 3


def _erf_rest(z: Any) -> Any:
    x = mp.sqrt(z)
    return mp.erf(x) / x - 1 if z > 1e-8 else 2 / mp.sqrt(mp.pi) * (1 - z / 3) - 1


def _log_rest(f: Any) -> Any:
    return (mp.log1p(f) - f) / f**2 if abs(f) > 1e-10 else f / 3 - mp.mpf(1) / 2


def _log2_quotient(f: Any) -> Any:
    return (mp.log1p(f) / f if abs(f) > 1e-10 else 1 - f / 2) / LN2 - 1


def _over_log1p(power: int) -> Function:
    return lambda f: abs(f**power / mp.log1p(f)) if abs(f) > 1e-12 else mp.mpf(power == 1)


HALF, ROOT = float(LN2) / 2 * 1.002, float(mp.sqrt(0.5))
TANH_NEAR, ERF_NEAR, ERF_END, ERF_MIDDLE = 0.65, 1.0, 3.92, 2.25


def programmed(x: np.ndarray, target: np.ndarray, weight: np.ndarray, powers: list[int]) -> np.ndarray:
    """The same as `remez`, by linear programming: where the error of some degree has more peaks
    than that degree needs, the exchange loses its way."""
    scale = 1e6  # the solver's tolerance is absolute
    basis = np.stack([weight * x**p for p in powers], 1)
    size = np.abs(basis).max(0)
    basis, goal, one = basis / size, scale * weight * target, np.ones((x.size, 1))
    count = len(powers)
    found = linprog(
        np.append(np.zeros(count), 1.0),
        np.block([[basis, -one], [-basis, -one]]),
        np.concatenate([goal, -goal]),
        bounds=[(None, None)] * count + [(0, None)],
        method="highs-ds",
    )
    return found.x[:count] / size / scale


FITS = (
    # An error counts double where the result is below a power of two: its last place is smaller.
    Fit("EXP", "e^r, |r| <= ln2.", mp.exp, lambda r: 1 if r >= 0 else 2, -2 * HALF, 2 * HALF, 8, (1.0,)),
    Fit("EXP2", "2^r, |r| <= 1.", lambda r: mp.mpf(2) ** r, lambda r: 1 if r >= 0 else 2, -1.0, 1.0, 8, (1.0,)),
    Fit("EXP_TWICE", "e^(2 r), |r| <= ln2 / 4.", lambda r: mp.exp(2 * r), lambda r: mp.exp(-2 * r),
        -HALF / 2, HALF / 2, 6, (1.0,)),
    Fit("EXPM1", "(e^r - 1 - r) / r^2, |r| <= ln2 / 2.", _expm1_rest,
        lambda r: abs(r**2 / mp.expm1(r)) if abs(r) > 1e-12 else mp.mpf(0), -HALF, HALF, 4),
    Fit("TANH", f"tanh(x) / x in x^2, |x| <= {TANH_NEAR}.", _tanh_quotient,
        lambda z: 1 / _tanh_quotient(z), 1e-6, TANH_NEAR**2, 5, (1.0,)),
    Fit("ERF", f"erf(x) / x - 1 in x^2, |x| <= {ERF_NEAR}.", _erf_rest,
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), 1e-7, ERF_NEAR**2, 6, (float(np.float32(float(_erf_rest(0)))),)),
    Fit("ERF_FAR", f"erf(t) in t - {ERF_MIDDLE}, {ERF_NEAR} <= t <= {ERF_END}.", lambda y: mp.erf(y + ERF_MIDDLE),
        lambda _: 1, ERF_NEAR - ERF_MIDDLE, ERF_END - ERF_MIDDLE, 12, best=programmed),
    Fit("LOG", "(log(1 + f) - f) / f^2, 1 + f between the roots of 1/2 and 2.", _log_rest, _over_log1p(2),
        ROOT - 1, 2 * ROOT - 1, 8),
    Fit("LOG2", "log2(1 + f) / f - 1, on the same.", _log2_quotient, lambda f: _over_log1p(1)(f) * LN2,
        ROOT - 1, 2 * ROOT - 1, 9),
    Fit("LOG1P", "(log(1 + f) - f) / f^2, -1/4 <= f <= 1/2.", _log_rest, _over_log1p(2), -0.25, 0.5, 8),
)  # fmt: skip


def remez(x: np.ndarray, target: np.ndarray, weight: np.ndarray, powers: list[int]) -> np.ndarray:
    """The coefficients of x^power that make the largest |weight (target - sum)| least."""
    count = len(powers)
    basis, goal = np.stack([weight * x**p for p in powers], 1), weight * target
    places = (1 - np.cos(np.pi * np.arange(count + 1) / count)) / 2 * (x.size - 1)
    chosen = np.round(places).astype(int)
    best, found = np.inf, np.zeros(count)
    for _ in range(60):
        matrix = np.hstack([basis[chosen], ((-1.0) ** np.arange(count + 1))[:, None]])
        size = np.abs(matrix).max(0)
        solution = np.linalg.solve(matrix / size, goal[chosen]) / size
        error = goal - basis @ solution[:-1]
        if np.abs(error).max() < best:
            best, found = np.abs(error).max(), solution[:-1]
        cuts = np.flatnonzero(np.signbit(error[1:]) != np.signbit(error[:-1])) + 1
        peaks = [run[np.argmax(np.abs(error[run]))] for run in np.split(np.arange(x.size), cuts)]
        while len(peaks) > count + 1:
            _drop_smallest(peaks, np.abs(error), len(peaks) == count + 2)
        if len(peaks) < count + 1 or best <= abs(solution[-1]) * 1.0005:
            break
        chosen = np.array(peaks)
    return found


def _drop_smallest(peaks: list[int], error: np.ndarray, only_one: bool) -> None:
    """Takes out the least peak and its smaller neighbour, which keeps the signs alternating; the
    smaller end where only one is too many."""
    least = int(np.argmin(error[peaks]))
    if only_one or least in (0, len(peaks) - 1):
        peaks.pop(0 if error[peaks[0]] < error[peaks[-1]] else -1)
        return
    other = least + 1 if error[peaks[least + 1]] < error[peaks[least - 1]] else least - 1
    peaks.pop(max(least, other))
    peaks.pop(min(least, other))


def fit(each: Fit) -> tuple[list[float], float]:
    """The rounded coefficients and the error they make."""
    grid = np.cos(np.pi * (np.arange(2001) + 0.5) / 2001)[::-1]
    x = each.low + (each.high - each.low) * (grid + 1) / 2
    target = np.array([float(each.function(mp.mpf(float(v)))) for v in x])
    weight = np.array([float(each.weight(mp.mpf(float(v)))) for v in x])
    found = list(each.fixed)
    while len(found) <= each.degree:
        left = target - sum(c * x**p for p, c in enumerate(found))
        best = each.best or remez
        rest = best(x, left, weight, list(range(len(found), each.degree + 1)))
        found.append(float(np.float32(rest[0])))
    error = target - sum(c * x**p for p, c in enumerate(found))
    return found, float(np.abs(weight * error).max())


def main() -> None:
    """Fits everything and writes the file."""
    out = [HEADER]
    for each in FITS:
        found, error = fit(each)
        print(each.name, len(found), f"{error:.1e}")
        out.append(f"{each.name} = (  # {error:.1e}")
        out += [f'    "{value.hex()}",' for value in found]
        out += [")", f'"""{each.meaning}"""\n']
    text = "\n".join(out).rstrip("\n") + "\n"
    with open("loopfuse/codegen/math/single_tables.py", "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    main()
