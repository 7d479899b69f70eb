"""The report of a run directory: the ranks side by side, as text and as JSON."""

from __future__ import annotations

from typing import Any

from memstrata.capture.format.problems import merge
from memstrata.capture.format.schema import Category, Severity

from ..analysis.diff import DiffRow
from ..analysis.opened import runs_of_ranks
from ..analysis.ranks import RankRow, Ranks, ranks_headline
from ..look.units import bytes_text, difference_text, seconds_text
from ..sources.run_directory import RunDirectory
from .json import unique_problems
from .layout import joined, section, table, wrapped
from .text import problem_text

ROWS = 8


def ranks_text(directory: RunDirectory) -> str:
    """The whole report, in 80 columns."""
    ranks = Ranks(runs_of_ranks(directory))
    lines = [
        *wrapped(ranks_title(directory, ranks)),
        *(line for text in directory.problems for line in wrapped(f"warning: {text}")),
    ]
    lines += [line for said in ranks_headline(ranks) for line in wrapped(said.text)]
    lines += _table(ranks)
    if ranks.outlier is not None:
        names = f"rank {ranks.outlier.rank} minus rank {ranks.reference.rank}"
        lines += _differences(f"By category at the peaks, {names}", "category", ranks.by_category, ranks)
        lines += _differences(f"By super-block at the peaks, {names}", "super-block", ranks.by_super_block, ranks)
    return joined(lines + _problems(ranks))


def ranks_title(directory: RunDirectory, ranks: Ranks) -> str:
    """`ranks: 2 of 2 ranks of Model, step 3, mesh dim0=2`."""
    meta = ranks.rows[0].run.recording.meta
    of = f" of {meta.model}" if meta.model else ""
    mesh = ", mesh " + " x ".join(f"{name}={size}" for name, size in meta.mesh.items()) if meta.mesh else ""
    step = f", step {meta.step_index}" if meta.step_index is not None else ""
    found = f"{len(ranks.rows)} of {directory.world_size} ranks{of}{step}{mesh}"
    return f"{directory.name}: {found}"


def _table(ranks: Ranks) -> list[str]:
    head = ("rank", "peak", "activations", "communic.", "parameters", "step")
    rows = [
        (
            f"{row.rank}{' (stands out)' if row is ranks.outlier else ''}",
            bytes_text(row.peak_bytes),
            bytes_text(row.activation_bytes),
            bytes_text(row.communication_bytes),
            bytes_text(row.at_peak.get(Category.parameter, 0)),
            rank_seconds(row),
        )
        for row in ranks.rows
    ]
    lines = table(head, rows)
    return section("Ranks (activations and communication each at their own highest)", lines)


def rank_seconds(row: RankRow) -> str:
    """Of an unrecorded step, or in parentheses of the recorded one."""
    if row.step_seconds is not None:
        return seconds_text(row.step_seconds)
    return f"({seconds_text(row.recorded_seconds)})" if row.recorded_seconds is not None else "-"


def _differences(title: str, kind: str, rows: tuple[DiffRow, ...], ranks: Ranks) -> list[str]:
    if not rows or ranks.outlier is None:
        return []
    a, b = f"rank {ranks.reference.rank}", f"rank {ranks.outlier.rank}"
    shown = [(row.label, bytes_text(row.a_bytes), bytes_text(row.b_bytes), difference_text(row.difference_bytes))
             for row in rows[:ROWS]]  # fmt: skip
    rest = sum(row.difference_bytes for row in rows[ROWS:])
    if rows[ROWS:]:
        shown.append((f"other ({len(rows) - ROWS})", "", "", difference_text(rest)))
    shown.append(("all", "", "", difference_text(ranks.outlier.peak_bytes - ranks.reference.peak_bytes)))
    return section(title, table((kind, a, b, "difference"), shown))


def _problems(ranks: Ranks) -> list[str]:
    lines = [line for text, _ in rank_problems(ranks) for line in wrapped(text, indent="  ")]
    return section(notes_title(ranks), lines)


def rank_problems(ranks: Ranks) -> list[tuple[str, set[int]]]:
    """What each file says of itself, with the bytes that it rounds; a rank is named where not all say it."""
    said: dict[str, list[int]] = {}
    sizes: dict[str, set[int]] = {}
    for row in ranks.rows:
        for problem in merge(row.run.problems):
            text = problem_text(problem)
            said.setdefault(text, []).append(row.rank)
            sizes.setdefault(text, set()).update(problem.sizes)
    everyone = len(ranks.rows)
    named = {text: f"rank {', '.join(map(str, on))}: " * (len(on) < everyone) for text, on in said.items()}
    return [(named[text] + text, sizes[text]) for text in said]


def notes_title(ranks: Ranks) -> str:
    """What stands over what the files say of themselves."""
    worst = max((p.severity for row in ranks.rows for p in row.run.problems), default=Severity.info)
    return "Notes" if worst == Severity.info else "Problems"


def ranks_json(directory: RunDirectory) -> dict[str, Any]:
    """The object for a run directory: exact bytes; `outlier` is null where the ranks agree."""
    ranks = Ranks(runs_of_ranks(directory))
    meta = ranks.rows[0].run.recording.meta
    return {
        "run": directory.name,
        "run_id": meta.run_id,
        "world_size": directory.world_size,
        "step": meta.step_index,
        "mesh": meta.mesh,
        "ranks": [_rank_json(row) for row in ranks.rows],
        "missing_ranks": list(directory.missing),
        "spread": ranks.spread,
        "outlier": _outlier_json(ranks),
        "directory_problems": list(directory.problems),
    }


def _rank_json(row: RankRow) -> dict[str, Any]:
    meta = row.run.recording.meta
    return {
        "rank": row.rank,
        "file": row.run.name,
        "mesh_coordinate": meta.mesh_coordinate,
        "peak_bytes": row.peak_bytes,
        "peak_event": row.run.peak_position - 1,
        "activation_bytes": row.activation_bytes,
        "communication_bytes": row.communication_bytes,
        "categories_at_peak": {category.label: size for category, size in row.at_peak.items()},
        "step_seconds": row.step_seconds,
        "step_seconds_recorded": row.recorded_seconds,
        "loss": meta.loss,
        "problems": [p.as_json() for p in merge(unique_problems([row.run]))],
    }


def _outlier_json(ranks: Ranks) -> dict[str, Any] | None:
    if ranks.outlier is None:
        return None

    def rows(found: tuple[DiffRow, ...]) -> list[dict[str, Any]]:
        return [{"label": row.label, "difference_bytes": row.difference_bytes} for row in found]

    return {
        "rank": ranks.outlier.rank,
        "against_rank": ranks.reference.rank,
        "difference_bytes": ranks.outlier.peak_bytes - ranks.reference.peak_bytes,
        "by_category": rows(ranks.by_category),
        "by_super_block": rows(ranks.by_super_block),
    }
