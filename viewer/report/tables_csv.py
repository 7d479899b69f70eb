"""Tables as CSV: one header line with units, exact integers, no thousands separators (RFC 4180)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from memstrata.capture.format.schema import NONE, Fate, Phase

from ..look.words import category_text, fate_text, phase_text
from ..model.run import Run
from ..model.said import Said, quiet

Row = Iterable[object]
_BREAKS = "\t\r\n"
_CHUNK = 5000
"""Rows between two looks at whether the table is still wanted."""
_FORMULA = ("=", "+", "-", "@", *_BREAKS)


def table_csv(run: Run, name: str, said: Said = quiet) -> str:
    """The table of that name; ValueError with one sentence if there is none or the file has no such facts. `said(part)`
    is told how far it is, and calls it off by raising."""
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
    needs, head, rows = TABLES[name]
    if needs and needs not in run.capabilities:
        raise ValueError(f"{run.name} has no {name.replace('_', ' ')}")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    most = max(len(run.allocations), len(run.recording.saved_tensors))
    for number, row in enumerate(rows(run)):
        if not number % _CHUNK:
            said(min(number / max(most, 1), 1.0))
        writer.writerow([safe_cell(value) for value in row])
    return out.getvalue()


def safe_cell(value: object) -> object:
    """Text from files must not become a formula when a spreadsheet opens it, nor end the table as a NUL can."""
    if not isinstance(value, str):
        return value
    text = value if value.isprintable() else "".join(c if c.isprintable() or c in _BREAKS else "?" for c in value)
    return "'" + text if text[:1] in _FORMULA else text


def _allocations(run: Run) -> Iterator[Row]:
    allocations, attribution = run.allocations, run.attribution
    frames = run.grouping("frame") if "stacks" in run.capabilities else None
    guessed = run.phases_inferred & (attribution.phase != Phase.other)
    for i in range(len(allocations)):
        layer = int(attribution.layer[i])
        end = int(allocations.end[i])
        yield (
            i, int(allocations.address[i]), int(allocations.bytes[i]), int(allocations.start[i]),
            end if end <= run.n_events else "", category_text(int(attribution.category[i])),
            run.layers.names[layer] if layer >= 0 else "", phase_text(int(attribution.phase[i])),
            frames.names[int(frames.labels[i])] if frames is not None else "", "yes" if attribution.inferred[i] else "",
            "yes" if guessed[i] else "",
        )  # fmt: skip


def _saved_tensors(run: Run) -> Iterator[Row]:
    recording, saved = run.recording, run.recording.saved_tensors
    text = recording.strings
    start = int(saved.time.min())
    for i in range(len(saved)):
        module = int(saved.module[i])
        unpacked = int(saved.unpack_time[i])
        yield (
            i, text[int(recording.modules.path[module])] if module >= 0 else "", text[int(saved.op[i])],
            text[int(saved.shape[i])], text[int(saved.dtype[i])], fate_text(int(saved.fate[i])),
            phase_text(int(saved.phase[i])), int(saved.storage_bytes[i]), int(saved.tensor_bytes[i]),
            int(saved.storage[i]), int(saved.time[i]) - start, unpacked - start if unpacked != NONE else "",
        )  # fmt: skip


def _layers(run: Run) -> Iterator[Row]:
    kept, again = run.saved_bytes_by_layer(Fate.kept), run.saved_bytes_by_layer(Fate.rematerialized)
    at_peak = run.groups_at("layer", [run.peak_position])[:, 0].tolist()
    for i, name in enumerate(run.layers.names):
        block = int(run.layers.super_block_of_layer[i])
        yield name, run.layers.kinds[i], block, kept.get(i, 0), again.get(i, 0), at_peak[i]


def _categories(run: Run) -> Iterator[Row]:
    highest = {c: int(run.category_curve(c).max()) for c in np.unique(run.attribution.category).tolist()}
    at_peak, at_end = run.categories_at(run.peak_position), run.categories_at(run.n_events)
    guessed = set(run.attribution.category[run.attribution.inferred].tolist())
    for category, most in highest.items():
        how = "yes" if category in guessed else ""
        yield category_text(category), at_peak.get(category, 0), most, at_end.get(category, 0), how


TABLES: dict[str, tuple[str, tuple[str, ...], Callable[[Run], Iterator[Row]]]] = {
    "categories": ("", ("category", "bytes_at_peak", "highest_bytes", "bytes_at_end", "inferred"), _categories),
    "layers": (
        "layers",
        ("layer", "kind", "super_block", "saved_bytes", "rematerialized_bytes", "bytes_at_peak"),
        _layers,
    ),
    "allocations": (
        "",
        ("row", "address", "bytes", "start_position", "end_position", "category", "layer", "phase", "first_user_frame",
         "category_inferred", "phase_inferred"),
        _allocations,
    ),
    "saved_tensors": (
        "saved_tensors",
        ("row", "module", "op", "shape", "dtype", "fate", "phase", "storage_bytes", "tensor_bytes", "storage",
         "packed_ns", "unpacked_ns"),
        _saved_tensors,
    ),
}  # fmt: skip
"""By name: what the file must have, the header, the rows."""
