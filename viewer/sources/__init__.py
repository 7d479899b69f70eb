"""Files in, recordings out. What a file is follows from its content, never from its name."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording

from . import recording_file, torch_snapshot
from .json_traces import read as read_json
from .packed import GZIP, ZSTD, unpacked
from .progress import Cancelled, Progress
from .run_directory import RunDirectory, rank_of, recordings_in, run_directory

__all__ = ["Cancelled", "RunDirectory", "open_file", "open_run_directory", "recordings_in"]

_HEAD = 4096
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_NOT_OURS = ((b"version https://git-lfs", "is a git-lfs pointer, not the file itself: fetch it with `git lfs pull`"),)
_PAGE = re.compile(rb"<(!doctype|!--|\?xml|[a-z][a-z0-9]*[\s/>])", re.IGNORECASE)
"""A text that begins with a tag."""
_PICKLE = b"\x80(]}"
_JSON = (b"{", b"[")
_SPACE = b"\xef\xbb\xbf \t\r\n\f\v"


def open_file(
    path: str | os.PathLike[str],
    *,
    progress: Callable[[str, float], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Recording:
    """The recording, snapshot or trace in a file, which may be packed with gzip (or zstd, where Python can read it).

    `progress(stage, fraction)` is called every few milliseconds with a stage in words and how far it is, from 0 to 1.
    Raises FormatError with one sentence that names the file and the cause; `Cancelled` soon after `cancelled()` has
    answered True. Either way nothing stays behind.
    """
    name = Path(path).name or str(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FormatError(f"{name} is {_other(path)}, not a file.")
        with open(path, "rb", buffering=0) as file:
            return _opened(file, path, os.fstat(file.fileno()).st_size, name, Progress(progress, cancelled))
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise FormatError(f"{name} cannot be opened: {reason}.") from error
    except MemoryError as error:
        raise FormatError(f"{name} does not fit into memory.") from error


def _other(path: str | os.PathLike[str]) -> str:
    """What a path leads to that is no file: reading a pipe could wait forever, and a device never ends."""
    mode = os.stat(path).st_mode
    kinds = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
    return next((what for is_one, what in kinds if is_one(mode)), "a device")


def open_run_directory(folder: str | os.PathLike[str]) -> RunDirectory:
    """The ranks recorded into a folder. A file that cannot be read is named and the others stand.

    Raises FormatError with one sentence where the folder holds no run.
    """
    files, damaged = [], []
    for path in recordings_in(folder):
        try:
            files.append(rank_of(path, open_file(path)))
        except FormatError as error:
            damaged.append(str(error))
    return run_directory(folder, files, damaged)


def _opened(file: BinaryIO, path: str | os.PathLike[str] | None, size: int, name: str, progress: Progress) -> Recording:
    """What is in an open file; `path` is None inside a packed one."""
    head = file.read(_HEAD)
    file.seek(0)
    if not head:
        raise FormatError(f"{name} is empty.")
    if path is not None and head.startswith((GZIP, ZSTD)):
        with unpacked(file, size, name, progress) as (content, length):
            return _opened(content, None, length, name, progress)
    if head.startswith((GZIP, ZSTD)):
        raise FormatError(f"{name} is packed twice: unpack it once first.")
    _refuse_others(head, name)
    if head.startswith(_ZIP):
        progress("Reading", 0.0)
        return recording_file.read(path) if path is not None else recording_file.read_packed(file, name)
    if head.lstrip(_SPACE).startswith(_JSON):
        return read_json(file, size, name, progress)
    return torch_snapshot.read(file, size, name, progress)


def _refuse_others(head: bytes, name: str) -> None:
    text = head.lstrip(_SPACE)
    for start, what in _NOT_OURS:
        if text.startswith(start):
            raise FormatError(f"{name} {what}.")
    if _PAGE.match(text):
        raise FormatError(f"{name} is a web page, not the file itself: the download went wrong.")
    if not head.startswith(_ZIP) and head[0] not in _PICKLE and not text.startswith(_JSON):
        raise FormatError(f"{name} is neither a memstrata recording nor a torch memory snapshot.")
