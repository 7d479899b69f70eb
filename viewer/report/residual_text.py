"""The prediction and its residual for reports: rows and sentences for text, the object for JSON."""

from __future__ import annotations

from typing import Any

from memstrata.capture.format.plan import ModelShape, Plan

from ..analysis.kernels import changes, with_kernels
from ..analysis.model_facts import facts_of, kernels_of
from ..analysis.prediction import predict
from ..analysis.residual import Residual, ResidualItem, residual
from ..analysis.shape import plan_in_force, shape_of
from ..analysis.what_else import without
from ..look.units import bytes_text, count_text, difference_text
from ..model.run import Run
from .layout import section, table, wrapped
from .terms import terms_json

ITEMS = 8
SENTENCES = 4


def per_layer_text(item: ResidualItem) -> str:
    """`12 x 1`: in how many layers, and how many tensors in each; a range where kinds of layers differ."""
    inside = [part for part in item.parts if part.layers]
    if not inside:
        return count_text(item.count)
    each = sorted({-(-part.count // part.layers) for part in inside})
    number = str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}"
    return f"{sum(part.layers for part in inside)} x {number}"


def facts_text(item: ResidualItem) -> str:
    """`op silu, float32`."""
    return ", ".join(text for text in (item.op and f"op {item.op}", item.dtype) if text)


def parts_text(item: ResidualItem) -> str:
    """`DecoderLayer (FullAttention): 3 in 3 layers, +5.50 MiB per layer, +16.5 MiB`, a line for each kind of layer."""
    lines = []
    for part in item.parts:
        where = f"{count_text(part.count)} in {count_text(part.layers, 'layer')}" if part.layers else str(part.count)
        each = f"{difference_text(round(part.bytes_per_layer))} per layer, " if part.layers else ""
        lines.append(f"{part.layer_kind}: {where}, {each}{difference_text(part.bytes)}")
    return "\n".join(lines)


def residual_rows(missed: Residual, items: tuple[ResidualItem, ...]) -> list[tuple[str, str, str]]:
    """Label, layers x tensors, bytes; then the sum, which closes exactly."""
    rows = [(item.label, per_layer_text(item), difference_text(item.bytes)) for item in items]
    rows.append(("sum: measured minus predicted", "", difference_text(missed.bytes)))
    return rows


def closing_text(missed: Residual) -> str:
    """How the sum is made up."""
    return (
        f"{bytes_text(missed.matched_bytes)} of what was measured is matched to predicted tensors"
        f" ({difference_text(missed.other_dtype_bytes)} by another precision); unpredicted"
        f" {difference_text(missed.unpredicted_bytes)}, absent {difference_text(-missed.absent_bytes)}"
    )


def residual_lines(missed: Residual) -> list[str]:
    """The table, how it closes, and the largest items in plain words."""
    head = (f"measured {bytes_text(missed.measured_bytes)} against {bytes_text(missed.predicted_bytes)}", "in layers",
            "bytes")  # fmt: skip
    lines = [
        "",
        *wrapped("Residual at the activation peak"),
        *table(head, residual_rows(missed, missed.largest(ITEMS))),
    ]
    lines += wrapped(closing_text(missed), indent="  ")
    for item in missed.items[:SENTENCES]:
        lines += wrapped(f"{item.label}: {item.text}", indent="  ")
    rest = len(missed.items) - SENTENCES
    return lines + ([f"  {count_text(rest, 'more item')} in words with --residual"] if rest > 0 else [])


def is_estimate(run: Run) -> bool:
    """Whether the bytes of this run are those of kernels that did not run, as in a dry run with fused ones."""
    return "estimate" in (run.recording.meta.kernels or "")


def kernel_lines(run: Run, shape: ModelShape, plan: Plan) -> list[str]:
    """What the kernels that were seen add to the count by widths, and what then remains."""
    text, _ = kernel_text(run, shape, plan)
    return wrapped(text, indent="  ") if text else []


def kernel_text(run: Run, shape: ModelShape, plan: Plan) -> tuple[str, tuple[int, ...]]:
    """The same as one sentence, with its figures; empty where they add nothing."""
    kernels, facts = kernels_of(run), facts_of(run)
    if not changes(shape, kernels, facts):
        return "", ()
    full = with_kernels(shape, kernels, facts)
    missed = residual(run, full, plan)
    mark = ", an estimate" if is_estimate(run) else ""
    said = (
        f"with the kernels seen ({kernels}{mark}) shapes say {bytes_text(missed.predicted_bytes)}, and"
        f" {difference_text(missed.bytes)} remains"
    )
    return said, (missed.predicted_bytes, missed.bytes)


def without_section(run: Run) -> list[str]:
    """What else than checkpoints would lower this run's peak."""
    found = without(run)
    rows = [(each.name, bytes_text(each.peak_bytes), difference_text(-each.saved_bytes)) for each in found]
    said = [text for each in found for text in wrapped(f"{each.name}: {each.text}", indent="  ")]
    return section(
        "What else would help (estimates, each by itself)", [*table(("", "peak", "gain"), rows), *said] if rows else []
    )


def prediction_json(run: Run) -> dict[str, Any] | None:
    """Prediction, residual and what kernels explain; None where there is no shape."""
    shape = shape_of(run)
    if shape is None:
        return None
    plan = plan_in_force(run)
    kernels, facts = kernels_of(run), facts_of(run)
    full = with_kernels(shape, kernels, facts)
    rest = residual(run, full, plan)
    return predict(shape, plan).as_json() | {
        "assumptions": list(shape.assumptions),
        "terms": terms_json(shape),
        "residual": residual_json(run, residual(run, shape, plan)),
        "with_kernels": {
            "kernels": str(kernels),
            "estimate": is_estimate(run),
            "predicted_bytes": rest.predicted_bytes,
            "residual_bytes": rest.bytes,
            "terms": terms_json(full),
        },
    }


def residual_json(run: Run, missed: Residual) -> dict[str, Any]:
    """Every item with its parts by kind of layer, its stack and its sentence; exact integers."""
    return {
        "measured_bytes": missed.measured_bytes,
        "predicted_bytes": missed.predicted_bytes,
        "matched_bytes": missed.matched_bytes,
        "other_dtype_bytes": missed.other_dtype_bytes,
        "unpredicted_bytes": missed.unpredicted_bytes,
        "absent_bytes": missed.absent_bytes,
        "position": missed.position,
        "matched": [
            {"label": each.label, "count": each.count, "bytes": each.bytes, "predicted_bytes": each.predicted_bytes}
            for each in missed.matched
        ],
        "items": [_item_json(run, item) for item in missed.items],
    }


def _item_json(run: Run, item: ResidualItem) -> dict[str, Any]:
    return {
        "label": item.label,
        "bytes": item.bytes,
        "reason": item.reason.name if item.reason else None,
        "op": item.op,
        "dtype": item.dtype,
        "count": item.count,
        "text": item.text,
        "layer_kinds": [
            {
                "layer_kind": part.layer_kind,
                "layers": part.layers,
                "count": part.count,
                "bytes": part.bytes,
                "bytes_per_layer": part.bytes_per_layer,
            }
            for part in item.parts
        ],
        "stack": [f"{function} {file}:{line}" for function, file, line in run.recording.stack_frames(item.stack)],
    }
