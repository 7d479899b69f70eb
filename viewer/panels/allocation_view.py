"""Every allocation as a picture, with a choice of layout and room to look at it."""

from __future__ import annotations

from functools import cached_property

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from ..charts.allocation_address import AddressPainter
from ..charts.allocation_chart import LAYOUTS, AllocationChart, Painter, painter_of
from ..charts.theme import Theme
from ..look.units import bytes_text, count_text, exact_bytes_text
from ..model.said import Said
from ..state.ahead import MANY
from ..state.jobs import Job
from ..state.scope import Scope
from ..state.selection import describe
from ..state.view_state import RunView
from ..state.within import limit_query, limit_text, picture_query
from .caption import Caption
from .dock_host import DockHost
from .work_line import WorkLine

_PLACING = "Placing allocations"
_HELP = "Drag pans, the wheel zooms; with Ctrl it zooms the height (0 shows everything). A click selects."


class AllocationPanel(QWidget):
    """Lays out what is looked at when it is first seen."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.work = WorkLine(self)
        self.choice = QComboBox(self)
        self.caption, self.notice = Caption(self), QLabel(self)
        self.large = QToolButton(self)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(40)
        self._later.timeout.connect(self._say_if_open)
        self._lay_out()
        scope.changed.connect(self._view_changed)

    def _lay_out(self) -> None:
        for key, title in LAYOUTS.items():
            self.choice.addItem(title, key)
        self.choice.setAccessibleName("Layout of the allocations")
        self.choice.activated.connect(lambda row: self.show_layout(self.choice.itemData(row)))
        self.caption.setToolTip(_HELP)
        self.notice.setObjectName("notice")
        self.notice.setWordWrap(True)
        self.notice.hide()
        self.large.setText("Enlarge")
        self.large.setToolTip("Give this picture the place of the charts above")
        self.large.setAccessibleName(self.large.toolTip())
        self.large.setCheckable(True)
        self.large.toggled.connect(self._enlarge)
        line = QHBoxLayout()
        line.setContentsMargins(8, 3, 8, 3)
        line.addWidget(self.choice)
        line.addWidget(self.caption, 1)
        line.addWidget(self.large)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(line)
        layout.addWidget(self.work)
        layout.addWidget(self.notice)

    @cached_property
    def chart(self) -> AllocationChart:
        """The picture, made when it is first looked at."""
        made = AllocationChart(self.scope, self)
        made.wanted.connect(self._make)
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.addWidget(made, 1)
        return made

    def showEvent(self, event: object) -> None:
        self.chart.show()
        super().showEvent(event)  # type: ignore[arg-type]

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        if "chart" in self.__dict__:
            self.chart.set_theme(theme)

    def show_layout(self, key: str) -> None:
        """Stacked or by address."""
        self.choice.setCurrentIndex(self.choice.findData(key))
        self.chart.show_layout(key)
        self._say()

    def _make(self) -> None:
        run, axis, key = self.scope.run, self.scope.axis, self.chart.layout_key
        if len(run.allocations) <= MANY:
            self._made(painter_of(run, axis, key))
            return
        self.caption.clear()
        self.work.begin(_PLACING, lambda job: painter_of(run, axis, key, _told(job)), self._made)

    def _made(self, painter: Painter) -> None:
        self.chart.show_painter(painter)
        self._say()

    def _say_if_open(self) -> None:
        if self.scope.is_open:
            self._say()

    def _say(self) -> None:
        painter, a = self.chart.painter, self.scope.run.allocations
        self.notice.hide()
        self.chart.show()
        if isinstance(painter, AddressPainter):
            self._say_addresses(painter)
        elif painter is not None:
            how = "each lies on those alive when it was made, and slides down when one below is freed"
            self.caption.setText(f"{count_text(len(a), 'allocation')}{self._matching()}: {how}")

    def _say_addresses(self, painter: AddressPainter) -> None:
        layout, drawn = painter.layout, len(painter.index)
        stretches = count_text(len(layout.address), "stretch", "stretches")
        addresses = bytes_text(int(layout.bytes.sum()))
        said = f"{count_text(drawn, 'allocation')}{self._matching()} in {addresses} of addresses, {stretches}"
        said += ", empty ones between them closed up" if len(layout.address) > 1 else ""
        if len(layout.ranges):
            said += "; grey is reserved and free" + (", blue in a private pool" if layout.ranges.private.any() else "")
        left = len(self.scope.run.allocations) - drawn
        said += f"; {count_text(left)} without an address are left out" if left and drawn else ""
        self.caption.setText(said)
        if not drawn:
            self.caption.setText("")
            self.notice.setText(
                "The file gives no address for any allocation of this device. Choose the stacked layout."
            )
            self.notice.show()
            self.chart.hide()

    def _matching(self) -> str:
        """`, 210 of them (12.0 MiB) matching "mlp" in colour`; empty where nothing is restricted."""
        query, run = picture_query(self.scope.view), self.scope.run
        self.caption.setToolTip(_HELP)
        if query is None:
            return ""
        matches = query.mask(run)
        size = int(run.allocations.bytes[matches].sum())
        self.caption.setToolTip(f"{exact_bytes_text(size)} in colour. {_HELP}")
        limit = limit_text(self.scope.view)
        of = describe(run, self.scope.view.query)
        what = " ".join(filter(None, (f"of {of}" if of else "", limit)))
        return f", {count_text(int(matches.sum()))} of them ({bytes_text(size)}) {what} in colour"

    def _view_changed(self, old: RunView, new: RunView) -> None:
        if (limit_query(old), old.query) != (limit_query(new), new.query) and "chart" in vars(self):
            self._later.start()

    def _enlarge(self, on: bool) -> None:
        """Take the room of the charts in the page, or give it back."""
        page = self.parentWidget()
        while page is not None and not isinstance(page, DockHost):
            page = page.parentWidget()
        if page is not None:
            page.give_room(on)

    def hideEvent(self, event: object) -> None:
        super().hideEvent(event)  # type: ignore[arg-type]
        if self.scope.is_open and not self.isVisibleTo(self.window()):
            self.large.setChecked(False)  # another tab was chosen: it has no use for the room


def _told(job: Job) -> Said:
    return lambda done: job.progress(done, _PLACING)
