"""What in the step is worth looking at, most bytes first; a row leads to the allocations that show it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from ..analysis.finding import Finding
from ..analysis.findings import SHARE, findings
from ..charts.theme import Theme, current
from ..look.units import bytes_text, count_text, exact_bytes_text, percent_text
from ..state.finding_tables import finding_columns
from ..state.scope import Scope
from ..state.tab_facts import residual_of
from .caption import Caption
from .link_table import LinkTable
from .whole_step import put_whole_step_note
from .wrapped_rows import WrappedRows

_ROWS = 3
"""Rows that stay in sight whatever is said of the current one."""


class FindingsPanel(QWidget):
    """The list, and under it the whole of the current row, which may be longer than the row."""

    followed = Signal(object)

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope, run = scope, scope.run
        self.found: tuple[Finding, ...] = run.once(findings)
        self.caption, self.whole = Caption(self), Caption(self)
        self.view = LinkTable("Findings", self)
        self.view.show_links(finding_columns(self.found, run.peak_bytes), [one.query for one in self.found])
        self.view.set_widths(10, 50, 50, shared=(1, 2))
        self.rows = WrappedRows(self.view)
        self.view.followed.connect(self.followed)
        self.view.picked.connect(self._show_whole)
        self._lay_out(self._said(run.peak_bytes))
        self.set_theme(current())

    def _said(self, peak_bytes: int) -> str:
        if not self.found:
            least = bytes_text(SHARE * peak_bytes)
            self.caption.setToolTip(exact_bytes_text(int(SHARE * peak_bytes)))
            said = f"Nothing stands out: no finding reaches {percent_text(SHARE)} of the peak ({least})."
            then = " Alive here lists what the peak consists of, largest first"
            missed = self.scope.run.once(residual_of)
            return f"{said}{then}{'; Prediction what shapes do not explain' if missed is not None else ''}."
        return f"{count_text(len(self.found), 'finding')}, most bytes first; a click goes to the allocations"

    def _lay_out(self, said: str) -> None:
        self.caption.setText(said)
        self.caption.setWordWrap(True)
        self.whole.setObjectName("where")
        self.whole.setWordWrap(True)
        self.whole.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.view.setVisible(bool(self.found))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.caption, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self.view, 1)
        layout.addWidget(self.whole)
        self.note = put_whole_step_note(self, self.scope)
        self._show_whole(0 if self.found else -1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._wrap()

    def _wrap(self) -> None:
        """The current row whole under the table, where the first rows keep their room."""
        rows = min(len(self.found), _ROWS) * self.view.verticalHeader().defaultSectionSize()
        above = self.note.sizeHint().height() * self.note.isVisible() + self.caption.heightForWidth(self.width())
        self.whole.setWordWrap(True)
        needed = above + self.view.horizontalHeader().height() + rows + self.whole.heightForWidth(self.width())
        self.whole.setWordWrap(self.height() >= needed)

    def _show_whole(self, row: int) -> None:
        one = self.found[row] if 0 <= row < len(self.found) else None
        self.whole.setVisible(one is not None)
        self.whole.setText("" if one is None else f"{one.text} {one.suggestion}")
        self.whole.setToolTip("" if one is None else one.exact)
        self._wrap()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.view.painter_of_cells.theme = theme
