"""What `verify` found, in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopfuse.base.html import Column, code, fragment, table, text

if TYPE_CHECKING:
    from loopfuse.kernels.verify import Verification


def render_verification(found: Verification) -> str:
    """The answer, the sizes that were tried, and where forms differ."""
    # What a verification says when printed, so that both say the same.
    told = next(iter(str(found).splitlines()[1:]), "").strip()
    cases = f"{found.cases} case{'' if found.cases == 1 else 's'}"
    answer = (
        f'<span class="good">{text(told)}</span>'
        if found
        else f'The forms of the program <span class="bad">differ</span> ({cases})'
    )
    checked = text(found.checked or "schedule not checked")
    sizes = [" ".join(f"{name}={value}" for name, value in case) for case in found.tried]
    differing = [
        [
            code(f"{one.array}[{', '.join(map(str, one.element))}]"),
            code(one.values[0]),
            code(one.values[1]),
            text(f"{one.forms[0]}, {one.forms[1]}"),
            text(" ".join(f"{name}={value}" for name, value in one.sizes)),
        ]
        for one in found.mismatches
    ]
    columns = [Column("element"), Column("is", True), Column("expected", True), Column("forms"), Column("at")]
    tried = "; ".join(size for size in sizes if size)
    return fragment(
        f'<h2>{text(found.kernel)}</h2><p class="quiet">{text(found.target)} &middot; {checked}</p>'
        f"<p>{answer}</p>"
        + table("Where they differ", columns, differing)
        + (f'<p class="quiet">Sizes: {text(tried)}</p>' if tried else "")
    )
