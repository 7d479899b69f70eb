"""Rows of any item model as text: tab-separated for the clipboard, CSV for a file."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QModelIndex, Qt

from memstrata.capture.format.schema import I64

from ..report.tables_csv import safe_cell
from .array_table import Column, RawRole, cell
from .jobs import Job

_EXACT = re.compile(r"([+-]?[\d,]+) bytes?")
"""What a cell with a rounded size says on hover."""
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})*")
"""A whole number as it is shown."""
_CHUNK = 5000
"""Rows between two looks at whether the table is still wanted."""


def row_text(model: QAbstractItemModel, rows: Sequence[QModelIndex], columns: Sequence[int]) -> str:
    """Rows as they are shown, a line each, cells parted by tabs."""
    return "\n".join("\t".join(_shown(model, index, column) for column in columns) for index in rows)


def model_csv(model: QAbstractItemModel, rows: Iterable[QModelIndex], columns: Sequence[int]) -> str:
    """Rows of a model as CSV with exact numbers; where rows have rows below them, a first column says how deep."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    head = [str(model.headerData(c, Qt.Orientation.Horizontal) or "") for c in columns]
    listed = list(rows)
    depths = [_depth(index) for index in listed]
    deep = any(depths)
    writer.writerow(map(safe_cell, ["depth", *head] if deep else head))
    for index, depth in zip(listed, depths):
        cells = [safe_cell(_exact(model, index, column)) for column in columns]
        writer.writerow([depth, *cells] if deep else cells)
    return out.getvalue()


def columns_csv(columns: Sequence[Column], rows: I64, job: Job) -> str:
    """The same for a plain table of any length, in the order of `rows`; needs no Qt object, so a job can do it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([safe_cell(f"{column.title} (s)" if column.seconds else column.title) for column in columns])
    for first in range(0, len(rows), _CHUNK):
        job.progress(first / len(rows), f"Writing row {first:,} of {len(rows):,}")
        for row in rows[first : first + _CHUNK]:
            writer.writerow([safe_cell(_plain(column, int(row))) for column in columns])
    return out.getvalue()


def columns_text(columns: Sequence[Column], rows: I64, job: Job) -> str:
    """Rows of a plain table as they are shown, a line each, cells parted by tabs; for a job, as `columns_csv`."""
    lines: list[str] = []
    for first in range(0, len(rows), _CHUNK):
        job.progress(first / len(rows), f"Copying row {first:,} of {len(rows):,}")
        some = rows[first : first + _CHUNK].tolist()
        lines += ["\t".join(column.text(row) for column in columns) for row in some]
    return "\n".join(lines)


def unfolded(model: QAbstractItemModel, is_open: Any, parent: QModelIndex = QModelIndex()) -> Iterator[QModelIndex]:
    """Every row that is shown, from the top: those below a row only where `is_open(index)`."""
    for row in range(model.rowCount(parent)):
        index = model.index(row, 0, parent)
        yield index
        if is_open(index):
            yield from unfolded(model, is_open, index)


def _shown(model: QAbstractItemModel, index: QModelIndex, column: int) -> str:
    value = index.siblingAtColumn(column).data()
    return "" if value is None else str(value)


def _exact(model: QAbstractItemModel, index: QModelIndex, column: int) -> object:
    at = index.siblingAtColumn(column)
    return _number(at.data(), at.data(Qt.ItemDataRole.ToolTipRole), at.data(RawRole))


def _plain(column: Column, row: int) -> object:
    if column.seconds is not None:
        seconds = column.seconds(row)
        return "" if seconds is None else f"{seconds:.9f}"
    text = column.text(row)
    return _number(text, column.hint(row) if column.hint else text, cell(column, row, RawRole))


def _number(text: object, hover: object, raw: object) -> object:
    """The exact number where a cell shows one, rounded bytes among them; a key to sort by is not one."""
    found = _EXACT.fullmatch(hover) if text and isinstance(hover, str) else None
    if found is not None:
        return int(found[1].replace(",", ""))
    if isinstance(raw, int | float) and _GROUPED.fullmatch(str(text)):
        return int(str(text).replace(",", ""))
    return text or ""


def _depth(index: QModelIndex) -> int:
    depth = 0
    while index.parent().isValid():
        index, depth = index.parent(), depth + 1
    return depth
