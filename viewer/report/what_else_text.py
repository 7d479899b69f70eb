"""What else than checkpoints would make room in a recorded step, and what pipeline stages hold, as text and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..analysis.parallel import Parallel
from ..analysis.planner import Outcome, Planner
from ..analysis.what_else import Stage, Under, Without, as_recorded, stages, under_plan, without
from ..look.units import bytes_text, count_text, difference_text
from ..model.run import Run
from .layout import joined, section, table, wrapped


@dataclass(frozen=True)
class AskedElse:
    """What was asked: on top of a plan with so many layers in each segment, or of the step as it was recorded."""

    segment_layers: int | None = None
    parallel: Parallel = field(default_factory=Parallel)

    def __post_init__(self) -> None:
        for name in ("zero", "data", "tensor", "sequence"):
            if getattr(self.parallel, name) != getattr(Parallel(), name):
                raise ValueError(f"a recording tells nothing of {name}: give pipeline and microbatches, or use predict")


@dataclass(frozen=True, eq=False)
class WhatElse:
    """The answer, all of it on top of the plan that was asked for."""

    run: Run
    asked: AskedElse
    outcome: Outcome | None
    under: Under
    changes: tuple[Without, ...]
    stages: tuple[Stage, ...]


def what_else(run: Run, asked: AskedElse) -> WhatElse:
    """The changes and stages asked for. ValueError with one sentence where the recording does not allow it."""
    outcome, under = None, as_recorded(run)
    if asked.segment_layers is not None:
        planner = Planner(run)
        outcome = planner.outcome(planner.every(asked.segment_layers))
        under = under_plan(planner, outcome)
    found = stages(run, asked.parallel, under) if asked.parallel.pipeline > 1 else ()
    return WhatElse(run, asked, outcome, under, without(run, under), found)


def what_else_text(found: WhatElse) -> str:
    """The page: the peak, each change by itself, the stages."""
    peak = bytes_text(int(found.under.curve.max()))
    what = "as recorded" if found.outcome is None else f"with {count_text(len(found.outcome.ranges), 'segment')}"
    lines = wrapped(f"{found.run.name}: peak {peak} {what}{'' if found.outcome is None else ' (estimate)'}")
    rows = [(c.name, bytes_text(c.peak_bytes), difference_text(-c.saved_bytes)) for c in found.changes]
    said = [text for c in found.changes for text in wrapped(f"{c.name}: {c.text}", indent="  ")]
    body = [*table(("", "peak", "gain"), rows), *said] if rows else ["  nothing that this step shows"]
    lines += section("What else would help (estimates, each by itself)", body)
    if found.stages:
        head = ("stage", "layers", "microbatches in flight", "kept by one", "activations")
        rows_ = [stage_row(number, stage) for number, stage in enumerate(found.stages)]
        lines += section(f"Pipeline {what}, each microbatch as large as recorded (estimates)", table(head, rows_))
        lines += wrapped(
            "layers dealt out evenly, one forward and one backward each (1F1B); the last stage has head and loss"
            f"{'' if found.outcome is None else '; segments are cut at the edges of stages'}",
            indent="  ",
        )
    return joined(lines)


def stage_row(number: int, stage: Stage) -> tuple[str, str, str, str, str]:
    """`1`, `3-5`, `2`, `152 MiB`, `305 MiB`."""
    first, stop = stage.layers
    layers = "none" if stop <= first else str(first) if stop == first + 1 else f"{first}-{stop - 1}"
    return str(number), layers, str(stage.in_flight), bytes_text(stage.kept_bytes), bytes_text(stage.peak_bytes)


def what_else_json(found: WhatElse) -> dict[str, Any]:
    """The same with exact figures; all are estimates."""
    return {
        "file": found.run.name,
        "estimate": True,
        "segments": None if found.outcome is None else [list(paths) for paths in found.outcome.plan.segments],
        "peak_bytes": int(found.under.curve.max()),
        "changes": [
            {"name": c.name, "peak_bytes": c.peak_bytes, "saved_bytes": c.saved_bytes, "share": c.share,
             "bytes": found.run.allocations.bytes[list(c.query.rows or ())].sum().item(), "text": c.text}
            for c in found.changes
        ],
        "stages": [
            {"layers": list(s.layers), "microbatches_in_flight": s.in_flight, "kept_bytes": s.kept_bytes,
             "activation_bytes": s.peak_bytes}
            for s in found.stages
        ],
    }  # fmt: skip
