"""What the pages with docks have in common: views made when they are first seen, and the room shared among them."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from .dock_host import DockHost
from .slots import Slot, Views
from .stages import Stages


class DockPage(QWidget):
    """Is made in steps; `views` makes each view when it is first seen or asked for."""

    made = Signal(str, QWidget)
    """(key, view): it was made just now."""
    laid_out = Signal()
    """All parts have their first sizes."""
    docks: DockHost

    def __init__(self, parent: QWidget | None) -> None:
        super().__init__(parent)
        self.looked_at = ""
        """Title of the view that had the focus, or was brought forward, last."""
        self.stages = Stages(self)
        self.views = Views()

    def put_docks(self, docks: DockHost) -> None:
        """Show the views in these, once the parts that were made before them are to be seen."""
        self.docks = docks
        self.stages.show_later(docks)
        self.stages.add(self.lay_out)

    def put_view(self, key: str, slot: Slot) -> Slot:
        """The place of a view, wherever on the page it is."""
        self.views.slots[key] = slot
        slot.built.connect(partial(self.view_made, key))
        slot.wanted.connect(lambda: slot.build_in(self.stages))
        return slot

    def view_made(self, key: str, view: QWidget) -> None:
        """Tie a view to the others."""
        raise NotImplementedError

    def bring_forward(self, key: str) -> QWidget:
        """Show a view before those that share its place, and give it."""
        if key in self.docks.docks:
            self.docks.bring_forward(key)
        return self.views[key]

    def lay_out(self) -> None:
        """First sizes; then the arrangement that the user left may change them."""
        self.share()
        self.docks.first = self.docks.saved()
        self.laid_out.emit()

    def share(self) -> None:
        """Share the room as at the start, and so again while the size changes and the user has moved nothing."""
        self.docks.settle()
        self.give_shares()
        self.docks.shares.shared_by(self.share)

    def give_shares(self) -> None:
        """Give each part its share of the room."""
        raise NotImplementedError
