"""Torch memory snapshots (`torch.cuda.memory._dump_snapshot`). Untrusted: nothing in a file may import or call."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np

from memstrata.capture.format.checks import check_recording
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Meta, Recording, build
from memstrata.capture.format.torch_records import ENTRY_FIELDS, is_snapshot, read_snapshot

from . import pickle_whole
from .pickle_errors import PickleProblem, plain
from .pickle_machine import Machine
from .pickle_records import RecordReader
from .pickle_stream import WINDOW, PickleStream
from .progress import Progress

_CHECKPOINT_MAGIC = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""The first value of what torch.save wrote before it wrote zip files."""

MANY = 96 << 10
"""Bytes from which on looking for stretches of equal entries saves more than it costs."""

_TRACES = b"\x8c\x0ddevice_traces\x94"
_LATER_ENTRY = b"}\x94(j"
"""What all events begin with but the first, and little else, where more than 255 values are in front of them."""
_EVENTS = 3000
"""From so many on, reading them together saves more than it costs."""
_LARGEST_KEPT = (32 << 20) - (1 << 16)
"""A little less than the most that glibc keeps for later instead of giving it back to the system."""

_DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


def read(
    file: BinaryIO,
    size: int,
    name: str,
    progress: Progress | None = None,
    window: int = WINDOW,
    many: int = MANY,
    whole: int = pickle_whole.MOST,
) -> Recording:
    """The recording in an open snapshot file of `size` bytes; `name` is used in sentences.

    Raises FormatError, or `Cancelled`. `window` is how many bytes are read at a time; in a file of `many` bytes or more
    equal entries are read together; one of `whole` bytes or less is read at once if it is a plain one.
    """
    if file.read(16)[2:].startswith(_CHECKPOINT_MAGIC):
        raise FormatError(f"{name} is a torch checkpoint, not a memory snapshot.")
    file.seek(0)
    progress = progress or Progress()
    if size >= MANY:
        np.empty(_LARGEST_KEPT, np.uint8)  # once one such went, glibc keeps what is freed: a tenth less time
    with _no_cycle_collection():
        if size <= whole:
            recording = _at_once(file, size, progress)
            if recording is not None:
                return recording
            file.seek(0)
        stream = PickleStream(file, size, progress, window)
        snapshot = _value(stream, size, name, RecordReader(ENTRY_FIELDS) if size >= many else None)
        if not is_snapshot(snapshot):
            raise FormatError(f"{name} is a pickle, but not a torch memory snapshot: it has no list of segments.")
        progress("Building tables", 0.0)
        try:
            return recording_of(snapshot, size, progress)
        except _DAMAGE as error:
            raise FormatError(f"{name} cannot be read as a memory snapshot: {cause(error)}.") from error


def _at_once(file: BinaryIO, size: int, progress: Progress) -> Recording | None:
    """The recording in a small and plain file; None for any other, which is to be read again: its sentence is found by
    that, or many events are read together."""
    progress("Reading", 0.0)
    data = file.read(size)
    snapshot = pickle_whole.value(data) if data.count(_LATER_ENTRY) < _EVENTS else None
    if snapshot is None or not is_snapshot(snapshot):
        return None
    progress("Reading", 1.0)
    with contextlib.suppress(*_DAMAGE):
        return recording_of(snapshot, size, progress)
    return None


def _value(stream: PickleStream, size: int, name: str, reader: RecordReader | None) -> Any:
    try:
        return Machine(stream, size, reader).run(_segments_at_once if reader is not None else None)
    except PickleProblem as problem:
        raise FormatError(f"{name} {problem}") from problem


def _segments_at_once(machine: Machine) -> int:
    """Runs the segments in front of the traces of a snapshot, where they are plain, in a fraction of the time."""
    stream = machine.stream
    end = stream.buffer.find(_TRACES, 0, stream.end)
    inside = stream.cuts and stream.cuts[0] < 2  # a frame ends inside of the first instruction
    if end < 0 or inside or stream.buffer[:2] not in pickle_whole.PROTOCOLS:
        return 0
    cuts = [2, *(cut for cut in stream.cuts if 2 < cut < end), end]
    left = pickle_whole.segments([stream.buffer[a:b] for a, b in pairwise(cuts)])
    if left is None:
        return 0
    memo, unchanged = left
    machine.has_run(end, [memo[0], memo[1], memo[2]], [1], memo, unchanged)
    return end


@contextlib.contextmanager
def _no_cycle_collection() -> Iterator[None]:
    """What is built is many small objects without a cycle; looking for one over and over takes a third longer."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def recording_of(snapshot: Any, limit: int, progress: Progress) -> Recording:
    """The recording in a snapshot as Python has it; `limit` bounds how many events and blocks there may be."""
    strings = StringTable()
    stacks = StackTable(strings)
    read = read_snapshot(snapshot, strings, stacks, limit=limit)
    progress("Building tables", 0.7)
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
    progress("Building tables", 1.0)
    return recording


def cause(error: BaseException) -> str:
    """An error's text as part of a sentence."""
    return plain(str(error)).strip(". ") or "there is no memory for what it claims to hold"
