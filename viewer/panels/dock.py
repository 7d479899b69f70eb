"""A dock: a view that stands at a side of its page, alone or among tabs, or in a window of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QEvent, QPoint, QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QDockWidget, QHBoxLayout, QToolButton, QWidget

from .caption import Caption
from .slots import Slot

_ENDING_MS = 250
_NARROW = 110  # pixels that a line of the view's own keeps beside the buttons
_LOW, _HIGH = 6, 13
"""Pixels that a title is higher than its words: at a side, and at the bottom, where it is as high as the tabs beside
it."""


class TitleBar(QWidget):
    """Name, and what can be done with the dock; of no height among tabs, where the tab is the title.

    A view with a line of its own over what it shows (`title_line`, and `put_line_back` to take it back) lends it in
    place of the name, so that there are not two. The bar leaves the mouse to the dock, which is dragged by it.
    """

    def __init__(self, dock: Dock) -> None:
        super().__init__(dock)
        self.dock, self.is_slim, self.is_low = dock, True, False
        self.buttons: list[QToolButton] = []
        self.view: Any = None
        """The view that lends its line."""
        self.setObjectName("dockTitle")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)

    def _fill(self) -> None:
        """Made when it is first to be seen: most docks are tabs."""
        dock, title = self.dock, self.dock.windowTitle()
        self.line = QHBoxLayout(self)
        self.line.setContentsMargins(0, 0, 4, 0)
        self.line.setSpacing(0)
        self.name = Caption(self)
        self.name.setObjectName("dockName")
        self.name.setText(title)
        self.line.addWidget(self.name, 1)
        self.buttons = [
            self._button("⋯", f"Where {title} stands", dock.ask_where),
            self._button("↗", f"{title} in a window of its own, or back", dock.switch_window),
            self._button("✕", f"Hide {title}", lambda: dock.hide_asked.emit(dock.key)),
        ]
        for button in self.buttons:
            self.line.addWidget(button)

    def _button(self, sign: str, hint: str, act: Callable[[], object]) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("close")
        button.setText(sign)
        button.setToolTip(hint)
        button.setAccessibleName(hint)
        button.clicked.connect(lambda: act())
        return button

    def borrow(self, view: Any) -> None:
        """Show the line that this view lends."""
        self.view = view
        if not self.is_slim:
            self._show_line()

    def _show_line(self) -> None:
        if self.view is not None:
            self.line.insertWidget(0, self.view.title_line, 1)
            self.view.title_line.show()
            self._fit()
            self.updateGeometry()

    def set_slim(self, slim: bool) -> None:
        """Whether it takes no room."""
        if slim == self.is_slim:
            return
        self.is_slim = slim
        if not slim and not self.buttons:
            self._fill()
        if slim and self.view is not None:
            self.view.put_line_back()
        elif not slim:
            self._show_line()
        self._fit()
        self.updateGeometry()

    def _fit(self) -> None:
        """Where it is narrow, what a double click and a right click do too leaves its room to the name."""
        if not self.buttons:
            return
        is_named = not self.is_slim and self.view is None
        self.name.setVisible(is_named)
        room = self.width() - (self.name.sizeHint().width() if is_named else _NARROW)
        for number, button in enumerate(reversed(self.buttons)):
            room -= button.sizeHint().width()
            button.setVisible(not self.is_slim and (number == 0 or room >= 0))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def set_low(self, low: bool) -> None:
        """Whether it is lower than a tab, as where no tabs are beside it."""
        if low != self.is_low:
            self.is_low = low
            self.updateGeometry()

    def sizeHint(self) -> QSize:
        if self.is_slim:
            return QSize(0, 0)
        if self.view is not None:
            return QSize(120, self.view.title_line.sizeHint().height())
        return QSize(120, self.fontMetrics().height() + (_LOW if self.is_low else _HIGH))

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())


class Dock(QDockWidget):
    """Hidden by its user it says `hide_asked`: whether a view is shown is the same on every page.

    A window of its own that is closed says so only after a while: where the program is being ended, its windows are
    closed one after the other, and what the user had open is to be open again.
    """

    hide_asked = Signal(str)
    where_asked = Signal(str, QPoint)
    """(key, point of the screen): the places are to be offered there."""

    def __init__(self, key: str, title: str, slot: Slot, parent: QWidget) -> None:
        super().__init__(title, parent)
        self.key, self.slot = key, slot
        self.setObjectName(key)
        self.setWidget(slot)
        slot.set_seen(False)
        self.title_bar = TitleBar(self)
        self.setTitleBarWidget(self.title_bar)
        slot.built.connect(self._built)
        self._closed = QTimer(self)
        self._closed.setSingleShot(True)
        self._closed.setInterval(_ENDING_MS)
        self._closed.timeout.connect(lambda: self.hide_asked.emit(key))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.title_bar.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.title_bar.customContextMenuRequested.connect(
            lambda place: self.where_asked.emit(key, self.title_bar.mapToGlobal(place))
        )
        self.visibilityChanged.connect(lambda shown: slot.set_seen(shown or (self.isFloating() and self.isVisible())))

    def _built(self, view: QWidget) -> None:
        if hasattr(view, "title_line"):
            self.title_bar.borrow(view)

    def ask_where(self) -> None:
        """Offer the places under the button for it."""
        button = self.title_bar.buttons[0]
        self.where_asked.emit(self.key, button.mapToGlobal(QPoint(0, button.height())))

    def look(self) -> None:
        """Qt does not always say that a dock can be seen now: not when it becomes a window."""
        place = self.geometry()
        seen = self.isVisible() and (self.isFloating() or (place.right() >= 0 and place.bottom() >= 0))
        if seen != self.slot.is_seen:
            self.slot.set_seen(seen)

    def begin_drag(self, on_screen: QPointF) -> None:
        """Go on as if the title were dragged; the mouse is at this point of the screen, its left button held."""
        self.title_bar.set_slim(False)
        layout = self.layout()
        assert layout is not None
        layout.invalidate()
        layout.activate()
        grip = QPointF(40, self.title_bar.sizeHint().height() / 2)
        far = grip + QPointF(0, 4 * QApplication.startDragDistance())
        left, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        for kind, place in ((QEvent.Type.MouseButtonPress, grip), (QEvent.Type.MouseMove, far)):
            QApplication.sendEvent(self, QMouseEvent(kind, place, on_screen, left, left, keys))

    def switch_window(self) -> None:
        """Into a window of its own, or back to where it was."""
        self.setFloating(not self.isFloating())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """In a window of its own: what no part of it has a use for is the main window's."""
        super().keyPressEvent(event)
        parent = self.parentWidget()
        if self.isFloating() and parent is not None:
            QApplication.sendEvent(parent.window(), event)

    def closeEvent(self, event: QCloseEvent) -> None:
        super().closeEvent(event)
        self._closed.start()
