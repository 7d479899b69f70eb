"""memstrata's own files."""

from __future__ import annotations

import os

from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording


def read(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file; raises FormatError."""
    return files.read(path)
