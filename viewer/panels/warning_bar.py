"""What makes a picture doubtful stands over it, the gravest first."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QLabel, QWidget

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import Severity

_WORDS = {Severity.error: "Warning", Severity.warning: "Warning", Severity.info: "Note"}
_MOST = 4


class WarningBar(QLabel):
    """One line for each problem; hidden if there is none."""

    def __init__(self, problems: Sequence[Problem], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        found = sorted(problems, key=lambda problem: -problem.severity)
        self.setObjectName("warnings" if any(p.severity > Severity.info for p in found) else "note")
        self.setAccessibleName("Warnings")
        self.setWordWrap(True)
        lines = [f"{_WORDS[p.severity]}: {p.text}" for p in found[:_MOST]]
        if len(found) > _MOST:
            lines.append(f"and {len(found) - _MOST} more")
        self.setText("\n".join(lines))
        self.setVisible(bool(found))
