"""What has to stand together: the groups beside the timeline, and the lanes under it on the same x axis."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtWidgets import QSplitter, QWidget

from ..model.run import Run
from .lanes import OUTER_ROW
from .slots import Views

LOW = 800  # pixels of the page's height below which the lanes start folded
_BAR, _HEADER = 36, 30  # pixels over the lanes
_NO_LIMIT = 16777215  # Qt's largest size of a widget


class RunCharts(QSplitter):
    """Timeline, groups and lanes, each in its slot; the lanes are kept under the plot."""

    fold_chosen = Signal(bool)
    """The user folded the lanes, or unfolded them."""

    def __init__(self, run: Run, views: Views, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Vertical, parent)
        self.run, self.views, self.folded = run, views, False
        self.across = QSplitter(Qt.Orientation.Horizontal, self)
        for key in ("legend", "timeline"):
            self.across.addWidget(views.slots[key])
        self.across.setStretchFactor(1, 1)
        self.across.splitterMoved.connect(lambda *_: self.align())
        self.addWidget(self.across)
        if "lanes" in views:
            self.addWidget(views.slots["lanes"])
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self._align)
        for splitter in (self, self.across):
            splitter.setChildrenCollapsible(False)
        self.setStretchFactor(0, 1)

    @property
    def lanes_height(self) -> int:
        """Pixels that the lanes need as they are, folded or not; 0 where there are none."""
        if "lanes" not in self.views:
            return 0
        rows = len(self.run.layers.super_blocks) + 1  # what is outside layers has a row too
        return _BAR if self.folded else _BAR + _HEADER + OUTER_ROW * rows

    def made(self, key: str, view: QWidget) -> None:
        """One of the views is there now."""
        if key == "timeline":
            view.timeline.moved.connect(self.align)  # type: ignore[attr-defined]
        elif key == "lanes":
            view.set_folded(self.folded)  # type: ignore[attr-defined]
            view.folded.connect(self._fold_chosen)  # type: ignore[attr-defined]
        if key in ("timeline", "legend", "lanes"):
            self.align()

    def set_folded(self, folded: bool) -> None:
        """Only the bar of the lanes, or the lanes too."""
        self.folded = folded
        if "lanes" in self.views:
            self.views.slots["lanes"].setMaximumHeight(_BAR if folded else _NO_LIMIT)
        if "lanes" in self.views.made:
            self.views["lanes"].set_folded(folded)  # type: ignore[attr-defined]

    def _fold_chosen(self, folded: bool) -> None:
        """Unfolded lanes get the room that they had or need."""
        if folded == self.folded:
            return
        self.set_folded(folded)
        lanes = min(self.lanes_height, self.height() * 45 // 100)
        self.setSizes([self.height() - lanes, lanes])
        self.fold_chosen.emit(folded)

    def align(self) -> None:
        """Put the lanes exactly under the plot: now, and again once what moves it has come to rest."""
        self._align()
        self._later.start()

    def _align(self) -> None:
        lanes, chart = (self.views.made.get(key) for key in ("lanes", "timeline"))
        if lanes is None or chart is None:
            return
        timeline, viewport = chart.timeline, lanes.tree.viewport()  # type: ignore[attr-defined]
        left, right = timeline.plot_span
        shift = viewport.mapFromGlobal(timeline.mapToGlobal(QPoint(0, 0))).x()
        lanes.tree.set_span((left + shift, right + shift))  # type: ignore[attr-defined]

    def share(self, lanes_height: int) -> None:
        """Room for each as at the start; `lanes_height` in pixels."""
        width = self.width()
        legend = max(min(width * 24 // 100, 380), 336)  # names of frames are long
        self.across.setSizes([legend, width - legend])
        if lanes_height:
            self.setSizes([self.height() - lanes_height, lanes_height])
