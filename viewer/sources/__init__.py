"""Files in, recordings out. What a file is follows from its content, never from its name."""

from __future__ import annotations

import os
from pathlib import Path

from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording

from . import recording_file, torch_snapshot

_HEAD = 512
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_NOT_OURS = (
    (b"version https://git-lfs", "is a git-lfs pointer, not the file itself: fetch it with `git lfs pull`"),
    (b"\x1f\x8b", "is compressed with gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: unpack it first"),
    (b"{", "is JSON, not a memstrata recording or a torch memory snapshot"),
    (b"[", "is JSON, not a memstrata recording or a torch memory snapshot"),
)
_PAGES = (b"<!doctype", b"<html", b"<?xml")
_PICKLE = b"\x80(]}"


def open_file(path: str | os.PathLike[str]) -> Recording:
    """The recording or snapshot in a file. Raises FormatError with one sentence that names the file and the cause."""
    name = Path(path).name or str(path)
    try:
        return _opened(path, name)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise FormatError(f"{name} cannot be opened: {reason}.") from error
    except MemoryError as error:
        raise FormatError(f"{name} does not fit into memory.") from error


def _opened(path: str | os.PathLike[str], name: str) -> Recording:
    with open(path, "rb") as file:
        head = file.read(_HEAD)
        _refuse_others(head, name)
        if head.startswith(_ZIP):
            return recording_file.read(path)
        data = head + file.read()
    return torch_snapshot.read(data, name)


def _refuse_others(head: bytes, name: str) -> None:
    if not head:
        raise FormatError(f"{name} is empty.")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    for start, what in _NOT_OURS:
        if text.startswith(start):
            raise FormatError(f"{name} {what}.")
    if text.lower().startswith(_PAGES):
        raise FormatError(f"{name} is a web page, not the file itself: the download went wrong.")
    if not head.startswith(_ZIP) and head[0] not in _PICKLE:
        raise FormatError(f"{name} is neither a memstrata recording nor a torch memory snapshot.")
