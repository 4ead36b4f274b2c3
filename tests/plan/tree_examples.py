"""Trees made by hand, each with its kernel: one example a way of mapping loops.

Each function takes keyword arguments that break the tree in one way; without them it is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Kernel
from loopfuse.poly.build import build_model
from loopfuse.poly.model import PolyProgram
from loopfuse.tree.looptree import (
    Await,
    Barrier,
    DistributedShared,
    Global,
    Lanes,
    LineBuffer,
    LoopTree,
    Raise,
    Register,
    Shared,
    Ticket,
    TreeNode,
    Window,
)
from tests.plan.treekit import Kit, launch, tree


@dataclass(frozen=True)
class Example:
    """A program, a tree for it, small sizes to run at, and what NumPy says the outputs are."""

    program: PolyProgram
    tree: LoopTree
    sizes: dict[str, int]
    expected: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]

    def arguments(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Random arrays for the kernel's parameters (whole numbers, so that sums are exact)."""
        random = np.random.default_rng(seed)
        shapes = {
            param.name: tuple(_extent(e, self.sizes) for e in param.extents)
            for param in self.program.kernel.arrays
        }
        return {name: random.integers(-8, 9, shape).astype(float) for name, shape in shapes.items()}


def _extent(expr, sizes: dict[str, int]) -> int:
    from loopfuse.lang.index import evaluate_index

    return evaluate_index(expr, sizes)


def _model(kernel: Kernel) -> PolyProgram:
    return build_model(kernel)


def pointwise(
    upper: str = "N", swap: bool = False, lower: str = "0", value_of: str = "r", guard: str = "",
    second: str = "i", target: str = "b[i]",
) -> Example:
    """t = 2 a; b = t + 1, fused in a register."""
    kit = Kit()
    temp = kit.temp("t", "N")
    kit.declare("a b")
    kernel = kit.kernel(
        "pointwise", "in a[N]; out b[N]", temp,
        kit.for_("i in 0..N", kit.store("S1", "t[i] = a[i] * 2.0")),
        kit.for_("j in 0..N", kit.store("S2", "b[j] = t[j] + 1.0")),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("r", array="t"), kit.buffer("q", array="t")]
    body: list[TreeNode] = [
        kit.compute(program, "S1", "i", "r"),
        kit.compute(program, "S2", second, target, {"t": value_of}),
    ]
    if swap:
        body.reverse()
    if guard:
        body[1] = kit.guard(guard, body[1])
    nest = kit.loop("thread", f"i in {lower}..{upper}", *body)
    made = tree("pointwise", "cpu", buffers, launch("pointwise_0", nest))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"b": given["a"] * 2 + 1}

    return Example(program, made, {"N": 7}, expected)


def blur(
    shift: int = 0, upper: str = "N-2", stale: bool = False, order: bool = False,
    guard: str = "x < N - 2", lower: str = "2",
) -> Example:
    """t = 3-point sum of a; b = 3-point sum of t, t recomputed into registers, on a GPU grid."""
    kit = Kit()
    temp = kit.temp("t", "N")
    kit.declare("a b")
    kernel = kit.kernel(
        "blur", "in a[N]; out b[N]", temp,
        kit.for_("i in 1..N-1", kit.store("S1", "t[i] = a[i-1] + a[i] + a[i+1]")),
        kit.for_("j in 2..N-2", kit.store("S2", "b[j] = t[j-1] + t[j] + t[j+1]")),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("r", "3", array="t")]
    last = 0 if stale else 1
    stages = [
        kit.compute(program, "S1", f"x - 1 + {shift}", "r[0]"),
        kit.compute(program, "S1", "x", "r[1]"),
        kit.compute(program, "S1", f"x + {last}", "r[2]"),
        kit.compute(program, "S2", "x", "b[x]", {"t": ["r[0]", "r[1]", "r[2]"]}),
    ]
    if order:
        stages[2:] = stages[2:][::-1]
    inside = kit.loop("block", "k in 0..4", kit.loop(
        "serial", f"x in max({lower}, 4*g + k)..min({upper}, 4*g + k + 1)", *stages
    )) if not guard else kit.loop(
        "block", "k in 0..4",
        kit.loop("serial", "x in 4*g + k..4*g + k + 1",
                 kit.guard(f"x >= {lower}", kit.guard(guard, *stages))),
    )  # fmt: skip
    nest = kit.loop("grid", "g in 0..(N + 3) // 4", inside)
    made = tree("blur", "gpu", buffers, launch("blur_0", nest))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        a, b = given["a"], given["b"].copy()
        t = a.copy()
        t[1:-1] = a[:-2] + a[1:-1] + a[2:]
        b[2:-2] = t[1:-3] + t[2:-2] + t[3:-1]
        return {"b": b}

    return Example(program, made, {"N": 11}, expected)


def sliding(rows: int = 3, delay: int = 1, upper: str = "H", parallel: str = "serial") -> Example:
    """Rows of t computed one ahead of the rows of b that need them, kept in a ring of rows."""
    kit = Kit()
    temp = kit.temp("t", "H, W")
    kit.declare("a b")
    kernel = kit.kernel(
        "sliding", "in a[H, W]; out b[H, W]", temp,
        kit.for_("i in 0..H", kit.for_("j in 0..W", kit.store("S1", "t[i, j] = a[i, j] * 3.0"))),
        kit.for_("k in 1..H-1", kit.for_("l in 0..W", kit.store(
            "S2", "b[k, l] = t[k-1, l] + t[k, l] + t[k+1, l]"))),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("ring", f"{rows}, W", Global(), array="t")]
    nest = kit.loop("thread", "x in 0..W", kit.loop(
        parallel, f"y in 0..{upper}",
        kit.compute(program, "S1", "y, x", f"ring[y % {rows}, x]"),
        kit.guard(f"y >= {1 + delay}", kit.compute(
            program, "S2", f"y - {delay}, x", f"b[y - {delay}, x]",
            {"t": lambda i, j: f"ring[({i}) % {rows}, {j}]"})),
    ))  # fmt: skip
    made = tree("sliding", "cpu", buffers, launch("sliding_0", nest))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        t, b = given["a"] * 3, given["b"].copy()
        b[1:-1] = t[:-2] + t[1:-1] + t[2:]
        return {"b": b}

    return Example(program, made, {"H": 7, "W": 4}, expected)


def window(rows: int = 2, shift: int = 1, unroll: int = 2) -> Example:
    """d[i] = p[i] - p[i - 1] with p in a window of two registers, the serial loop unrolled."""
    kit = Kit()
    temp = kit.temp("p", "2*N")
    kit.declare("a b")
    kernel = kit.kernel(
        "window", "in a[2*N]; out b[2*N]", temp,
        kit.for_("i in 0..2*N", kit.store("S1", "p[i] = a[i] * a[i]")),
        kit.for_("j in 1..2*N", kit.store("S2", "b[j] = p[j] - p[j-1]")),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("w", "2", Window(rows), array="p")]
    nest = kit.loop("serial", "y in 0..N", kit.loop(
        "unrolled", f"u in 0..{unroll}",
        kit.compute(program, "S1", f"{unroll}*y + u", f"w[{unroll}*y + u]"),
        kit.guard(f"{unroll}*y + u >= 1", kit.compute(
            program, "S2", f"{unroll}*y + u", f"b[{unroll}*y + u]",
            {"p": [f"w[{unroll}*y + u]", f"w[{unroll}*y + u - {shift}]"]})),
    ))  # fmt: skip
    made = tree("window", "cpu", buffers, launch("window_0", nest))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        p, b = given["a"] ** 2, given["b"].copy()
        b[1:] = p[1:] - p[:-1]
        return {"b": b}

    return Example(program, made, {"N": 4}, expected)


def matmul(start: str = "0", upper: str = "K", init: bool = True, inner: str = "serial") -> Example:
    """c = a @ b, the accumulator in a register, the sum in program order."""
    kit = Kit()
    kit.declare("a b c s")
    kernel = kit.kernel(
        "matmul", "in a[M, K]; in b[K, N]; out c[M, N]",
        kit.for_("i in 0..M", kit.for_("j in 0..N",
            kit.reduce("S1", "s", "sum", "k in 0..K", "s + a[i, k] * b[k, j]"),
            kit.store("S2", "c[i, j] = s"))),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("acc", array="s")]
    body: list[TreeNode] = [
        kit.loop(inner, f"k in {start}..{upper}",
                 kit.compute(program, "S1", "i, j, k", "acc", {"s": "acc"})),
        kit.compute(program, "S2", "i, j", "c[i, j]", {"s": "acc"}),
    ]  # fmt: skip
    if init:
        body.insert(0, kit.compute(program, "S1.init", "i, j", "acc"))
    made = tree(
        "matmul", "gpu", buffers, launch("matmul_0", kit.loop("grid", "i in 0..M; j in 0..N", *body))
    )

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"c": given["a"] @ given["b"]}

    return Example(program, made, {"M": 3, "N": 4, "K": 5}, expected)


def total(
    threads: int = 4, start: float = 0.0, blocks: str = "3", twice: bool = False,
    first_only: bool = True, fold_from: str = "0", fold_to: str = "3", op: str = "sum",
    update: str = "12*n + 4*g + k", init: bool = True, combine: bool = True, ticket: bool = False,
    counted: str = "3",
) -> Example:
    """sum of a in two stages: threads, a Combine in each of 3 blocks, then a fold of 3 partials
    (in a second launch, or by the last block to finish)."""
    kit = Kit(count=DType.I32)
    kit.declare("a b s part")
    kernel = kit.kernel(
        "total", "in a[N]; out b[1]",
        kit.reduce("S1", "s", "sum", "i in 0..N", "s + a[i]"),
        kit.store("S2", "b[0] = s"),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [
        *kit.arguments(kernel), kit.buffer("acc", array="s"), kit.buffer("fin", array="s"),
        kit.buffer("part", blocks, Global(), array=""),
        kit.buffer("count", "1", Global(), array="", zeroed=True, dtype=DType.I32),
    ]  # fmt: skip
    first: list[TreeNode] = [
        kit.loop("serial", "n in 0..(N + 11) // 12", kit.guard(
            f"{update} < N", kit.compute(program, "S1", update, "acc", {"s": "acc"}))),
    ]  # fmt: skip
    if init:
        first.insert(0, kit.copy("acc", repr(start)))
    if combine:
        first.append(kit.combine(op, "acc", "k"))
    store = kit.copy("part[g]", "acc")
    first.append(kit.guard("k == 0", store) if first_only else store)
    folds: list[TreeNode] = [
        kit.loop("serial", f"m in {fold_from}..{fold_to}", kit.fold(op, "fin", "part[m]"))
    ]
    if twice:
        folds *= 2
    second = [kit.neutral("fin"), *folds, kit.compute(program, "S2", "", "b[0]", {"s": "fin"})]
    if ticket:
        last = Ticket(kit.load("count[0]"), kit.ex(counted), (kit.guard("k == 0", *second),))
        launches = [launch("total_0", kit.loop("grid", f"g in 0..{blocks}", kit.loop(
            "block", f"k in 0..{threads}", *first, last)))]  # fmt: skip
    else:
        launches = [
            launch("total_0", kit.loop("grid", f"g in 0..{blocks}", kit.loop(
                "block", f"k in 0..{threads}", *first))),
            launch("total_1", *second),
        ]  # fmt: skip
    made = tree("total", "gpu", buffers, *launches)

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"b": np.array([given["a"].sum()])}

    return Example(program, made, {"N": 31}, expected)


def jacobi(
    shift: str = "0", steps: str = "T", inplace: bool = False, one_launch: bool = False,
    swap: bool = False,
) -> Example:
    """a and b updated in turn, the time loop on the host around two launches."""
    kit = Kit()
    kit.declare("a b")
    kernel = kit.kernel(
        "jacobi", "inout a[N]; inout b[N]",
        kit.for_("t in 0..T",
            kit.for_("i in 1..N-1", kit.store("S1", "b[i] = a[i-1] + a[i+1]")),
            kit.for_("j in 1..N-1", kit.store("S2", "a[j] = b[j-1] + b[j+1]"))),
    )  # fmt: skip
    kernel = _with_integer(kernel, "T")
    program = _model(kernel)
    buffers = kit.arguments(kernel)
    first = kit.compute(program, "S1", "t, i", f"b[i + {shift}]")
    second = kit.compute(
        program, "S2", "t, i", "a[i]", {"b": lambda i: f"a[{i}]"} if inplace else None
    )
    if one_launch:
        launches = [launch("jacobi_0", kit.loop("grid", "i in 1..N-1", first, second))]
    else:
        launches = [
            launch("jacobi_0", kit.loop("grid", "i in 1..N-1", first)),
            launch("jacobi_1", kit.loop("grid", "i in 1..N-1", second)),
        ]
    if swap:
        launches.reverse()
    made = tree("jacobi", "gpu", buffers, kit.host(f"t in 0..{steps}", *launches))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        a, b = given["a"].copy(), given["b"].copy()
        for _ in range(3):
            b[1:-1] = a[:-2] + a[2:]
            a[1:-1] = b[:-2] + b[2:]
        return {"a": a, "b": b}

    return Example(program, made, {"N": 9, "T": 3}, expected)


def _with_integer(kernel: Kernel, name: str) -> Kernel:
    from dataclasses import replace

    from loopfuse.lang.nodes import ScalarParam

    return replace(kernel, params=(*kernel.params, ScalarParam(name, DType.I64)))


def tile(
    barrier: bool = True, width: int = 8, halo: int = 1, second_barrier: bool = False,
    copied: bool = False, home: str = "shared", guard: bool = True,
) -> Example:
    """t = 2 a in a shared tile with a halo, then b = t[-1] + t[+1] from it, 8 outputs a block."""
    kit = Kit()
    temp = kit.temp("t", "8*N + 2")
    kit.declare("a b")
    kernel = kit.kernel(
        "tile", "in a[8*N + 2]; out b[8*N + 2]", temp,
        kit.for_("i in 0..8*N+2", kit.store("S1", "t[i] = a[i] * 2.0")),
        kit.for_("j in 1..8*N+1", kit.store("S2", "b[j] = t[j-1] + t[j+1]")),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("s", "10", Shared(), array="t"),
               kit.buffer("held", "10", Shared(), array="a")]  # fmt: skip
    extra = kit.compute(program, "S1", "8*g + k + 8", "s[k + 8]")
    body: list[TreeNode] = [
        kit.compute(program, "S1", "8*g + k", "s[k]"),
        kit.guard(f"k < {2 * halo}", extra) if guard else extra,
    ]
    if copied:
        body = [
            kit.copy("held[k]", "a[8*g + k]"),
            kit.guard("k < 2", kit.copy("held[k + 8]", "a[8*g + k + 8]")),
            kit.compute(program, "S1", "8*g + k", "s[k]", {"a": "held[k]"}),
            kit.guard("k < 2", kit.compute(
                program, "S1", "8*g + k + 8", "s[k + 8]", {"a": "held[k + 8]"})),
        ]  # fmt: skip
    if barrier:
        body.append(Barrier("block"))
    body.append(kit.compute(
        program, "S2", "8*g + k + 1", "b[8*g + k + 1]", {"t": ["s[k]", "s[k + 2]"]}))  # fmt: skip
    made = tree("tile", "gpu", buffers, launch("tile_0", kit.loop(
        "grid", "g in 0..N", kit.loop("block", f"k in 0..{width}", *body))))  # fmt: skip

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        t, b = given["a"] * 2, given["b"].copy()
        b[1:-1] = t[:-2] + t[2:]
        return {"b": b}

    return Example(program, made, {"N": 3}, expected)


def tile_loop(barriers: str = "both") -> Example:
    """A serial loop in a block over tiles of rows, one shared row reused: two barriers a turn."""
    kit = Kit()
    temp = kit.temp("t", "N, 8")
    kit.declare("a b")
    kernel = kit.kernel(
        "tile_loop", "in a[N, 8]; out b[N, 8]", temp,
        kit.for_("i in 0..N", kit.for_("j in 0..8", kit.store("S1", "t[i, j] = a[i, j] * 2.0"))),
        kit.for_("k in 0..N", kit.for_("l in 0..8", kit.store(
            "S2", "b[k, l] = t[k, 7 - l] + 1.0"))),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("s", "8", Shared(), array="t")]
    body: list[TreeNode] = [kit.compute(program, "S1", "y, x", "s[x]")]
    if barriers in ("both", "first"):
        body.append(Barrier("block"))
    body.append(kit.compute(program, "S2", "y, x", "b[y, x]", {"t": "s[7 - x]"}))
    if barriers in ("both", "second"):
        body.append(Barrier("block"))
    if barriers == "divergent":
        body.insert(1, kit.guard("x < 7", Barrier("block")))
    made = tree("tile_loop", "gpu", buffers, launch("tile_loop_0", kit.loop(
        "block", "x in 0..8", kit.loop("serial", "y in 0..N", *body))))  # fmt: skip

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"b": given["a"][:, ::-1] * 2 + 1}

    return Example(program, made, {"N": 3}, expected)


def lanes(columns: int = 2, reach: int = 1) -> Example:
    """Neighbours of a warp's strip by shuffles: b[x] = t[x] + t[(x + 1) % 64]."""
    kit = Kit()
    temp = kit.temp("t", "N, 64")
    kit.declare("a b")
    kernel = kit.kernel(
        "lanes", "in a[N, 64]; out b[N, 64]", temp,
        kit.for_("i in 0..N", kit.for_("j in 0..64", kit.store("S1", "t[i, j] = a[i, j] * 2.0"))),
        kit.for_("k in 0..N", kit.for_("l in 0..64", kit.store(
            "S2", "b[k, l] = t[k, l] + t[k, (l + 1) % 64]"))),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("s", "64", Lanes(columns), array="t")]
    nest = kit.loop("grid", "g in 0..N", kit.loop(
        "lane", "l in 0..32",
        kit.loop("unrolled", "c in 0..2", kit.compute(program, "S1", "g, 2*l + c", "s[2*l + c]")),
        kit.loop("unrolled", "c in 0..2", kit.compute(
            program, "S2", "g, 2*l + c", "b[g, 2*l + c]",
            {"t": ["s[2*l + c]", f"s[(2*l + c + {reach}) % 64]"]})),
    ))  # fmt: skip
    made = tree("lanes", "gpu", buffers, launch("lanes_0", nest))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        t = given["a"] * 2
        return {"b": t + np.roll(t, -1, axis=1)}

    return Example(program, made, {"N": 2}, expected)


def chained(
    waited: str = "g - 1", value: str = "1", raised: str = "1", awaits: bool = True,
    raises: str = "after", reads: str = "g - 1", flag: str = "g", size: str = "N + 1",
) -> Example:
    """Running sums, a block each row: block g waits for the flag of block g - 1, whose sums it
    adds to; four threads a block."""
    kit = Kit()
    kit.declare("a b")
    kernel = kit.kernel(
        "chained", "in a[N + 1, 4]; out b[N + 1, 4]",
        kit.for_("j in 0..4", kit.store("S1", "b[0, j] = a[0, j]")),
        kit.for_("i in 1..N + 1", kit.for_("k in 0..4", kit.store("S2", "b[i, k] = b[i-1, k] + a[i, k]"))),
    )  # fmt: skip
    program = _model(kernel)
    flags = kit.buffer("flag", size, Global(), array="", zeroed=True, dtype=DType.I32)
    raise_ = Raise(kit.load(f"flag[{flag}]"), kit.ex(raised))
    add: TreeNode = kit.compute(
        program, "S2", "g, t", "b[g, t]", {"b": lambda i, j: f"b[{reads}, {j}]"})  # fmt: skip
    wait = Await(kit.load(f"flag[{waited}]"), kit.ex(value))
    body: list[TreeNode] = [
        kit.guard("g == 0", kit.compute(program, "S1", "t", "b[0, t]")),
        kit.guard("g >= 1", *([wait] if awaits else []), add),
    ]
    if raises:
        body.insert(2 if raises == "after" else 0, raise_)
    made = tree("chained", "gpu", [*kit.arguments(kernel), flags], launch("chained_0", kit.loop(
        "grid", "g in 0..N + 1", kit.loop("block", "t in 0..4", *body))))  # fmt: skip

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"b": np.cumsum(given["a"], axis=0)}

    return Example(program, made, {"N": 5}, expected)


def cluster(barrier: bool = True, rank: str = "1 - c", scope: str = "cluster", parts: str = "2") -> Example:
    """Two blocks of a cluster, each with half a row in shared memory, read each other's."""
    kit = Kit()
    temp = kit.temp("t", "N, 8")
    kit.declare("a b")
    kernel = kit.kernel(
        "cluster", "in a[N, 8]; out b[N, 8]", temp,
        kit.for_("i in 0..N", kit.for_("j in 0..8", kit.store("S1", "t[i, j] = a[i, j] * 2.0"))),
        kit.for_("k in 0..N", kit.for_("l in 0..8", kit.store("S2", "b[k, l] = t[k, 7 - l] + 1.0"))),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel),
               kit.buffer("d", f"{parts}, 4", DistributedShared(), array="t")]  # fmt: skip
    body: list[TreeNode] = [kit.compute(program, "S1", "g, 4*c + x", "d[c, x]")]
    if barrier:
        body.append(Barrier(scope))
    body.append(kit.compute(
        program, "S2", "g, 4*c + x", "b[g, 4*c + x]", {"t": f"d[{rank}, 3 - x]"}))  # fmt: skip
    made = tree("cluster", "gpu", buffers, launch("cluster_0", kit.loop(
        "grid", "g in 0..N", kit.loop("cluster", "c in 0..2", kit.loop("block", "x in 0..4", *body)))))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"b": given["a"][:, ::-1] * 2 + 1}

    return Example(program, made, {"N": 3}, expected)


def cluster_sum(
    over: tuple[tuple[str, ...], ...] = (("c", "t"),), place: str = "32*c + t", parts: str = "2",
    only: str = "", set_again: bool = False,
) -> Example:
    """The sum of each row by two blocks of a cluster, of a warp each; all threads have it."""
    kit = Kit()
    kit.declare("a b s")
    kernel = kit.kernel(
        "cluster_sum", "in a[N, 64]; out b[N, 64]",
        kit.for_("i in 0..N",
            kit.reduce("S1", "s", "sum", "k in 0..64", "s + a[i, k]"),
            kit.for_("l in 0..64", kit.store("S2", "b[i, l] = a[i, l] * s"))),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("acc", array="s")]
    combines: list[TreeNode] = [replace(kit.combine("sum", "acc", *each), everywhere=True) for each in over]
    body: list[TreeNode] = [
        kit.compute(program, "S1.init", "g", "acc"),
        kit.neutral("acc"),
        kit.compute(program, "S1", f"g, {place}", "acc", {"s": "acc"}),
        *([kit.guard(only, *combines)] if only else combines),
        *([kit.neutral("acc")] if set_again else []),
        kit.compute(program, "S2", "g, 32*c + t", "b[g, 32*c + t]", {"s": "acc"}),
    ]
    made = tree("cluster_sum", "gpu", buffers, launch("cluster_sum_0", kit.loop(
        "grid", "g in 0..N", kit.loop("cluster", f"c in 0..{parts}", kit.loop("block", "t in 0..32", *body)))))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"b": given["a"] * given["a"].sum(1, keepdims=True)}

    return Example(program, made, {"N": 2}, expected)


def chunks(rows: int = 3, halo: int = 1, delay: int = 1, height: str = "4") -> Example:
    """Each worker takes 4 rows, computes the rows of t that they need once, one more above and
    below (the halo), and keeps three of them in a line buffer."""
    kit = Kit()
    temp = kit.temp("t", "4*N + 2, 8")
    kit.declare("a b")
    kernel = kit.kernel(
        "chunks", "in a[4*N + 2, 8]; out b[4*N + 2, 8]", temp,
        kit.for_("i in 0..4*N + 2", kit.for_("j in 0..8", kit.store("S1", "t[i, j] = a[i, j] * 2.0"))),
        kit.for_("k in 1..4*N + 1", kit.for_("l in 0..8", kit.store(
            "S2", "b[k, l] = t[k-1, l] + t[k, l] + t[k+1, l]"))),
    )  # fmt: skip
    program = _model(kernel)
    buffers = [*kit.arguments(kernel), kit.buffer("line", f"{rows}, 8", LineBuffer(rows), array="t")]
    first = f"4*w + {1 - halo}"
    nest = kit.loop("thread", "w in 0..N", kit.loop(
        "serial", f"y in {first}..4*w + {height} + 2",
        kit.loop("serial", "x in 0..8", kit.compute(program, "S1", "y, x", "line[y, x]")),
        kit.guard("y >= 4*w + 2", kit.loop("serial", "x in 0..8", kit.compute(
            program, "S2", f"y - {delay}, x", f"b[y - {delay}, x]",
            {"t": lambda i, j: f"line[{i}, {j}]"}))),
    ))  # fmt: skip
    made = tree("chunks", "cpu", buffers, launch("chunks_0", nest))

    def expected(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        t, b = given["a"] * 2, given["b"].copy()
        b[1:-1] = t[:-2] + t[1:-1] + t[2:]
        return {"b": b}

    return Example(program, made, {"N": 2}, expected)


GOOD: dict[str, Callable[[], Example]] = {
    "pointwise": pointwise,
    "blur": blur,
    "blur_bounds": lambda: blur(guard=""),
    "sliding": sliding,
    "window": window,
    "matmul": matmul,
    "total": total,
    "total_ticket": lambda: total(ticket=True),
    "jacobi": jacobi,
    "tile": tile,
    "tile_copied": lambda: tile(copied=True),
    "tile_loop": tile_loop,
    "lanes": lanes,
    "chained": chained,
    "cluster": cluster,
    "cluster_sum": cluster_sum,
    "chunks": chunks,
}
"""Right trees, by name."""

__all__ = ["GOOD", "Example", "Register"]
