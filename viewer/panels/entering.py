"""Where the focus goes when a page comes to the front, and which of its views was looked at last."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from .compare_page import ComparePage
from .main_part import holds, main_part
from .run_page import RunPage

Page = RunPage | ComparePage


def go_into(page: Page) -> bool:
    """Give the focus to what the page is about: its curves, else its first table; else to the main part of the view in
    front. False where there is nothing yet."""
    window = page.window()
    wanted = next((part for part in page.entrances() if part.isVisibleTo(window)), None) or _part_in_front(page)
    if wanted is None:
        return False
    wanted.setFocus(Qt.FocusReason.OtherFocusReason)
    return True


def _part_in_front(page: Page) -> QWidget | None:
    front = page.views.made.get(page.docks.front) if page.stages.is_done else None
    return main_part(front) if front is not None and front.isVisibleTo(page.window()) else None


def view_with(page: Page, part: QWidget) -> str:
    """Title of the view that a widget is part of; empty for other parts of the page."""
    return next((title for title, view in page.titled_views() if holds(view, part)), "")
