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
    """`chart` for what lies on the x axis, `side` beside the tables, `below` for a tab."""


def available(specs: Iterable[ViewSpec], capabilities: frozenset[str], place: str) -> list[ViewSpec]:
    """The views of this place that a run with these capabilities can fill, in their order."""
    return [spec for spec in specs if spec.place == place and spec.needs <= capabilities]
