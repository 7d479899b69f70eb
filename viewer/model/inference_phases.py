"""The phase of each event of a trace that recorded none: by its stack, by annotations, by what lies around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, I64, NONE, U8, Action, MarkKind, Phase

from .events import DeviceEvents
from .inference_frames import UNKNOWN, StackEvidence

_TRAINING = (Phase.recompute, Phase.backward, Phase.optimizer)
_STEP = re.compile(r"^Optimizer\.step#")
_ZERO_GRAD = re.compile(r"^Optimizer\.zero_grad#")
_WORD = re.compile(r"^(?:## ?)?(forward|recompute|backward|optimizer)(?: ?##)?$", re.IGNORECASE)
_PROFILER_STEP = re.compile(r"^ProfilerStep[#*]")
_MARK = re.compile(r"^(.*) (begins|ends)$", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Interval:
    """The events first .. last - 1 lie inside an annotation; `closed` if its end was seen."""

    name: str
    first: int
    last: int
    closed: bool


@dataclass(frozen=True, eq=False)
class Phases:
    """One value for each event of a device."""

    phase: U8
    """`other` where nothing tells."""
    evident: B1
    """By the event's own stack or an annotation around it; else by what lies around."""
    passes: I32
    """Number of the pass: forward, backward with its recomputation, optimizer, or what lies between, in order."""
    whole: B1
    """For each pass, whether the trace shows its end."""

    @property
    def training(self) -> bool:
        """Whether a backward pass or an optimizer step is seen."""
        return any(bool((self.phase == each).any()) for each in _TRAINING)


def phases_of(
    recording: Recording, events: DeviceEvents, said: StackEvidence, intervals: tuple[Interval, ...]
) -> Phases:
    """The phases of the events of one device."""
    found = said.phase[events.stack]
    named = _named_by(intervals, len(events))
    found = np.where(found == UNKNOWN, named, found)
    phase = _continued(events, found)
    passes = numbered(np.where(phase == Phase.recompute, np.uint8(Phase.backward), phase))
    return Phases(phase, found != UNKNOWN, passes, _whole(events, said, phase, passes, intervals))


def annotated(recording: Recording, events: DeviceEvents) -> tuple[Interval, ...]:
    """The annotations that name a phase or a step, in order of their beginning; one whose beginning was lost begins
    with the trace, one whose end was lost goes on to its end."""
    open_: dict[str, list[int]] = {}
    out: list[Interval] = []
    for name, begins, position in _told(recording, events):
        if begins:
            open_.setdefault(name, []).append(position)
        else:
            starts = open_.get(name)
            out.append(Interval(name, starts.pop() if starts else 0, position, True))
    out += [Interval(name, first, len(events), False) for name, starts in open_.items() for first in starts]
    return tuple(sorted(out, key=lambda each: (each.first, -each.last)))


def is_step(interval: Interval) -> bool:
    """Whether it is one step of a profiled run."""
    return _PROFILER_STEP.match(interval.name) is not None


def _told(recording: Recording, events: DeviceEvents) -> Iterator[tuple[str, bool, int]]:
    """(name, whether it begins, position) of each annotation that says something here."""
    marks, strings = recording.marks, recording.strings
    rows = np.flatnonzero(marks.kind == MarkKind.annotation)
    telling: dict[int, tuple[str, bool]] = {}
    for number in np.unique(marks.text[rows]).tolist():
        if (parts := _MARK.match(strings[number])) and (_PROFILER_STEP.match(parts[1]) or _phase(parts[1]) != UNKNOWN):
            telling[number] = (parts[1], parts[2] == "begins")
    rows = rows[np.isin(marks.text[rows], list(telling))]
    at = np.searchsorted(events.index, marks.event[rows])
    lost = marks.event[rows] == NONE
    at[lost] = events.started(marks.time[rows][lost])
    for text, position in zip(marks.text[rows].tolist(), at.tolist()):
        yield *telling[text], position


def _phase(name: str) -> int:
    if _STEP.match(name):
        return Phase.optimizer
    if _ZERO_GRAD.match(name):
        return Phase.other
    word = _WORD.match(name.strip())
    return Phase[word[1].lower()] if word else UNKNOWN


def _named_by(intervals: tuple[Interval, ...], n_events: int) -> U8:
    """The phase that the innermost annotation around each event names."""
    out = np.full(n_events, UNKNOWN, np.uint8)
    for each in intervals:
        if (phase := _phase(each.name)) != UNKNOWN:
            out[each.first : each.last] = phase
    return out


def _continued(events: DeviceEvents, found: U8) -> U8:
    """What lies between two events of one phase belongs to it, what the program does between forward and backward is
    the loss, and what has no stack beside a backward pass is the engine at work: its threads have no Python. The rest
    is `other`.

    Neighbours that are alike are one run of events; there are far fewer runs than events.
    """
    if not len(found):
        return found
    without = _without_python(events)
    cuts = edges(found | (without.view(np.uint8) << 4))
    runs = found[cuts[:-1]]
    if np.isin(runs, _TRAINING).any():
        runs = _continued_runs(runs, without[cuts[:-1]])
    runs = np.where(runs == UNKNOWN, np.uint8(Phase.other), runs)
    return np.repeat(runs, np.diff(cuts))


def _continued_runs(found: U8, without: B1) -> U8:
    known = (found != UNKNOWN) & (found != Phase.other)
    before, after = _neighbour(found, known), _neighbour(found[::-1], known[::-1])[::-1]
    before = np.where(before == Phase.recompute, np.uint8(Phase.backward), before)
    after = np.where(after == Phase.recompute, np.uint8(Phase.backward), after)
    within = (before == after) | ((before == Phase.forward) & (after == Phase.backward))
    out = np.where(within, before, np.uint8(UNKNOWN))
    engine = (before == Phase.backward) | (after == Phase.backward)
    engine |= (before == Phase.forward) & (after == Phase.optimizer)
    out = np.where(without & engine, np.uint8(Phase.backward), out)
    return np.where(found == UNKNOWN, out, found)


def _neighbour(found: U8, known: B1) -> U8:
    """The phase of the last known run before each; UNKNOWN if there is none."""
    last = np.maximum.accumulate(np.where(known, np.arange(len(found)), NONE))
    return np.append(found, np.uint8(UNKNOWN))[last]


def _without_python(events: DeviceEvents) -> B1:
    """Events without a stack, in a trace that has stacks of the same kind of event elsewhere."""
    none: B1 = events.stack == NONE
    freed = events.action != Action.alloc
    for kind in (freed, ~freed):
        if not (kind & ~none).any():  # stacks of these were not recorded at all: that one has none says nothing
            none = none & ~kind
    return none


def _whole(events: DeviceEvents, said: StackEvidence, phase: U8, passes: I32, intervals: tuple[Interval, ...]) -> B1:
    """A pass is over if anything comes after it, if the annotation of the optimizer step ended, or if the call of
    backward returned. (An annotation around backward ends when an error leaves it, too.)"""
    out = np.ones(int(passes[-1]) + 1 if len(passes) else 0, np.bool_)
    if not len(out):
        return out
    ends = (each for each in intervals if each.closed and each.last == len(events) and _STEP.match(each.name))
    ended = phase[-1] == Phase.optimizer and events.action[-1] != Action.oom and any(ends)
    first = int(np.searchsorted(passes, passes[-1]))
    called = said.calls_backward[events.stack[first:]]
    returned = phase[-1] == Phase.backward and bool(called[-1]) and not called.all()
    out[-1] = ended or (returned and events.action[-1] != Action.alloc)
    return out


def edges(labels: I32 | U8) -> I64:
    """Where runs of equal labels begin, and the length of the whole."""
    changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    return np.concatenate([[0], changes, [len(labels)]]).astype(np.int64) if len(labels) else np.zeros(1, np.int64)


def numbered(labels: U8) -> I32:
    """For each label the number of the run of equal ones that it is in."""
    cuts = edges(labels)
    return np.repeat(np.arange(len(cuts) - 1, dtype=np.int32), np.diff(cuts))
