"""A process seen from outside: what it says, how long it has run, and a way to call it off."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFontDatabase, QTextCursor
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from ..state.process import Command, Ended, Process

_MOST_LINES = 10_000
_MOST_PENDING = 500_000
"""Characters kept between two repaints; a script that floods its output must not stop the window."""


class OutputView(QPlainTextEdit):
    """Text as a terminal shows it: a carriage return goes back to the start of the line."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setMaximumBlockCount(_MOST_LINES)
        self.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.setAccessibleName("Output")
        self.setPlaceholderText("What it says appears here.")
        self.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.setTabChangesFocus(True)
        self._pending, self._returned = "", False
        self._later = QTimer(self, singleShot=True, interval=50)
        self._later.timeout.connect(self.flush)

    def empty(self) -> None:
        """Forget all text."""
        self._later.stop()
        self._pending, self._returned = "", False
        self.clear()

    def say(self, text: str) -> None:
        """Add text soon."""
        self._pending = (self._pending + text)[-_MOST_PENDING:]
        if not self._later.isActive():
            self._later.start()

    def flush(self) -> None:
        """Show everything said so far; the end stays in sight unless the user has scrolled up."""
        self._later.stop()
        text, self._pending = self._pending.replace("\r\n", "\n"), ""
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 2
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        lines = text.split("\n")
        for number, line in enumerate(lines):
            self._add(cursor, line)
            if number < len(lines) - 1:
                cursor.insertText("\n")
                self._returned = False
        cursor.endEditBlock()
        if at_end:
            bar.setValue(bar.maximum())

    def _add(self, cursor: QTextCursor, line: str) -> None:
        pieces = line.split("\r")
        shown = next((piece for piece in reversed(pieces) if piece), "")
        if shown and (len(pieces) > 1 or self._returned):
            cursor.movePosition(QTextCursor.MoveOperation.StartOfBlock, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()
        cursor.insertText(shown)
        self._returned = line.endswith("\r") or (self._returned and not shown)


class ProcessPanel(QWidget):
    """Starts what `asked()` says; a ValueError of it is shown as its sentence."""

    ended = Signal(object)
    """The `Ended`, once it is shown."""

    def __init__(self, start: str, asked: Callable[[], Command], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.asked = asked
        self.process = Process(self)
        self.output = OutputView(self)
        self.said = QLabel(self)
        self.said.setWordWrap(True)
        self.said.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.start = QPushButton(start, self)
        self.start.setDefault(True)
        self.cancel = QPushButton("Cancel", self)
        self.cancel.setToolTip("End the process")
        self.start.clicked.connect(self.run)
        self.cancel.clicked.connect(self._cancel)
        self._tick = QTimer(self, interval=200)
        self._tick.timeout.connect(self._show_time)
        self.process.said.connect(self.output.say)
        self.process.ended.connect(self._ended)
        self.cancel.setEnabled(False)
        self._lay_out()

    def _lay_out(self) -> None:
        line = QHBoxLayout()
        line.addWidget(self.said, 1)
        line.addWidget(self.cancel)
        line.addWidget(self.start)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.output, 1)
        layout.addLayout(line)

    def say(self, sentence: str, wrong: bool = False) -> None:
        """Show a sentence beside the buttons."""
        self.said.setObjectName("wrong" if wrong else "")
        self.said.style().unpolish(self.said)
        self.said.style().polish(self.said)
        self.said.setText(sentence)

    def run(self) -> None:
        """Start, if what is asked for makes sense."""
        if self.process.is_running:
            return
        try:
            command = self.asked()
        except ValueError as error:
            self.say(str(error), wrong=True)
            return
        self.output.empty()
        self.output.say(f"$ {command.text}\n")
        self.start.setEnabled(False)
        self.cancel.setEnabled(True)
        self._tick.start()
        self._stopping = False
        self.process.start(command)
        self._show_time()

    def _cancel(self) -> None:
        self._stopping = True
        self.cancel.setEnabled(False)
        self.process.cancel()
        self._show_time()

    def _show_time(self) -> None:
        if self.process.is_running:
            self.say(f"{'Stopping' if self._stopping else 'Running'}, {self.process.seconds:.0f} s")

    def _ended(self, how: Ended) -> None:
        self._tick.stop()
        self.output.flush()
        self.start.setEnabled(True)
        self.cancel.setEnabled(False)
        self.say(
            how.sentence or f"Done in {self.process.seconds:.0f} s", wrong=bool(how.sentence) and not how.cancelled
        )
        self.ended.emit(how)
