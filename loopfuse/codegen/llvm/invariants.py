"""Addresses and ends that an innermost loop does not change, kept in front of it.

When code is made, LLVM's loop strength reduction looks through what stands before a loop, and may put it into the loop:
the minima, maxima and products by which a stencil's rows are found are then computed in each iteration (a smoothing of
planes took 62 instructions for a vector, and takes 21).

before:  %row = getelementptr float, ptr %a, i64 %start         %start = max(y - 1, 0) * W
         loop: %place = getelementptr float, ptr %row, i64 %i
after:   %row = getelementptr float, ptr %a, i64 %start
         %held.row = freeze ptr %row
         loop: %place = getelementptr float, ptr %held.row, i64 %i

`freeze` gives a value as it is, and nothing looks through it. It is put in when all optimisations are done, so that none
is kept from anything.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

_LABEL = re.compile(r"(\"[^\"]+\"|[^\s:;\"]+):")
_VALUE = re.compile(r"%(?:\"[^\"]+\"|[\w.$-]+)")
_TARGET = re.compile(r"label %(\"[^\"]+\"|[\w.$-]+)")
_ADDRESS = ("getelementptr ", "add ", "sub ", "or ", "mul ", "shl ", "icmp ")
"""What computes places in a loop, and asks whether it goes on."""
_COMPUTED = re.compile(
    r"(getelementptr )|(?:(?:add|sub|mul|shl|or|and|ashr|lshr) (?:\w+ )*?|(?:tail )?call (?:\w+ )*?(?=i\d+ @llvm\.[su](?:min|max)\.)|"
    r"select i1 [^,]+, |[sz]ext i\d+ [^ ]+ to |trunc i\d+ [^ ]+ to )(i\d+)\b"
)
"""What computes them in front of one, and the type that it gives."""


def hold_invariants(optimised: str) -> str:
    """The module, what its innermost loops compute addresses from held in front of them."""
    out: list[str] = []
    function: list[str] = []
    for line in optimised.split("\n"):
        if function or line.startswith("define "):
            function.append(line)
            if line == "}":
                out += _held(function)
                function = []
        else:
            out.append(line)
    return "\n".join(out)


def _held(lines: Sequence[str]) -> list[str]:
    """One function."""
    starts = {"": 0} | {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))}
    ends = dict(zip(starts, [*list(starts.values())[1:], len(lines)], strict=True))
    targets = {label: _targets(lines, start, ends[label]) for label, start in starts.items()}
    loop_of = {
        number: loop for loop in _innermost(targets) for label in loop for number in range(starts[label], ends[label])
    }
    if not loop_of:
        return [*lines]
    defined = {line[2 : line.index(" = ")]: number for number, line in enumerate(lines) if line.startswith("  %") and " = " in line}
    held: dict[int, str] = {}
    out = [*lines]
    for number, around in loop_of.items():
        line = lines[number]
        name, _, body = line.partition(" = ")
        if not body.startswith(_ADDRESS) or not line.startswith("  %"):
            continue

        def put(found: re.Match[str], loop: Collection[str] = around) -> str:
            at = defined.get(found[0])
            if at is None or loop_of.get(at) is loop:
                return found[0]
            if at not in held and (kind := _kind(lines[at])):
                held[at] = f"  {_name(found[0])} = freeze {kind} {found[0]}"
            return _name(found[0]) if at in held else found[0]

        out[number] = f"{name} = {_VALUE.sub(put, body)}"
    return [each for number, line in enumerate(out) for each in ((line, held[number]) if number in held else (line,))]


def _name(value: str) -> str:
    quoted = value.startswith('%"')
    return f'%"held.{value[2:]}' if quoted else f"%held.{value[1:]}"


def _kind(line: str) -> str:
    """The type of what a line computes, where its operation may be put into a loop; else ""."""
    body = line.partition(" = ")[2]
    found = _COMPUTED.match(body)
    if found is None or "<" in body:
        return ""
    return "ptr" if found[1] else found[2]


def _targets(lines: Sequence[str], start: int, end: int) -> tuple[str, ...]:
    """Where a block branches to."""
    for number in range(end - 1, start - 1, -1):
        if lines[number].startswith(("  br ", "  switch ")):
            return tuple(_TARGET.findall("\n".join(lines[number:end])))
        if lines[number].startswith(("  ret ", "  unreachable")):
            break
    return ()


def _innermost(targets: Mapping[str, Sequence[str]], blocks: Collection[str] | None = None) -> list[frozenset[str]]:
    """The blocks of each loop that has no loop inside; of those among `blocks`."""
    out: list[frozenset[str]] = []
    for loop in _cycles(targets if blocks is None else blocks, targets):
        heads = {to for label in targets if label not in loop for to in targets[label]} & loop
        inside = _innermost(targets, loop - heads) if heads else []
        out += inside or [loop]
    return out


def _cycles(blocks: Collection[str], targets: Mapping[str, Sequence[str]]) -> Iterator[frozenset[str]]:
    """The strongly connected parts in which something goes round (R. Tarjan, 1972)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for root in targets:
        if root not in blocks or root in numbers:
            continue
        numbers[root] = lowest[root] = len(numbers)
        stack.append(root)
        on_stack.add(root)
        way = [(root, iter(targets[root]))]
        while way:
            label, rest = way[-1]
            following = next((to for to in rest if to in blocks and (to not in numbers or to in on_stack)), None)
            if following is None:
                way.pop()
                if way:
                    lowest[way[-1][0]] = min(lowest[way[-1][0]], lowest[label])
                if lowest[label] == numbers[label]:
                    part: set[str] = set()
                    while label not in part:
                        part.add(one := stack.pop())
                        on_stack.discard(one)
                    if len(part) > 1 or label in targets[label]:
                        yield frozenset(part)
            elif following in numbers:
                lowest[label] = min(lowest[label], numbers[following])
            else:
                numbers[following] = lowest[following] = len(numbers)
                stack.append(following)
                on_stack.add(following)
                way.append((following, iter(targets[following])))
