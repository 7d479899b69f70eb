"""Snapshots that nobody would write down by hand, and torch's own way of pickling them."""

from __future__ import annotations

import pickle
import pickletools
import random
import struct
from typing import Any

from .snapshots import HEAP, START_US, Row

ACTIONS = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
           "segment_unmap", "snapshot", "oom", "warp"]  # fmt: skip
_TEXTS = ["", "N/A", "step 3", "0/0", "layer 7 of the model", "größer", "x" * 300, "\0", "\ud800"]
_INTEGERS = [0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**40 + 5, 2**47]
_EXTRAS: list[Any] = [(0, 0), (3, 70_000), None, True, False, 1.5, "extra", 7, 2**40, (1,), ((1, 2), "x", None)]


def frames(rng: random.Random) -> list[Row]:
    """A pool of frame dicts."""
    keys = ["name", "filename", "line"]
    rng.shuffle(keys)
    pool = []
    for i in range(rng.randint(1, 30)):
        values = {
            "name": f"function_{i}",
            "filename": rng.choice(["??", "/home/u/m.py", f"/x/f{i}.cpp"]),
            "line": i * 9,
        }
        pool.append({key: values[key] for key in keys})
    if rng.random() < 0.3:
        pool[0] |= {"fx_node_op": "call_module", "fx_node_name": "linear", "fx_original_trace": "x = linear(y)"}
    return pool


def snapshot(rng: random.Random, most: int = 120) -> Any:
    """A snapshot with entries shared, missing, in any order of keys, on several devices; sizes stay within reason."""
    pool = frames(rng)
    lists: list[Any] = [[], [pool[0]]] + [rng.choices(pool, k=rng.randint(1, 40)) for _ in range(rng.randint(1, 8))]
    order = ["action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "frames", "pool_id"]
    order = order[: rng.choice([4, 5, 8, 9])] + ([] if rng.random() < 0.2 else ["frames"])
    order = list(dict.fromkeys(order))
    if rng.random() < 0.4:
        rng.shuffle(order)
    odd = rng.choice([0.0, 0.02, 0.3])
    events = [_event(rng, i, order, lists, odd) for i in range(rng.randint(0, most))]
    if events and rng.random() < 0.2:
        events += rng.choices(events, k=5)
    traces: list[Any] = [[] for _ in range(rng.randint(1, 3))]
    at = 0
    for trace in traces:
        step = rng.randint(0, len(events) - at)
        trace += events[at : at + step]
        at += step
    traces[rng.randrange(len(traces))] += events[at:]
    segments = [_segment(rng, i, lists) for i in range(rng.randint(0, 6))]
    whole = [("segments", segments), ("device_traces", traces), ("allocator_settings", {"expandable_segments": False}),
             ("external_annotations", [{"stage": "START", "name": "step", "time_us": START_US + 3}])]  # fmt: skip
    rng.shuffle(whole)
    return segments if segments and rng.random() < 0.05 else dict(whole)


def _event(rng: random.Random, i: int, order: list[str], lists: list[Any], odd: float) -> Row:
    own = list(rng.choice(lists)) if rng.random() < 0.7 else rng.choice(lists)
    values: Row = {
        "action": rng.choice(ACTIONS), "addr": HEAP + 512 * rng.choice(_INTEGERS[:9]), "size": rng.choice(_INTEGERS),
        "stream": rng.choice([0, 0, 0, 2**46 + 16]), "time_us": START_US + 2 * i, "frames": own, "pool_id": (0, i % 3),
        "compile_context": rng.choice(["N/A", f"{i % 3}/0"]), "user_metadata": rng.choice(_TEXTS[:3]),
    }  # fmt: skip
    keys = list(order)
    if rng.random() < odd:
        change = rng.randrange(7)
        if change == 0:
            rng.shuffle(keys)
        elif change == 1 and len(keys) > 4:
            keys.remove(rng.choice(keys[3:]))
        elif change == 2:
            values["stream"] = rng.choice([2**63 + 8, 2**64 - 1, -1])
        elif change == 3:
            values |= {"user_metadata": rng.choice(_TEXTS), "compile_context": rng.choice([None, 3, *_TEXTS])}
        elif change == 4:
            values["extra"] = rng.choice(_EXTRAS)
            keys.insert(rng.randint(0, len(keys)), "extra")
        elif change == 5:
            values["frames"] = [dict(f) for f in own]
        else:
            values = {"action": "oom", "device_free": 2**33, "size": 5, "stream": 0, "time_us": START_US + 2 * i}
            return values
    return {key: values[key] for key in keys}


def _segment(rng: random.Random, i: int, lists: list[Any]) -> Row:
    blocks, address = [], HEAP + (i << 32)
    for _ in range(rng.randint(0, 8)):
        size = 512 * rng.randint(1, 9000)
        block: Row = {"address": address, "size": size, "requested_size": size - rng.randint(0, 511)}
        block |= {"state": rng.choice(["active_allocated", "inactive", "active_awaiting_free", "strange"])}
        address += size
        if rng.random() < 0.1:
            del block["address"]
        if rng.random() < 0.8:
            block["frames"] = rng.choice(lists)
        blocks.append(block)
    return {
        "device": rng.choice([0, 0, 2]), "address": HEAP + (i << 32), "total_size": address - HEAP - (i << 32),
        "stream": 0, "segment_type": rng.choice(["small", "large"]), "segment_pool_id": (0, 0), "is_expandable": False,
        "frames": rng.choice(lists), "blocks": blocks,
    }  # fmt: skip


def pickled(rng: random.Random, value: Any) -> bytes:
    """The value as one of those who write snapshots would pickle it."""
    how = rng.randrange(8)
    if how == 6:
        return CppWriter().write(value)
    if how == 7:
        return pickletools.optimize(pickle.dumps(value, rng.choice([2, 4])))
    return pickle.dumps(value, [4, 4, 2, 3, 5, rng.randint(0, 1)][how])


class CppWriter:
    """torch's C++ pickler: protocol 2; notes a container behind its end if it occurs twice, and equal texts once."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        self._noted: dict[Any, int] = {}
        self._seen: set[int] = set()
        self._shared: set[int] = set()

    def write(self, value: Any) -> bytes:
        """The pickle."""
        self._count(value)
        self._out.append(b"\x80\x02")
        self._value(value)
        return b"".join([*self._out, b"."])

    def _count(self, value: Any) -> None:
        if isinstance(value, (dict, list, tuple)):
            if id(value) in self._seen:
                self._shared.add(id(value))
                return
            self._seen.add(id(value))
            if isinstance(value, dict) and "frames" in value:
                self._shared |= {id(value), id(value["frames"])}  # the writer itself still holds both
            for entry in value.values() if isinstance(value, dict) else value:
                self._count(entry)

    def _value(self, value: Any) -> None:
        if isinstance(value, (dict, list, tuple)):
            if id(value) in self._noted:
                return self._get(self._noted[id(value)])
            self._container(value)
            if id(value) in self._shared:
                self._noted[id(value)] = self._put()
        elif isinstance(value, str):
            if value in self._noted:
                return self._get(self._noted[value])
            data = value.encode("utf-8", "surrogatepass")
            self._out.append(b"X" + struct.pack("<I", len(data)) + data)
            self._noted[value] = self._put()
        else:
            self._out.append(self._scalar(value))
        return None

    def _container(self, value: Any) -> None:
        if isinstance(value, dict):
            self._out.append(b"}(" if value else b"}")
            for key, entry in value.items():
                self._value(key)
                self._value(entry)
            self._out.append(b"u" if value else b"")
        elif isinstance(value, list):
            self._out.append(b"](")
            for entry in value:
                self._value(entry)
            self._out.append(b"e")
        else:
            self._out.append(b"(" if len(value) > 3 else b"")
            for entry in value:
                self._value(entry)
            self._out.append({0: b")", 1: b"\x85", 2: b"\x86", 3: b"\x87"}.get(len(value), b"t"))

    def _scalar(self, value: Any) -> bytes:
        if value is None:
            return b"N"
        if isinstance(value, bool):
            return b"\x88" if value else b"\x89"
        if isinstance(value, float):
            return b"G" + struct.pack(">d", value)
        if not -(2**63) <= value < 2**63:
            return pickle.dumps(value, 2)[2:-1]
        for code, form, low, high in (b"K", "<B", 0, 255), (b"M", "<H", 0, 65535), (b"J", "<i", -(2**31), 2**31 - 1):
            if low <= value <= high:
                return code + struct.pack(form, value)
        return b"\x8a\x08" + struct.pack("<q", value)

    def _put(self) -> int:
        number = len(self._noted)
        self._out.append(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))
        return number

    def _get(self, number: int) -> None:
        self._out.append(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))
