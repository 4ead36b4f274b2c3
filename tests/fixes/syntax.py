"""What is done about each message of the `.lf` reader."""

from __future__ import annotations

import re

from tests.fixes.said import ByMachine, ByUser, Entry, Said, in_text, mechanical, on_line, template


def _range(said: Said) -> str:
    found = re.search(r"\d+\.\.\w+", said.here)
    assert found is not None
    return found.group()


def _bracketed(said: Said) -> str:
    found = re.search(r"\((\w+) in (\S+)\)", said.here)
    assert found is not None
    return said.line_put(template(said.codes[0], i=found[1], **{"a..b": found[2]}))


def _chained(said: Said) -> str:
    assert "one assignment a line" in said.fix
    first, second, value = said.here.strip().split(" = ")
    return said.line_put(f"{second} = {value}", f"{first} = {second}")


def _headers(said: Said) -> str:
    found = re.search(r"for (\w+) in (\S+): for (\w+) in (\S+): (.*)", said.here)
    assert found is not None
    header = template(said.codes[0], **{"a..b": found[2], "c..d": found[4]}, i=found[1], j=found[3])
    return said.line_put(header, "    " + found[5])


def _indented(said: Said) -> str:
    count = re.search(r"by (\d+) spaces", said.fix)
    assert count is not None
    lines = said.text.split("\n")
    lines[said.line + 1] = " " * int(count[1]) + lines[said.line + 1]
    return "\n".join(lines)


def _dedented(said: Said) -> str:
    assert "the indentation of the line above" in said.fix
    above = re.match(" *", said.text.split("\n")[said.line - 1])
    assert above is not None
    lines = said.text.split("\n")
    lines[said.line] = above.group() + lines[said.line].strip()
    return "\n".join(lines)


def _looped(said: Said) -> str:
    found = re.search(r"\w+\[(\w+):(\w+)\]", said.here)
    assert found is not None
    header = template(said.codes[0], **{"a..b": f"{found[1]}..{found[2]}"})
    iterator = header.split()[1]
    return said.line_put(header, "    " + said.here.strip().replace(f"{found[1]}:{found[2]}", iterator))


def _bracket_lines(said: Said) -> str:
    assert "in brackets" in said.fix
    lines = said.text.split("\n")
    left, right = lines[said.line].split(" = ")
    lines[said.line] = f"{left} = ({right.rstrip(' ' + chr(92))}"
    lines[said.line + 1] += ")"
    return "\n".join(lines)


def _line_without(said: Said) -> str:
    assert re.search("remove (it|the line)$", said.fix)
    lines = said.text.split("\n")
    del lines[said.line]
    return "\n".join(lines)


SYNTAX: dict[str, Entry] = {
    "after-return": ByMachine(_line_without),
    "array-variable": ByMachine(
        on_line(r"let (\w+): ([^=]+) = .*", lambda s, m: template(s.codes[0], x=m[1], **{"...": m[2]}))
    ),
    "assignment-in-condition": ByMachine(mechanical),
    "attribute": ByUser("which of the sizes is meant is not written"),
    "bad-character": ByMachine(mechanical),
    "bad-indentation": ByUser("the line may belong to either of two blocks"),
    "bad-number": ByMachine(mechanical),
    "bracketed-header": ByMachine(_bracketed),
    "call-statement": ByUser("where the result is to go is not written"),
    "chained-assignment": ByMachine(_chained),
    "curly-bracket": ByMachine(
        lambda s: s.put(s.codes[0]).replace(" " + s.codes[0], s.codes[0]).replace("\n}", "")
    ),
    "default-value": ByMachine(on_line(r" = [^):,]+(?=\):)", lambda s, m: "" if "remove the value" in s.fix else "?")),
    "double-subscript": ByMachine(
        on_line(r"(\w+)\[(\w+)\]\[(\w+)\]", lambda s, m: template(s.codes[0], a=m[1], i=m[2], j=m[3]))
    ),
    "duplicate-mode": ByMachine(in_text(r"in out", lambda s, m: s.codes[0])),
    "else-if": ByMachine(mechanical),
    "else-without-if": ByUser("which `if` it belongs to is not written"),
    "float-digits": ByMachine(mechanical),
    "header-on-line": ByMachine(_headers),
    "inclusive-range": ByMachine(
        on_line(r"(\w+)\.\.=([^:]+)", lambda s, m: template(s.codes[0], a=m[1], b=m[2]))
    ),
    "kernel-result": ByUser("the name and the shape of the array are the user's"),
    "keyword-argument": ByMachine(
        on_line(r"\w+=(?=[^=])", lambda s, m: "" if "the value alone" in s.fix else "?")
    ),
    "keyword-as-name": ByMachine(mechanical),
    "line-continuation": ByMachine(_bracket_lines),
    "mismatched-bracket": ByMachine(mechanical),
    "misplaced-word": ByMachine(
        on_line(r"(\w+): out ([^)]+)", lambda s, m: template(s.codes[0], a=m[1], **{"...": m[2]})),
    ),
    "missing-block": ByMachine(_indented),
    "missing-colon": ByMachine(mechanical),
    "missing-else": ByUser("the other value is the user's"),
    "missing-expression": ByMachine(lambda s: s.put(" " + s.codes[0] if "here" in s.fix else "?")),
    "missing-let": ByMachine(
        on_line(r"(\w+): (.*)", lambda s, m: template(s.codes[0], x=m[1], **{"...": m[2]}))
    ),
    "missing-range": ByMachine(lambda s: s.put(template(s.codes[0], **{"a..b": _range(s)}))),
    "missing-result-type": ByMachine(on_line(r"\):", lambda s, m: s.codes[0])),
    "missing-return": ByMachine(lambda s: s.put("\n    " + s.codes[0] + "\n")),
    "missing-type": ByMachine(mechanical),
    "nesting-too-deep": ByUser("which inner part gets a name is the user's choice"),
    "number-out-of-range": ByMachine(mechanical),
    "python-bool": ByMachine(mechanical),
    "python-generator": ByMachine(
        on_line(
            r"sum\((.+) for (\w+) in ([^)]+)\)",
            lambda s, m: template(s.codes[0], **{"a..b": m[3], "x[k]": m[1], "k": m[2]}),
        )
    ),
    "python-range": ByMachine(mechanical),
    "range-dots": ByMachine(lambda s: s.line_put(s.here.strip().replace(s.codes[0].replace("..", ":"), s.codes[0]))),
    "range-end": ByMachine(on_line(r"(?<=in )\w+(?=:)", lambda s, m: s.codes[0] if m.group() == s.codes[1] else "?")),
    "return-in-kernel": ByUser("the name and the shape of the array are the user's"),
    "semicolon": ByMachine(lambda s: s.put("" if s.fix == "end the line instead" else "?")),
    "slice": ByMachine(_looped),
    "statement-in-func": ByUser("an `if` with its returns becomes an expression in many ways"),
    "statement-outside": ByUser("the kernel's name and parameters are the user's"),
    "string-literal": ByMachine(on_line(r'"([^"]*)"', lambda s, m: f"{s.codes[0]} {m[1]}")),
    "tab-indentation": ByMachine(
        lambda s: s.put(" " * int(next(iter(re.findall(r"with (\d+) spaces", s.fix)))))
    ),
    "tuple-assignment": ByMachine(
        lambda s: s.line_put(s.codes[0]),
        "kernel k(inout p: f32[N], inout q: f32[N]):\n    p, q = q, p\n    p[0] = 1.0\n",
    ),
    "type-first": ByMachine(mechanical),
    "unclosed-bracket": ByMachine(mechanical),
    "unexpected-end": ByMachine(
        _line_without, "kernel k(inout a: f32[N]):\n    a[0] = 1.0\n    let x\n"
    ),
    "unexpected-indent": ByMachine(_dedented),
    "unexpected-token": ByMachine(mechanical),
    "unknown-dtype": ByMachine(mechanical),
    "unknown-edge-mode": ByMachine(mechanical),
    "unknown-item": ByMachine(mechanical),
    "unknown-operator": ByMachine(mechanical),
    "unknown-reduction": ByMachine(mechanical),
    "unknown-statement": ByUser("how many turns a `while` takes is not written"),
    "unopened-bracket": ByMachine(mechanical),
}
