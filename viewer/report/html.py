"""The whole analysis as one HTML page that opens offline: no script, no font and no picture from elsewhere.

Everything that comes from a file is escaped. Colours follow the reader's light or dark setting.
"""

from __future__ import annotations

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Category, Fate

from ..analysis.findings import findings
from ..analysis.headline import headline
from ..analysis.inferred import coverage_text, inferred_sentence
from ..analysis.place import super_block_text
from ..analysis.prediction import predict
from ..analysis.residual import ResidualItem, residual
from ..analysis.shape import plan_in_force, shape_of
from ..look.units import percent_text, ratio_text
from ..look.words import OUTSIDE_LAYERS, category_text, fate_text
from ..model.bands import Bands, bands_of
from ..model.grouping import preferred
from ..model.query import AllocationQuery
from ..model.run import Run
from ..model.said import Said, quiet
from .html_allocator import allocator_html
from .html_page import (
    bars_html,
    category_html,
    difference_html,
    line_html,
    page,
    section_html,
    share_html,
    size_html,
    table_html,
    told_html,
)
from .html_plans import plans_html, what_else_html
from .html_stacks import stacks_html
from .html_step import devices_html, devices_of, errors_html, memory_html, notes_html, step_html
from .layout import markup
from .residual_report import stack_text
from .residual_text import closing_text, facts_text, kernel_text, parts_text, per_layer_text
from .svg import PICTURE_STYLE, category_rules, colour_rules, timeline_svg
from .text import prediction_figures, title

LARGEST = 40
"""Allocations listed with their stacks."""


def report_html(recording: Recording, name: str, said: Said = quiet) -> str:
    """The page for one file, of the device with the highest peak; what is said of the allocator is of every device,
    and its replay is what takes long in a large file: `said(part)` is told how far it is, and calls it off by raising.
    """
    runs = devices_of(recording, name)
    run = runs[0]
    key = preferred(run)
    bands = bands_of(run, key)
    parts = [errors_html(runs), *map(line_html, headline(run)), *_findings(run)]
    parts += _picture(run, key, bands) + _groups(run, bands) + memory_html(run) + devices_html(runs)
    parts += _super_blocks(run) + _prediction(run) + _saved(run) + _largest(run) + stacks_html(run)
    parts += plans_html(run) + what_else_html(run) + allocator_html(recording, name, said)
    parts += step_html(run) + notes_html(runs)
    return page(title(run), parts, PICTURE_STYLE + colour_rules(bands) + category_rules())


def _findings(run: Run) -> list[str]:
    """Every finding with what to do about it."""
    items = [
        f"<li><b>{told_html(found.text, {found.bytes, *found.sizes})}</b> {markup(found.suggestion)}</li>"
        for found in findings(run)
    ]
    return section_html("Findings", f"<ol>{''.join(items)}</ol>") if items else []


def _picture(run: Run, key: str, bands: Bands) -> list[str]:
    picture = timeline_svg(run, key, legend=True)
    if not picture:
        return []
    said = f"Active bytes by {bands.grouping.title}."
    return [f"<figure>{picture}<figcaption>{markup(said)}</figcaption></figure>"]


def _when(run: Run) -> str:
    return "at the peak" if "timeline" in run.capabilities else "at the end"


def _groups(run: Run, bands: Bands) -> list[str]:
    sizes = run.groups_at(bands.grouping.key, [run.peak_position])[:, 0].tolist()
    own = [sum(sizes[i] for i in range(len(sizes)) if bands.labels[n] == i) for n in range(len(bands))]
    rest = sum(sizes) - sum(own)
    rows = []
    for number in sorted(range(len(bands)), key=lambda n: -own[n]):
        size = own[number] if bands.labels[number] != NONE else rest
        if size:
            name = f'<i class="g{number}"></i>{markup(bands.grouping.names[number])}'
            bar = bars_html([(f"g{number}", 0, size, bands.grouping.names[number])], 0, run.peak_bytes)
            rows.append((name, size_html(size), share_html(size, run.peak_bytes), bar))
    rows.append(("all active", size_html(run.peak_bytes), share_html(run.peak_bytes, run.peak_bytes), ""))
    covered = coverage_text(run, run.peak_position)
    heading = f"By {bands.grouping.title}, {_when(run)} ({covered})"
    table = table_html((bands.grouping.title, "bytes", "share", ""), rows, sums=1, bar=3)
    return section_html(heading, table) + _inferred(run)


def _inferred(run: Run) -> list[str]:
    """For a plain snapshot: the categories that its stacks, annotations and lifetimes give evidence for."""
    if run.inferred is None or not run.peak_bytes:
        return []
    position, total = run.peak_position, run.peak_bytes
    found = run.inferred_categories_at(position)
    parts = [(int(c), f"{category_text(c)} (inferred)", n) for c, n in found.items()]
    parts += [
        (int(Category.unattributed), f"unattributed: {why.sentence}", n) for why, n in run.not_inferred_at(position)
    ]
    rows = [
        (category_html(c, text), size_html(n), share_html(n, total), bars_html([(f"c{c}", 0, n, text)], 0, total))
        for c, text, n in parts
    ]
    heading = f"Inferred categories, {_when(run)} ({percent_text(run.inferred_coverage_at(position))} inferred)"
    said = f"<p>{markup(inferred_sentence(run, position))}</p>"
    return section_html(heading, table_html(("category", "bytes", "share", ""), rows, bar=3), said)


def _super_blocks(run: Run) -> list[str]:
    if not len(run.layers):
        return []
    shape = shape_of(run)
    saved = run.saved_bytes_by_layer(Fate.kept, Fate.rematerialized)
    alive = run.groups_at("layer", [run.peak_position])[:, 0].tolist()
    rows = []
    for number, block in enumerate(run.layers.super_blocks):
        layers = range(block.start, block.stop)
        said = [shape.layers[layer].bytes(shape.tokens) for layer in layers] if shape else None
        figures = [sum(saved.get(layer, 0) for layer in layers), said and sum(said), sum(alive[i] for i in layers)]
        rows.append((f"<b>{markup(super_block_text(run, number))}</b>", *map(_sum_html, figures)))
        for place, layer in enumerate(layers):
            figures = [saved.get(layer, 0), said and said[place], alive[layer]]
            rows.append((markup(run.layers.names[layer]), *map(_figure_html, figures)))
    outside = [saved.get(NONE, 0), shape.outside_bytes if shape else None, alive[-1]]
    rows.append((OUTSIDE_LAYERS, *map(_figure_html, outside)))
    note = f'<p class="dim">Saved: kept for backward, or made again for it{_saved_in(run)}.</p>'
    table = table_html(("layer", "saved", "shapes say", "alive at peak"), rows)
    return section_html("Super-blocks and layers", note, table)


def _saved_in(run: Run) -> str:
    """Of which pass the saved bytes are, where there are several."""
    return f", in {run.passes.text}" if run.passes.text else ""


def _figure_html(size: int | None) -> str:
    return "-" if size is None else size_html(size)


def _sum_html(size: int | None) -> str:
    return f"<b>{_figure_html(size)}</b>"


def _prediction(run: Run) -> list[str]:
    shape = shape_of(run)
    if shape is None:
        return []
    plan = plan_in_force(run)
    figures = prediction_figures(predict(shape, plan), len(plan.segments))
    rows = [(markup(label), ratio_text(n) if isinstance(n, float) else size_html(n)) for label, n in figures]
    missed = residual(run, shape, plan)
    items = [
        (f"{markup(item.label)}<br><span class='dim'>{_details(run, item)}</span>", per_layer_text(item),
         difference_html(item.bytes))
        for item in missed.items
    ]  # fmt: skip
    items.append(("sum: measured minus predicted", "", difference_html(missed.bytes)))
    closes = (missed.matched_bytes, missed.other_dtype_bytes, missed.unpredicted_bytes, missed.absent_bytes)
    closing = f'<p class="dim">{told_html(closing_text(missed), closes)}.</p>'
    seen, sizes = kernel_text(run, shape, plan)
    assumed = [f'<p class="dim">{told_html(f"{seen[:1].upper()}{seen[1:]}", sizes)}.</p>'] if seen else []
    assumed += [f'<p class="dim">Estimate: {markup(text)}</p>' for text in run.recording.meta.estimates]
    assumed += [f'<p class="dim">Assumed: {markup(text)}.</p>' for text in shape.assumptions]
    residuals = f"<p>Measured {size_html(missed.measured_bytes)} against {size_html(missed.predicted_bytes)}:</p>"
    tables = (
        table_html(("shapes say", "bytes"), rows),
        residuals,
        table_html(("residual", "in layers", "bytes"), items, sums=1),
        closing,
    )
    return section_html("Prediction from shapes, activations only", *tables, *assumed)


def _details(run: Run, item: ResidualItem) -> str:
    """The sentence, op and dtype, the share of each kind of layer, the stack."""
    lines = [
        item.text,
        facts_text(item),
        *parts_text(item).split("\n"),
        " < ".join(stack_text(run.recording, item.stack)),
    ]
    sizes = [item.bytes]
    for part in item.parts:
        sizes += [part.bytes, round(part.bytes_per_layer), part.bytes // max(part.count, 1)]
    return "<br>".join(told_html(line, sizes) for line in lines if line)


def _saved(run: Run) -> list[str]:
    if "saved_tensors" not in run.capabilities:
        return []
    rows = [(fate_text(fate), size_html(size)) for fate, size in run.saved_bytes_by_fate().items()]
    return section_html(
        f"Saved tensors by fate (distinct storages{_saved_in(run)})", table_html(("fate", "bytes"), rows)
    )


def _largest(run: Run) -> list[str]:
    """The largest allocations at the peak, each with its stack folded away."""
    rows = AllocationQuery(position=run.peak_position).select(run)[:LARGEST].tolist()
    cells = [(_allocation(run, row), size_html(int(run.allocations.bytes[row]))) for row in rows]
    return (
        section_html(f"Largest allocations {_when(run)}", table_html(("allocation", "bytes"), cells)) if cells else []
    )


def _allocation(run: Run, row: int) -> str:
    layer = int(run.attribution.layer[row])
    where = f", {run.layers.names[layer]}" if layer >= 0 else ""
    how = " (inferred)" if run.attribution.inferred[row] else ""
    name = markup(category_text(int(run.attribution.category[row])) + how + where + _made_in(run, row))
    frames = run.recording.stack_frames(int(run.allocations.stack[row]))
    if not frames:
        return name
    lines = "\n".join(markup(f"{function}  {file}:{line}" if file else function) for function, file, line in frames)
    return f"<details><summary>{name}</summary><pre>{lines}</pre></details>"


def _made_in(run: Run, row: int) -> str:
    """The first user frame of an allocation that has a stack."""
    if "stacks" not in run.capabilities or run.allocations.stack[row] < 0:
        return ""
    grouping = run.grouping("frame")
    return f", {grouping.names[int(grouping.labels[row])]}"
