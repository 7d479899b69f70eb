"""A dock: a view that stands at a side of its page, alone or among tabs, or in a window of its own."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QPoint, QPointF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QMouseEvent
from PySide6.QtWidgets import QApplication, QDockWidget, QHBoxLayout, QLabel, QToolButton, QWidget

from .slots import Slot

_ENDING_MS = 250


class TitleBar(QWidget):
    """Name, and what can be done with the dock; of no height among tabs, where the tab is the title.

    It leaves the mouse to the dock, which is dragged by it.
    """

    def __init__(self, dock: Dock) -> None:
        super().__init__(dock)
        self.dock, self.is_slim = dock, True
        self.buttons: list[QToolButton] = []
        self.setObjectName("dockTitle")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)

    def _fill(self) -> None:
        """Made when it is first to be seen: most docks are tabs."""
        dock, title = self.dock, self.dock.windowTitle()
        line = QHBoxLayout(self)
        line.setContentsMargins(11, 0, 4, 0)
        line.setSpacing(0)
        line.addWidget(QLabel(title, self), 1)
        self.buttons = [
            self._button("⋯", f"Where {title} stands", dock.ask_where),
            self._button("↗", f"{title} in a window of its own, or back", dock.switch_window),
            self._button("✕", f"Hide {title}", lambda: dock.hide_asked.emit(dock.key)),
        ]
        for button in self.buttons:
            line.addWidget(button)

    def _button(self, sign: str, hint: str, act: Callable[[], object]) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName("close")
        button.setText(sign)
        button.setToolTip(hint)
        button.setAccessibleName(hint)
        button.clicked.connect(lambda: act())
        return button

    def set_slim(self, slim: bool) -> None:
        """Whether it takes no room."""
        if slim == self.is_slim:
            return
        self.is_slim = slim
        if not slim and not self.buttons:
            self._fill()
        for part in self.findChildren(QWidget):
            part.setVisible(not slim)
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        return QSize(0, 0) if self.is_slim else QSize(120, self.fontMetrics().height() + 13)  # as high as a tab

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

    def closeEvent(self, event: QCloseEvent) -> None:
        super().closeEvent(event)
        self._closed.start()
