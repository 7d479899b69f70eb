"""memstrata's own files."""

from __future__ import annotations

import os
from typing import NoReturn

from memstrata.capture.format import files
from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording


def read(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file; raises FormatError."""
    return files.read(path)


def read_packed(name: str) -> NoReturn:
    """A recording is packed already, and is not packed twice; raises FormatError."""
    raise FormatError(f"{name} is a zip archive inside another archive: unpack it first.")
