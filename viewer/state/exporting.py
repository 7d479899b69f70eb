"""Writing what the window shows into files: the work of the export menu, done in jobs."""

from __future__ import annotations

import os
from collections.abc import Callable

from memstrata.capture.format.problems import FormatError

from ..analysis.diff import Diff
from ..look.units import bytes_text
from ..model.run import Run
from ..report.diff_json import diff_json
from ..report.diff_text import diff_text
from ..report.exports import EXPORTS
from ..report.html_compare import diffs_html
from ..report.plain_json import json_text
from ..report.tables_csv import TABLES
from .jobs import Job

COMPARISONS: dict[str, tuple[str, str, Callable[[Diff], str]]] = {
    "html": ("the comparison as one page", ".html", lambda diff: diffs_html([diff])),
    "text": ("the comparison as text", ".txt", diff_text),
    "json": ("exact differences", ".json", lambda diff: json_text(diff_json(diff), indent=1)),
}
"""What a comparison can be turned into: title, suffix, and how its text is made."""


def tables_of(run: Run) -> list[str]:
    """Names of the tables that a run can fill."""
    return [name for name, (needs, _, _) in TABLES.items() if not needs or needs in run.capabilities]


def write_export(run: Run, key: str, table: str, path: str, job: Job) -> str:
    """Make an export of a run and write it. Returns a sentence; raises FormatError with one."""
    stage = f"Making {EXPORTS[key].title}"
    job.progress(0.1, stage)
    try:
        data = EXPORTS[key].make(run.recording, run.name, table, lambda done: job.progress(0.1 + 0.8 * done, stage))
    except FormatError:
        raise
    except ValueError as error:
        raise FormatError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    return write_file(path, data, job)


def write_comparison(diff: Diff, key: str, path: str, job: Job) -> str:
    """Make an export of a comparison and write it. Returns a sentence; raises FormatError with one."""
    job.progress(0.1, f"Making {COMPARISONS[key][0]}")
    return write_file(path, COMPARISONS[key][2](diff).encode("utf-8", "replace"), job)


def write_file(path: str, data: bytes, job: Job | None = None) -> str:
    """Write a file whole or not at all. Returns a sentence; raises FormatError with one."""
    part = f"{path}.part"
    try:
        if job is not None:
            job.progress(0.9, f"Writing {os.path.basename(path)}")
        with open(part, "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError as error:
        if os.path.isfile(part):
            os.unlink(part)
        raise FormatError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}.") from error
    return f"Wrote {path}, {bytes_text(len(data))}."
