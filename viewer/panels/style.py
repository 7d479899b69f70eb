"""The style sheet of the window in the colours of a theme."""

from __future__ import annotations

from pathlib import Path

from ..charts.theme import Theme

_SHEET = """
QMainWindow, QDialog, #content {{ background: {window}; }}
QLabel, QTableView, QTreeView, QHeaderView, QTabBar {{ color: {text}; }}
QLabel {{ qproperty-textFormat: PlainText; }}
QLabel#bold {{ font-weight: bold; }}
#headline QLabel, QLabel[rich="true"] {{ qproperty-textFormat: RichText; }}
QToolTip {{ background: {raised}; color: {text}; border: 1px solid {border}; padding: 3px; }}
#headline {{ background: {panel}; border: none; border-bottom: 1px solid {border}; }}
#warnings, #message {{
    background: {warning_panel}; color: {warning}; padding: 5px 14px; border-bottom: 1px solid {border};
}}
#message QLabel, QLabel#wrong {{ color: {warning}; }}
#message[calm="true"] {{ background: {raised}; color: {text}; }}
#message[calm="true"] QLabel {{ color: {text}; }}
#loading {{ background: {raised}; border-bottom: 1px solid {border}; }}
#notice {{ background: {panel}; padding: 14px; border-bottom: 1px solid {border}; }}
#where {{ color: {text}; background: {panel}; padding: 6px 8px; border-top: 1px solid {border}; }}
#note {{ background: {raised}; color: {text}; padding: 5px 14px; border-bottom: 1px solid {border}; }}
#empty {{ background: {panel}; border: 1px solid {border}; border-radius: 8px; padding: 20px 34px; }}
#start, #plain, QScrollArea {{ background: {window}; }}
#drop {{ border: 2px dashed {border}; border-radius: 8px; background: {window}; padding: 10px; }}
#drop[hot="true"] {{ border-color: {accent}; background: {selected}; }}
#recent {{ border: 1px solid {border}; border-radius: 6px; background: {panel}; }}
#recent:focus {{ border: 1px solid {accent}; }}
#keys {{
    background: {raised}; border: 1px solid {border}; border-radius: 4px; padding: 1px 5px; font-family: monospace;
}}
#code {{
    background: {window}; border: 1px solid {border}; border-radius: 4px; padding: 10px 14px; font-family: monospace;
}}
QMenuBar {{ background: {window}; color: {text}; }}
QMenuBar::item {{ padding: 4px 9px; background: transparent; }}
QMenuBar::item:selected {{ background: {raised}; }}
QMenu {{ background: {panel}; color: {text}; border: 1px solid {border}; padding: 4px 0; }}
QMenu::item {{ padding: 5px 26px 5px 24px; }}
QMenu::item:selected {{ background: {selected}; }}
QMenu::item:disabled {{ color: {faint}; }}
QMenu::separator {{ height: 1px; background: {border}; margin: 4px 0; }}
#close {{ border: 1px solid transparent; background: transparent; padding: 0 3px; color: {faint}; }}
#close:focus {{ border: 1px solid {accent}; }}
#caption {{ color: {faint}; padding: 3px 6px; }}
#facts {{ padding: 6px 8px; background: {panel}; }}
#topbar QTabBar {{ background: transparent; }}
#topbar {{ background: {window}; border-bottom: 1px solid {border}; }}
#view {{ background: {panel}; }}
#dockTitle {{ background: {window}; border-bottom: 1px solid {border}; }}
#dockTitle QLabel {{ color: {faint}; }}
#dockName {{ padding: 0 4px 0 11px; }}
QMainWindow::separator {{ background: {border}; width: 3px; height: 3px; }}
QMainWindow::separator:hover {{ background: {accent}; }}
QDockWidget {{ background: {panel}; color: {text}; border: 1px solid {faint}; }}
QSplitter::handle {{ background: {border}; }}
QSplitter::handle:horizontal {{ width: 1px; }}
QSplitter::handle:vertical {{ height: 1px; }}
QTableView, QTreeView {{
    background: {panel}; alternate-background-color: {window}; border: none; outline: none;
    selection-background-color: {selected}; selection-color: {text};
}}
QTableView::item {{ padding: 0 6px; }}
QTableView::item:selected, QTreeView::item:selected {{ background: {selected}; color: {text}; }}
QTableView:focus, QTreeView:focus, QGraphicsView:focus {{ border: 1px solid {accent}; }}
QTableView, QTreeView, QGraphicsView {{ border: 1px solid {panel}; }}
QHeaderView {{ background: {panel}; }}
QHeaderView::section {{
    background: {panel}; color: {faint}; border: none; border-bottom: 1px solid {border}; padding: 5px 6px 3px;
}}
QHeaderView::up-arrow, QHeaderView::down-arrow {{ subcontrol-position: top center; width: 9px; height: 9px; }}
QScrollBar {{ background: {window}; border: none; margin: 0; }}
QScrollBar:vertical {{ width: 12px; }}
QScrollBar:horizontal {{ height: 12px; }}
QScrollBar::handle {{ background: {faint}; border-radius: 3px; margin: 3px; }}
QScrollBar::handle:vertical {{ min-height: 26px; }}
QScrollBar::handle:horizontal {{ min-width: 26px; }}
QScrollBar::handle:hover {{ background: {text}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
QTabWidget::pane {{ border: none; background: {panel}; }}
QTabBar {{ background: {window}; }}
QTabBar::tab {{
    background: {window}; color: {faint}; padding: 6px 7px; border: none; border-bottom: 2px solid {window};
}}
#topbar QTabBar::tab {{ padding: 6px 11px; }}
QTabBar::tab:selected {{ color: {text}; border-bottom: 2px solid {accent}; background: {panel}; }}
QTabBar::tab:selected:focus {{ background: {selected}; }}
QTabBar QToolButton {{ background: {window}; border: none; border-radius: 0; padding: 0; }}
QTabBar::scroller {{ width: 40px; }}
QTabBar::tear {{ width: 0; border: none; }}
QTabBar::tab:hover {{ color: {text}; }}
QPushButton, QToolButton {{
    background: {panel}; color: {text}; border: 1px solid {border}; border-radius: 4px; padding: 3px 9px;
}}
QPushButton:hover, QToolButton:hover {{ background: {raised}; }}
QPushButton:focus, QToolButton:focus {{ border: 1px solid {accent}; }}
#warnings QToolButton, #note QToolButton, #message QToolButton, #try {{ padding: 1px 9px; }}
#try:checked {{ background: {selected}; border: 1px solid {accent}; }}
QToolButton:disabled, QPushButton:disabled {{ color: {faint}; background: {window}; }}
QLineEdit, QPlainTextEdit {{
    background: {panel}; color: {text}; border: 1px solid {border}; border-radius: 4px; padding: 3px 5px;
    selection-background-color: {selected}; selection-color: {text};
}}
QLineEdit:focus, QPlainTextEdit:focus {{ border: 1px solid {accent}; }}
QCheckBox {{ color: {text}; spacing: 6px; }}
QCheckBox::indicator {{
    width: 11px; height: 11px; border: 1px solid {faint}; border-radius: 3px; background: {panel};
}}
QCheckBox::indicator:checked {{ background: {accent}; border: 1px solid {accent}; image: url("{tick}"); }}
QCheckBox:focus {{ color: {accent}; }}
#fold {{ border: 1px solid transparent; font-weight: 600; background: transparent; }}
#fold:focus {{ border: 1px solid {accent}; }}
#fold:disabled {{ color: {text}; background: transparent; }}
QProgressBar {{ background: {window}; border: 1px solid {border}; border-radius: 4px; }}
QProgressBar::chunk {{ background: {accent}; border-radius: 3px; }}
QStatusBar {{ background: {window}; color: {faint}; border-top: 1px solid {border}; }}
QStatusBar QLabel {{ color: {faint}; padding: 1px 8px; }}
QStatusBar::item {{ border: none; }}
"""


def style_sheet(theme: Theme) -> str:
    """The style sheet of a theme."""
    tick = Path(__file__).with_name("tick-dark.svg" if theme.dark else "tick-light.svg")
    return _SHEET.format(
        tick=tick.as_posix(), **{name: value for name, value in vars(theme).items() if isinstance(value, str)}
    )
