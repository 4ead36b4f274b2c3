"""Writes the parser's tables beside the grammar (`loopfuse.frontend.lf.tables`).

    python tests/tools/make_grammar_tables.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from loopfuse.frontend.lf.door import build_parser
from loopfuse.frontend.lf.grammar_file import find_grammar
from loopfuse.frontend.lf.tables import print_tables, tables_file

if __name__ == "__main__":
    place = find_grammar()
    text = place.read_text(encoding="utf-8")
    tables_file(place).write_text(print_tables(build_parser(text), text), "utf-8")
