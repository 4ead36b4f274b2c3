"""Writes docs/errors.md from docs/errors.d: an index of every code, then the sections in order.

    python tests/tools/make_errors.py [--check]

`--check` changes nothing and exits 1 if the page is not current (a test runs it).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
SECTIONS = ("syntax", "check", "bounds", "planning", "python", "mlir", "calls", "command_line", "testing")
HEAD = """# Errors

Everything loopfuse can answer instead of a result. Each message has a word for a code, one
sentence, the place underlined, and mostly a fix. `error` refuses the program or the call,
`warning` does not. This page is made from `docs/errors.d` by `tests/tools/make_errors.py`.

"""


def make_page() -> str:
    """The page's text."""
    parts = [(DOCS / "errors.d" / f"{name}.md").read_text().rstrip() for name in SECTIONS]
    codes = sorted(set(re.findall(r"^### ([a-z0-9-]+)$", "\n".join(parts), re.MULTILINE)))
    index = ", ".join(f"[{code}](#{code})" for code in codes)
    return f"{HEAD}{len(codes)} codes: {index}.\n\n" + "\n\n".join(parts) + "\n"


def main() -> int:
    """Write the page, or compare with it."""
    page, path = make_page(), DOCS / "errors.md"
    if "--check" in sys.argv:
        return 0 if path.exists() and path.read_text() == page else 1
    path.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
