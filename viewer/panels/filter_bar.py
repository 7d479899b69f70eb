"""The filter box and the switch between what is alive at the cursor and what happened since the mark."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QLineEdit, QToolButton, QWidget

from ..charts.theme import Theme, current
from ..look.units import bytes_text, count_text, exact_bytes_text
from ..model.query import AllocationQuery
from ..state.scope import Scope
from ..state.selection import between
from ..state.view_state import RunView
from ..state.within import CURSOR, WITHIN, shown_query, within_of

_HINT = "Filter (F): words, layer:3, category:activation, op:silu, stack:forward, >16MiB, -not"


class FilterLine(QLineEdit):
    """Escape empties it and gives the focus back."""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.clear()
            self.clearFocus()
            return
        super().keyPressEvent(event)


class FilterBar(QWidget):
    """A filter takes effect once typing rests; one that makes no sense says why and changes nothing."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.line = FilterLine(self)
        self.line.setPlaceholderText(_HINT)
        self.line.setAccessibleName("Filter")
        self.line.setClearButtonEnabled(True)
        for button in self.line.findChildren(QToolButton):
            button.setAccessibleName("Empty the filter")
        self.said = QLabel(self)
        self.said.setObjectName("caption")
        self.between = QLabel(self)
        self.between.setObjectName("between")
        self.within = QComboBox(self)
        self.within.setAccessibleName("What the tables show")
        for key, text in WITHIN.items():
            self.within.addItem(text, key)
        self.within.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.within.setMinimumContentsLength(38)
        self.within.activated.connect(lambda row: scope.look(within=self.within.itemData(row), allocation=None))
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(120)
        self._later.timeout.connect(self.apply)
        self.line.textEdited.connect(lambda _: self._later.start())
        self.line.textChanged.connect(lambda text: None if text else self.apply())
        self.line.returnPressed.connect(self.apply)
        self._lay_out()
        self.set_theme(current())
        scope.changed.connect(self._view_changed)

    def _lay_out(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 3, 8, 3)
        layout.setSpacing(8)
        layout.addWidget(self.line, 1)
        layout.addWidget(self.said)
        layout.addWidget(self.between)
        layout.addWidget(self.within)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        self._show(self.scope.view)

    def apply(self) -> None:
        """Make the words typed the filter, if they make sense."""
        self._later.stop()
        if not self.scope.is_open:
            return
        text = self.line.text().strip()
        try:
            self.scope.run.filtered(text)
        except ValueError as error:
            self._say(str(error), wrong=True)
            return
        self.scope.look(filter=text)
        self._say_matches(self.scope.view)

    def _say(self, text: str, wrong: bool = False) -> None:
        ink = self.theme.warning if wrong else self.theme.faint
        self.said.setStyleSheet(f"color: {ink}")
        self.said.setText(text)
        self.said.setToolTip("")

    def _say_matches(self, view: RunView) -> None:
        if not view.filter:
            self._say("")
            return
        run = self.scope.run
        every, shown = AllocationQuery(filter=view.filter), shown_query(replace(view, query=None))
        where = "at the cursor" if within_of(view) == CURSOR else "in the range"
        count, total, here = count_text(int(every.mask(run).sum())), every.bytes(run), shown.bytes(run)
        self._say(f"{count} match, {bytes_text(total)}; {bytes_text(here)} {where}")
        self.said.setToolTip(f"{exact_bytes_text(total)}; {exact_bytes_text(here)} {where}")

    def _show(self, view: RunView) -> None:
        self.within.setCurrentIndex(self.within.findData(view.within))
        self.within.setToolTip(f"The tables show what is {self.within.currentText()}")
        marked = view.mark is not None
        self.within.setVisible(marked)
        self.between.setVisible(marked)
        self.between.setText(between(self.scope.run, view))
        if view.mark is not None:
            curve = self.scope.run.curve
            self.between.setToolTip(exact_bytes_text(int(curve[view.cursor]) - int(curve[view.mark])))
        if self.line.text().strip() != view.filter:
            self.line.setText(view.filter)
        self._say_matches(view)

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if (old.cursor, old.mark, old.within, old.filter) != (new.cursor, new.mark, new.within, new.filter):
            self._show(new)
