"""The answer in three lines: the peak and what shapes say, what shapes missed, and what checkpointing would buy.

A line is made of parts; a part that shows a number carries the query behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from memstrata.capture.format.plan import ModelShape, Plan
from memstrata.capture.format.schema import Fate

from ..look.units import bytes_text, count_text, difference_text, exact_bytes_text, percent_text, seconds_text
from ..model.cut_off import cut_off_position
from ..model.failed import failed_allocations, largest_failed
from ..model.grouping import preferred
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .place import outside_text, place_of, set_outside_layers
from .prediction import predict
from .residual import Residual, residual
from .shape import convolutions, is_compiled, not_counted, plan_in_force, shape_of
from .what_if import Estimate, estimate, why_no_estimate

ITEMS = 3
"""Groups or residual items named in a line."""


@dataclass(frozen=True)
class Part:
    """A piece of a line; `query` says which allocations its number is made of, None for words and estimates."""

    text: str
    query: AllocationQuery | None = None
    bytes: int | None = None
    """The number as it is, where the text says one in bytes."""


@dataclass(frozen=True)
class Line:
    """One line of the answer."""

    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """The whole line."""
        return "".join(part.text for part in self.parts)

    @property
    def exact(self) -> str:
        """The numbers of the line to the byte, a line each; empty for none."""
        told = [(part.text.strip(" ,;:"), part.bytes) for part in self.parts if part.bytes is not None]
        return "\n".join(f"{text}: {exact_bytes_text(size)}" for text, size in told)


def line(*parts: Part | str) -> Line:
    """A line of parts and plain words."""
    return Line(tuple(part if isinstance(part, Part) else Part(part) for part in parts))


def headline(run: Run) -> tuple[Line, Line, Line]:
    """The three lines for one run."""
    shape, plan = shape_of(run), plan_in_force(run)
    if run.inferred is not None:
        return peak_line(run), groups_line(run), inferred_line(run)
    if shape is None or is_compiled(run):
        return peak_line(run), groups_line(run), line(why_no_prediction(run))
    missed = residual(run, shape, plan)
    return peak_line(run, missed, not_counted(shape)), residual_line(missed), checkpoint_line(run, shape, plan)


def peak_line(run: Run, missed: Residual | None = None, left_out: str = "") -> Line:
    """`Peak 9.81 GiB of 24.0 GiB in backward of super-block 15; activations up to 6.97 GiB, shapes say 4.41 GiB`.
    `left_out` names what shapes do not count."""
    position = run.peak_position
    what = "Peak" if "timeline" in run.capabilities else "Active"  # of a state alone no peak is known
    start = (
        Part(f"{what} {bytes_text(run.peak_bytes)}", AllocationQuery(position=position), run.peak_bytes),
        *_whole(run),
        _where(run, position),
        *_failed(run),
    )
    if missed is None:
        return line(*start)
    query = AllocationQuery(position=missed.position, categories=ACTIVATIONS)
    measured = Part(f"activations up to {bytes_text(missed.measured_bytes)}", query, missed.measured_bytes)
    shapes = Part(f"shapes say {bytes_text(missed.predicted_bytes)}", None, missed.predicted_bytes)
    elsewhere = run.saved_bytes_by_fate()[Fate.offloaded]
    away = Part(f" and {bytes_text(elsewhere)} offloaded", None, elsewhere) if elsewhere else ""
    without = f" without {left_out}" if left_out else ""
    return line(*start, "; ", measured, away, ", ", shapes, without)


def _failed(run: Run) -> tuple[Part | str, ...]:
    """`; out of memory when 4.94 GiB more was asked for`; nothing where all was given."""
    failed = largest_failed(run)
    if failed is None:
        return ()
    times, (position, size) = len(failed_allocations(run)), failed
    often = f" {times} times, when up to" if times > 1 else " when"
    more = Part(f"{bytes_text(size)} more", AllocationQuery(position=position), size)
    return (f"; out of memory{often} ", more, " was asked for")


def _whose(run: Run) -> str:
    """` (dry run, kernels: cpu)`, where the bytes are not those of the kernels of the device."""
    meta = run.recording.meta
    return f" ({meta.source}, kernels: {meta.kernels})" if meta.kernels else ""


def _whole(run: Run) -> tuple[Part | str, ...]:
    """Whose bytes they are, and ` of 24.0 GiB` where the device says what it has."""
    total = run.device.total_bytes
    return (_whose(run), *([Part(f" of {bytes_text(total)}", None, total)] if total else []))


def _where(run: Run, position: int) -> str:
    """` in backward of super-block 15`, as far as it is known."""
    place = place_of(run, position).text
    if place:
        return f" {place}" if place.startswith("outside") else f" in {place}"
    if "timeline" not in run.capabilities:
        return " at the end"
    return at_event(position, run.n_events)


def at_event(position: int, n_events: int) -> str:
    """` at event 987 of 6,228`: the event that led to a position."""
    return f" at event {count_text(position - 1)} of {count_text(n_events)}" if position else " at the start"


def residual_line(missed: Residual) -> Line:
    """`+2.56 GiB: float32 mul outputs in norm +1.90 GiB, ... (closes exactly)`."""
    if not missed.items:
        return line("Shapes explain the activations to the byte.")
    query = AllocationQuery(position=missed.position, categories=ACTIVATIONS)
    items = [
        Part(f"{item.label} {difference_text(item.bytes)}", item.query, item.bytes) for item in missed.largest(ITEMS)
    ]
    whole = Part(f"{difference_text(missed.bytes)} against shapes: ", query, missed.bytes)
    return line(whole, *joined(items), " (closes exactly)")


def groups_line(run: Run) -> Line:
    """`Largest at the peak: train.py:12 step 3.10 GiB, ...`."""
    key = preferred(run)
    grouping = run.grouping(key)
    sizes = run.groups_at(key, [run.peak_position])[:, 0]
    largest = [i for i in (-sizes).argsort(kind="stable").tolist() if sizes[i]][:ITEMS]
    if not largest:
        return line("Nothing was allocated.")
    items = [
        Part(f"{grouping.names[i]} {bytes_text(size)}", AllocationQuery(run.peak_position, group=(key, i)), size)
        for i, size in ((i, int(sizes[i])) for i in largest)
    ]
    when = "at the peak" if "timeline" in run.capabilities else "at the end"
    return line(f"Largest {when}: ", *joined(items))


def inferred_line(run: Run) -> Line:
    """`Inferred for 62% of it: activation 6.10 GiB, ...; not inferred ...`, or why nothing could be."""
    position = run.peak_position
    shares = [
        Part(f"{category.label} {bytes_text(size)}", AllocationQuery(position, category=category), size)
        for category, size in sorted(run.inferred_categories_at(position).items(), key=lambda item: -item[1])
    ]
    if not shares:
        return line(why_no_prediction(run))
    covered = percent_text(run.inferred_coverage_at(position))
    why = [why.sentence for why, _ in run.not_inferred_at(position)[:1]]
    rest = f"; the rest: {why[0]}" if why else ""
    record = "For layers and a prediction record the step with @record_step."
    return line(f"Inferred for {covered} of it: ", *joined(shares[:ITEMS]), f"{rest}. {record}")


def joined(parts: Iterable[Part]) -> list[Part | str]:
    """The parts with commas between them."""
    out: list[Part | str] = []
    for part in parts:
        out += [", ", part] if out else [part]
    return out


def why_no_prediction(run: Run) -> str:
    """One sentence."""
    meta = run.recording.meta
    if meta.kind == "snapshot":
        return "A plain snapshot knows no layers: record the step with @record_step to see them and a prediction."
    if is_compiled(run):
        return "No prediction: the model is compiled, and shapes count what eager mode keeps."
    if not len(run.recording.layers):
        return "No prediction: the recording knows no layers."
    if not meta.batch:
        return "No prediction: batch and sequence length are unknown."
    pixels = convolutions(run)
    if pixels:
        return f"No prediction: {pixels} keep their input pixel by pixel, and no parameter says how many there are."
    return "No prediction: no layer has widths that can be read from its parameters."


def checkpoint_line(run: Run, shape: ModelShape, plan: Plan) -> Line:
    """What one checkpoint per super-block is estimated to do, or what the checkpoints in force did."""
    if plan.segments:
        return _in_force(run, shape, plan)
    proposal = shape.per_super_block()
    guess = estimate(run, shape, proposal)
    if why := why_no_estimate(run, shape):
        return line(why)
    if guess is None:
        dropped = run.saved_bytes_by_fate()[Fate.dropped]
        said = Part(f"Checkpoints dropped {bytes_text(dropped)}", None, dropped)
        return line(said, " after forward; their plan was not seen.")
    return _proposed(run, proposal, guess)


def _proposed(run: Run, plan: Plan, guess: Estimate) -> Line:
    length = max(len(segment) for segment in plan.segments)
    unit = "super-block" if length > 1 else "layer"
    cut = cut_off_position(run.recording, run.events)
    cut_off = cut is not None and run.peak_position > cut  # else the plan is judged by the steps before it
    kind = "estimate for the part of the step that ran" if cut_off else "estimate"
    if guess.peak_bytes >= run.peak_bytes:
        stays = Part(f"the peak stays {bytes_text(run.peak_bytes)}", None, run.peak_bytes)
        return line(f"Checkpoint per {unit}: no gain, ", stays, f" ({kind})")
    gain = percent_text(1 - guess.peak_bytes / run.peak_bytes)
    time = "" if guess.extra_seconds is None else f", +{seconds_text(guess.extra_seconds)} per step"
    then = f", then set {outside_text(run, guess.peak_position)}" if guess.set_outside_layers else ""
    peak = Part(f"peak {bytes_text(guess.peak_bytes)}", None, guess.peak_bytes)
    return line(f"Checkpoint per {unit}: ", peak, f", {gain} less{then}{time} ({kind})")


def _in_force(run: Run, shape: ModelShape, plan: Plan) -> Line:
    prediction = predict(shape, plan)
    fates = run.saved_bytes_by_fate()
    segments = count_text(len(plan.segments), "segment")
    if not prediction.gains:
        return line(f"The plan in force ({segments}) gains nothing by shapes: what it drops is made again at once.")
    limit = ""
    if set_outside_layers(run, run.peak_position):
        where = outside_text(run, run.peak_position)
        limit = f"; the peak is set {where}, more checkpointing will not lower it"
    dropped, saved = fates[Fate.dropped], prediction.saving_bytes
    return line(
        f"Checkpointed in {segments}: ",
        Part(f"{bytes_text(dropped)} dropped after forward", None, dropped),
        "; ",
        Part(f"by shapes {bytes_text(saved)} less at the activation peak", None, saved),
        limit,
    )
