"""The report of one file in 80 columns: the answer first, then the tables that prove it."""

from __future__ import annotations

from memstrata.capture.format.problems import Problem, merge
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Fate, Severity

from ..analysis.findings import findings
from ..analysis.headline import headline
from ..analysis.inferred import coverage_text, inferred_sentence
from ..analysis.place import super_block_text
from ..analysis.prediction import Prediction, predict
from ..analysis.residual import residual
from ..analysis.shape import plan_in_force, shape_of
from ..analysis.trust import trust_of
from ..look.units import bytes_text, count_text, percent_text, ratio_text, seconds_text
from ..look.words import OUTSIDE_LAYERS, category_title, fate_text, severity_text
from ..model.outside import outside_allocator
from ..model.run import Run
from .json import events_by_action, runs_of, unique_problems
from .layout import joined, printable, section, table, wrapped
from .residual_text import kernel_lines, residual_lines, without_section
from .steps_text import steps_section, throughput_text

FRAMES = 12
FINDINGS = 3
REASONS = 3


def report_text(recording: Recording, name: str) -> str:
    """The whole report."""
    run = Run(recording, name=name)
    runs = [run if other.device_row == run.device_row else other for other in runs_of(recording, name)] or [run]
    lines = [*wrapped(title(run)), *_errors(runs), *(text for line in headline(run) for text in wrapped(line.text))]
    if len(runs) > 1:
        lines += _devices(runs, run)
    lines += _findings(run) + _categories(run) + _memory(run) + _frames(run) + _super_blocks(run) + _saved(run)
    lines += _prediction(run) + without_section(run) + _step(run) + steps_section(run)
    lines += _estimates(run) + _problems(runs)
    return joined(lines)


def title(run: Run) -> str:
    """`before.mstrata: recording of HybridDecoder, cpu, torch 2.13.0`, however long it is."""
    meta = run.recording.meta
    of = f" of {meta.model}" if meta.model else ""
    made = meta.source if meta.kernels else meta.kind
    parts = [f"{made}{of}", f"kernels: {meta.kernels}" if meta.kernels else run.device.name]
    parts += [f"torch {meta.torch_version}"] if meta.torch_version else []
    return printable(f"{run.name}: {', '.join(parts)}")


def _findings(run: Run) -> list[str]:
    found = findings(run)
    lines = []
    for number, finding in enumerate(found[:FINDINGS], 1):
        lines += wrapped(f"{number}. {finding.text} {finding.suggestion}", indent="  ")
    if found[FINDINGS:]:
        lines.append(f"  {count_text(len(found) - FINDINGS, 'more finding')} with --json")
    return section("Findings", lines)


def _devices(runs: list[Run], shown: Run) -> list[str]:
    rows = [
        (
            f"{run.device.ordinal} {run.device.name}{' (shown here)' if run is shown else ''}",
            bytes_text(run.baseline_bytes),
            bytes_text(run.peak_bytes),
            bytes_text(run.end_bytes),
            count_text(run.n_events),
        )
        for run in runs
    ]
    return section("Devices", table(("device", "at start", "peak", "at end", "events"), rows))


def _categories(run: Run) -> list[str]:
    total = run.peak_bytes
    found = sorted(run.categories_at(run.peak_position).items(), key=lambda item: -item[1])
    inferred = run.inferred_categories_at(run.peak_position)
    rows = []
    for category, size in found:
        rows.append(
            (category_title(category, inferred.get(category, 0), size), bytes_text(size), percent_text(size / total))
        )
    if not rows:
        return []
    rows.append(("all active", bytes_text(total), percent_text(1.0)))
    lines = table(("category", "bytes", "share"), rows)
    for why, size in run.not_inferred_at(run.peak_position)[:REASONS]:
        lines += wrapped(f"unattributed {bytes_text(size)}: {why.sentence}", indent="  ")
    if sentence := inferred_sentence(run, run.peak_position):
        lines += wrapped(sentence, indent="  ")
    return section(f"{_moment(run)} ({coverage_text(run, run.peak_position)})", lines)


def _moment(run: Run) -> str:
    if "timeline" not in run.capabilities:
        return "State at the end"
    position = run.peak_position
    event = f"event {count_text(position - 1)} of {count_text(run.n_events)}" if position else "before the first event"
    time = (
        f", {seconds_text(run.time_of(position))} after the first event" if run.times is not None and position else ""
    )
    return f"At the peak: {event}{time}"


def _memory(run: Run) -> list[str]:
    if "timeline" not in run.capabilities:
        return _memory_at_end(run)
    rows = [("active", *_three(run.baseline_bytes, run.peak_bytes, run.end_bytes))]
    if run.reserved is not None:
        rows.append(("reserved", *_three(int(run.reserved[0]), int(run.reserved.max()), int(run.reserved[-1]))))
    outside = outside_allocator(run)
    if outside is not None:
        first, highest, last = int(outside.bytes[0]), int(outside.bytes.max()), int(outside.bytes[-1])
        rows.append(("outside the allocator", *_three(first, highest, last)))
    return section(memory_title(run), table(("", "at start", "highest", "at end"), rows))


def memory_title(run: Run) -> str:
    """`Active memory`, and what is reserved where an allocator reports it."""
    return "Active memory" if run.reserved is None else "Active and reserved memory"


def _memory_at_end(run: Run) -> list[str]:
    reserved = "-" if run.reserved is None else bytes_text(int(run.reserved[-1]))
    rows = [("active", bytes_text(run.end_bytes)), ("reserved", reserved)]
    return section("Active and reserved memory", table(("", "at end"), rows))


def _three(start: int, highest: int, end: int) -> tuple[str, str, str]:
    return bytes_text(start), bytes_text(highest), bytes_text(end)


def _frames(run: Run) -> list[str]:
    """For files without layers: who allocated what is alive at the peak."""
    if len(run.layers) or "stacks" not in run.capabilities:
        return []
    sizes = run.groups_at("frame", [run.peak_position])[:, 0]
    names = run.grouping("frame").names
    order = [i for i in (-sizes).argsort(kind="stable").tolist() if sizes[i]]
    rows = [(names[i], bytes_text(int(sizes[i]))) for i in order[:FRAMES]]
    if order[FRAMES:]:
        rest = int(sizes[order[FRAMES:]].sum())
        rows.append((f"other ({count_text(len(order) - FRAMES)})", bytes_text(rest)))
    when = "at the peak" if "timeline" in run.capabilities else "at the end"
    return section(f"By first user frame, {when}", table(("frame", "bytes"), rows))


def _super_blocks(run: Run) -> list[str]:
    if not len(run.layers):
        return []
    shape = shape_of(run)
    saved = run.saved_bytes_by_layer(Fate.kept, Fate.rematerialized)
    sizes = run.groups_at("super_block", [run.peak_position])[:, 0].tolist()
    rows = []
    for number, block in enumerate(run.layers.super_blocks):
        inside = range(block.start, block.stop)
        said = bytes_text(sum(shape.layers[i].bytes(shape.tokens) for i in inside)) if shape else "-"
        kept = bytes_text(sum(saved.get(i, 0) for i in inside))
        rows.append((super_block_text(run, number), kept, said, bytes_text(sizes[number])))
    said = bytes_text(shape.outside_bytes) if shape else "-"
    rows.append((OUTSIDE_LAYERS, bytes_text(saved.get(NONE, 0)), said, bytes_text(sizes[-1])))
    lines = table(("super-block", "saved", "shapes say", "alive at peak"), rows) + _saved_in(run)
    return section("Super-blocks (saved: kept for backward, or made again for it)", lines)


def _saved_in(run: Run) -> list[str]:
    """Of which pass the saved bytes are, where there are several."""
    return wrapped(f"saved in {run.passes.text}", indent="  ") if run.passes.text else []


def _saved(run: Run) -> list[str]:
    if "saved_tensors" not in run.capabilities:
        return []
    rows = [(fate_text(fate), bytes_text(size)) for fate, size in run.saved_bytes_by_fate().items()]
    return section("Saved tensors by fate (distinct storages)", table(("fate", "bytes"), rows) + _saved_in(run))


def _prediction(run: Run) -> list[str]:
    shape = shape_of(run)
    if shape is None:
        return []
    plan = plan_in_force(run)
    lines = table(("shapes say", "bytes"), prediction_rows(predict(shape, plan), len(plan.segments)))
    lines += residual_lines(residual(run, shape, plan)) + kernel_lines(run, shape, plan)
    for assumption in shape.assumptions:
        lines += wrapped(f"assumed: {assumption}", indent="  ")
    return section("Prediction from shapes, activations only", lines)


OUTSIDE = "outside the layers, when backward begins"
WITH_OUTSIDE = "peak of activations with them"


def prediction_rows(prediction: Prediction, segments: int) -> list[tuple[str, str]]:
    """The lines of the arithmetic, each with its bytes."""
    figures = prediction_figures(prediction, segments)
    return [(label, ratio_text(n) if isinstance(n, float) else bytes_text(n)) for label, n in figures]


def prediction_figures(prediction: Prediction, segments: int) -> list[tuple[str, int | float]]:
    """The same: whole numbers are bytes, the other one is how many times less."""
    rows: list[tuple[str, int | float]] = [
        ("residual stream only, one per layer", prediction.residual_only_bytes),
        ("largest layer", prediction.per_layer_bytes),
        ("all layers, no checkpoints", prediction.total_bytes),
    ]
    if segments and prediction.kept_bytes:
        rows.append(("kept outside segments", prediction.kept_bytes))
    if segments:
        rows += [
            (f"boundaries ({segments})", prediction.boundary_bytes),
            ("largest segment, made again", prediction.rematerialized_bytes),
            ("checkpointed peak", prediction.checkpointed_peak_bytes),
            ("times less", float(prediction.ratio)),
        ]
    if segments and prediction.counted_twice_bytes:
        rows.append(("in it twice: the running segment's input", prediction.counted_twice_bytes))
    if prediction.outside_bytes:
        rows.append((OUTSIDE, prediction.outside_bytes))
        rows.append((WITH_OUTSIDE, prediction.timeline_peak_bytes))
    return rows


def _step(run: Run) -> list[str]:
    return section(step_title(run), [t for f in step_facts_text(run) for t in wrapped(f, indent="  ")])


def step_title(run: Run) -> str:
    """What stands over the facts of a step, or of a trace that may hold none."""
    return "Step" if run.recording.meta.kind == "recording" else "Trace"


def step_facts_text(run: Run) -> list[str]:
    """Events, time, throughput, what was lost, loss, optimizer: what a file says of its step, a line each."""
    meta = run.recording.meta
    events = ", ".join(f"{count_text(n)} {action}" for action, n in events_by_action(run).items())
    facts = [f"events: {events}" if events else "no events"]
    if meta.step_seconds_recorded:
        plain = meta.step_seconds_unrecorded
        unrecorded = f", {seconds_text(plain)} unrecorded" if plain else ", unrecorded steps were not timed"
        facts.append(f"step: {seconds_text(meta.step_seconds_recorded)} recorded{unrecorded}")
        facts.append(throughput_text(run))
    facts += _trust(run)
    if meta.loss is not None:
        facts.append(f"loss: {meta.loss:.6g}")
    if meta.optimizer:
        facts.append(f"optimizer: {meta.optimizer}")
    return facts


def _trust(run: Run) -> list[str]:
    trust = trust_of(run)
    if trust is None:
        return []
    codes = ", ".join(problem.code.replace("_", " ") for problem in trust.lost)
    lost = f"lost: {codes} (see the problems)" if trust.lost else "lost: nothing"
    return [lost, f"results: {trust.results}"]


def _estimates(run: Run) -> list[str]:
    """What in this file was not measured."""
    found = [text for sentence in run.recording.meta.estimates for text in wrapped(sentence, indent="  ")]
    return section("Not measured", found)


def _errors(runs: list[Run]) -> list[str]:
    """What makes everything below doubtful, or only a part of the step, stands above it."""
    found = [problem for problem in merge(unique_problems(runs)) if problem.severity == Severity.error]
    return [text for problem in found for text in wrapped(problem_text(problem))]


def _problems(runs: list[Run]) -> list[str]:
    found = [problem for problem in merge(unique_problems(runs)) if problem.severity != Severity.error]
    lines = [text for p in sorted(found, key=lambda p: -p.severity) for text in wrapped(problem_text(p), indent="  ")]
    worst = max((problem.severity for problem in found), default=Severity.info)
    return section("Notes" if worst == Severity.info else "Problems", lines)


def problem_text(problem: Problem) -> str:
    """A problem as one line of a report, with its severity and how often."""
    said = problem.text.startswith(f"{count_text(problem.count)} ")  # the sentence itself gives the number
    times = f" ({count_text(problem.count)} times)" if problem.count > 1 and not said else ""
    return f"{severity_text(problem.severity)}: {problem.text}{times}"
