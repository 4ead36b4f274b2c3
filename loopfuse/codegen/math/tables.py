"""Coefficients of our math functions, in hexadecimal.

Made by `benchmarks/make_math_tables.py`: near-minimax polynomials (interpolation at Chebyshev
nodes with mpmath at 60 digits), each coefficient rounded to its type, lowest degree first. Keys
are the type's width; f32 has only what its pow needs (the rest is in `mathfns_single_tables`). The
comment is the polynomial's largest absolute error before rounding.
"""

from __future__ import annotations

EXP: dict[int, tuple[str, ...]] = {
    32: (  # 1.4e-09
        "0x1.0000000000000p-1",
        "0x1.5555560000000p-3",
        "0x1.5554e80000000p-5",
        "0x1.1110e00000000p-7",
        "0x1.6d444a0000000p-10",
        "0x1.a125f60000000p-13",
    ),
    64: (  # 1.8e-20
        "0x1.0000000000000p-1",
        "0x1.5555555555555p-3",
        "0x1.5555555555557p-5",
        "0x1.1111111111111p-7",
        "0x1.6c16c16c15a23p-10",
        "0x1.a01a01a019687p-13",
        "0x1.a01a01aa06591p-16",
        "0x1.71de3a5ab713dp-19",
        "0x1.27e4d3cc8ca96p-22",
        "0x1.ae642c30edf0dp-26",
        "0x1.1f7fb55a7a4f0p-29",
        "0x1.61c041733a645p-33",
    ),
}
"""(exp(r) - 1 - r) / r^2 on |r| <= ln2 / 2."""

EXP2: dict[int, tuple[str, ...]] = {
    64: (  # 2.5e-23
        "0x1.62e42fefa39efp-1",
        "0x1.ebfbdff82c58fp-3",
        "0x1.c6b08d704a0c0p-5",
        "0x1.3b2ab6fba4e77p-7",
        "0x1.5d87fe78a6734p-10",
        "0x1.430912f86c788p-13",
        "0x1.ffcbfc5888fcdp-17",
        "0x1.62c0223a5bcb7p-20",
        "0x1.b5253d4518ecbp-24",
        "0x1.e4cf5160d9bbdp-28",
        "0x1.e8ca82af9fca4p-32",
        "0x1.c3bd35929e2c9p-36",
        "0x1.82280dbc7c95bp-40",
        "0x1.31d2f467994c5p-44",
    ),
}
"""(2^r - 1) / r on |r| <= 1/2."""

LOG: dict[int, tuple[str, ...]] = {
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

POW: dict[int, tuple[str, ...]] = {
    32: (  # 1.6e-07
        "0x1.9999a40000000p-2",
        "0x1.247a160000000p-2",
        "0x1.d810320000000p-3",
    ),
    64: (  # 1.9e-18
        "0x1.999999999999ap-2",
        "0x1.2492492492524p-2",
        "0x1.c71c71c6ea01fp-3",
        "0x1.745d177b22bcfp-3",
        "0x1.3b1395976d2f0p-3",
        "0x1.1118d458653bcp-3",
        "0x1.df7a2eafecf14p-4",
        "0x1.e0499f72e39b9p-4",
    ),
}
"""((2 atanh(s)/s - 2) / z - 2/3) / z in z = s^2."""

ERF: dict[int, tuple[str, ...]] = {
    64: (  # 2.2e-21
        "0x1.06eba8214db69p-3",
        "-0x1.812746b0379e7p-2",
        "0x1.ce2f21a042bdep-4",
        "-0x1.b82ce312889bap-6",
        "0x1.565bcd0e6502dp-8",
        "-0x1.c02db3feeb579p-11",
        "0x1.f9a326c233146p-14",
        "-0x1.f4d2561aeafd4p-17",
        "0x1.b9e6509b9867dp-20",
        "-0x1.5f6d925a0bc7ap-23",
        "0x1.fc4356498c2d9p-27",
        "-0x1.4e607b41a6416p-30",
        "0x1.7f072188e194dp-34",
        "-0x1.29b9f1b3df556p-38",
    ),
}
"""erf(x)/x - 1 in x^2."""

ERFC: dict[int, tuple[str, ...]] = {
    64: (  # 1.1e-19
        "-0x1.d97fbf27aa2a1p+0",
        "-0x1.51c9b0006c23dp+1",
        "-0x1.afabc11a28f24p-1",
        "-0x1.5477f09cab386p-5",
        "0x1.48c9d40c6c0bfp-7",
        "-0x1.033f69a0ad610p-9",
        "0x1.f1b4bf854ec3ep-13",
        "0x1.b8bde4af5dfe0p-16",
        "-0x1.c758b9494959bp-16",
        "0x1.415696712e539p-17",
        "-0x1.0eccd0f7adc26p-19",
        "0x1.b50b154d2573dp-24",
        "0x1.11708e64588a8p-23",
        "-0x1.2269a232cd072p-24",
        "0x1.5c4d0e9caaa93p-26",
        "-0x1.ec38f209a469dp-29",
        "-0x1.090bb840716dfp-34",
        "0x1.68261254176a7p-32",
        "-0x1.4816719802974p-33",
        "0x1.8d750d0d23104p-35",
        "-0x1.74c7681bb58eap-37",
        "0x1.1a512aaa42266p-39",
        "-0x1.5d2510216a5f2p-42",
        "0x1.5f79451055b9ap-45",
        "-0x1.1c4ecf69f6c91p-48",
        "0x1.692e6784747edp-52",
        "-0x1.5b3009ba6a1b1p-56",
        "0x1.dadc2c4e6025ap-61",
        "-0x1.9bb2d43fd2f1ep-66",
        "0x1.541478f337a7bp-72",
    ),
}
"""log(erfc(t)) in t - ERFC_START."""

ERFC_START = 1.0

LN2_HIGH = {32: "0x1.62e4000000000p-1", 64: "0x1.62e42fefa2000p-1"}
LN2_LOW = {32: "0x1.7f7d1c0000000p-20", 64: "0x1.9ef35793c7673p-41"}
"""The first has so few bits that its multiples by exponents are exact."""

LOG2E = {32: "0x1.7154760000000p+0", 64: "0x1.71547652b82fep+0"}
LOG2E_LOW = {32: "0x1.4ae0c00000000p-26", 64: "0x1.777d0ffda0d24p-56"}
TWO_THIRDS = {32: "0x1.5555560000000p-1", 64: "0x1.5555555555555p-1"}
TWO_THIRDS_LOW = {32: "-0x1.5555560000000p-26", 64: "0x1.5555555555555p-55"}
