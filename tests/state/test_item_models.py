"""Every item model under Qt's own tester, with the contents the window gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QApplication

from memstrata.viewer.analysis.all_runs import figures_of
from memstrata.viewer.analysis.diff import Diff
from memstrata.viewer.analysis.finding import Finding
from memstrata.viewer.analysis.steps import steps_of
from memstrata.viewer.model.bands import bands_of
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run
from memstrata.viewer.state import comparison, coverage_text, finding_tables, run_tables
from memstrata.viewer.state.array_table import ArrayTable, Column, RawRole
from memstrata.viewer.state.lane_model import LaneModel
from memstrata.viewer.state.lanes import CONTENTS, lanes_of
from memstrata.viewer.state.loading import open_run
from memstrata.viewer.state.run_comparison import run_columns
from memstrata.viewer.state.saved_table import saved_columns
from memstrata.viewer.state.tab_facts import residual_of

_FINDING = Finding("fragmentation", 5, "Five bytes lie idle.", "Use them.", AllocationQuery(position=3))
FATAL = QAbstractItemModelTester.FailureReportingMode.Fatal


@pytest.fixture(scope="module")
def run(samples: Path, qapp: QApplication) -> Run:
    return open_run(str(samples / "after.mstrata"))


def made(run: Run, before: Run) -> dict[str, Any]:
    bands = bands_of(run, "category")
    stack = int(run.allocations.stack[AllocationQuery(position=run.peak_position).select(run)[0]])
    diff, names = Diff(before, run), ("before", "after")
    return {
        "groups": run_tables.group_columns(bands, run.peak_position),
        "allocations": (run_tables.allocation_columns(bands), AllocationQuery(position=9).select(run)),
        "stack": (run_tables.stack_columns(run, stack), None),
        "saved tensors": (saved_columns(run), None),
        "problems": (run_tables.problem_columns(run), None),
        "findings": (finding_tables.finding_columns([_FINDING], run.peak_bytes), None),
        "layers": (finding_tables.layer_columns(run), None),
        "residual": (finding_tables.item_columns(run.once(residual_of).items), None),
        "steps": (coverage_text.step_columns(steps_of(run)), None),
        "categories": (comparison.group_columns("category", diff.by_category, names), None),
        "slots": (comparison.slot_columns(diff, names), None),
        "changes": comparison.change_columns(diff),
        "runs": (run_columns([figures_of(before), figures_of(run)], ["A", "B"]), None),
    }


def test_every_table_passes_the_tester_while_it_changes(run: Run, before: Run) -> None:
    for name, (columns, rows) in made(run, before).items():
        model = ArrayTable()
        tester = QAbstractItemModelTester(model, FATAL)
        model.show(columns, rows)
        assert model.rowCount() > 0, name
        for column in range(model.columnCount()):
            for order in (Qt.SortOrder.DescendingOrder, Qt.SortOrder.AscendingOrder):
                model.sort(column, order)
                keys = [model.index(r, column).data(RawRole) for r in range(min(model.rowCount(), 300))]
                assert keys == sorted(keys, reverse=order == Qt.SortOrder.DescendingOrder), name
            assert model.headerData(column, Qt.Orientation.Horizontal)
        assert all(isinstance(model.index(0, c).data(), str) for c in range(model.columnCount()))
        model.show((), None)
        del tester


@pytest.mark.parametrize("key", CONTENTS)
def test_the_lane_tree_passes_the_tester(run: Run, key: str) -> None:
    model = LaneModel(lanes_of(run, CONTENTS[key][1]), run.peak_position, CONTENTS[key][0])
    tester = QAbstractItemModelTester(model, FATAL)
    model.move_cursor(3)
    parent = model.index(1, 0)
    child = model.index(0, 0, parent)
    assert model.parent(child) == parent and model.parent(parent) == QModelIndex()
    assert child.data() == run.layers.names[4] and model.is_inner(child) and not model.is_inner(parent)
    assert model.rowCount(child) == 0 and model.rowCount(model.index(1, 1)) == 0
    del tester


def test_a_million_rows_are_virtual_and_sort_by_number() -> None:
    sizes = np.random.default_rng(0).integers(1, 1 << 40, 1_000_000)
    asked: list[int] = []

    def text(row: int) -> str:
        asked.append(row)
        return str(row)

    table = ArrayTable([Column("bytes", sizes, text)])
    table.sort(0, Qt.SortOrder.DescendingOrder)
    assert not asked
    assert table.index(0, 0).data(RawRole) == sizes.max()
    assert table.source_row(999_999) == int(sizes.argmin())


def test_sorting_keeps_equal_rows_in_order_and_selected_rows_selected() -> None:
    table = ArrayTable([Column("a", np.array([2, 1, 2, 1]), str)])
    kept = QPersistentModelIndex(table.index(2, 0))
    table.sort(0, Qt.SortOrder.DescendingOrder)
    assert table.rows.tolist() == [0, 2, 1, 3]
    assert kept.row() == 1
    table.show(table.columns, np.array([3, 2, 1]))
    assert table.rows.tolist() == [2, 3, 1] and table.row_of(0) == -1


def test_a_million_rows_are_sorted_and_make_no_text(qapp: QApplication) -> None:
    random = np.random.default_rng(0)
    sizes, names = random.integers(1, 1 << 40, 1_000_000), random.integers(0, 300, 1_000_000)
    said: list[int] = []
    model = ArrayTable([Column("bytes", sizes, str), Column("made in", names, lambda i: said.append(i) or str(i))])
    kept = QPersistentModelIndex(model.index(7, 0))
    for column, order, keys in ((0, Qt.SortOrder.DescendingOrder, -sizes), (1, Qt.SortOrder.AscendingOrder, names)):
        wanted = np.argsort(keys[model.rows], kind="stable")
        expected = model.rows[wanted]
        model.sort(column, order)
        assert np.array_equal(model.rows, expected)
        assert model.source_row(kept.row()) == 7
    assert not said
