"""The stacks of two runs as one tree, and its item model."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester

from memstrata.viewer.analysis.stack_diff import TOP, StackDiff
from memstrata.viewer.state.array_table import RawRole, ShareRole
from memstrata.viewer.state.loading import open_run
from memstrata.viewer.state.stack_diff_model import DIFFERENCE, IN_A, StackDiffModel

from ..model.recordings import Step

KIB = 1024


def made(*sizes: tuple[int, str]) -> Step:
    """What `step` of train.py allocates, itself or through a function of model.py, with torch in between."""
    out = Step()
    for number, (size, by) in enumerate(sizes):
        inner = [("aten::empty", "", 0), ("linear", "torch/nn/functional.py", 9)]
        own = [(by, "/u/model.py", 7)] if by else []
        stack = out.frames(*inner, *own, ("step", "/u/train.py", 3))
        out.alloc(number + 1, size, 10 + number, stack)
    return out


def test_callers_hold_what_is_made_below_them() -> None:
    a = made((KIB, "one"), (2 * KIB, "two"), (4 * KIB, "")).run()
    b = made((KIB, "one"), (8 * KIB, "three")).run()
    tree = StackDiff(a, b)
    names = {node.name: node for node in tree.nodes}
    assert list(names) == ["all", "train.py:3 step", "model.py:7 one", "model.py:7 two", "model.py:7 three"]
    assert names["train.py:3 step"].bytes == names["all"].bytes == [7 * KIB, 9 * KIB]
    assert names["model.py:7 three"].difference_bytes == 8 * KIB and names["model.py:7 two"].count == [1, 0]
    step = tree.nodes[1]
    assert [tree.nodes[n].name for n in step.children] == ["model.py:7 three", "model.py:7 two", "model.py:7 one"]
    for number, node in enumerate(tree.nodes):
        one, two = tree.queries(number)
        assert [one.bytes(a), two.bytes(b)] == node.bytes
    assert [tree.nodes[n].name for n in tree.telling_path()] == ["all", "train.py:3 step", "model.py:7 three"]


@pytest.mark.parametrize("names", [("before", "after"), ("uniform", "before")])
def test_real_runs_close_on_every_level(samples: Path, names: tuple[str, str]) -> None:
    a, b = (open_run(str(samples / f"{name}.mstrata")) for name in names)
    tree = StackDiff(a, b)
    assert tree.nodes[TOP].bytes == [a.peak_bytes, b.peak_bytes]
    for node in tree.nodes:
        for side, run in enumerate((a, b)):
            below = sum(tree.nodes[child].bytes[side] for child in node.children)
            assert below + int(run.allocations.bytes[node.rows[side]].sum()) == node.bytes[side]


def test_the_model_passes_the_tester_and_says_exact_bytes(samples: Path) -> None:
    a, b = (open_run(str(samples / f"{name}.mstrata")) for name in ("before", "after"))
    tree = StackDiff(a, b)
    model = StackDiffModel(tree)
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    seen, waiting = 0, [QModelIndex()]
    while waiting:
        above = waiting.pop()
        for row in range(model.rowCount(above)):
            index = model.index(row, 0, above)
            node = tree.nodes[model.node(index)]
            assert model.parent(index) == above and index.data() == node.name
            assert index.siblingAtColumn(IN_A).data(RawRole) == node.bytes[0]
            assert (
                index.siblingAtColumn(DIFFERENCE)
                .data(Qt.ItemDataRole.ToolTipRole)
                .replace(",", "")
                .startswith(str(node.difference_bytes))
            )
            assert -1 <= index.siblingAtColumn(DIFFERENCE).data(ShareRole) <= 1
            waiting.append(index)
            seen += 1
    assert seen == len(tree.nodes) - 1 > 20
    titles = [model.headerData(i, Qt.Orientation.Horizontal) for i in range(model.columnCount())]
    assert titles == ["frame", "count", "in A", "in B", "difference"]
