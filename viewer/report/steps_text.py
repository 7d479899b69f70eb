"""The section on the steps of a recording, in 80 columns."""

from __future__ import annotations

from ..analysis.steps import NAMED, StepFigures, steady_state, steps_of, throughput
from ..look.units import bytes_text, count_text, difference_text, seconds_text
from ..model.run import Run
from .layout import section, table, wrapped

STEP_HEAD = ("step", "time", "tokens", "peak", "alive at its end", "growth")


def steps_section(run: Run) -> list[str]:
    """A table with a line for each step, and what grew from one to the next; nothing for a file with one step."""
    steps = steps_of(run)
    if len(steps) < 2:
        return []
    lines = table(STEP_HEAD, [_row(step) for step in steps])
    said = [*map(growth_text, steps), steady_text(steps)]
    return section("Steps", lines + [line for text in said if text for line in wrapped(text, indent="  ")])


def throughput_text(run: Run) -> str:
    """`1,234 tokens/s unrecorded`."""
    rate = throughput(run.recording)
    return "throughput unrecorded: unknown" if rate is None else f"throughput unrecorded: {rate_text(rate)}"


def rate_text(rate: float) -> str:
    """`1,234 tokens/s`; three digits where there are fewer."""
    return f"{rate:,.0f} tokens/s" if rate >= 100 else f"{rate:.3g} tokens/s"


def _row(step: StepFigures) -> tuple[str, ...]:
    return (
        *timed_cells(step),
        "-" if step.peak_bytes is None else bytes_text(step.peak_bytes),
        "-" if step.end_bytes is None else bytes_text(step.end_bytes),
        "-" if step.growth_bytes is None else difference_text(step.growth_bytes),
    )


def timed_cells(step: StepFigures) -> tuple[str, str, str]:
    """`6 recorded`, `1.39 s`, `2,048`: which step, how long it took, its tokens."""
    name = "?" if step.index is None else count_text(step.index)
    how = "recorded" if step.recorded else "unrecorded"
    if step.recorded and step.seconds is None:
        how = "cut off"
    return (
        f"{name} {how}",
        "-" if step.seconds is None else seconds_text(step.seconds),
        "-" if step.tokens is None else count_text(step.tokens),
    )


def growth_text(step: StepFigures) -> str:
    """What a step left behind that had not been there before it; of one that was cut off all of it still was in use.
    Empty for nothing."""
    if not step.growth_bytes or step.growth_bytes < 0 or step.seconds is None:
        return ""
    largest = [r for r in step.remainders[:NAMED] if r.bytes > 0]
    named = ", ".join(f"{r.category.label} {difference_text(r.bytes)} at {r.frame}" for r in largest)
    name = "a step" if step.index is None else f"step {count_text(step.index)}"
    return f"left behind by {name}: {named}"


def steady_text(steps: tuple[StepFigures, ...]) -> str:
    """How the first recorded step differs from the later ones; empty where there are too few."""
    steady = steady_state(steps)
    if steady is None:
        return ""
    more = f"{difference_text(steady.peak_bytes)} at the peak, {_signed_seconds(steady.seconds)}"
    return f"first recorded step against the later ones (median): {more}"


def _signed_seconds(seconds: float) -> str:
    return f"+{seconds_text(seconds)}" if seconds > 0 else seconds_text(seconds)
