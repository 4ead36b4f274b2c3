"""`loopfuse examples`: the programs and pictures that come with loopfuse."""

from __future__ import annotations

import textwrap

from loopfuse.base.examples import PREFIX, list_examples
from loopfuse.commands.common import say, say_json

WIDTH = 80


def show_examples(form: str) -> None:
    """Print every example as `text`, or as `json`: name, file name, what it is, and whether it is
    a program (for FILE) or a value (for a parameter)."""
    found = list_examples()
    if form == "json":
        listed = [
            {
                "name": PREFIX + one.name,
                "file": one.path.name,
                "kind": "program" if one.is_program else "value",
                "about": one.about,
            }
            for one in found
        ]
        say_json({"schema": 1, "examples": listed})
        return
    width = max(len(one.name) for one in found) + len(PREFIX)
    for one in found:
        label = f"{PREFIX + one.name:<{width}}  "
        lines = textwrap.wrap(
            one.about, WIDTH, initial_indent=label, subsequent_indent=" " * len(label)
        )
        say("\n".join(lines))
