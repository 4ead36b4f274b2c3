"""What is done about each message of the checker."""

from __future__ import annotations

import re

from tests.fixes.said import (
    ByMachine,
    ByUser,
    Entry,
    Said,
    in_text,
    mechanical,
    on_line,
    swap_code,
    template,
)


def _call(said: Said) -> re.Match[str]:
    found = re.search(r"\w+\((.*)\)", said.here)
    assert found is not None
    return found


def _with_parameter(said: Said) -> str:
    """`add the parameter `N: i64``."""
    code = said.codes[-1]
    assert "parameter `" in said.fix
    return said.text.replace("):", f", {code}):", 1)


def _declared(said: Said) -> str:
    """The line of the label, with the declaration that the fix has."""
    label = next(one for one in said.diagnostic.labels if "declared" in one.text)
    line = said.text.split("\n")[label.span.line - 1]
    value = line.split("=", 1)[1].strip()
    return said.line_put(template(said.codes[0], **{"...": value}), line=label.span.line - 1)


def _new_variable(said: Said) -> str:
    """`declare another: `let i2 = ...``, which the lines below then read."""
    left, _, value = said.here.strip().partition(" = ")
    code = template(said.codes[0], **{"...": value})
    return said.line_put(code).replace(f"= {left}\n", f"= {code.split()[1]}\n")


def _instead(said: Said) -> str:
    """`write `y[...]``: the place's array with its own subscripts."""
    inner = re.search(r"\[(.*?)\]", said.text[said.bounds[0] :])
    assert inner is not None
    old = re.search(r"\w+(\.\w+)?[\[(]" + re.escape(inner[1]) + r"[\])]", said.here)
    assert old is not None
    return said.line_put(said.here.strip().replace(old.group(), template(said.codes[0], **{"...": inner[1]}), 1))


CHECK: dict[str, Entry] = {
    "unknown-name": ByMachine(mechanical),
    "duplicate-name": ByMachine(mechanical),
    "shadowed-name": ByMachine(mechanical),
    "array-without-subscript": ByMachine(mechanical),
    "not-an-array": ByMachine(on_line(r"s\[i\]", lambda s, m: s.codes[0])),
    "wrong-rank": ByUser("which subscript the other dimension gets is not written"),
    "unknown-function": ByMachine(mechanical),
    "not-a-function": ByMachine(
        on_line(r"(\w+)\((\w+)\)", lambda s, m: template(s.codes[0], **{"...": m[2]})),
    ),
    "kernel-called": ByUser("which part of the kernel both need is the user's choice"),
    "argument-count": ByUser("the argument that is missing is not written"),
    "recursive-func": ByUser("how often it repeats is not written"),
    "size-not-determined": ByMachine(_with_parameter),
    "scalar-mode": ByMachine(lambda s: s.put(s.codes[0])),
    "const-array": ByMachine(in_text(r"const ", lambda s, m: "" if s.codes[-1] == "const" else "?")),
    "bad-conversion": ByMachine(mechanical),
    "literal-range": ByMachine(
        on_line(r"x\[i\]", lambda s, m: template(s.codes[0], **{"...": m.group()})),
    ),
    "bool-arithmetic": ByMachine(mechanical),
    "bitwise-type": ByMachine(mechanical),
    "not-a-condition": ByMachine(mechanical),
    "type-mismatch": ByUser("whether bools or numbers are meant is not written"),
    "index-type": ByMachine(swap_code(0, 1)),
    "division-in-index": ByUser("which positive number is meant is not written"),
    "assign-to-in": ByMachine(mechanical),
    "assign-to-let": ByMachine(_declared),
    "assign-to-iterator": ByMachine(_new_variable),
    "assign-to-size": ByMachine(_new_variable),
    "assign-to-parameter": ByMachine(_new_variable),
    "assign-to-constant": ByMachine(_new_variable),
    "mode-on-target": ByMachine(_instead),
    "var-needs-type": ByMachine(lambda s: s.line_put(s.codes[0])),
    "step-zero": ByUser("how far a turn goes is the user's choice"),
    "step-not-constant": ByMachine(in_text(r"s: i64", lambda s, m: s.codes[0])),
    "extent-iterator": ByUser("the largest extent is not written"),
    "negative-extent": ByUser("the number of elements is not written"),
    "not-constant": ByUser("the value of the function is the user's to write"),
    "table-shape": ByMachine(in_text(r"\[\d+\]", lambda s, m: s.codes[0])),
    "table-range": ByMachine(
        in_text(r"(?<=in )\d+\.\.\d+", lambda s, m: s.fix.removeprefix("keep it in "))
    ),
    "table-mode": ByMachine(_instead, "const w: f32[3] = [0.25, 0.5, 0.25]\nkernel k(out y: f32[N]):\n    y[0] = w.clamp[2]\n"),
    "swap-mismatch": ByUser("which two arrays are meant is the user's choice"),
    "swap-in-parallel": ByMachine(in_text(r"parallel for", lambda s, m: s.codes[0])),
    "assume-data": ByUser("what holds of the sizes is not written"),
    "mixed-halves": ByMachine(on_line(r"z\[i\]", lambda s, m: s.codes[0])),
    "arg-ranges": ByUser("the two reductions need a name and a place"),
    "empty-arg-reduction": ByUser("the range that is meant is not written"),
    "data-dependent-extent": ByUser("the caller has to pass the size"),
    "data-dependent-bound": ByUser("the caller has to pass the bound"),
    "not-affine": ByUser("the caller has to pass an array of another rank"),
    "table-subscript": ByUser("the caller has to pass the table"),
    "unroll-bounds": ByUser("the caller has to pass the table"),
    "unroll-too-large": ByUser("the caller has to pass the table"),
    "rank-too-large": ByUser("which dimensions are left out is the user's choice"),
    "kernel-too-large": ByUser("the caller has to pass the tables"),
    "index-too-large": ByUser("the step that is meant is not written"),
    "swap-too-deep": ByUser("how often it is to swap is not written"),
    "swap-rotation": ByUser("which pairs to swap is the user's choice"),
    "integer-power": ByMachine(
        lambda s: s.put(template(s.codes[0], **{"...": s.place.split("** ")[1]}))
    ),
    "const-needs-value": ByMachine(lambda s: f"{s.text}# given {s.codes[0]}\n"),
    "func-array-parameter": ByUser("which elements the func needs is not written"),
    "expression-too-large": ByUser("which parts get a name is the user's choice"),
    "promotes-to-f64": ByMachine(on_line(r"\bn\[i\]", lambda s, m: s.codes[0])),
    "fma-of-integers": ByMachine(
        lambda s: s.put(template(s.codes[0], **dict(zip("abc", _call(s)[1].split(", ")))))
    ),
    "never-used": ByMachine(
        lambda s: s.line_put() if s.fix == "remove it" else "?",
        "kernel k(x: f32[N], out y: f32[N]):\n    for i in 0..N:\n        let v = x[i]\n        y[i] = x[i]\n",
    ),
    "never-written": ByMachine(
        lambda s: s.put(s.place.replace(f"{s.codes[0]} ", "", 1)),
    ),
}
