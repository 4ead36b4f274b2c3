"""What is done about each message of the model and of the planner."""

from __future__ import annotations

import re

from tests.fixes.command_line import INSTANCES, MANY_INSTANCES
from tests.fixes.said import ByMachine, ByUser, Entry, Said, in_text, on_line


def range_or_edge(said: Said) -> str:
    """The range of the loop's header, or the edge mode at the access: whatever is named first."""
    code = said.codes[0]
    if code.startswith("for "):
        header = re.match(r"for \w+ in ", code)
        assert header is not None
        changed, count = re.subn(re.escape(header.group()) + "[^:]*", code, said.text, count=1)
        assert count == 1
        return changed
    if " in " in code:
        iterator = code.split()[0]
        changed, count = re.subn(rf"\b{iterator} in [^,:]+", code, said.text, count=1)
        assert count == 1
        return changed
    array = re.match(r"\w+", code)
    assert array is not None
    return said.line_put(re.sub(rf"\b{array.group()}\[[^\]]*\]", code, said.here.strip(), count=1))


_EDGE = """kernel blur(img: f32[H, W], out rows: f32[H, W]):
    for y in 0..H, x in 2..W:
        rows[y, x] = 0.5*(img[y, x-2] + img[y, x+{}])
"""

BOUNDS: dict[str, Entry] = {
    "subscript-range": ByMachine(range_or_edge, _EDGE.format(2)),
    "subscript-unproved": ByUser("another subscript or another array is the user's choice"),
    "uninitialised-read": ByUser("what is to be written is not known"),
    "temp-extent": ByUser("the extent that the largest iteration needs is not known"),
    "arg-reduction": ByUser("no program of this version is answered so"),
    "missing-size": INSTANCES,
    "too-many-instances": MANY_INSTANCES,
    "dependences-unknown": ByUser("how to make a subscript simpler is the user's choice"),
}


def edge(said: Said) -> str:
    """`repeat the edge: `img.clamp[y, x-2]``, the last that is named."""
    code = said.codes[-1]
    assert "clamp" in code and "edge" in said.fix
    array = re.match(r"\w+", code)
    assert array is not None
    column = said.diagnostic.span.column - 1
    return on_line(
        rf"\b{array.group()}\[[^\]]*\]", lambda _, found: code, covers=column
    )(said)


_SHIFTED = """@loopfuse.kernel
def k(x: loopfuse.f32["H", "W"], y: loopfuse.f32["H", "W"]):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j + 2]
"""
EDGES = [
    ("bounds", "subscript-range", ByMachine(edge, _EDGE.format(2))),
    ("bounds", "subscript-range", ByMachine(edge, _SHIFTED)),
    ("bounds", "subscript-range", ByMachine(range_or_edge, _SHIFTED)),
]
"""Both fixes, in both doors."""


def new_array(said: Said) -> str:
    """`let L2 write a new array instead of `a``: with a copy of the parameter that it becomes."""
    code = next(iter(re.findall(r"instead of `(\w+)`", said.fix)))
    declared = re.search(rf"(?:in)?out {code}: ([^\]]*\])", said.text)
    assert declared is not None
    lines = said.text.split("\n")
    at = max(k for k, line in enumerate(lines) if re.search(rf"\b{code}\[[^=]*\] [-+*]?=", line))
    lines[at] = re.sub(rf"\b{code}(\[[^=]*\] [-+*]?=)", r"new\1", lines[at], count=1)
    return "\n".join(lines).replace("):", f", out new: {declared[1]}):", 1)


PLANNING: dict[str, Entry] = {
    "cannot-fuse": ByMachine(new_array),
    "not-parallel": ByMachine(
        in_text(r"parallel for \w+(?= in)", lambda s, m: s.codes[0]),
    ),
    "bad-tree": ByUser("it is a fault of ours, and asks for a report"),
}
