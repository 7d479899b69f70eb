"""Where a recording is written, and written again once more is known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .distributed import Place, place, rank_line, run_file
from .format import files, schema
from .format.recording import Recording
from .messages import say
from .output_path import means_folder, writable
from .summary import peak_line


class Target:
    """The file of this process.

    Raises:
        CaptureError: if it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = writable(path)
        self.file = self.path
        """The file written last: `path`, or this rank's in the folder of its run."""
        self.place = Place()
        self._is_folder = means_folder(path)
        self._written: tuple[int, int] | None = None

    def look_around(self) -> None:
        """Find out which rank this is, now that training has begun."""
        self.place = place()

    def write(self, recording: Recording, why: str = "") -> None:
        """Write the file and say so, and `why`; raises OSError."""
        self.file = run_file(self.path, self._is_folder, self.place)
        files.write(recording, self.file)
        self._written = _identity(self.file)
        if self.place.alone:
            line = peak_line(recording, self.file)
        elif self.place.rank == 0 or why:  # one line for all ranks
            line = rank_line(recording, self.file, self.place)
        else:
            return
        say(f"{why}: {line}" if why else line)

    def amend(self, steps: schema.Steps, **meta: Any) -> None:
        """Put what was learnt later into the file, unless somebody has moved or replaced it since; raises OSError."""
        if self._written is None or _identity(self.file) != self._written:
            return
        recording = files.read(self.file).replace_meta(**meta)
        files.write(recording.with_steps(steps), self.file)
        self._written = _identity(self.file)


def _identity(file: Path) -> tuple[int, int] | None:
    """Which file lies there, and when it was written."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns
