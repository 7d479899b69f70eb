"""Everything there is to say about the allocator on one device of a file, as the reports and the window show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memstrata.capture.format.schema import NONE

from ...model import stacks
from ...model.grouping_facts import stream_name
from ...model.pools import pool_name
from ...model.run import Run
from ...model.said import Said, quiet
from ..place import place_of
from .config import Config, parse
from .end_layout import end_layout
from .fragmentation import Fragmentation, fragmentation
from .history import Layout
from .oom import Oom, predicted_oom, recorded_ooms
from .past import pool_ids
from .recorded import Recorded
from .replay import Replay, Verification, first_operations, replay, state_at, verify
from .sequence import Op, State
from .verified import unverified
from .what_if import WhatIf, what_if

INEXACT = "The replay does not reproduce this trace: what follows from it is a guess."


@dataclass(frozen=True)
class Question:
    """What is asked besides the replay itself. `conf` None keeps the recorded settings."""

    conf: str | None = None
    capacity: int | None = None
    empty_cache_at: tuple[int, ...] = ()

    @property
    def is_what_if(self) -> bool:
        """Whether anything differs from what was recorded."""
        return self.conf is not None or self.capacity is not None or bool(self.empty_cache_at)


class Answer:
    """Computed on first use. `refusal` is one sentence where the rules do not apply to the device at all."""

    def __init__(self, run: Run, question: Question = Question()) -> None:
        self.run, self.question = run, question
        self.conf: Config | None = None if question.conf is None else parse(question.conf)
        """The settings asked about; ConfigError is raised here where the text is wrong."""

    @cached_property
    def refusal(self) -> str | None:
        """Why nothing is replayed."""
        name = self.run.device.name
        if not self.run.recording.meta.devices:
            return "The file lists no device."
        if not name.startswith(("cuda", "cpu")):
            return f"{name} has an allocator of its own: the rules of torch's CUDA allocator do not apply."
        settings = str(self.run.recording.meta.allocator_settings.get("PYTORCH_CUDA_ALLOC_CONF", ""))
        if "MallocAsync" in settings:
            return "This process used cudaMallocAsync: the driver, not torch, placed the memory."
        return None

    @property
    def has_allocator(self) -> bool:
        """Whether a CUDA allocator wrote the events; else everything here is an estimate."""
        return self.run.reserved is not None

    @cached_property
    def verification(self) -> Verification:
        """The replay of the recording itself."""
        return verify(self.run)

    @property
    def known(self) -> Recorded:
        """The recording as operations."""
        return self.verification.recorded

    @cached_property
    def what_if(self) -> WhatIf | None:
        """What was asked; for a file without an allocator the stock one. None where nothing was asked."""
        return self._what_if(lambda done: None)

    def _what_if(self, said: Said) -> WhatIf | None:
        if not self.question.is_what_if and self.has_allocator:
            return None
        q = self.question
        return what_if(self.known, self.conf, q.capacity, q.empty_cache_at, said)

    def prepare(self, said: Said) -> Replay:
        """Replay now; `said(part)` is told how far that is, and calls it off by raising."""
        share = 1.0 if self.has_allocator else 0.5
        if "verification" not in vars(self):
            self.verification = verify(self.run, lambda done: said(done * share))
        if "what_if" not in vars(self):
            self.what_if = self._what_if(lambda done: said(share + done * (1 - share)))
        _ = self.unverified
        return self.played

    def work_out(self, said: Said) -> None:
        """The same, and what needs replays of its own: the state at the peak, what would have helped."""
        self.prepare(lambda done: said(done * 0.5))
        if self.what_if is None and "peak_state" not in vars(self):
            row = self.verification.replay.peak_row
            self.peak_state = state_at(self.known, row, lambda done: said(0.5 + done * 0.3))
        if "ooms" not in vars(self):
            self.ooms = self._ooms(lambda done: said(0.8 + done * 0.2))

    @property
    def played(self) -> Replay:
        """What the figures are about: the what-if, or the plain replay where nothing was asked."""
        return self.what_if.replay if self.what_if else self.verification.replay

    @property
    def reserved_peak_bytes(self) -> int:
        """The most reserved in the what-if, or in the plain replay without one."""
        return self.played.peak_reserved_bytes

    @cached_property
    def estimates(self) -> tuple[str, ...]:
        """One sentence for everything not measured."""
        out = self.what_if.estimates if self.what_if else ()
        inexact = self.has_allocator and not self.verification.exact
        return (INEXACT, *out) if inexact else out

    @property
    def unverified(self) -> tuple[str, ...]:
        """Settings and rules in force without a real trace behind them."""
        return unverified(self.known, self.played.config)

    @cached_property
    def ooms(self) -> list[Oom]:
        """Where memory ran out: in the what-if, or in the recording."""
        return self._ooms(quiet)

    def _ooms(self, said: Said) -> list[Oom]:
        if self.what_if is not None:
            found = predicted_oom(self.known, self.what_if, said)
            return [found] if found else []
        return recorded_ooms(self.known, said)

    @cached_property
    def peak_event(self) -> int:
        """The event that reached the most reserved bytes; -1 before the first."""
        row = self.played.peak_row
        return int(self.played.sequence.event[row - 1]) if row else NONE

    @cached_property
    def peak_state(self) -> State:
        """The allocator at the peak of the reserved bytes."""
        if self.what_if is None:
            return state_at(self.known, self.verification.replay.peak_row)
        return replayed_state(self.what_if)

    @cached_property
    def fragmentation(self) -> Fragmentation:
        """The reserved bytes at their peak by what they are good for."""
        return fragmentation(self.peak_state, self.played.config)

    @cached_property
    def retries(self) -> tuple[int, int]:
        """How often the recording emptied the cache, and how often of those because cudaMalloc had failed."""
        kinds = self.known.sequence.kind
        retried = int((kinds == Op.retry).sum())
        return retried + int((kinds == Op.empty_cache).sum()), retried

    @cached_property
    def recorded_end(self) -> Layout | None:
        """The reserved memory as the file ends; None where no allocator reports it."""
        return end_layout(self.run)

    def kind_text(self, pool: int, is_small: bool, stream: int) -> str:
        """`private pool (0, 3), small, default stream`: what a range serves."""
        return f"{pool_name(*self._pools[pool], is_small)}, {stream_name(stream)}"

    @cached_property
    def _pools(self) -> list[tuple[int, int]]:
        return pool_ids(self.run)

    def requested_bytes(self, number: int) -> int:
        """Bytes that an allocation asked for; those of a failed one where it passes in a what-if."""
        a, s = self.run.allocations, self.known.sequence
        return int(a.bytes[number]) if number < len(a) else int(s.bytes[s.id == number].max(initial=0))

    def allocation_text(self, number: int) -> str:
        """`layers.3, forward (model.py:54)`: the layer of an allocation and the first user frame of its stack."""
        run = self.run
        if not 0 <= number < len(run.allocations):
            return "an allocation that failed in the recording"
        layer = int(run.attribution.layer[number])
        where = self.stack_text(int(run.allocations.stack[number]))
        return f"{run.layers.names[layer]}, {where}" if layer >= 0 else where

    def pins_text(self, pins: Sequence[int]) -> tuple[str, int]:
        """(the first of these allocations in words and how many more there are, bytes that the first asked for)."""
        if not pins:
            return "?", 0
        others = f" and {len(pins) - 1:,} more" if len(pins) > 1 else ""
        return self.allocation_text(pins[0]) + others, self.requested_bytes(pins[0])

    def stack_text(self, stack: int) -> str:
        """The user's frame of a stack, `forward (model.py:54)`."""
        if stack < 0:
            return "no stack"
        recording = self.run.recording
        frame = int(self._user_frames[stack])
        file = recording.strings[int(recording.frames.file[frame])].replace("\\", "/").rsplit("/", 1)[-1]
        name, line = recording.strings[int(recording.frames.name[frame])], int(recording.frames.line[frame])
        return f"{name} ({file}:{line})" if file and line else name

    @cached_property
    def _user_frames(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return stacks.first_user_frames(self.run.recording)

    def place_text(self, event: int) -> str:
        """`backward of super-block 3`; empty where the file knows no phases."""
        return place_of(self.run, event + 1).text if event >= 0 else "before the first event"


def replayed_state(done: WhatIf) -> State:
    """The state of a what-if at the peak of its reserved bytes."""
    played = done.replay
    part = first_operations(played.sequence, played.peak_row)
    return replay(part, played.config, played.capacity, played.start).outcome.end
