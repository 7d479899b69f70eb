"""Halves of a layer whose projections lie in several modules, as in BERT: queries, keys and values in one, the way back
in the next."""

from __future__ import annotations

import re

from memstrata.capture.format.plan import Half, covers

from .module_tree import ModuleTree

_INPUTS = re.compile(r"^(q|k|v|query|key|value)(_proj|_lin)?$")


def halves_across(tree: ModuleTree, layer: int, hidden: int) -> list[Half]:
    """The Linears of the layer in order: one that leads back to the residual width, and is no query, key or value,
    ends a half."""
    halves: list[Half] = []
    pending: list[int] = []
    for row in tree.descendants(layer):
        widths = tree.linear(row)
        if widths is None:
            continue
        if pending and widths[1] == hidden and not _INPUTS.match(tree.name(row)):
            halves.append(_half(tree, layer, pending, row, widths[0]))
            pending = []
        else:
            pending.append(row)
    return halves


def _half(tree: ModuleTree, layer: int, pending: list[int], output: int, inner: int) -> Half:
    paths = [tree.paths[row] for row in (*pending, output)]
    around = _around(paths)
    first = tree.paths[pending[0]]
    name = around.rpartition(".")[2]
    if around == tree.paths[layer]:
        name = first[len(around) + 1 :].partition(".")[0]
    named = tuple((tree.name(row), widths[1]) for row in pending if (widths := tree.linear(row)) is not None)
    return Half(name, around, "", named, first, tree.paths[output], inner)


def _around(paths: list[str]) -> str:
    """The path of the innermost module that holds them all."""
    around = paths[0]
    while not all(covers(around, path) for path in paths) or around in paths:
        around = around.rpartition(".")[0]
    return around
