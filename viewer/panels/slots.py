"""`Slot`: the place of a view, which is made when it is first seen or asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QScrollArea, QWidget

from .stages import Stages

LEAST = QSize(140, 60)
"""Pixels that a view has at least; what it would like to have does not keep the window large."""

_WANTED = QSize(400, 220)
"""What a dock gets that is dropped at a side."""


class Slot(QScrollArea):
    """Empty until `build`. What is in it is hidden while the slot is not to be seen, as behind another tab; where the
    slot is narrower than the view can be, it scrolls."""

    wanted = Signal()
    """It is seen, and empty."""
    built = Signal(QWidget)
    """The view was made just now."""

    def __init__(self, make: Callable[[], QWidget], least_width: int = 0) -> None:
        """With a least width in pixels the view never scrolls, and is squeezed where it has less than it needs."""
        super().__init__()
        self._make, self._least_width = make, least_width
        self.content: QWidget | None = None
        self.is_seen = True
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setObjectName("view")
        if least_width:
            self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
            self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def build(self) -> QWidget:
        """The view, made now unless it was before."""
        if self.content is None:
            self.content = self._make()
            self.viewport().hide()  # else `setWidget` shows it, and views begin their work when they are shown
            self.setWidget(self.content)
            self.content.setVisible(self.is_seen)
            self.viewport().show()
            self.content.setAutoFillBackground(False)
            self._fit(self.viewport().height())
            self.updateGeometry()
            self.built.emit(self.content)
        return self.content

    def build_in(self, stages: Stages) -> None:
        """Make the view in a step of its own if it can be seen by then, and paint it in the next one."""
        stages.add(self._build_if_seen)
        stages.add(lambda: self.setUpdatesEnabled(True))

    def _build_if_seen(self) -> None:
        if self.content is None and self.is_seen and self.isVisible():
            self.setUpdatesEnabled(False)
            self.build()

    def set_seen(self, seen: bool) -> None:
        """Whether nothing lies before the slot."""
        self.is_seen = seen
        if self.content is not None:
            self.content.setVisible(seen)
        elif seen:
            self.wanted.emit()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self.content is None and self.is_seen:
            self.wanted.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._fit(event.size().height())
        super().resizeEvent(event)

    def _fit(self, height: int) -> None:
        """The view is no higher than the slot, as tables scroll by themselves, and one that does not scroll no wider; a
        line of text that is cut is no reason to scroll."""
        if self.content is None:
            return
        if self._least_width:
            self.content.setMinimumSize(1, 1)
            return
        self.content.setMinimumHeight(LEAST.height())
        self.content.setMaximumHeight(max(height, LEAST.height()))
        for label in self.content.findChildren(QLabel):
            if not label.wordWrap():
                label.setMinimumWidth(1)

    def sizeHint(self) -> QSize:
        return _WANTED

    def minimumSizeHint(self) -> QSize:
        return QSize(max(self._least_width, LEAST.width()), LEAST.height())


class Views(Mapping[str, QWidget]):
    """The views of a page by key; asking for one makes it."""

    def __init__(self) -> None:
        self.slots: dict[str, Slot] = {}

    def __getitem__(self, key: str) -> QWidget:
        return self.slots[key].build()

    def __iter__(self) -> Iterator[str]:
        return iter(self.slots)

    def __len__(self) -> int:
        return len(self.slots)

    def __contains__(self, key: object) -> bool:
        return key in self.slots  # without making it

    @property
    def made(self) -> dict[str, QWidget]:
        """Those that were made so far."""
        return {key: slot.content for key, slot in self.slots.items() if slot.content is not None}
