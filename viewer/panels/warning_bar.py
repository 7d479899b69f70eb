"""What makes a picture doubtful stands over it, the gravest first."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QToolButton, QWidget

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import Severity

from ..look.tips import sentence
from ..look.units import exact_lines
from .caption import Caption

_WORDS = {Severity.error: "Warning", Severity.warning: "Warning", Severity.info: "Note"}
_MOST, _MOST_UNFOLDED = 4, 20


class WarningBar(QFrame):
    """One line for each problem, cut where it is too long; unfolded it says all of it. Hidden if there is none."""

    def __init__(self, problems: Sequence[Problem], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._said: list[str] = []
        self.caption = Caption(self, lines=True)
        self.caption.setObjectName("")
        self.caption.setAccessibleName("Warnings")
        self.unfold = QToolButton(self)
        self.unfold.setCheckable(True)
        self.unfold.setText("Whole text")
        self.unfold.setToolTip("Say all of each, on as many lines as it takes")
        self.unfold.setAccessibleName("Whole text of the warnings")
        self.unfold.toggled.connect(lambda _: self._show())
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.addWidget(self.caption, 1)
        line.addWidget(self.unfold, 0, Qt.AlignmentFlag.AlignTop)
        self.show_problems(problems)

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Say these; what they round stands on hover to the byte."""
        found = sorted(problems, key=lambda problem: -problem.severity)
        self.setObjectName("warnings" if any(p.severity > Severity.info for p in found) else "note")
        self._said = [f"{_WORDS[p.severity]}: {p.text}" for p in found]
        exact = [line for problem in found for line in exact_lines(problem.sizes)]
        self.caption.setToolTip("\n".join([*map(sentence, self._said[_MOST:]), *exact]))
        for widget in (self, self.caption):  # the colours go by the name
            widget.style().unpolish(widget)
            widget.style().polish(widget)
        self._show()
        self.setVisible(bool(found))

    def text(self) -> str:
        """What the bar says, each problem on a line."""
        return "\n".join(self._said)

    def _show(self) -> None:
        most = _MOST_UNFOLDED if self.unfold.isChecked() else _MOST
        lines = [sentence(text) for text in self._said[:most]]
        if len(self._said) > most:
            lines.append(f"and {len(self._said) - most} more")
        self.caption.setWordWrap(self.unfold.isChecked())
        self.caption.setText("\n".join(lines))
        self._fit()

    def _fit(self) -> None:
        """The button stands there only where it shows more."""
        is_cut = self.caption.widest > self.contentsRect().width()
        self.unfold.setVisible(self.unfold.isChecked() or is_cut or len(self._said) > _MOST)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()
