"""The filter box and the switch between what is alive at the cursor and what happened since the mark."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QComboBox, QHBoxLayout, QLabel, QLineEdit, QToolButton, QWidget
from shiboken6 import isValid

from ..charts.theme import Theme, current
from ..look.units import bytes_text, count_text, exact_bytes_text
from ..model.query import AllocationQuery
from ..state.scope import Scope
from ..state.selection import between
from ..state.view_state import RunView
from ..state.within import CURSOR, WITHIN, shown_query, within_of

_HINT = "Filter (F): words, layer:3, category:activation, op:silu, stack:forward, >16MiB, -not"


class FilterLine(QLineEdit):
    """Escape empties it and leaves it. Undo and redo are its own only while it says something that is not in force."""

    left = Signal()
    """The focus is to go back to where it was."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.in_force = ""

    def _is_of_the_window(self, event: QEvent) -> bool:
        undoes = isinstance(event, QKeyEvent) and (
            event.matches(QKeySequence.StandardKey.Undo) or event.matches(QKeySequence.StandardKey.Redo)
        )
        return undoes and self.text().strip() == self.in_force

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ShortcutOverride and self._is_of_the_window(event):
            event.ignore()
            return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.clear()
            self.left.emit()
        elif self._is_of_the_window(event):
            event.ignore()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        if event.reason() == Qt.FocusReason.ShortcutFocusReason:
            self.selectAll()


class FilterBar(QWidget):
    """A filter takes effect once typing rests; one that makes no sense stays, says why, and changes nothing."""

    left = Signal(QWidget)
    """The focus is to go back to this part, None for the one that the page is about."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self._came_from: QWidget | None = None
        self._wrong = ""
        """What is wrong with the words typed."""
        self.line = FilterLine(self)
        self.line.setText(scope.view.filter)
        self.line.left.connect(self._leave)
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
        self.line.returnPressed.connect(lambda: self._leave() if self.apply() else None)
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

    def go_in(self) -> None:
        """Type a filter now; Enter and Escape lead back to where the focus is."""
        focus = QApplication.focusWidget()
        if focus is not self.line:
            self._came_from = focus
        if not self.isActiveWindow():  # but a dock in a window of its own
            self.window().activateWindow()
        self.line.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _leave(self) -> None:
        back, self._came_from = self._came_from, None
        self.left.emit(back if back is not None and isValid(back) and back.isVisible() else None)

    def apply(self) -> bool:
        """Make the words typed the filter; False if they make no sense."""
        self._later.stop()
        if not self.scope.is_open:
            return False
        text = self.line.text().strip()
        try:
            self.scope.run.filtered(text)
            self._wrong = ""
        except ValueError as error:
            self._wrong = str(error)
        else:
            self.scope.look(("filter",), filter=text)
        self._say_matches(self.scope.view)
        return not self._wrong

    def _say(self, text: str, wrong: bool = False) -> None:
        ink = self.theme.warning if wrong else self.theme.faint
        self.said.setStyleSheet(f"color: {ink}")
        self.said.setText(text)
        self.said.setToolTip("")
        self.said.setVisible(bool(text))

    def _say_matches(self, view: RunView) -> None:
        if self._wrong:
            self._say(self._wrong, wrong=True)
            return
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
        self.line.in_force = view.filter
        self._say_matches(view)

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.filter != new.filter:  # else words that are being typed, or make no sense yet, stay
            self._wrong = ""
            if self.line.text().strip() != new.filter:
                self.line.setText(new.filter)
        if (old.cursor, old.mark, old.within, old.filter) != (new.cursor, new.mark, new.within, new.filter):
            self._show(new)
