"""Halves of a residual layer: modules with projections out of the residual width and one projection back to it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from memstrata.capture.format.plan import Half

from .experts import chosen_experts, fused_experts, router_of
from .halves_across import halves_across
from .inside_mixer import inner_norms, mixed_by, more_rows
from .leaves import KEEPS_OUTPUT
from .module_tree import ModuleTree

_OUTPUT_NAME = re.compile(
    r"^(o|wo|w2|fc2|linear2|out|output|down|proj|c_proj|dense|.*(o|out|output|down)_proj|to_out)$"
)
_NO_WAY_BACK = re.compile(r"^(q|k|v|query|key|value)(_proj|_lin)?$")


@dataclass(frozen=True)
class _Linear:
    row: int
    width_in: int
    width_out: int


def find_halves(tree: ModuleTree, layer: int) -> tuple[int, list[Half]]:
    """(residual width, halves in order) of this layer; no halves if it has no residual structure that can be read:
    a norm outside the halves, and modules with projections out and one back."""
    rows = tree.descendants(layer)
    holders = [
        row for row in rows
        if fused_experts(tree, row) or (len(_linears(tree, row)) >= 2 and not _runs_in_order(tree, row, layer))
    ]  # fmt: skip
    inside = {r for holder in holders if holder != layer for r in tree.descendants(holder)}
    norms = [row for row in rows if tree.is_norm(row) and row not in inside]
    if not norms or not holders:
        return 0, []
    hidden = _hidden(tree, norms, holders)
    order = {tree.paths[row]: row for row in rows}
    if any(_has_no_way_back(tree, row) for row in holders):
        halves = halves_across(tree, layer, hidden)
    else:
        kept = _one_expert(tree, holders, layer)
        halves = [half for row, chosen in kept for half in _halves_of(tree, row, hidden, chosen)]
    halves.sort(key=lambda half: order.get(half.output_path, order[half.module]))
    return hidden, _with_norms([tree.paths[row] for row in norms], halves, tree.paths[layer])


def _has_no_way_back(tree: ModuleTree, row: int) -> bool:
    """Only queries, keys and values: what leads back is in another module, as in BERT."""
    names = {tree.name(linear.row) for linear in _linears(tree, row)}
    return len(names) >= 3 and all(_NO_WAY_BACK.match(name) for name in names)


def expert_lists(tree: ModuleTree, layer: int) -> list[list[int]]:
    """The lists of experts in this layer: rows of modules with projections of their own, of which a token goes through
    some. `find_halves` counts one of each list for all that are chosen."""
    if not find_halves(tree, layer)[1]:
        return []
    listed, parents = tree.recording.modules.in_layer_list, tree.recording.modules.parent
    lists: dict[int, list[int]] = {}
    for row in tree.descendants(layer):
        if row != layer and listed[row] and len(_linears(tree, row)) >= 2 and not _runs_in_order(tree, row, layer):
            lists.setdefault(int(parents[row]), []).append(row)
    return [rows for rows in lists.values() if len(rows) >= 2]


def _linears(tree: ModuleTree, row: int) -> list[_Linear]:
    """The Linear-like children; a packed input projection (`in_proj_weight`) held by the module itself comes first."""
    found = []
    packed, _ = tree.parameters[row].get("in_proj_weight", ((), ""))
    if len(packed) == 2:
        found.append(_Linear(row, packed[1], packed[0]))
    for child in tree.children[row]:
        widths = tree.linear(child)
        if widths:
            found.append(_Linear(child, *widths))
    return found


def _runs_in_order(tree: ModuleTree, row: int, layer: int) -> bool:
    """A Sequential that is the whole layer, or that holds norms between its Linears, is no half."""
    listed = tree.recording.modules.in_layer_list
    linears = [child.row for child in _linears(tree, row) if child.row != row]
    if not linears or not all(listed[child] for child in linears):
        return False
    return row == layer or any(tree.is_norm(child) for child in tree.children[row])


def _hidden(tree: ModuleTree, norms: list[int], holders: list[int]) -> int:
    """The width most norms outside the halves have; where they hold no weight, the most common input width."""
    widths = [tree.parameters[row]["weight"][0] for row in norms if "weight" in tree.parameters[row]]
    counted = Counter(shape[0] for shape in widths if len(shape) == 1)
    if not counted:
        counted = Counter(linear.width_in for row in holders for linear in _linears(tree, row))
    return counted.most_common(1)[0][0]


def _one_expert(tree: ModuleTree, holders: list[int], layer: int) -> list[tuple[int, int]]:
    """(holder, chosen): of experts in a list inside the layer one stands for all that a token goes through; 0 for what
    is no expert."""
    listed = tree.recording.modules.in_layer_list
    parents = tree.recording.modules.parent
    out: list[tuple[int, int]] = []
    seen: set[int] = set()
    for row in holders:
        parent = int(parents[row])
        if row == layer or not listed[row] or sum(int(parents[h]) == parent for h in holders) < 2:
            out.append((row, 0))
        elif parent not in seen:
            seen.add(parent)
            out.append((row, chosen_experts(tree, parent)))
    return out


def _halves_of(tree: ModuleTree, row: int, hidden: int, chosen: int) -> list[Half]:
    """The halves in one module: each ends with the projection back to the residual width."""
    if fused := fused_experts(tree, row):
        return [fused.half(tree, row, hidden)]
    halves: list[Half] = []
    pending: list[_Linear] = []
    linears = _way_back_last(tree, _linears(tree, row), hidden)
    for place, linear in enumerate(linears):
        if pending and _is_output(tree, linear, linears[place + 1 :], hidden):
            halves.append(_half(tree, row, _kept_outputs(tree, row, pending, linear), pending, linear, chosen))
            pending = []
        elif linear.width_out > 1:  # a gate of one value per token is not worth a line
            pending.append(linear)
    if halves and pending:  # a projection listed after the way back (`w1, w2, w3`)
        extra = tuple((tree.name(p.row), p.width_out) for p in pending)
        halves[-1] = replace(halves[-1], projections=halves[-1].projections + extra)
    return halves


def _way_back_last(tree: ModuleTree, linears: list[_Linear], hidden: int) -> list[_Linear]:
    """In order, but a way back that is listed before every projection goes to the end."""
    first = linears[0] if linears else None
    if first is None or first.width_out != hidden or not _OUTPUT_NAME.match(tree.name(first.row)):
        return linears
    again = any(other.width_out == hidden and _OUTPUT_NAME.match(tree.name(other.row)) for other in linears[1:])
    return linears if again or len(linears) == 1 else [*linears[1:], first]


def is_output_name(name: str) -> bool:
    """Whether a projection of this name leads back to the residual stream."""
    return bool(_OUTPUT_NAME.match(name))


def _is_output(tree: ModuleTree, linear: _Linear, later: list[_Linear], hidden: int) -> bool:
    if linear.width_out != hidden:
        return False
    if linear.width_in != hidden or _OUTPUT_NAME.match(tree.name(linear.row)):
        return True
    return not any(other.width_out == hidden for other in later)


def _kept_outputs(tree: ModuleTree, row: int, projections: list[_Linear], output: _Linear) -> list[_Linear]:
    """The projections whose output is kept: not the one before a ReLU, whose output is the output projection's input
    and all that its backward needs."""
    alone = len(projections) == 1 and projections[0].width_out == output.width_in
    return [] if alone and _keeps_its_output(tree, row) else projections


def _keeps_its_output(tree: ModuleTree, row: int) -> bool:
    """An activation function that is a module here, or torch's own encoder layer, which calls ReLU by itself."""
    if tree.attributes[row].get("activation_relu_or_gelu") == 1:
        return True
    return any(tree.classes[child] in KEEPS_OUTPUT for child in tree.children[row])


def _half(
    tree: ModuleTree, row: int, kept: list[_Linear], projections: list[_Linear], output: _Linear, chosen: int
) -> Half:
    named = tuple(("in_proj" if p.row == row else tree.name(p.row), p.width_out) for p in kept)
    named += mixed_by(tree, row, output.width_in)
    listed = tree.recording.modules.in_layer_list
    name = tree.name(row)
    if listed[row]:  # an expert goes by the name of the list of experts, a layer by none
        name = "" if row in tree.recording.layers.module else tree.name(int(tree.recording.modules.parent[row]))
    first = tree.paths[projections[0].row]
    router = router_of(tree, int(tree.recording.modules.parent[row])) if chosen else ("", 0)
    return Half(
        name, tree.paths[row], "", named, first, tree.paths[output.row], output.width_in, chosen, router,
        inner_norms=tuple(inner_norms(tree, row, named, output.width_in)), more_rows=more_rows(tree, row),
    )  # fmt: skip


def _with_norms(norms: list[str], halves: list[Half], layer: str) -> list[Half]:
    """Each half with the norm in front of it: every second one where a norm follows each half too."""
    if norms and len(norms) == 2 * len(halves):
        pairs = zip(norms[::2], norms[1::2], strict=True)
        return [replace(half, norm=norm, post_norm=post) for half, (norm, post) in zip(halves, pairs, strict=True)]
    in_front = norms + [layer] * len(halves)
    return [replace(half, norm=norm) for half, norm in zip(halves, in_front, strict=False)]
