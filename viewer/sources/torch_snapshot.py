"""Torch memory snapshots (`torch.cuda.memory._dump_snapshot`). Untrusted: nothing in a file may import or call."""

from __future__ import annotations

import contextlib
import gc
import io
import pickle
from collections.abc import Iterator
from typing import Any

from memstrata.capture.format.checks import check_recording
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Meta, Recording, build
from memstrata.capture.format.torch_records import is_snapshot, read_snapshot

from . import pickle_scan

_CHECKPOINT_MAGIC = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""The first value of what torch.save wrote before it wrote zip files."""

_DAMAGE = (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError,
           OverflowError, MemoryError, RecursionError, ImportError)  # fmt: skip


class _Refused(Exception):
    """The pickle names something outside itself."""


class _PlainUnpickler(pickle.Unpickler):
    """Builds plain values only. The scan has refused everything else before this runs; this refuses it again."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise _Refused(f"{module_name}.{global_name}")

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused("something outside the file")


def read(data: bytes, name: str) -> Recording:
    """The recording of a snapshot file's content; `name` is used in sentences. Raises FormatError."""
    if data[2:16].startswith(_CHECKPOINT_MAGIC):
        raise FormatError(f"{name} is a torch checkpoint, not a memory snapshot.")
    with _no_cycle_collection():
        return _read(data, name)


def _read(data: bytes, name: str) -> Recording:
    snapshot = _unpickled(data, name)
    if not is_snapshot(snapshot):
        raise FormatError(f"{name} is a pickle, but not a torch memory snapshot: it has no list of segments.")
    try:
        return _recording(snapshot, limit=len(data))
    except _DAMAGE as error:
        raise FormatError(f"{name} cannot be read as a memory snapshot: {cause(error)}.") from error


@contextlib.contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """A snapshot is millions of small objects without a cycle; looking for one over and over takes a third longer."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _recording(snapshot: Any, limit: int) -> Recording:
    strings = StringTable()
    stacks = StackTable(strings)
    read = read_snapshot(snapshot, strings, stacks, limit=limit)
    frames, tree = stacks.freeze()
    meta = Meta(
        kind="snapshot",
        source="snapshot",
        devices=read.devices,
        allocator_settings=read.settings,
        has_reserved=True,
        has_time=read.has_time,
        problems=tuple(read.problems),
    )
    recording = build(meta, strings, frames=frames, stacks=tree, **read.tables)
    check_recording(recording)
    return recording


def _unpickled(data: bytes, name: str) -> Any:
    found = pickle_scan.scan(data)
    if found == pickle_scan.TRUNCATED:
        raise FormatError(f"{name} is cut short: the snapshot in it does not end.")
    if found == pickle_scan.REFUSED:
        raise FormatError(f"{name} was not opened: it asks to build objects, which no memory snapshot does.")
    if found == pickle_scan.DAMAGED:
        raise FormatError(f"{name} is damaged: it is not a pickle from some point on.")
    try:
        return _PlainUnpickler(io.BytesIO(data), encoding="utf-8", errors="replace").load()
    except _Refused as error:
        text = f"{name} was not opened: it asks for {cause(error)}, and a memory snapshot names nothing outside itself."
        raise FormatError(text) from error
    except _DAMAGE as error:
        raise FormatError(f"{name} is damaged and cannot be read as a memory snapshot ({cause(error)}).") from error


def cause(error: BaseException) -> str:
    """An error's text as part of a sentence."""
    printable = "".join(c if c.isprintable() else " " for c in str(error))
    text = " ".join(printable.split()).strip(". ") or "there is no memory for what it claims to hold"
    return text if len(text) <= 120 else text[:117] + "..."
