"""Why a module gives another output when it is recomputed: by random numbers, or by what it remembers.

The step runs once more with one module's forward watched. A checkpoint puts torch's own random state back, so numbers
drawn from that are repeated; those of another generator, of Python or of numpy are not. What a module remembers is
whatever its attributes hold beside parameters, buffers and generators.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

RANDOM, CACHE, UNKNOWN = "random numbers", "cache", "unknown"
TEXTS = {
    RANDOM: "it draws random numbers that the checkpoint does not repeat.",
    CACHE: "it remembers something of its last call.",
    UNKNOWN: "it neither drew random numbers of its own nor was seen to remember anything.",
}
_OWN = frozenset(vars(nn.Module()))
"""Attributes that every module has: parameters, buffers, hooks and the like."""


class _Draws(TorchDispatchMode):
    """Sees whether an operator is handed a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = (*args, *(kwargs or {}).values())
        self.seen = self.seen or any(isinstance(each, torch.Generator) for each in given)
        return func(*args, **(kwargs or {}))


class Cause:
    """What was seen of one module over a step."""

    def __init__(self, digest: Callable[[Tensor], str]) -> None:
        self._digest = digest
        self.draws = self.remembers = False

    @property
    def text(self) -> str:
        """One of `random numbers`, `cache` and `unknown`."""
        return RANDOM if self.draws else CACHE if self.remembers else UNKNOWN

    @contextmanager
    def watching(self, module: nn.Module) -> Iterator[None]:
        """Inside, every call of the module is looked at; its forward is its own again afterwards."""
        forward, own = module.forward, "forward" in vars(module)

        def watched(*args: Any, **kwargs: Any) -> Any:
            outside, remembered, mode = _outside_state(), self._remembered(module), _Draws()
            try:
                with mode:
                    return forward(*args, **kwargs)
            finally:
                self.draws |= mode.seen or _outside_state() != outside
                self.remembers |= self._remembered(module) != remembered

        module.forward = watched
        try:
            yield
        finally:
            if own:
                module.forward = forward
            else:
                del module.forward

    def _remembered(self, module: nn.Module) -> list[str]:
        held = {name: value for name, value in vars(module).items() if name not in _OWN and name != "forward"}
        shared = {name: value for name, value in vars(type(module)).items() if not name.startswith("__")}
        return [self._said(leaf) for leaf in pytree.tree_leaves([held, shared])]

    def _said(self, value: Any) -> str:
        if isinstance(value, Tensor):
            return self._digest(value)
        if isinstance(value, int | float | complex | str | bytes | None):
            return repr(value)
        return str(id(value))


def _outside_state() -> tuple[Any, ...]:
    """Of the generators that a checkpoint knows nothing of."""
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state(legacy=False) if numpy is not None else {}
    return random.getstate(), repr(state["state"]) if state else "", str(_keys(state))


def _keys(state: dict[str, Any]) -> bytes:
    """Of numpy's Mersenne twister, whose words `repr` abbreviates."""
    key = state.get("state", {}).get("key")
    return b"" if key is None else key.tobytes()
