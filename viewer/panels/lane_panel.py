"""The lanes under their own bar: folded or not, what they show, and how many bytes fill the height of one."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from ..charts.theme import Theme
from ..look.units import bytes_text, exact_bytes_text
from ..state.lanes import CONTENTS
from ..state.scope import Scope
from ..state.view_state import RunView
from .lanes import OUTER_ROW, LaneTree, plan_drawn


class LanePanel(QWidget):
    """`folded` is not part of what is looked at, only of how the window is laid out."""

    folded = Signal(bool)

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.fold = QToolButton(self)
        self.fold.setObjectName("fold")
        self.fold.setCheckable(True)
        self.fold.setAccessibleName("Show the lanes of super-blocks and layers")
        self.fold.toggled.connect(self._toggled)
        self.contents = QComboBox(self)
        self.contents.setAccessibleName("What the lanes show")
        for key, (title, _) in CONTENTS.items():
            self.contents.addItem(title, key)
        self.contents.activated.connect(lambda row: scope.look(lanes=self.contents.itemData(row)))
        self.note = QLabel(self)
        self.note.setObjectName("caption")
        self.tree = LaneTree(scope, self)
        self._lay_out()
        self.fold.setChecked(True)
        self._say()
        scope.changed.connect(self._view_changed)

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 2, 8, 2)
        for widget in (self.fold, self.contents, self.note):
            bar.addWidget(widget)
        bar.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(bar)
        layout.addWidget(self.tree, 1)

    def sizeHint(self) -> QSize:
        """As high as all super-blocks, folded, need."""
        bar = self.fold.sizeHint().height() + 8
        if not self.fold.isChecked():
            return QSize(400, bar)
        rows = len(self.tree.lane_model.lanes.outer) * OUTER_ROW
        return QSize(400, bar + self.tree.header().sizeHint().height() + rows + 4)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.tree.set_theme(theme)

    def set_folded(self, folded: bool) -> None:
        """Only the bar, or the lanes too."""
        self.fold.setChecked(not folded)

    def _toggled(self, shown: bool) -> None:
        self.fold.setArrowType(Qt.ArrowType.DownArrow if shown else Qt.ArrowType.RightArrow)
        self.fold.setText("Lanes")
        self.fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        for widget in (self.tree, self.contents, self.note):
            widget.setVisible(shown)
        bar = self.fold.sizeHint().height() + 8
        self.setMaximumHeight(16777215 if shown else bar)
        self.folded.emit(not shown)

    def _say(self) -> None:
        lanes = self.tree.lane_model.lanes
        self.contents.setCurrentIndex(self.contents.findData(self.scope.view.lanes))
        outer, inner = lanes.scales
        text = f"full height: {bytes_text(outer)} for a super-block"
        if any(lanes.inner):
            text += f", {bytes_text(inner)} for a layer"
        if any(lanes.predicted(lane) for lane in lanes.outer):
            text += "; dashed: what shapes say"
            if plan_drawn(self.scope.view) is not None:
                text += ", dotted: with the plan tried"
        self.note.setText(text)
        self.note.setToolTip(f"{exact_bytes_text(outer)} for a super-block, {exact_bytes_text(inner)} for a layer")

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if (old.lanes, old.plan, old.keep) != (new.lanes, new.plan, new.keep):
            self._say()
