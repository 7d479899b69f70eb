"""`ViewSpec`: what a view is called, what it needs of a run, and how it is made. No view knows a kind of file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .scope import Scope


@dataclass(frozen=True)
class ViewSpec:
    """A registered view. `factory(scope)` makes its widget for one run."""

    key: str
    title: str
    needs: frozenset[str]
    factory: Callable[[Scope], Any]
    place: str = "below"
    """`chart` for what stands in the middle of the page, whose axis the others follow. All others are docks, at first
    `legend` beside the chart, `lanes` under it, `below` for a tab, `side` beside the tabs."""


def available(specs: Iterable[ViewSpec], capabilities: frozenset[str]) -> dict[str, ViewSpec]:
    """The views that a run with these capabilities can fill by key, in their order."""
    return {spec.key: spec for spec in specs if spec.needs <= capabilities}
