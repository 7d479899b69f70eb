"""CUDA graphs in the step: what a replay uses was allocated when the graph was captured, and leaves no event."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from ..format.problems import Problem
from ..format.schema import Severity

_COUNTED = {"replay": "replayed", "capture_end": "captured"}


class GraphWatch:
    """Counts the graphs captured and replayed between `install` and `remove`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._originals: dict[str, Any] = {}

    def install(self) -> None:
        """Start counting."""
        for name, what in _COUNTED.items():
            original = vars(torch.cuda.CUDAGraph).get(name)
            if original is not None:
                self._originals[name] = original
                setattr(torch.cuda.CUDAGraph, name, self._counting(original, what))

    def remove(self) -> None:
        """Put everything back."""
        for name, original in self._originals.items():
            setattr(torch.cuda.CUDAGraph, name, original)
        self._originals = {}

    def _counting(self, original: Callable[..., Any], what: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.counts[what] += 1
            return original(*args, **kwargs)

        return counted

    def problems(self) -> list[Problem]:
        """What the recording cannot show because of them."""
        found = []
        if self.counts["captured"]:
            text = (
                "CUDA graphs were captured in the step: what they allocated lies in a private pool, which stays taken "
                "for their replays after its tensors are freed."
            )
            found.append(Problem("cuda_graphs", Severity.info, text, self.counts["captured"]))
        if self.counts["replayed"]:
            text = (
                "CUDA graphs were replayed in the step: a replay uses the private pool of its capture and allocates "
                "nothing, so what ran in it has neither events nor layers here."
            )
            found.append(Problem("cuda_graphs", Severity.warning, text, self.counts["replayed"]))
        return found
