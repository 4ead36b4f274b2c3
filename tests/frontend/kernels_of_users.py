"""Kernels as people write them for NumPy and numba: filters, histograms, products, sums, grids,
recurrences, bits. `CASES` are compiled; `tests/frontend/test_python_kernels.py` says what is refused."""

# They are as people write them.
# ruff: noqa: RUF059, SIM113
from __future__ import annotations

import math

import numpy as np

R = np.random.default_rng(0)
GAIN = 1.5
K = 3
W3 = ((1, 2, 1), (2, 4, 2), (1, 2, 1))
SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], np.int32)
EPS = np.float32(1e-6)
NEIGHBOURS = ((-1, 0), (1, 0), (0, -1), (0, 1))
STEPS = np.array(NEIGHBOURS)


def f32(*shape):
    return R.standard_normal(shape).astype(np.float32)


def f64(*shape):
    return R.standard_normal(shape)


def u8(*shape):
    return R.integers(0, 256, shape).astype(np.uint8)


def ints(dtype, *shape, lo=0, hi=100):
    return R.integers(lo, hi, shape).astype(dtype)


def grey(img, out):
    h, w, c = img.shape
    for y in range(h):
        for x in range(w):
            out[y, x] = np.uint8(0.299 * img[y, x, 0] + 0.587 * img[y, x, 1] + 0.114 * img[y, x, 2])


def gaussian(img, out):
    h, w = img.shape
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            acc = 0
            for dy in range(3):
                for dx in range(3):
                    acc += W3[dy][dx] * img[y + dy - 1, x + dx - 1]
            out[y, x] = acc // 16


def sobel(img, out):
    h, w = img.shape
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            gx = 0
            gy = 0
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    gx += SOBEL[dy + 1, dx + 1] * img[y + dy, x + dx]
                    gy += SOBEL[dx + 1, dy + 1] * img[y + dy, x + dx]
            out[y, x] = math.sqrt(gx * gx + gy * gy)


def threshold(img, out, t):
    for y in range(img.shape[0]):
        for x in range(img.shape[1]):
            out[y, x] = 255 if img[y, x] > t else 0


def threshold2(img, out, t):
    for y in range(img.shape[0]):
        for x in range(img.shape[1]):
            if img[y, x] > t:
                out[y, x] = 255
            else:
                out[y, x] = 0


def median3(x, out):
    n = len(x)
    for i in range(1, n - 1):
        a, b, c = x[i - 1], x[i], x[i + 1]
        out[i] = max(min(a, b), min(max(a, b), c))


def gamma(img, out, g):
    for y in range(img.shape[0]):
        for x in range(img.shape[1]):
            v = img[y, x] / 255.0
            out[y, x] = np.uint8(min(max(v ** g, 0.0), 1.0) * 255.0 + 0.5)


def hist(img, h):
    for y in range(img.shape[0]):
        for x in range(img.shape[1]):
            h[img[y, x]] += 1


def hist_bins(x, h, lo, hi):
    n = len(h)
    width = (hi - lo) / n
    for i in range(len(x)):
        b = int((x[i] - lo) / width)
        if 0 <= b < n:
            h[b] += 1


def equalize(h, lut):
    cdf = 0
    total = 0
    for i in range(256):
        total += h[i]
    for i in range(256):
        cdf += h[i]
        lut[i] = np.uint8(cdf * 255 // total)


def matmul(a, b):
    n, k = a.shape
    k2, m = b.shape
    c = np.zeros((n, m), np.float32)
    for i in range(n):
        for j in range(m):
            for p in range(k):
                c[i, j] += a[i, p] * b[p, j]
    return c


def matmul2(a, b):
    n, k = a.shape
    m = b.shape[1]
    c = np.empty((n, m), a.dtype)
    for i in range(n):
        for j in range(m):
            s = 0.0
            for p in range(k):
                s += a[i, p] * b[p, j]
            c[i, j] = s
    return c


def softmax(x):
    y = np.empty_like(x)
    for r in range(x.shape[0]):
        m = -np.inf
        for c in range(x.shape[1]):
            m = max(m, x[r, c])
        s = 0.0
        for c in range(x.shape[1]):
            y[r, c] = x[r, c] - m
            s += y[r, c]
        for c in range(x.shape[1]):
            y[r, c] = y[r, c] / s
    return y


def cumsum(x):
    y = np.empty_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = y[i - 1] + x[i]
    return y


def cumsum2(x):
    y = np.empty_like(x)
    s = 0
    for i, v in enumerate(x):
        s += v
        y[i] = s
    return y


def cumprod(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] *= y[i - 1]
    return y


def diff(x):
    n = x.shape[0]
    y = np.empty(n - 1, dtype=x.dtype)
    for i in range(n - 1):
        y[i] = x[i + 1] - x[i]
    return y


def nbody(pos, vel, mass, dt):
    n = pos.shape[0]
    for i in range(n):
        ax = 0.0
        ay = 0.0
        for j in range(n):
            if i != j:
                dx = pos[j, 0] - pos[i, 0]
                dy = pos[j, 1] - pos[i, 1]
                d2 = dx * dx + dy * dy + 0.01
                inv = 1.0 / (d2 * math.sqrt(d2))
                ax += mass[j] * dx * inv
                ay += mass[j] * dy * inv
        vel[i, 0] += ax * dt
        vel[i, 1] += ay * dt
    for i in range(n):
        for k in range(2):
            pos[i, k] += vel[i, k] * dt


def mandel(out, n):
    h, w = out.shape
    for py in range(h):
        for px in range(w):
            cx = -2.0 + 3.0 * px / w
            cy = -1.0 + 2.0 * py / h
            zx = 0.0
            zy = 0.0
            count = 0
            for it in range(n):
                if zx * zx + zy * zy < 4.0:
                    t = zx * zx - zy * zy + cx
                    zy = 2.0 * zx * zy + cy
                    zx = t
                    count += 1
            out[py, px] = count


def life_range(a, b):
    h, w = a.shape
    for y in range(h):
        for x in range(w):
            n = -a[y, x]
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    n += a[(y + dy) % h, (x + dx) % w]
            if a[y, x] == 1 and (n < 2 or n > 3):
                b[y, x] = 0
            elif a[y, x] == 0 and n == 3:
                b[y, x] = 1
            else:
                b[y, x] = a[y, x]


def grades(x, y):
    for i in range(len(x)):
        v = x[i]
        if v < 20:
            y[i] = 0
        elif v < 40:
            y[i] = 1
        elif v < 60 and v != 50:
            y[i] = 2
        elif not v < 80:
            y[i] = 3
        else:
            y[i] = 4


def make_closure(k):
    def scaled(x, y):
        for i in range(len(x)):
            y[i] = k * x[i] + GAIN
    return scaled


def consts(x, y):
    for i in range(len(x)):
        y[i] = x[i] / (abs(x[i]) + EPS) * GAIN + math.pi


def conv(x, y):
    for i in range(len(x)):
        y[i] = np.int32(x[i]) + np.int16(7)


def conv2(x, y):
    for i in range(len(x)):
        y[i] = int(x[i]) // 3


def conv3(x, y):
    for i in range(len(x)):
        y[i] = float(x[i]) * 0.1


def negdiv(k, j, q, r):
    for i in range(len(k)):
        q[i] = k[i] // j[i]
        r[i] = k[i] % j[i]


def negdiv2(k, q, r):
    for i in range(len(k)):
        q[i] = k[i] // -3
        r[i] = k[i] % -3


def bits(k, o):
    for i in range(len(k)):
        v = k[i]
        v = v - ((v >> 1) & 0x55555555)
        v = (v & 0x33333333) + ((v >> 2) & 0x33333333)
        v = (v + (v >> 4)) & 0x0F0F0F0F
        o[i] = (v * 0x01010101) >> 24


def xorshift(s, o):
    for i in range(len(s)):
        x = s[i]
        x ^= x << 13
        x ^= x >> 7
        x ^= x << 17
        o[i] = x


def lcg(o, seed):
    s = seed
    for i in range(len(o)):
        s = (1103515245 * s + 12345) % 2147483648
        o[i] = s


def mask(x, m, y):
    for i in range(len(x)):
        if m[i]:
            y[i] = x[i]


def mask2(x, m, y):
    for i in range(len(x)):
        m[i] = x[i] > 0 and x[i] < 1
    for i in range(len(x)):
        y[i] = x[i] * m[i]


def countif(x):
    c = 0
    for i in range(len(x)):
        if x[i] > 0:
            c += 1
    return c


def argmax(x):
    best = 0
    for i in range(1, len(x)):
        if x[i] > x[best]:
            best = i
    return best


def argmax2(x):
    best = x[0]
    at = 0
    for i in range(1, len(x)):
        if x[i] > best:
            best = x[i]
            at = i
    return at, best


def minmax(x):
    lo = x[0]
    hi = x[0]
    for v in x:
        lo = min(lo, v)
        hi = max(hi, v)
    return lo, hi


def dot(a, b):
    s = 0.0
    for i in range(len(a)):
        s += a[i] * b[i]
    return s


def meanvar(x):
    m = 0.0
    q = 0.0
    n = x.size
    for i in range(n):
        m += x[i]
    m /= n
    for i in range(n):
        q += (x[i] - m) ** 2
    return m, math.sqrt(q / n)


def heat(u, steps, a):
    n = len(u)
    v = np.empty_like(u)
    for t in range(steps):
        for i in range(1, n - 1):
            v[i] = u[i] + a * (u[i - 1] - 2 * u[i] + u[i + 1])
        for i in range(1, n - 1):
            u[i] = v[i]


def heat_swap(u, steps, a):
    n = len(u)
    v = u.copy()
    for t in range(steps):
        for i in range(1, n - 1):
            v[i] = u[i] + a * (u[i - 1] - 2 * u[i] + u[i + 1])
        u, v = v, u
    return u


def thomas(a, b, c, d, x):
    n = len(d)
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] = b[i] - w * c[i - 1]
        d[i] = d[i] - w * d[i - 1]
    x[n - 1] = d[n - 1] / b[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = (d[i] - c[i] * x[i + 1]) / b[i]


def bubble(x):
    n = len(x)
    for i in range(n):
        for j in range(n - 1):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]


def transpose(a):
    n, m = a.shape
    t = np.empty((m, n), a.dtype)
    for i in range(n):
        for j in range(m):
            t[j, i] = a[i, j]
    return t


def transpose_in(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j], a[j, i] = a[j, i], a[i, j]


def pad(x, y):
    n = len(x)
    for i in range(len(y)):
        j = min(max(i - 2, 0), n - 1)
        y[i] = x[j]


def roll(x, y, k):
    n = len(x)
    for i in range(n):
        y[(i + k) % n] = x[i]


def rev(x):
    n = len(x)
    for i in range(n // 2):
        x[i], x[n - 1 - i] = x[n - 1 - i], x[i]


def prefix2d(a, s):
    h, w = a.shape
    for y in range(h):
        for x in range(w):
            v = a[y, x]
            if y > 0:
                v += s[y - 1, x]
            if x > 0:
                v += s[y, x - 1]
            if y > 0 and x > 0:
                v -= s[y - 1, x - 1]
            s[y, x] = v


def clipk(x, y):
    for i in range(len(x)):
        y[i] = np.clip(x[i], -1, 1)


def lerp_table(x, t, y):
    n = len(t)
    for i in range(len(x)):
        p = x[i] * (n - 1)
        j = int(p)
        f = p - j
        if j >= n - 1:
            y[i] = t[n - 1]
        else:
            y[i] = t[j] * (1 - f) + t[j + 1] * f


def globalfn(v, lo=0.0, hi=1.0):
    if v < lo:
        return lo
    if v > hi:
        return hi
    return v


def ternary_chain(x, y):
    for i in range(len(x)):
        y[i] = -1 if x[i] < 0 else (1 if x[i] > 0 else 0)


def twos(x, y):
    n = len(x)
    i = 0
    for k in range(n):
        y[i] = x[k]
        i += 1


def asserts(x, y):
    assert x.shape == y.shape, "shapes"
    for i in range(len(x)):
        y[i] = x[i]


def kinds(x, k, y):
    for i in range(len(x)):
        y[i] = x[i] * k[i] + k[i] / 2 + k[i] % 3 * 0.5


def rnd(x, y):
    for i in range(len(x)):
        y[i] = round(x[i]) + math.floor(x[i]) + math.ceil(x[i]) + np.round(x[i])


def npfull(n, y):
    t = np.full(4, 2.5)
    for i in range(4):
        y[i] = t[i] * n


def zeros2(x):
    h, w = x.shape
    out = np.zeros((h // 2, w // 2), dtype=np.float32)
    for i in range(h // 2):
        for j in range(w // 2):
            out[i, j] = (x[2 * i, 2 * j] + x[2 * i + 1, 2 * j] + x[2 * i, 2 * j + 1] + x[2 * i + 1, 2 * j + 1]) / 4
    return out


def maxpool(x):
    h, w = x.shape
    out = np.full((h // 2, w // 2), -np.inf, dtype=x.dtype)
    for i in range(h // 2):
        for j in range(w // 2):
            for a in range(2):
                for b in range(2):
                    out[i, j] = max(out[i, j], x[2 * i + a, 2 * j + b])
    return out


def bilinear(src, dst):
    h, w = src.shape
    H, W = dst.shape
    for y in range(H):
        for x in range(W):
            fy = y * (h - 1) / (H - 1)
            fx = x * (w - 1) / (W - 1)
            iy = int(fy)
            ix = int(fx)
            jy = min(iy + 1, h - 1)
            jx = min(ix + 1, w - 1)
            dst[y, x] = src[iy, ix] * (1 - (fy - iy)) + src[jy, jx] * (fy - iy)


def csr(ptr, idx, val, x, y):
    for i in range(len(y)):
        s = 0.0
        for j in range(ptr[i], ptr[i + 1]):
            s += val[j] * x[idx[j]]
        y[i] = s


def floyd(d):
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])


def chol(a):
    n = a.shape[0]
    for j in range(n):
        for k in range(j):
            for i in range(j, n):
                a[i, j] -= a[i, k] * a[j, k]
        a[j, j] = math.sqrt(a[j, j])
        for i in range(j + 1, n):
            a[i, j] /= a[j, j]


def lcs(a, b, t):
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            if a[i - 1] == b[j - 1]:
                t[i, j] = t[i - 1, j - 1] + 1
            else:
                t[i, j] = max(t[i - 1, j], t[i, j - 1])


def fib(y):
    a, b = 0, 1
    for i in range(len(y)):
        y[i] = a
        a, b = b, a + b


def ewma(x, y, alpha):
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = alpha * x[i] + (1 - alpha) * y[i - 1]


def movavg(x, y):
    n = len(x)
    for i in range(n - 4):
        s = 0.0
        for j in range(5):
            s += x[i + j]
        y[i] = s / 5


def isnan(x, y):
    for i in range(len(x)):
        y[i] = 0.0 if math.isnan(x[i]) or np.isinf(x[i]) else x[i]


def sign(x, y):
    for i in range(len(x)):
        y[i] = np.sign(x[i]) * np.abs(x[i]) ** 2


def boolsum(m):
    c = 0
    for i in range(len(m)):
        c += m[i]
    return c


def anyall(m):
    a = False
    b = True
    for i in range(len(m)):
        a = a or m[i]
        b = b and m[i]
    return a, b


def dist(a, b, d):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                t = a[i, k] - b[j, k]
                s += t * t
            d[i, j] = np.sqrt(s)


def life(a, b):
    h, w = a.shape
    for y in range(h):
        for x in range(w):
            n = 0
            for dy in (-1, 0, 1):
                for dx in [-1, 0, 1]:
                    if dy != 0 or dx != 0:
                        n += a[(y + dy) % h, (x + dx) % w]
            b[y, x] = 1 if n == 3 or (n == 2 and a[y, x]) else 0


def neigh(a, b):
    h, w = a.shape
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            s = -4 * a[y, x]
            for dy, dx in NEIGHBOURS:
                s += a[y + dy, x + dx]
            b[y, x] = s


def neigh2(a, b):
    h, w = a.shape
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            s = -4 * a[y, x]
            for dy, dx in STEPS:
                s += a[y + dy, x + dx]
            b[y, x] = s


def neigh3(a, b):
    h, w = a.shape
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            s = -4 * a[y, x]
            for (dy, dx), wt in zip(((-1, 0), (1, 0), (0, -1), (0, 1)), (0.5, 1.0, 2.0, -0.25)):
                s += wt * a[y + dy, x + dx]
            b[y, x] = s


def neigh4(a, b):
    h, w = a.shape
    off = [(-1, 0), (1, 0)]
    for y in range(1, h - 1):
        for x in range(1, w - 1):
            for k, (dy, dx) in enumerate(off):
                b[y, x] += k * a[y + dy, x + dx]


def horner(x, y):
    c = (1.0, -0.5, 0.25, K)
    for i in range(len(x)):
        r = 0.0
        for k in range(len(c)):
            r = r * x[i] + c[k]
        y[i] = r


def horner2(x, y):
    coef = [1.0, -0.5, math.pi, 2.0]
    for i in range(len(x)):
        r = 0.0
        for c in coef:
            r = r * x[i] + c
        y[i] = r


def tab2(x, y):
    w = ((1, 2, 1), (2, 4, 2), (1, 2, 1))
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            s = 0
            for a in range(3):
                for b in range(3):
                    s += w[a][b] * x[i + a - 1, j + b - 1]
            y[i, j] = s / 16


def twice(x, y):
    c = (1.0, 2.0)
    for i in range(len(x)):
        y[i] = c[i % 2] * x[i]


def divmod_(k, q, r):
    for i in range(len(k)):
        q[i], r[i] = divmod(k[i], 7)


def divmod2(k, q, r):
    for i in range(len(k)):
        a, b = divmod(i, 7)
        q[i] = a + k[i]
        r[i] = b


def astype(x, y):
    for i in range(len(x)):
        y[i] = x[i].astype(np.int32) * 2


def astype2(x, y):
    for i in range(len(x)):
        y[i] = x[i].astype(y.dtype) + x[i].item()


def cont(x, y):
    for i in range(len(x)):
        if x[i] < 0:
            continue
        t = x[i] * 2
        if t > 1:
            y[i] = 7
            continue
        elif t > 0.5:
            y[i] = t
        else:
            y[i] = -t
            continue
        y[i] += 1


def cont2(x, y):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if i == j:
                continue
            y[i, j] = x[i, j]
        if i > 2:
            y[i, 0] = 0
            continue


def found(x, v):
    f = False
    for i in range(len(x)):
        if x[i] == v:
            f = True
    return f


def lst(x, y):
    for i in [0, 2, 1]:
        y[i] = x[i] * i


def rows_of_a_product(q, y):
    H, T = q.shape
    for p in range(H * T):
        h = p // T
        i = p % T
        row = np.empty(T, np.float32)
        for j in range(T):
            row[j] = q[h, j]
        s = 0.0
        for j in range(T):
            s += row[j] * row[i]
        y[h, i] = s


def groups(x, out, d):
    for g in range(len(x) // d):
        for c in range(g * d, (g + 1) * d):
            out[c] = 2 * x[c]


def relaxed(x, n):
    a = x.copy()
    b = np.zeros_like(x)
    for _ in range(n):
        for i in range(1, len(x) - 1):
            b[i] = a[i - 1] + a[i + 1]
        a, b = b, a
    return a


def piecewise(v):
    if v > 1:
        return v
    elif v < 0:
        return -v
    v += 2
    a, b = v, 3 * v
    a, b = b, a
    return a - b


def through_a_helper(x):
    for i in range(len(x)):
        x[i] = piecewise(x[i])


square = lambda v: v * v  # noqa: E731


def through_a_lambda(x):
    for i in range(len(x)):
        x[i] = square(x[i])


def greatest(x):
    m = float("-inf")
    for i in range(len(x)):
        m = max(m, x[i])
    return m


closure = make_closure(3)
rounded_closure = make_closure(np.float32(0.1))
MATRIX = f64(6, 6)
spd = MATRIX @ MATRIX.T + 9 * np.eye(6)

CASES = [
    (grey, u8(6, 7, 3), u8(6, 7)),
    (gaussian, u8(6, 7), u8(6, 7)),
    (gaussian, ints(np.int32, 6, 7), ints(np.int32, 6, 7)),
    (sobel, u8(6, 7), f32(6, 7)),
    (sobel, ints(np.int16, 6, 7), f32(6, 7)),
    (threshold, u8(6, 7), u8(6, 7), 100),
    (threshold2, u8(6, 7), u8(6, 7), 100),
    (median3, f32(9), f32(9)),
    (median3, u8(9), u8(9)),
    (gamma, u8(6, 7), u8(6, 7), 0.5),
    (hist, u8(6, 7), np.zeros(256, np.int64)),
    (hist, u8(6, 7), np.zeros(256, np.int32)),
    (hist_bins, f32(50), np.zeros(10, np.int64), -1.0, 1.0),
    (equalize, ints(np.int64, 256), u8(256)),
    (equalize, ints(np.int32, 256), u8(256)),
    (matmul, f32(4, 5), f32(5, 6)),
    (matmul2, f32(4, 5), f32(5, 6)),
    (matmul2, f64(4, 5), f64(5, 6)),
    (softmax, f32(4, 5)),
    (softmax, f64(4, 5)),
    (cumsum, f32(9)),
    (cumsum2, f32(9)),
    (cumsum2, ints(np.int32, 9)),
    (cumsum2, u8(9)),
    (cumprod, f32(9)),
    (diff, f32(9)),
    (diff, u8(9)),
    (nbody, f64(5, 2), f64(5, 2), f64(5), 0.01),
    (nbody, f32(5, 2), f32(5, 2), f32(5), 0.01),
    (mandel, np.zeros((6, 7), np.int32), 20),
    (life_range, ints(np.int32, 6, 7, hi=2), ints(np.int32, 6, 7)),
    (life_range, ints(np.uint8, 6, 7, hi=2), ints(np.uint8, 6, 7)),
    (grades, f32(9) * 50, ints(np.int32, 9)),
    (grades, ints(np.int32, 9), ints(np.int32, 9)),
    (closure, f32(9), f32(9)),
    (rounded_closure, f32(9), f32(9)),
    (rounded_closure, f64(9), f64(9)),
    (consts, f32(9), f32(9)),
    (consts, f64(9), f64(9)),
    (conv, f32(9) * 9, ints(np.int32, 9)),
    (conv2, f32(9) * 9, ints(np.int64, 9)),
    (conv3, f32(9), f64(9)),
    (negdiv, f32(9), f32(9), f32(9), f32(9)),
    (negdiv2, f64(9), f64(9), f64(9)),
    (bits, ints(np.uint32, 9, hi=2**32), ints(np.uint32, 9)),
    (bits, ints(np.uint64, 9, hi=2**32), ints(np.uint64, 9)),
    (bits, ints(np.int64, 9, hi=2**31), ints(np.int64, 9)),
    (xorshift, ints(np.uint64, 9, hi=2**62), ints(np.uint64, 9)),
    (lcg, ints(np.int64, 9), 42),
    (lcg, ints(np.uint32, 9), 42),
    (mask, f32(9), ints(np.bool_, 9, hi=2), f32(9)),
    (mask2, f32(9), ints(np.bool_, 9, hi=2), f32(9)),
    (countif, f32(9)),
    (argmax, f32(9)),
    (argmax2, f32(9)),
    (minmax, f32(9)),
    (minmax, u8(9)),
    (dot, f32(9), f32(9)),
    (dot, f64(9), f64(9)),
    (meanvar, f64(9)),
    (meanvar, f32(9)),
    (heat, f64(9), 5, 0.1),
    (heat, f32(9), 5, 0.1),
    (heat_swap, f64(9), 5, 0.1),
    (thomas, f64(9), f64(9) + 5, f64(9), f64(9), f64(9)),
    (bubble, f32(9)),
    (transpose, f32(4, 5)),
    (transpose_in, f32(5, 5)),
    (pad, f32(9), f32(13)),
    (roll, f32(9), f32(9), 3),
    (roll, f32(9), f32(9), -3),
    (rev, f32(9)),
    (prefix2d, f64(5, 6), f64(5, 6)),
    (clipk, f32(9), f32(9)),
    (clipk, ints(np.int32, 9, lo=-5, hi=5), ints(np.int32, 9)),
    (lerp_table, np.abs(f32(9)) % 1, f32(6), f32(9)),
    (lerp_table, np.abs(f64(9)) % 1, f64(6), f64(9)),
    (ternary_chain, f32(9), ints(np.int32, 9)),
    (twos, f32(9), f32(9)),
    (asserts, f32(9), f32(9)),
    (kinds, f32(9), ints(np.int32, 9), f64(9)),
    (kinds, f32(9), u8(9), f32(9)),
    (rnd, f32(9) * 9, f64(9)),
    (rnd, f64(9) * 9, f64(9)),
    (npfull, 3, f64(4)),
    (zeros2, f32(6, 8)),
    (maxpool, f32(6, 8)),
    (maxpool, f64(6, 8)),
    (bilinear, f32(5, 6), f32(9, 8)),
    (bilinear, f64(5, 6), f64(9, 8)),
    (csr, np.array([0, 2, 3, 5], np.int32), ints(np.int32, 5, hi=4), f32(5), f32(4), f32(3)),
    (floyd, f64(6, 6)),
    (floyd, f32(6, 6)),
    (chol, spd),
    (lcs, u8(6) % 3, u8(7) % 3, np.zeros((7, 8), np.int32)),
    (fib, ints(np.int64, 20)),
    (fib, ints(np.int32, 20)),
    (ewma, f32(9), f32(9), 0.3),
    (ewma, f64(9), f64(9), 0.3),
    (movavg, f32(9), f32(9)),
    (isnan, f32(9), f32(9)),
    (sign, f32(9), f32(9)),
    (boolsum, ints(np.bool_, 9, hi=2)),
    (anyall, ints(np.bool_, 9, hi=2)),
    (dist, f32(3, 4), f32(5, 4), f32(3, 5)),
    (dist, f64(3, 4), f64(5, 4), f64(3, 5)),
    (negdiv, ints(np.int32, 9, lo=-50), ints(np.int32, 9, lo=-5, hi=-1), ints(np.int32, 9), ints(np.int32, 9)),
    (negdiv, ints(np.int8, 9, lo=-50), ints(np.int8, 9, lo=-5, hi=-1), ints(np.int8, 9), ints(np.int8, 9)),
    (negdiv, ints(np.int64, 9, lo=-50), ints(np.int64, 9, lo=-5, hi=-1), ints(np.int64, 9), ints(np.int64, 9)),
    (negdiv, ints(np.int32, 9, lo=-50), ints(np.int32, 9, lo=1, hi=5), ints(np.int32, 9), ints(np.int32, 9)),
    (negdiv, ints(np.int8, 9, lo=-50), ints(np.int8, 9, lo=1, hi=5), ints(np.int8, 9), ints(np.int8, 9)),
    (negdiv, ints(np.int64, 9, lo=-50), ints(np.int64, 9, lo=1, hi=5), ints(np.int64, 9), ints(np.int64, 9)),
    (negdiv2, ints(np.int32, 9, lo=-50), ints(np.int32, 9), ints(np.int32, 9)),
    (negdiv2, ints(np.int8, 9, lo=-50), ints(np.int8, 9), ints(np.int8, 9)),
    (negdiv2, ints(np.int64, 9, lo=-50), ints(np.int64, 9), ints(np.int64, 9)),
    (neigh, f32(6, 7), f32(6, 7)),
    (neigh2, f32(6, 7), f32(6, 7)),
    (neigh3, f32(6, 7), f32(6, 7)),
    (neigh3, f64(6, 7), f64(6, 7)),
    (neigh4, f32(6, 7), f32(6, 7)),
    (horner, f32(7), f32(7)),
    (horner, f64(7), f64(7)),
    (horner2, f64(7), f64(7)),
    (horner2, f32(7), f32(7)),
    (tab2, f32(6, 7), f32(6, 7)),
    (tab2, ints(np.int32, 6, 7), f32(6, 7)),
    (twice, f32(7), f32(7)),
    (divmod2, ints(np.int32, 9), ints(np.int32, 9), ints(np.int32, 9)),
    (astype2, f32(9) * 9, f64(9)),
    (astype2, ints(np.int16, 9), f64(9)),
    (cont2, f32(5, 6), f32(5, 6)),
    (anyall, ints(np.bool_, 9, hi=2)),
    (found, f32(9), 3.0),
    (lst, f32(9), f32(9)),
    (rows_of_a_product, f32(3, 4), f32(3, 4)),
    (groups, f64(12), f64(12), 4),
    (relaxed, f64(9), 3), (relaxed, f64(9), 4),
    (through_a_helper, f64(9)), (through_a_helper, f32(9)),
    (through_a_lambda, f32(9)),
    (greatest, f64(9)),
]  # fmt: skip
