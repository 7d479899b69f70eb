"""What is said of a plan that is tried on a run."""

from __future__ import annotations

from ..analysis.plan_code import fsdp2_code, huggingface_code, torch_code
from ..analysis.planner import Outcome, Planner
from ..look.units import bytes_text, count_text, difference_text, exact_bytes_text, percent_text, seconds_text
from ..model.run import Run
from ..report.plan_text import where_text

CODES = {"torch": torch_code, "Hugging Face": huggingface_code, "FSDP2": fsdp2_code}
"""How a plan can be written down: `code(planner, ranges)`."""


def measured_sentence(run: Run) -> str:
    """What the step needs as it was recorded."""
    activations = bytes_text(int(run.activation_curve.max()))
    return f"As recorded, without checkpoints: peak {bytes_text(run.peak_bytes)}, activations up to {activations}."


def outcome_sentence(planner: Planner, outcome: Outcome) -> str:
    """`Peak 358 MiB instead of 751 MiB, 52.3% less, in ...; activations up to ...; +500 ms per step (estimate).`"""
    run = planner.run
    gain = 1 - outcome.peak_bytes / max(run.peak_bytes, 1)
    less = f"{percent_text(gain)} less" if gain > 0 else "no gain" if not gain else f"{percent_text(-gain)} more"
    where = where_text(planner, outcome).removeprefix("reached ")
    return (
        f"Peak {bytes_text(outcome.peak_bytes)} instead of {bytes_text(run.peak_bytes)}, {less}, {where};"
        f" activations up to {bytes_text(outcome.activation_peak_bytes)};{_kept(outcome)}"
        f" {cost_text(outcome)} (estimate)."
    )


def exact_text(run: Run, outcome: Outcome | None) -> str:
    """The peak and the activations of a plan, or of the step as recorded, to the byte."""
    peak = run.peak_bytes if outcome is None else outcome.peak_bytes
    activations = int(run.activation_curve.max()) if outcome is None else outcome.activation_peak_bytes
    kept = f", {exact_bytes_text(outcome.cached_bytes)} of outputs kept" if outcome and outcome.cached_bytes else ""
    return f"peak {exact_bytes_text(peak)}, activations {exact_bytes_text(activations)}{kept}"


def _kept(outcome: Outcome) -> str:
    return f" {bytes_text(outcome.cached_bytes)} of outputs kept;" if outcome.cached_bytes else ""


def cost_text(outcome: Outcome) -> str:
    """`+500 ms per step`, or where nothing was timed `48 layers run again`."""
    if outcome.extra_seconds is not None:
        return f"+{seconds_text(outcome.extra_seconds)} per step"
    return f"{count_text(outcome.layers_again, 'layer')} run again per step, time unknown"


def point_text(outcome: Outcome, measured_bytes: int) -> str:
    """What is shown on hover over a plan."""
    if not outcome.ranges:
        return none_text(outcome.peak_bytes)
    saved = difference_text(outcome.peak_bytes - measured_bytes)
    return (
        f"{plan_name(outcome)}\npeak {bytes_text(outcome.peak_bytes)} ({saved}), {cost_text(outcome)}\n"
        f"{exact_bytes_text(outcome.peak_bytes)}, {exact_bytes_text(outcome.peak_bytes - measured_bytes)} from none\n"
        "estimate; a click tries it"
    )


def none_text(peak_bytes: int) -> str:
    """The step without a plan."""
    return f"no checkpoints: peak {bytes_text(peak_bytes)} ({exact_bytes_text(peak_bytes)})"


def plan_name(outcome: Outcome) -> str:
    """`16 segments of 4 layers`, `3 segments of 1 to 4 layers`."""
    if not outcome.ranges:
        return "none"
    lengths = sorted({stop - first for first, stop in outcome.ranges})
    of = count_text(lengths[0], "layer") if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]} layers"
    return f"{count_text(len(outcome.ranges), 'segment')} of {of}"


def code_text(planner: Planner, outcome: Outcome, kind: str) -> str:
    """The plan as plain code; `kind` is a key of `CODES`."""
    return CODES[kind](planner, outcome.ranges)
