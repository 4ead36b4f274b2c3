"""What is done about each message of the Python door."""

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

HEAD = '@loopfuse.kernel\ndef k(x: loopfuse.f32["N"], y: loopfuse.f32["N"]):\n'


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _moved(text: str, first: int, last: int, to: int, shift: int) -> str:
    """The lines first..last before the line `to` (of what is left), `shift` columns further in."""
    lines = text.split("\n")
    block = [" " * shift + line if shift >= 0 else line[-shift:] for line in lines[first:last]]
    del lines[first:last]
    return "\n".join([*lines[:to], *block, *lines[to:]])


def _block_end(lines: list[str], first: int) -> int:
    """The line behind the block that the header at `first` opens."""
    end = first + 1
    while end < len(lines) and (not lines[end].strip() or _depth(lines[end]) > _depth(lines[first])):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return end


def _under_the_opposite(said: Said) -> str:
    """`if c: continue` and what follows, as what follows under `if not (c)`."""
    assert "under" in said.fix and said.codes[-1] == "if"
    lines = said.text.split("\n")
    test = said.line - 1
    condition = lines[test].strip().removeprefix("if ").removesuffix(":")
    lines[test] = " " * _depth(lines[test]) + f"if not ({condition}):"
    del lines[said.line]
    end = said.line
    while end < len(lines) and _depth(lines[end]) == _depth(lines[test]) and lines[end].strip():
        lines[end] = "    " + lines[end]
        end += 1
    return "\n".join(lines)


def _after_the_loop(said: Said) -> str:
    assert "after the loop" in said.fix
    lines = said.text.split("\n")
    other = next(k for k in range(said.line, 0, -1) if lines[k].strip() == f"{said.codes[0]}:")
    for k in range(other + 1, _block_end(lines, other)):
        lines[k] = lines[k][4:]
    del lines[other]
    return "\n".join(lines)


def _without_try(said: Said) -> str:
    assert said.fix == "remove `try`"
    lines = said.text.split("\n")
    body = _block_end(lines, said.line)
    handlers = _block_end(lines, body)
    kept = [line[4:] for line in lines[said.line + 1 : body]]
    lines[said.line : handlers] = kept
    return "\n".join(lines)


def _asserted(said: Said) -> str:
    word = said.codes[0].split()[0]
    lines = said.text.split("\n")
    test = said.line - 1
    condition = lines[test].strip().removeprefix("if ").removesuffix(":")
    lines[test : said.line + 1] = [" " * _depth(lines[test]) + f"{word} not ({condition})"]
    return "\n".join(lines)


def _to_the_top(said: Said) -> str:
    """Moves the place's statement out of the function, or to its top."""
    lines = said.text.split("\n")
    end = _block_end(lines, said.line)
    inside = "function's top" in said.fix
    assert inside or "outside" in said.fix or "top of the file" in said.fix
    top = next(k for k, line in enumerate(lines) if line.startswith("def k")) + 1 if inside else 0
    return _moved(said.text, said.line, end, top, 4 * inside - _depth(lines[said.line]))


def _without_line(said: Said) -> str:
    assert "remove it" in said.fix
    return said.line_put()


def _elements(said: Said) -> str:
    """`write `for i in range(1, len(x)):`, and `x[i]``."""
    found = re.search(r"for (\w+) in", said.here)
    assert found is not None
    lines = said.line_put(said.codes[0]).split("\n")
    lines.insert(said.line + 1, " " * (_depth(said.here) + 4) + f"{found[1]} = {said.codes[1]}")
    return "\n".join(lines)


def _first_of_all(said: Said) -> str:
    """`give it one before: `t = 0.0``."""
    assert "before" in said.fix
    return re.sub(r"(def k\(.*\n)", rf"\1    {said.codes[-1]}\n", said.text, count=1)


def _last_of_the_loop(said: Said) -> str:
    """`assign it inside the loop: `last = i``."""
    code = said.codes[-1]
    lines = said.put(code.split()[0]).split("\n")
    above = said.line - 1
    lines.insert(said.line, " " * _depth(lines[above]) + code)
    return "\n".join(lines)


def _other_name(said: Said) -> str:
    """The assignment under the new name, which the lines below read."""
    name, new = re.match(r"\w+", said.here.strip()), said.codes[-1].split()[0]
    assert name is not None
    lines = said.line_put(said.codes[-1]).split("\n")
    below = "\n".join(lines[said.line + 1 :])
    below = re.sub(rf"\b{name.group()}\b", new, below)
    return "\n".join([*lines[: said.line + 1], below])


def _same_array(said: Said) -> str:
    assert f"use `{said.codes[0]}` itself" in said.fix
    old = said.here.split("=")[0].strip()
    return re.sub(rf"\b{old}\b", said.codes[0], said.line_put())


def _summed(said: Said) -> str:
    """`write `s = 0.0`, then `s += x[i]` in a `for``, and the name for what was written so."""
    start, update = said.codes[0], said.codes[1]
    name = start.split()[0]
    inner = re.search(r"(\w+\.\w+|\w+)\((?:(\w+)|(.*) for (\w+) in (.*?\)))?\)", said.here)
    assert inner is not None
    header = f"for {inner[4]} in {inner[5]}:" if inner[3] else f"for i in range(len({inner[2] or 'x'})):"
    update = update.replace("...", inner[3] or "")
    left = said.here.strip().replace(inner.group(), name)
    return said.line_put(start, header, "    " + update, left)


def _own_line(said: Said) -> str:
    name, value = said.place.strip("()").split(" := ")
    assert "a line of its own" in said.fix
    whole = f"({said.place})" if f"({said.place})" in said.here else said.place
    return said.line_put(f"{name} = {value}", said.here.strip().replace(whole, name, 1))


def _at_the_label(said: Said) -> str:
    """`write `np.float32(0.1)``, where the label says that the number stands."""
    inner = re.search(r"\((.*)\)", said.codes[0])
    assert inner is not None
    label = said.diagnostic.labels[0].span
    lines = said.text.split("\n")
    line = lines[label.line - 1]
    at = label.column - 1
    assert line[at:].startswith(inner[1]), line
    lines[label.line - 1] = line[:at] + said.codes[0] + line[at + len(inner[1]) :]
    return "\n".join(lines)


def _named(said: Said) -> str:
    """`assign it on a line of its own: `t = np.zeros(3)``."""
    name, value = said.codes[0].split(" = ")
    return said.line_put(said.codes[0], said.here.strip().replace(value, name))


def _one_of(said: Said) -> str:
    first = re.search(r"one of ('\w+')", said.fix)
    assert first is not None
    return re.sub(r"='\w+'|=\"\w+\"", f"={first[1]}", said.text, count=1)


PYTHON: dict[str, Entry] = {
    "not-a-function-definition": ByUser("the loop over the elements is to be written"),
    "no-source": ByUser("the function has to be put in a file"),
    "variadic-parameters": ByUser("the names of the parameters are the user's"),
    "unknown-annotation": ByMachine(in_text(r'(?<=x: )"[^"]*\[.\]"', lambda s, m: s.codes[0])),
    "annotation-extent": ByUser("which size is meant is not written"),
    "python-types-unknown": ByMachine(
        lambda s: s.text.replace(f"({s.codes[0]})", f"({s.codes[1]})").replace("k.dependences()\n", "")
    ),
    "argument-type": ByUser("which array or number was meant is not written"),
    "kernel-option": ByMachine(_one_of),
    "while-loop": ByUser("how many turns it takes is not written"),
    "break-statement": ByUser("how far the loop is to run is not written"),
    "continue-statement": ByUser("the rest of the body stands in two blocks; test_python_kernels does it"),
    "for-else": ByMachine(_after_the_loop),
    "try-statement": ByMachine(_without_try),
    "raise-statement": ByMachine(_asserted, HEAD + "    if len(x) == 0:\n        raise ValueError\n    y[0] = x[0]\n"),
    "global-statement": ByUser("the caller has to pass the array"),
    "nested-function": ByMachine(_to_the_top),
    "nested-class": ByUser("what holds its numbers instead is the user's choice"),
    "import-statement": ByMachine(_to_the_top),
    "delete-statement": ByMachine(_without_line),
    "match-statement": ByUser("a pattern becomes a condition in many ways"),
    "with-statement": ByMachine(lambda s: s.line_put(s.codes[0])),
    "call-statement": ByMachine(
        _without_line, HEAD + "    for i in range(len(x)):\n        y[i] = x[i]\n        print(x[i])\n"
    ),
    "statement-without-effect": ByMachine(_without_line, HEAD + "    x[0] + 1.0\n    y[0] = x[0]\n"),
    "early-return": ByMachine(_under_the_opposite),
    "chained-assignment": ByMachine(lambda s: s.line_put(*s.codes)),
    "assignment-target": ByUser("which element is meant is not written"),
    "unpacking": ByUser("which elements the names are to have is not written"),
    "loop-over-elements": ByMachine(_elements),
    "range-arguments": ByUser("how far it counts is not written"),
    "iterator-taken": ByMachine(mechanical),
    "iterator-assigned": ByMachine(_other_name),
    "iterator-after-loop": ByMachine(_last_of_the_loop),
    "undefined-name": ByMachine(mechanical),
    "maybe-unassigned": ByMachine(_first_of_all),
    "parameter-assigned": ByMachine(_other_name),
    "array-rebound": ByMachine(
        _other_name,
        HEAD + "    t = np.zeros_like(x)\n    t[0] = x[0]\n    t = np.zeros_like(x)\n    y[0] = t[0]\n",
    ),
    "array-alias": ByMachine(_same_array),
    "write-outside": ByUser("the caller has to pass the array"),
    "unsupported-global": ByUser("what the kernel needs of it is not written"),
    "unsupported-table": ByUser("the number that is missing is not written"),
    "whole-table": ByMachine(mechanical),
    "whole-array": ByMachine(lambda s: s.put(s.codes[0] if "use" in s.fix else "?")),
    "slice": ByUser("two slices are to be counted by one iterator"),
    "row-access": ByUser("which element of the row is meant is not written"),
    "number-subscript": ByMachine(
        on_line(r"\bt\[0\]", lambda s, m: s.codes[0]),
    ),
    "unknown-subscript": ByUser("what its elements would be is not known"),
    "float-index": ByMachine(swap_code(0, 1)),
    "edge-mixed": ByMachine(
        on_line(r"reflect\(([^,]+), 7\)", lambda s, m: template(s.codes[0], i=m[1])),
    ),
    "shape-alone": ByMachine(mechanical),
    "shape-index": ByMachine(on_line(r"(?<=shape\[)\d", lambda s, m: s.codes[0])),
    "shape-ranks": ByUser("which arrays are to be compared is not written"),
    "unknown-attribute": ByUser("what is wanted of the array is not known"),
    "array-method": ByMachine(_summed),
    "whole-array-function": ByMachine(_summed),
    "matrix-product": ByUser("the loops and the array of the product are the user's"),
    "array-in-expression": ByMachine(
        _named, HEAD + "    for i in range(3):\n        y[i] = 1.0 + np.zeros(3)\n"
    ),
    "creation-arguments": ByMachine(mechanical),
    "unknown-dtype": ByMachine(mechanical),
    "return-value": ByMachine(lambda s: s.line_put(s.codes[0])),
    "exchange-condition": ByUser("whether they change places either way is the user's choice"),
    "exchange-mismatch": ByMachine(
        in_text(r'y: loopfuse.f32\["M"\]', lambda s, m: s.codes[0]),
    ),
    "exchange-rotation": ByUser("the array that holds them all is to be passed by the caller"),
    "return-place": ByMachine(_to_the_top),
    "return-extent": ByUser("how the size follows from the arguments is not written"),
    "weak-mix": ByMachine(_at_the_label),
    "inverted-bool": ByMachine(mechanical),
    "string-value": ByMachine(mechanical),
    "complex-value": ByUser("the caller has to pass both parts"),
    "unknown-literal": ByMachine(lambda s: s.put(s.codes[-1])),
    "container-value": ByUser("how large the array is to be is not written"),
    "comprehension": ByMachine(_summed),
    "lambda-expression": ByUser("the name of the function is the user's"),
    "assignment-expression": ByMachine(_own_line),
    "yield-expression": ByUser("the array and its size are the user's"),
    "identity-test": ByMachine(on_line(r"\bis\b", lambda s, m: s.codes[0])),
    "membership-test": ByMachine(mechanical),
    "unknown-call": ByMachine(mechanical),
    "python-reduction": ByMachine(_summed),
    "length-of-value": ByUser("which array is meant is not written"),
    "call-of-value": ByMachine(on_line(r"(?<=t)\(", lambda s, m: f" {s.codes[0]} (")),
    "call-arguments": ByUser("which of the arguments is meant is not written"),
    "call-keywords": ByUser("what the keyword is to do is not written"),
    "kernel-in-kernel": ByUser("which part of the kernel both need is the user's choice"),
    "helper-statement": ByUser("where the loop stands in the kernel is the user's choice"),
    "helper-return": ByUser("the other value is the user's"),
    "helper-array": ByUser("which elements the function needs is not written"),
    "helper-arguments": ByUser("which of the arguments is meant is not written"),
    "recursive-helper": ByUser("how often it repeats is not written"),
}
