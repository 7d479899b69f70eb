"""The answer of a check: one line for each figure, then which layers are to blame."""

from __future__ import annotations

from typing import Any

from ..analysis.check import Blame, Checked
from ..look.units import bytes_text, difference_text, percent_text
from .layout import joined, table, wrapped


def check_text(name: str, checked: tuple[Checked, ...]) -> str:
    """The whole answer in 80 columns."""
    lines = []
    for figure in checked:
        lines += wrapped(_line(figure))
        if figure.blame:
            lines += [*table(_head(figure), [_row(blame) for blame in figure.blame], indent="    ")]
    failed = sum(not figure.passed for figure in checked)
    verdict = f"{failed} of {len(checked)} over the limit" if failed else "within every limit"
    return joined([f"{name}: {verdict}", *lines])


def _line(figure: Checked) -> str:
    word = "ok  " if figure.passed else "OVER"
    against = f"limit {bytes_text(figure.limit_bytes)}"
    if figure.baseline_bytes is not None:
        against += f", baseline {bytes_text(figure.baseline_bytes)}"
        if figure.baseline_bytes:
            growth = figure.bytes / figure.baseline_bytes - 1
            against += f" {'+' if growth > 0 else '-' if growth < 0 else ''}{percent_text(abs(growth))}"
    over = "" if figure.passed else f", {difference_text(figure.over_bytes)}"
    return f"{word} {figure.figure} {bytes_text(figure.bytes)} ({against}{over})"


def _head(figure: Checked) -> tuple[str, ...]:
    return ("to blame", "bytes") if figure.baseline_bytes is None else ("to blame", "baseline", "now", "growth")


def _row(blame: Blame) -> tuple[str, ...]:
    if blame.baseline_bytes is None:
        return blame.label, bytes_text(blame.bytes)
    return blame.label, bytes_text(blame.baseline_bytes), bytes_text(blame.bytes), difference_text(blame.weight)


def check_json(name: str, checked: tuple[Checked, ...]) -> dict[str, Any]:
    """The same as exact integers."""
    return {
        "file": name,
        "passed": all(figure.passed for figure in checked),
        "figures": [
            {
                "figure": figure.figure,
                "bytes": figure.bytes,
                "limit_bytes": figure.limit_bytes,
                "baseline_bytes": figure.baseline_bytes,
                "over_bytes": figure.over_bytes,
                "passed": figure.passed,
                "blame": [
                    {"label": b.label, "bytes": b.bytes, "baseline_bytes": b.baseline_bytes, "growth_bytes": b.weight}
                    for b in figure.blame
                ],
            }
            for figure in checked
        ],
    }
