"""`Run`: everything the views ask of one device of one recording. Immutable; each answer is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np

from memstrata.capture.format.problems import Problem, merge
from memstrata.capture.format.recording import Device, Recording
from memstrata.capture.format.schema import B1, I64, NONE, Category, Fate, Phase, Severity

from . import curves, saved
from .allocations import Allocations
from .attribution import Attribution, Facts, attribute
from .called import Called
from .curves import Changes, at_position, at_positions, changes_of, live_bytes
from .endstate import EndState, contradictions, end_state
from .events import DeviceEvents, device_events, moves
from .filters import matching
from .grouping import GROUPINGS, Grouping
from .inference import Inferred, Why, infer
from .inference_sites import module_frames, operator_frames
from .layers import LayerTree, layer_tree
from .lifetimes import pair
from .live_set import LiveSet, live_set
from .outliving import kept_by_views, outlived
from .passes import Passes, passes
from .query import ACTIVATIONS
from .recomputed import Rematerialized, disagreement, rematerialized
from .spans import SpanTable, span_table

T = TypeVar("T")
Seconds = np.ndarray[tuple[int], np.dtype[np.float64]]

NO_DEVICE = Device("no device", 0)
"""Stands in where a file lists no device at all (an empty snapshot)."""


class Run:
    """One device of one recording. `name` is what people call the file, `path` where it was read."""

    def __init__(
        self, recording: Recording, device_row: int | None = None, name: str = "", path: str = "",
        called: Called | None = None,
    ) -> None:  # fmt: skip
        self.recording = recording
        self.device_row = default_device(recording) if device_row is None else device_row
        self.called = called or Called(name, path)
        self._groupings: dict[str, Grouping] = {}
        self._filtered: dict[str, B1] = {}
        self._once: dict[tuple[object, ...], Any] = {}

    @property
    def name(self) -> str:
        """What the file is called among those open with it; see `called.tell_apart`."""
        return self.called.shown

    def once(self, make: Callable[..., T], *about: object) -> T:
        """What `make(run, *about)` answers, computed once; for what is not asked of every run."""
        key = (make, *about)
        if key not in self._once:
            self._once[key] = make(self, *about)
        return cast(T, self._once[key])

    @property
    def device(self) -> Device:
        """The device looked at; `NO_DEVICE` where the file lists none."""
        devices = self.recording.meta.devices
        return devices[self.device_row] if devices else NO_DEVICE

    def on(self, device_row: int) -> Run:
        """The same recording, another device."""
        return self if device_row == self.device_row else Run(self.recording, device_row, called=self.called)

    @property
    def other_devices(self) -> list[str]:
        """Names of the devices of the file, but this one, that have any bytes."""
        rows = (row for row in range(len(self.recording.meta.devices)) if row != self.device_row)
        return [other.device.name for other in map(self.on, rows) if other.peak_bytes]

    @cached_property
    def events(self) -> DeviceEvents:
        """The events of the device."""
        return device_events(self.recording, self.device_row)

    @property
    def n_events(self) -> int:
        """Positions run from 0 to this."""
        return len(self.events)

    @cached_property
    def _paired(self) -> tuple[Allocations, tuple[Problem, ...]]:
        return pair(self.recording, self.device_row, self.events)

    @property
    def allocations(self) -> Allocations:
        """Every allocation of the device."""
        return self._paired[0]

    @cached_property
    def live(self) -> LiveSet:
        """Checkpoints of what is alive, for those who ask at a thousand positions."""
        return live_set(self.allocations)

    @cached_property
    def changes(self) -> Changes:
        """What each allocation adds and takes away, for sums by any grouping."""
        return changes_of(self.allocations)

    @cached_property
    def curve(self) -> I64:
        """Active (requested) bytes at each position."""
        return live_bytes(self.allocations, self.n_events)

    @cached_property
    def peak_position(self) -> int:
        """The first position with the most active bytes. The event that reached it is the one before."""
        return int(np.argmax(self.curve))

    @property
    def peak_bytes(self) -> int:
        """Active bytes at the peak."""
        return int(self.curve[self.peak_position])

    @property
    def baseline_bytes(self) -> int:
        """Active bytes before the first event."""
        return int(self.curve[0])

    @property
    def end_bytes(self) -> int:
        """Active bytes after the last event."""
        return int(self.curve[-1])

    @cached_property
    def reserved(self) -> I64 | None:
        """Reserved bytes at each position; None where no allocator reports them."""
        return curves.reserved(self.recording, self.device_row, self.events)

    @cached_property
    def end_state(self) -> EndState | None:
        """Reserved memory at the end by use; None where no allocator reports it."""
        return end_state(self.recording, self.device_row)

    @cached_property
    def layers(self) -> LayerTree:
        """The layers and super-blocks of the model; empty where the file has none."""
        return layer_tree(self.recording)

    @cached_property
    def spans(self) -> SpanTable:
        """Which module ran when."""
        return span_table(self.recording, self.events, self.layers)

    @cached_property
    def attribution(self) -> Attribution:
        """Category, layer, phase and module of each allocation."""
        facts = Facts(
            self.recording, self.device_row, self.events, self.allocations, self.layers, self.spans, self.inferred
        )
        return attribute(facts)

    @cached_property
    def inferred(self) -> Inferred | None:
        """What a plain snapshot tells by its stacks, annotations and lifetimes; None for a recording."""
        if self.recording.meta.kind == "recording":
            return None
        return infer(self.recording, self.events, self.allocations)

    @cached_property
    def phases(self) -> list[tuple[Phase, int, int]]:
        """(phase, first position, last position) in order, without gaps: as recorded, else as inferred; [] if none
        is known."""
        return self.spans.phases() or (self.inferred.runs() if self.inferred is not None else [])

    @property
    def phases_inferred(self) -> bool:
        """Whether `phases` were not recorded but inferred."""
        return not len(self.spans) and bool(self.phases)

    def grouping(self, key: str) -> Grouping:
        """The grouping with this key; KeyError if there is none."""
        if key not in self._groupings:
            self._groupings[key] = GROUPINGS[key].make(self)
        return self._groupings[key]

    def filtered(self, text: str) -> B1:
        """Whether each allocation matches the words of a filter; ValueError with one sentence where they make none."""
        mask = self._filtered.get(text)
        if mask is None:
            mask = matching(self, text)
            self._filtered = {text: mask}  # only the last: a filter is typed letter by letter
        return mask  # not looked up again: a job may have asked for other words meanwhile

    def groups_at(self, key: str, positions: Iterable[int]) -> I64:
        """Exact bytes of each group of a grouping at each position; shape [groups, positions]."""
        grouping = self.grouping(key)
        where = np.fromiter(positions, np.int64)
        if len(where) == 1:  # most often the peak or the cursor
            return at_position(self.allocations, grouping.labels, len(grouping), int(where[0]))[:, None]
        return at_positions(self.allocations, grouping.labels, len(grouping), where)

    def categories_at(self, position: int) -> dict[Category, int]:
        """Bytes by category at a position; categories without bytes are left out."""
        alive = self.allocations.alive(position)
        sums = np.zeros(len(Category), np.int64)
        np.add.at(sums, self.attribution.category[alive], self.allocations.bytes[alive])
        return {category: int(sums[category]) for category in Category if sums[category]}

    def coverage_at(self, position: int) -> float:
        """Bytes attributed by what was recorded / active bytes at a position; 1.0 where nothing is active."""
        attribution = self.attribution
        return self._share(position, (attribution.category != Category.unattributed) & ~attribution.inferred, 1.0)

    def inferred_coverage_at(self, position: int) -> float:
        """Bytes whose category is inferred / active bytes at a position: not in `coverage_at`; 0.0 for recordings."""
        return self._share(position, self.attribution.inferred, 0.0)

    def inferred_categories_at(self, position: int) -> dict[Category, int]:
        """Bytes by inferred category at a position; categories without bytes are left out."""
        alive = self.allocations.alive(position)
        alive = alive[self.attribution.inferred[alive]]
        sums = np.zeros(len(Category), np.int64)
        np.add.at(sums, self.attribution.category[alive], self.allocations.bytes[alive])
        return {category: int(sums[category]) for category in Category if sums[category]}

    def not_inferred_at(self, position: int) -> list[tuple[Why, int]]:
        """Why a plain snapshot leaves bytes unattributed at a position, and how many, the most first; [] for a
        recording."""
        if self.inferred is None:
            return []
        alive = self.allocations.alive(position)
        alive = alive[self.attribution.category[alive] == Category.unattributed]
        sums = np.zeros(len(Why), np.int64)
        np.add.at(sums, self.inferred.why[alive], self.allocations.bytes[alive])
        return sorted(((why, int(sums[why])) for why in Why if sums[why]), key=lambda item: -item[1])

    def _share(self, position: int, mask: B1, of_nothing: float) -> float:
        total = int(self.curve[position])
        alive = self.allocations.alive(position)
        return int(self.allocations.bytes[alive][mask[alive]].sum()) / total if total else of_nothing

    def category_curve(self, *categories: Category) -> I64:
        """Bytes of these categories together at each position."""
        mask: B1 = np.isin(self.attribution.category, categories)
        return live_bytes(self.allocations, self.n_events, mask)

    @cached_property
    def activation_curve(self) -> I64:
        """What checkpointing moves, at each position."""
        return self.category_curve(*ACTIVATIONS)

    @cached_property
    def rematerialized(self) -> Rematerialized | None:
        """What was made again, by autograd's packs and by the allocator; None where nothing was recomputed."""
        if not (self.spans.phase == Phase.recompute).any() or not len(self.recording.saved_tensors):
            return None
        return rematerialized(self.recording, self.device_row, self.allocations, self.attribution, self.spans)

    def saved_bytes_by_fate(self) -> dict[Fate, int]:
        """Bytes of distinct saved storages by fate, known storages (parameters, ...) subtracted; all fates. Of the
        pass with the peak, as everything that is said of what was saved."""
        return saved.bytes_by_fate(self.recording, self._saved_in_peak_pass)

    def saved_bytes_by_layer(self, *fates: Fate) -> dict[int, int]:
        """Bytes of distinct saved storages of these fates (default: kept) by layer, -1 outside layers."""
        return saved.bytes_by_layer(self.recording, self.layers, fates or (Fate.kept,), self._saved_in_peak_pass)

    @cached_property
    def _saved_in_peak_pass(self) -> B1:
        return self.passes.in_peak_pass(self.recording.saved_tensors.time)

    @cached_property
    def passes(self) -> Passes:
        """The forwards through the model, each with its backward."""
        return passes(self.recording, self.events, self.spans, self.peak_position)

    def time_of(self, position: int) -> float:
        """Seconds from the first event to the event that led to this position; NaN without times."""
        time = self.events.time
        if time is None:
            return float("nan")
        return float(time[max(position - 1, 0)] - time[0]) / 1e9

    @property
    def has_times(self) -> bool:
        """Whether the events have times, and these do not only give the order."""
        return self.events.time is not None and self.recording.meta.has_durations

    @cached_property
    def times(self) -> Seconds | None:
        """`time_of` every position, never decreasing; None where there are no times."""
        return self.put_times(np.zeros(self.n_events + 1)) if self.has_times else None

    def put_times(self, out: Seconds) -> Seconds:
        """Writes `times` over zeros of the same length; they stay where there are no times. Returns them."""
        time = self.events.time
        if time is not None and self.has_times:
            np.subtract(time, time[0], out=out[1:])
            out[1:] /= 1e9
        return out

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """What the file lets a view show."""
        recording, segments = self.recording, self.recording.allocator_segments
        has = {
            "time": self.has_times,
            "timeline": moves(self.events) > 1,
            "reserved": recording.meta.has_reserved,
            "layers": len(recording.layers) > 0,
            "spans": len(recording.spans) > 0,
            "saved_tensors": len(recording.saved_tensors) > 0,
            "known_storages": len(recording.known_storages) > 0,
            "stacks": bool((self.allocations.stack >= 0).any()),
            "operators": self.inferred is None and bool((operator_frames(recording) != NONE).any()),
            "pools": recording.meta.has_reserved and bool((segments.device == self.device_row).any()),
            "inferred_phases": self.phases_inferred,
            "inferred_operators": self.inferred is not None and bool((operator_frames(recording) != NONE).any()),
            "inferred_modules": self.inferred is not None and bool((module_frames(recording) != NONE).any()),
        }
        return frozenset(name for name, present in has.items() if present)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What the recording or the reading of it could not see."""
        own: list[Problem] = [*self.recording.meta.problems, *self._paired[1]]
        if "timeline" not in self.capabilities:
            text = f"There is no event history of {self.device.name}: only the state at the end can be shown."
            if not self.recording.meta.devices:
                text = "The file lists no device: there is nothing to show."
            own.append(Problem("no_timeline", Severity.info, text))
        own += contradictions(self.curve, self.reserved, self.end_state)
        own += disagreement(self.rematerialized) if self.rematerialized is not None else []
        own += kept_by_views(self.recording)
        own += outlived(self.recording, self.events, self.allocations, self.attribution)
        return merge(own)


def default_device(recording: Recording) -> int:
    """Row of the device with the highest peak, the first one among equals; -1 if there is none. What the events say of
    themselves is enough for choosing."""
    rows = range(len(recording.meta.devices))
    if len(rows) < 2:
        return rows[0] if rows else NONE
    return max(rows, key=lambda row: (int(curves.unpaired(recording, row).max()), -row), default=NONE)
