"""Recordings written down row by row, as the recorder writes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from memstrata.capture.format import schema
from memstrata.capture.format.checks import check_recording
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.recording import Device, Meta, Recording, build
from memstrata.capture.format.schema import NONE, Action, Fate, Phase, StorageKind
from memstrata.viewer.model.run import Run

USER = ("step", "/home/user/project/train.py", 22)
TORCH = ("_call_impl", "torch/nn/modules/module.py", 1790)
MALLOC = ("c10::cuda::CUDACachingAllocator::malloc(void**)", "??", 0)
EMPTY = ("at::_ops::empty_strided::call(c10::ArrayRef<long>)", "", 0)
"""Frames of stacks, each as (function, file, line)."""


@dataclass
class Step:
    """Collects rows; times are Unix ns, small numbers will do."""

    strings: StringTable = field(default_factory=StringTable)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    modules: dict[str, int] = field(default_factory=dict)
    module_rows: list[tuple[Any, ...]] = field(default_factory=list)
    layers: list[tuple[Any, ...]] = field(default_factory=list)
    spans: list[tuple[Any, ...]] = field(default_factory=list)
    saved_rows: list[tuple[Any, ...]] = field(default_factory=list)
    known_rows: list[tuple[Any, ...]] = field(default_factory=list)
    blocks: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stacks = StackTable(self.strings)

    def frames(self, *innermost_first: tuple[str, str, int]) -> int:
        """A stack of (function, file, line)."""
        return self.stacks.stack([self.stacks.frame(*frame) for frame in reversed(innermost_first)])

    def alloc(self, address: int, size: int, time: int, stack: int = NONE, device: int = 0, stream: int = 0) -> None:
        """An allocation."""
        self.events.append((Action.alloc, device, address, size, time, stack, stream, NONE, NONE, NONE))

    def free(self, address: int, size: int, time: int, device: int = 0) -> None:
        """A completed free."""
        self.events.append((Action.free_completed, device, address, size, time, NONE, 0, NONE, NONE, NONE))

    def module(self, path: str, cls: str = "Linear") -> int:
        """A module; its parent is the longest path before it."""
        parent = self.modules.get(path.rpartition(".")[0], NONE) if path else NONE
        self.modules[path] = len(self.modules)
        self.module_rows.append((parent, self.strings.intern(path), self.strings.intern(cls), False))
        return self.modules[path]

    def layer(self, path: str, kind: str = "Block", layer_list: int = 0) -> int:
        """A layer, and the module that it is."""
        row = self.module(path, kind)
        index = sum(1 for layer in self.layers if layer[0] == layer_list)
        self.layers.append((layer_list, index, row, self.strings.intern(kind)))
        return row

    def span(self, phase: Phase, start: int, end: int, module: str | None = None) -> None:
        """A module that ran, or a phase of the step."""
        row = NONE if module is None else self.modules[module]
        self.spans.append((row, phase, 0, start, end, NONE, NONE))

    def saved(
        self, address: int, size: int, time: int, fate: Fate = Fate.kept, module: str | None = None,
        storage: int | None = None, known: int = NONE, phase: Phase = Phase.forward,
    ) -> None:  # fmt: skip
        """A tensor that autograd packed."""
        row = NONE if module is None else self.modules[module]
        text = self.strings.intern("4,4")
        number = len(self.saved_rows) if storage is None else storage
        self.saved_rows.append(
            (time, NONE, row, phase, fate, NONE, number, known, 0, address, size, size, text, text, text, NONE, NONE)
        )

    def known(
        self, kind: StorageKind, address: int, size: int, start: int, end: int = NONE, module: str | None = None,
        device: int = 0,
    ) -> None:  # fmt: skip
        """A storage that the recorder could name."""
        row = NONE if module is None else self.modules[module]
        name = self.strings.intern(kind.name)
        self.known_rows.append((kind, device, address, size, name, row, start, end))

    def recording(self, device: str = "cuda:0", devices: int = 1, **meta: Any) -> Recording:
        """The recording, checked as if it came from a file. With blocks, an allocator reported an end state."""
        frames, stacks = self.stacks.freeze()
        total = sum(size for _, size in self.blocks)
        heap = [(0, 0, total, total, total, 0, 0, 0, False, False, NONE)] if self.blocks else []
        blocks = [(0, address, size, size, schema.BlockState.active_allocated, NONE) for address, size in self.blocks]
        tables = {
            "events": schema.from_rows(schema.Events, self.events),
            "modules": schema.from_rows(schema.Modules, self.module_rows),
            "layers": schema.from_rows(schema.Layers, self.layers),
            "spans": schema.from_rows(schema.Spans, self.spans),
            "saved_tensors": schema.from_rows(schema.SavedTensors, self.saved_rows),
            "known_storages": schema.from_rows(schema.KnownStorages, self.known_rows),
            "allocator_segments": schema.from_rows(schema.AllocatorSegments, heap),
            "blocks": schema.from_rows(schema.Blocks, blocks),
        }
        names = tuple(Device(device.replace("0", str(i)), i) for i in range(devices))
        source = device.split(":")[0]
        whole = Meta(source=source, devices=names, **{"has_reserved": bool(self.blocks), **meta})
        recording = build(whole, self.strings, frames=frames, stacks=stacks, **tables)
        check_recording(recording)
        return recording

    def run(self, **meta: Any) -> Run:
        """The run of the recording."""
        return Run(self.recording(**meta))


def two_layers() -> Step:
    """A model with two layers and a head, and a step of 10,000 ns: forward, backward, optimizer."""
    step = Step()
    step.module("", "Model")
    step.module("layers", "ModuleList")
    for i in range(2):
        step.layer(f"layers.{i}")
        step.module(f"layers.{i}.up")
    step.module("head")
    step.span(Phase.forward, 0, 4000)
    step.span(Phase.forward, 100, 1000, "layers.0")
    step.span(Phase.forward, 200, 300, "layers.0.up")
    step.span(Phase.forward, 1100, 2000, "layers.1")
    step.span(Phase.forward, 2100, 3000, "head")
    step.span(Phase.backward, 4001, 8000)
    step.span(Phase.backward, 5000, 6000, "layers.1")
    step.span(Phase.recompute, 6100, 6400)
    step.span(Phase.recompute, 6100, 6400, "layers.0")
    step.span(Phase.backward, 6500, 7500, "layers.0")
    step.span(Phase.optimizer, 8001, 10_000)
    return step
