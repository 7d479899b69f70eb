"""The allocator's memory at the cursor: which ranges are reserved, what lies in them, and how sure the replay is."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLabel, QScrollArea, QVBoxLayout, QWidget

from ..analysis.allocator.answer import Answer
from ..analysis.allocator.history import History
from ..charts.allocator_map import AllocatorMap
from ..charts.theme import Theme, current
from ..look.units import bytes_text, exact_bytes_text, percent_text
from ..model.paints import Paint, group_paints
from ..state.jobs import Job
from ..state.scope import Scope
from ..state.view_state import RunView
from .work_line import WorkLine

_REPLAYING = "Replaying the allocator"


class AllocatorPanel(QWidget):
    """Replays the run in a job when it is first seen, then follows the cursor."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.answer = Answer(scope.run)
        self.history: History | None = None
        self.work = WorkLine(self)
        self.caption = QLabel(self)
        self.caption.setObjectName("caption")
        self.caption.setWordWrap(True)
        self.caption.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.map = AllocatorMap(self._paint_of, self._text_of)
        self.map.picked.connect(self._picked)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setAccessibleName("Allocator segments and their blocks")
        area.setWidget(self.map)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.work)
        layout.addWidget(self.caption)
        layout.addWidget(area, 1)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(40)
        self._later.timeout.connect(self._fill_if_seen)
        self.set_theme(current())
        scope.changed.connect(self._view_changed)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        bands = self.scope.bands
        self._paints, self._labels = group_paints(bands.grouping, theme.dark), bands.grouping.labels
        self.theme = theme
        self.map.set_theme(theme)

    def showEvent(self, event: object) -> None:
        super().showEvent(event)  # type: ignore[arg-type]
        self.fill()

    def fill(self) -> None:
        """Show the memory at the cursor now."""
        self._later.stop()
        if self.answer.refusal:
            self.caption.setText(self.answer.refusal)
            return
        if self.history is None:
            self._replay()
            return
        layout = self.history.at(self.scope.view.cursor)
        self.map.show_layout(layout, self.scope.view.allocation)
        total, used = layout.reserved_bytes, int(layout.block_bytes.sum())
        share = f" ({percent_text(1 - used / total)})" if total else ""
        free = f"{bytes_text(total - used)} free{share}"
        self.caption.setToolTip(f"{exact_bytes_text(total)} reserved, {exact_bytes_text(total - used)} free")
        self.caption.setText(f"{bytes_text(total)} reserved in {len(layout.bytes):,} ranges, {free}. {self._trust()}")

    def _replay(self) -> None:
        """Unless it is being done, or was stopped."""
        answer = self.answer
        if not self.work.is_busy and not self.work.is_stopped:
            self.work.begin(_REPLAYING, lambda job: _replayed(answer, job), self._take)

    def _take(self, history: History) -> None:
        self.history = history
        self._fill_if_seen()

    def _trust(self) -> str:
        checked = self.answer.verification
        if not self.answer.has_allocator:
            return "Estimate, kernels: cpu: a stock CUDA allocator given these allocations."
        same = f"{checked.exact_matches:,} of {checked.allocations:,} addresses as recorded"
        marks = f"; unverified: {', '.join(self.answer.unverified)}" if self.answer.unverified else ""
        return f"Replayed: {same}{marks}." if checked.allocations else "As the file ends."

    def _paint_of(self, number: int) -> Paint:
        return self._paints[self._labels[number]] if number < len(self._labels) else self._paints[0]

    def _text_of(self, number: int) -> str:
        size = bytes_text(self.answer.requested_bytes(number))
        return f"{size}, {self.answer.allocation_text(number)}"

    def _picked(self, number: int) -> None:
        if number < len(self.scope.run.allocations):
            self.scope.look(allocation=number)

    def _fill_if_seen(self) -> None:
        if self.scope.is_open and self.isVisible():
            self.fill()

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.grouping != new.grouping:
            self.set_theme(self.theme)
        if old.cursor != new.cursor or old.allocation != new.allocation:
            self._later.start()


def _replayed(answer: Answer, job: Job) -> History:
    """The replay, with what is said of it worked out too."""
    return History(answer.prepare(lambda done: job.progress(done, _REPLAYING)))
