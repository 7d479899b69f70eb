"""A stand-in for what the recorder asks of `torch.cuda`, for machines without a GPU.

It checks which calls are made, in which order and on which thread, and that texts reach events. It says nothing about
how a GPU or torch's allocator behaves: that is what `tests/gpu` is for.
"""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest
import torch


class FakeEvent:
    """Knows when it was recorded."""

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.at = -1

    def record(self, stream: Any) -> None:
        self.at, self.stream = time.time_ns(), stream

    def elapsed_time(self, other: FakeEvent) -> float:
        if self.stream != other.stream:
            raise RuntimeError("events of different devices")
        return (other.at - self.at) / 1e6


class FakeCuda:
    """`count` devices; `calls` lists what was asked that may cost something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int = 1, stamps: bool = True) -> None:
        self.calls: list[str] = []
        self.on = False
        self.ring = 1
        self.segments = False
        """Whether each allocation is an allocator segment of its own, with the events of one."""
        self.fails: BaseException | None = None
        self.backend, self.capturing, self.current = "native", False, 0
        self.made, self.traces = [0] * count, [[] for _ in range(count)]  # type: ignore[var-annotated]
        self.alive: list[dict[int, int]] = [{} for _ in range(count)]
        self._address = itertools.count(1 << 20, 1 << 20)
        self._text = threading.local()
        self._install(monkeypatch, stamps)

    def alloc(self, size: int, device: int = 0) -> int:
        """What the allocator does for a tensor."""
        address = next(self._address)
        self.made[device] += 1
        self.alive[device][address] = size
        if self.segments:
            self._event("segment_alloc", address, size, device)
        self._event("alloc", address, size, device)
        return address

    def free(self, address: int, device: int = 0) -> None:
        size = self.alive[device].pop(address)
        for action in ("free_requested", "free_completed"):
            self._event(action, address, size, device)
        if self.segments:
            self._event("segment_free", address, size, device)

    def text(self) -> str:
        """What the calling thread stamps."""
        return getattr(self._text, "value", "")

    def stamp(self, text: str) -> None:
        self._text.value = text

    def switch(self, enabled: str | None = "all", context: str = "all", stacks: str = "all", max_entries: int = 1 << 62,
               device: Any = None) -> None:  # fmt: skip
        """The signature of torch 2.4."""
        self.calls.append(f"history {enabled}" + (f" {context} {stacks} {max_entries}" if enabled else ""))
        self.on, self.ring = enabled is not None, max_entries
        if not self.on:
            self.traces = [[] for _ in self.traces]

    def _event(self, action: str, address: int, size: int, device: int) -> None:
        if self.on:
            event = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time.time_ns() // 1000,
                     "user_metadata": self.text(), "compile_context": "N/A"}  # fmt: skip
            self.traces[device] = [*self.traces[device], event][-self.ring :]

    def _snapshot(self) -> dict[str, Any]:
        self.calls.append("snapshot")
        segments = [
            {
                "device": device, "address": address, "total_size": size, "stream": 0, "segment_type": "large",
                "blocks": [{"address": address, "size": size, "requested_size": size, "state": "active_allocated"}],
            }
            for device, blocks in enumerate(self.alive) for address, size in blocks.items()
        ]  # fmt: skip
        return {"segments": segments, "device_traces": self.traces, "allocator_settings": {}}

    def _synchronize(self, device: int) -> None:
        self.calls.append(f"synchronize {device}")
        if self.fails is not None:
            raise self.fails

    def _memory(self, device: int) -> tuple[int, int]:
        self.calls.append(f"memory {device}")
        return (80 << 30) - sum(self.alive[device].values()) - (1 << 30), 80 << 30

    def _stats(self, device: int) -> dict[str, Any]:
        held = sum(self.alive[device].values())
        return {"allocation": {"all": {"allocated": self.made[device]}}, "reserved_bytes": {"all": {"current": held}}}

    def _install(self, patch: pytest.MonkeyPatch, stamps: bool) -> None:
        properties = type("Properties", (), {"total_memory": 80 << 30})
        for name, value in {
            "is_available": lambda: True, "init": lambda: self.calls.append("init"), "Event": FakeEvent,
            "get_allocator_backend": lambda: self.backend, "is_current_stream_capturing": lambda: self.capturing,
            "device_count": lambda: len(self.made), "memory_stats_as_nested_dict": self._stats,
            "synchronize": self._synchronize, "mem_get_info": self._memory, "current_device": lambda: self.current,
            "current_stream": lambda device: f"stream {device}", "get_device_properties": lambda device: properties,
        }.items():  # fmt: skip
            patch.setattr(torch.cuda, name, value)
        patch.setattr(torch.cuda.memory, "_record_memory_history", self.switch)
        patch.setattr(torch.cuda.memory, "_snapshot", self._snapshot)
        patch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: self.on, raising=False)
        if stamps:
            patch.setattr(torch._C, "_cuda_setMemoryMetadata", self.stamp, raising=False)
            patch.setattr(torch._C, "_cuda_getMemoryMetadata", self.text, raising=False)
