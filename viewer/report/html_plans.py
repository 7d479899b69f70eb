"""Checkpoint plans and other changes of one run as sections of a page; every figure of them is an estimate."""

from __future__ import annotations

from ..analysis.planner import CHECKPOINT_SECONDS, Outcome
from ..look.units import count_text, seconds_text
from ..model.run import Run
from .html_page import bars_html, difference_html, section_html, share_html, size_html, table_html
from .layout import markup
from .plan_text import Asked, Plans, operator_choices, operators_note, plans, segments_text, time_text, where_text
from .what_else_text import AskedElse, what_else


def plans_html(run: Run) -> list[str]:
    """Peak against time of checkpoint plans, where the recording allows to tell."""
    try:
        found = plans(run, Asked())
    except ValueError:
        return []
    said = f"<p>Measured peak {size_html(run.peak_bytes)} without checkpoints. Each plan is the best for its peak.</p>"
    return section_html("Checkpoint plans", said, *_frontier(found), *_operators(found))


def _frontier(found: Plans) -> list[str]:
    run = found.planner.run
    head = ("segments (layers)", "step peak", "", "saved", "share", "activations", "more time", "at most", "reached")
    rows = [_plan(found, outcome) for outcome in found.others]
    at_most = (
        "More time: forward run again, per step; at most that, with what each checkpoint costs the host besides, up to"
        f" {seconds_text(CHECKPOINT_SECONDS)}. Layers are counted from 0; layers a-b are one segment."
    )
    advice = f"memstrata plan {run.name} --budget SIZE prints the code of the best plan for a budget."
    table = table_html(head, rows, left=(8,), bar=2)
    notes = (f'<p class="dim">{markup(text)}</p>' for text in (at_most, advice))
    return section_html("Peak against time, estimates from this recording", table, *notes, level=3)


def _plan(found: Plans, outcome: Outcome) -> tuple[str, ...]:
    run = found.planner.run
    saved = run.peak_bytes - outcome.peak_bytes
    bar = bars_html([("used", 0, outcome.peak_bytes, "step peak")], 0, run.peak_bytes)
    return (
        segments_text(outcome), size_html(outcome.peak_bytes), bar, size_html(saved), share_html(saved, run.peak_bytes),
        size_html(outcome.activation_peak_bytes), time_text(outcome.extra_seconds, "+"),
        time_text(outcome.at_most_seconds, "+"), markup(where_text(found.planner, outcome).removeprefix("reached ")),
    )  # fmt: skip


def _operators(found: Plans) -> list[str]:
    """What each operator would cost to keep in a checkpoint and spare."""
    rows = [
        (markup(c.operator), count_text(c.outputs), size_html(c.bytes), time_text(c.seconds))
        for c in operator_choices(found.planner)
    ]
    table = table_html(("operator", "outputs", "bytes to keep", "time to run again"), rows)
    note = f'<p class="dim">{note}</p>' if rows and (note := operators_note(found.planner.run)) else ""
    return section_html("Operators in layers (a checkpoint can keep them: --keep)", table, note, level=3)


def what_else_html(run: Run) -> list[str]:
    """Changes other than checkpoints, where the recording allows to tell."""
    try:
        found = what_else(run, AskedElse())
    except ValueError:
        return []
    peak = int(found.under.curve.max())
    rows = [
        (f"{markup(c.name)}<br><span class='dim'>{markup(c.text)}</span>", size_html(c.peak_bytes),
         difference_html(-c.saved_bytes), share_html(c.saved_bytes, peak))
        for c in found.changes
    ]  # fmt: skip
    body = table_html(("", "peak", "gain", "share"), rows) or "<p>Nothing that this step shows.</p>"
    said = f"<p>Peak {size_html(peak)} as recorded.</p>"
    return section_html("What else would help (estimates, each by itself)", said, body)
