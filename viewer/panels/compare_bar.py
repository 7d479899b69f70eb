"""Over the curves of a comparison: which two runs, in which colours, and along which axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QLabel, QToolButton, QWidget

from ..analysis.common_axes import common_axes
from ..charts.pair_item import run_paints
from ..charts.theme import Theme
from ..model.run import Run
from ..state.session import Session
from .caption import Caption

Pair = tuple[Run, Run]
_NOWHERE: dict[str, object] = {"slot": None, "common_visible": None}
"""On another axis no place is the same."""
_MUCH = 4
"""Runs whose peaks are this much higher would leave no height for the two."""


class CompareBar(QWidget):
    """With more than two runs open a box for each side chooses among them; else their names stand there."""

    def __init__(self, session: Session, pair: Pair, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.session, self.pair = session, pair
        self.swatches = [QLabel(self), QLabel(self)]
        for swatch in self.swatches:
            swatch.setProperty("rich", True)
        self.sides = [self._side(number) for number in (0, 1)]
        self.names = [_name(run, other, self) for run, other in (pair, pair[::-1])]
        self.swap = QToolButton(self)
        self.swap.setText("⇄")
        self.swap.setToolTip("Exchange the two runs: before becomes after")
        self.swap.setAccessibleName(self.swap.toolTip())
        self.swap.clicked.connect(lambda: self._choose(pair[1], pair[0]))
        offered = {key: axis.title for key, axis in common_axes(*pair).items()}
        self.along = QLabel("along", self)
        self.axis = combo("X axis of both runs", offered, self, self._axis_chosen)
        self.whole = QToolButton(self)
        self.whole.setText("Whole step")
        self.whole.setToolTip("Show the whole of both runs (0)")
        self.whole.setAccessibleName(self.whole.toolTip())
        self.whole.clicked.connect(lambda: self._set(common_visible=None))
        self.others = QCheckBox("and the other runs", self)
        self.others.setToolTip("Draw the curves of all open runs on this axis")
        highest = max(run.peak_bytes for run in pair)
        self.others.setChecked(all(run.peak_bytes <= _MUCH * highest for run in session.state.runs))
        self._lay_out()
        self.show_runs(session.state.runs)

    def _lay_out(self) -> None:
        line = QHBoxLayout(self)
        line.setContentsMargins(12, 3, 8, 1)
        line.setSpacing(6)
        for swatch, side, name in zip(self.swatches, self.sides, self.names):
            for widget in (swatch, side, name):
                line.addWidget(widget)
        line.addWidget(self.swap)
        line.addWidget(self.others)
        line.addStretch(1)
        line.addWidget(self.along)
        line.addWidget(self.axis)
        line.addWidget(self.whole)
        for widget in (self.along, self.axis):
            widget.setVisible(self.axis.count() > 1)
        self.whole.setVisible(self.axis.count() > 0)

    def _side(self, number: int) -> QComboBox:
        box = QComboBox(self)
        box.setAccessibleName(("Run before", "Run after")[number])
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(18)
        box.activated.connect(lambda row: self._side_chosen(number, row))
        return box

    def show_runs(self, runs: tuple[Run, ...]) -> None:
        """Offer these runs."""
        several = len(runs) > 2
        self.others.setVisible(several)
        for number, (box, name) in enumerate(zip(self.sides, self.names)):
            box.setVisible(several)
            name.setVisible(not several)
            box.clear()
            box.addItems([run.name for run in runs])
            if self.pair[number] in runs:
                box.setCurrentIndex(runs.index(self.pair[number]))

    def _side_chosen(self, number: int, row: int) -> None:
        """A run that stands on the other side already changes places with this one."""
        wanted = list(self.pair)
        run = self.session.state.runs[row]
        if run is wanted[1 - number]:
            wanted[1 - number] = wanted[number]
        wanted[number] = run
        self._choose(wanted[0], wanted[1])
        for bar in self.window().findChildren(CompareBar):  # of the page that took this one's place
            if bar.pair == tuple(wanted):
                bar.sides[number].setFocus()

    def _choose(self, a: Run, b: Run) -> None:
        if (a, b) != self.pair:
            self._set(pair=(a, b), **_NOWHERE)

    def _axis_chosen(self, key: str) -> None:
        state = replace(self.session.state, common_axis=key, slot=None, common_visible=None)
        self.session.set(state, ("axis",))  # the box is gone through with the arrows

    def _set(self, **changes: object) -> None:
        self.session.set(replace(self.session.state, **changes))  # type: ignore[arg-type]

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        for side, swatch, paint in zip("AB", self.swatches, run_paints(theme)):
            swatch.setText(f'<span style="color:{theme.text}">{side}</span> <span style="color:{paint.fill}">█</span>')


def _name(run: Run, other: Run, parent: QWidget) -> Caption:
    made = Caption(parent, Qt.TextElideMode.ElideMiddle)
    made.apart = (other.name,)
    made.setObjectName("")
    made.setText(run.name)
    return made


def combo(name: str, titles: dict[str, str], parent: QWidget, chosen: Callable[[str], None]) -> QComboBox:
    """A box that says `chosen(key)` when the user takes one of these titles."""
    box = QComboBox(parent)
    box.setAccessibleName(name)
    for key, title in titles.items():
        box.addItem(title, key)
    box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
    box.activated.connect(lambda row: chosen(box.itemData(row)))
    return box
