"""Compiled parts of a model: each is one opaque piece, seen from outside; how many there are, and where they broke.

A compiled region must not trace the recorder, and nothing is added to what is compiled. `torch.compile(module)` makes
a module of its own, whose hooks fire. `module.compile()` does not: hooks that came after it never fire, so while
recording the entry to the compiled code is wrapped.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

_WARNED = r"Using `torch\.compile\(module\)` when there are global hooks"


def in_use() -> bool:
    """Whether this process has loaded the compiler; asking must not load it."""
    return "torch._dynamo.eval_frame" in sys.modules


def counts() -> tuple[int | None, int | None]:
    """(compiled regions, graph breaks) of this process so far, by dynamo's own counters; None where unknown."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None)
    if not in_use():
        return 0, 0
    if counters is None:
        return None, None
    return int(counters["stats"]["unique_graphs"]), sum(map(int, counters["graph_break"].values()))


def is_compiled(module: nn.Module) -> bool:
    """Whether calling this module runs compiled code."""
    return type(module).__name__ == "OptimizedModule" or vars(module).get("_compiled_call_impl") is not None


class CompiledCalls:
    """Wraps the entries of modules that were compiled in place; `enter` and `leave` are told of each call."""

    def __init__(self, enter: Callable[[nn.Module, Any], Any], leave: Callable[[nn.Module], Any]) -> None:
        self._enter, self._leave = enter, leave
        self._wrapped: dict[int, tuple[nn.Module, Any]] = {}
        self._filter: Any = None

    def install(self) -> None:
        """Torch warns about global hooks at each call of a compiled module: ours change nothing there."""
        if in_use():
            warnings.filterwarnings("ignore", message=_WARNED, category=UserWarning)
            self._filter = warnings.filters[0]

    def remove(self) -> None:
        """Put everything back."""
        for module, entry in self._wrapped.values():
            module._compiled_call_impl = entry
        self._wrapped.clear()
        if self._filter is not None and self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
        self._filter = None

    def look_at(self, module: nn.Module) -> None:
        """Wrap what was compiled in place inside this module; not below, where nothing is called by itself."""
        if not in_use():
            return
        todo = [module]
        while todo:
            found = todo.pop()
            if vars(found).get("_compiled_call_impl") is not None:
                self._wrap(found)
            elif not is_compiled(found):
                todo.extend(found.children())

    def _wrap(self, module: nn.Module) -> None:
        if id(module) in self._wrapped:
            return
        entry, enter, leave = module._compiled_call_impl, self._enter, self._leave
        assert entry is not None

        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return entry(*args, **kwargs)
            enter(module, args)
            try:
                return entry(*args, **kwargs)
            finally:
                leave(module)

        self._wrapped[id(module)] = (module, entry)
        module._compiled_call_impl = call
