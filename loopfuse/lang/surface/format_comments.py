"""Where comments stood, told by the statements they stood at, so that they can be printed again.

A statement's place is its first line; where it runs over several lines inside brackets, all of
them belong to it. A comment after a statement's last line trails it; one between its lines, which
the printer joins, moves above it; one on a line of its own stays between its neighbours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from loopfuse.lang.surface import syntax


@dataclass(slots=True)
class Comments:
    """The comments of a module not printed yet; printing takes them out."""

    own: list[tuple[int, int, str]]
    """(line, column, text) of comments to print on a line of their own, in text order."""
    trailing: dict[int, str]
    """Text of trailing comments, by the first line of their statement."""
    first_lines: list[int]
    """For each 1-based line, the first line of the statement it is part of."""
    lines: list[str]
    """The text's lines; index 0 is line 1."""

    def take_own(self, before: int, column: int = 1) -> list[tuple[int, str]]:
        """The next comments above line `before`, as long as they stand at `column` or after."""
        taken: list[tuple[int, str]] = []
        while self.own and self.own[0][0] < before and self.own[0][1] >= column:
            line, _, text = self.own.pop(0)
            taken.append((line, text))
        return taken

    def take_trailing(self, line: int) -> str:
        """The comment that trails the statement standing at `line`, or nothing."""
        return self.trailing.pop(self.first_line(line), "")

    def first_line(self, line: int) -> int:
        """The first line of the statement that `line` is part of."""
        return self.first_lines[line] if 0 < line < len(self.first_lines) else line

    def follows_blank(self, line: int) -> bool:
        """Whether the line above `line` is empty."""
        return 1 < line <= len(self.lines) and not self.lines[line - 2].strip()

    def find_else(self, after: int, until: int) -> int:
        """The line in `after`..`until` that holds a block's `else:`; 0 if there is none."""
        for line in range(until, max(after, 1) - 1, -1):
            if line <= len(self.lines) and re.match(r"\s*else\b", self.lines[line - 1]):
                return line
        return 0


def place_comments(module: syntax.Module) -> Comments:
    """The comments of `module` by where they are to be printed."""
    lines = module.source.text.split("\n")
    first_lines = [0]
    depth, first = 0, 1
    for number, line in enumerate(lines, 1):
        if depth == 0:
            first = number
        first_lines.append(first)
        code = line.split("#", 1)[0]
        depth += sum(code.count(sign) for sign in "([") - sum(code.count(sign) for sign in ")]")
        depth = max(depth, 0)
    own: list[tuple[int, int, str]] = []
    trailing: dict[int, str] = {}
    for number, text in module.comments:
        line = lines[number - 1] if number <= len(lines) else ""
        first = first_lines[number] if number < len(first_lines) else number
        is_last = number + 1 >= len(first_lines) or first_lines[number + 1] != first
        if not line.lstrip().startswith("#") and is_last:
            trailing[first] = text
        elif first != number or not is_last:
            # Inside brackets: printed above the statement, at the statement's own column.
            own.append((first - 1, len(lines[first - 1]) + 1, text))
        else:
            own.append((number, len(line) - len(line.lstrip()) + 1, text))
    return Comments(own, trailing, first_lines, lines)
