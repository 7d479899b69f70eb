"""What selective checkpointing keeps: the outputs it will not compute again lie in a cache that no hook sees.

`create_selective_checkpoint_contexts` keeps them in a dictionary that its two dispatch modes share. The first mode is
left when the checkpoint's forward is over; what the dictionary holds then is named. The autograd graph packs these
tensors too, but what the checkpoint's own hook does with them changes nothing: the cache has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils import checkpoint as torch_checkpoint

from .format.schema import StorageKind
from .step_log import StepLog, guarded

_MODE: Any = getattr(torch_checkpoint, "_CachingTorchDispatchMode", None)
"""Not there before torch 2.4."""


class SelectiveCacheWatch:
    """Wraps the way out of the mode that fills the cache."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self._own: Any = None
        self._installed = False

    def install(self) -> None:
        """Start watching."""
        if _MODE is None:
            return
        self._own = vars(_MODE).get("__exit__")  # torch's is inherited
        leave, note = _MODE.__exit__, self._note

        def leave_and_note(mode: Any, *args: Any) -> Any:
            result = leave(mode, *args)
            if not torch.compiler.is_compiling():
                note(mode)
            return result

        _MODE.__exit__ = leave_and_note
        self._installed = True

    def remove(self) -> None:
        """Put everything back."""
        if not self._installed:
            return
        if self._own is not None:
            _MODE.__exit__ = self._own
        else:
            del _MODE.__exit__
        self._own, self._installed = None, False

    @guarded
    def _note(self, mode: Any) -> None:
        for tensor, op in cached(mode.storage):
            name = str(op).removeprefix("aten.").removesuffix(".default")
            self.log.storages.name(StorageKind.selective_cache, tensor, f"kept output of {name}")


def cached(storage: Mapping[Any, Any]) -> Iterator[tuple[torch.Tensor, Any]]:
    """The tensors in such a cache, each with its operator: entries by call (a list before 2.12), each in wrappers."""
    for key, calls in storage.items():
        op = key[0] if isinstance(key, tuple) else key
        for entry in calls.values() if isinstance(calls, Mapping) else calls:
            for leaf in torch.utils._pytree.tree_leaves(entry):
                value = getattr(leaf, "val", leaf)
                if isinstance(value, torch.Tensor):
                    yield value, op
