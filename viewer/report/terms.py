"""Every predicted term of a shape: its name, values per token, dtype, count and the formula it came from."""

from __future__ import annotations

from typing import Any

from memstrata.capture.format.plan import LayerShape, ModelShape, Term

from ..look.units import bytes_text, count_text, ratio_text
from ..look.words import OUTSIDE_LAYERS
from .layout import section, table, wrapped

HEAD = ("values", "dtype", "bytes")


def kinds(shape: ModelShape) -> list[tuple[LayerShape, int]]:
    """The first layer of each kind, and how many there are."""
    found: dict[tuple[str, int], list[LayerShape]] = {}
    for layer in shape.layers:
        found.setdefault((layer.kind, layer.width), []).append(layer)
    return [(layers[0], len(layers)) for layers in found.values()]


def terms_lines(shape: ModelShape) -> list[str]:
    """A table for each kind of layer, and one for what lies outside."""
    lines: list[str] = []
    found = kinds(shape)
    for layer, count in found:
        title = "One layer, values per token" if len(found) == 1 else f"{layer.kind}, {count_text(count, 'layer')}"
        title += " (estimate: its kernel was not measured)" if layer.estimate else ""
        lines += section(title, _layer(shape, layer))
    outside = [_row(shape, term) for term in (*shape.ahead, *shape.behind)]
    return lines + section("Outside the layers, whatever the plan", table(("kept", *HEAD), outside) if outside else [])


def _layer(shape: ModelShape, layer: LayerShape) -> list[str]:
    if not layer.terms:
        return wrapped(f"{layer.kind}: unknown, not counted", indent="  ")
    rows = [_row(shape, term) for term in layer.terms]
    rows.append(("layer", count_text(layer.width), "", bytes_text(layer.bytes(shape.tokens))))
    rows.append(("times the residual stream", ratio_text(layer.width / shape.hidden), "", ""))
    return table((layer.kind, *HEAD), rows)


def _row(shape: ModelShape, term: Term) -> tuple[str, str, str, str]:
    name = f"{term.name} = {term.formula}"
    return name, count_text(term.width), term.dtype or shape.dtype, bytes_text(term.bytes(shape.tokens))


def terms_json(shape: ModelShape) -> list[dict[str, Any]]:
    """One object for each term of each kind of layer, and of what lies outside (`layers` 0); a kind whose terms are
    not known has one without a name."""
    out: list[dict[str, Any]] = []
    for layer, count in kinds(shape):
        where = {"layer_kind": layer.kind, "layers": count, "estimate": layer.estimate}
        out += [where | _json(shape, term, count) for term in layer.terms]
        if not layer.terms:
            out.append(where | {"name": None, "bytes": None})
    where = {"layer_kind": OUTSIDE_LAYERS, "layers": 0, "estimate": False}
    return out + [where | _json(shape, term, 1) for term in (*shape.ahead, *shape.behind)]


def _json(shape: ModelShape, term: Term, count: int) -> dict[str, Any]:
    size = term.bytes(shape.tokens)
    return {
        "name": term.name,
        "values_per_token": term.width,
        "dtype": term.dtype or shape.dtype,
        "count": count,
        "formula": term.formula,
        "bytes_each": size,
        "bytes": size * count,
    }
