"""The section on the steps of a recording, in 80 columns."""

from __future__ import annotations

from ..analysis.steps import NAMED, StepFigures, steady_state, steps_of, throughput
from ..look.units import bytes_text, count_text, difference_text, seconds_text
from ..model.run import Run
from .layout import section, table, wrapped


def steps_section(run: Run) -> list[str]:
    """A table with a line for each step, and what grew from one to the next; nothing for a file with one step."""
    steps = steps_of(run)
    if len(steps) < 2:
        return []
    head = ("step", "time", "tokens", "peak", "alive at its end", "growth")
    lines = table(head, [_row(step) for step in steps])
    for step in steps:
        lines += _growth(step)
    steady = steady_state(steps)
    if steady is not None:
        more = f"{difference_text(steady.peak_bytes)} at the peak, {_signed_seconds(steady.seconds)}"
        lines += wrapped(f"first recorded step against the later ones (median): {more}", indent="  ")
    return section("Steps", lines)


def throughput_text(run: Run) -> str:
    """`1,234 tokens/s unrecorded`."""
    rate = throughput(run.recording)
    return "throughput unrecorded: unknown" if rate is None else f"throughput unrecorded: {rate_text(rate)}"


def rate_text(rate: float) -> str:
    """`1,234 tokens/s`; three digits where there are fewer."""
    return f"{rate:,.0f} tokens/s" if rate >= 100 else f"{rate:.3g} tokens/s"


def _row(step: StepFigures) -> tuple[str, ...]:
    name = "?" if step.index is None else count_text(step.index)
    how = "recorded" if step.recorded else "unrecorded"
    if step.recorded and step.seconds is None:
        how = "cut off"
    return (
        f"{name} {how}",
        "-" if step.seconds is None else seconds_text(step.seconds),
        "-" if step.tokens is None else count_text(step.tokens),
        "-" if step.peak_bytes is None else bytes_text(step.peak_bytes),
        "-" if step.end_bytes is None else bytes_text(step.end_bytes),
        "-" if step.growth_bytes is None else difference_text(step.growth_bytes),
    )


def _growth(step: StepFigures) -> list[str]:
    """What a step left behind that had not been there before it; of one that was cut off all of it still was in use."""
    if not step.growth_bytes or step.growth_bytes < 0 or step.seconds is None:
        return []
    largest = [r for r in step.remainders[:NAMED] if r.bytes > 0]
    named = ", ".join(f"{r.category.label} {difference_text(r.bytes)} at {r.frame}" for r in largest)
    name = "a step" if step.index is None else f"step {count_text(step.index)}"
    return wrapped(f"left behind by {name}: {named}", indent="  ")


def _signed_seconds(seconds: float) -> str:
    return f"+{seconds_text(seconds)}" if seconds > 0 else seconds_text(seconds)
