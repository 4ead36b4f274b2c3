"""The state of emitting one launch: names in scope, buffers, and index values.

`Emitter` knows how to turn a linear form into an SSA value of a chosen width and how to address a
buffer. Expressions are in `mlir_expr`, tree nodes in `mlir_nodes`, collectives in `mlir_gpu`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from loopfuse.base.dtypes import DType
from loopfuse.codegen.abi import broken, buffer_size, not_lowered, walk_nodes
from loopfuse.codegen.build import I8, I32, I64, INDEX, STORAGE, Builder, Scope
from loopfuse.codegen.ir import IntegerType, Place, Value
from loopfuse.codegen.mlir.index import (
    UNBOUNDED,
    ZERO,
    Atom,
    Facts,
    Linear,
    Operation,
    bound,
    combine,
    constant_form,
    divisor,
    is_even,
    linear,
)
from loopfuse.codegen.mlir.integer import divide
from loopfuse.codegen.mlir.packed import Halves
from loopfuse.codegen.mlir.wraps import sizes_short, wrapped
from loopfuse.codegen.select.value_ranges import Held
from loopfuse.lang import nodes
from loopfuse.tree.layout import Level
from loopfuse.tree.looptree import (
    Buffer,
    Compute,
    Global,
    Lanes,
    LineBuffer,
    Loop,
    Register,
    Shared,
    TreeNode,
    Window,
    layout_of,
    modulus_of,
    strip_of,
)


@dataclass(slots=True)
class Storage:
    """Where a buffer lies: its memref, and by how many lanes a VECTOR loop has widened it
    (`lane_variable` is then that loop's)."""

    buffer: Buffer
    memref: Value
    is_static: bool
    lane_variable: str = ""
    lanes: int = 1
    is_packed: bool = False
    """In words, by `mlir.packed`."""

    @property
    def holds_all(self) -> bool:
        """Are all elements of an array there: an argument's, or those of a temporary in memory? (Elsewhere, and of copies for
        the iterations of loops around, no more than is asked for may be stored.)"""
        buffer = self.buffer
        return buffer.argument or (isinstance(buffer.home, Global) and bool(buffer.array) and not buffer.copies)


class Emitter:
    """Emits the body of one function."""

    def __init__(self, builder: Builder, index_bits: int, gpu: bool, narrowest: int = 1) -> None:
        self.builder = builder
        self.index_bits = index_bits
        self.gpu = gpu
        self.converted = frozenset[DType]((DType.F16, DType.BF16) if gpu else ())  # by instructions of the machine
        # With 32-bit indexing every array is below 2**31 bytes, so a size below that over the
        # bytes of the narrowest element; with 64 bits any address is below 2**48.
        self.facts = Facts((1 << 31) // narrowest if index_bits == 32 else 1 << 48)
        self.variables: dict[str, Value] = {}
        self.symbols: dict[str, Value] = {}
        self.storage: dict[str, Storage] = {}
        self.memo: list[dict[int, Value]] = [{}]
        self.loaded: list[dict[int, Value]] = [{}]
        self.numbers: dict[Any, int] = {}
        self.division_widths: dict[int, tuple[Any, frozenset[int]]] = {}
        self.aligned = False
        self.counts: dict[str, int] = {}
        self.vector = ""
        self.lanes = 0
        self.versions: dict[str, int] = {}  # how often strips were written
        self.arrivals: dict[str, Any] = {}  # rows of windows that are not in their places yet
        self.threads = 1
        self.divides = False  # the launch has divisions or calls functions
        self.lane = ""  # the variable of the LANE loop
        self.thread: Value | None = None
        self.grid: tuple[Loop, ...] = ()  # the GRID loops
        self.drawn: Value | None = None  # the number of the block, where blocks draw one
        self.run: Value | None = None  # how many times the launch has started then (I64)
        self.blocks = 1  # of a cluster
        self.rank: Value | None = None  # of the block in its cluster
        self.is_starting = False  # other blocks of the cluster may not have started
        self.loops = 0  # around the node at hand
        self.turns = 0  # of them, those that are not written out
        self.cluster_variables: tuple[str, ...] = ()
        self.block_variables: tuple[tuple[str, int], ...] = ()
        self.multiplies = gpu  # divisions by constants, where that is exact
        self.inverts = False  # the machine has an instruction for reciprocals that are nearly right
        self.rare: Any = None  # what `mlir_division` notes in the loop at hand
        self.done: Any = None  # what `mlir_together` knows of it
        self.early: dict[nodes.Load, Value] = {}  # elements that were asked for before they are needed
        self.fixed: frozenset[str] = frozenset()  # buffers that the launch does not write
        self.nontemporal: Mapping[str, nodes.Expr] = {}  # buffers that it may store past the caches, and when
        self.past: dict[str, tuple[Value, Value]] = {}  # where in which view the loop at hand stores so
        self.halves = Halves()
        self.packed: frozenset[str] = frozenset()  # buffers in words
        self.subscripts = 0
        self.scopes = 0  # of accesses that do not meet, in all loops so far
        self.scope_of: Callable[[nodes.Load], Scope | None] = lambda _: None  # in the loop at hand
        self.error: Value | None = None  # where the first bad subscript is noted
        self.check_code: Callable[[nodes.Load, int, bool], int] = lambda *_: 0
        self.request_function: Callable[[str, DType, int], str] = lambda *_: ""
        self.request_shared: Callable[[DType, int], Value] = self._no_shared
        self.request_slots: Callable[[DType, int], Value] = self._no_shared  # shared memory of its own
        self.places: Mapping[str, Place] = {}
        self.held: Callable[[], Held] = dict  # what the tree's buffers lie in
        self.emit_opaque: Callable[[nodes.Expr], Value] = lambda _: self._no_shared(_, 0)

    def _no_shared(self, dtype: object, size: int) -> Value:
        raise broken("shared memory on the CPU")

    def locate(self, body: tuple[TreeNode, ...]) -> None:
        """What follows stands at the first statement in `body`, if its place is known."""
        for node in walk_nodes(body):
            if isinstance(node, Compute) and node.statement in self.places:
                self.builder.place = self.places[node.statement]
                return

    # ----------------------------------------------------------------------------- scopes

    @contextmanager
    def scope(self) -> Generator[None, None, None]:
        """A region: what is computed inside is not known outside."""
        self.memo.append({})
        self.loaded.append({})
        try:
            yield
        finally:
            self.memo.pop()
            self.loaded.pop()

    def forget_loads(self) -> None:
        """Memory may have changed."""
        for each in self.loaded:
            each.clear()

    def remembered(self, key: Any, make: Callable[[], Value]) -> Value:
        """The value that `key` had in an enclosing region, else a new one."""
        number = self.number(key)
        for scope in reversed(self.memo):
            if number in scope:
                return scope[number]
        value = self.memo[-1][number] = make()
        return value

    def number(self, key: Any) -> int:
        """A number of its own for each key: a form is hashed once, not once a region around."""
        return self.numbers.setdefault(key, len(self.numbers))

    # ------------------------------------------------------------------------ index values

    @property
    def index_type(self) -> IntegerType:
        """The type of index arithmetic."""
        return I32 if self.index_bits == 32 else I64

    def width(self, *forms: Linear) -> tuple[IntegerType, bool]:
        """The narrowest type that `forms` fit in, and whether they cannot wrap in it."""
        largest = max(bound(form, self.facts) for form in forms)
        if self.index_bits == 32 and largest < 1 << 31:
            return I32, True
        return I64, largest < 1 << 63

    def fit(self, value: Value, kind: IntegerType) -> Value:
        """`value` sign-extended or cut to `kind`."""
        if value.type == kind:
            return value
        narrow = value.type.bits < kind.bits
        return self.remembered(
            (value, kind),
            lambda: self.builder.convert("extsi" if narrow else "trunci", value, kind),
        )

    def form(self, form: Linear, kind: IntegerType, nsw: bool) -> Value:
        """The value of `form` computed in `kind`."""
        if not form.terms:
            return self.builder.constant(form.constant, kind)
        if _is_opaque(form):
            return self._sum(form, kind, nsw)
        return self.remembered((form, kind, nsw), lambda: self._sum(form, kind, nsw))

    def _sum(self, form: Linear, kind: IntegerType, nsw: bool) -> Value:
        builder = self.builder
        if form.constant and form.terms:
            rest = self.form(Linear(form.terms, 0), kind, nsw)
            return builder.binary("addi", rest, builder.constant(form.constant, kind), nsw)
        terms = sorted(form.terms, key=lambda term: term[1] < 0)
        total: Value | None = None
        for atom, coefficient in terms:
            value = self.atom(atom, kind, nsw)
            if total is not None and coefficient == -1:
                total = builder.binary("subi", total, value, nsw)
                continue
            if coefficient != 1:
                value = builder.binary("muli", value, builder.constant(coefficient, kind), nsw)
            total = value if total is None else builder.binary("addi", total, value, nsw)
        assert total is not None
        return total

    def atom(self, atom: Atom, kind: IntegerType, nsw: bool) -> Value:
        """The value of one atom."""
        match atom:
            case nodes.Iter(name=name):
                if name not in self.variables:
                    raise broken(f"the variable {name} is not in scope")
                return self.fit(self.variables[name], kind)
            case nodes.Symbol(name=name):
                if name not in self.symbols:
                    raise broken(f"the symbol {name} is not an argument")
                return self.fit(self.symbols[name], kind)
            case Operation(op="opaque", left=left):
                assert not isinstance(left, Linear)
                return self.fit(self.emit_opaque(left), kind)
            case Operation(op=op, left=Linear() as left, right=Linear() as right):
                if op in ("floordiv", "mod", "min", "max"):
                    # Exact operands first: a result that fits does not mean that they do.
                    inner, safe = self.width(left, right)
                    a, b = self.form(left, inner, safe), self.form(right, inner, safe)
                    return self.fit(self._operate(op, a, b, left, right), kind)
                a, b = self.form(left, kind, nsw), self.form(right, kind, nsw)
                return self.builder.binary("muli", a, b, nsw)
            case _:
                raise broken(f"no index value for {atom}")

    def _operate(self, op: str, a: Value, b: Value, left: Linear, right: Linear) -> Value:
        builder = self.builder
        if op in ("min", "max"):
            return builder.binary(f"{op}si", a, b)
        if op == "mod" and not self.gpu:
            short = sizes_short(left, right, self.facts)
            if short is not None:
                return wrapped(builder, a, b, short)
        return divide(builder, op, a, b, signed=True)

    def index(self, form: Linear) -> Value:
        """The `index` value of an in-bounds subscript."""

        def make() -> Value:
            if not form.terms:
                return self.builder.constant(form.constant, INDEX)
            return self.builder.convert(
                "index_cast", self.form(form, self.index_type, nsw=True), INDEX
            )

        if _is_opaque(form):
            return make()
        return self.remembered((form, "index"), make)

    # ---------------------------------------------------------------------------- buffers

    def bind(self, buffer: Buffer) -> None:
        """Gives a buffer that is not Global its storage, zeroed if it asks for that."""
        element = STORAGE.get(buffer.dtype)
        if element is None:
            raise not_lowered(f"{buffer.dtype.value} values")
        match buffer.home:
            case Register() | Window(columns=0) | LineBuffer():
                size = buffer_size(buffer)
                is_packed = buffer.name in self.packed
                memref = self.builder.alloca(I32, size // 2) if is_packed else self.builder.alloca(element, size)
            case Shared():
                size = buffer_size(buffer)
                memref = self.request_shared(buffer.dtype, size)
            case Lanes() | Window() as home:
                size = layout_of(home).count(Level.SLOT)
                memref = self.builder.alloca(element, size)
            case Global():
                raise broken(f"the global buffer {buffer.name} is not an argument")
            case _:
                raise not_lowered(f"the {type(buffer.home).__name__} buffer {buffer.name}")
        is_static = not isinstance(buffer.home, Shared)
        self.storage[buffer.name] = Storage(buffer, memref, is_static, is_packed=buffer.name in self.packed)
        if buffer.zeroed and not isinstance(buffer.home, Shared):
            zero = self.builder.constant(0.0 if buffer.dtype.is_float else 0, element)
            for number in range(size):
                place = self.builder.constant(number, INDEX)
                self.builder.store(zero, memref, place)

    def place(self, name: str, index: tuple[nodes.Expr, ...]) -> tuple[Storage, Linear]:
        """The storage of a buffer, and the linear form of an element's place in it."""
        if name not in self.storage:
            raise broken(f"the buffer {name} has no storage")
        storage = self.storage[name]
        buffer = storage.buffer
        if len(index) != len(buffer.extents):
            raise broken(f"{name} has {len(buffer.extents)} dimensions, not {len(index)}")
        forms = [linear(each, self.facts) for each in index]
        if isinstance(buffer.home, Window):
            forms[0] = self.row(forms[0], buffer.home.rows)
        elif rows := modulus_of(buffer.home):
            forms[0] = self.modulo(forms[0], rows)
        if strip_of(buffer.home) is not None:
            raise broken(f"the lanes of {name} have no place in memory")
        place = ZERO
        if buffer.strides is not None:
            for form, stride in zip(forms, buffer.strides, strict=True):
                place = place.plus(combine("mul", form, linear(stride, self.facts), self.facts))
            return storage, place
        for number, (form, extent) in enumerate(zip(forms, buffer.extents, strict=True)):
            if number:
                place = combine("mul", place, linear(extent, self.facts), self.facts)
            place = place.plus(form)
        if storage.lane_variable:
            place = place.times(storage.lanes).plus(
                linear(nodes.Iter(storage.lane_variable), self.facts)
            )
        return storage, place

    def row(self, form: Linear, rows: int) -> Linear:
        """The place of a window's row: in a SHIFTED loop, of that so far ahead of the step's own."""
        for name in self.facts.shifted:
            form = form.without(name)
        return self.modulo(form, rows)

    def modulo(self, form: Linear, rows: int) -> Linear:
        """`form % rows`, a constant wherever the divisors known say so."""
        if divisor(Linear(form.terms, 0), self.facts) % rows == 0:
            return constant_form(form.constant % rows)
        return combine("mod", form, constant_form(rows), self.facts)

    def alignment(self, storage: Storage, place: Linear) -> int:
        """Bytes that a 16-byte (or smaller) access of `lanes` elements at `place` is known to be
        aligned to; 0 where that is no more than an element's own alignment."""
        width = storage.buffer.dtype.bytes
        whole = width * self.lanes
        if isinstance(storage.buffer.home, Global) and not self.aligned:
            return 0
        step = divisor(place, self.facts)
        if step % 2 and is_even(place, self.facts):
            step *= 2
        step *= width
        for bytes_ in (16, 8, 4, 2):
            if bytes_ <= whole and bytes_ > width and step % bytes_ == 0:
                return bytes_
        return 0

    def bind_argument(self, buffer: Buffer, memref: Value) -> None:
        """Makes a function argument the storage of a Global buffer."""
        self.storage[buffer.name] = Storage(buffer, memref, is_static=False)
        if buffer.argument and buffer.strides is None:  # see `runtime.arrays.index_bits`
            count = constant_form(1)
            for extent in reversed(buffer.extents):
                count = combine("mul", linear(extent, self.facts), count, self.facts)
                match count.terms:
                    case ((Operation(op="mul") as product, factor),) if factor > 0:
                        known = self.facts.products.get(product, self.facts.small)
                        self.facts.products[product] = min(known, self.facts.small // factor)
                    case _:
                        pass

    def bind_symbol(self, name: str, dtype: DType, value: Value, is_size: bool) -> None:
        """Makes a function argument the value of a symbol."""
        if dtype is DType.BOOL:
            value = self.builder.compare("ne", value, self.builder.constant(0, I8))
        self.symbols[name] = value
        self.facts.bounds[name] = self.facts.small if is_size else UNBOUNDED
        if is_size:
            self.facts.sizes.add(name)


def _is_opaque(form: Linear) -> bool:
    for atom, _ in form.terms:
        if isinstance(atom, Operation):
            if atom.op == "opaque":
                return True
            for side in (atom.left, atom.right):
                if isinstance(side, Linear) and _is_opaque(side):
                    return True
    return False
