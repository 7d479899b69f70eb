"""The view of stacks, driven as a user would."""

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QAbstractItemModelTester

from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run
from memstrata.viewer.model.stack_tree import NO_STACK, stack_tree
from memstrata.viewer.panels.stack_tree_view import StackTreePanel
from memstrata.viewer.sources import open_file
from memstrata.viewer.state.array_table import RawRole
from memstrata.viewer.state.scope import Scope
from memstrata.viewer.state.session import Session
from memstrata.viewer.state.stack_model import BYTES, StackModel
from memstrata.viewer.state.view_state import ViewState, opened


@pytest.fixture
def panel(qtbot, samples):
    run = Run(open_file(str(samples / "before.mstrata")), name="before.mstrata")
    session = Session()
    session.set(opened(ViewState(), run, "category"))
    panel = StackTreePanel(Scope(session, run))
    qtbot.addWidget(panel)
    panel.resize(1000, 400)
    panel.show()
    qtbot.waitExposed(panel)
    return panel


def test_the_item_model_keeps_qts_rules(samples, qtmodeltester):
    run = Run(open_file(str(samples / "after.mstrata")))
    model = StackModel(run)
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    for bottom_up in (False, True):
        model.show(stack_tree(run, AllocationQuery(position=run.peak_position).select(run), bottom_up))
    qtmodeltester.check(model)
    del tester


def test_the_top_rows_add_up_to_what_is_alive(panel):
    run, model = panel.scope.run, panel.model
    sizes = [model.index(row, BYTES).data(RawRole) for row in range(model.rowCount())]
    assert sum(sizes) == run.peak_bytes
    assert sizes == sorted(sizes, reverse=True)
    assert "751 MiB" in panel.caption.text()


def test_the_heaviest_path_is_unfolded_and_a_click_looks_inside(qtbot, panel):
    path = panel.model.tree.heaviest_path()
    assert all(panel.tree.isExpanded(panel.model.index_of(node)) for node in path[:-1])
    rect = next(rect for rect, node in panel.icicle._boxes if node == path[2])
    qtbot.mouseClick(panel.icicle, Qt.MouseButton.LeftButton, pos=rect.center().toPoint())
    assert panel.icicle.top == path[2]
    assert panel.model.node(panel.tree.currentIndex()) == path[2]
    widths = {node: rect.width() for rect, node in panel.icicle._boxes}
    assert all(widths[node] == panel.icicle.width() for node in path[:3])
    panel.icicle.setFocus()
    for _ in range(3):
        qtbot.keyClick(panel.icicle, Qt.Key.Key_Escape)
    assert panel.icicle.top == -1


def test_bottom_up_begins_with_what_allocated(qtbot, panel):
    panel.own_code.setChecked(False)
    panel.direction.setCurrentIndex(1)
    run, tree = panel.scope.run, panel.model.tree
    rows = AllocationQuery(position=run.peak_position).select(run)
    stacks = run.allocations.stack[rows].tolist()
    leaves = {int(run.recording.stacks.frame[stack]) if stack >= 0 else NO_STACK for stack in stacks}
    assert {int(tree.frame[node]) for node in tree.children(-1).tolist()} == leaves


def test_it_follows_the_cursor_and_the_selection(qtbot, panel):
    panel.scope.look(cursor=0)
    qtbot.waitUntil(lambda: panel.model.tree.total_bytes == int(panel.scope.run.curve[0]))
    panel.scope.look(cursor=panel.scope.run.peak_position, query=AllocationQuery(layer=3))
    wanted = AllocationQuery(panel.scope.run.peak_position, layer=3).bytes(panel.scope.run)
    qtbot.waitUntil(lambda: panel.model.tree.total_bytes == wanted)
    assert "layers.3" in panel.caption.text()


def test_every_real_snapshot_can_be_shown(qtbot, snapshot_file):
    run = Run(open_file(str(snapshot_file)))
    session = Session()
    session.set(opened(ViewState(), run, "category"))
    panel = StackTreePanel(Scope(session, run))
    qtbot.addWidget(panel)
    panel.resize(800, 300)
    panel.show()
    panel.grab()
    assert panel.model.tree.total_bytes == int(run.curve[run.peak_position])
    assert panel.icicle.node_at(QPoint(-5, -5).toPointF()) == -1
