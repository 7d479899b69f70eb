"""The window with nothing open: what to do next, and controls that do it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from ..charts.theme import Theme
from ..state.recent import RecentFiles
from .recent_list import RecentList

TITLE = "Where did the memory go?"
DROP = "Drop a file here"
NEXT = "A recording (.mstrata), a torch memory snapshot (.pickle), or a run directory. Two files open as a comparison."
RECORD = "To record a step from inside your own code, decorate the function that performs it, and train:"
CODE = """from memstrata.capture import record_step

@record_step("before.mstrata")
def step(batch):
    ..."""


class StartPage(QScrollArea):
    """`actions` are those of the menu by name: the buttons here do the same."""

    def __init__(
        self, actions: dict[str, QAction], samples: QMenu, recent: RecentFiles, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.drop = self._drop_area(actions["open"], samples)
        self.recent = RecentList(recent, self)
        self.others = self._others((actions["record"], actions["dry_run"]))
        inside = QWidget(self)
        inside.setObjectName("start")
        self.setWidget(inside)
        self._lay_out(inside)

    def _lay_out(self, inside: QWidget) -> None:
        card = QFrame(inside)
        card.setObjectName("empty")
        card.setMaximumWidth(1020)
        columns = QHBoxLayout(card)
        columns.setSpacing(30)
        left = QVBoxLayout()
        left.setSpacing(12)
        left.addWidget(self._label(TITLE, 1.7))
        left.addWidget(self.drop)
        left.addSpacing(4)
        left.addLayout(self.others)
        left.addSpacing(4)
        left.addWidget(self._label(RECORD))
        code = self._label(CODE)
        code.setObjectName("code")
        code.setWordWrap(False)
        code.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        left.addWidget(code)
        left.addStretch(1)
        columns.addLayout(left, 3)
        columns.addWidget(self.recent, 2)
        layout = QGridLayout(inside)
        layout.setContentsMargins(20, 20, 20, 20)
        layout.addWidget(card, 1, 1)
        for side in (0, 2):
            layout.setColumnStretch(side, 1)
            layout.setRowStretch(side, side + 2)
        layout.setColumnStretch(1, 20)

    def _drop_area(self, open_action: QAction, samples: QMenu) -> QFrame:
        area = QFrame(self)
        area.setObjectName("drop")
        self.open = _button(open_action, area, "Open recordings or snapshots")
        self.sample = QPushButton("Open a sample", area)
        self.sample.setAccessibleName("Open a sample recording")
        self.sample.setMenu(samples)
        self.sample.setVisible(not samples.isEmpty())
        buttons = QHBoxLayout()
        buttons.addWidget(self.open)
        buttons.addWidget(self.sample)
        buttons.addStretch(1)
        inside = QVBoxLayout(area)
        inside.setSpacing(8)
        inside.addWidget(self._label(DROP, 1.15))
        inside.addWidget(self._label(NEXT))
        inside.addLayout(buttons)
        return area

    def _others(self, actions: Sequence[QAction]) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        self.buttons = []
        for row, action in enumerate(actions):
            self.buttons.append(_button(action, self, action.text().rstrip("…").replace("&", "")))
            grid.addWidget(self.buttons[-1], row, 0)
            grid.addWidget(self._label(action.toolTip()), row, 1)
        grid.setColumnStretch(1, 1)
        return grid

    def _label(self, text: str, size: float = 1.0) -> QLabel:
        label = QLabel(text, self)
        label.setWordWrap(True)
        font = label.font()
        font.setPointSizeF(font.pointSizeF() * size)
        font.setBold(size > 1)
        label.setFont(font)
        return label

    def enter(self) -> None:
        """Give the focus to what most begin with."""
        self.open.setFocus(Qt.FocusReason.OtherFocusReason)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.recent.set_theme(theme)

    def set_hot(self, hot: bool) -> None:
        """Show that what is being dragged can be dropped."""
        self.drop.setProperty("hot", hot)
        self.drop.style().unpolish(self.drop)
        self.drop.style().polish(self.drop)


def _button(action: QAction, parent: QWidget, name: str) -> QPushButton:
    button = QPushButton(action.text().replace("&", ""), parent)
    button.setAccessibleName(name)
    button.clicked.connect(action.trigger)
    return button
