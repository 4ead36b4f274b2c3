"""Coefficients of the circular and hyperbolic functions, their inverses, log10 and cbrt.

Made by `benchmarks/make_circle_tables.py`: near-minimax polynomials, each coefficient rounded to
its type, lowest degree first. Keys are the type's width. The comment is the polynomial's largest
absolute error before rounding.
"""

from __future__ import annotations

SIN: dict[int, tuple[str, ...]] = {
    32: (  # 2.8e-11
        "-0x1.5555560000000p-3",
        "0x1.11110e0000000p-7",
        "-0x1.a013a60000000p-13",
        "0x1.6dbdd20000000p-19",
    ),
    64: (  # 1.2e-20
        "-0x1.5555555555555p-3",
        "0x1.1111111111110p-7",
        "-0x1.a01a01a019936p-13",
        "0x1.71de3a54605eep-19",
        "-0x1.ae64541266378p-26",
        "0x1.61217ec01749dp-33",
        "-0x1.ab17a79237a19p-41",
    ),
}
"""(sin(r)/r - 1) / z in z = r^2, |r| <= pi/4."""

COS: dict[int, tuple[str, ...]] = {
    32: (  # 2.3e-12
        "0x1.5555560000000p-5",
        "-0x1.6c16c00000000p-10",
        "0x1.a015c40000000p-16",
        "-0x1.25242a0000000p-22",
    ),
    64: (  # 6.5e-22
        "0x1.5555555555555p-5",
        "-0x1.6c16c16c16c16p-10",
        "0x1.a01a01a019d0ap-16",
        "-0x1.27e4fb7712bdfp-22",
        "0x1.1eed8deb6d561p-29",
        "-0x1.9394b9c9c20a4p-37",
        "0x1.ab783376962cfp-45",
    ),
}
"""(cos(r) - 1 + z/2) / z^2 in z = r^2."""

ATAN: dict[int, tuple[str, ...]] = {
    32: (  # 2.5e-09
        "-0x1.5555560000000p-2",
        "0x1.9999560000000p-3",
        "-0x1.2489520000000p-3",
        "0x1.c62cda0000000p-4",
        "-0x1.6dd8fe0000000p-4",
        "0x1.2006f80000000p-4",
        "-0x1.9115a40000000p-5",
        "0x1.aefb2c0000000p-6",
        "-0x1.2ba6b60000000p-7",
        "0x1.86406c0000000p-10",
    ),
    64: (  # 1.4e-19
        "-0x1.5555555555555p-2",
        "0x1.9999999999994p-3",
        "-0x1.24924924920f5p-3",
        "0x1.c71c71c6fc8c9p-4",
        "-0x1.745d17412271bp-4",
        "0x1.3b13b0ce8aff4p-4",
        "-0x1.11110a746070dp-4",
        "0x1.e1e14ec4e4c39p-5",
        "-0x1.af23abb356af8p-5",
        "0x1.85fa5056a06ccp-5",
        "-0x1.639775bb08f45p-5",
        "0x1.4560f34706c85p-5",
        "-0x1.280da61ab6494p-5",
        "0x1.0740e7b22ddb7p-5",
        "-0x1.bd57b2a70fb25p-6",
        "0x1.5a0e630f82889p-6",
        "-0x1.db3ca635fdf7fp-7",
        "0x1.14e2d5c3cf8dfp-7",
        "-0x1.062861c099837p-8",
        "0x1.7f300a4168aa2p-10",
        "-0x1.929735fe2c7dap-12",
        "0x1.0d2ba64dc4b35p-14",
        "-0x1.56d93881af28bp-18",
    ),
}
"""(atan(t)/t - 1) / z in z = t^2, t <= 1."""

ASIN: dict[int, tuple[str, ...]] = {
    32: (  # 4.2e-09
        "0x1.5555540000000p-3",
        "0x1.3334320000000p-4",
        "0x1.6d5b8e0000000p-5",
        "0x1.fd921a0000000p-6",
        "0x1.18e1f60000000p-6",
        "0x1.14138c0000000p-5",
    ),
    64: (  # 9.8e-19
        "0x1.5555555555555p-3",
        "0x1.3333333333389p-4",
        "0x1.6db6db6dac0eap-5",
        "0x1.f1c71c7a5e151p-6",
        "0x1.6e8ba121b9d5fp-6",
        "0x1.1c4efd20ebb99p-6",
        "0x1.c990a42b32b03p-7",
        "0x1.7b02ef007d23ep-7",
        "0x1.3b462d121c5d2p-7",
        "0x1.31777489dfd29p-7",
        "0x1.8dcdf11997e0fp-9",
        "0x1.40c91fa8deb7ep-6",
        "-0x1.3bd7e353ddbc2p-6",
        "0x1.e58a4f278e007p-6",
    ),
}
"""(asin(t)/t - 1) / z in z = t^2, t <= 1/2."""

SINH: dict[int, tuple[str, ...]] = {
    32: (  # 1.5e-10
        "0x1.5555560000000p-3",
        "0x1.1110e00000000p-7",
        "0x1.a1256c0000000p-13",
    ),
    64: (  # 1.3e-25
        "0x1.5555555555555p-3",
        "0x1.1111111111111p-7",
        "0x1.a01a01a01a01bp-13",
        "0x1.71de3a556c0f2p-19",
        "0x1.ae645683f8493p-26",
        "0x1.612444f4d2781p-33",
        "0x1.af2a0bc8cbf06p-41",
    ),
}
"""(sinh(r)/r - 1) / z in z = r^2, |r| <= ln2 / 2."""

COSH: dict[int, tuple[str, ...]] = {
    32: (  # 4.5e-13
        "0x1.0000000000000p-1",
        "0x1.5555560000000p-5",
        "0x1.6c166c0000000p-10",
        "0x1.a137420000000p-16",
    ),
    64: (  # 2.1e-28
        "0x1.0000000000000p-1",
        "0x1.5555555555555p-5",
        "0x1.6c16c16c16c17p-10",
        "0x1.a01a01a01a01bp-16",
        "0x1.27e4fb778991fp-22",
        "0x1.1eed8f03028f4p-29",
        "0x1.9397289a8ba34p-37",
        "0x1.af2cc20859490p-45",
    ),
}
"""(cosh(r) - 1) / z in z = r^2."""

LOG: dict[int, tuple[str, ...]] = {
    32: (  # 1.2e-09
        "0x1.5555560000000p-1",
        "0x1.9999ec0000000p-2",
        "0x1.245c080000000p-2",
        "0x1.dddbaa0000000p-3",
    ),
    64: (  # 2.1e-18
        "0x1.5555555555555p-1",
        "0x1.9999999999a3ap-2",
        "0x1.249249247670ap-2",
        "0x1.c71c7201fc0e6p-3",
        "0x1.745cf8c09a9d4p-3",
        "0x1.3b1c43c68eb6dp-3",
        "0x1.0fbd140544b63p-3",
        "0x1.0c135adcf3011p-3",
    ),
}
"""(2 atanh(s)/s - 2) / z in z = s^2, s = f/(2+f)."""

CBRT: dict[int, tuple[str, ...]] = {
    32: (  # 7.3e-06
        "0x1.0000300000000p+0",
        "-0x1.553ff80000000p-2",
        "0x1.c609040000000p-3",
        "-0x1.68d29a0000000p-3",
        "0x1.4660ca0000000p-3",
        "-0x1.ad6f760000000p-4",
    ),
    64: (  # 1.8e-07
        "0x1.ffffff1d7f60cp-1",
        "-0x1.555625749aa89p-2",
        "0x1.c7220152f285cp-3",
        "-0x1.617308d1b2548p-3",
        "0x1.257fa272c6539p-3",
        "-0x1.09f51e9393344p-3",
        "0x1.02a5345f76dd8p-3",
        "-0x1.44fc957550733p-4",
    ),
}
"""(1 + f)**(-1/3) in f, 1 + f in sqrt(1/2)..sqrt(2)."""

TWO_OVER_PI: dict[int, tuple[str, ...]] = {
    32: (
        "0x1.45f3060000000p-1",
    ),
    64: (
        "0x1.45f306dc9c883p-1",
    ),
}
"""2 / pi."""

HALF_PI: dict[int, tuple[str, ...]] = {
    32: (
        "0x1.921fb60000000p+0",
        "-0x1.777a5c0000000p-25",
        "-0x1.ee59da0000000p-50",
    ),
    64: (
        "0x1.921fb54442d18p+0",
        "0x1.1a62633145c07p-54",
        "-0x1.f1976b7ed8fbcp-110",
    ),
}
"""pi / 2 as a sum."""

CHUNKS: dict[int, tuple[str, ...]] = {
    32: (
        "0x1.45f3060000000p+95",
        "0x1.b939100000000p+70",
        "0x1.529fc00000000p+44",
        "0x1.3abe880000000p+21",
        "0x1.ea69ba0000000p-1",
        "0x1.81b6c40000000p-25",
        "0x1.2b32780000000p-49",
        "0x1.0e41040000000p-74",
        "0x1.fca2c60000000p-97",
    ),
    64: (
        "0x1.45f306dc9c882p+599",
        "0x1.4a7f09d5f47d4p+546",
        "0x1.a6ee06db14accp+493",
        "0x1.3c439041fe516p+440",
        "0x1.d5ef5de2b0db8p+385",
        "0x1.2371d2126e970p+333",
        "0x1.924bba8274600p+274",
        "0x1.21cfe1deb1cb1p+228",
        "0x1.4d39f74411af8p+173",
        "0x1.4baed1213a671p+122",
        "0x1.8135a2fbf209cp+69",
        "0x1.91d639835339fp+16",
        "0x1.272117e2ef7e4p-38",
        "0x1.41d8ffc4bffeep-91",
        "0x1.02cc07f79788cp-143",
        "0x1.6b414da3eda6cp-197",
        "0x1.fb3c9f2c26dd2p-250",
        "0x1.d18fd9a797fa8p-302",
        "0x1.6ba93dd63f5f2p-355",
        "0x1.f17b3d0739f78p-408",
        "0x1.4a525d4d7f6bfp-461",
        "0x1.88fc6ae842b00p-515",
        "0x1.98237e3db5d5fp-567",
    ),
}
"""2 / pi cut every 24 (53) bits, times 2**96 (2**600): each product with a number
is a sum of two of that type."""

LN2: dict[int, tuple[str, ...]] = {
    32: (
        "0x1.62e4300000000p-1",
        "-0x1.05c6100000000p-29",
    ),
    64: (
        "0x1.62e42fefa39efp-1",
        "0x1.abc9e3b39803fp-56",
    ),
}
"""log(2) as a sum."""

LOG10E: dict[int, tuple[str, ...]] = {
    32: (
        "0x1.bcb7b20000000p-2",
        "-0x1.5b235e0000000p-27",
    ),
    64: (
        "0x1.bcb7b1526e50ep-2",
        "0x1.95355baaafad3p-57",
    ),
}
"""1 / log(10) as a sum."""

LOG10_2: dict[int, tuple[str, ...]] = {
    32: (
        "0x1.3440000000000p-2",
        "0x1.3509f80000000p-18",
    ),
    64: (
        "0x1.34413509f6000p-2",
        "0x1.9fef311f12b36p-42",
    ),
}
"""log10(2); the first has so few bits that its multiples by exponents are exact."""

CBRT_HALVES: dict[int, tuple[str, ...]] = {
    32: (
        "0x1.428a300000000p+0",
        "0x1.965fea0000000p-1",
    ),
    64: (
        "0x1.428a2f98d728bp+0",
        "0x1.965fea53d6e3dp-1",
    ),
}
"""2**(1/3) and 2**(-1/3)."""
