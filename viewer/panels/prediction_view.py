"""What shapes say against what was measured, layer by layer, and what the difference is made of."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from ..analysis.headline import why_no_prediction
from ..analysis.residual import Residual
from ..charts.theme import Theme, current
from ..look.units import bytes_text, difference_text, exact_bytes_text
from ..look.words import OUTSIDE_LAYERS
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from ..state.finding_tables import item_columns, layer_columns, whole_text
from ..state.scope import Scope
from ..state.tab_facts import residual_of
from .caption import Caption, wrap_where_high
from .delegates import DifferenceDelegate
from .link_table import LinkTable
from .whole_step import put_whole_step_note

_LAYER_WIDTHS = {"measured": 9, "shapes say": 10, "difference": 10, "super-block": 11, "device time": 11}
_SPARE = ("super-block", "kind", "device time", "shapes say")
"""Columns that go where there is too little room, in this order: of the last the difference tells as well."""
_KIND, _ITEM, _BYTES = 17, 18, 10
"""Characters that a layer's kind, the name of an item and its bytes have at least."""
_LONGEST = 22  # characters of a layer's path before it is cut short


class PredictionPanel(QWidget):
    """Layers on the left, items of the residual on the right; rows lead to their allocations at the activation peak."""

    followed = Signal(object)

    def __init__(self, scope: Scope, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        run = scope.run
        self.missed: Residual | None = run.once(residual_of)
        self.caption = Caption(self)
        self.caption.setText(_said(run, self.missed))
        self.caption.setToolTip(_exact(self.missed))
        self.layers, self.items = LinkTable("Layers", self), LinkTable("Residual", self)
        self.whole = Caption(self)
        self._fill(run)
        self._lay_out()
        put_whole_step_note(self, scope)
        self.set_theme(current())

    def _fill(self, run: Run) -> None:
        position = self.missed.position if self.missed is not None else int(run.activation_curve.argmax())
        columns = run.once(layer_columns)
        queries = [
            AllocationQuery(position=position, categories=ACTIVATIONS, layer=layer)
            for layer in (*range(len(run.layers)), -1)
        ]
        self.layers.show_links(columns, queries)
        titles = [column.title for column in columns]
        shared = tuple(i for i, title in enumerate(titles) if title == "kind")
        longest = max((len(label) for label in (*run.layers.labels, OUTSIDE_LAYERS)), default=0)
        widths = _LAYER_WIDTHS | {"layer": min(longest, _LONGEST)}
        self.layers.setTextElideMode(Qt.TextElideMode.ElideMiddle)  # kinds differ at their end
        spare = tuple(titles.index(title) for title in _SPARE if title in titles)
        counts = (widths.get(title, 24) for title in titles)
        self.layers.set_widths(*counts, shared=shared, least=dict.fromkeys(shared, _KIND), spare=spare)
        items = self.missed.items if self.missed is not None else ()
        self.items.set_delegate(DifferenceDelegate(self.items))
        self.items.show_links(item_columns(items), [item.query for item in items])
        self.items.set_widths(34, 16, 6, shared=(0, 1), least={0: _ITEM, 1: _BYTES}, spare=(2,))
        for table in (self.layers, self.items):
            table.followed.connect(self.followed)
        self.items.picked.connect(self._show_whole)
        self._show_whole(0 if items else -1)

    def _show_whole(self, row: int) -> None:
        """The current item in plain words."""
        item = self.missed.items[row] if self.missed is not None and row >= 0 else None
        self.whole.setVisible(item is not None)
        self.whole.setText("" if item is None else whole_text(item))
        self.whole.setToolTip("" if item is None else exact_bytes_text(item.bytes))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wrap_where_high(self, self.caption, self.whole)

    def _lay_out(self) -> None:
        self.caption.setWordWrap(True)
        self.caption.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.whole.setObjectName("where")
        self.whole.setWordWrap(True)
        self.whole.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        across = QSplitter(Qt.Orientation.Horizontal, self)
        across.setChildrenCollapsible(False)
        across.addWidget(self.layers)
        across.addWidget(self.items)
        across.setSizes([560, 440])  # shares; the splitter has no width yet
        self.items.setVisible(self.missed is not None)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.caption)
        layout.addWidget(across, 1)
        layout.addWidget(self.whole)

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        for table in (self.layers, self.items):
            table.painter_of_cells.theme = theme


def _exact(missed: Residual | None) -> str:
    if missed is None:
        return ""
    measured, predicted = exact_bytes_text(missed.measured_bytes), exact_bytes_text(missed.predicted_bytes)
    return f"activations up to {measured}, shapes say {predicted}"


def _said(run: Run, missed: Residual | None) -> str:
    if missed is None:
        return why_no_prediction(run)
    estimates = "".join(f" Estimate: {text}" for text in run.recording.meta.estimates)
    return (
        f"Activations up to {bytes_text(missed.measured_bytes)}, shapes say {bytes_text(missed.predicted_bytes)}:"
        f" {difference_text(missed.bytes)}, itemised on the right. Measured here: what each layer saved."
        f"{estimates}"
    )
