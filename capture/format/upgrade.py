"""Older recordings become current ones, step by step; newer ones are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from .problems import FormatError
from .schema import FORMAT_VERSION

Columns = dict[str, NDArray[Any]]
Step = Callable[[dict[str, Any], Columns], tuple[dict[str, Any], Columns]]

STEPS: dict[int, Step] = {}
"""`STEPS[n]` turns format n into format n + 1. Version 1 is the first, so there is none yet."""


def to_current(meta: dict[str, Any], columns: Columns, name: str) -> tuple[dict[str, Any], Columns]:
    """Meta and columns of format `FORMAT_VERSION`; raises FormatError for files this version cannot know."""
    version = meta.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"{name} does not say which format version it is, so it cannot be read.")
    if version > FORMAT_VERSION:
        raise FormatError(
            f"{name} was written by a newer memstrata (format {version}, this one reads up to {FORMAT_VERSION}): "
            "upgrade memstrata to open it."
        )
    while version < FORMAT_VERSION:
        meta, columns = STEPS[version](meta, columns)
        version += 1
    return meta, columns
