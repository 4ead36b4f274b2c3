"""LoopTree: mapped loops, the last IR before MLIR.

A tree says exactly what runs where and where every value lives; nothing below it decides
anything. Expressions are the core's (`lang.nodes`), with these differences: an `Iter` names a
tree loop's variable, a `Load` names a *buffer* and has no edge mode and no swap.

Grammar::

    tree    = buffers, host*
    host    = HostLoop var lower upper step turns host* | Launch name body
    node    = Loop var lower upper step mapping node* | Guard condition node* node*
            | Compute statement iteration target value | Copy target value
            | Fold op target value | Combine op buffer over everywhere | Scan op buffer over | Barrier scope
            | Raise flag | Await flag | Ticket counter node* | Prefetch source | Arrive pending

A Launch's body is one chain of loops mapped GRID (then CLUSTER, BLOCK, WARP, LANE as needed) on
the GPU, or THREAD on the CPU, each alone in its parent, and then anything that is not one of
those. GRID and THREAD loops have any affine bounds; their product is linearised into one launch
dimension. CLUSTER, BLOCK, WARP and LANE loops run from 0 to a constant; UNROLLED and VECTOR too. A
cluster has at most 8 blocks. A ROTATED or SHIFTED loop steps by 1 from 0 to a multiple of the rows
of every Window that its body indexes with it. Within a SHIFTED loop a Window that moves with it
moves one row a step, everywhere.

A STRADDLED loop runs over a lane's V elements of memory that lie between the V of the lane before
and those of the lane after it, wherever they start. Its body is one Copy, or a Guard around it:
from memory to a row of a Window, from such a row to itself, or to memory. A warp takes part
together and moves its row as a whole; a load may touch up to a vector beyond the elements of
the warp on both sides, which the array must have; a store touches nothing else. A row that a
STRADDLED loop loads has its elements in their places only after the STRADDLED loop that copies it
to itself: nothing else touches it before.

A SPREAD loop runs over a lane's V elements too. Its body is late Copies, or Guards around them and
around Copies to the same places. A lane may make another's, so that neighbouring lanes take
neighbours in memory: what has come is every lane's own only behind a Barrier of the warp, and asked
for again only behind another.

Threads of a launch run in any order except where a Barrier, Combine, Scan, shuffle (a Lanes buffer
read across lanes) or flag orders them. GRID iterations are independent unless flags say so.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import cached_property

from loopfuse.base.dtypes import DType
from loopfuse.base.machine import LANES
from loopfuse.lang.nodes import Expr, Load, Symbol
from loopfuse.tree.layout import Digit, Layout, Level

ALIGNED = Symbol("aligned", DType.BOOL)
"""True when every array argument of the call starts on a 16-byte boundary (set by the caller)."""

RESIDENT = Symbol("resident?", DType.BOOL)
"""True where the arrays of the call are taken to stay in a CPU's caches from one launch to the next: what
`LoopTree.resident` says. Bounds of host loops alone ask for it, to choose between two ways of which each does all
there is to do."""


ATOMIC_OPERATIONS = ("sum", "min", "max")
ATOMIC_TYPES = (DType.I32, DType.U32, DType.I64, DType.U64)
"""What is updated atomically, and how: whole numbers, of which no order of the updates shows."""

LATE_BYTES = (4, 8)
"""Sizes of the elements that late copies move (a GPU's `cp.async`)."""


class Mapping(enum.Enum):
    """Who runs the iterations of a loop."""

    GRID = "grid"  # one block each
    CLUSTER = "cluster"  # one block of the cluster each
    BLOCK = "block"  # one thread (or warp, if a LANE loop is inside) of the block each
    WARP = "warp"  # one warp of the block each
    LANE = "lane"  # one lane of the warp each, 0..32
    THREAD = "thread"  # a CPU worker takes a run of consecutive iterations
    SERIAL = "serial"  # in order, by one thread
    ROTATED = "rotated"  # as SERIAL, unrolled until the rows of every Window have constant places;
    # rows of a LineBuffer need no such place
    SHIFTED = "shifted"  # as ROTATED, written once: behind each step the rows of every Window move up by one
    UNROLLED = "unrolled"  # as SERIAL, written out; constant bounds
    VECTOR = "vector"  # as SERIAL, all at once in SIMD lanes; constant bounds, no dependence
    STRADDLED = "straddled"  # as VECTOR, over neighbours in memory that may straddle vectors
    SPREAD = "spread"  # as UNROLLED, over late copies that the lanes of a warp make for each other

    @property
    def is_parallel(self) -> bool:
        """Iterations run in no given order, by different threads."""
        return self not in (Mapping.SERIAL, *STREAMED, *WRITTEN_OUT)


STREAMED = (Mapping.ROTATED, Mapping.SHIFTED)
"""Loops along which Windows come round: what they mean is the same, how they are compiled is not."""

WRITTEN_OUT = (Mapping.UNROLLED, Mapping.VECTOR, Mapping.STRADDLED, Mapping.SPREAD)
"""Loops with constant bounds whose iterations are all in the text: their variables are constants."""


def straddled_elements(dtype: DType, columns: int) -> int:
    """How many elements an aligned vector of a STRADDLED loop over `columns` of them has: 16 bytes,
    or all of them. It loads from less than that before a lane's elements on, and up to that behind
    them."""
    return min(max(1, 16 // dtype.bytes), columns)


# ------------------------------------------------------------------------------------ homes


@dataclass(frozen=True, slots=True)
class Register:
    """Each thread has its own copy, in registers. Every index must be constant once UNROLLED and
    VECTOR loops are expanded; a 0-d buffer is one register."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """A strip of 32 * `columns` elements held by a warp, `columns` a lane: element x lives in lane
    x // columns. A lane writes only its own; reading another lane's element is a shuffle, in
    which the whole warp takes part."""

    columns: int


@dataclass(frozen=True, slots=True)
class Window:
    """`rows` rows of Lanes (`columns` > 0) or of registers (`columns` == 0): the first index is
    taken modulo `rows`, in a STREAMED (or UNROLLED) loop so that it is constant."""

    rows: int
    columns: int = 0


@dataclass(frozen=True, slots=True)
class Shared:
    """One copy a block, in shared memory; constant extents. `rows` > 0: the first index is taken
    modulo `rows`, as a Window's is."""

    rows: int = 0


@dataclass(frozen=True, slots=True)
class DistributedShared:
    """One copy a cluster, cut along the first dimension over its blocks' shared memories."""


@dataclass(frozen=True, slots=True)
class LineBuffer:
    """One copy a CPU worker, `rows` rows (first index modulo `rows`); small enough for a cache."""

    rows: int


@dataclass(frozen=True, slots=True)
class Global:
    """Device (or main) memory: an argument's array, or a workspace the runtime provides."""


Home = Register | Lanes | Window | Shared | DistributedShared | LineBuffer | Global


def layout_of(home: Home) -> Layout:
    """Who holds which element, and what comes round: of the first index and the last. (No digits: whoever has a copy has
    all of it. The blocks of a cluster are as many as the buffer's first extent says.)"""
    match home:
        case Lanes(columns=columns):
            return Layout(_strip(0, columns))
        case Window(rows=rows, columns=columns) if columns:
            return Layout((Digit(0, Level.SLOT, rows), *_strip(1, columns)), (rows,))
        case Window(rows=rows) | LineBuffer(rows=rows) | Shared(rows=rows) if rows:
            return Layout((Digit(0, Level.SLOT, rows),), (rows,))
        case _:
            return Layout(())


def _strip(dim: int, columns: int) -> tuple[Digit, ...]:
    return Digit(dim, Level.LANE, LANES), Digit(dim, Level.SLOT, columns)


def strip_of(home: Home) -> Layout | None:
    """The layout of elements that the lanes of a warp hold for each other; None where no lane has another's."""
    layout = layout_of(home)
    return layout if layout.count(Level.LANE) > 1 else None


def columns_of(home: Home) -> int:
    """How many neighbours of a row a lane holds; 0 where no lane has another's."""
    strip = strip_of(home)
    return 0 if strip is None else strip.count(Level.SLOT, len(strip.rings))


def owns_lane(strip: Layout, load: Load, lane: str, ranges: dict[str, tuple[int, int]]) -> bool:
    """Is the element always one of lane `lane`'s own?"""
    return strip.owns(Level.LANE, lane, len(strip.rings), load.index[-1], ranges)


def modulus_of(home: Home) -> int:
    """What the first index is taken modulo; 0 where it is not."""
    return layout_of(home).ring(0)


def print_home(home: Home) -> str:
    """The home as reports print it: `register`, `window(5)`, `shared`, ..."""
    match home:
        case Register():
            return "register"
        case Lanes():
            return "lanes"
        case Window(rows=rows):
            return f"window({rows})"
        case Shared():
            return "shared"
        case DistributedShared():
            return "distributed"
        case LineBuffer(rows=rows):
            return f"line({rows})"
        case Global():
            return "global"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage in a tree. `array` is the program array whose values it holds ("" for partial
    results and flags). `extents` are in sizes (Global) or constants (every other home).
    `argument`: it is the caller's array `array` itself, not a workspace. `zeroed`: the runtime
    (Global) or the owner (others) sets it to zero before the launch sequence starts. `strides`:
    how many elements apart neighbours along each dimension lie (an argument that is a view, or a Shared
    buffer whose dimensions lie in another order); None: row-major without gaps. `copies`: how many of the first dimensions tell copies of the array apart, one
    for each iteration of loops around. `factors`: it holds linear maps, `x -> f * x + v`: v here, f in the buffer of that
    name, which is like it. `turns`: no memory of its own: in iteration k of the
    HostLoop that it turns with, it is the k-th of these (Global, each of the same extents)."""

    name: str
    array: str
    dtype: DType
    extents: tuple[Expr, ...]
    home: Home
    argument: bool = False
    zeroed: bool = False
    strides: tuple[Expr, ...] | None = None
    copies: int = 0
    turns: tuple[str, ...] = ()
    factors: str = ""


LINEAR = "linear"
"""The operation of folds of linear maps: one map, then another."""

# ------------------------------------------------------------------------------------ nodes


@dataclass(frozen=True, slots=True)
class Loop:
    """`var` = lower, lower + step, ... before upper (step > 0, half open), run as `mapping` says."""

    var: str
    lower: Expr
    upper: Expr
    step: int
    mapping: Mapping
    body: tuple[TreeNode, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """Runs `then` where `condition` (affine in loop variables and symbols, or ALIGNED) holds,
    `otherwise` elsewhere. `predicated`: what `then` computes (from registers, by what cannot fault) it computes anyway, and
    only what it writes asks the condition: one that nearly always holds, or of a VECTOR loop one that lanes answer each
    for itself."""

    condition: Expr
    then: tuple[TreeNode, ...]
    otherwise: tuple[TreeNode, ...] = ()
    predicated: bool = False


@dataclass(frozen=True, slots=True)
class Compute:
    """Runs one instance of a program statement: `iteration` gives its iterators (outermost first)
    in terms of loop variables and symbols; `value` is the statement's value with each iterator
    replaced by that and each Load redirected to a buffer (the k-th Load of value, in order, is
    the k-th read of the statement); the result goes to `target`. With a `predicate` (redirected
    likewise; its Loads come first) the target is written only where it holds. An instance may
    run several times (recomputation), into different buffers. `atomic`: the value is the target's own, updated
    (`atomic_update`); reading and writing it are one step, which no other thread's atomic update comes between."""

    statement: str
    iteration: tuple[Expr, ...]
    target: Load
    value: Expr
    predicate: Expr | None = None
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """`target = value`: moves a value between buffers (`value` a Load), or sets an accumulator to
    its neutral element (`value` a Const; a map to the one that changes nothing: 0). `late`: from Global to Shared memory, by itself: it is
    begun here, and has come once an Arrive says so. Until then nothing else touches the target, and
    only its own thread does then; nothing writes the source."""

    target: Load
    value: Expr
    late: bool = False


@dataclass(frozen=True, slots=True)
class Arrive:
    """The late copies that the thread began since the last Arrive are a group; waits until all
    its groups but the last `pending` have come."""

    pending: int


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Asks for the cache line of an element of Global memory, which is soon read; changes nothing."""

    source: Load


@dataclass(frozen=True, slots=True)
class Fold:
    """`target = op(target, value)`: adds a partial result (`value` a Load) of a reduction. `op`:
    sum prod min max and or linear. By `linear`, `value` is a map and `target` one that comes before it, or a number that it is
    applied to (`tree.rewrite.maps`). `atomic`: in one step, as an atomic Compute."""

    op: str
    target: Load
    value: Load
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Combine:
    """A collective: the copies that the iterations of the loops `over` (BLOCK, WARP or LANE, n
    threads together, numbered with the last loop fastest) hold of register buffer `buffer` are
    reduced into the copy of the first; the other copies are undefined afterwards, or, where it is
    `everywhere` (n a multiple or a divisor of 32), equal to it. `over` may be a whole cluster: its
    CLUSTER loops and all loops inside, or 32 threads of the outer ones; then it is `everywhere`, and a block has whole warps.

    The order is part of the meaning: with x[t] the copy of thread t (threads past n hold the
    neutral element), each group of 32 runs `for d in 16, 8, 4, 2, 1: x[t] = op(x[t], x[t+d])` for
    t < d. Then the groups' results, g[0], g[1], ..., padded to a multiple of 32, are 32: `g[t] =
    op(g[t], g[t+32])`, then with g[t+64] and so on, for t < 32; and these are reduced as a group
    is. Contains the barriers it needs.

    Linear maps (`op` linear) are taken in the order of threads, within a block: a group of 32 runs `for d in 1, 2, 4, 8, 16`,
    and x[t] comes before x[t+d]."""

    op: str
    buffer: str
    over: tuple[str, ...]
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class Scan:
    """A collective: of the copies that the iterations of the loops `over` (BLOCK, WARP or LANE, n threads together,
    numbered with the last loop fastest; whole warps, n <= 1024) hold of register buffer `buffer`, each becomes
    what those of the threads before it make together: the neutral element for the first thread, never the own.

    The order is part of the meaning: with x[t] the copy of thread t, each group of 32 runs `for d in 1, 2, 4, 8, 16:
    x[t] = op(x[t-d], x[t])` for t >= d, all t at once; so does each group's last, as one group padded with the
    neutral element. Then the copy of thread t of group g becomes op(what groups before g make, what threads of
    g before t make), each the neutral element where there are none. Contains the barriers it needs.

    `over` may be the last GRID loop, an UNROLLED loop around this node alone, and all BLOCK loops: then the threads of all blocks along
    the first are scanned, those of a block for each iteration k in turn, of element [k] (`index`) of the buffer. (The UNROLLED loop may
    be left out, where the buffer is 0-d.) In an iteration threads are scanned as above, and m[k] is what their groups make; s[k] = op(s[k-1], m[k-1]), s[1] = m[0], is
    what those before k make, and what all make is the block's. Blocks are CHAIN at a time: what the
    blocks before b of its CHAIN make is reduced as Combine has it, with x[t] that of the t-th of them (the neutral element from b on), and each CHAIN
    has the result of all before it, p' = op(p, op(what its blocks before the last make, what its last makes)), the first the neutral element. With
    a = op(p, what blocks before b of its CHAIN make) and e what threads before it make, a copy becomes op(a, e) for k = 0, and op(a, op(s[k], e)) then.

    Blocks hand these on through `words`, zeroed Global memory (`chains`) that nothing else touches. In such a launch they take
    their numbers in the order in which they start, so that those that are waited for have."""

    op: str
    buffer: str
    over: tuple[str, ...]
    words: str = ""
    index: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Barrier:
    """Threads of `scope` (warp, block, cluster) wait for each other; writes before it are seen
    after it. Every thread of the scope reaches it."""

    scope: str


@dataclass(frozen=True, slots=True)
class Raise:
    """Release-stores `value` to the grid flag `flag` (a Load of a zeroed Global i32 buffer), after
    the block's writes."""

    flag: Load
    value: Expr


@dataclass(frozen=True, slots=True)
class Await:
    """Waits until the grid flag is at least `value`; the raiser's writes are then visible. Only a
    block with a smaller ticket or GRID index may be waited for."""

    flag: Load
    value: Expr


@dataclass(frozen=True, slots=True)
class Ticket:
    """The block takes a number from the zeroed Global i32 `counter`; the one that takes the last
    (`count` - 1) runs `body` and sets the counter back to zero. All other blocks' writes are
    visible in `body`."""

    counter: Load
    count: Expr
    body: tuple[TreeNode, ...]


@dataclass(frozen=True, slots=True)
class Running:
    """A reduction and sums of what depends on its result, in one pass over what both go along (`tree.rewrite.running`): `body`
    has the updates of both, a `Rescale` between those of each part of the pass, and one behind the pass, once the result is there. It
    means the two passes one after the other."""

    body: tuple[TreeNode, ...]


@dataclass(frozen=True, slots=True)
class Rescale:
    """In a Running: a thread's `sums` depend on the value `seen`, and are made what they are for another: for what `reference`, the
    thread's part of the reduction `op`, has now; `last`, behind the pass, for `result`.

    max, min: terms are multiples of `exp(e - seen)` (of min `exp(seen - e)`; or of the like), `result` is the reference; `own`: (was), what `seen` stands
    for; `factor`: `exp(was - reference)`, by which they are multiplied.
    sum: terms are `(e - seen) ** 2`, `result` is anything that all threads have; `own`: (count, before, linear), how many elements the reference
    has, how many the sums have, and their sum of `e - seen`."""

    op: str
    reference: Load
    result: Load
    seen: Load
    own: tuple[Load, ...]
    sums: tuple[Load, ...]
    factor: Expr | None = None
    last: bool = False

    @property
    def places(self) -> tuple[Load, ...]:
        """All registers that it names."""
        return self.reference, self.result, self.seen, *self.own, *self.sums


TreeNode = (
    Loop
    | Guard
    | Compute
    | Copy
    | Fold
    | Combine
    | Scan
    | Barrier
    | Raise
    | Await
    | Ticket
    | Prefetch
    | Arrive
    | Running
    | Rescale
)


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel. `loops` are the source loops (labels) it runs; `strategy` names who planned it.
    `specialised` lists size-dependent choices, in words. `registers`: the most registers of 32 bits
    that a thread may take, where the planner decides on it (GPU; 0: the assembler does). `ends_first`:
    the first and the last iterations of the GRID loops (at most three) take longer, and are started
    before others (GRID loops have no order otherwise). `is_straight`: a thread runs straight through, and
    moves vectors: nothing is left that loops of LLVM's would be unrolled for (GPU). `coalesced`: variables of
    THREAD loops, outermost first, that run as one with the loops inside them, which go over the places along the size that
    stands last (`tree.rewrite.coalesce`, which also says what such a launch may hold). `nontemporal`: buffers whose elements
    it may store past the caches, each with the condition on sizes under which that pays (`tree.rewrite.nontemporal`; CPU)."""

    name: str
    strategy: str
    loops: tuple[str, ...]
    body: tuple[TreeNode, ...]
    specialised: tuple[str, ...] = ()
    registers: int = 0
    ends_first: bool = False
    is_straight: bool = False
    coalesced: tuple[str, ...] = ()
    nontemporal: tuple[tuple[str, Expr], ...] = ()


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop around launches, run by the host; launches inside see `var` as an i64 argument. `turns`:
    the buffers that stand for another in each of its iterations, which go from 0 by ones; they
    are used inside alone, and there each other buffer is what it is."""

    var: str
    lower: Expr
    upper: Expr
    step: int
    body: tuple[HostNode, ...]
    turns: tuple[str, ...] = ()


HostNode = HostLoop | Launch


@dataclass(frozen=True)  # no slots: what is looked up by name is kept once it is asked for
class LoopTree:
    """A planned kernel for one kind of target (`cpu` or `gpu`). `collapsed`: sizes of neighbouring
    dimensions that are run as one; the tree runs as if it were called with 1 for all but the last of
    them and their product for the last (`tree.rewrite.collapse`, which also says what such a tree may hold).
    `resident`: the condition on sizes that RESIDENT stands for, of a tree that asks for it."""

    kernel: str
    device: str
    buffers: tuple[Buffer, ...]
    body: tuple[HostNode, ...]
    collapsed: tuple[tuple[str, ...], ...] = ()
    resident: Expr | None = None

    def buffer(self, name: str) -> Buffer:
        """The buffer called `name`; KeyError if there is none."""
        return self.buffers[self.places[name]]

    def in_turn(self, loop: HostLoop) -> tuple[dict[str, str], ...]:
        """Of each iteration of the loop: what the buffers stand for that turn with it."""
        names = [self.buffer(name).turns for name in loop.turns]
        return tuple(dict(zip(loop.turns, each, strict=True)) for each in zip(*names, strict=True))

    @cached_property
    def places(self) -> dict[str, int]:
        """Where in `buffers` each name stands (its first, in a tree that is wrong)."""
        found: dict[str, int] = {}
        for place, buffer in enumerate(self.buffers):
            found.setdefault(buffer.name, place)
        return found

    @cached_property
    def host_variables(self) -> dict[int, tuple[str, ...]]:
        """The variables of the host loops around each launch, outermost first, by its `id`."""
        found: dict[int, tuple[str, ...]] = {}

        def visit(nodes: tuple[HostNode, ...], around: tuple[str, ...]) -> None:
            for node in nodes:
                if isinstance(node, Launch):
                    found.setdefault(id(node), around)
                else:
                    visit(node.body, (*around, node.var))

        visit(self.body, ())
        return found

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch, in text order."""
        found: list[Launch] = []

        def visit(nodes: tuple[HostNode, ...]) -> None:
            for node in nodes:
                if isinstance(node, Launch):
                    found.append(node)
                else:
                    visit(node.body)

        visit(self.body)
        return tuple(found)

    @property
    def is_straight(self) -> bool:
        """Do all launches run straight through?"""
        return all(launch.is_straight for launch in self.launches)
