"""What makes a fusion dear that computes values anew: which array, how often, and its dearest function."""

from __future__ import annotations

from collections import Counter

from loopfuse.lang import ops
from loopfuse.lang.nodes import Binary, Call, Expr
from loopfuse.lang.price import own_price
from loopfuse.lang.walk import walk_expr
from loopfuse.plan.fusion.cost import CostModel, operations_of
from loopfuse.plan.units.groups import Group
from loopfuse.poly.model import Statement

SHARE = 0.25
"""A function is named where it makes this much of what a value costs."""


def describe_dear(cost: CostModel, group: Group) -> str:
    """`l` would be computed 3 times for one use, a `pow` each time; "" where nothing is computed
    anew."""
    times = Counter(value.statement for value in cost.values_anew(group))
    if not times:
        return ""
    by_id = cost.program.by_id
    dearest = max(times, key=lambda name: (times[name] * operations_of(by_id[name], cost.device), name))
    statement, count = by_id[dearest], times[dearest]
    function = _dearest_function(statement, cost.device)
    often = "once more" if count == 1 else f"{count} times"
    with_what = f", with `{function}`" if function else ""
    return f"`{statement.write.array}` would be computed {often} for each iteration{with_what}"


def _dearest_function(statement: Statement, device: str) -> str:
    """The function that most of the value's time goes to, if there is one."""
    prices: Counter[str] = Counter()
    total = 0.0
    for each in walk_expr(statement.value):
        price = own_price(each, device)
        total += price
        name = _function(each)
        if name:
            prices[name] += round(price)
    if not prices:
        return ""
    name, price = prices.most_common(1)[0]
    return name if price >= SHARE * total else ""


def _function(expr: Expr) -> str:
    match expr:
        case Call(function=name) | Binary(op=name) if name in ops.BY_NAME and ops.BY_NAME[name].function:
            return name
        case Call(function=name) if name in ops.APPROXIMATE:
            word = name.removesuffix(".approx")
            return word if word in ops.FUNCTIONS else ""
        case _:
            return ""
