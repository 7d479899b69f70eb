"""The lanes under their own bar: folded or not, what they show, and how many bytes fill the height of one."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSizePolicy, QToolButton, QVBoxLayout, QWidget

from ..charts.theme import Theme
from ..look.units import bytes_text, exact_bytes_text
from ..state.lanes import CONTENTS
from ..state.scope import Scope
from ..state.view_state import RunView
from ..state.within import limit_text
from .caption import Caption
from .lanes import OUTER_ROW, LaneTree, plan_drawn


class LaneLine(QWidget):
    """The line over the lanes: folds them, says what they show. Where it is narrow the choice of it gives way."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.fold = QToolButton(self)
        self.fold.setObjectName("fold")
        self.fold.setText("Lanes")
        self.fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.fold.setCheckable(True)
        self.fold.setChecked(True)
        self.fold.setAccessibleName("Show the lanes of super-blocks and layers")
        self.contents = QComboBox(self)
        self.contents.setAccessibleName("What the lanes show")
        for key, (title, _) in CONTENTS.items():
            self.contents.addItem(title, key)
        self.note = Caption(self)
        line = QHBoxLayout(self)
        line.setContentsMargins(8, 2, 8, 2)
        for widget in (self.fold, self.contents, self.note):
            line.addWidget(widget)
        line.setStretch(2, 1)
        line.addStretch(0)  # for when the note is hidden
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.show_parts(True)

    def show_parts(self, shown: bool) -> None:
        """What is of use only while there are lanes under it."""
        self._shown = shown
        self.fold.setArrowType(Qt.ArrowType.DownArrow if shown else Qt.ArrowType.RightArrow)
        self.note.setVisible(shown)
        self._fit()

    def _fit(self) -> None:
        needed = self.fold.sizeHint().width() + self.contents.sizeHint().width() + 24
        self.contents.setVisible(self._shown and self.width() >= needed)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def sizeHint(self) -> QSize:
        return QSize(400, self.fold.sizeHint().height() + 8)

    def minimumSizeHint(self) -> QSize:
        return QSize(1, self.sizeHint().height())


class LanePanel(QWidget):
    """Lends its line to the title of its dock. `folded` is not part of what is looked at, only of how the window is
    laid out."""

    folded = Signal(bool)
    """The user folded the lanes, or unfolded them."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.title_line = LaneLine(self)
        self.fold, self.contents, self.note = (
            self.title_line.fold, self.title_line.contents, self.title_line.note,
        )  # fmt: skip
        self.fold.toggled.connect(self._toggled)
        self.fold.clicked.connect(lambda shown: self.folded.emit(not shown))
        self.contents.activated.connect(lambda row: scope.look(lanes=self.contents.itemData(row)))
        self.tree = LaneTree(scope, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.tree, 1)
        self.put_line_back()
        self._say()
        scope.changed.connect(self._view_changed)

    def put_line_back(self) -> None:
        """The line over the lanes stands over them again."""
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertWidget(0, self.title_line)
        self.title_line.show()

    @property
    def picture_words(self) -> str:
        """What the line says, for a picture of the lanes while it stands in the title of the dock, or is cut."""
        if not self.fold.isChecked() or (self.isAncestorOf(self.title_line) and not self.note.is_cut):
            return ""
        return f"{self.contents.currentText().capitalize()}; {self.note.text()}"

    def sizeHint(self) -> QSize:
        """As high as all super-blocks, folded, need."""
        rows = len(self.tree.lane_model.lanes.outer) * OUTER_ROW
        return QSize(400, self.title_line.sizeHint().height() + self.tree.header().sizeHint().height() + rows + 4)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.tree.set_theme(theme)

    def set_folded(self, folded: bool) -> None:
        """Only the line, or the lanes too."""
        self.fold.setChecked(not folded)

    def set_foldable(self, foldable: bool) -> None:
        """Whether folding gives room to anybody; where it does not, the lanes stay."""
        self.fold.setEnabled(foldable)
        if not foldable:
            self.fold.setChecked(True)
            self.fold.setArrowType(Qt.ArrowType.NoArrow)
        else:
            self._toggled(self.fold.isChecked())

    def _toggled(self, shown: bool) -> None:
        self.title_line.show_parts(shown)
        self.tree.setVisible(shown)

    def _say(self) -> None:
        lanes = self.tree.lane_model.lanes
        self.contents.setCurrentIndex(self.contents.findData(self.scope.view.lanes))
        outer, inner = lanes.scales
        text = f"full height: {bytes_text(outer)} for a super-block"
        if any(lanes.inner):
            text += f", {bytes_text(inner)} for a layer"
        if any(lanes.predicted(lane) for lane in lanes.outer):
            text += "; dashed: what shapes say"
            text += " of all" if limit_text(self.scope.view) else ""
            if plan_drawn(self.scope.view) is not None:
                text += ", dotted: with the plan tried"
        if limit := limit_text(self.scope.view):
            text = f"in colour: {limit}; grey: the rest; {text}"
        self.note.setText(text)
        self.note.setToolTip(f"{exact_bytes_text(outer)} for a super-block, {exact_bytes_text(inner)} for a layer")

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if (old.lanes, old.plan, old.keep) != (new.lanes, new.plan, new.keep) or limit_text(old) != limit_text(new):
            self._say()
