"""Livermore's number 16, a Monte Carlo search, with its jumps as loops: CPython runs it, loopfuse refuses it (a
`while` has no range)."""

from __future__ import annotations


def search(d, plan, zone, n, r, s, t, found):
    lb = 2 * (n // 3)
    m = 1
    first = 1
    while True:
        place = 2 * n * (m - 1) + 1
        for k in range(1, n + 1):
            found[0] += 1
            j4 = place + 2 * k
            j5 = zone[j4 - 1]
            if j5 < n:
                if j5 + lb < n:
                    tmp = plan[j5 - 1] - t
                elif j5 + n // 3 < n:
                    tmp = plan[j5 - 1] - s
                else:
                    tmp = plan[j5 - 1] - r
            elif j5 == n:
                return
            else:
                found[1] += 1
                tmp = d[j5 - 1] - (
                    d[j5 - 2] * (t - d[j5 - 3]) ** 2 + (s - d[j5 - 4]) ** 2 + (r - d[j5 - 5]) ** 2
                )
            side = zone[j4 - 2]
            if tmp == 0.0 or side == 0:
                return
            if (tmp < 0.0) != (side < 0):
                break
        else:
            return
        m += 1
        if m > zone[0]:
            m = 1
        if m == first:
            return
