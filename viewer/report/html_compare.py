"""Comparisons as HTML pages: two runs or more, the ranks of one run."""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.diff import Diff
from ..analysis.opened import runs_of_ranks
from ..model.bands import bands_of
from ..model.run import Run
from ..sources.run_directory import RunDirectory
from .diff_text import diffs_text
from .html_page import page, text_html
from .layout import markup
from .ranks_text import ranks_text
from .svg import PICTURE_STYLE, colour_rules, timeline_svg
from .text import title

_CUT = "category"
"""Categories have the same colours in every run."""


def diffs_html(diffs: Sequence[Diff]) -> str:
    """One run against one or several others."""
    runs = [diffs[0].a, *(diff.b for diff in diffs)]
    names = " against ".join([runs[0].name, ", ".join(run.name for run in runs[1:])])
    return page(names, [*_pictures(runs), *text_html(diffs_text(diffs))], _rules(runs))


def ranks_html(directory: RunDirectory) -> str:
    """The ranks of one run."""
    head, _, text = ranks_text(directory).partition("\n")
    runs = runs_of_ranks(directory)
    return page(head, [*text_html(text), *_pictures(runs)], _rules(runs))


def _pictures(runs: Sequence[Run]) -> list[str]:
    """A timeline for each run, all with the same bytes for the same height."""
    highest = max(run.peak_bytes for run in runs)
    pictures = [(run, timeline_svg(run, _CUT, height=240, least=highest, legend=True)) for run in runs]
    return [
        f"<figure>{picture}<figcaption>{markup(title(run))}: active bytes by category</figcaption></figure>"
        for run, picture in pictures
        if picture
    ]


def _rules(runs: Sequence[Run]) -> str:
    return PICTURE_STYLE + colour_rules(bands_of(runs[0], _CUT))
