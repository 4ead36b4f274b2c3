"""The Livermore kernels (McMahon, 1986) as plain Python functions.

Number 16, a Monte Carlo search, is a web of jumps and has none. Where the benchmark counts down a `while` (number 2),
the number of its turns is a parameter; jumps that only choose (15, 17) are conditions. Scalars and small arrays that
the benchmark keeps in common storage are parameters.
"""

from __future__ import annotations

import numpy as np

import loopfuse


@loopfuse.kernel
def hydro(q, r, t, x, y, z):
    for k in range(len(x)):
        x[k] = q + y[k] * (r * z[k + 10] + t * z[k + 11])


@loopfuse.kernel
def iccg(x, v, n, levels):
    assert n >= 0
    ii = n
    ipntp = 0
    for level in range(levels):
        ipnt = ipntp
        ipntp += ii
        ii //= 2
        i = ipntp - 1
        for k in range(ipnt + 1, ipntp, 2):
            i += 1
            x[i] = x[k] - v[k] * x[k - 1] - v[k + 1] * x[k + 1]


@loopfuse.kernel
def inner_product(x, z):
    q = np.zeros(1, x.dtype)
    for k in range(len(x)):
        q[0] += z[k] * x[k]
    return q


@loopfuse.kernel
def banded(x, y):
    n = len(y)
    assert n >= 7
    for k in range(6, n, 497):
        lw = k - 6
        temp = x[k - 1]
        for j in range(4, n, 5):
            temp -= x[lw] * y[j]
            lw += 1
        x[k - 1] = y[4] * temp


@loopfuse.kernel
def tridiagonal(x, y, z):
    for i in range(1, len(x)):
        x[i] = z[i] * (y[i] - x[i - 1])


@loopfuse.kernel
def linear_recurrence_6(w, b):
    for i in range(1, len(w)):
        w[i] = 0.01
        for k in range(i):
            w[i] += b[k, i] * w[(i - k) - 1]


@loopfuse.kernel
def state(q, r, t, x, y, z, u):
    for k in range(len(x)):
        x[k] = (
            u[k]
            + r * (z[k] + r * y[k])
            + t * (u[k + 3] + r * (u[k + 2] + r * u[k + 1]) + t * (u[k + 6] + q * (u[k + 5] + q * u[k + 4])))
        )


@loopfuse.kernel
def adi_8(u1, u2, u3, a, sig):
    n = u1.shape[1] - 1
    du1 = np.zeros(n + 1, u1.dtype)
    du2 = np.zeros(n + 1, u1.dtype)
    du3 = np.zeros(n + 1, u1.dtype)
    nl1 = 0
    nl2 = 1
    for kx in range(1, 3):
        for ky in range(1, n):
            du1[ky] = u1[nl1, ky + 1, kx] - u1[nl1, ky - 1, kx]
            du2[ky] = u2[nl1, ky + 1, kx] - u2[nl1, ky - 1, kx]
            du3[ky] = u3[nl1, ky + 1, kx] - u3[nl1, ky - 1, kx]
            u1[nl2, ky, kx] = (
                u1[nl1, ky, kx] + a[0, 0] * du1[ky] + a[0, 1] * du2[ky] + a[0, 2] * du3[ky]
                + sig * (u1[nl1, ky, kx + 1] - 2.0 * u1[nl1, ky, kx] + u1[nl1, ky, kx - 1])
            )  # fmt: skip
            u2[nl2, ky, kx] = (
                u2[nl1, ky, kx] + a[1, 0] * du1[ky] + a[1, 1] * du2[ky] + a[1, 2] * du3[ky]
                + sig * (u2[nl1, ky, kx + 1] - 2.0 * u2[nl1, ky, kx] + u2[nl1, ky, kx - 1])
            )  # fmt: skip
            u3[nl2, ky, kx] = (
                u3[nl1, ky, kx] + a[2, 0] * du1[ky] + a[2, 1] * du2[ky] + a[2, 2] * du3[ky]
                + sig * (u3[nl1, ky, kx + 1] - 2.0 * u3[nl1, ky, kx] + u3[nl1, ky, kx - 1])
            )  # fmt: skip


@loopfuse.kernel
def integrate_predictors(px, dm, c0):
    for i in range(len(px)):
        px[i, 0] = (
            dm[6] * px[i, 12] + dm[5] * px[i, 11] + dm[4] * px[i, 10] + dm[3] * px[i, 9] + dm[2] * px[i, 8]
            + dm[1] * px[i, 7] + dm[0] * px[i, 6] + c0 * (px[i, 4] + px[i, 5]) + px[i, 2]
        )  # fmt: skip


@loopfuse.kernel
def difference_predictors(px, cx):
    for i in range(len(px)):
        ar = cx[i, 4]
        br = ar - px[i, 4]
        px[i, 4] = ar
        cr = br - px[i, 5]
        px[i, 5] = br
        ar = cr - px[i, 6]
        px[i, 6] = cr
        br = ar - px[i, 7]
        px[i, 7] = ar
        cr = br - px[i, 8]
        px[i, 8] = br
        ar = cr - px[i, 9]
        px[i, 9] = cr
        br = ar - px[i, 10]
        px[i, 10] = ar
        cr = br - px[i, 11]
        px[i, 11] = br
        px[i, 13] = cr - px[i, 12]
        px[i, 12] = cr


@loopfuse.kernel
def first_sum(x, y):
    assert len(x) >= 1
    x[0] = y[0]
    for k in range(1, len(x)):
        x[k] = x[k - 1] + y[k]


@loopfuse.kernel
def first_difference(x, y):
    for k in range(len(x)):
        x[k] = y[k + 1] - y[k]


@loopfuse.kernel
def particles_2d(p, b, c, y, z, e, f, h):
    for ip in range(len(p)):
        i1 = int(p[ip, 0])
        j1 = int(p[ip, 1])
        i1 &= 63
        j1 &= 63
        p[ip, 2] += b[j1, i1]
        p[ip, 3] += c[j1, i1]
        p[ip, 0] += p[ip, 2]
        p[ip, 1] += p[ip, 3]
        i2 = int(p[ip, 0])
        j2 = int(p[ip, 1])
        i2 = (i2 & 63) - 1
        j2 = (j2 & 63) - 1
        p[ip, 0] += y[i2 + 32]
        p[ip, 1] += z[j2 + 32]
        i2 += e[i2 + 32]
        j2 += f[j2 + 32]
        h[j2, i2] += 1.0


@loopfuse.kernel
def particles_1d(flx, grd, ex, dex, xx, vx, ir, rx, rh):
    n = len(grd)
    ix = np.empty(n, np.int64)
    xi = np.empty_like(grd)
    ex1 = np.empty_like(grd)
    dex1 = np.empty_like(grd)
    for k in range(n):
        vx[k] = 0.0
        xx[k] = 0.0
        ix[k] = int(grd[k])
        xi[k] = ix[k]
        ex1[k] = ex[ix[k] - 1]
        dex1[k] = dex[ix[k] - 1]
    for k in range(n):
        vx[k] = vx[k] + ex1[k] + (xx[k] - xi[k]) * dex1[k]
        xx[k] = xx[k] + vx[k] + flx
        ir[k] = int(xx[k])
        rx[k] = xx[k] - ir[k]
        ir[k] = (ir[k] & 2047) + 1
        xx[k] = rx[k] + ir[k]
    for k in range(n):
        rh[ir[k] - 1] += 1.0 - rx[k]
        rh[ir[k]] += rx[k]


@loopfuse.kernel
def casual(vf, vg, vh, vy, vs):
    ng, nz = vf.shape
    ar = 0.053
    br = 0.073
    for j in range(1, ng):
        for k in range(1, nz):
            if j + 1 >= ng:
                vy[j, k] = 0.0
                continue
            t = ar if vh[j + 1, k] > vh[j, k] else br
            if vf[j, k] < vf[j, k - 1]:
                r = max(vh[j, k - 1], vh[j + 1, k - 1])
                s = vf[j, k - 1]
            else:
                r = max(vh[j, k], vh[j + 1, k])
                s = vf[j, k]
            vy[j, k] = np.sqrt(vg[j, k] * vg[j, k] + r * r) * t / s
            if k + 1 >= nz:
                vs[j, k] = 0.0
                continue
            if vf[j, k] < vf[j - 1, k]:
                r = max(vg[j - 1, k], vg[j - 1, k + 1])
                s = vf[j - 1, k]
                t = br
            else:
                r = max(vg[j, k], vg[j, k + 1])
                s = vf[j, k]
                t = ar
            vs[j, k] = np.sqrt(vh[j, k] * vh[j, k] + r * r) * t / s


@loopfuse.kernel
def implicit_conditional(vlr, vlin, vsp, vstp, vxne, vxnd, ve3):
    scale = 5.0 / 3.0
    xnm = vlr.dtype.type(1.0 / 3.0)
    e6 = vlr.dtype.type(1.03 / 3.07)
    for i in range(len(vlr) - 1, 0, -1):
        e3 = xnm * vlr[i] + vlin[i]
        xnei = vxne[i]
        vxnd[i] = e6
        xnc = scale * e3
        if xnm > xnc or xnei > xnc:
            e6 = xnm * vsp[i] + vstp[i]
            vxne[i] = e6
            xnm = e6
            ve3[i] = e6
        else:
            ve3[i] = e3
            e6 = e3 + e3 - xnm
            vxne[i] = e3 + e3 - xnei
            xnm = e6


@loopfuse.kernel
def hydro_2d(s, t, za, zb, zm, zp, zq, zr, zu, zv, zz):
    kn, jn = zr.shape
    for k in range(1, kn - 1):
        for j in range(1, jn - 1):
            za[k, j] = (
                (zp[k + 1, j - 1] + zq[k + 1, j - 1] - zp[k, j - 1] - zq[k, j - 1])
                * (zr[k, j] + zr[k, j - 1]) / (zm[k, j - 1] + zm[k + 1, j - 1])
            )  # fmt: skip
            zb[k, j] = (
                (zp[k, j - 1] + zq[k, j - 1] - zp[k, j] - zq[k, j])
                * (zr[k, j] + zr[k - 1, j]) / (zm[k, j] + zm[k, j - 1])
            )  # fmt: skip
    for k in range(1, kn - 1):
        for j in range(1, jn - 1):
            zu[k, j] += s * (
                za[k, j] * (zz[k, j] - zz[k, j + 1]) - za[k, j - 1] * (zz[k, j] - zz[k, j - 1])
                - zb[k, j] * (zz[k, j] - zz[k - 1, j]) + zb[k + 1, j] * (zz[k, j] - zz[k + 1, j])
            )  # fmt: skip
            zv[k, j] += s * (
                za[k, j] * (zr[k, j] - zr[k, j + 1]) - za[k, j - 1] * (zr[k, j] - zr[k, j - 1])
                - zb[k, j] * (zr[k, j] - zr[k - 1, j]) + zb[k + 1, j] * (zr[k, j] - zr[k + 1, j])
            )  # fmt: skip
    for k in range(1, kn - 1):
        for j in range(1, jn - 1):
            zr[k, j] = zr[k, j] + t * zu[k, j]
            zz[k, j] = zz[k, j] + t * zv[k, j]


@loopfuse.kernel
def linear_recurrence_19(b5, sa, sb, stb5):
    n = len(b5)
    last = stb5[0]
    for k in range(n):
        b5[k] = sa[k] + last * sb[k]
        last = b5[k] - last
    for i in range(1, n + 1):
        k = n - i
        b5[k] = sa[k] + last * sb[k]
        last = b5[k] - last
    stb5[0] = last


@loopfuse.kernel
def transport(dk, s, t, x, xx, y, z, g, u, v, w, vx):
    for k in range(len(x)):
        di = y[k] - g[k] / (xx[k] + dk)
        dn = z[k] / di if di != 0.0 else 0.2
        dn = min(t, dn)
        dn = max(s, dn)
        x[k] = ((w[k] + v[k] * dn) * xx[k] + u[k]) / (vx[k] + v[k] * dn)
        xx[k + 1] = (x[k] - xx[k]) * dn + xx[k]


@loopfuse.kernel
def matrix_product(px, vy, cx):
    rows, columns = px.shape
    for k in range(len(vy)):
        for i in range(columns):
            for j in range(rows):
                px[j, i] += vy[k, i] * cx[j, k]


@loopfuse.kernel
def planck(u, v, w, x, y):
    n = len(w)
    assert n >= 1
    expmax = 20.0
    u[n - 1] = 0.99 * expmax * v[n - 1]
    for k in range(n):
        y[k] = u[k] / v[k]
        w[k] = x[k] / (np.exp(y[k]) - 1.0)


@loopfuse.kernel
def implicit_hydro_2d(za, zb, zr, zu, zv, zz):
    J, K = za.shape
    for j in range(1, J - 1):
        for k in range(1, K - 1):
            qa = (
                za[j + 1, k] * zr[j, k] + za[j - 1, k] * zb[j, k] + za[j, k + 1] * zu[j, k]
                + za[j, k - 1] * zv[j, k] + zz[j, k]
            )  # fmt: skip
            za[j, k] += 0.175 * (qa - za[j, k])


@loopfuse.kernel
def first_minimum(x):
    n = len(x)
    assert n >= 1
    m = np.zeros(1, np.int64)
    x[n // 2] = -1.0e10
    least = 0
    for k in range(1, n):
        if x[k] < x[least]:
            least = k
    m[0] = least
    return m
