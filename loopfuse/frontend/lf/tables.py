"""The parser's tables, which lie beside the grammar: reading them takes 10 ms, building them 110.

    python tests/tools/make_grammar_tables.py        # after a change of the grammar, or of lark

They are what lark serialises of its parser, as JSON. They say which grammar and which lark made them: with any
other the parser is built from the grammar, as if they were not there.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

SUFFIX = ".tables.json"


def tables_file(grammar: Path) -> Path:
    """Where the tables of a grammar lie."""
    return grammar.with_suffix(SUFFIX)


def made_for(text: str) -> str:
    """What decides the tables: the grammar's text and lark's version."""
    return hashlib.sha256(f"{metadata.version('lark')}\0{text}".encode()).hexdigest()


def read_tables(grammar: Path, text: str) -> tuple[Any, Any] | None:
    """What `Lark._load_from_dict` takes for the grammar of this text; None where there is no such file, or it
    was made for another."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(tables_file(grammar).read_text("utf-8"), object_hook=_decoded)
        if found["made_for"] == made_for(text):
            return found["parser"], found["memo"]
    return None


def print_tables(parser: Lark, text: str) -> str:
    """The file for a parser that was built from the grammar of this text."""
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    named = {n: v for n, v in data["options"].items() if n not in ("postlex", "transformer")} | {"_plugins": {}}
    made = {"made_for": made_for(text), "parser": _encoded({**data, "options": named}), "memo": _encoded(memo)}
    return json.dumps(made, indent=None, separators=(",", ":")) + "\n"


def _encoded(value: Any) -> Any:
    """As JSON has it: keys that are no words stand in pairs."""
    if isinstance(value, dict):
        pairs: dict[Any, Any] = value
        if all(isinstance(key, str) for key in pairs):
            return {key: _encoded(each) for key, each in pairs.items()}
        return {"#": [[key, _encoded(each)] for key, each in pairs.items()]}
    if isinstance(value, list | tuple):
        items: tuple[Any, ...] = tuple(value)
        return [_encoded(each) for each in items]
    return value


def _decoded(value: dict[str, Any]) -> dict[Any, Any]:
    """An object of JSON, what is in it decoded before, as it was."""
    return dict(value["#"]) if "#" in value else value
