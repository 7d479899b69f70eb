"""Limits for a machine to hold a run to: absolute sizes, or those of another run with a tolerance.

What is over a limit is blamed on layers: on those that grew most against the baseline, or, without one, on the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..look.units import bytes_text, count_text
from ..look.words import OUTSIDE_LAYERS, one_device_text
from ..model.failed import largest_failed
from ..model.grouping import preferred
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .opened import Held
from .trust import LOSSES

UNUSED = "reserved and unused"
"""What an allocator holds beside what is alive."""
BLAMED = 5
"""Groups named for each figure over its limit."""


@dataclass(frozen=True)
class Blame:
    """A layer, or where the file has none another group, with its bytes at the measured moment; the baseline's are
    None where there is no baseline."""

    label: str
    bytes: int
    baseline_bytes: int | None
    query: AllocationQuery

    @property
    def weight(self) -> int:
        """What it adds: its growth, or without a baseline its size."""
        return self.bytes - (self.baseline_bytes or 0)


@dataclass(frozen=True)
class Checked:
    """One figure against its limit. `baseline_bytes` is None for an absolute limit."""

    figure: str
    bytes: int
    limit_bytes: int
    baseline_bytes: int | None
    blame: tuple[Blame, ...]

    @property
    def passed(self) -> bool:
        """Not over the limit: a figure equal to it passes."""
        return self.bytes <= self.limit_bytes

    @property
    def over_bytes(self) -> int:
        """How far over the limit; negative is what is left."""
        return self.bytes - self.limit_bytes


@dataclass(frozen=True)
class Result:
    """What is said of one run: every figure, why they do not vouch for a whole step (empty where they do), and what
    was left unchecked or uncertain. `cut_short` says the same as `failure` in a few words."""

    name: str
    figures: tuple[Checked, ...]
    failure: str
    cut_short: str
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Nothing is over its limit, and the step came to its end."""
        return not self.failure and all(figure.passed for figure in self.figures)


@dataclass(frozen=True)
class Verdict:
    """What is said of a file, or of a folder (`name`, empty for a file): of each rank, and of the folder itself."""

    results: tuple[Result, ...]
    name: str = ""
    failure: str = ""
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Every rank is there and within its limits."""
        return not self.failure and all(result.passed for result in self.results)


@dataclass(frozen=True)
class Limits:
    """What a run is held to; None holds to nothing. `tolerance` is a share of the baseline's figure."""

    figures: dict[str, int] = field(default_factory=dict)
    """Bytes by figure: `peak`, `activations`, `reserved`."""
    layer: int | None = None
    """Bytes that any one layer may hold at the peak."""
    baseline: Run | None = None
    tolerance: float = 0.0


@dataclass(frozen=True)
class _Figure:
    """A figure of a run: its bytes and the position of it; None where the file cannot tell."""

    measure: Callable[[Run], tuple[int, int] | None]
    why_not: str


def _peak(run: Run) -> tuple[int, int]:
    return run.peak_bytes, run.peak_position


def _activations(run: Run) -> tuple[int, int] | None:
    if "saved_tensors" not in run.capabilities:
        return None
    position = int(np.argmax(run.activation_curve))
    return int(run.activation_curve[position]), position


def _reserved(run: Run) -> tuple[int, int] | None:
    if run.reserved is None:
        return None
    position = int(np.argmax(run.reserved))
    return int(run.reserved[position]), position


FIGURES: dict[str, _Figure] = {
    "peak": _Figure(_peak, ""),
    "activations": _Figure(_activations, "there are no saved tensors"),
    "reserved": _Figure(_reserved, "no allocator reported reserved memory"),
}
"""What can be limited, in the order of the answer."""


def judge(held: Held, limits: Limits) -> Verdict:
    """Every run of a file or folder against the limits. Raises ValueError as `check` does, and for a file without any
    memory. A folder that lacks a rank fails: what its step needed is not known."""
    results = tuple(_judge(run, replace(limits, baseline=past)) for run, past in held.pairs)
    folder, against = held.folder, held.against
    if folder is None:
        return Verdict(results)
    notes = [problem for problem in folder.problems if problem != folder.incomplete]
    if against is not None and against.world_size != folder.world_size:
        notes.append(f"The baseline had {count_text(against.world_size, 'rank')}, this run {folder.world_size}.")
    return Verdict(results, folder.name, folder.incomplete, tuple(notes))


def _judge(run: Run, limits: Limits) -> Result:
    figures = check(run, limits)
    if not run.peak_bytes and not run.n_events:
        raise ValueError(f"{run.name} cannot be checked: it has neither events nor memory")
    cut_short, failure = _stopped(run)
    notes = [problem.text for problem in run.problems if problem.code in LOSSES and problem.text != failure]
    if "timeline" not in run.capabilities:
        notes.append("There is no history: the figures are those of the end, and a peak before it is not seen.")
    notes += _other_devices(run)
    if limits.baseline is not None:
        notes += _not_compared(run, limits.baseline)
    return Result(run.name, figures, failure, cut_short, tuple(notes))


def _stopped(run: Run) -> tuple[str, str]:
    """Why the figures of a run are not those of a whole step, in few words and in a sentence; empty where they are. A
    recording knows whether its step ended, whatever it ran into; a snapshot knows only that memory ran out."""
    raised = [problem.text for problem in run.problems if problem.code == "step_raised"]
    if raised:
        return "the step did not end", raised[0]
    if run.recording.meta.kind != "snapshot":
        return "", ""
    devices = enumerate(run.recording.meta.devices)
    asked = [(failed[1], device.name) for row, device in devices if (failed := largest_failed(run.on(row)))]
    if not asked:
        return "", ""
    size, device = max(asked)
    return "memory ran out", f"{device} ran out of memory when {bytes_text(size)} more was asked for."


def _other_devices(run: Run) -> list[str]:
    """That a file has more devices than the one that is held to the limits."""
    others = run.other_devices
    return [one_device_text("Checked", run.device.name, others)] if others else []


def _not_compared(run: Run, baseline: Run) -> list[str]:
    """Figures that only one of the two files has, and a baseline that is not that of a whole step."""
    _, failure = _stopped(baseline)
    notes = [f"{baseline.name} is no whole step to be held against: {failure}"] if failure else []
    for name, figure in FIGURES.items():
        lacking = [one for one in (run, baseline) if figure.measure(one) is None]
        if len(lacking) == 1:
            notes.append(f"Not compared: {name}, because {figure.why_not} in {lacking[0].name}.")
    return notes


def check(run: Run, limits: Limits) -> tuple[Checked, ...]:
    """Every limit with what was measured.

    Raises ValueError, one sentence, if a figure asked for is not in a file, or nothing was asked.
    """
    found = [_absolute(run, name, limits.figures[name]) for name in FIGURES if name in limits.figures]
    if limits.layer is not None:
        found.append(_largest_layer(run, limits.layer))
    if limits.baseline is not None:
        found += _against(run, limits.baseline, limits.tolerance)
    if not found:
        raise ValueError("there is nothing to check: give --max-peak, --max-activations, ... or --baseline")
    return tuple(found)


def _measured(run: Run, name: str) -> tuple[int, int]:
    measured = FIGURES[name].measure(run)
    if measured is None:
        raise ValueError(f"{name} of {run.name} cannot be checked: {FIGURES[name].why_not}")
    return measured


def _absolute(run: Run, name: str, limit: int) -> Checked:
    size, position = _measured(run, name)
    return Checked(name, size, limit, None, _blame(run, position, name) if size > limit else ())


def _largest_layer(run: Run, limit: int) -> Checked:
    if not len(run.layers):
        raise ValueError(f"layers of {run.name} cannot be checked: it has none")
    sizes = run.groups_at("layer", [run.peak_position])[:-1, 0]
    worst = int(sizes.argmax())
    over = [i for i in np.argsort(-sizes, kind="stable").tolist() if sizes[i] > limit][:BLAMED]
    names = run.grouping("layer").names
    blame = tuple(Blame(names[i], int(sizes[i]), None, AllocationQuery(run.peak_position, layer=i)) for i in over)
    return Checked(f"layer {names[worst]}", int(sizes[worst]), limit, None, blame)


def _against(run: Run, baseline: Run, tolerance: float) -> list[Checked]:
    """The peak, and each other figure that both files have."""
    out = []
    for name, figure in FIGURES.items():
        mine, theirs = figure.measure(run), figure.measure(baseline)
        if mine is None or theirs is None:
            continue
        limit = int(theirs[0] * (1 + tolerance))
        blame = _growth(run, mine[1], baseline, theirs[1], name) if mine[0] > limit else ()
        out.append(Checked(name, mine[0], limit, theirs[0], blame))
    return out


def _key(run: Run) -> str:
    return "layer" if len(run.layers) else preferred(run)


def _sizes(run: Run, key: str, position: int, figure: str) -> dict[str, tuple[int, AllocationQuery]]:
    """Bytes at a position by group, of activations alone where those are what is limited."""
    categories = ACTIVATIONS if figure == "activations" else None
    query = AllocationQuery(position, categories=categories)
    rows = query.select(run)
    grouping = run.grouping(key)
    sums = np.zeros(len(grouping), np.int64)
    np.add.at(sums, grouping.labels[rows], run.allocations.bytes[rows])
    unused = 0 if run.reserved is None else int(run.reserved[position] - run.curve[position])
    cached = {UNUSED: (unused, AllocationQuery(position))} if figure == "reserved" else {}
    return cached | {
        name: (int(size), AllocationQuery(position, categories=categories, group=(key, label)))
        for label, (name, size) in enumerate(zip(grouping.names, sums.tolist(), strict=True))
    }


def _blame(run: Run, position: int, figure: str) -> tuple[Blame, ...]:
    sizes = _sizes(run, _key(run), position, figure)
    return _heaviest([Blame(name, size, None, query) for name, (size, query) in sizes.items()])


def _growth(run: Run, position: int, baseline: Run, base_position: int, figure: str) -> tuple[Blame, ...]:
    key = _key(run) if _key(run) == _key(baseline) else "category"
    mine, theirs = _sizes(run, key, position, figure), _sizes(baseline, key, base_position, figure)
    nothing = (0, AllocationQuery(position))
    names = [*mine, *(name for name in theirs if name not in mine)]
    rows = [
        Blame(name, mine.get(name, nothing)[0], theirs.get(name, nothing)[0], mine.get(name, nothing)[1])
        for name in names
    ]
    return _heaviest(rows)


def _heaviest(rows: list[Blame]) -> tuple[Blame, ...]:
    """The rows that add most; what lies outside layers only if it adds more than any layer named after it."""
    ordered = sorted(rows, key=lambda row: (-row.weight, row.label == OUTSIDE_LAYERS))
    return tuple(row for row in ordered[:BLAMED] if row.weight > 0)
