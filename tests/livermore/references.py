"""What the Livermore kernels compute, in whole NumPy arrays or linear systems where there are such.

As `tests/polybench/references.py`: arguments by name, arrays written by name, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

REFERENCES: dict[str, Callable[..., dict[str, np.ndarray]]] = {}
PREPARE: dict[str, Callable[..., dict[str, np.ndarray]]] = {}


def reference(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers `function` as the reference of the kernel of the same name; it is called with the arguments by name."""
    REFERENCES[function.__name__] = function
    return function


def prepare(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers `function`, which gives the arguments that it changes, for the kernel of the same name."""
    PREPARE[function.__name__.removeprefix("for_")] = function
    return function


# ------------------------------------------------------------------------------ fit arguments


def positive(x: np.ndarray, least: float = 0.5) -> np.ndarray:
    """Between `least` and twice as much and one."""
    return (least + (least + 1) * (1 + np.tanh(x)) / 2).astype(x.dtype)


@prepare
def for_linear_recurrence_6(b, **_):
    return {"b": (b / (4 * max(len(b), 1))).astype(b.dtype)}


@prepare
def for_iccg(v, **_):
    return {"v": (v / 8).astype(v.dtype)}


@prepare
def for_banded(y, **_):
    return {"y": (y / 8).astype(y.dtype)}


@prepare
def for_tridiagonal(z, **_):
    return {"z": (np.tanh(z) / 2).astype(z.dtype)}


@prepare
def for_linear_recurrence_19(sb, **_):
    return {"sb": positive(sb, 0.25)}


@prepare
def for_particles_2d(p, e, f, h, **_):
    return {"p": (8 * abs(p)).astype(p.dtype) + 1, "e": abs(e) % 2, "f": abs(f) % 2, "h": 0 * h}


@prepare
def for_particles_1d(grd, ex, ir, **_):
    return {"grd": (1 + abs(grd) * len(ex) % (len(ex) - 1)).astype(grd.dtype), "ir": 0 * ir}


@prepare
def for_casual(vf, vg, vh, **_):
    return {"vf": positive(vf), "vg": positive(vg), "vh": positive(vh)}


@prepare
def for_implicit_conditional(vlr, vsp, **_):
    return {"vlr": (np.tanh(vlr) / 4).astype(vlr.dtype), "vsp": (np.tanh(vsp) / 4).astype(vsp.dtype)}


@prepare
def for_hydro_2d(zm, **_):
    return {"zm": positive(zm)}


@prepare
def for_transport(xx, v, w, vx, z, **_):
    return {"xx": positive(xx), "v": positive(v), "w": positive(w), "vx": positive(vx) + vx.dtype.type(2), "z": positive(z)}


@prepare
def for_planck(u, v, **_):
    return {"u": positive(u), "v": positive(v)}


@prepare
def for_implicit_hydro_2d(zb, zr, zu, zv, **_):
    return {name: (np.tanh(one) / 4).astype(one.dtype) for name, one in (("zb", zb), ("zr", zr), ("zu", zu), ("zv", zv))}


# --------------------------------------------------------------------------------- references


@reference
def hydro(q, r, t, x, y, z):
    n = len(x)
    return {"x": q + y * (r * z[10 : n + 10] + t * z[11:])}


@reference
def iccg(x, v, n, levels):
    """Level by level, each as a matrix that is applied to all values so far."""
    x, start, length = x.copy(), 0, n
    for _ in range(levels):
        stop = start + length
        for m, k in enumerate(range(start + 1, stop, 2)):
            x[stop + m] = np.dot([-v[k], 1.0, -v[k + 1]], x[k - 1 : k + 2])
        start, length = stop, length // 2
    return {"x": x}


@reference
def inner_product(x, z, **_):
    return {"q": np.array([x @ z])}


@reference
def banded(x, y):
    x, n = x.copy(), len(y)
    taps = y[4:n:5]
    for k in range(6, n, 497):
        x[k - 1] = y[4] * (x[k - 1] - x[k - 6 : k - 6 + len(taps)] @ taps)
    return {"x": x}


@reference
def tridiagonal(x, y, z):
    """x[i] + z[i] x[i-1] = z[i] y[i], with x[0] given: a bidiagonal system."""
    if not len(x):
        return {"x": x}
    matrix = np.eye(len(x)) + np.diag(z[1:], -1)
    return {"x": np.linalg.solve(matrix, np.concatenate([x[:1], (z * y)[1:]]))}


@reference
def linear_recurrence_6(w, b):
    w = w.copy()
    for i in range(1, len(w)):
        w[i] = 0.01 + b[:i, i] @ w[:i][::-1]
    return {"w": w}


@reference
def state(q, r, t, x, y, z, u):
    n = len(x)
    u0, u1, u2, u3, u4, u5, u6 = (u[k : k + n] for k in range(7))
    inner = u6 + q * u5 + q * q * u4
    return {"x": u0 + r * z + r * r * y + t * (u3 + r * u2 + r * r * u1 + t * inner)}


@reference
def adi_8(u1, u2, u3, a, sig):
    fields = [u1.copy(), u2.copy(), u3.copy()]
    inside, columns = slice(1, -1), slice(1, 3)
    change = np.stack([u[0, 2:, columns] - u[0, :-2, columns] for u in fields])
    for row, u in zip(a, fields):
        bend = u[0, inside, 2:4] - 2 * u[0, inside, 1:3] + u[0, inside, 0:2]
        u[1, inside, columns] = u[0, inside, columns] + np.tensordot(row, change, 1) + sig * bend
    return dict(zip(("u1", "u2", "u3"), fields))


@reference
def integrate_predictors(px, dm, c0):
    px = px.copy()
    px[:, 0] = px[:, 6:13] @ dm + c0 * px[:, 4:6].sum(1) + px[:, 2]
    return {"px": px}


@reference
def difference_predictors(px, cx):
    """Backward differences: each new one is the one before less the old one of its order."""
    px = px.copy()
    new = cx[:, 4:5] - np.concatenate([np.zeros((len(px), 1)), np.cumsum(px[:, 4:13], 1)], 1)
    px[:, 4:14] = new
    return {"px": px}


@reference
def first_sum(x, y):
    return {"x": np.cumsum(y)}


@reference
def first_difference(x, y):
    return {"x": np.diff(y)}


@reference
def particles_2d(p, b, c, y, z, e, f, h):
    """All particles at once: none sees another, but for the count."""
    place = p[:, :2].astype(np.int64) & 63
    speed = p[:, 2:] + np.stack([b[place[:, 1], place[:, 0]], c[place[:, 1], place[:, 0]]], 1)
    moved = p[:, :2] + speed
    cell = (moved.astype(np.int64) & 63) - 1 + 32
    moved = moved + np.stack([y[cell[:, 0]], z[cell[:, 1]]], 1)
    h = h.copy()
    np.add.at(h, (cell[:, 1] - 32 + f[cell[:, 1]], cell[:, 0] - 32 + e[cell[:, 0]]), 1.0)
    return {"p": np.concatenate([moved, speed], 1), "h": h}


@reference
def particles_1d(flx, grd, ex, dex, xx, vx, ir, rx, rh):
    cell = grd.astype(np.int64)
    speed = ex[cell - 1] - cell * dex[cell - 1]
    place = speed + flx
    whole = np.trunc(place).astype(np.int64)
    rest = place - whole
    whole = whole % 2048 + 1
    rh = rh.copy()
    np.add.at(rh, whole - 1, 1 - rest)
    np.add.at(rh, whole, rest)
    return {"xx": rest + whole, "vx": speed, "ir": whole, "rx": rest, "rh": rh}


@reference
def casual(vf, vg, vh, vy, vs):
    vy, vs = vy.copy(), vs.copy()
    if min(vf.shape) < 2:
        return {"vy": vy, "vs": vs}
    g, z = vf.shape
    vy[g - 1, 1:] = 0
    here, left, below = vf[1:-1, 1:], vf[1:-1, :-1], np.maximum(vh[1:-1], vh[2:])
    t = np.where(vh[2:, 1:] > vh[1:-1, 1:], 0.053, 0.073)
    r = np.where(here < left, below[:, :-1], below[:, 1:])
    vy[1:-1, 1:] = np.hypot(vg[1:-1, 1:], r) * t / np.where(here < left, left, here)
    vs[1:-1, z - 1] = 0
    here, above = vf[1:-1, 1:-1], vf[:-2, 1:-1]
    pair = np.maximum(vg[:, 1:-1], vg[:, 2:])
    r = np.where(here < above, pair[:-2], pair[1:-1])
    t = np.where(here < above, 0.073, 0.053)
    vs[1:-1, 1:-1] = np.hypot(vh[1:-1, 1:-1], r) * t / np.maximum(here, above)
    return {"vy": vy, "vs": vs}


@reference
def implicit_conditional(vlr, vlin, vsp, vstp, vxne, vxnd, ve3):
    """As the benchmark's jumps, one place after the other."""
    vxne, vxnd, ve3 = vxne.copy(), vxnd.copy(), ve3.copy()
    xnm, e6, i = 1 / 3, 1.03 / 3.07, len(vlr) - 1
    while i > 0:
        e3, vxnd[i] = xnm * vlr[i] + vlin[i], e6
        if max(xnm, vxne[i]) > 5 / 3 * e3:
            vxne[i] = ve3[i] = xnm = e6 = xnm * vsp[i] + vstp[i]
        else:
            ve3[i], vxne[i] = e3, 2 * e3 - vxne[i]
            xnm = e6 = 2 * e3 - xnm
        i -= 1
    return {"vxne": vxne, "vxnd": vxnd, "ve3": ve3}


@reference
def hydro_2d(s, t, za, zb, zm, zp, zq, zr, zu, zv, zz):
    za, zb, zr, zu, zv, zz = (one.copy() for one in (za, zb, zr, zu, zv, zz))
    if min(zr.shape) < 3:
        return {"za": za, "zb": zb, "zr": zr, "zu": zu, "zv": zv, "zz": zz}

    def at(x, down=0, right=0):
        rows, columns = x.shape
        return x[1 + down : rows - 1 + down, 1 + right : columns - 1 + right]

    both = zp + zq
    za[1:-1, 1:-1] = (
        (at(both, 1, -1) - at(both, 0, -1)) * (at(zr) + at(zr, 0, -1)) / (at(zm, 0, -1) + at(zm, 1, -1))
    )
    zb[1:-1, 1:-1] = (at(both, 0, -1) - at(both)) * (at(zr) + at(zr, -1)) / (at(zm) + at(zm, 0, -1))
    for speed, x in ((zu, zz), (zv, zr)):
        speed[1:-1, 1:-1] += s * (
            at(za) * (at(x) - at(x, 0, 1)) - at(za, 0, -1) * (at(x) - at(x, 0, -1))
            - at(zb) * (at(x) - at(x, -1)) + at(zb, 1) * (at(x) - at(x, 1))
        )  # fmt: skip
    zr[1:-1, 1:-1] += t * at(zu)
    zz[1:-1, 1:-1] += t * at(zv)
    return {"za": za, "zb": zb, "zr": zr, "zu": zu, "zv": zv, "zz": zz}


@reference
def linear_recurrence_19(b5, sa, sb, stb5):
    """last' = sa + (sb - 1) last, and b5 = sa + sb last: of last forward, then backward."""
    n = len(b5)
    order = [*range(n), *range(n - 1, -1, -1)]
    last = [float(stb5[0])]
    for k in order:
        last.append(sa[k] + (sb[k] - 1) * last[-1])
    before = np.array(last[n:-1][::-1])
    return {"b5": sa + sb * before, "stb5": np.array(last[-1:])}


@reference
def transport(dk, s, t, x, xx, y, z, g, u, v, w, vx):
    x, xx = x.copy(), list(xx[:1])
    for k in range(len(x)):
        di = y[k] - g[k] / (xx[k] + dk)
        dn = np.clip(z[k] / di if di else 0.2, s, t)
        x[k] = (w[k] * xx[k] + v[k] * dn * xx[k] + u[k]) / (vx[k] + v[k] * dn)
        xx.append(xx[k] * (1 - dn) + x[k] * dn)
    return {"x": x, "xx": np.array(xx)}


@reference
def matrix_product(px, vy, cx):
    return {"px": px + cx @ vy}


@reference
def planck(u, v, w, x, y):
    u = np.concatenate([u[:-1], 0.99 * 20 * v[-1:]])
    return {"u": u, "y": u / v, "w": x / np.expm1(u / v)}


@reference
def implicit_hydro_2d(za, zb, zr, zu, zv, zz):
    rows = za.tolist()
    for j in range(1, len(rows) - 1):
        for k in range(1, len(rows[j]) - 1):
            beside = (rows[j + 1][k], rows[j - 1][k], rows[j][k + 1], rows[j][k - 1])
            wanted = np.dot(beside, (zr[j, k], zb[j, k], zu[j, k], zv[j, k])) + zz[j, k]
            rows[j][k] += 0.175 * (wanted - rows[j][k])
    return {"za": np.array(rows).reshape(za.shape)}


@reference
def first_minimum(x, m):
    x = x.copy()
    x[len(x) // 2] = -1e10
    return {"x": x, "m": np.array([x.argmin()])}
