"""What the window remembers from one start to the next, in an ini file of the user's."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QSettings, QStandardPaths

NAME = "memstrata"


def settings_path() -> str:
    """The file under the user's configuration folder, `~/.config/memstrata/settings.ini` on Linux."""
    folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.GenericConfigLocation)
    return os.path.join(folder, NAME, "settings.ini")


class Settings:
    """Values by name. Without a path they last as long as this object.

    Each value is JSON, so that a list of one stays a list. A value that is damaged or of another type counts as
    absent, a file that is no settings file is begun anew, and one that cannot be written changes nothing for the user
    but that nothing is remembered.
    """

    def __init__(self, path: str | None = None) -> None:
        self._values: dict[str, str] = {}
        self._file = None if path is None else _opened(path)

    def get(self, name: str) -> Any:
        """The value, None where there is none."""
        text = self._values.get(name)
        if self._file is not None:
            text = self._file.value(name)
        try:
            return json.loads(text) if isinstance(text, str) else None
        except ValueError:
            return None

    def text(self, name: str, otherwise: str = "") -> str:
        """A text."""
        value = self.get(name)
        return value if isinstance(value, str) else otherwise

    def texts(self, name: str) -> tuple[str, ...]:
        """Several texts."""
        value = self.get(name)
        return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list) else ()

    def numbers(self, name: str) -> tuple[int, ...]:
        """Several whole numbers."""
        value = self.get(name)
        return tuple(v for v in value if type(v) is int) if isinstance(value, list) else ()

    def sizes(self, name: str) -> dict[str, int]:
        """Pixels by name, all above 0."""
        value = self.get(name)
        items = value.items() if isinstance(value, dict) else ()
        return {k: v for k, v in items if type(v) is int and 0 < v < 100_000}

    def set(self, name: str, value: str | Sequence[str] | Sequence[int] | dict[str, int]) -> None:
        """Remember a value."""
        text = json.dumps(value if isinstance(value, str | dict) else list(value))
        if self._file is None:
            self._values[name] = text
        else:
            self._file.setValue(name, text)

    def forget(self, name: str) -> None:
        """Remember a value, or a group of them, no more."""
        self._values = {k: v for k, v in self._values.items() if k != name and not k.startswith(f"{name}/")}
        if self._file is not None:
            self._file.remove(name)

    def save(self) -> None:
        """Write what was set; Qt does so now and then by itself."""
        if self._file is not None:
            self._file.sync()


def _opened(path: str) -> QSettings:
    file = QSettings(path, QSettings.Format.IniFormat)
    if file.status() == QSettings.Status.FormatError:
        file.clear()
        file.sync()
    return file
