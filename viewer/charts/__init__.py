"""Painted items on pyqtgraph axes."""
