"""What `kernel.explain` gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loopfuse.explain.html import render_fragment
from loopfuse.explain.text import render_text, report_data
from loopfuse.plan.units.records import Report


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """What `kernel.explain` gives: prints as text, shows as a table in a notebook."""

    report: Report

    def __str__(self) -> str:
        return render_text(self.report)

    def __repr__(self) -> str:
        return str(self)  # what an interactive session shows

    def _repr_html_(self) -> str:
        return render_fragment(self.report)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form (schema 1)."""
        return report_data(self.report)
