"""Rows of the mutation table on updates at places that depend on data: tables of chunks, a block's copies, and
atomic updates. Chunks and blocks are small here, so that they can be interpreted."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import Binary, Const, Iter, Load, integer
from loopfuse.plan.strategies.histogram import sizes
from loopfuse.tree.looptree import (
    Compute,
    Copy,
    HostLoop,
    HostNode,
    Launch,
    LoopTree,
    Scan,
)
from tests.plan.mutate_edit import (
    Edit,
    all_of,
    before,
    bounds,
    double,
    drop,
    everywhere,
    home,
    put,
    rewrite,
    unguard,
)
from tests.plan.mutate_table import Base, Made, Row, planned

COUNTS = """
kernel f(x: u8[N], w: i32[N], inout h: i32[6]):
    for i in 0..N:
        h[x[i]] += w[i]
"""
PAIRS = """
kernel f(a: u8[N], b: u8[N], w: i32[N], out h: i32[6, 6]):
    for i in 0..6:
        for j in 0..6:
            h[i, j] = 100
    for i in 0..N:
        h[a[i], b[i]] min= w[i] + 10
"""
SUMMED = """
kernel f(x: u8[N], w: i16[N], inout h: i16[6]):
    for i in 0..N:
        h[x[i]] += w[i]
"""
LOOKED_UP = """
kernel f(x: u8[N], out h: i32[6], out y: i32[N]):
    for i in 0..6:
        h[i] = i
    for i in 0..N:
        h[x[i]] += 1
    for i in 0..N:
        y[i] = h[x[i]]
"""
ENDS = """
kernel f(a: u8[N], b: u8[N], out h: i32[6]):
    for i in 0..6:
        h[i] = i
    for i in 0..N:
        h[a[i]] += 1
        h[b[i]] += 3
"""
ROWS_OF = """
kernel f(x: u8[R, N], inout h: i32[R, 6]):
    for r in 0..R:
        for i in 0..N:
            h[r, x[r, i]] += 1
"""
SMALL = {
    "WARPS": 2, "BLOCKS": 3, "SECTOR": 4, "ONE_THREAD": 4, "DIRECT": 16, "DIRECT_BLOCK": 8, "SHORT": 4,
    "ADDING": 2, "MOST_ALONE": 4, "ALONE_SECTOR": 16, "ALONE_SHORT": 4, "SHORT_ROW": 8, "LONG_ROW": 16, "PER_BIN": 1, "CHUNK": 8, "TABLES": 2, "BINS_AT_ONCE": 4,
}  # fmt: skip


@contextmanager
def made_small(values: dict[str, int]) -> Generator[None]:
    """What the strategy's sizes are meanwhile."""
    with ExitStack() as stack:
        for what, value in values.items():
            stack.enter_context(patch.object(sizes, what, value))
        yield


def small(name: str, target: str, text: str, *lengths: int, table: int = sizes.TABLE, rows: int = 0) -> Base:
    """The planner's tree with small chunks and blocks."""
    rest = {"R": rows} if rows else {}
    base = planned(name, target, *({"N": length, **rest} for length in lengths), text=text)

    def make() -> Made:
        with made_small({**SMALL, "TABLE": table}):
            return base.make()

    return replace(base, make=cache(make))


BASES = [
    small("counts", "cpu", COUNTS, 3, 16, 37),
    small("counts", "sm_90", COUNTS, 3, 13, 300, 900),
    small("two keys", "cpu", PAIRS, 90),
    small("two keys", "sm_90", PAIRS, 300, table=8 * 36 * 4),
    small("alone", "sm_90", SUMMED, 3, 130, 900),
    small("looked up", "cpu", LOOKED_UP, 3, 40),
    small("looked up", "sm_90", LOOKED_UP, 3, 13, 300),
    small("by rows", "sm_90", ROWS_OF, 5, 48, 300, rows=2),
    small("ends", "cpu", ENDS, 3, 37),
    small("ends", "sm_90", ENDS, 13, 300),
]
CPU, GPU, PAIRS_CPU, PAIRS_GPU, SUMS, LOOKED_CPU, LOOKED_GPU, BY_ROWS, ENDS_CPU, ENDS_GPU = (base.name for base in BASES)


def plain(at: str, nth: int = 0) -> Edit:
    """An update is no longer one step."""
    return put(at, lambda node: (replace(node, atomic=False),), nth)


def other(at: str, op: str = "max", nth: int = 0) -> Edit:
    """Added by another operation."""
    return put(at, lambda node: (replace(node, op=op),), nth)


def neutral(at: str, value: int, nth: int = 0) -> Edit:
    """A Copy brings another value."""
    return put(at, lambda node: (Copy(node.target, Const(value, node.target.dtype)),), nth)


def in_result(at: str, lead: int, nth: int = 0) -> Edit:
    """The update goes to the result itself: `lead` subscripts are left out."""

    def moved(load: Load) -> Load:
        return Load("h", load.index[lead:], load.dtype)

    def edit(node: Compute) -> tuple[Compute]:
        assert isinstance(node.value, Binary) and isinstance(node.value.left, Load)
        return (replace(node, target=moved(node.target), value=replace(node.value, left=moved(node.value.left))),)

    return put(at, edit, nth)


def in_table(at: str, lane: str) -> Edit:
    """The update goes to the table of another lane."""

    def moved(load: Load) -> Load:
        return Load(load.array, (integer(int(lane)), *load.index[1:]), load.dtype)

    def edit(node: Compute) -> tuple[Compute]:
        assert isinstance(node.value, Binary) and isinstance(node.value.left, Load)
        return (replace(node, target=moved(node.target), value=replace(node.value, left=moved(node.value.left))),)

    return put(at, edit)


def looked(last: int, first: int) -> Edit:
    """What stands last among all that the host does stands elsewhere."""

    def edit(tree: LoopTree) -> LoopTree:
        nodes = list(tree.body)
        nodes.insert(first, nodes.pop(last))
        return replace(tree, body=tuple(nodes))

    return edit


def twice(number: int) -> Edit:
    """What the host does there it does again."""

    def renamed(node: HostNode) -> HostNode:
        if isinstance(node, Launch):
            return replace(node, name=f"{node.name}_again")
        return replace(node, var=f"{node.var}_again", body=tuple(map(renamed, node.body)))

    return lambda tree: replace(tree, body=(*tree.body[: number + 1], renamed(tree.body[number]), *tree.body[number + 1 :]))


def combined(nodes: list[HostNode], change: str) -> list[HostNode]:
    at = next(k for k, node in enumerate(nodes) if isinstance(node, Launch) and node.name.endswith("_b"))
    match change:
        case "swapped":
            nodes[at - 1], nodes[at] = nodes[at], nodes[at - 1]
        case "twice":
            nodes.insert(at, replace(nodes[at], name="again"))
        case _:
            del nodes[at]
    return nodes


def added(change: str) -> Edit:
    """The launch that adds tables to the result: changed."""

    def host(nodes: tuple[HostNode, ...]) -> tuple[HostNode, ...]:
        if any(isinstance(node, Launch) and node.name.endswith("_b") for node in nodes):
            return tuple(combined(list(nodes), change))
        return tuple(replace(n, body=host(n.body)) if isinstance(n, HostLoop) else n for n in nodes)

    return lambda tree: replace(tree, body=host(tree.body))



def whole_row(tree: LoopTree) -> LoopTree:
    """Copies of a bin are scanned, not combined."""
    return put("combine sum h_bin", lambda node: (Scan(node.op, node.buffer, node.over),))(tree)


def cleared() -> tuple[Copy]:
    """A lane's copy of the first bin."""
    place = Load("h_table", (Iter("lane_1"), integer(0)), DType.I32)
    return (Copy(place, Const(0, DType.I32)),)


TURNS = "threads take turns where the interpreter runs them, never within an update"
CLAIM = "it says that it is another's, and does the right thing"
AGAIN = "the least of one value twice is the same"
ONE, SIXTEEN, THIRTY_THREE = integer(1), integer(16), integer(33)

ROWS = [
    # A CPU: tables of chunks.
    Row("table not cleared", CPU, "each table starts from what was in memory", drop("copy h_table[c, t, b] = 0")),
    Row("one of the tables not cleared", CPU, "t from 1", bounds("t", lower="1")),
    Row("table starts from one", CPU, "each element counts one more", neutral("copy h_table[c, t, b] = 0", 1)),
    Row("table cleared but for a bin", CPU, "b from 1", bounds("b", lower="1")),
    Row("table of the next chunk cleared", CPU, "c + 1", rewrite("copy h_table[c, t, b]", "c", "c + 1")),
    Row("first iterations left out", CPU, "k from 1", bounds("k", lower="1")),
    Row("an iteration of each round left out", CPU, "t_2 from 1", bounds("t_2", lower="1")),
    Row("iterations counted twice", CPU, "each update of a round twice", double("S1[c * 8 + k * 2")),
    Row("rest counted twice", CPU, "each update of the rest twice", double("S1[i_1]")),
    Row("rest left out", CPU, "no rest", drop("S1[i_1]")),
    Row("chunks overlap", CPU, "a chunk starts one early", bounds("i_1", lower="c * 8 - 1")),
    Row("another's value", CPU, "the weight of the first iteration", rewrite("S1[i_1]", "w[i_1]", "w[0]")),
    Row("another's bin", CPU, "the bin of the first iteration", rewrite("S1[i_1]", "x[i_1]", "x[0]")),
    Row("another's iteration", CPU, "the iteration before again", rewrite("S1[c * 8", "k * 2", "k * 2 - 1")),
    Row("updates of the result itself", CPU, "by all workers at once", in_result("S1[c * 8", 2), TURNS),
    Row("updates of the next table", CPU, "the table of another chunk", rewrite("S1[i_1]", "c", "c + 1")),
    Row("updates of a table that nobody adds", CPU, "the last iterations to table 1, behind the folds",
        all_of(rewrite("S1[i_1]", "0", "1"), drop("fold sum h_table[c, 0"))),
    Row("one of the tables not added", CPU, "the chunk's tables stay apart", drop("fold sum h_table[c, 0, b_1]")),
    Row("table added twice", CPU, "the chunk's second table goes in twice", double("fold sum h_table[c, 0, b_1]")),
    Row("another bin added", CPU, "the bins of the second table backwards",
        rewrite("fold sum h_table[c, 0, b_1]", "h_table[c, t_1, b_1]", "h_table[c, t_1, 5 - b_1]")),
    Row("added to another bin", CPU, "the bins of the result backwards",
        rewrite("fold sum h[b_2]", "h[b_2]", "h[5 - b_2]")),
    Row("a bin left out", CPU, "the first of each worker's",  bounds("b_2", lower="p * 4 + 1")),
    Row("first chunk left out", CPU, "c_1 from 1", bounds("c_1", lower="1")),
    Row("first chunk added twice", CPU, "and no other", rewrite("fold sum h[b_2]", "c_1", "0")),
    Row("a chunk added twice", CPU, "each chunk goes in twice", double("fold sum h[b_2]")),
    Row("second table added", CPU, "what is in table 1 alone", rewrite("fold sum h[b_2]", "0", "1")),
    Row("added by another operation", CPU, "the greatest, not the sum", other("fold sum h[b_2]")),
    Row("tables added by another operation", CPU, "the greatest, not the sum", other("fold sum h_table[c, 0")),
    Row("added before it is counted", CPU, "the launches exchanged", added("swapped")),
    Row("tables added in two launches", CPU, "the same twice", added("twice")),
    Row("tables never added", CPU, "the launch is missing", added("missing")),
    Row("folded before it is counted", CPU, "the chunk's tables are added before the rest",
        before("serial for b_1", "serial for k")),
    Row("workers share bins", CPU, "b_2 from 0: two workers add to one element", bounds("b_2", lower="0")),
    Row("workers share tables", CPU, "one table for all chunks", everywhere("c", "0")),
    Row("table too short", CPU, "room for a chunk less", home("h_table", "(N - 1) // 8, 2, 6")),
    # A GPU: a block's table, atomic updates.
    Row("direct updates in two steps", GPU, "threads read, then write", plain("S1[ib * 8 + it]"), TURNS),
    Row("direct update left out", GPU, "the first of each block", bounds("it", upper="7")),
    Row("direct updates twice", GPU, "each twice", double("S1[ib * 8 + it]")),
    Row("block's updates in two steps", GPU, "warps read, then write", plain("atomic S1[e +"), TURNS),
    Row("slow way's updates in two steps", GPU, "warps read, then write", plain("atomic S1[e +", 1), TURNS),
    Row("added in two steps", GPU, "blocks read, then write", plain("atomic fold sum h["), TURNS),
    Row("block's table not cleared", GPU, "it starts from what was there", drop("copy h_table")),
    Row("block's table cleared but for a bin", GPU, "j from 1", bounds("j", lower="1")),
    Row("block's table cleared in every turn", GPU, "what was counted is lost",
        put("serial for k", lambda node: (replace(node, body=(*cleared(), *node.body)),))),
    Row("no barrier behind the clearing", GPU, "a warp counts before another clears", drop("barrier block")),
    Row("no barrier before the adding", GPU, "a warp adds before another has counted", drop("barrier block", 1)),
    Row("barrier of a warp", GPU, "warps do not wait for each other",
        put("barrier block", lambda node: (replace(node, scope="warp"),), 1), TURNS),
    Row("block's last turn left out", GPU, "a turn less", bounds("k", upper="(N + 767) // 768 - 1")),
    Row("thread's first left out", GPU, "e from 1", bounds("e", lower="1")),
    Row("slow way's first left out", GPU, "e from 1", bounds("e", lower="1", nth=1)),
    Row("slow way beyond the end", GPU, "what is not there counts", unguard("if e + ib_1 * 256")),
    Row("fast way beyond the end", GPU, "the last block's whole rows", rewrite("if aligned", "N", "N + 300")),
    Row("both ways", GPU, "the slow way always", put("if aligned", lambda node: (*node.then, *node.otherwise))),
    Row("element of another row", GPU, "x of the thread before", rewrite("copy x_row", "lane_1 * 4", "lane_1 * 4 - 4")),
    Row("first element for all", GPU, "x_row[0]", rewrite("atomic S1[e +", "x_row[e]", "x_row[0]")),
    Row("copies left out", GPU, "c from 1", bounds("c", lower="1")),
    Row("copies added twice", GPU, "each goes in twice", double("fold sum h_bin[], h_table")),
    Row("copies added by another operation", GPU, "the greatest", other("fold sum h_bin[], h_table")),
    Row("first copy for all", GPU, "the first lane's 32 times", rewrite("fold sum h_bin[], h_table", "(lane_1 + c) % 32", "0")),
    Row("copies as far as they go", GPU, "without the turn: beyond the last", rewrite("fold sum h_bin[], h_table", "(lane_1 + c) % 32", "lane_1 + c")),
    Row("copies of another bin", GPU, "backwards", rewrite("fold sum h_bin[], h_table", "j_1 * 64 + lane_1 + w_1 * 32", "5 - j_1 * 64 - lane_1 - w_1 * 32")),
    Row("sum not set to neutral", GPU, "it starts from what is in a register", drop("copy h_bin[] = 0")),
    Row("start counted by each block", GPU, "the sum starts from the result", rewrite("copy h_bin[]", "0i32", "h[j_1 * 64 + lane_1 + w_1 * 32]")),
    Row("threads beyond the bins", GPU, "they add too", unguard("if j_1 * 64")),
    Row("block's table added twice", GPU, "each bin twice", double("atomic fold sum h[")),
    Row("block's table not added", GPU, "nothing is counted", drop("atomic fold sum h[")),
    Row("block's bins to others", GPU, "backwards", rewrite("atomic fold sum h[", "j_1 * 64 + lane_1 + w_1 * 32", "5 - j_1 * 64 - lane_1 - w_1 * 32")),
    Row("block's bins left out", GPU, "the first", rewrite("if j_1 * 64", "j_1 * 64 + lane_1 + w_1 * 32", "j_1 * 64 + lane_1 + w_1 * 32 + 1")),
    Row("added by another operation", GPU, "the greatest", other("atomic fold sum h[")),
    Row("one copy cleared", GPU, "by all lanes", rewrite("copy h_table", "lane_1", "0")),
    Row("copies overlap in memory", GPU, "strides 1, 16", home("h_table", strides=(ONE, SIXTEEN))),
    Row("copies apart in memory", GPU, "strides 1, 33: beyond the end", home("h_table", strides=(ONE, THIRTY_THREE))),
    # Several subscripts.
    Row("subscripts exchanged", PAIRS_CPU, "bins of the transposed", rewrite("fold min h[", "h[b_5, b_6]", "h[b_6, b_5]")),
    Row("subscripts of the tables exchanged", PAIRS_CPU, "bins of the transposed",
        rewrite("fold min h_table[c, 0", "h_table[c, t_1, b_3, b_4]", "h_table[c, t_1, b_4, b_3]")),
    Row("neutral element of another operation", PAIRS_CPU, "0", neutral("copy h_table[c, t, b_1, b_2]", 0)),
    Row("neutral element of another operation", PAIRS_GPU, "0", neutral("copy h_table", 0)),
    Row("copy left out", PAIRS_GPU, "c from 1", bounds("c", lower="1")),
    Row("copy added twice", PAIRS_GPU, "c to 9", bounds("c", upper="9"), AGAIN),
    Row("result set afterwards", PAIRS_CPU, "the launches exchanged",
        lambda tree: replace(tree, body=(*tree.body[1:], tree.body[0]))),
    Row("a result not set", PAIRS_CPU, "from 1", bounds("i", lower="1")),
    # A GPU: tables of a thread's own, nothing atomic.
    Row("lanes share a table", SUMS, "all have the first lane's", everywhere("h_table[lane_1, j + w_1]", "h_table[0, j + w_1]")),
    Row("update of another lane's table", SUMS, "the first lane's", in_table("S1[e +", "0")),
    Row("blocks share what they leave", SUMS, "one place for all", rewrite("copy h_partial", "ib", "0")),
    Row("a lane's table not cleared", SUMS, "it starts from what was there", drop("copy h_table")),
    Row("a lane's first left out", SUMS, "e from 1", bounds("e", lower="1")),
    Row("lanes not combined", SUMS, "the first lane's table alone", drop("combine sum h_bin over lane")),
    Row("lanes combined twice", SUMS, "sums of what is undefined", double("combine sum h_bin over lane")),
    Row("lanes combined by another operation", SUMS, "the greatest", other("combine sum h_bin over lane")),
    Row("lanes scanned", SUMS, "what lanes before have", whole_row),
    Row("all lanes leave it", SUMS, "what is undefined too", unguard("if lane_1 == 0")),
    Row("a block's left out", SUMS, "each second block", bounds("k_1", lower="1")),
    Row("blocks that there are not", SUMS, "what was in memory is added", unguard("if k_1 * 2")),
    Row("blocks not combined", SUMS, "the first thread's alone", drop("combine sum h_bin_1")),
    Row("total added by all threads", SUMS, "each adds", unguard("if t == 0")),
    Row("another bin's total", SUMS, "backwards", rewrite("fold sum h[b]", "h[b]", "h[5 - b]")),
    Row("another bin's partial results", SUMS, "backwards", rewrite("fold sum h_bin_1", "h_partial[k_1 * 2 + t, b]", "h_partial[k_1 * 2 + t, 5 - b]")),
    Row("not set to neutral", SUMS, "sums start from what is in registers", drop("copy h_bin_1")),
    Row("totals before they are there", SUMS, "the launches exchanged", added("swapped")),
    Row("totals twice", SUMS, "the same launch again", added("twice")),
    # What is counted, read wherever data say.
    Row("looked up before it is counted", LOOKED_CPU, "the last launch first", looked(-1, 1)),
    Row("looked up before it is set", LOOKED_CPU, "the last launch first of all", looked(-1, 0)),
    Row("looked up for another", LOOKED_CPU, "at the place of the first", rewrite("S3[", "x[i_2]", "x[0]")),
    Row("looked up in a block's time", LOOKED_GPU, "the last launch first", looked(-1, 1)),
    Row("another row's count", BY_ROWS, "added to the first row", rewrite("atomic fold sum h[", "r_3", "0", 1)),
    Row("another row's bins", BY_ROWS, "of the first row", rewrite("copy x_row", "r_3", "0", 1)),
    Row("iterations of the first row", BY_ROWS, "in each row", rewrite("atomic S1[r_3", "r_3", "0"), CLAIM),
    Row("a row left out", BY_ROWS, "r_3 from 1", bounds("r_3", lower="1")),
    Row("a row's update in two steps", BY_ROWS, "warps read, then write", plain("atomic S1[r_3"), TURNS),
    # Two updates of one array.
    Row("second update left out", ENDS_CPU, "of whole rounds", drop("S3[c * 8")),
    Row("first update left out", ENDS_CPU, "of the rest", drop("S2[i_1")),
    Row("second update of the first bin", ENDS_CPU, "b for a", rewrite("S3[c * 8", "b[c * 8 + k * 2 + t_2]", "a[c * 8 + k * 2 + t_2]")),
    Row("first update twice", ENDS_GPU, "in the fast way", double("atomic S2[e")),
    Row("second update in two steps", ENDS_GPU, "warps read, then write", plain("atomic S3[e"), TURNS),
    Row("updates set afterwards", ENDS_GPU, "the first launch last", looked(0, 9)),
    Row("counted again", LOOKED_GPU, "the last way twice", twice(3)),
]
