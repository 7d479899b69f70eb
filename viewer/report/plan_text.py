"""What checkpoint plans would make of one recorded step, in 80 columns and as JSON, with the code of the chosen one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..analysis.operators import Choice, kinds_that_ran, parse_keep
from ..analysis.place import place_of
from ..analysis.plan_code import fsdp2_code, huggingface_code, torch_code
from ..analysis.plan_search import Search
from ..analysis.planner import CHECKPOINT_SECONDS, Outcome, Planner
from ..look.units import bytes_text, count_text, percent_text, seconds_text
from ..model.run import Run
from .layout import joined, section, table, wrapped


@dataclass(frozen=True)
class Asked:
    """What was asked for: a budget in bytes, a segment length, or (neither) the frontier; `keep` names operators that
    checkpoints keep, as `matmul,attention`."""

    budget: int | None = None
    segment_layers: int | None = None
    keep: str = ""


@dataclass(frozen=True)
class Plans:
    """The answer: the chosen plan if there is one, and what stands beside it."""

    planner: Planner
    asked: Asked
    chosen: Outcome | None
    others: tuple[Outcome, ...]
    lowest: Outcome | None = None


def plans(run: Run, asked: Asked) -> Plans:
    """The plans asked for. ValueError with one sentence where the recording does not allow it."""
    planner = Planner(run)
    if asked.keep:
        planner = planner.keeping(parse_keep(asked.keep, planner.operators))
    if asked.segment_layers is not None:
        return Plans(planner, asked, planner.outcome(planner.every(asked.segment_layers)), ())
    try:
        search = Search(planner)
    except ValueError as error:
        raise ValueError(f"{str(error).removesuffix('.')} with --segment-layers.") from error
    if asked.budget is not None:
        chosen = search.best(asked.budget)
        return Plans(planner, asked, chosen, (), search.lowest() if chosen is None else None)
    return Plans(planner, asked, None, search.frontier())


def plan_text(found: Plans) -> str:
    """The page."""
    run = found.planner.run
    lines = wrapped(f"{run.name}: measured peak {bytes_text(run.peak_bytes)} without checkpoints")
    if found.planner.keep:
        lines += wrapped(f"checkpoints keep the outputs of {', '.join(found.planner.keep)}")
    if found.lowest is not None and found.asked.budget is not None:
        lines += wrapped(
            f"No plan fits {bytes_text(found.asked.budget)}: the lowest peak any plan reaches is"
            f" {bytes_text(found.lowest.peak_bytes)} ({where_text(found.planner, found.lowest)})."
        )
        return joined(lines)
    if found.chosen is not None:
        lines += _chosen(found.planner, found.chosen)
        return joined(lines) + (_code(found.planner, found.chosen) if found.chosen.ranges else "")
    head = ("segments (layers)", "step peak", "activations", "more time")
    rows = [(segments_text(o), *_figures(o)) for o in found.others]
    lines += section("Peak against time, estimates from this recording", table(head, rows))
    lines += ["", *wrapped("memstrata plan FILE --budget SIZE prints the code of the best plan for a budget.")]
    return joined(lines)


def _chosen(planner: Planner, outcome: Outcome) -> list[str]:
    run = planner.run
    if not outcome.ranges:
        return wrapped("The step fits without a checkpoint.")
    gain = 1 - outcome.peak_bytes / run.peak_bytes
    what = f"peak {bytes_text(outcome.peak_bytes)}, {percent_text(gain)} less" if gain > 0 else "no gain"
    lines = wrapped(f"{count_text(len(outcome.ranges), 'segment')}: {what} (estimate), {where_text(planner, outcome)}")
    rows = [
        ("whole step", bytes_text(run.peak_bytes), bytes_text(outcome.peak_bytes)),
        ("activations", bytes_text(int(run.activation_curve.max())), bytes_text(outcome.activation_peak_bytes)),
        ("time run again", "-", _seconds(outcome)),
    ]
    if planner.keep:
        rows.insert(2, ("kept outputs of operators", "-", bytes_text(outcome.cached_bytes)))
    lines += section("Peaks", table(("", "measured", "with the plan"), rows))
    if outcome.at_most_seconds is not None:
        said = f"With what each checkpoint costs the host besides, up to {seconds_text(CHECKPOINT_SECONDS)}, it is at"
        lines += wrapped(f"{said} most {time_text(outcome.at_most_seconds, '+')} per step.", indent="  ")
    lines += section("Segments", wrapped(segments_text(outcome), indent="  "))
    return lines + _operators(planner, outcome)


def _operators(planner: Planner, outcome: Outcome) -> list[str]:
    """What each operator would cost to keep and spare, and the same segments with some of them kept."""
    if not (found := operator_choices(planner)):
        return []
    rows = [(c.operator, str(c.outputs), bytes_text(c.bytes), time_text(c.seconds)) for c in found]
    head = ("operator", "outputs", "bytes to keep", "time to run again")
    said = table(head, rows) + (wrapped(note, indent="  ") if (note := operators_note(planner.run)) else [])
    lines = section("Operators in layers (a checkpoint can keep them: --keep)", said)
    words = kinds_that_ran(planner.operators)
    others = [planner.keeping(parse_keep(word, planner.operators)).outcome(outcome.ranges) for word in words]
    rows = [(keep_text(word), *_figures(other)) for word, other in zip(words, others, strict=True)]
    return lines + section(
        "The same segments, keeping (estimates)", table(("", "step peak", "activations", "more time"), rows)
    )


def operator_choices(planner: Planner) -> tuple[Choice, ...]:
    """What keeping each operator would cost and spare; () where the recording does not say."""
    try:
        return planner.choices
    except ValueError:
        return ()


def operators_note(run: Run) -> str:
    """Which pass the figures of operators are those of, a sentence; empty where there is only one."""
    passes, of_step = run.passes, len(run.passes.of_peak_step)
    times = f"; times are those of all {of_step} passes of the step" if of_step > 1 else ""
    return f"Outputs and bytes are those of {passes.text}{times}." if passes.text else ""


def keep_text(keep: str) -> str:
    """`matmul and attention`."""
    return keep.replace(",", " and ") or "nothing"


def _code(planner: Planner, outcome: Outcome) -> str:
    parts = (
        ("torch", torch_code(planner, outcome.ranges)),
        ("Hugging Face", huggingface_code(planner, outcome.ranges)),
        ("FSDP2", fsdp2_code(planner, outcome.ranges)),
    )
    return "".join(f"\n# ---- {name} ----\n{code}" for name, code in parts)


def where_text(planner: Planner, outcome: Outcome) -> str:
    """`reached in backward of layers.3`."""
    if outcome.peak_in_recompute:
        place = place_of(planner.run, outcome.peak_position).text
        return f"reached while a segment runs again, before {place}" if place else "reached while a segment runs again"
    place = place_of(planner.run, outcome.peak_position).text
    return f"reached in {place}" if place else "reached outside the step"


def segments_text(outcome: Outcome) -> str:
    """`0-3 4-7`: the layers of each segment."""
    if not outcome.ranges:
        return "none"
    return " ".join(str(a) if b - a == 1 else f"{a}-{b - 1}" for a, b in outcome.ranges)


def _figures(outcome: Outcome) -> tuple[str, str, str]:
    return bytes_text(outcome.peak_bytes), bytes_text(outcome.activation_peak_bytes), _seconds(outcome)


def _seconds(outcome: Outcome) -> str:
    return time_text(outcome.extra_seconds, "+")


def time_text(seconds: float | None, sign: str = "") -> str:
    """`+399 ms`; `-` where nothing was timed."""
    return "-" if seconds is None else f"{sign}{seconds_text(seconds)}"


def plan_json(found: Plans) -> dict[str, Any]:
    """The same with exact figures; every figure of a plan is an estimate."""
    run, chosen = found.planner.run, found.chosen
    return {
        "file": run.name,
        "measured_peak_bytes": run.peak_bytes,
        "measured_activation_peak_bytes": int(run.activation_curve.max()),
        "budget_bytes": found.asked.budget,
        "keep": list(found.planner.keep),
        "operators": _operators_json(found.planner),
        "plan": None if chosen is None else outcome_json(chosen),
        "lowest": None if found.lowest is None else outcome_json(found.lowest),
        "frontier": [outcome_json(outcome) for outcome in found.others],
        "code": None if chosen is None else torch_code(found.planner, chosen.ranges),
    }


def _operators_json(planner: Planner) -> list[dict[str, Any]]:
    found = operator_choices(planner)
    return [{"operator": c.operator, "outputs": c.outputs, "bytes": c.bytes, "seconds": c.seconds} for c in found]


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """One plan and what it is estimated to do."""
    return {
        "segments": [list(segment) for segment in outcome.plan.segments],
        "peak_bytes": outcome.peak_bytes,
        "activation_peak_bytes": outcome.activation_peak_bytes,
        "kept_output_bytes": outcome.cached_bytes,
        "peak_in_recompute": outcome.peak_in_recompute,
        "extra_seconds": outcome.extra_seconds,
        "extra_seconds_at_most": outcome.at_most_seconds,
        "estimate": True,
    }
