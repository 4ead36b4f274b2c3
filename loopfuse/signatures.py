"""What a caller must pass, from the checked program: the manifest's first half.

Needs no planning, so that arguments can be checked and a target chosen before a compile.
"""

from __future__ import annotations

from typing import Any

from loopfuse.base.diagnostics import Diagnostic, InternalError
from loopfuse.lang import nodes

_INFIX = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}


def formula(expression: nodes.Expr) -> str:
    """An index expression over symbols as a Python expression.

    before: Binary("mul", Const(2), Symbol("N"))
    after: "2 * N"
    """
    return _formula(expression, 0)


def _formula(expression: nodes.Expr, tightness: int) -> str:
    match expression:
        case nodes.Const(value=value):
            text = str(int(value))
            return f"({text})" if int(value) < 0 and tightness else text
        case nodes.Symbol(name=name) | nodes.Iter(name=name):
            return name
        case nodes.Cast(operand=operand):
            return _formula(operand, tightness)
        case nodes.Unary(op="neg", operand=operand):
            return f"(-{_formula(operand, 3)})"
        case nodes.Binary(op="min" | "max" as op, left=left, right=right):
            return f"{op}({_formula(left, 0)}, {_formula(right, 0)})"
        case nodes.Binary(op=op, left=left, right=right) if op in _INFIX:
            level = 1 if op in ("add", "sub") else 2
            text = f"{_formula(left, level)} {_INFIX[op]} {_formula(right, level + 1)}"
            return f"({text})" if level < tightness else text
        case _:
            raise InternalError(
                Diagnostic("bad-extent", f"no formula for {type(expression).__name__}")
            )


def describe_kernel(kernel: nodes.Kernel) -> dict[str, Any]:
    """`kernel`, `parameters` and `sizes` as the manifest states them; `const` marks scalars that
    specialise."""
    parameters: list[dict[str, Any]] = []
    for parameter in kernel.params:
        match parameter:
            case nodes.ArrayParam(name=name, dtype=dtype, extents=extents, mode=mode):
                parameters.append(
                    {
                        "name": name,
                        "kind": "array",
                        "dtype": dtype.value,
                        "mode": mode,
                        "extents": [formula(extent) for extent in extents],
                    }
                )
            case nodes.ScalarParam(name=name, dtype=dtype, is_const=is_const):
                one: dict[str, Any] = {"name": name, "kind": "scalar", "dtype": dtype.value}
                if is_const:
                    one["const"] = True
                parameters.append(one)
    return {"kernel": kernel.name, "parameters": parameters, "sizes": list(kernel.sizes)}
