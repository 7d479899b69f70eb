"""The one mutable state of the window, jobs and item models (QtCore only)."""
