"""The whole residual in 80 columns: every predicted term with what was found for it, and every item of the difference
with its sentence, its share by kind of layer, and its stack."""

from __future__ import annotations

from memstrata.capture.format.plan import ModelShape, Plan
from memstrata.capture.format.recording import Recording

from ..analysis.headline import why_no_prediction
from ..analysis.residual import Residual, ResidualItem, residual
from ..analysis.shape import is_compiled, plan_in_force, shape_of
from ..look.units import bytes_text, count_text, difference_text
from ..model.run import Run
from .layout import joined, section, table, wrapped
from .residual_text import closing_text, facts_text, kernel_lines, residual_rows

FRAMES = 3
"""Innermost frames of a stack that are not torch's own."""


def residual_report(recording: Recording, name: str) -> str:
    """The report, or one sentence where nothing can be predicted."""
    run = Run(recording, name=name)
    shape = shape_of(run)
    if shape is None or is_compiled(run):
        return joined(wrapped(f"{name}: {why_no_prediction(run)}"))
    plan = plan_in_force(run)
    missed = residual(run, shape, plan)
    return joined(_lines(run, shape, plan, missed))


def _lines(run: Run, shape: ModelShape, plan: Plan, missed: Residual) -> list[str]:
    said = (
        f"{run.name}: activations up to {bytes_text(missed.measured_bytes)}, shapes say"
        f" {bytes_text(missed.predicted_bytes)}: {difference_text(missed.bytes)}"
    )
    lines = [*wrapped(said), *wrapped(closing_text(missed), indent="  "), *kernel_lines(run, shape, plan)]
    rows = [
        (each.label, count_text(each.count), bytes_text(each.predicted_bytes), bytes_text(each.bytes))
        for each in missed.matched
    ]
    lines += section("Predicted and found", table(("term", "found", "predicted", "measured"), rows) if rows else [])
    lines += section("Difference", table(("item", "in layers", "bytes"), residual_rows(missed, missed.items)))
    for item in missed.items:
        lines += ["", *_item(run, item)]
    return lines


def _item(run: Run, item: ResidualItem) -> list[str]:
    """Label and sentence, the share of each kind of layer, the stack."""
    facts = facts_text(item)
    lines = wrapped(f"{item.label}: {difference_text(item.bytes)}{f' ({facts})' if facts else ''}")
    lines += wrapped(item.text, indent="  ")
    rows = [
        (part.layer_kind, count_text(part.layers) if part.layers else "-", count_text(part.count),
         difference_text(round(part.bytes_per_layer)), difference_text(part.bytes))
        for part in item.parts
    ]  # fmt: skip
    lines += table(("kind of layer", "layers", "count", "per layer", "total"), rows)
    return lines + [line for text in stack_text(run.recording, item.stack) for line in wrapped(text, indent="    ")]


def stack_text(recording: Recording, stack: int) -> list[str]:
    """The operator, if it is known, and the frames of the code that called it."""
    frames = recording.stack_frames(stack)
    operator = [f"in {frames[0][0]}"] if frames and frames[0][2] <= 0 else []
    lines = [(function, file, line) for function, file, line in frames if line > 0]
    own = [frame for frame in lines if not frame[1].startswith("torch/")] or lines
    return operator + [f"{file}:{line} {function}" for function, file, line in own[:FRAMES]]
