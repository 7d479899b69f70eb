"""The allocator's memory at the cursor: which ranges are reserved, what lies in them, and how sure the replay is."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QLabel, QScrollArea, QVBoxLayout, QWidget

from ..analysis.allocator.answer import Answer
from ..analysis.allocator.history import History, Layout
from ..charts.allocator_map import AllocatorMap
from ..charts.theme import Theme, current
from ..look.units import bytes_text, count_text, exact_bytes_text, percent_text
from ..model.paints import Paint, group_paints
from ..state.jobs import Job
from ..state.pointed import NOTHING, Pointed
from ..state.scope import Scope
from ..state.selection import describe
from ..state.view_state import RunView
from ..state.within import limit_text, picture_query
from .colour_key import ColourKey
from .work_line import WorkLine

_REPLAYING = "Replaying the allocator"
_ENDS = "As the file ends: it has no event history, so there is nothing to replay."


class AllocatorPanel(QWidget):
    """Replays the run in a job when it is first seen, then follows the cursor. Where the rules of the replay do not
    apply it shows the memory as the file ends."""

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
        self.map = AllocatorMap(self._paint_of, self._text_of, self.answer.kind_text)
        self.map.picked.connect(self._picked)
        self.map.pointed.connect(self._pointed)
        self.key = ColourKey(scope, self)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setAccessibleName("Allocator segments and their blocks")
        area.setWidget(self.map)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.work)
        layout.addWidget(self.caption)
        layout.addWidget(self.key)
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
        self.key.set_theme(theme)

    def showEvent(self, event: object) -> None:
        super().showEvent(event)  # type: ignore[arg-type]
        self.fill()

    def fill(self) -> None:
        """Show the memory at the cursor now."""
        self._later.stop()
        if self.answer.refusal:
            self._show_end(self.answer.refusal)
        elif self.history is None:
            self._replay()
        else:
            self._show(self.history.at(self.scope.view.cursor), self._trust())

    def _show_end(self, why: str) -> None:
        """As the file ends, and why not at the cursor."""
        layout = self.answer.recorded_end
        self.key.setVisible(layout is not None)
        if layout is None:
            self.caption.setText(why)
            return
        followed = " The map does not follow the cursor." if "timeline" in self.scope.run.capabilities else ""
        self._show(layout, f"As recorded at the end of the file. {why}{followed}")

    def _show(self, layout: Layout, trust: str) -> None:
        query = picture_query(self.scope.view)
        matches = None if query is None else query.mask(self.scope.run)
        self.map.show_layout(layout, self.scope.view.allocation, matches)
        self.key.show_sizes(layout.number, layout.block_bytes)
        total, used = layout.reserved_bytes, int(layout.block_bytes.sum())
        share = f" ({percent_text(1 - used / total)})" if total else ""
        free = f"{bytes_text(total - used)} free, empty in the map{share}"
        exact = f"{exact_bytes_text(total)} reserved, {exact_bytes_text(total - used)} free"
        said = f"{bytes_text(total)} reserved in {count_text(len(layout.bytes), 'range')}, {free}."
        if query is not None:
            size = sum(n for number, n in self._blocks(layout) if not self.map.is_dim(number))
            said += f" In full colour: {bytes_text(size)} in blocks{self._what()}."
            exact += f", {exact_bytes_text(size)} in blocks in full colour"
        self.caption.setToolTip(exact)
        self.caption.setText(f"{said} {trust}")

    @staticmethod
    def _blocks(layout: Layout) -> Iterator[tuple[int, int]]:
        """(allocation, bytes) of each block."""
        return zip(layout.number.tolist(), layout.block_bytes.tolist())

    def _what(self) -> str:
        """` of activations matching "mlp", alive anywhere from mark to cursor`."""
        view = self.scope.view
        of, limit = describe(self.scope.run, view.query), limit_text(view)
        return f" of {of}" * bool(of) + f" {limit}" * bool(limit)

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
        return f"Replayed: {same}{marks}." if checked.allocations else _ENDS

    def _paint_of(self, number: int) -> Paint:
        return self._paints[self._labels[number]] if number < len(self._labels) else self._paints[0]

    def _text_of(self, number: int) -> str:
        if number >= len(self.scope.run.allocations) and self.history is None:
            return "A block that no event and no stack of the file tells of"
        size = self.answer.requested_bytes(number)
        return f"{bytes_text(size)} ({exact_bytes_text(size)}), {self.answer.allocation_text(number)}"

    def _picked(self, number: int) -> None:
        if number < len(self.scope.run.allocations):
            self.scope.look(allocation=number)

    def _pointed(self, number: int) -> None:
        known = 0 <= number < len(self.scope.run.allocations)
        self.scope.point(Pointed(allocation=number) if known else NOTHING)

    def _fill_if_seen(self) -> None:
        if self.scope.is_open and self.isVisible():
            self.fill()

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if old.grouping != new.grouping:
            self.set_theme(self.theme)
            self._later.start()
        if picture_query(old) != picture_query(new) or old.cursor != new.cursor or old.allocation != new.allocation:
            self._later.start()


def _replayed(answer: Answer, job: Job) -> History:
    """The replay, with what is said of it worked out too."""
    return History(answer.prepare(lambda done: job.progress(done, _REPLAYING)))
