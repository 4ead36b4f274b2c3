"""Prints the core as text, for dumps and tests: readable, complete, and not meant to be parsed.

Conversions and FMAs show as calls, a swapped access as `a~b(parity)[i]`, an accumulating store
with its reduction in brackets::

    kernel total(x: in f32[N], y: inout f32[1]) sizes N:
        L1 for i in 0..N:
            S1 y[0] = fma(x[i], 2.0, y[0])  [sum]
"""

from __future__ import annotations

from typing import assert_never

import numpy as np

from loopfuse.base.dtypes import DType
from loopfuse.lang.nodes import (
    ArrayParam,
    Assume,
    Binary,
    Block,
    Call,
    Cast,
    Compare,
    Const,
    Define,
    Expr,
    Fma,
    For,
    If,
    Iter,
    Kernel,
    Load,
    Program,
    Range,
    Reduce,
    ScalarParam,
    Select,
    Stmt,
    Store,
    Symbol,
    Temp,
    Unary,
)
from loopfuse.lang.surface.depth import deep_recursion

# Operators with their precedence, loosest first; a right operand needs one level more.
_BINARY = {
    "or": ("|", 4),
    "xor": ("^", 5),
    "and": ("&", 6),
    "shl": ("<<", 7),
    "shr": (">>", 7),
    "add": ("+", 8),
    "sub": ("-", 8),
    "mul": ("*", 9),
    "div": ("/", 9),
    "floordiv": ("//", 9),
    "mod": ("%", 9),
    "pow": ("**", 12),
}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SELECT, _NOT, _COMPARISON, _UNARY, _ATOM = 0, 2, 3, 10, 20


def print_program(program: Program) -> str:
    """All kernels, an empty line between two; ends with a newline."""
    return "\n".join(print_kernel(kernel) for kernel in program.kernels)


def print_kernel(kernel: Kernel) -> str:
    """One kernel as text, ending with a newline."""
    params = ", ".join(_param(param) for param in kernel.params)
    sizes = f" sizes {', '.join(kernel.sizes)}" if kernel.sizes else ""
    lines = [f"kernel {kernel.name}({params}){sizes}:"]
    with deep_recursion():
        lines += _block(kernel.body, 1)
    return "\n".join(lines) + "\n"


def _param(param: ArrayParam | ScalarParam) -> str:
    match param:
        case ArrayParam(name=name, dtype=dtype, extents=extents, mode=mode):
            return f"{name}: {mode} {dtype.value}{_index(extents)}"
        case ScalarParam(name=name, dtype=dtype, is_const=is_const):
            return f"{name}: {'const ' if is_const else ''}{dtype.value}"
        case _:
            assert_never(param)


def _block(body: tuple[Stmt, ...], depth: int) -> list[str]:
    lines: list[str] = []
    for stmt in body:
        lines += print_stmt(stmt, depth)
    return lines or ["    " * depth + "pass"]


def print_stmt(stmt: Stmt, depth: int = 0) -> list[str]:
    """One statement as lines, indented by `depth` levels."""
    pad = "    " * depth
    match stmt:
        case For(label=label, body=body):
            word = "parallel for" if stmt.parallel else "for"
            each = Range(stmt.iterator, stmt.lower, stmt.upper, stmt.step)
            return [f"{pad}{_label(label)}{word} {_range(each)}:", *_block(body, depth + 1)]
        case If(condition=condition, then=then, otherwise=otherwise):
            lines = [f"{pad}if {print_expr(condition)}:", *_block(then, depth + 1)]
            if otherwise:
                lines += [f"{pad}else:", *_block(otherwise, depth + 1)]
            return lines
        case Store(target=target, value=value, reduction=reduction, label=label):
            mark = f"  [{reduction}]" if reduction else ""
            return [f"{pad}{_label(label)}{print_expr(target)} = {print_expr(value)}{mark}"]
        case Define(name=name, dtype=dtype, value=value, mutable=mutable, label=label):
            word = "var" if mutable else "let"
            return [f"{pad}{_label(label)}{word} {name}: {dtype.value} = {print_expr(value)}"]
        case Reduce(name=name, dtype=dtype, op=op, body=body, value=value, label=label):
            ranges = ", ".join(_range(each) for each in stmt.ranges)
            lines = [f"{pad}{_label(label)}{op} {name}: {dtype.value} over {ranges}:"]
            lines += _block(body, depth + 1) if body else []
            return [*lines, f"{pad}    {name} = {print_expr(value)}"]
        case Temp(name=name, dtype=dtype, extents=extents):
            return [f"{pad}temp {name}: {dtype.value}{_index(extents)}"]
        case Assume(condition=condition):
            return [f"{pad}assume {print_expr(condition)}"]
        case Block(kind=kind, body=body):
            return [f"{pad}{kind}:", *_block(body, depth + 1)]
        case _:
            assert_never(stmt)


def _label(label: str) -> str:
    return f"{label} " if label else ""


def _range(each: Range) -> str:
    step = f" step {each.step}" if each.step != 1 else ""
    return f"{each.iterator} in {print_expr(each.lower)}..{print_expr(each.upper)}{step}"


def _index(parts: tuple[Expr, ...]) -> str:
    return f"[{', '.join(print_expr(part) for part in parts)}]"


def print_expr(expr: Expr) -> str:
    """One expression as text, with the fewest parentheses that keep its shape."""
    return _print(expr, 0)


def _print(expr: Expr, outer: int) -> str:
    text, level = _text(expr)
    return f"({text})" if level < outer else text


def _text(expr: Expr) -> tuple[str, int]:
    """The text of `expr`, and how tightly it binds."""
    match expr:
        case Const():
            text = _const(expr)
            return text, _UNARY if text.startswith("-") else _ATOM
        case Iter(name=name) | Symbol(name=name):
            return name, _ATOM
        case Load(array=array, index=index, mode=mode, swapped=swapped):
            swap = f"~{swapped.array}({print_expr(swapped.parity)})" if swapped else ""
            edge = f".{mode}" if mode else ""
            return f"{array}{swap}{edge}{_index(index) if index else ''}", _ATOM
        case Unary(op=op, operand=operand):
            if op == "not":
                return f"not {_print(operand, _NOT)}", _NOT
            return ("-" if op == "neg" else "~") + _print(operand, _UNARY), _UNARY
        case Binary(op=op, left=left, right=right, dtype=dtype):
            if op not in _BINARY:
                return f"{op}({print_expr(left)}, {print_expr(right)})", _ATOM
            sign, level = _BINARY[op]
            if dtype is DType.BOOL and op in ("and", "or"):
                sign, level = op, 1 if op == "and" else _SELECT + 1
                # `a or b and c`: the looser operand is always put in parentheses, to be plain.
                return f"{_print(left, _NOT)} {op} {_print(right, _NOT)}", level
            if op == "pow":  # binds to the right, and before a minus on its left only
                return f"{_print(left, _ATOM)} ** {_print(right, _UNARY)}", level
            return f"{_print(left, level)} {sign} {_print(right, level + 1)}", level
        case Compare(op=op, left=left, right=right):
            sides = _print(left, _COMPARISON + 1), _print(right, _COMPARISON + 1)
            return f"{sides[0]} {_COMPARE[op]} {sides[1]}", _COMPARISON
        case Select(condition=condition, then=then, otherwise=otherwise):
            parts = _print(then, 1), _print(condition, 1), _print(otherwise, 1)
            return f"{parts[0]} if {parts[1]} else {parts[2]}", _SELECT
        case Cast(operand=operand, dtype=dtype):
            return f"{dtype.value}({print_expr(operand)})", _ATOM
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(print_expr(a) for a in arguments)})", _ATOM
        case Fma(a=a, b=b, c=c):
            return f"fma({print_expr(a)}, {print_expr(b)}, {print_expr(c)})", _ATOM
        case _:
            assert_never(expr)


def _const(expr: Const) -> str:
    value = expr.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if expr.dtype is DType.F32:
        # The shortest digits that name this f32, not those of its f64 neighbour.
        return str(np.float32(value))
    return repr(value)
