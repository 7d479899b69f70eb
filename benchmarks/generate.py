"""A snapshot of any size in the exact format of torch's writer, with the sharing of real ones.

About 183 bytes an event: stacks of some 32 frames out of 600 shared frame dicts, one list of frames for each captured
stack, which an allocation shares with its segment, its live block, and a free with its completion.
"""

from __future__ import annotations

import gc
import pickle
import random
from pathlib import Path
from typing import Any

from memstrata.viewer.arguments import script_parser, whole_number

LIBRARY = "/home/user/project/.venv/lib/python3.11/site-packages/torch/nn/modules"
START_US = 1_783_874_667_000_000
HEAP = 0x7F00_0000_0000
FRAMES, STACKS, LIVE = 600, 190, 2_000
_ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc")
_SIZES = (8, 512, 4096, 16_384, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 3 << 16)

Row = dict[str, Any]


def frames(rng: random.Random) -> list[Row]:
    """The frame dicts of a program: operators, interpreter, and the user's modules."""
    out = []
    for i in range(FRAMES):
        if i % 5 < 3:
            name = (
                f"at::_ops::op{i}::redispatch(c10::DispatchKeySet, at::Tensor const&, std::optional<c10::ScalarType>)"
            )
            out.append({"name": name, "filename": "??", "line": 0})
        else:
            out.append({"name": f"forward_{i}", "filename": f"{LIBRARY}/mod{i % 40}.py", "line": rng.randint(1, 2000)})
    return out


def stacks(rng: random.Random, pool: list[Row]) -> list[list[Row]]:
    """The distinct stacks: leaves that differ above callers that are shared."""
    callers = [pool[30 * i : 30 * i + 26] for i in range(6)]
    return [rng.sample(pool[200:], rng.choice((6, 9, 13, 18))) + rng.choice(callers) for _ in range(STACKS)]


class _Trace:
    """Allocations and frees of a program that keeps some 2,000 tensors alive."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.stacks = rng, stacks(rng, frames(rng))
        self.events: list[Row] = []
        self.alive: dict[int, tuple[int, list[Row]]] = {}
        self.spare: dict[int, list[int]] = {}
        self.segments: list[tuple[int, int]] = []
        self.next, self.time = HEAP, START_US

    def event(self, action: str, address: int, size: int, own: list[Row]) -> None:
        self.time += self.rng.randint(1, 30)
        self.events.append({
            "action": action, "addr": address, "size": size, "stream": 0, "time_us": self.time,
            "compile_context": b"N/A".decode(), "user_metadata": "", "frames": own,
        })  # fmt: skip

    def allocate(self) -> None:
        size = self.rng.choice(_SIZES) + 8 * self.rng.randint(0, 40)
        own = list(self.rng.choice(self.stacks))
        room = max(512, (size + 511) & ~511)
        spare = self.spare.setdefault(room, [])
        if not spare:
            self.event("segment_alloc", self.next, room, own)
            self.segments.append((self.next, room))
            spare.append(self.next)
            self.next += room
        address = spare.pop()
        self.event("alloc", address, size, own)
        self.alive[address] = (size, own)

    def free(self) -> None:
        address = self.rng.choice(self.order) if self.rng.random() < 0.02 else next(iter(self.alive))
        size, _ = self.alive.pop(address)
        own = list(self.rng.choice(self.stacks))
        self.event("free_requested", address, size, own)
        self.event("free_completed", address, size, own)
        self.spare[max(512, (size + 511) & ~511)].append(address)

    @property
    def order(self) -> list[int]:
        return list(self.alive)

    def segment(self, address: int, room: int) -> Row:
        size, own = self.alive.get(address, (0, []))
        state = "active_allocated" if address in self.alive else "inactive"
        block = {"address": address, "size": room, "requested_size": size, "state": state, "frames": own}
        active = room if address in self.alive else 0
        return {
            "device": 0, "address": address, "total_size": room, "allocated_size": active, "active_size": active,
            "requested_size": size, "stream": 0, "segment_type": "large" if room > 1 << 20 else "small",
            "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block],
        }  # fmt: skip


def snapshot(events: int, seed: int = 0) -> Row:
    """What `torch.cuda.memory._snapshot()` would return."""
    trace = _Trace(random.Random(seed))
    while len(trace.events) < events:
        trace.allocate() if len(trace.alive) < LIVE else trace.free()
    return {
        "segments": [trace.segment(address, room) for address, room in trace.segments],
        "device_traces": [trace.events],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
        "external_annotations": [
            {"stage": "START", "name": "Optimizer.step#AdamW.step", "device": 0, "time_us": START_US + 1000}
        ],
    }


def write(events: int, path: Path) -> None:
    """Write a snapshot with about so many events."""
    gc.disable()
    with open(path, "wb") as file:
        pickle.dump(snapshot(events), file, protocol=4)
    gc.enable()


if __name__ == "__main__":
    parser = script_parser(__doc__)
    parser.add_argument("events", type=whole_number, help="how many, such as 1e6")
    parser.add_argument("file", type=Path, help="the snapshot to write")
    asked = parser.parse_args()
    try:
        write(asked.events, asked.file)
    except OSError as error:
        parser.error(f"{asked.file}: {(error.strerror or str(error)).lower()}")
