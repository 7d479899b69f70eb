"""Snapshots as torch writes them, entry by entry: this is the file format itself, in small."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

MB = 1_000_000
HEAP = 0x7F00_0000_0000
START_US = 1_700_000_000_000_000

USER = {"name": "forward", "filename": "/home/user/project/model.py", "line": 54}
TORCH = {"name": "_call_impl", "filename": "/env/lib/python3.11/site-packages/torch/nn/modules/module.py", "line": 1790}
FRAMES = [USER, TORCH]

Row = dict[str, Any]


def event(action: str, address: int, size: int, frames: list[Row] | None = None, **more: Any) -> Row:
    """One event of a trace."""
    frames = FRAMES if frames is None else frames
    return {"action": action, "addr": address, "size": size, "stream": 0, "frames": frames, **more}


def alloc(address: int, size: int, **more: Any) -> Row:
    """An allocation."""
    return event("alloc", address, size, **more)


def free(address: int, size: int, **more: Any) -> list[Row]:
    """The two events of a free."""
    return [event(action, address, size, **more) for action in ("free_requested", "free_completed")]


def timed(events: list[Row], start: int = START_US) -> list[Row]:
    """The same events, a microsecond apart."""
    return [{**e, "time_us": start + i} for i, e in enumerate(events)]


def block(address: int, size: int, state: str = "active_allocated", requested: int | None = None, **more: Any) -> Row:
    """A block of a segment."""
    wanted = size if requested is None else requested
    return {"address": address, "size": size, "requested_size": wanted, "state": state, "frames": [], **more}


def segment(blocks: list[Row], device: int = 0, address: int | None = None, **more: Any) -> Row:
    """A segment that its blocks fill."""
    active = sum(b["size"] for b in blocks if b["state"] != "inactive")
    address = address if address is not None else (blocks[0]["address"] if blocks else HEAP)
    return {
        "device": device, "address": address, "total_size": sum(b["size"] for b in blocks), "allocated_size": active,
        "active_size": active, "requested_size": active, "stream": 0, "segment_type": "large",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks, **more,
    }  # fmt: skip


def snapshot(segments: list[Row], traces: list[list[Row]], **more: Any) -> Row:
    """The whole file."""
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, "roundup_power2_divisions": {"1": 0}}
    return {
        "segments": segments,
        "device_traces": traces,
        "allocator_settings": settings,
        "external_annotations": [],
        **more,
    }


def written(folder: Path, value: Any, name: str = "snap.pickle", protocol: int = 4) -> Path:
    """The path of a file that holds this value as a pickle, or these bytes."""
    path = folder / name
    path.write_bytes(value if isinstance(value, bytes) else pickle.dumps(value, protocol))
    return path


class _Refusing(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"refused {module_name}.{global_name}")


def plain_unpickled(data: bytes) -> Any:
    """What Python's own unpickler makes of plain values: the reference for the reader."""
    return _Refusing(io.BytesIO(data), encoding="utf-8", errors="replace").load()


def small() -> Row:
    """A snapshot with a little of everything."""
    blocks = [block(HEAP, 512, requested=500, frames=FRAMES), block(HEAP + 512, 2 * 1024 * 1024 - 512, "inactive")]
    events = [event("segment_alloc", HEAP, 2 * 1024 * 1024), alloc(HEAP, 500)]
    events += [alloc(HEAP + 1024 * i, 1000 + i) for i in range(1, 5)]
    events += [e for i in range(1, 5) for e in free(HEAP + 1024 * i, 1000 + i, frames=[])]
    oom = {"action": "oom", "device_free": 5, "size": 5 * MB, "stream": 0, "frames": FRAMES}
    notes = [{"stage": "START", "name": "Optimizer.step#AdamW.step", "device": 0, "time_us": START_US + 3}]
    return snapshot([segment(blocks)], [timed([*events, oom])], external_annotations=notes)
