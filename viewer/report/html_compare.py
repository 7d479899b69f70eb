"""Comparisons as HTML pages: two runs or more, the ranks of one run."""

from __future__ import annotations

from collections.abc import Sequence

from memstrata.capture.format.schema import Category

from ..analysis.all_runs import figures_of
from ..analysis.comparison import comparison_headline
from ..analysis.diff import Diff
from ..analysis.grouped import known_share
from ..analysis.opened import runs_of_ranks
from ..analysis.ranks import Ranks, ranks_headline
from ..look.name_cut import cut_apart
from ..look.units import seconds_text
from ..look.words import category_text
from ..model.bands import bands_of
from ..model.run import Run
from ..sources.run_directory import RunDirectory
from .html_differences import (
    Names,
    changes_html,
    figures_html,
    groups_html,
    savings_html,
    slots_html,
    stacks_html,
    waterfall_html,
)
from .html_page import (
    bars_html,
    category_html,
    line_html,
    page,
    problems_html,
    section_html,
    size_html,
    table_html,
)
from .layout import markup
from .ranks_text import notes_title, rank_problems, rank_seconds, ranks_title
from .steps_text import rate_text
from .svg import PICTURE_STYLE, category_rules, colour_rules, timeline_svg
from .svg_curves import MOST_RUNS, curve_rules, curves_svg
from .text import problem_text, title

_CUT = "category"
"""Categories have the same colours in every run."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NAME = 22
"""Characters of a file's name in the head of a column."""


def diffs_html(diffs: Sequence[Diff]) -> str:
    """One run against one or several others."""
    runs = [diffs[0].a, *(diff.b for diff in diffs)]
    letters = [_LETTERS[n] if n < len(_LETTERS) else str(n + 1) for n in range(len(runs))]
    cut = cut_apart([run.name for run in runs], _NAME)
    first, *others = (f"{letter}: {name}" for letter, name in zip(letters, cut, strict=True))
    names = [Names(first, other, ("A", letter)) for letter, other in zip(letters[1:], others, strict=True)]
    parts = [f'<p><i class="r{n}"></i>{letter}: {markup(title(run))}</p>'
             for n, (letter, run) in enumerate(zip(letters, runs, strict=True))]  # fmt: skip
    if len(diffs) == 1:
        parts += _answer(diffs[0]) + figures_html(diffs[0], names[0], 2) + _curves(runs, letters, diffs[0])
        parts += _differences(diffs[0], names[0], 2)
    else:
        parts += _all_runs(runs, letters) + _curves(runs, letters)
        for diff, each in zip(diffs, names, strict=True):
            body = [*_answer(diff), *figures_html(diff, each, 3), *_differences(diff, each, 3)]
            parts += section_html(f"{diff.a.name} against {diff.b.name}", *body)
    parts += section_html("Each run by itself", *_pictures(runs))
    heading = " against ".join([runs[0].name, ", ".join(run.name for run in runs[1:])])
    return page(heading, parts, _rules(runs))


def _answer(diff: Diff) -> list[str]:
    """What makes the comparison doubtful, then the three lines."""
    doubts = problems_html((problem_text(problem), problem.sizes) for problem in diff.warnings)
    return [doubts, *map(line_html, comparison_headline(diff))]


def _differences(diff: Diff, names: Names, level: int) -> list[str]:
    parts = waterfall_html(diff, names, level) + groups_html(diff, names, level) + changes_html(diff, names, level)
    return parts + stacks_html(diff, names, level) + savings_html(diff, names, level) + slots_html(diff, names, level)


def _curves(runs: Sequence[Run], letters: Sequence[str], diff: Diff | None = None) -> list[str]:
    """All runs on one axis, with what the first says of the plan of the second."""
    planned = None if diff is None or diff.planned is None else diff.planned.curve
    names = [f"{letter}: {run.name}" for letter, run in zip(letters, runs, strict=True)]
    picture = curves_svg(runs, names, planned)
    if not picture:
        return []
    more = f" The first {MOST_RUNS} of {len(runs)} runs." if len(runs) > MOST_RUNS else ""
    said = f"Active bytes on one axis; exact peaks on hover.{more}"
    return section_html("Memory of the runs on one axis", f"<figure>{picture}<figcaption>{said}</figcaption></figure>")


def _all_runs(runs: Sequence[Run], letters: Sequence[str]) -> list[str]:
    rows = []
    for letter, figures in zip(letters, map(figures_of, runs), strict=True):
        seconds, rate = figures.step_seconds, figures.tokens_per_second
        rows.append((
            markup(f"{letter}: {figures.name}"), size_html(figures.peak_bytes),
            size_html(figures.activation_bytes, "unknown"), size_html(figures.reserved_bytes, "unknown"),
            "unknown" if seconds is None else seconds_text(seconds), "unknown" if rate is None else rate_text(rate),
        ))  # fmt: skip
    head = ("run", "peak", "activations", "reserved", "step", "throughput")
    return section_html("All runs", table_html(head, rows))


def _pictures(runs: Sequence[Run]) -> list[str]:
    """A timeline for each run that has one and knows categories, all with the same bytes for the same height."""
    highest = max(run.peak_bytes for run in runs)
    known = [run for run in runs if known_share(run) >= 0.5]
    pictures = [(run, timeline_svg(run, _CUT, height=240, least=highest, legend=True)) for run in known]
    return [
        f"<figure>{picture}<figcaption>{markup(title(run))}: active bytes by category</figcaption></figure>"
        for run, picture in pictures
        if picture
    ]


def _rules(runs: Sequence[Run]) -> str:
    return PICTURE_STYLE + colour_rules(bands_of(runs[0], _CUT)) + category_rules() + curve_rules(len(runs) - 2)


def ranks_html(directory: RunDirectory) -> str:
    """The ranks of one run."""
    ranks = Ranks(runs_of_ranks(directory))
    shown = ranks.farthest(MOST_RUNS)
    runs, names = [row.run for row in shown], [f"rank {row.rank}" for row in shown]
    parts = [problems_html((f"warning: {text}", ()) for text in directory.problems)]
    parts += map(line_html, ranks_headline(ranks))
    parts += _table(ranks) + _at_peaks(ranks)
    if len(runs) > 1 and (picture := curves_svg(runs, names)):
        parts += section_html("Memory of the ranks on one axis", f"<figure>{picture}</figure>")
    if ranks.diff is not None and ranks.outlier is not None:
        said = f"rank {ranks.reference.rank}", f"rank {ranks.outlier.rank}"
        body = _differences(ranks.diff, Names(*said, said), 3)
        parts += section_html(f"{said[1].capitalize()} against {said[0]}", *body)
    parts += section_html("Each rank by itself", *_pictures(runs))
    parts += section_html(notes_title(ranks), problems_html(rank_problems(ranks)))
    return page(ranks_title(directory, ranks), parts, _rules(runs))


def _table(ranks: Ranks) -> list[str]:
    head = ("rank", "peak", "activations", "communication", "parameters", "step")
    rows = [
        (f"{row.rank}{' (stands out)' if row is ranks.outlier else ''}", size_html(row.peak_bytes),
         size_html(row.activation_bytes), size_html(row.communication_bytes),
         size_html(row.at_peak.get(Category.parameter, 0)), rank_seconds(row))
        for row in ranks.rows
    ]  # fmt: skip
    return section_html("Ranks (activations and communication each at their own highest)", table_html(head, rows))


def _at_peaks(ranks: Ranks) -> list[str]:
    """Every rank's categories at its own peak: as a bar, all on one scale, and as figures."""
    used = [category for category in Category if any(row.at_peak.get(category) for row in ranks.rows)]
    highest = max(row.peak_bytes for row in ranks.rows)
    bars, rows = [], []
    for row in ranks.rows:
        parts, at = [], 0
        for category in used:
            size = row.at_peak.get(category, 0)
            parts += [(f"c{int(category)}", at, at + size, category_text(category))] if size else []
            at += size
        bars.append((str(row.rank), bars_html(parts, 0, highest), size_html(row.peak_bytes)))
        rows.append((str(row.rank), *(size_html(row.at_peak.get(category, 0)) for category in used)))
    key = " ".join(f"<span>{category_html(category, category_text(category))}</span>" for category in used)
    return section_html(
        "By category, each at its own peak", table_html(("rank", "", "peak"), bars, bar=1), f'<p class="key">{key}</p>',
        table_html(("rank", *map(category_text, used)), rows),
    )  # fmt: skip
