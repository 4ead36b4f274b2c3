"""LoopTrees as text: one node a line, indented by nesting, the same text for the same tree."""

from __future__ import annotations

from typing import assert_never

from loopfuse.base.dtypes import DType
from loopfuse.lang.index_text import COMPARISONS
from loopfuse.lang.nodes import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fma,
    Iter,
    Load,
    Select,
    Symbol,
    Unary,
)
from loopfuse.tree.looptree import (
    Arrive,
    Await,
    Barrier,
    Buffer,
    Combine,
    Compute,
    Copy,
    Fold,
    Guard,
    HostLoop,
    HostNode,
    Loop,
    LoopTree,
    Prefetch,
    Raise,
    Rescale,
    Running,
    Scan,
    Shared,
    Ticket,
    TreeNode,
    columns_of,
    print_home,
)

_SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "and": "&",
    "or": "|", "xor": "^", "shl": "<<", "shr": ">>", "pow": "**",
}  # fmt: skip
_LEVELS = {
    "|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5, "+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7,
    "**": 9,
}  # fmt: skip
_LOOSEST, _COMPARISON, _UNARY, _ATOM = 0, 1, 8, 10


def print_tree(tree: LoopTree) -> str:
    """The tree as text, ending in a newline."""
    lines = [f"tree {tree.kernel} ({tree.device})"]
    lines += [f"  {' x '.join(sizes)} as one" for sizes in tree.collapsed]
    lines += [f"  resident? {print_expr(tree.resident)}"] if tree.resident is not None else []
    lines += [f"  {_buffer(buffer)}" for buffer in tree.buffers]
    for node in tree.body:
        _host(node, 1, lines)
    return "\n".join(lines) + "\n"


def print_node(node: TreeNode) -> str:
    """The first line of `node` as `print_tree` prints it, without indentation."""
    lines: list[str] = []
    _node(node, 0, lines)
    return lines[0]


def print_expr(expr: Expr) -> str:
    """A core expression as a tree prints it: Python's operators and precedence."""
    return _expr(expr)[0]


def _buffer(buffer: Buffer) -> str:
    extents = ", ".join(print_expr(extent) for extent in buffer.extents)
    home = print_home(buffer.home)
    if columns := columns_of(buffer.home):
        home += f" of {columns} columns a lane"
    if isinstance(buffer.home, Shared) and buffer.home.rows:
        home += f" of {buffer.home.rows} rows"
    notes = [f"of {buffer.array}"] if buffer.array and buffer.array != buffer.name else []
    notes += ["argument"] if buffer.argument else []
    notes += ["zeroed"] if buffer.zeroed else []
    notes += [f"maps, factors in {buffer.factors}"] if buffer.factors else []
    notes += [f"{', '.join(buffer.turns)} in turn"] if buffer.turns else []
    if buffer.strides is not None and not buffer.argument:
        notes.append(f"strides {', '.join(map(print_expr, buffer.strides))}")
    suffix = f"  # {', '.join(notes)}" if notes else ""
    return f"buffer {buffer.name}: {buffer.dtype.value}[{extents}] in {home}{suffix}"


def _host(node: HostNode, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    if isinstance(node, HostLoop):
        turning = f" turning {', '.join(node.turns)}" if node.turns else ""
        lines.append(f"{indent}host {_range(node)}{turning}")
        for inner in node.body:
            _host(inner, depth + 1, lines)
        return
    *joined, size = node.coalesced or ("",)
    special = f"  # {'; '.join(node.specialised)}" if node.specialised else ""
    loops = f" runs {', '.join(node.loops)}" if node.loops else ""
    lines.append(f"{indent}launch {node.name} ({node.strategy}){loops}{special}")
    if joined:
        lines.append(f"{indent}  {', '.join(joined)} as one with {size}")
    for name, condition in node.nontemporal:
        lines.append(f"{indent}  {name} past the caches where {print_expr(condition)}")
    _nodes(node.body, depth + 1, lines)


def _range(loop: Loop | HostLoop) -> str:
    step = "" if loop.step == 1 else f" step {loop.step}"
    return f"for {loop.var} in {print_expr(loop.lower)}..{print_expr(loop.upper)}{step}"


def _nodes(nodes: tuple[TreeNode, ...], depth: int, lines: list[str]) -> None:
    for node in nodes:
        _node(node, depth, lines)


def _node(node: TreeNode, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    match node:
        case Loop():
            lines.append(f"{indent}{node.mapping.value} {_range(node)}")
            _nodes(node.body, depth + 1, lines)
        case Guard():
            lines.append(f"{indent}{'predicated ' if node.predicated else ''}if {print_expr(node.condition)}")
            _nodes(node.then, depth + 1, lines)
            if node.otherwise:
                lines.append(f"{indent}else")
                _nodes(node.otherwise, depth + 1, lines)
        case Compute():
            at = ", ".join(print_expr(part) for part in node.iteration)
            when = "" if node.predicate is None else f" where {print_expr(node.predicate)}"
            lines.append(
                f"{indent}{'atomic ' if node.atomic else ''}{node.statement}[{at}]: {print_expr(node.target)} = "
                f"{print_expr(node.value)}{when}"
            )
        case Copy():
            late = " late" if node.late else ""
            lines.append(f"{indent}copy{late} {print_expr(node.target)} = {print_expr(node.value)}")
        case Arrive(pending=pending):
            lines.append(f"{indent}arrive, {pending} pending")
        case Prefetch(source=source):
            lines.append(f"{indent}prefetch {print_expr(source)}")
        case Fold():
            lines.append(
                f"{indent}{'atomic ' if node.atomic else ''}fold {node.op} {print_expr(node.target)}, {print_expr(node.value)}"
            )
        case Combine():
            where = " everywhere" if node.everywhere else ""
            lines.append(f"{indent}combine {node.op} {node.buffer} over {', '.join(node.over)}{where}")
        case Scan():
            through = f" through {node.words}" if node.words else ""
            where = f"[{', '.join(map(print_expr, node.index))}]" if node.index else ""
            lines.append(f"{indent}scan {node.op} {node.buffer}{where} over {', '.join(node.over)}{through}")
        case Running():
            lines.append(f"{indent}running")
            _nodes(node.body, depth + 1, lines)
        case Rescale(op=op, reference=reference, result=result, seen=seen, own=own, sums=sums, factor=factor):
            to = f"{op} {print_expr(reference)}" if not node.last else f"{print_expr(result)} at last"
            by = f"{to}, seen as {print_expr(seen)}, by {print_expr(factor) if factor else ', '.join(map(print_expr, own))}"
            lines.append(f"{indent}rescale {', '.join(map(print_expr, sums))} to {by}")
        case Barrier():
            lines.append(f"{indent}barrier {node.scope}")
        case Raise():
            lines.append(f"{indent}raise {print_expr(node.flag)} = {print_expr(node.value)}")
        case Await():
            lines.append(f"{indent}await {print_expr(node.flag)} >= {print_expr(node.value)}")
        case Ticket():
            lines.append(
                f"{indent}ticket {print_expr(node.counter)} of {print_expr(node.count)}: last does"
            )
            _nodes(node.body, depth + 1, lines)
        case _:
            assert_never(node)


def _expr(expr: Expr) -> tuple[str, int]:
    """The text of `expr` and how tightly it binds."""
    match expr:
        case Const(value=value, dtype=dtype):
            text = repr(value).lower() if isinstance(value, bool) else repr(value)
            suffix = "" if dtype in (DType.I64, DType.F64, DType.BOOL) else dtype.value
            return text + suffix, _UNARY if text.startswith("-") else _ATOM
        case Iter(name=name) | Symbol(name=name):
            return name, _ATOM
        case Load():
            inside = ", ".join(print_expr(part) for part in expr.index)
            mode = f".{expr.mode}" if expr.mode else ""
            swapped = f"<{expr.swapped.array}>" if expr.swapped else ""
            return f"{expr.array}{swapped}{mode}[{inside}]", _ATOM
        case Unary(op=op, operand=operand):
            sign = {"neg": "-", "not": "not ", "invert": "~"}[op]
            return sign + _operand(operand, _UNARY), _UNARY
        case Binary(op=op) if op not in _SIGNS:
            return f"{op}({print_expr(expr.left)}, {print_expr(expr.right)})", _ATOM
        case Binary(op=op, left=left, right=right):
            sign = _SIGNS[op]
            level = _LEVELS[sign]
            # `**` binds to the right; everything else to the left.
            low, high = (level + 1, level) if op == "pow" else (level, level + 1)
            return f"{_operand(left, low)} {sign} {_operand(right, high)}", level
        case Compare(op=op, left=left, right=right):
            above = _COMPARISON + 1
            text = f"{_operand(left, above)} {COMPARISONS[op]} {_operand(right, above)}"
            return text, _COMPARISON
        case Select(condition=condition, then=then, otherwise=otherwise):
            text = (
                f"{_operand(then, _COMPARISON)} if {_operand(condition, _COMPARISON)} "
                f"else {_operand(otherwise, _COMPARISON)}"
            )
            return text, _LOOSEST
        case Cast(operand=operand, dtype=dtype):
            return f"{dtype.value}({print_expr(operand)})", _ATOM
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(print_expr, arguments))})", _ATOM
        case Fma(a=a, b=b, c=c):
            return f"fma({print_expr(a)}, {print_expr(b)}, {print_expr(c)})", _ATOM
        case _:
            assert_never(expr)


def _operand(expr: Expr, level: int) -> str:
    text, own = _expr(expr)
    return text if own >= level else f"({text})"
