"""Text of others (sources, comments, names of files and functions) made safe to show.

A control character can clear a terminal, move its cursor, or set its title; a bidirectional one
can show a line in another order than it is read. Both are shown as they would be escaped in a
string: `\\x1b[31m`, `\\u202e`. Files are written as they are.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, embeddings, overrides, isolates
    "\u2028\u2029\u200b\u2060-\u2064\ufeff\ufff9-\ufffb"  # line ends and what is not seen
    "\U000e0000-\U000e007f"  # tags
    "]"
)


def printable(text: str) -> str:
    """`text` with every control and bidirectional character escaped, and nothing else changed;
    tabs and newlines stay."""
    return _UNSAFE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
