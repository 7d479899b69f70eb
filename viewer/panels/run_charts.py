"""What keeps the groups and the lanes, which are docks, together with the timeline in the middle."""

from __future__ import annotations

from PySide6.QtCore import QObject, QPoint, QTimer, Signal
from PySide6.QtWidgets import QWidget

from ..model.run import Run
from .dock_host import DockHost
from .lanes import LEAST_NAMES, OUTER_ROW
from .slots import Views

LOW = 800  # pixels of the page's height below which the lanes start folded
COMPANIONS = ("legend", "lanes")
_BAR, _HEADER = 33, 30  # pixels over the lanes
_LEAST, _NO_LIMIT = 60, 16777215  # Qt's largest size of a widget


class RunCharts(QObject):
    """The lanes lie exactly under or over the plot as long as they are in one column with it. Where they stand beside
    it or in a window they use all their width, and show the same range of time."""

    fold_chosen = Signal(bool)
    """The user folded the lanes, or unfolded them."""

    def __init__(self, run: Run, views: Views, docks: DockHost) -> None:
        super().__init__(docks)
        self.run, self.views, self.docks, self.folded = run, views, docks, False
        self.fold_is_chosen = False
        """Whether it was the user who folded the lanes or unfolded them, and not the height of the page."""
        docks.companions = {key for key in COMPANIONS if key in views}
        docks.rows = {"lanes": lambda: self.lanes_height}
        docks.changed.connect(self._rearranged)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self._align)

    @property
    def lanes_height(self) -> int:
        """Pixels that the lanes need as they are, folded or not; 0 where there are none."""
        if "lanes" not in self.views:
            return 0
        rows = len(self.run.layers.super_blocks) + 1  # what is outside layers has a row too
        return self._bar if self.folded else self._bar + _HEADER + OUTER_ROW * rows

    @property
    def _bar(self) -> int:
        """Pixels of the line over the lanes."""
        made = self.views.made.get("lanes")
        return _BAR if made is None else made.title_line.sizeHint().height()  # type: ignore[attr-defined]

    def made(self, key: str, view: QWidget) -> None:
        """One of the views is there now."""
        if key == "timeline":
            view.timeline.moved.connect(self.align)  # type: ignore[attr-defined]
        elif key == "lanes":
            view.folded.connect(self._fold_chosen)  # type: ignore[attr-defined]
            view.tree.resized.connect(self.align)  # type: ignore[attr-defined]
            self._fold()
        if key in ("timeline", *COMPANIONS):
            self.align()

    def set_folded(self, folded: bool) -> None:
        """Only the bar of the lanes, or the lanes too."""
        self.folded = folded
        self._fold()

    @property
    def is_foldable(self) -> bool:
        """Whether folded lanes give room to anybody: not to tabs behind them, nor to what stands beside them, nor in a
        window of their own."""
        return self.docks.fills_row("lanes") and (self._is_level or not self.docks.is_alone("lanes"))

    @property
    def _is_level(self) -> bool:
        return self.docks.area("lanes") in ("top", "bottom")

    def _fold(self) -> None:
        if "lanes" not in self.views:
            return
        foldable, slot = self.is_foldable, self.views.slots["lanes"]
        folded, before = self.folded and foldable, slot.maximumHeight() == 0
        slot.setMinimumHeight(0 if folded else _LEAST)
        slot.setMaximumHeight(0 if folded else _NO_LIMIT)
        dock = self.docks.docks["lanes"]
        if folded and not before:
            self.docks.give_height("lanes", self._bar)  # else what is under them would get the rest, not the timeline
        elif before and not folded and dock.isFloating():
            dock.layout().activate()  # type: ignore[union-attr]  # it holds the window to the height of the line
            dock.resize(dock.width(), max(dock.height(), self._bar + _HEADER + 4 * OUTER_ROW))
        if "lanes" in self.views.made:
            self.views["lanes"].set_folded(folded)  # type: ignore[attr-defined]
            self.views["lanes"].set_foldable(foldable)  # type: ignore[attr-defined]

    def _fold_chosen(self, folded: bool) -> None:
        """Unfolded lanes get the room that they need, but not most of what the timeline has."""
        if folded == self.folded:
            return
        self.fold_is_chosen = True
        self.set_folded(folded)
        if not folded:
            room = self.views.slots["timeline"].height() + self._bar
            self.docks.give_height("lanes", min(self.lanes_height, room * 45 // 100))
        self.fold_chosen.emit(folded)

    def _rearranged(self) -> None:
        self._fold()
        self.align()

    def align(self) -> None:
        """Put the lanes exactly under the plot: now, and again once what moves it has come to rest."""
        self._align()
        self._later.start()

    def _align(self) -> None:
        lanes, chart = (self.views.made.get(key) for key in ("lanes", "timeline"))
        if lanes is None or chart is None:
            return
        tree, timeline = lanes.tree, chart.timeline  # type: ignore[attr-defined]
        shift = tree.viewport().mapFromGlobal(timeline.viewport().mapToGlobal(QPoint(0, 0))).x()
        left, right = (edge + shift for edge in timeline.plot_span)
        if self._is_level and left >= LEAST_NAMES and right <= tree.viewport().width():
            tree.set_span((left, right))
        else:
            tree.use_own_width()

    def share(self, lanes_height: int) -> None:
        """Room for each as at the start; `lanes_height` in pixels."""
        width = self.docks.width()
        if "legend" in self.views:
            self.docks.give_widths({"legend": max(min(width * 24 // 100, 380), 336)})  # names of frames are long
        if lanes_height:
            self.docks.give_height("lanes", lanes_height)
