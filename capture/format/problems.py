"""Problems: what a recording could not see, said with a code, a severity, a count and one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .schema import Severity


class FormatError(ValueError):
    """A file cannot be read. The message is one sentence for the user, without a traceback's words."""


@dataclass(frozen=True)
class Problem:
    """`code` is stable and machine-readable; `text` is one sentence; `count` says how often; `sizes` are the bytes that
    the text rounds, in its order, as far as they are known: they are not written to files."""

    code: str
    severity: Severity
    text: str
    count: int = 1
    sizes: tuple[int, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The object written to meta.json and to reports."""
        return {"code": self.code, "severity": self.severity.name, "count": self.count, "text": self.text}


def merge(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems with equal code and text become one with the summed count; first occurrence decides the order."""
    merged: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        key = (problem.code, problem.text)
        known = merged.get(key)
        merged[key] = problem if known is None else replace(known, count=known.count + problem.count)
    return tuple(merged.values())
