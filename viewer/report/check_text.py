"""The answer of a check: one line for each figure, then which layers are to blame."""

from __future__ import annotations

from typing import Any

from ..analysis.check import Blame, Checked, Result, Verdict
from ..look.units import bytes_text, count_text, difference_text, percent_text
from .layout import joined, table, wrapped


def check_text(verdict: Verdict) -> str:
    """The whole answer in 80 columns: of a folder what is said of it as one, then one page for each run."""
    said = wrapped(f"FAILED {verdict.failure}") if verdict.failure else []
    said += [line for note in verdict.notes for line in wrapped(f"note {note}")]
    folder = [[*wrapped(_whole(verdict)), *said]] if verdict.name else []
    return "\n".join(map(joined, [*folder, *map(_page, verdict.results)]))


def _whole(verdict: Verdict) -> str:
    """Of a folder, how many of its ranks passed."""
    failed = sum(not result.passed for result in verdict.results)
    ranks = count_text(len(verdict.results), "rank")
    said = f"{failed} of {ranks} failed" if failed else f"{ranks} within every limit"
    return f"{verdict.name}: {said}{', but not all are here' * bool(verdict.failure)}"


def _page(result: Result) -> list[str]:
    lines = []
    for figure in result.figures:
        lines += wrapped(_line(figure))
        if figure.blame:
            lines += [*table(_head(figure), [_row(blame) for blame in figure.blame], indent="    ")]
    failed = sum(not figure.passed for figure in result.figures)
    verdict = f"{failed} of {len(result.figures)} over the limit" if failed else "within every limit"
    if result.failure:
        lines = [*wrapped(f"FAILED {result.failure}"), *lines]
        verdict = f"{result.cut_short}, so nobody knows what all of it needs"
    notes = [line for note in result.notes for line in wrapped(f"note {note}")]
    return [*wrapped(f"{result.name}: {verdict}"), *lines, *notes]


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


def check_json(verdict: Verdict) -> dict[str, Any]:
    """The same as exact integers; of a folder `ranks` has one object for each of its ranks."""
    if not verdict.name:
        return _result_json(verdict.results[0])
    return {
        "folder": verdict.name,
        "passed": verdict.passed,
        "failure": verdict.failure or None,
        "notes": list(verdict.notes),
        "ranks": [_result_json(result) for result in verdict.results],
    }


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "file": result.name,
        "passed": result.passed,
        "failure": result.failure or None,
        "notes": list(result.notes),
        "figures": [_figure_json(figure) for figure in result.figures],
    }


def _figure_json(figure: Checked) -> dict[str, Any]:
    return {
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
