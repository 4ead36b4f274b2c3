"""Makes loopfuse/codegen/math/tables.py: near-minimax coefficients, by mpmath.

Run it from the repository's root; it prints each polynomial's error. Nothing else needs it.
"""

from __future__ import annotations

import mpmath
import numpy as np
from mpmath import atanh, chebyfit, erf, erfc, exp, log, mp, mpf, pi, sqrt, taylor

mp.dps = 60
HEADER = '''"""Coefficients of our math functions, in hexadecimal.

Made by `benchmarks/make_math_tables.py`: near-minimax polynomials (interpolation at Chebyshev
nodes with mpmath at 60 digits), each coefficient rounded to its type, lowest degree first. Keys
are the type's width; f32 has only what its pow needs (the rest is in `mathfns_single_tables`). The
comment is the polynomial's largest absolute error before rounding.
"""

from __future__ import annotations
'''
MEANINGS = {
    "EXP": "(exp(r) - 1 - r) / r^2 on |r| <= ln2 / 2.",
    "EXP2": "(2^r - 1) / r on |r| <= 1/2.",
    "LOG": "(2 atanh(s)/s - 2) / z in z = s^2, s = f/(2+f).",
    "POW": "((2 atanh(s)/s - 2) / z - 2/3) / z in z = s^2.",
    "ERF": "erf(x)/x - 1 in x^2.",
    "ERFC": "log(erfc(t)) in t - ERFC_START.",
}


def rounded(value, bits: int) -> float:
    """`value` in f32 or f64."""
    return float(np.float32(float(value))) if bits == 32 else float(value)


def near_zero(function, series, least="1e-12"):
    """`function`, and its series where it would divide 0 by 0."""
    return lambda x: series(x) if abs(x) < mpf(least) else function(x)


def odd_series(z):
    """(2 atanh(s)/s - 2) / z."""
    s = sqrt(z)
    return (2 * atanh(s) / s - 2) / z


HALF = log(2) / 2 * mpf("1.002")
ROOT = sqrt(mpf(2))
EXP = near_zero(lambda r: (exp(r) - 1 - r) / r**2, lambda r: mpf(1) / 2 + r / 6)
EXP2 = near_zero(lambda r: (exp(r * log(2)) - 1) / r, lambda r: log(2) + r * log(2) ** 2 / 2)
LOG = near_zero(odd_series, lambda z: mpf(2) / 3 + 2 * z / 5, "1e-24")
POW = near_zero(
    lambda z: (odd_series(z) - mpf(2) / 3) / z, lambda z: mpf(2) / 5 + 2 * z / 7, "1e-18"
)
ERF = near_zero(
    lambda s: erf(sqrt(s)) / sqrt(s) - 1, lambda s: 2 / sqrt(pi) * (1 - s / 3) - 1, "1e-30"
)
START = mpf(1)
FITS = {
    ("EXP", 32): (EXP, -HALF, HALF, 6),
    ("EXP", 64): (EXP, -HALF, HALF, 12),
    ("EXP2", 64): (EXP2, -mpf("0.501"), mpf("0.501"), 14),
    ("LOG", 64): (LOG, mpf(0), mpf("0.0295"), 8),
    ("POW", 32): (POW, mpf(0), mpf("0.0295"), 3),
    ("POW", 64): (POW, mpf(0), mpf("0.0295"), 8),
    ("ERF", 64): (ERF, mpf(0), mpf(1), 14),
}


def fit_erfc():
    """Fitted around the middle, then written in powers of t - start: 1 - exp(G) needs G most
    exactly where erfc is largest, and there the argument is small."""
    most, count = mpf(6), 30
    low = START - mpf("0.001")
    middle = (low + most) / 2
    found, error = chebyfit(
        lambda u: log(erfc(u + middle)), [low - middle, most - middle], count, error=True
    )
    return taylor(lambda u: mp.polyval(found, u), START - middle, count - 1), error


def split(value, keep: int, bits: int) -> tuple[float, float]:
    """`value` as its first `keep` bits and the rest."""
    mantissa, exponent = mpmath.frexp(value)
    high = mpmath.floor(mantissa * mpf(2) ** keep) * mpf(2) ** (exponent - keep)
    return rounded(high, bits), rounded(value - high, bits)


def main() -> None:
    """Fits everything and writes the file."""
    tables: dict[tuple[str, int], tuple[list[float], float]] = {}
    for (name, bits), (function, low, high, count) in FITS.items():
        found, error = chebyfit(function, [low, high], count, error=True)
        tables[name, bits] = [rounded(each, bits) for each in reversed(found)], float(error)
    found, error = fit_erfc()
    tables["ERFC", 64] = [float(each) for each in found], float(error)
    out = [HEADER]
    for name, meaning in MEANINGS.items():
        out.append(f"{name}: dict[int, tuple[str, ...]] = {{")
        for bits in (32, 64):
            if (name, bits) not in tables:
                continue
            coefficients, error = tables[name, bits]
            print(name, bits, len(coefficients), error)
            out.append(f"    {bits}: (  # {error:.1e}")
            out += [f'        "{each.hex()}",' for each in coefficients]
            out.append("    ),")
        out += ["}", f'"""{meaning}"""\n']
    out.append(f"ERFC_START = {float(START)}\n")

    def constants(names: tuple[str, str], pairs: dict[int, tuple[float, float]]) -> None:
        for number, name in enumerate(names):
            words = ", ".join(f'{bits}: "{pair[number].hex()}"' for bits, pair in pairs.items())
            out.append(f"{name} = {{{words}}}")

    def pair(value, bits: int) -> tuple[float, float]:
        high = rounded(value, bits)
        return high, rounded(value - mpf(high), bits)

    constants(("LN2_HIGH", "LN2_LOW"), {32: split(log(2), 15, 32), 64: split(log(2), 40, 64)})
    out.append('"""The first has so few bits that its multiples by exponents are exact."""\n')
    constants(("LOG2E", "LOG2E_LOW"), {bits: pair(1 / log(2), bits) for bits in (32, 64)})
    constants(("TWO_THIRDS", "TWO_THIRDS_LOW"), {b: pair(mpf(2) / 3, b) for b in (32, 64)})
    with open("loopfuse/codegen/math/tables.py", "w", encoding="ascii") as file:
        file.write("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
