"""Files packed with gzip or zstd, unpacked into a temporary file that vanishes when it is closed."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import tempfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from memstrata.capture.format.problems import FormatError

from .progress import Progress

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
UNPACKED_PER_BYTE = 100
"""Bytes unpacked for each byte packed, at most, beyond `UNPACKED_FREE`; a snapshot packs to about a twentieth,
and none of those seen to less than a fortieth."""
UNPACKED_FREE = 8 << 20
"""What is unpacked can cost its many times in memory, so that a small file must not become a large one."""
_PART = 1 << 20


@contextlib.contextmanager
def unpacked(file: BinaryIO, size: int, name: str, progress: Progress) -> Iterator[tuple[BinaryIO, int]]:
    """(the unpacked content as an open file, its size), of a packed file of `size` bytes. Raises FormatError."""
    head = file.read(4)
    file.seek(0)
    kind = "gzip" if head.startswith(GZIP) else "zstd"
    with tempfile.TemporaryFile() as target, _opened(file, kind, name) as packed:
        limit, total = UNPACKED_FREE + UNPACKED_PER_BYTE * size, 0
        while part := _part(packed, kind, name):
            total += len(part)
            if total > limit:
                raise FormatError(f"{name} unpacks to far more than a recording or a snapshot holds.")
            target.write(part)
            progress("Unpacking", file.tell() / max(size, 1))
        target.seek(0)
        yield target, total


def _opened(file: BinaryIO, kind: str, name: str) -> Any:
    if kind == "gzip":
        return gzip.GzipFile(fileobj=file)
    try:
        return importlib.import_module("compression.zstd").ZstdFile(file)  # in the standard library from 3.14 on
    except ImportError:
        text = f"{name} is compressed with zstd, which this Python cannot read: unpack it first with `unzstd`."
        raise FormatError(text) from None


def _part(packed: Any, kind: str, name: str) -> bytes:
    try:
        return bytes(packed.read(_PART))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise FormatError(f"{name} is a {kind} file that is damaged or cut short.") from error
    except Exception as error:
        if type(error).__name__ == "ZstdError":
            raise FormatError(f"{name} is a {kind} file that is damaged or cut short.") from error
        raise
