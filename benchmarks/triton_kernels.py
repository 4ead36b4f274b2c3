"""The cases in Triton, as its tutorials would write them: a program a tile, neighbours loaded from
memory (the cache holds them), everything between in registers."""

# Parameters are Triton's values, which have no Python types.
# pyright: basic, reportMissingImports=false

import triton
import triton.language as tl


@triton.jit
def chain(x, y, scale, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    v = tl.maximum(value * scale, 0.0) + 1.0
    v = 2.0 * tl.sigmoid(2.0 * (v * 0.5)) - 1.0 - 0.25  # tanh
    v = v * v + value
    tl.store(y + i, tl.sigmoid(v) * value, i < n)


@triton.jit
def scale_relu_add(x, residual, y, scale, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.maximum(tl.load(x + i, i < n) * scale, 0.0) + tl.load(residual + i, i < n)
    tl.store(y + i, v, i < n)


@triton.jit
def bias_gelu(x, bias, residual, y, columns, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < n).to(tl.float32) + tl.load(bias + i % columns, i < n).to(tl.float32)
    v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    v += tl.load(residual + i, i < n).to(tl.float32)
    tl.store(y + i, v.to(y.dtype.element_ty), i < n)


@triton.jit
def batchnorm(
    x, skip, mean, variance, gamma, beta, y, epsilon, channels, area, BLOCK: tl.constexpr
):
    plane = tl.program_id(1)
    c = plane % channels
    factor = tl.load(gamma + c) / tl.sqrt(tl.load(variance + c) + epsilon)
    offset = tl.load(beta + c) - tl.load(mean + c) * factor
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = plane * area + i
    v = tl.maximum(tl.load(x + at, i < area) * factor + offset, 0.0)
    tl.store(y + at, v + tl.load(skip + at, i < area), i < area)


@triton.jit
def softmax(x, y, columns, BLOCK: tl.constexpr):
    j = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + j
    v = tl.load(x + at, j < columns, -float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + at, e / tl.sum(e, 0), j < columns)


# ------------------------------------------------------------------------------------ planes


@triton.jit
def clamped(x, r, c, height, width):
    r = tl.minimum(tl.maximum(r, 0), height - 1)
    c = tl.minimum(tl.maximum(c, 0), width - 1)
    return tl.load(x + r * width + c).to(tl.float32)


@triton.jit
def blur(x, y, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for dy in tl.static_range(-1, 2):
        for dx in tl.static_range(-1, 2):
            total += clamped(x, r + dy, c + dx, height, width)
    total = total * 0.1111111111111111
    tl.store(y + r * width + c, total.to(y.dtype.element_ty), (r < height) & (c < width))


@triton.jit
def binomial_row(x, r, c, height, width):
    ends = clamped(x, r, c - 2, height, width) + clamped(x, r, c + 2, height, width)
    near = clamped(x, r, c - 1, height, width) + clamped(x, r, c + 1, height, width)
    return 0.0625 * ends + 0.25 * near + 0.375 * clamped(x, r, c, height, width)


@triton.jit
def unsharp(x, y, amount, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    # A row beyond the edge repeats the edge's row, so clamping each load is the same.
    soft = 0.0625 * (
        binomial_row(x, r - 2, c, height, width) + binomial_row(x, r + 2, c, height, width)
    )
    soft += 0.25 * (
        binomial_row(x, r - 1, c, height, width) + binomial_row(x, r + 1, c, height, width)
    )
    soft += 0.375 * binomial_row(x, r, c, height, width)
    v = soft + (1.0 + amount) * (clamped(x, r, c, height, width) - soft)
    tl.store(y + r * width + c, v.to(y.dtype.element_ty), (r < height) & (c < width))


@triton.jit
def harris(g, y, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None] + 2
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :] + 2
    ok = (r < height - 2) & (c < width - 2)
    sxx = tl.zeros((ROWS, COLUMNS), tl.float32)
    syy = tl.zeros((ROWS, COLUMNS), tl.float32)
    sxy = tl.zeros((ROWS, COLUMNS), tl.float32)
    for dy in tl.static_range(-1, 2):
        for dx in tl.static_range(-1, 2):
            p = g + (r + dy) * width + c + dx
            nw, n, ne = (
                tl.load(p - width - 1, ok),
                tl.load(p - width, ok),
                tl.load(p - width + 1, ok),
            )
            w, e = tl.load(p - 1, ok), tl.load(p + 1, ok)
            sw, s, se = (
                tl.load(p + width - 1, ok),
                tl.load(p + width, ok),
                tl.load(p + width + 1, ok),
            )
            ix = (ne - nw + 2.0 * (e - w) + se - sw) / 12.0
            iy = (sw - nw + 2.0 * (s - n) + se - ne) / 12.0
            sxx += ix * ix
            syy += iy * iy
            sxy += ix * iy
    trace = sxx + syy
    tl.store(y + r * width + c, sxx * syy - sxy * sxy - 0.04 * trace * trace, ok)


@triton.jit
def sweep(a, b, height, width, KIND: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One sweep: KIND 0 is five points, 1 the box of nine, 2 the star of radius two."""
    edge: tl.constexpr = 2 if KIND == 2 else 1
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None] + edge
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :] + edge
    ok = (r < height - edge) & (c < width - edge)
    p = a + r * width + c
    cross = (
        tl.load(p - 1, ok) + tl.load(p + 1, ok) + tl.load(p - width, ok) + tl.load(p + width, ok)
    )
    here = tl.load(p, ok)
    if KIND == 0:
        v = 0.2 * (here + cross)
    elif KIND == 1:
        above = tl.load(p - width - 1, ok) + tl.load(p - width + 1, ok)
        below = tl.load(p + width - 1, ok) + tl.load(p + width + 1, ok)
        v = 0.1111111111111111 * (here + cross + above + below)
    else:
        far = tl.load(p - 2, ok) + tl.load(p + 2, ok)
        far += tl.load(p - 2 * width, ok) + tl.load(p + 2 * width, ok)
        v = 0.5 * here + 0.1 * cross + 0.025 * far
    tl.store(b + r * width + c, v, ok)


@triton.jit
def fdtd_electric(ex, ey, hz, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    ok, at = (r < height) & (c < width), r * width + c
    h = tl.load(hz + at, ok)
    v = tl.load(ey + at, ok) - 0.5 * (h - tl.load(hz + at - width, ok & (r > 0)))
    tl.store(ey + at, v, ok & (r > 0))
    v = tl.load(ex + at, ok) - 0.5 * (h - tl.load(hz + at - 1, ok & (c > 0)))
    tl.store(ex + at, v, ok & (c > 0))


@triton.jit
def fdtd_magnetic(ex, ey, hz, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    ok, at = (r < height - 1) & (c < width - 1), r * width + c
    curl = tl.load(ex + at + 1, ok) - tl.load(ex + at, ok)
    curl += tl.load(ey + at + width, ok) - tl.load(ey + at, ok)
    tl.store(hz + at, tl.load(hz + at, ok) - 0.7 * curl, ok)


# ----------------------------------------------------------------------- planes of a volume


@triton.jit
def depthwise(
    x, weight, bias, y, channels, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    plane = tl.program_id(2)
    channel = plane % channels
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    base = plane * height * width
    total = tl.zeros((ROWS, COLUMNS), tl.float32) + tl.load(bias + channel)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            i, j = r + dy - 1, c + dx - 1
            ok = (i >= 0) & (i < height) & (j >= 0) & (j < width)
            value = tl.load(x + base + i * width + j, ok, 0.0)
            total += value * tl.load(weight + channel * 9 + dy * 3 + dx)
    tl.store(y + base + r * width + c, tl.maximum(total, 0.0), (r < height) & (c < width))


@triton.jit
def heat(a, b, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    area = height * width
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None] + 1
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :] + 1
    ok = (r < height - 1) & (c < width - 1)
    at = (tl.program_id(2) + 1) * area + r * width + c
    p = a + at
    here = tl.load(p, ok)
    v = here + 0.125 * (tl.load(p + area, ok) - 2.0 * here + tl.load(p - area, ok))
    v += 0.125 * (tl.load(p + width, ok) - 2.0 * here + tl.load(p - width, ok))
    v += 0.125 * (tl.load(p + 1, ok) - 2.0 * here + tl.load(p - 1, ok))
    tl.store(b + at, v, ok)


@triton.jit
def around(p, by, area, width, ok):
    total = tl.load(p - by, ok) + tl.load(p + by, ok)
    total += tl.load(p - by * width, ok) + tl.load(p + by * width, ok)
    return total + tl.load(p - by * area, ok) + tl.load(p + by * area, ok)


@triton.jit
def wave(now, before, courant, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    area = height * width
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None] + 4
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :] + 4
    ok = (r < height - 4) & (c < width - 4)
    at = (tl.program_id(2) + 4) * area + r * width + c
    p = now + at
    here = tl.load(p, ok)
    lap = -8.541666666666666 * here + 1.6 * around(p, 1, area, width, ok)
    lap += -0.2 * around(p, 2, area, width, ok) + 0.025396825396825397 * around(
        p, 3, area, width, ok
    )
    lap += -0.0017857142857142857 * around(p, 4, area, width, ok)
    tl.store(before + at, 2.0 * here - tl.load(before + at, ok) + courant * lap, ok)


@triton.jit
def laplacian(p, width, ok):
    ends = tl.load(p + 1, ok) + tl.load(p - 1, ok) + tl.load(p + width, ok) + tl.load(p - width, ok)
    return 4.0 * tl.load(p, ok) - ends


@triton.jit
def limited(p, by, width, ok):
    flux = laplacian(p + by, width, ok) - laplacian(p, width, ok)
    return tl.where(flux * (tl.load(p + by, ok) - tl.load(p, ok)) > 0.0, 0.0, flux)


@triton.jit
def diffusion(f, k, y, height, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None] + 2
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :] + 2
    ok = (r < height - 2) & (c < width - 2)
    at = tl.program_id(2) * height * width + r * width + c
    p = f + at
    spread = limited(p, 1, width, ok) - limited(p - 1, 1, width, ok)
    spread += limited(p, width, width, ok) - limited(p - width, width, width, ok)
    tl.store(y + at, tl.load(p, ok) - tl.load(k + at, ok) * spread, ok)
