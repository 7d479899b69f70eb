"""Where the focus goes when a page comes to the front, and which of its views was looked at last."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from .compare_page import ComparePage
from .run_page import RunPage

Page = RunPage | ComparePage


def go_into(page: Page) -> bool:
    """Give the focus to what the page is about: its curves, else its first table; else to the first part of the view in
    front that takes it. False where there is nothing yet."""
    window = page.window()
    wanted = next((part for part in page.entrances() if part.isVisibleTo(window)), None) or _part_in_front(page)
    if wanted is None:
        return False
    wanted.setFocus(Qt.FocusReason.OtherFocusReason)
    return True


def _part_in_front(page: Page) -> QWidget | None:
    front = page.views.made.get(page.docks.front) if page.stages.is_done else None
    parts = [] if front is None else [front, *front.findChildren(QWidget)]
    inside = (part for part in parts if part.isVisibleTo(page.window()) and part.isEnabled())
    return next((part for part in inside if part.focusPolicy() & Qt.FocusPolicy.TabFocus), None)


def view_with(page: Page, part: QWidget) -> str:
    """Title of the view that a widget is part of; empty for other parts of the page."""
    return next((title for title, view in page.titled_views() if view is part or view.isAncestorOf(part)), "")
