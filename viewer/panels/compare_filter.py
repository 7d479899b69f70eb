"""The filter of a comparison: the same words for both runs, how many bytes match in each, and what they restrict."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QApplication, QHBoxLayout, QToolButton, QWidget
from shiboken6 import isValid

from ..analysis.diff import Diff
from ..charts.theme import Theme, current
from ..model.run import Run
from ..state.comparison import filter_of, matching_text, range_text
from ..state.session import Session
from ..state.view_state import ViewState, looking
from .caption import Caption
from .filter_bar import FilterLine

_HINT = "Filter both runs (F): words, layer:3, category:activation, op:silu, stack:forward, >16MiB, -not"
_REST = 120
"""Milliseconds that typing rests before a filter takes effect."""


class CompareFilter(QWidget):
    """What is typed becomes the filter of both runs. Where they were given different ones on their own pages none is in
    force here, and the line says so."""

    left = Signal(QWidget)
    """The focus is to go back to this part, None for the one that the page is about."""

    def __init__(self, session: Session, pair: tuple[Run, Run], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session, self.pair = session, pair
        self._came_from: QWidget | None = None
        self._wrong, self._setting = "", False
        self.line, self.said = FilterLine(self), Caption(self)
        self.line.setPlaceholderText(_HINT)
        self.line.setAccessibleName("Filter of both runs")
        self.line.setClearButtonEnabled(True)
        for button in self.line.findChildren(QToolButton):
            button.setAccessibleName("Empty the filter")
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(_REST)
        self._later.timeout.connect(self.apply)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 3, 8, 3)
        layout.setSpacing(8)
        layout.addWidget(self.line, 2)
        layout.addWidget(self.said, 3)
        self.line.setText(self.words)
        self.set_theme(current())
        self.line.textEdited.connect(lambda _: self._later.start())
        self.line.textChanged.connect(self._emptied)
        self.line.returnPressed.connect(lambda: self._leave() if self.apply() else None)
        self.line.left.connect(self._leave)
        session.changed.connect(self._changed)

    @property
    def words(self) -> str:
        """The filter in force here; empty for none."""
        return filter_of(self.session.state, self.pair)[0]

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        self._show()

    def go_in(self) -> None:
        """Type a filter now; Enter and Escape lead back to where the focus is."""
        focus = QApplication.focusWidget()
        if focus is not self.line:
            self._came_from = focus
        if not self.isActiveWindow():
            self.window().activateWindow()
        self.line.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _leave(self) -> None:
        back, self._came_from = self._came_from, None
        self.left.emit(back if back is not None and isValid(back) and back.isVisible() else None)

    def _emptied(self, text: str) -> None:
        if not text and not self._setting:
            self.apply()

    def apply(self) -> bool:
        """Make the words typed the filter of both runs; False if they make no sense."""
        self._later.stop()
        state = self.session.state
        if not set(self.pair) <= set(state.runs):
            return False
        text, self._wrong = self.line.text().strip(), ""
        try:
            for run in self.pair:
                run.filtered(text)
        except ValueError as error:
            self._wrong = str(error)
        else:
            for run in self.pair:
                state = looking(state, state.runs.index(run), filter=text)
            self.session.set(state, ("filter",))
        self._show()
        return not self._wrong

    def _show(self) -> None:
        if not set(self.pair) <= set(self.session.state.runs):
            return
        words, why = filter_of(self.session.state, self.pair)
        self.line.in_force = words
        said, exact = matching_text(Diff(*self.pair, words)) if words else (why, "")
        said = self._wrong or "; ".join(filter(None, (said, range_text(self.session.state, self.pair))))
        self.said.setStyleSheet(f"color: {self.theme.warning if self._wrong or why else self.theme.faint}")
        self.said.setText(said)
        self.said.setToolTip(exact)
        self.said.setVisible(bool(said))

    def _changed(self, old: ViewState, new: ViewState) -> None:
        if not set(self.pair) <= set(old.runs) & set(new.runs):
            return
        if filter_of(old, self.pair) != filter_of(new, self.pair):  # else words that are being typed stay
            self._wrong = ""
            if self.line.text().strip() != self.words:
                self._setting = True  # emptied so it leaves the runs the filters that they have
                self.line.setText(self.words)
                self._setting = False
            self._show()
        elif range_text(old, self.pair) != range_text(new, self.pair):
            self._show()
