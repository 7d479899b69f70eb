"""Every key of the window in one table: the menus take theirs from it, and the list on `?` shows all of it."""

from __future__ import annotations

from dataclasses import dataclass

FILES, PICTURE, TABLE = "Files and window", "Going back", "In tables"
CHART = "While the timeline or the curves have the focus"
STEP = "Anywhere but where letters are typed or look for a row"
OTHERS, MOUSE = "While another picture has the focus", "With the mouse on a timeline"


@dataclass(frozen=True)
class Shortcut:
    """What keys do, where. Keys are written as Qt writes them, `Ctrl+O`."""

    section: str
    keys: tuple[str, ...]
    text: str


SHORTCUTS: dict[str, Shortcut] = {
    "open": Shortcut(FILES, ("Ctrl+O",), "Open files"),
    "picture": Shortcut(FILES, ("Ctrl+S",), "Save a picture of the view in front"),
    "record": Shortcut(FILES, ("Ctrl+R",), "Record a script"),
    "close": Shortcut(FILES, ("Ctrl+W",), "Close the file in front"),
    "next": Shortcut(FILES, ("Ctrl+Tab", "Ctrl+PgDown"), "Next open file"),
    "previous": Shortcut(FILES, ("Ctrl+Shift+Tab", "Ctrl+PgUp"), "Previous open file"),
    "next_view": Shortcut(FILES, ("F6",), "Go into the view in front, then the next"),
    "previous_view": Shortcut(FILES, ("Shift+F6",), "Go into the view in front, then the one before"),
    "quit": Shortcut(FILES, ("Ctrl+Q",), "Quit"),
    "shortcuts": Shortcut(FILES, ("?", "F1"), "Show this list"),
    "undo": Shortcut(PICTURE, ("Ctrl+Z",), "Undo: go back to what was looked at before"),
    "redo": Shortcut(PICTURE, ("Ctrl+Y", "Ctrl+Shift+Z"), "Redo"),
    "timeline": Shortcut(FILES, ("Ctrl+T",), "Go to the timeline, or to the curves of a comparison"),
    "filter": Shortcut(FILES, ("F", "Ctrl+F"), "Type a filter; Enter or Esc leads back"),
    "zoom in": Shortcut(STEP, ("W", "+", "="), "Zoom in around the cursor"),
    "zoom out": Shortcut(STEP, ("S", "-"), "Zoom out"),
    "pan left": Shortcut(STEP, ("A",), "Move the picture to earlier"),
    "pan right": Shortcut(STEP, ("D",), "Move the picture to later"),
    "whole": Shortcut(STEP, ("0",), "Show the whole step"),
    "nearer": Shortcut(CHART, ("Up",), "Zoom in"),
    "farther": Shortcut(CHART, ("Down",), "Zoom out"),
    "step back": Shortcut(CHART, ("Left",), "Cursor one event back; curves: one place or event"),
    "step": Shortcut(CHART, ("Right",), "Cursor one event on; curves: one place or event"),
    "leap back": Shortcut(CHART, ("Shift+Left",), "Cursor a twentieth of the step back"),
    "leap": Shortcut(CHART, ("Shift+Right",), "Cursor a twentieth of the step on"),
    "first": Shortcut(CHART, ("Home",), "Cursor to the start"),
    "last": Shortcut(CHART, ("End",), "Cursor to the end"),
    "peak": Shortcut(STEP, ("P",), "Cursor to the peak; curves: again to that of the other run"),
    "peak before": Shortcut(STEP, (",",), "Cursor to the local peak before"),
    "peak after": Shortcut(STEP, (".",), "Cursor to the next local peak"),
    "phase before": Shortcut(STEP, ("[",), "Cursor to the start of the phase before"),
    "phase after": Shortcut(STEP, ("]",), "Cursor to the start of the next phase"),
    "mark": Shortcut(STEP, ("M",), "Set a mark to measure from, or take it away"),
    "escape": Shortcut(STEP, ("Esc",), "Let go of what is selected, and of the mark"),
    "copy": Shortcut(TABLE, ("Ctrl+C",), "Copy the selected rows"),
    "follow": Shortcut(TABLE, ("Return",), "Go to the allocations behind a finding, a layer or an item"),
    "forget": Shortcut(TABLE, ("Del",), "Leave a recent file out of the list"),
    "taller": Shortcut(OTHERS, ("Shift+Up",), "Every allocation: zoom in on the bytes"),
    "lower": Shortcut(OTHERS, ("Shift+Down",), "Every allocation: zoom out of the bytes"),
    "outer": Shortcut(OTHERS, ("Backspace",), "Stacks: back out of the frame looked into"),
}

GESTURES: dict[str, tuple[tuple[str, str], ...]] = {
    OTHERS: (
        ("Left or Right", "What if: the next plan; allocator: the next block"),
        ("Up or Down", "From peak to peak: the next bar"),
        ("Esc", "Stacks: all of them again"),
    ),
    MOUSE: (
        ("click", "Cursor there, and select what lies there"),
        ("drag", "Move the picture"),
        ("wheel", "Zoom around the pointer"),
        ("Shift+drag", "Brush a range: the tables show what is alive in it"),
        ("Ctrl+wheel", "Every allocation: zoom the bytes"),
    ),
}
"""What has no key of its own: keys that mean something else in each picture, and the mouse."""


def sections() -> dict[str, list[Shortcut]]:
    """The table in the order of the list, by section."""
    found: dict[str, list[Shortcut]] = {}
    for shortcut in SHORTCUTS.values():
        found.setdefault(shortcut.section, []).append(shortcut)
    return found | {section: [] for section in GESTURES if section not in found}
