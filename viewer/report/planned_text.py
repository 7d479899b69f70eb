"""Whether a step fits on a GPU under a checkpoint plan, as text and as JSON."""

from __future__ import annotations

from typing import Any

from ..analysis.allocator.config import STOCK, parse
from ..analysis.allocator.verified import VERIFIED_KEYS
from ..analysis.planned_step import Verdict, verdict
from ..analysis.planner import Planner
from ..analysis.step_facts import why_not
from ..look.units import bytes_text, count_text
from ..model.run import Run
from .layout import joined, table, wrapped


def planned(run: Run, length: int, conf: str | None, capacity: int | None) -> Verdict:
    """The plan with `length` layers in each segment, played through the allocator.

    Raises ValueError with one sentence where the run cannot tell: it recomputes already, or has no layers.
    """
    if reason := why_not(run):
        raise ValueError(f"{run.name}: {reason}")
    planner = Planner(run)
    config = STOCK if conf is None else parse(conf)
    return verdict(planner, planner.every(length), capacity, config)


def planned_text(run: Run, said: Verdict) -> str:
    """The answer first, then the figures."""
    segments = count_text(len(said.plan.segments), "segment")
    rows = [("reserved at most", bytes_text(said.reserved_peak_bytes))]
    rows.append(("in blocks at most, rounding included", bytes_text(int(said.replay.allocated.max()))))
    if said.capacity is not None:
        rows.append(("capacity", bytes_text(said.capacity)))
    lines = wrapped(f"{run.name} with {segments}, {_answer(said)}.")
    lines += ["", *table(("", "bytes"), rows), ""]
    for sentence in _estimates(run, said):
        lines += wrapped(sentence, indent="  ")
    return joined(lines)


def _answer(said: Verdict) -> str:
    on = "" if said.capacity is None else f"on {bytes_text(said.capacity)}: "
    where = f" in {said.place}" if said.place else ""
    if not said.fits:
        return f"{on}fails{where} (estimate)"
    spare = said.spare_bytes
    left = "" if spare is None else f"fits, with {bytes_text(spare)} to spare; "
    return f"{on}{left}{bytes_text(said.reserved_peak_bytes)} reserved at most (estimate)"


def _estimates(run: Run, said: Verdict) -> list[str]:
    meta = run.recording.meta
    kernels = meta.kernels or (meta.source if meta.source != "cuda" else "")
    out = ["estimate: the measured allocations in the order that the plan gives them, through torch's CUDA allocator"]
    if kernels:
        out.append(f"kernels: {kernels}; a GPU's keep and need other tensors")
    unknown = [key for key in said.replay.config.features if key not in VERIFIED_KEYS]
    return out + [f"{key}: unverified, no real trace has confirmed its rules" for key in unknown]


def planned_json(run: Run, said: Verdict) -> dict[str, Any]:
    """The same as exact integers."""
    return {
        "file": run.name,
        "segments": [list(segment) for segment in said.plan.segments],
        "capacity_bytes": said.capacity,
        "fits": said.fits,
        "place": said.place,
        "reserved_peak_bytes": said.reserved_peak_bytes,
        "spare_bytes": said.spare_bytes if said.fits else None,
        "estimates": _estimates(run, said),
    }
