"""What the dialogs that start a process share: fields, the process below them, a sentence where torch is missing."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ..state.process import Command, Ended, free_name, why_not
from .fields import NumberLine, PathLine
from .process_panel import ProcessPanel


class RunDialog(QDialog):
    """Not modal: the window stays usable. Closing it leaves the process running; opening it again shows it."""

    output: PathLine
    """Where the recording goes, made by `add_fields`."""
    recorded = Signal(str)
    """The path of a recording that was written."""
    failed = Signal(str)
    """One sentence, where this dialog is not seen."""

    def __init__(self, title: str, about: str, start: str, needs: Sequence[str], parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setSizeGripEnabled(True)
        self.form = QFormLayout()
        self.form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        self.form.setLabelAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.about = QLabel(about, self)
        self.about.setWordWrap(True)
        self.add_fields()
        self.panel = ProcessPanel(start, self.command, self)  # made last: the Tab key goes in this order
        self.panel.ended.connect(self._ended)
        layout = QVBoxLayout(self)
        layout.addWidget(self.about)
        layout.addLayout(self.form)
        layout.addWidget(self.panel, 1)
        self.resize(760, 560)
        sentence = why_not(*needs)
        self.panel.start.setEnabled(not sentence)
        self.panel.say(sentence, wrong=bool(sentence))

    def add_fields(self) -> None:
        """Add the rows of the form."""
        raise NotImplementedError

    def command(self) -> Command:
        """What the fields ask for; raises ValueError with one sentence."""
        raise NotImplementedError

    def shutdown(self) -> None:
        """End the process, if one runs."""
        self.panel.process.shutdown()

    def reject(self) -> None:
        if self.panel.process.is_running:
            self.failed.emit(f"{self.windowTitle()} goes on; open it again from the File menu to watch or cancel it.")
        super().reject()

    def _ended(self, how: Ended) -> None:
        if how.recording is not None:
            self.recorded.emit(how.recording)
        if not how.sentence:
            self.hide()
        elif not self.isVisible() and not how.cancelled:
            self.failed.emit(how.sentence)

    def offer(self, folder: str, name: str) -> None:
        """Put a name for the recording that no file has into `output`, the field that `add_fields` has made."""
        self._offered = (folder, name, free_name(folder, name))
        self.output.setText(self._offered[2])

    def showEvent(self, event: QShowEvent) -> None:
        """The next recording is not to take the place of the last, unless the user has named the file."""
        folder, name, path = self._offered
        if self.output.text() == path and not self.panel.process.is_running:
            self.offer(folder, name)
        super().showEvent(event)

    def add_line(self, label: str, hint: str = "") -> QLineEdit:
        """A field for a line of text."""
        line = QLineEdit(self)
        line.setPlaceholderText(hint)
        self._add(label, line, line)
        return line

    def add_number(self, label: str, value: int, least: int, most: int, hint: str = "") -> NumberLine:
        """A field for a whole number."""
        number = NumberLine(value, least, most, hint, self)
        self._add(label, number, number)
        return number

    def add_row(self, label: str, *widgets: QWidget) -> QWidget:
        """A row of controls; the first line of text takes the room and answers to the label."""
        line = QHBoxLayout()
        line.setContentsMargins(0, 0, 0, 0)
        row = QWidget(self)
        row.setLayout(line)
        main = next((widget for widget in widgets if isinstance(widget, QLineEdit)), widgets[0])
        for widget in widgets:
            line.addWidget(widget, 1 if widget is main else 0)
        self._add(label, row, main)
        return row

    def _add(self, label: str, row: QWidget, named: QWidget) -> None:
        words = QLabel(label, self)
        words.setBuddy(named)
        named.setAccessibleName(named.accessibleName() or label.replace("&", ""))
        self.form.addRow(words, row)

    def add_path(
        self, label: str, what: str, kinds: str, save: bool = False, before: tuple[QWidget, ...] = ()
    ) -> PathLine:
        """A field for a path, with a button to look for it, and controls before both."""
        line = PathLine(self)
        button = QPushButton("Browse…", self)
        button.setAccessibleName(f"Browse for {what}")
        button.setAutoDefault(False)
        button.clicked.connect(lambda: line.browse(what, kinds, save))
        line.row = self.add_row(label, *before, line, button)
        return line
