"""What a file can be turned into, by name: one place for the command and the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from memstrata.capture.format.recording import Recording

from ..look.words import one_device_text
from ..model.grouping import preferred
from ..model.run import Run
from ..model.said import Said, quiet
from ..sources.run_directory import RunDirectory
from .chrome_trace import chrome_trace
from .html import report_html
from .html_compare import ranks_html
from .json import report_json
from .plain_json import json_text
from .ranks_text import ranks_json, ranks_text
from .snapshot_pickle import snapshot_bytes
from .svg import timeline_svg
from .tables_csv import table_csv
from .text import report_text


@dataclass(frozen=True)
class Export:
    """A kind of file: what it is called, how its name ends, and how its bytes are made of a recording and its name.
    `one_device` is without a word of the other devices of a recording."""

    title: str
    suffix: str
    make: Make
    one_device: bool = False


class Make(Protocol):
    """Bytes of a recording, its name, and the table asked for. What may take long tells `said(part)` how far it is,
    which calls it off by raising."""

    def __call__(self, recording: Recording, name: str, table: str, said: Said = quiet) -> bytes: ...


def _text(make: Callable[[Recording, str], str]) -> Make:
    return lambda recording, name, table, said=quiet: make(recording, name).encode("utf-8", "replace")


def _html(recording: Recording, name: str, table: str, said: Said = quiet) -> bytes:
    return report_html(recording, name, said).encode("utf-8", "replace")


def _csv(recording: Recording, name: str, table: str, said: Said = quiet) -> bytes:
    return table_csv(_run(recording, name), table, said).encode("utf-8", "replace")


def _snapshot(recording: Recording, name: str, table: str, said: Said = quiet) -> bytes:
    return snapshot_bytes(recording, said)


def _perfetto(recording: Recording, name: str) -> str:
    return json_text(chrome_trace(_run(recording, name)), indent=1)


def _run(recording: Recording, name: str) -> Run:
    """The device with the highest peak, by name where there are others."""
    run = Run(recording, name=name)
    return Run(recording, run.device_row, f"{name}, {run.device.name}") if run.other_devices else run


def left_out(recording: Recording) -> str:
    """A sentence where a recording has more devices than the one that is written; else empty."""
    run = Run(recording)
    others = run.other_devices
    return one_device_text("Written", run.device.name, others) if others else ""


def _svg(recording: Recording, name: str) -> str:
    run = _run(recording, name)
    picture = timeline_svg(run, preferred(run), standalone=True)
    if not picture:
        raise ValueError(f"{name} has no timeline to draw")
    return picture + "\n"


EXPORTS: dict[str, Export] = {
    "html": Export("the whole analysis as one page", ".html", _html),
    "text": Export("the report as text", ".txt", _text(report_text)),
    "json": Export("exact figures", ".json", _text(lambda r, name: json_text(report_json(r, name), indent=1))),
    "csv": Export("a table", ".csv", _csv, one_device=True),
    "svg": Export("the timeline as a picture", ".svg", _text(_svg), one_device=True),
    "perfetto": Export("a timeline for Perfetto", ".trace.json", _text(_perfetto), one_device=True),
    "snapshot": Export("a snapshot for pytorch.org/memory_viz", ".pickle", _snapshot),
}
"""In the order of menus."""


_OF_RANKS: dict[str, Callable[[RunDirectory], str]] = {
    "html": ranks_html,
    "text": ranks_text,
    "json": lambda directory: json_text(ranks_json(directory), indent=1),
}


def ranks_export(key: str, directory: RunDirectory) -> bytes:
    """What a folder with a file for each rank can be turned into; ValueError with one sentence for other exports."""
    if key not in _OF_RANKS:
        raise ValueError(f"{directory.name} is a folder of ranks, which can be written as {', '.join(_OF_RANKS)}")
    return _OF_RANKS[key](directory).encode("utf-8", "replace")


def export_for(path: str) -> str:
    """The export whose suffix a file name has, the longest suffix first; ValueError with one sentence for none."""
    for key, export in sorted(EXPORTS.items(), key=lambda item: -len(item[1].suffix)):
        if path.lower().endswith(export.suffix):
            return key
    endings = ", ".join(export.suffix for export in EXPORTS.values())
    raise ValueError(f"the name {path!r} does not say what to write: end it in one of {endings}, or give --to")
