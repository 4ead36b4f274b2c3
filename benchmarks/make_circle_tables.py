"""Makes loopfuse/codegen/math/circle_tables.py: what the functions in `mathfns_circle`,
`mathfns_hyperbolic` and `mathfns_roots` read, by mpmath.

Run it from the repository's root; it prints each polynomial's error. Nothing else needs it.
"""

from __future__ import annotations

import mpmath
from make_math_tables import near_zero, odd_series, rounded, split
from mpmath import asin, atan, cbrt, chebyfit, cos, cosh, log, mp, mpf, pi, sin, sinh, sqrt

mp.dps = 60
HEADER = '''"""Coefficients of the circular and hyperbolic functions, their inverses, log10 and cbrt.

Made by `benchmarks/make_circle_tables.py`: near-minimax polynomials, each coefficient rounded to
its type, lowest degree first. Keys are the type's width. The comment is the polynomial's largest
absolute error before rounding.
"""

from __future__ import annotations
'''


def tail(function, first, second):
    """(f(r)/r - 1) / r^2 in z = r^2, from its series where it would divide 0 by 0."""
    return near_zero(
        lambda z: (function(sqrt(z)) / sqrt(z) - 1) / z, lambda z: first + second * z, "1e-20"
    )


QUARTER = (pi / 4 * mpf("1.0001")) ** 2
LN = (log(2) / 2 * mpf("1.001")) ** 2
ROOT = sqrt(mpf(2))
SIN = tail(sin, -mpf(1) / 6, mpf(1) / 120)
COS = near_zero(
    lambda z: (cos(sqrt(z)) - 1 + z / 2) / z**2, lambda z: mpf(1) / 24 - z / 720, "1e-14"
)
ATAN = tail(atan, -mpf(1) / 3, mpf(1) / 5)
ASIN = tail(asin, mpf(1) / 6, mpf(3) / 40)
SINH = tail(sinh, mpf(1) / 6, mpf(1) / 120)
COSH = near_zero(lambda z: (cosh(sqrt(z)) - 1) / z, lambda z: mpf(1) / 2 + z / 24, "1e-20")
LOG = near_zero(odd_series, lambda z: mpf(2) / 3 + 2 * z / 5, "1e-24")
FITS = {
    "SIN": (SIN, mpf(0), QUARTER, {32: 4, 64: 7}),
    "COS": (COS, mpf(0), QUARTER, {32: 4, 64: 7}),
    "ATAN": (ATAN, mpf(0), mpf(1), {32: 10, 64: 23}),
    "ASIN": (ASIN, mpf(0), mpf("0.2501"), {32: 6, 64: 14}),
    "SINH": (SINH, mpf(0), LN, {32: 3, 64: 7}),
    "COSH": (COSH, mpf(0), LN, {32: 4, 64: 8}),
    "LOG": (LOG, mpf(0), mpf("0.0295"), {32: 4, 64: 8}),
    "CBRT": (lambda f: 1 / cbrt(1 + f), 1 / ROOT - 1, ROOT - 1, {32: 6, 64: 8}),
}
MEANINGS = {
    "SIN": "(sin(r)/r - 1) / z in z = r^2, |r| <= pi/4.",
    "COS": "(cos(r) - 1 + z/2) / z^2 in z = r^2.",
    "ATAN": "(atan(t)/t - 1) / z in z = t^2, t <= 1.",
    "ASIN": "(asin(t)/t - 1) / z in z = t^2, t <= 1/2.",
    "SINH": "(sinh(r)/r - 1) / z in z = r^2, |r| <= ln2 / 2.",
    "COSH": "(cosh(r) - 1) / z in z = r^2.",
    "LOG": "(2 atanh(s)/s - 2) / z in z = s^2, s = f/(2+f).",
    "CBRT": "(1 + f)**(-1/3) in f, 1 + f in sqrt(1/2)..sqrt(2).",
}


def parts(value, bits: int, count: int) -> list[float]:
    """`value` as a sum of numbers of one type, each the nearest to what is left."""
    found: list[float] = []
    for _ in range(count):
        found.append(rounded(value, bits))
        value -= mpf(found[-1])
    return found


def chunks(bits: int) -> list[float]:
    """2 / pi cut every 24 (53) bits, scaled up so that no chunk is subnormal."""
    width, count, scale = {32: (24, 9, 96), 64: (53, 23, 600)}[bits]
    with mpmath.workdps(500):
        rest, found = 2 / pi, list[float]()
        for number in range(count):
            unit = mpf(2) ** (-width * (number + 1))
            chunk = mpmath.floor(rest / unit) * unit
            rest -= chunk
            found.append(float(chunk * mpf(2) ** scale))
    return found


def main() -> None:
    """Fits everything and writes the file."""
    out = [HEADER]
    for name, (function, low, high, counts) in FITS.items():
        out.append(f"{name}: dict[int, tuple[str, ...]] = {{")
        for bits, count in counts.items():
            found, error = chebyfit(function, [low, high], count, error=True)
            print(name, bits, count, float(error))
            out.append(f"    {bits}: (  # {float(error):.1e}")
            out += [f'        "{rounded(each, bits).hex()}",' for each in reversed(found)]
            out.append("    ),")
        out += ["}", f'"""{MEANINGS[name]}"""\n']
    tables = {
        "TWO_OVER_PI": lambda bits: [rounded(2 / pi, bits)],
        "HALF_PI": lambda bits: parts(pi / 2, bits, 3),
        "CHUNKS": chunks,
        "LN2": lambda bits: parts(log(2), bits, 2),
        "LOG10E": lambda bits: parts(1 / log(10), bits, 2),
        "LOG10_2": lambda bits: list(split(log(2) / log(10), {32: 15, 64: 40}[bits], bits)),
        "CBRT_HALVES": lambda bits: parts(cbrt(mpf(2)), bits, 1) + parts(1 / cbrt(mpf(2)), bits, 1),
    }
    meanings = {
        "TWO_OVER_PI": "2 / pi.",
        "HALF_PI": "pi / 2 as a sum.",
        "CHUNKS": "2 / pi cut every 24 (53) bits, times 2**96 (2**600): each product with a number\n"
        "is a sum of two of that type.",
        "LN2": "log(2) as a sum.",
        "LOG10E": "1 / log(10) as a sum.",
        "LOG10_2": "log10(2); the first has so few bits that its multiples by exponents are exact.",
        "CBRT_HALVES": "2**(1/3) and 2**(-1/3).",
    }
    for name, make in tables.items():
        out.append(f"{name}: dict[int, tuple[str, ...]] = {{")
        for bits in (32, 64):
            out.append(f"    {bits}: (")
            out += [f'        "{each.hex()}",' for each in make(bits)]
            out.append("    ),")
        out += ["}", f'"""{meanings[name]}"""\n']
    with open("loopfuse/codegen/math/circle_tables.py", "w", encoding="ascii") as file:
        file.write("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    main()
