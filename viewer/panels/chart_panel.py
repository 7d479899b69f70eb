"""The timeline with its controls: what cuts the bands, which axis, what the cursor stands on."""

from __future__ import annotations

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from ..charts.keys import stepped
from ..charts.theme import Theme, current
from ..charts.timeline import Timeline
from ..look.words import WHAT_IF
from ..model.axes import available_axes
from ..model.grouping import GROUPINGS, available
from ..state.scope import Scope
from ..state.view_state import RunView

_SPACING = 6


class ChartPanel(QWidget):
    """Combo boxes offer what the run can have, and nothing else."""

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scope = scope
        self.timeline = Timeline(scope, self)
        titles = {key: GROUPINGS[key].title for key in available(scope.run)}
        self.group = self._combo("What cuts the bands", titles, "grouping")
        self.axis = self._combo("X axis", {k: spec.title for k, spec in available_axes(scope.run).items()}, "axis")
        self.words: list[QLabel] = []
        self.key = QLabel(self)
        self.key.setObjectName("caption")
        self.key.setProperty("rich", True)
        self.peak = self._button("Peak", "Move the cursor to the peak (P)", self._to_peak)
        self.fit = self._button("Whole step", "Show the whole step (0)", lambda: scope.look(visible=None))
        self._lay_out()
        self.theme: Theme = current()  # the timeline made itself in it
        self._show()
        scope.changed.connect(lambda old, new: self._show())

    def _combo(self, name: str, titles: dict[str, str], field: str) -> QComboBox:
        combo = QComboBox(self)
        combo.setAccessibleName(name)
        for key, title in titles.items():
            combo.addItem(title, key)
        combo.activated.connect(lambda row: self._chosen(field, combo.itemData(row)))
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        return combo

    def _chosen(self, field: str, key: str) -> None:
        change = {field: key, "query": None} if field == "grouping" else {field: key}
        self.scope.look((field,), **change)  # boxes are gone through with the arrows

    def _button(self, text: str, hint: str, act: object) -> QToolButton:
        button = QToolButton(self)
        button.setText(text)
        button.setToolTip(hint)
        button.setAccessibleName(hint)
        button.clicked.connect(act)
        return button

    def _to_peak(self) -> None:
        self.scope.look(**stepped(self.scope, self.scope.run.peak_position - self.scope.view.cursor))

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 3, 8, 1)
        bar.setSpacing(_SPACING)
        for word, combo in (("Bands by", self.group), ("along", self.axis)):
            label = QLabel(word, self)
            label.setBuddy(combo)
            self.words.append(label)
            bar.addWidget(label)
            bar.addWidget(combo)
        bar.addWidget(self.peak)
        bar.addWidget(self.fit)
        bar.addStretch(1)
        bar.addWidget(self.key)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(bar)
        layout.addWidget(self.timeline, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_bar()

    def _fit_bar(self) -> None:
        """In a narrow bar the words before the boxes go first, then the key of the lines."""
        room = self.width() - 16 - sum(_needed(part) for part in (self.group, self.axis, self.peak, self.fit))
        words, key = sum(_needed(word) for word in self.words), _needed(self.key)
        for word in self.words:
            word.setVisible(room >= words + key)
        self.key.setVisible(room >= key)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.timeline.set_theme(theme)
        self.theme = theme
        self._show_key()

    def _show_key(self) -> None:
        """What the lines over the bands are."""
        theme, lines = self.theme, []
        if self.timeline.predicted is not None:
            lines.append(f'<span style="color:{theme.text}"><b>┅</b></span> prediction')
        if self.scope.run.reserved is not None:
            lines.append(f'<span style="color:{theme.faint}"><b>━</b></span> reserved')
        if self.scope.view.filter:
            lines.append(f'<span style="color:{theme.accent}"><b>━</b></span> matching')
        if self.scope.view.plan is not None:
            lines.append(f'<span style="color:{theme.accent}"><b>••</b></span> {WHAT_IF}')
        self.key.setText(" &nbsp; ".join(lines))
        self._fit_bar()

    def _show(self) -> None:
        self._show_key()
        view: RunView = self.scope.view
        self.group.setCurrentIndex(self.group.findData(view.grouping))
        self.axis.setCurrentIndex(self.axis.findData(view.axis))


def _needed(widget: QWidget) -> int:
    """Pixels across, with the space beside it."""
    return widget.sizeHint().width() + _SPACING
