"""A product, read off what one point of a group runs.

    C[i, j] = 0;  for k: C[i, j] += f(i, k) * g(k, j);  D[i, j] = h(C[i, j])

A point's nodes are a nest of loops around one update, and statements before and behind it. Of the group's
dimensions one is the *columns* (neighbours in memory), one the *rows* (what the update reads along columns does not
depend on it, and the other way round: so a tile of rows and columns reads each element several times), and the
others are the *batch*. Loops inside are *reduced*; none of their bounds depends on rows or columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loopfuse.lang.index import conjoin
from loopfuse.lang.linear import linear
from loopfuse.lang.nodes import Expr, Load
from loopfuse.lang.walk import iterators, loads, subscript_iterators
from loopfuse.plan.mapping.updates import is_cheap
from loopfuse.plan.strategies.contract.wedge import Edge, find_edges, without_condition
from loopfuse.tree.looptree import Buffer, Compute, Global, Loop, Register, TreeNode
from loopfuse.tree.looptree import Mapping as Where
from loopfuse.tree.walk import node_expressions


@dataclass(frozen=True, slots=True)
class Product:
    """`before`, then `loops` (outermost first) around `made` and `update`, then `after`. `rows` and `columns` are the
    variables that stand for the dimensions; `made` are registers that the innermost loop sets for all columns at once.
    `edges`: there is a row and column where it lies inside all of them."""

    rows: str
    columns: str
    before: tuple[Compute, ...]
    loops: tuple[Loop, ...]
    made: tuple[Compute, ...]
    update: Compute
    after: tuple[Compute, ...]
    edges: tuple[Edge, ...] = ()

    @property
    def total(self) -> Load:
        """The place that the update adds to."""
        return self.update.target

    @property
    def operands(self) -> tuple[Load, ...]:
        """What the update reads besides."""
        return tuple(dict.fromkeys(load for load in loads(self.update.value) if load != self.total))

    @property
    def row_operands(self) -> tuple[Load, ...]:
        """Those of which there is one for each row, whatever the column."""
        made = {node.target for node in self.made}
        return tuple(load for load in self.operands if load in made or self._is_along(load, self.rows, self.columns))

    @property
    def column_operands(self) -> tuple[Load, ...]:
        """Those of which there is one for each column, whatever the row."""
        return tuple(load for load in self.operands if self._is_along(load, self.columns, self.rows))

    @property
    def common_operands(self) -> tuple[Load, ...]:
        """Those that are the same for all rows and columns."""
        along = {*self.row_operands, *self.column_operands}
        return tuple(load for load in self.operands if load not in along)

    @property
    def is_set_first(self) -> bool:
        """Does what stands before set the total, whatever it was?"""
        for node in self.before:
            if self.total in loads(node.value):
                return False
            if node.target == self.total:
                return True
        return False

    @property
    def is_only_added_to(self) -> bool:
        """Does nothing write the total but the update, which may have no steps?"""
        return all(node.target != self.total for node in (*self.before, *self.after))

    @property
    def mirrored(self) -> tuple[Compute, ...] | None:
        """What stands behind from where the total's array is first written at another place (`C[j, i] = C[i, j]`), which may be
        the total's own: once that is done, the total is neither read nor written but by such copies. None where it is."""
        elsewhere = [
            number for number, node in enumerate(self.after)
            if node.target.array == self.total.array and node.target != self.total
        ]  # fmt: skip
        if not elsewhere:
            return ()
        rest = self.after[elsewhere[0] :]
        is_apart = all(node.value == self.total or self.total not in (node.target, *loads(node.value)) for node in rest)
        return rest if is_apart else None

    @staticmethod
    def _is_along(load: Load, var: str, other: str) -> bool:
        found = subscript_iterators(load)
        return var in found and other not in found


def has_unit_stride(load: Load, var: str) -> bool:
    """Are neighbours in `var` neighbours in memory, in that order?"""
    if not load.index or any(var in iterators(part) for part in load.index[:-1]):
        return False
    return (linear(load.index[-1]) or {}).get(var) == 1


def read_product(
    nodes: Sequence[TreeNode], order: Sequence[str], buffers: Mapping[str, Buffer], conditions: Sequence[Expr] = ()
) -> Product | None:
    """The product that a point runs; None where its nodes have another form. `order`: the variables of the
    point's dimensions, the last one that of neighbours in memory. `conditions`: what holds of the points that there are."""
    found = without_condition(nodes)
    if found is None:
        return None
    nodes, own = found
    inside = conjoin(*conditions, *sorted(own, key=repr))
    if not iterators(inside) <= set(order):
        return None
    at = [number for number, node in enumerate(nodes) if isinstance(node, Loop)]
    if len(at) != 1 or len(order) < 2:
        return None
    nest, before, after = _nest(nodes[at[0]]), _plain(nodes[: at[0]]), _plain(nodes[at[0] + 1 :])
    if nest is None or before is None or after is None:
        return None
    for rows in reversed(order[:-1]):
        edges = find_edges(inside, rows, order[-1])
        if edges is None:
            continue
        found = Product(rows, order[-1], before, *nest, after, edges)
        if _has_reuse(found) and _is_bounded(found) and _is_alone(found, buffers) and _fits(found, buffers):
            return found
    return None


def _nest(node: TreeNode) -> tuple[tuple[Loop, ...], tuple[Compute, ...], Compute] | None:
    """The loops of a nest, the registers that the innermost sets, and the update inside."""
    loops: list[Loop] = []
    made: tuple[Compute, ...] = ()
    while isinstance(node, Loop):
        found = _plain(node.body[:-1])
        if node.mapping is not Where.SERIAL or node.step != 1 or found is None or made:
            return None
        loops.append(node)
        made, node = found, node.body[-1]
    if not isinstance(node, Compute) or _plain((node,)) is None:
        return None
    reduced = {loop.var for loop in loops}
    found = loads(node.value)
    is_update = found.count(node.target) == 1 and sum(load.array == node.target.array for load in found) == 1
    if not is_update or reduced & subscript_iterators(node.target) or not is_cheap(node.value):
        return None
    return tuple(loops), made, node


def _plain(nodes: Sequence[TreeNode]) -> tuple[Compute, ...] | None:
    """The nodes, where all are computations that always run, at places that no data say."""
    found = tuple(node for node in nodes if isinstance(node, Compute) and node.predicate is None)
    if len(found) < len(nodes):
        return None
    places = (load for node in found for load in (node.target, *loads(node.value)))
    return None if any(loads(part) for load in places for part in load.index) else found


def _has_reuse(product: Product) -> bool:
    """Is some operand the same for all columns, and another for all rows? None is another for each of both."""
    both = {product.rows, product.columns}
    return bool(product.row_operands and product.column_operands) and not any(
        both <= subscript_iterators(load) for load in product.operands
    )


def _is_bounded(product: Product) -> bool:
    """Are the reduced loops the same for all rows and columns?"""
    own = {product.rows, product.columns}
    ends = [end for loop in product.loops for end in (loop.lower, loop.upper)]
    return not any(own & iterators(end) or loads(end) for end in ends)


def _is_alone(product: Product, buffers: Mapping[str, Buffer]) -> bool:
    """Is the total at one place all along, and nothing else handed from one part to the next?"""
    total = product.total
    made = {node.target.array for node in product.made}
    if any(node.target != total and not _is_register(node.target, buffers) for node in product.before):
        return False
    mirrored = product.mirrored
    if mirrored is None:
        return False
    for part in (product.before, (*product.made, product.update), product.after):
        written: set[str] = set()
        for node in part:
            for load in loads(node.value) if node in mirrored else (*loads(node.value), node.target):
                if load.array == total.array and load != total:
                    return False
            for load in loads(node.value):
                if load != total and _is_register(load, buffers) and load.array not in written:
                    return False  # made in another part
            written.add(node.target.array)
    for node in product.made:
        if not _is_register(node.target, buffers) or product.columns in set().union(*map(subscript_iterators, loads(node.value))):
            return False
    written = {node.target.array for node in (*product.before, *product.after)} - {total.array}
    read = {load.array for node in (*product.made, product.update) for load in loads(node.value)}
    if read & written or (made & {total.array}):
        return False
    if not isinstance(buffers[total.array].home, Global):
        return _is_register(total, buffers) and product.is_set_first
    return True


def _fits(product: Product, buffers: Mapping[str, Buffer]) -> bool:
    """Has the nest a form that tiles have? Of several loops nothing is packed: columns have to be neighbours in memory
    as they are, and the block to start from what stands before."""
    if len(product.loops) == 1:
        return True
    if product.edges:
        return False
    lie_well = all(has_unit_stride(load, product.columns) for load in product.column_operands)
    return product.is_set_first and lie_well and not product.made


def _is_register(load: Load, buffers: Mapping[str, Buffer]) -> bool:
    return isinstance(buffers[load.array].home, Register)


def registers_of(product: Product, buffers: Mapping[str, Buffer]) -> Iterator[Buffer]:
    """The registers of a point, but for the total."""
    names: dict[str, None] = {}
    for node in (*product.before, *product.made, product.update, *product.after):
        names |= dict.fromkeys(load.array for expr in node_expressions(node) for load in loads(expr))
    for name in names:
        if isinstance(buffers[name].home, Register) and name != product.total.array:
            yield buffers[name]
