"""Terms of sums that are of a form in which the value that they depend on can be exchanged for another (`tree.rewrite.running`)."""

from __future__ import annotations

from loopfuse.lang.nodes import Binary, Call, Const, Expr, Fma, Load, Unary
from loopfuse.lang.walk import loads, map_expr
from loopfuse.tree.looptree import Compute, TreeNode

EXPONENTIALS = ("exp", "exp2", "exp2.approx")


def other_of(node: TreeNode, op: str) -> Expr | None:
    """`e` of an update `t = op(t, e)`; None of others."""
    match node:
        case Compute(target=target, value=Binary(op=found, left=left, right=right)) if found == op and target in (left, right):
            return right if left == target else left
        case Compute(target=target, value=Fma(a=a, b=b, c=c)) if op == "add" and c == target:
            return Binary("mul", a, b, target.dtype)
        case _:
            return None


def term(value: Expr, seen: Load, op: str) -> Expr | None:
    """The `e` of a term of that form; None of others."""
    if op == "sum":
        found = distance(value, seen)
    else:
        power = exponential(value, seen)
        ends = None if power is None else _difference(power)
        found = None if ends is None or ends[op == "max"] != seen else ends[op != "max"]
    return None if found is None or _reads(found, seen) or _reads(with_zero(value, seen), seen) else found


def factor(value: Expr, seen: Load, was: Load, now: Load, op: str) -> Expr | None:
    """What makes a multiple of an exponential that depends on `was` one that depends on `now`; None where the value is none."""
    power = exponential(value, seen)
    ends = None if power is None else _difference(power)
    if power is None or ends is None:
        return None
    between = Binary("sub", *((was, now) if op == "max" else (now, was)), seen.dtype)
    return map_expr(lambda part: between if part == Binary("sub", *ends, seen.dtype) else part, power)


def exponential(value: Expr, seen: Load) -> Call | None:
    """The exponential that a value is a multiple of, where that alone depends on `seen`."""
    match value:
        case Call(function=name) if name in EXPONENTIALS and _reads(value, seen):
            return value
        case Unary(op="neg", operand=operand):
            return exponential(operand, seen)
        case Binary(op="mul", left=left, right=right) if _reads(left, seen) != _reads(right, seen):
            return exponential(left if _reads(left, seen) else right, seen)
        case Binary(op="div", left=left, right=right) if not _reads(right, seen):
            return exponential(left, seen)
        case _:
            return None


def _difference(power: Call) -> tuple[Expr, Expr] | None:
    """Of which two values it is the difference, as it is or times a positive number."""
    (inside,) = power.arguments
    match inside:
        case Binary(op="mul" | "div", left=left, right=Const(value=value)) if value > 0:
            inside = left
        case Binary(op="mul", left=Const(value=value), right=right) if value > 0:
            inside = right
        case _:
            pass
    return (inside.left, inside.right) if isinstance(inside, Binary) and inside.op == "sub" and inside.dtype is power.dtype else None


def distance(value: Expr, seen: Load) -> Expr | None:
    """`e`, where the value is `(e - seen) ** 2`; None elsewhere."""
    match value:
        case Binary(op="mul", left=Binary(op="sub", left=left, right=right) as one, right=other) if one == other:
            pass
        case Binary(op="pow", left=Binary(op="sub", left=left, right=right), right=Const(value=2)):
            pass
        case _:
            return None
    return left if right == seen else right if left == seen else None


def _reads(expr: Expr, load: Load) -> bool:
    return any(each.array == load.array for each in loads(expr))


def with_zero(value: Expr, seen: Load) -> Expr:
    """The value with 0 where it reads `seen`."""
    return map_expr(lambda part: Const(0.0, seen.dtype) if part == seen else part, value)
