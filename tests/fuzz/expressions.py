"""Expressions of a given type. Values of another type are always cast, literals of small types too,
so that no rule of promotion stands in the way."""

from __future__ import annotations

from fuzz.builder import FLOATS, INTEGERS, Builder, Iterator, is_integer
from fuzz.ranges import size_range
from fuzz.subscripts import load, shifted, subscript

WIDE = ("f32", "f64", "i32", "i64")
MATH = ("tanh", "exp", "log", "exp2", "expm1", "log2", "log1p", "erf", "rsqrt")
ROUND = ("floor", "ceil", "trunc", "round")


def literal(b: Builder, dtype: str) -> str:
    """A number of `dtype`."""
    if dtype == "bool":
        return b.pick(["true", "false"])
    if dtype in FLOATS:
        text = b.pick(["1.0", "0.5", "2.0", "0.0", "0.1", "(-1.5)"])
    else:
        text = b.pick(["1", "2", "0", "3", "7"] + ["(-3)"] * (dtype[0] == "i"))
    return (
        text
        if dtype in WIDE
        else f"{dtype}({text.strip('()')})"
        if text[0] != "("
        else f"{dtype}({text[1:-1]})"
    )


def weak(text: str) -> bool:
    """Whether `text` holds no typed value, so that it would be i64 or f64 alone."""
    return not any(letter.isalpha() for letter in text)


def typed(dtype: str, text: str) -> str:
    """`text` with a type of its own."""
    return f"{dtype}({text})" if weak(text) and dtype != "bool" else text


def leaf(b: Builder, dtype: str) -> str:
    """A read, a scalar, an iterator or a literal."""
    options = b.loadable()
    same = [array for array in options if array.dtype == dtype]
    if same and not b.chance(5):
        made = [array for array in same if array.mode == "temp"]
        # The latest temporary, so that loops feed each other.
        return load(b, made[-1] if made and not b.chance(3) else b.pick(same))
    form = b.integer(0, 4)
    scalars = [name for name, held in b.scalars.items() if held == dtype]
    if form == 1 and scalars:
        return b.pick(scalars[::-1])
    if form == 2 and b.scope and dtype != "bool":
        return f"{dtype}({b.pick(b.scope[::-1]).name})"
    if form >= 3 and options and not (dtype in ("f16", "bf16") and not b.has("casts")):
        return f"{dtype}({load(b, b.pick(options))})"
    if form == 4 and b.constants and is_integer(dtype):
        return f"{dtype}({b.pick(b.constants)})"
    return literal(b, dtype)


def expression(b: Builder, dtype: str, depth: int = 2) -> str:
    """An expression of `dtype`, of at most `depth` nested operations."""
    if depth <= 0 or b.chance(4):
        return leaf(b, dtype)
    if b.maybe("conditionals", 8):
        chosen = condition(b, depth - 1)
        then, otherwise = expression(b, dtype, depth - 1), expression(b, dtype, depth - 1)
        return f"({typed(dtype, then)} if {chosen} else {typed(dtype, otherwise)})"
    if b.maybe("reductions", 6):
        found = reduction(b, dtype)
        if found:
            return found
    if b.maybe("funcs", 4):
        fitting = [name for name, (held, _) in b.functions.items() if held == dtype]
        if fitting:
            name = b.pick(fitting)
            values = [
                typed(dtype, expression(b, dtype, depth - 2)) for _ in range(b.functions[name][1])
            ]
            return f"{name}({', '.join(values)})"
    if b.maybe("tables", 4):
        found = stencil(b, dtype)
        if found:
            return found
    left = expression(b, dtype, depth - 1)
    if dtype == "bool":
        return _logic(b, left, depth)
    if b.maybe("casts", 5):
        through = b.pick(FLOATS[:2] + INTEGERS)
        return f"{dtype}({through}({left}))"
    if b.maybe("math", 3) and dtype in FLOATS:
        call = b.pick(MATH + ROUND)
        return (
            f"{call}(abs({typed(dtype, left)}))"
            if call in ("log", "log2", "rsqrt")
            else f"{call}({typed(dtype, left)})"
        )
    if b.chance(8):
        forms = ["abs({})", "sqrt(abs({}))", "(-{})"] if dtype in FLOATS else ["(-{})", "abs({})"]
        return b.pick(forms).format(typed(dtype, left))
    if b.maybe("bit_operations", 3) and is_integer(dtype):
        forms = ["(~{})", "({} << 3)", "({} >> 2)", "({} & 7)", "({} ** 3)"]
        return b.pick(forms).format(typed(dtype, left))
    operators = ["+", "-", "*"] + ["min", "max"] * b.has("min_max")
    if b.has("divisions"):
        operators += ["/", "//", "%"] if dtype in FLOATS else ["//", "%"]
    if b.has("bit_operations") and is_integer(dtype):
        operators += ["&", "|", "^"]
    operator = b.pick(operators)
    right = expression(b, dtype, depth - 1)
    if operator in ("min", "max"):
        return f"{operator}({typed(dtype, left)}, {right})"
    if operator in ("/", "//", "%"):
        return f"({typed(dtype, left)} {operator} {typed(dtype, leaf(b, dtype))})"
    return f"({left} {operator} {right})"


def _logic(b: Builder, left: str, depth: int) -> str:
    form = b.integer(0, 4)
    if form == 0:
        return comparison(b, depth - 1)
    if form == 1:
        return f"(not {left})"
    operator = b.pick(["and", "or", "^", "|", "&", "==", "!="])
    return f"({left} {operator} {expression(b, 'bool', depth - 1)})"


def comparison(b: Builder, depth: int = 1) -> str:
    """Two values of one type compared; a chain at times."""
    dtype = b.pick([d for d in b.dtypes if d != "bool"] or ["i32"])
    parts = [typed(dtype, expression(b, dtype, depth))]
    for _ in range(2 if b.maybe("chains", 3) else 1):
        parts += [b.pick(["<", "<=", ">", ">=", "==", "!="]), expression(b, dtype, depth)]
    return f"({' '.join(parts)})"


def condition(b: Builder, depth: int = 1) -> str:
    """A condition on iterators (exact) or on data."""
    exact = b.has("iterator_guards") or not b.has("data_guards")
    if b.scope and exact and not b.maybe("data_guards", 2):
        it = b.pick(b.scope[::-1])
        others = [other.name for other in b.scope if other is not it]
        integers = [name for name in b.parameters if name in b.scalars]
        bound = b.pick([str(b.integer(0, 4)), it.size + " - 2", *others, *integers])
        form = b.integer(0, 7)
        if form == 5:
            return f"{it.name} % 2 == {b.integer(0, 1)}"
        if form == 6 and others:
            return f"{it.name} + {others[0]} < {it.size}"
        if form == 7:
            return f"{it.name} == 0 or {it.name} == {it.size} - 1"
        return f"{it.name} {['<', '>=', '==', '!=', '<=', '<', '>', '>'][form]} {bound}"
    if b.maybe("mixed_conditions", 2):
        found = mixed(b)
        if found:
            return found
    return comparison(b, depth) if depth > 0 else leaf(b, "bool")


def mixed(b: Builder) -> str:
    """A condition that holds for some elements and not for their neighbours; '' where nothing is at
    hand to read."""
    options = [array for array in b.loadable() if array.dtype != "bool"]
    if not options:
        return ""
    array = b.pick(options)
    dtype = array.dtype
    if dtype in FLOATS:
        return f"{load(b, array)} {b.pick('<>')} {dtype}(0)"
    if b.chance(3):
        return f"u8({load(b, array)}) {b.pick(['!=', '=='])} u8({b.integer(0, 3)})"
    masked = f"({load(b, array)} & {dtype}({b.pick([1, 3])}))"
    return f"{masked} {b.pick(['!=', '=='])} {dtype}({b.integer(0, 1)})"


# ----------------------------------------------------------------------------------- reductions


def reduction(b: Builder, dtype: str) -> str:
    """A reduction of `dtype` over more iterators, or '' where none fits."""
    inside = sum(it.name in "pqr" for it in b.scope)
    if b.depth >= 3 or (inside and not b.has("nested_reductions")) or inside > 1:
        return ""
    two = b.depth < 2 and b.maybe("nested_reductions", 3)
    headers: list[str] = []
    ragged = "" if inside else ragged_range(b, "p") if b.maybe("ragged", 2) else ""
    if ragged:
        headers.append(ragged)
    else:
        for name in "pqr"[inside : inside + 1 + two]:
            it, header = size_range(b, name, b.pick(b.sizes))
            b.enter(it)
            headers.append(header)
    count = 0 if ragged else len(headers)
    if dtype == "bool":
        op, inner = b.pick(["any", "all"]), "bool"
    elif dtype == "i64" and count == 1 and b.maybe("arg_reductions", 2):
        b.leave(1)
        return arg_reduction(b, "pqr"[inside])
    else:
        op, inner = b.pick(["sum", "min", "max"] + ["prod"] * b.has("products")), dtype
    body = ragged_value(b, inner, "p") if ragged else expression(b, inner, 1)
    b.leave(count)
    text = f"{op}({', '.join(headers)}: {typed(inner, body)})"
    # Sums and products of small types are wide.
    return text if dtype in ("bool", "f32", "f64", "i64", "u64") else f"{dtype}({text})"


def arg_reduction(b: Builder, name: str) -> str:
    """`argmin` or `argmax` over one whole size that is not empty here."""
    here = [it.size for it in b.scope if it.size in b.sizes]
    size = b.pick(here) if here else ""
    if not size:
        return "i64(0)"
    dtype = b.pick(b.dtypes)
    b.enter(Iterator(name, size))
    body = typed(dtype, expression(b, dtype, 1))
    b.leave(1)
    return f"{b.pick(['argmin', 'argmax'])}({name} in 0..{size}: {body})"


def ragged_range(b: Builder, name: str) -> str:
    """`k in rows[i]..rows[i+1]`, or '' where no such array is at hand."""
    rows = b.with_role("rows")
    if not rows:
        return ""
    array = b.pick(rows)
    at = b.pick(b.over(array.extents[0].size)).name
    lower = b.pick([f"{array.name}[{at}]"] * 3 + ["0"])
    return f"{name} in {lower}..{array.name}[{shifted(at, 1)}]"


def ragged_value(b: Builder, dtype: str, name: str) -> str:
    """What a ragged loop reads with its iterator: an element of a one-dimensional array."""
    options = [a for a in b.arrays.values() if a.name in b.readable and a.role == "data"]
    options = [a for a in options if len(a.extents) == 1 and a.extents[0].size]
    options = [a for a in options if not b.inputs_only or a.mode == "in"]
    if not options:
        return literal(b, dtype)
    value = f"{b.pick(options).name}[{name}]"
    value = f"{dtype}({value})"
    if b.chance(2):
        operator = "and" if dtype == "bool" else b.pick(["*", "+"])
        return f"{value} {operator} {typed(dtype, leaf(b, dtype))}"
    return value


def stencil(b: Builder, dtype: str) -> str:
    """A sum of neighbours weighted by a const table, or ''."""
    tables = [name for name, held in b.tables.items() if held == dtype]
    options = [
        a
        for a in b.loadable()
        if a.dtype == dtype and all(e.size and e.scale == 1 for e in a.extents)
    ]
    if not tables or not options or any(it.name == "q" for it in b.scope):
        return ""
    array = b.pick(options)
    axis = b.integer(0, len(array.extents) - 1)
    index = [subscript(b, extent, plain=True) for extent in array.extents]
    offset = "OFF[q]" if b.has("unrolled_offsets") else "q - 1"
    index[axis] = f"{index[axis]} + {offset}"
    text = f"sum(q in 0..3: {b.pick(tables)}[q] * {array.name}.{b.pick(['clamp', 'zero', 'wrap'])}[{', '.join(index)}])"
    return text if dtype in ("f32", "f64", "i64", "u64") else f"{dtype}({text})"
