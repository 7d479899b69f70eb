"""The line over a view that no filter and no range restricts; it is there only while one of them is in force."""

from __future__ import annotations

from PySide6.QtWidgets import QBoxLayout, QSizePolicy, QWidget

from ..state.scope import Scope
from ..state.within import not_applied_text
from .caption import Caption


class WholeStepNote(Caption):
    """Says that what is shown is of the whole step, so that nobody takes it for what the filter matches."""

    def __init__(self, scope: Scope, parent: QWidget, of: str = "the whole step") -> None:
        super().__init__(parent)
        self.setObjectName("note")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)  # in a panel with room to spare too
        self.scope, self.of = scope, of
        self._say()
        scope.changed.connect(lambda _, __: self._say())

    def _say(self) -> None:
        said = not_applied_text(self.scope.view, self.of)
        self.setText(said)
        self.setVisible(bool(said))


def put_whole_step_note(panel: QWidget, scope: Scope, of: str = "the whole step") -> WholeStepNote:
    """Make that line the first of a panel, whose parts stand one under another."""
    note, layout = WholeStepNote(scope, panel, of), panel.layout()
    assert isinstance(layout, QBoxLayout)
    layout.insertWidget(0, note)
    return note
