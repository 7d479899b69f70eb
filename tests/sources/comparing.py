"""The reference for the reader: what the same meaning makes of the dicts that Python's own unpickler builds."""

from __future__ import annotations

import functools
import io
from typing import Any

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.recording import Meta, Recording, build
from memstrata.capture.format.torch_records import read_snapshot
from memstrata.viewer.sources import torch_snapshot
from memstrata.viewer.sources.pickle_stream import WINDOW

from .snapshots import plain_unpickled


def through_dicts(data: bytes) -> Recording:
    """The recording by way of `pickle.Unpickler` and one dict for each entry."""
    return recording_of(plain_unpickled(data), len(data))


def recording_of(value: Any, limit: int) -> Recording:
    """The recording of a snapshot as torch hands it out."""
    strings = StringTable()
    stacks = StackTable(strings)
    read = read_snapshot(value, strings, stacks, limit=limit)
    frames, tree = stacks.freeze()
    meta = Meta(devices=read.devices, allocator_settings=read.settings, has_time=read.has_time,
                problems=tuple(read.problems))  # fmt: skip
    return build(meta, strings, frames=frames, stacks=tree, **read.tables)


def through_columns(data: bytes, window: int = WINDOW, many: int = 0) -> Recording:
    """The recording as the product reads it; small files too with their equal entries read together."""
    return torch_snapshot.read(io.BytesIO(data), len(data), "snap.pickle", window=window, many=many, whole=-1)


def as_it_is(data: bytes, window: int = WINDOW) -> Recording:
    """The recording as the product reads it, which does so at once if the file is small and plain."""
    return torch_snapshot.read(io.BytesIO(data), len(data), "snap.pickle", window=window)


def one_by_one(data: bytes, window: int = WINDOW) -> Recording:
    """The recording as the product reads it from a small file: entry by entry."""
    return through_columns(data, window, many=len(data) + 1)


def content(recording: Recording) -> dict[str, Any]:
    """All a recording says, with strings and stacks in place of their numbers, which may differ."""
    meta = recording.meta
    out: dict[str, Any] = {"devices": meta.devices, "settings": repr(meta.allocator_settings), "time": meta.has_time}
    out["problems"] = [(p.code, p.text, p.count) for p in meta.problems]
    stacks = functools.cache(lambda stack: tuple(recording.stack_frames(stack)) if stack >= 0 else None)
    for name, table in recording.tables():
        for f in () if name in ("frames", "stacks") else schema.columns_of(type(table)):
            values = getattr(table, f.name).tolist()
            if f.metadata["refers"] == "strings":
                values = [recording.strings[i] for i in values]
            elif f.metadata["refers"] == "stacks":
                values = list(map(stacks, values))
            out[f"{name}/{f.name}"] = [repr(v) for v in values] if f.metadata["dtype"].kind == "f" else values
    return out
