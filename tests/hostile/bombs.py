"""Programs made to hurt: each name gives the text of a file of at most about 100 kB."""

from __future__ import annotations

from collections.abc import Callable

HEAD = "kernel k(a: f32[N], out b: f32[N]):\n"
LOOP = HEAD + "    for i in 0..N:\n"


def value(expression: str) -> str:
    """A kernel that stores one expression."""
    return f"{LOOP}        b[i] = {expression}\n"


def _chain_of_lets() -> str:
    lets = ["        let x0 = a[i]"]
    lets += [f"        let x{k} = x{k - 1} + x{k - 1}" for k in range(1, 60)]
    return LOOP + "\n".join(lets) + "\n        b[i] = x59\n"


def _chain_of_temps() -> str:
    lines = ["kernel k(a: f32[N], out b: f32[N]):"]
    lines += [f"    temp t{k}: f32[N]" for k in range(60)]
    lines += ["    for i in 0..N:", "        t0[i] = a[i]"]
    for k in range(1, 60):
        lines += ["    for i in 0..N:", f"        t{k}[i] = t{k - 1}[i] + t{k - 1}[i]"]
    lines += ["    for i in 0..N:", "        b[i] = t59[i]"]
    return "\n".join(lines) + "\n"


def _stencil_chain(stages: int) -> str:
    lines = ["kernel k(a: f32[N], out b: f32[N]):"]
    lines += [f"    temp t{k}: f32[N]" for k in range(stages)]
    lines += ["    for i in 0..N:", "        t0[i] = a[i]"]
    for k in range(1, stages):
        lines += [
            "    for i in 0..N:",
            f"        t{k}[i] = t{k - 1}.clamp[i - 1] + t{k - 1}.clamp[i + 1]",
        ]
    lines += ["    for i in 0..N:", f"        b[i] = t{stages - 1}[i]"]
    return "\n".join(lines) + "\n"


def _loops(count: int) -> str:
    """`count` loops, each over arrays of its own or of its neighbours."""
    lines = [HEAD.rstrip()] + [f"    temp t{k}: f32[N]" for k in range(count)]
    for k in range(count):
        source = f"t{k - 1}" if k else "a"
        lines += ["    for i in 0..N:", f"        t{k}[i] = {source}[i] * 1.5 + 0.{k}"]
    lines += ["    for i in 0..N:", f"        b[i] = t{count - 1}[i]"]
    return "\n".join(lines) + "\n"


def _apart(count: int) -> str:
    """`count` loops that cannot be fused with their neighbours (each reads its source reversed)."""
    lines = [HEAD.rstrip()] + [f"    temp t{k}: f32[N]" for k in range(count)]
    for k in range(count):
        source = f"t{k - 1}" if k else "a"
        lines += ["    for i in 0..N:", f"        t{k}[i] = {source}[N - 1 - i] + {source}[i // 2]"]
    lines += ["    for i in 0..N:", f"        b[i] = t{count - 1}[i]"]
    return "\n".join(lines) + "\n"


def _one_array(count: int) -> str:
    """`count` loops over one array in place."""
    lines = ["kernel k(inout b: f32[N]):"]
    for k in range(count):
        lines += ["    for i in 0..N:", f"        b[i] = b[i] * 1.5 + {k}.5"]
    return "\n".join(lines) + "\n"


def _statements(count: int) -> str:
    lines = [LOOP.rstrip(), "        b[i] = a[i]"]
    lines += [f"        b[i] = b[i] * 1.5 + {k}.5" for k in range(count)]
    return "\n".join(lines) + "\n"


def _arrays(count: int) -> str:
    parameters = ", ".join(f"a{k}: f32[N]" for k in range(count))
    total = " + ".join(f"a{k}[i]" for k in range(count))
    return f"kernel k({parameters}, out b: f32[N]):\n    for i in 0..N:\n        b[i] = {total}\n"


def _dimensions(rank: int) -> str:
    sizes = ", ".join(f"N{k}" for k in range(rank))
    heads = ", ".join(f"j{k} in 0..N{k}" for k in range(rank))
    index = ", ".join(f"j{k}" for k in range(rank))
    return (
        f"kernel k(a: f32[{sizes}], out b: f32[{sizes}]):\n"
        f"    for {heads}:\n        b[{index}] = a[{index}] + 1.0\n"
        f"    for {heads}:\n        b[{index}] = b[{index}] * 2.0\n"
    )


def _kernels(count: int) -> str:
    return "\n".join(
        f"kernel k{n}(a: f32[N], out b: f32[N]):\n    for i in 0..N:\n        b[i] = a[i] + {n}.0\n"
        for n in range(count)
    )


def _table(count: int) -> str:
    numbers = ", ".join(str(k % 10) for k in range(count))
    return (
        f"const t: i32[{count}] = [{numbers}]\n\n"
        f"kernel k(a: f32[N], out b: f32[N]):\n    for i in 0..N:\n"
        f"        b[i] = a[i] * sum(j in 0..{count}: f32(t[j]))\n"
    )


def _table_indexed(count: int) -> str:
    numbers = ", ".join(str(k % 10) for k in range(count))
    return (
        f"const t: i32[{count}] = [{numbers}]\n\n"
        f"kernel k(out b: f32[{count}]):\n    for i in 0..{count}:\n"
        f"        b[i] = f32(t[i])\n"
    )


def _unrolled(side: int) -> str:
    numbers = ", ".join("1" for _ in range(side))
    return (
        f"const t: i32[{side}] = [{numbers}]\n\n"
        "kernel k(out b: f32[N]):\n    for i in 0..N:\n        var s: f32 = 0.0\n"
        f"        for x in 0..{side}, y in 0..{side}, z in 0..{side}:\n"
        "            s += f32(t[x] * t[y] * t[z])\n        b[i] = s\n"
    )


def _functions(count: int) -> str:
    lines = ["func g0(x: f32) -> f32:", "    return x + 1.0", ""]
    for k in range(1, count):
        lines += [f"func g{k}(x: f32) -> f32:", f"    return g{k - 1}(x) + g{k - 1}(x * 2.0)", ""]
    return "\n".join(lines) + "\n" + value(f"g{count - 1}(a[i])")


def _argument_bomb(count: int) -> str:
    lines = ["func g0(x: f32) -> f32:", "    return x * x", ""]
    for k in range(1, count):
        lines += [f"func g{k}(x: f32) -> f32:", f"    return g{k - 1}(x * x)", ""]
    return "\n".join(lines) + "\n" + value(f"g{count - 1}(a[i])")


def _reductions(depth: int) -> str:
    inner = "a[i]"
    for k in range(depth):
        inner = f"sum(k{k} in 0..2: {inner})"
    return value(inner)


def _if_chain(count: int, word: str = "elif") -> str:
    lines = [LOOP.rstrip(), "        if i == 0:", "            b[i] = 0.0"]
    for k in range(1, count):
        lines += [f"        elif i == {k}:", f"            b[i] = {k}.0"]
    return "\n".join(lines) + "\n"


def _ifs(depth: int) -> str:
    lines = [LOOP.rstrip()]
    for k in range(depth):
        lines.append(" " * (8 + k) + f"if a[i] > {k}.0:")
    lines.append(" " * (8 + depth) + "b[i] = 1.0")
    return "\n".join(lines) + "\n"


def _separate_ifs(count: int) -> str:
    lines = [LOOP.rstrip(), "        b[i] = 0.0"]
    for k in range(count):
        lines += [f"        if a[i] > {k}.0:", f"            b[i] = b[i] + {k}.0"]
    return "\n".join(lines) + "\n"


def _affine_ifs(count: int) -> str:
    lines = [LOOP.rstrip(), "        b[i] = 0.0"]
    for k in range(count):
        lines += [f"        if i % {k + 2} == 1:", f"            b[i] = b[i] + {k}.0"]
    return "\n".join(lines) + "\n"


def _deep_loops(depth: int) -> str:
    lines = ["kernel k(a: f32[N], out b: f32[N]):"]
    for k in range(depth):
        lines.append("    " + " " * k + f"for j{k} in 0..2:")
    lines.append("    " + " " * depth + "b[j0] = a[j0]")
    return "\n".join(lines) + "\n"


def _indents(depth: int) -> str:
    lines = ["kernel k(a: f32[N], out b: f32[N]):"]
    for k in range(depth):
        lines.append(" " * (k + 1) + "if true:")
    return "\n".join(lines) + "\n"


def _remainders(operator: str, count: int) -> str:
    """A subscript with many remainders or quotients: each is a dimension more to isl."""
    places = " + ".join(f"i {operator} {k + 3}" for k in range(count))
    return f"kernel k(a: f32[64*N + 1024], out b: f32[N]):\n    for i in 0..N:\n        b[i] = a[{places}]\n"


def _remainders_in_place() -> str:
    places = " + ".join(f"i % {k + 3}" for k in range(6))
    return (
        f"kernel k(a: f32[N], inout b: f32[N + 100]):\n    for i in 0..N:\n        b[{places}] = a[i]\n"
        f"    for i in 0..N:\n        b[i + 1] = b[{places}]\n"
    )


def _mods(count: int) -> str:
    lines = ["kernel k(a: f32[N], out b: f32[N], n: i64, m: i64):", "    temp t: f32[N]"]
    lines += ["    for i in 0..N:", "        t[i] = a[(i * 7 + 3) % N]"]
    for k in range(count):
        lines += [
            f"    for i in {k}..N step {k % 5 + 2}:",
            f"        t[(i * {k + 2} + {k}) % N] = a[(i // 3) % N] + t[(i + {k}) % N]",
        ]
    lines += ["    for i in 0..N:", "        b[i] = t[i]"]
    return "\n".join(lines) + "\n"


def _triangles(depth: int) -> str:
    lines = ["kernel k(inout b: f32[N]):"]
    names = []
    for k in range(depth):
        pad = " " * 4 * (k + 1)
        if k == 0:
            lines.append(f"{pad}for i0 in 0..N step 2:")
        else:
            lines.append(f"{pad}for i{k} in i{k - 1} // 2..N - i{k - 1} step {k + 1}:")
        names.append(f"i{k}")
    pad = " " * 4 * (depth + 1)
    lines.append(f"{pad}b[({' + '.join(names)}) % N] = b[({' + 3 * '.join(names)}) % N] + 1.0")
    return "\n".join(lines) + "\n"


QUICK: dict[str, Callable[[], str]] = {
    "brackets": lambda: value("(" * 10_000 + "a[i]" + ")" * 10_000),
    "open brackets": lambda: value("(" * 100_000),
    "square brackets": lambda: value("a[" * 10_000 + "i" + "]" * 10_000),
    "minus": lambda: value("-" * 10_000 + "a[i]"),
    "not": lambda: value("not " * 10_000 + "a[i]"),
    "conditionals": lambda: value("1.0 if i == 0 else " * 5_000 + "2.0"),
    "powers": lambda: value("a[i]" + " ** 2" * 10_000),
    "comparisons": lambda: value("a[i]" + " < a[i]" * 10_000),
    "ands": lambda: value("1.0 if a[i] < 1.0" + " and a[i] < 2.0" * 5_000 + " else 2.0"),
    "indents": lambda: _indents(400),
    "elifs": lambda: _if_chain(2_000),
    "long name": lambda: value("n" * 100_000),
    "long iterator": lambda: (
        HEAD + f"    for {'i' * 49_000} in 0..N:\n        b[{'i' * 49_000}] = 1.0\n"
    ),
    "long sum": lambda: value("a[i]" + "+a[i]" * 20_000),
    "long integer": lambda: value("9" * 100_000),
    "long hex": lambda: value("0x" + "f" * 100_000),
    "long float": lambda: value("1." + "9" * 100_000),
    "long exponent": lambda: value("1.0e" + "9" * 100_000),
    "long string": lambda: value('"' + "x" * 100_000 + '"'),
    "long comment": lambda: value("a[i]") + "#" + "x" * 100_000 + "\n",
    "long line of spaces": lambda: value("a[i]" + " " * 100_000),
    "blank lines": lambda: value("a[i]") + "\n" * 100_000,
    "functions": lambda: _functions(40),
    "argument functions": lambda: _argument_bomb(40),
    "unrolled": lambda: _unrolled(1000),
    "shift": lambda: value("f32(1 << 9223372036854775807)"),
    "shift chain": lambda: value("f32(" + "1 << " * 60 + "62)"),
    "power tower": lambda: value("f32(9 ** 9 ** 9 ** 9)"),
    "integer power": lambda: value("f32(2 ** 100000000)"),
    "constant product": lambda: value("f32(" + "99999999 * " * 5_000 + "1)"),
    "constant squares": lambda: (
        "const c0 = 3\n"
        + "".join(f"const c{k} = c{k - 1} * c{k - 1}\n" for k in range(1, 60))
        + value("f32(c59)")
    ),
    "huge bound": lambda: HEAD + "    for i in 0..9223372036854775807:\n        b[0] = 1.0\n",
    "huge offset": lambda: (
        HEAD + "    for i in 0..N:\n        b[i] = a.clamp[i + 9223372036854775807]\n"
    ),
    "huger offset": lambda: (
        HEAD + "    for i in 0..N:\n        b[i] = a.clamp[i + 92233720368547758070]\n"
    ),
    "huge factor": lambda: (
        HEAD + "    for i in 0..N:\n        b[i] = a.wrap[i * 9223372036854775807]\n"
    ),
    "huge step": lambda: (
        HEAD + "    for i in 0..N step 9223372036854775807:\n        b[i] = 1.0\n"
    ),
    "huge negative step": lambda: (
        HEAD + "    for i in N-1..-1 step -9223372036854775808:\n        b[i] = 1.0\n"
    ),
    "huge extent": lambda: (
        "kernel k(out b: f32[9223372036854775807]):\n"
        "    for i in 0..9223372036854775807:\n        b[i] = 1.0\n"
    ),
    "huge temp": lambda: (
        HEAD + "    temp t: f32[N, 9223372036854775807]\n"
        "    for i in 0..N:\n        t[i, 0] = a[i]\n    for i in 0..N:\n        b[i] = t[N-1-i, 0]\n"
    ),
    "huge modulus": lambda: HEAD + "    for i in 0..N:\n        b[i] = a[(i * 3) % 9223372036854775807 % N]\n",
    "unrolled range": lambda: (
        "const t: i32[2] = [1, 2]\n" + HEAD
        + "    for i in 0..N:\n        for j in 0..4000000000:\n            b[i] = f32(t[j])\n"
    ),
    "many errors": lambda: LOOP + "        b[i] = x + y + z\n" * 3_000,
    "many parameters": lambda: (
        "kernel k(" + ", ".join(f"p{n}: i64" for n in range(5_000)) + ", out b: f32[N]):\n"
        "    for i in 0..N:\n        b[i] = 1.0\n"
    ),
    "many sizes": lambda: (
        "kernel k(" + ", ".join(f"a{n}: f32[N{n}]" for n in range(300)) + ", out b: f32[N]):\n"
        "    for i in 0..N:\n        b[i] = 1.0\n"
    ),
}
"""Refused, or compiled, in a few seconds."""

SLOW: dict[str, Callable[[], str]] = {
    "lets doubling": _chain_of_lets,
    "temps doubling": _chain_of_temps,
    "stencil chain": lambda: _stencil_chain(40),
    "500 loops": lambda: _loops(500),
    "500 loops apart": lambda: _apart(500),
    "500 loops in place": lambda: _one_array(500),
    "500 statements": lambda: _statements(500),
    "500 arrays": lambda: _arrays(500),
    "12 dimensions": lambda: _dimensions(12),
    "200 kernels": lambda: _kernels(200),
    "table": lambda: _table(20_000),
    "table in a subscript": lambda: _table_indexed(20_000),
    "unrolled 12": lambda: _unrolled(12),
    "nested reductions": lambda: _reductions(50),
    "deep ifs": lambda: _ifs(150),
    "separate ifs": lambda: _separate_ifs(300),
    "affine ifs": lambda: _affine_ifs(60),
    "elif chain": lambda: _if_chain(150),
    "deep loops": lambda: _deep_loops(100),
    "30 deep loops": lambda: _deep_loops(30),
    "mods": lambda: _mods(12),
    "remainders": lambda: _remainders("%", 12),
    "quotients": lambda: _remainders("//", 24),
    "remainders in place": _remainders_in_place,
    "rank 800": lambda: _dimensions(800),
    "triangles": lambda: _triangles(6),
}
