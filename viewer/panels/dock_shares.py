"""How the docks share the room of their host, and how they share it again once it is larger or smaller.

Qt leaves docks as they are and gives what is added to the middle: where a page is laid out small, as before its window
is shown, no table would have a row to show.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, QTimer

if TYPE_CHECKING:
    from .dock_host import DockHost

_WHOLE = 10_000


class DockShares(QObject):
    """`again` does once more what shared the room last: the page, until the user has moved something."""

    def __init__(self, host: DockHost) -> None:
        super().__init__(host)
        self.host = host
        self.again: Callable[[], None] | None = None
        self.prepare: Callable[[], None] = lambda: None
        """What has to be decided by the size before the room is shared again."""
        self._touched = self._resized = self._given = False
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(0)
        self._later.timeout.connect(self._fit)
        host.installEventFilter(self)
        host.changed.connect(self._rested)

    def touch(self, *_: object) -> None:
        """The user has moved something: what there is then is what is kept."""
        self._touched = True

    def shared_by(self, again: Callable[[], None]) -> None:
        """The room was shared just now, and would be shared so again."""
        self.again, self._touched, self._given = again, False, False

    @property
    def is_chosen(self) -> bool:
        """Whether it is the user who has moved something, here or on the page that the shares are from."""
        return self._touched or self._given

    def now(self) -> dict[str, int]:
        """What docks that can be seen have of the width and the height of all, in parts of 10,000."""
        width, height, found = max(self.host.width(), 1), max(self.host.height(), 1), {}
        for key, dock in self.host.docks.items():
            if dock.slot.is_seen and not dock.isFloating():
                found[f"{key} across"] = dock.width() * _WHOLE // width
                found[f"{key} down"] = self.host.height_of(dock) * _WHOLE // height
        return found

    def give(self, shares: dict[str, int]) -> None:
        """Give the docks such shares of what there is now."""
        host = self.host
        ways = (("across", Qt.Orientation.Horizontal, host.width()), ("down", Qt.Orientation.Vertical, host.height()))
        for area in ("bottom", "left", "right", "top"):
            for name, way, whole in ways:
                docks = [dock for key, dock in host.docks.items() if f"{key} {name}" in shares and not dock.isHidden()]
                docks = [dock for dock in docks if host.area(dock.key) == area and dock.slot.maximumHeight()]
                host.resizeDocks(docks, [shares[f"{dock.key} {name}"] * whole // _WHOLE + 1 for dock in docks], way)
        self.shared_by(partial(self.give, shares))
        self._given = True

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.host and event.type() == QEvent.Type.Resize:
            self._resized = True
            self._later.start()
        elif watched is self.host and event.type() == QEvent.Type.MouseButtonPress:
            self.touch()  # what lies between the docks is the host's own, and is there to be dragged
        return False

    def _rested(self) -> None:
        if self._touched and not self._resized:
            self.again = partial(self.give, self.now())

    def _fit(self) -> None:
        self._resized = False
        if self.again is not None:
            self.prepare()
            self.again()
