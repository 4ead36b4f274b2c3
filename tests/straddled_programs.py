"""Kernels with windows, of any type of element (`{0}`), for tests of rows that start anywhere."""

BOX = """
kernel f(a: {0}[H, W], out c: {0}[H, W]):
    temp b: {0}[H, W]
    for y in 0..H, x in 1..W-1:
        b[y, x] = a[y, x-1] + a[y, x] + a[y, x+1]
    for y in 1..H-1, x in 1..W-1:
        c[y, x] = b[y-1, x] - b[y, x] + b[y+1, x]
"""
DOWN = """
kernel f(a: {0}[H, W], out c: {0}[H, W]):
    for y in 1..H-1, x in 0..W:
        c[y, x] = a[y-1, x] + a[y, x] + a[y+1, x]
"""
STEPS = """
kernel f(inout a: {0}[H, W], n: i64):
    temp b: {0}[H, W]
    for t in 0..n:
        for y in 1..H-1, x in 1..W-1:
            b[y, x] = a[y, x-1] + a[y, x+1] + a[y+1, x] - a[y-1, x]
        for y in 1..H-1, x in 1..W-1:
            a[y, x] = b[y, x]
"""
