"""The stack tree as an icicle: each frame as wide as its bytes, its callees (or callers) below it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from memstrata.capture.format.schema import B1

from ..look import palette
from ..look.frame_cut import frame_cut
from ..look.tips import one_line, tip
from ..look.units import bytes_text, exact_bytes_text, percent_text
from ..model.stack_tree import NO_STACK, StackTree
from .focus import paint_focus
from .theme import Theme, current

_ROW = 20
_NARROWEST = 1.5
"""Pixels; what is narrower is left out, and its parent's own colour shows there."""
_OWN = {False: ("#2561ab", "#3271bd"), True: ("#2a5ea6", "#3670bb")}
_OTHER = {False: ("#c9ced6", "#d6dae0"), True: ("#474b53", "#53575f")}


class Icicle(QWidget):
    """Click a frame to look at it alone, Escape or Backspace to go back out. `chosen` carries the node in focus."""

    chosen = Signal(int)
    pointed_at = Signal(int)
    """The node under the pointer, -1 for none."""

    def __init__(self, name_of: Callable[[int], str], own: B1, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name_of, self.own = name_of, own
        self.tree: StackTree | None = None
        self.top = -1
        """The node looked at, -1 for the whole."""
        self.theme = current()
        self._boxes: list[tuple[QRectF, int]] = []
        self._heavy: frozenset[int] = frozenset()
        self.pointed = -1
        """The node under the pointer."""
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Stacks as an icicle")
        self.setMinimumHeight(3 * _ROW)

    def sizeHint(self) -> QSize:
        return QSize(480, 12 * _ROW)

    def show_tree(self, tree: StackTree) -> None:
        """Other contents, from the top."""
        self.tree, self.top, self.pointed = tree, -1, -1
        self._heavy = frozenset(tree.heaviest_path())
        self._lay_out()

    def set_theme(self, theme: Theme) -> None:
        """Colours of this theme."""
        self.theme = theme
        self.update()

    def look_at(self, node: int) -> None:
        """Give this node the whole width; -1 for all of them."""
        self.top = node
        self._lay_out()

    def resizeEvent(self, _event: object) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        """Boxes of the nodes that are wide enough, those above the node looked at across the whole width."""
        self._boxes = []
        if self.tree is not None and len(self.tree):
            scale, begin = self._scale()
            above = self._above()
            for place, node in enumerate(above):
                self._boxes.append((QRectF(0, place * _ROW, self.width(), _ROW), node))
            self._place_below(scale, begin, len(above))
        self.update()

    def _above(self) -> list[int]:
        assert self.tree is not None
        path, node = [], self.top
        while node >= 0:
            path.append(node)
            node = int(self.tree.parent[node])
        return path[::-1]

    def _scale(self) -> tuple[float, int]:
        assert self.tree is not None
        if self.top < 0:
            return self.width() / (self.tree.total_bytes or 1), 0
        return self.width() / (int(self.tree.bytes[self.top]) or 1), int(self.tree.offset[self.top])

    def _place_below(self, scale: float, begin: int, level: int) -> None:
        assert self.tree is not None
        nodes = self.tree.children(self.top)
        while len(nodes) and level * _ROW < self.height():
            nodes = nodes[self.tree.bytes[nodes] * scale >= _NARROWEST]
            for node in nodes.tolist():
                x = (int(self.tree.offset[node]) - begin) * scale
                self._boxes.append((QRectF(x, level * _ROW, int(self.tree.bytes[node]) * scale, _ROW), node))
            nodes = np.concatenate([self.tree.children(node) for node in nodes.tolist()] or [np.empty(0, np.int64)])
            level += 1

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, seen = QPainter(self), QRectF(event.rect())
        painter.fillRect(seen, QColor(self.theme.panel))
        metrics = QFontMetricsF(self.font())
        for rect, node in self._boxes:
            if rect.intersects(seen):
                self._box(painter, metrics, rect, node)
                if node == self.pointed:
                    painter.setPen(QPen(QColor(self.theme.text), 2))
                    painter.drawRect(rect.adjusted(1, 1, -2, -2))
        paint_focus(painter, self, self.theme)
        painter.end()

    def _box(self, painter: QPainter, metrics: QFontMetricsF, rect: QRectF, node: int) -> None:
        assert self.tree is not None
        inside = rect.adjusted(0, 0, -1 if rect.width() > 3 else 0, -1)
        fill = self._fill(node)
        painter.fillRect(inside, QColor(fill))
        if node in self._heavy:
            painter.fillRect(QRectF(inside.left(), inside.bottom() - 2, inside.width(), 2), QColor(self.theme.text))
        if rect.width() > 34:
            painter.setPen(QColor(palette.text_on(fill)))
            name = frame_cut(one_line(self.name_of(node)), inside.width() - 8, metrics.horizontalAdvance)
            text = f"{name}  {bytes_text(int(self.tree.bytes[node]))}"
            text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, inside.width() - 8)
            painter.drawText(inside.adjusted(4, 0, -4, 0), Qt.AlignmentFlag.AlignVCenter, text)

    def _fill(self, node: int) -> str:
        assert self.tree is not None
        frame = int(self.tree.frame[node])
        shades = (_OWN if frame != NO_STACK and self.own[frame] else _OTHER)[self.theme.dark]
        return shades[int(self.tree.depth[node]) % 2]

    def node_at(self, place: QPointF) -> int:
        """The node drawn there, -1 for none."""
        return next((node for rect, node in self._boxes if rect.contains(place)), -1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        node = self.node_at(event.position())
        if node >= 0:
            self.look_at(node)
            self.chosen.emit(node)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        node = self.node_at(event.position())
        self._point(node)
        if node < 0 or self.tree is None:
            QToolTip.hideText()
            return
        size = int(self.tree.bytes[node])
        share = percent_text(size / (self.tree.total_bytes or 1))
        said = f"{self.name_of(node)}\n{bytes_text(size)} ({exact_bytes_text(size)}), {share}"
        QToolTip.showText(event.globalPosition().toPoint(), tip(said), self)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._point(-1)

    def _point(self, node: int) -> None:
        """The frame under the pointer has a line around it; nothing else is painted again."""
        if node != self.pointed:
            changed, self.pointed = {node, self.pointed}, node
            for rect, one in self._boxes:
                if one in changed:
                    self.update(rect.toAlignedRect())
            self.pointed_at.emit(node)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Escape, Qt.Key.Key_Backspace) and self.top >= 0 and self.tree is not None:
            self.look_at(int(self.tree.parent[self.top]))
            self.chosen.emit(self.top)
            return
        super().keyPressEvent(event)
