"""Widgets of the window, and the delegates that format and colour their cells."""
