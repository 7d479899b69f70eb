"""Record a step of somebody's training script without touching the script."""

from __future__ import annotations

import os

from PySide6.QtWidgets import QComboBox, QWidget

from ..state.process import Command, record_command
from .fields import NumberLine
from .run_dialog import RunDialog

_ABOUT = (
    "Runs the script as it is, in a process of its own, and records one training step of it. "
    "A step is found by itself where the script calls an optimizer."
)
_NAME = "step.mstrata"
_SCRIPT, _MODULE = "Script", "Module (python -m)"
_WHICH = {
    "step number": (),
    "the step that runs out of memory": ("--on", "oom"),
    "the step with the highest peak": ("--on", "peak"),
}


class RecordDialog(RunDialog):
    """Script or module, its arguments, which step, and the file to write."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__("Record a script", _ABOUT, "Record", ("torch",), parent)
        self.program.setFocus()

    def add_fields(self) -> None:
        self.kind = QComboBox(self)
        self.kind.addItems([_SCRIPT, _MODULE])
        self.kind.setAccessibleName("Script or module")
        self.program = self.add_path("&Run", "the script", "Python (*.py);;All files (*)", before=(self.kind,))
        self.arguments = self.add_line("&Arguments", "--epochs 1 --batch-size 8")
        self.folder = self.add_path("In &folder", "the folder to run in", "folder")
        self.which = QComboBox(self)
        self.which.addItems(list(_WHICH))
        self.which.setAccessibleName("Which step to record")
        self.step = NumberLine(3, 0, 1_000_000, parent=self)
        self.step.setAccessibleName("Number of the step, from 0")
        self.step.setToolTip("Counted from 0. Step 3 has optimizer state, and three steps before it to time.")
        self.add_row("&Record", self.which, self.step)
        self.output = self.add_path("&Write to", "the recording to write", "Recordings (*.mstrata)", save=True)
        self.folder.setText(os.getcwd())
        self.offer(os.getcwd(), _NAME)
        self.kind.currentIndexChanged.connect(lambda _: self._show_kind())
        self.which.currentIndexChanged.connect(lambda row: self.step.setVisible(row == 0))
        self.program.textEdited.connect(self._chosen)
        self._own_folder = False
        self.folder.textEdited.connect(lambda _: setattr(self, "_own_folder", True))
        self._show_kind()

    @property
    def is_module(self) -> bool:
        """Whether a module is run, not a file."""
        return self.kind.currentText() == _MODULE

    def _show_kind(self) -> None:
        self.program.setPlaceholderText("package.train" if self.is_module else "train.py")
        self.program.setAccessibleName("Module to run" if self.is_module else "Script to run")

    def _chosen(self, text: str) -> None:
        """A script chosen by its full path is run in its folder, unless the user has named another."""
        if not self.is_module and os.path.isabs(text) and os.path.isfile(text) and not self._own_folder:
            self.folder.setText(os.path.dirname(text))
            self.offer(os.path.dirname(text), _NAME)

    def command(self) -> Command:
        option = _WHICH[self.which.currentText()] or ("--step", str(self.step.value()))
        folder = os.path.abspath(os.path.expanduser(self.folder.text().strip() or "."))
        program = self.program.text() if self.is_module else os.path.expanduser(self.program.text())
        output = os.path.expanduser(self.output.text())
        if not output.strip():
            raise ValueError("Name the recording to write.")
        return record_command(program, self.is_module, self.arguments.text(), option, folder, output)
