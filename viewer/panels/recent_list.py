"""The files opened lately, to open again."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPalette
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from ..charts.theme import Theme, current
from ..look.tips import one_line, tip
from ..state.recent import RecentFile, RecentFiles

_PATH, _BELOW = Qt.ItemDataRole.UserRole, Qt.ItemDataRole.UserRole + 1
_PAD = 5


class _Delegate(QStyledItemDelegate):
    """Name and, below it, the folder or why the file cannot be opened."""

    theme: Theme

    def sizeHint(self, option: QStyleOptionViewItem, _index: object) -> QSize:
        return QSize(120, 2 * option.fontMetrics.height() + 3 * _PAD)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index) -> None:  # type: ignore[no-untyped-def]
        is_there = bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(option.rect, QColor(self.theme.selected))
        elif option.state & QStyle.StateFlag.State_MouseOver and is_there:
            painter.fillRect(option.rect, QColor(self.theme.raised))
        rect = option.rect.adjusted(10, _PAD, -10, -_PAD)
        height = option.fontMetrics.height()
        for line, role, ink in ((0, Qt.ItemDataRole.DisplayRole, is_there), (1, _BELOW, False)):
            painter.setPen(QColor(self.theme.text if ink else self.theme.faint))
            place = QRect(rect.left(), rect.top() + line * (height + _PAD), rect.width(), height)
            whole = one_line(index.data(role))
            text = option.fontMetrics.elidedText(whole, Qt.TextElideMode.ElideMiddle, place.width())
            painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)


class _List(QListWidget):
    forgotten = Signal(str)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        item = self.currentItem()
        if event.key() == Qt.Key.Key_Delete and item is not None:
            self.forgotten.emit(item.data(_PATH))
            return
        super().keyPressEvent(event)


class RecentList(QWidget):
    """Newest first. Files that are gone are grey and say so; Delete leaves one out."""

    chosen = Signal(str)

    def __init__(self, recent: RecentFiles, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.recent = recent
        self.view = _List(self)
        self.view.setObjectName("recent")
        self.view.setAccessibleName("Recent files")
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.setMouseTracking(True)
        self.view.setUniformItemSizes(True)
        self.delegate = _Delegate(self.view)
        self.view.setItemDelegate(self.delegate)
        self.view.itemActivated.connect(self._chosen)
        self.view.itemClicked.connect(self._chosen)
        self.view.forgotten.connect(self._forget)
        self.title = QLabel("Recent files", self)
        self.clear = QPushButton("Clear list", self)
        self.clear.setToolTip("Forget these names; the files stay")
        self.clear.clicked.connect(self._clear)
        line = QHBoxLayout()
        line.addWidget(self.title, 1)
        line.addWidget(self.clear)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(line)
        layout.addWidget(self.view, 1)
        self.set_theme(current())
        self.fill()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.delegate.theme = theme
        palette = self.view.palette()
        palette.setColor(QPalette.ColorRole.Base, QColor(theme.panel))
        self.view.setPalette(palette)
        self.view.viewport().update()

    def fill(self) -> None:
        """Show the list as it is now; nothing at all where it is empty."""
        files = self.recent.files()
        self.view.clear()
        for file in files:
            self.view.addItem(_item(file))
        self.setVisible(bool(files))

    def _chosen(self, item: QListWidgetItem) -> None:
        if item.flags() & Qt.ItemFlag.ItemIsEnabled:
            self.chosen.emit(item.data(_PATH))

    def _forget(self, path: str) -> None:
        self.recent.forget(path)
        self.fill()

    def _clear(self) -> None:
        self.recent.clear()
        self.fill()


def _item(file: RecentFile) -> QListWidgetItem:
    item = QListWidgetItem(file.name)
    item.setData(_PATH, file.path)
    item.setData(_BELOW, f"{file.folder} - {file.why_not}" if file.why_not else file.folder)
    item.setToolTip(tip(f"{file.path}\n{file.why_not}".strip()))
    item.setData(
        Qt.ItemDataRole.AccessibleTextRole, f"{file.name} in {file.folder}{', ' * bool(file.why_not)}{file.why_not}"
    )
    if file.why_not:
        item.setFlags(Qt.ItemFlag.ItemIsSelectable)
    return item
