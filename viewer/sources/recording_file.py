"""memstrata's own files."""

from __future__ import annotations

import contextlib
import os
import struct
import zipfile
from typing import BinaryIO, NoReturn

from memstrata.capture.format import files
from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording

_DAMAGE = (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, struct.error)


def read(path: str | os.PathLike[str]) -> Recording:
    """The recording in a file; raises FormatError."""
    return files.read(path)


def read_packed(file: BinaryIO, name: str) -> NoReturn:
    """A recording is packed already, and is not packed twice; raises FormatError, which names a checkpoint."""
    members: list[str] = []
    with contextlib.suppress(*_DAMAGE), zipfile.ZipFile(file) as archive:
        members = archive.namelist()
    if "meta.json" not in members and any(member.endswith("data.pkl") for member in members):
        raise FormatError(f"{name} is a torch checkpoint, not a memstrata recording.")
    raise FormatError(f"{name} is a zip archive inside another archive: unpack it first.")
