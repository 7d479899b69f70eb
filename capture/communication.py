"""Memory that exists for communication between ranks: gathered parameters, buffers of collectives, DDP's buckets.

Every collective, whoever starts it (`torch.distributed`, DTensor, or DDP's reducer in C++), is an operator of the
namespace `c10d`. While recording, a kernel of our own lies over those operators, notes the tensors and calls on. What
it notes is a suggestion only: a buffer that turns out to be a parameter, a gradient or a tensor that autograd keeps
is that, and no communication. What FSDP says itself is in `sharding`.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .format.schema import NONE, Severity, StorageKind
from .sharding import COLLECTIVES, ShardingNotes, moved_parameters, place_of
from .step_log import StepLog, guarded, thread_id
from .storages import Known, pieces

_BUFFERS = {
    "allreduce_": "all-reduce buffer",
    "allreduce_coalesced_": "all-reduce buffer",
    "reduce_": "reduce buffer",
    "broadcast_": "broadcast buffer",
    "allgather_": "all-gather buffer",
    "_allgather_base_": "all-gather buffer",
    "allgather_coalesced_": "all-gather buffer",
    "allgather_into_tensor_coalesced_": "all-gather buffer",
    "reduce_scatter_": "reduce-scatter buffer",
    "_reduce_scatter_base_": "reduce-scatter buffer",
    "reduce_scatter_tensor_coalesced_": "reduce-scatter buffer",
    "alltoall_": "all-to-all buffer",
    "alltoall_base_": "all-to-all buffer",
    "gather_": "gather buffer",
    "scatter_": "scatter buffer",
    "send": "send buffer",
    "recv_": "receive buffer",
    "recv_any_source_": "receive buffer",
}
"""What the tensors of each `c10d` operator are called; those of another version that are not there are passed over."""

_KEYS = ("AutogradCPU", "AutogradCUDA")
"""Where our kernels lie: above the ones that communicate, and empty otherwise."""


_MOST_BUFFERS = 20_000


class CommunicationWatch:
    """Installs and removes itself around one recorded step; does nothing where no process group exists."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self._library: torch.library.Library | None = None
        self._replaced: list[tuple[Any, str, Any]] = []
        self._buffers: dict[int, Known] = {}
        """By number of the storage: what was communicated and may turn out to be something else."""
        self._references: list[Any] = []
        self._sharding = ShardingNotes(log)

    def install(self) -> None:
        """Start watching."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return
        self._watch_collectives()
        self._replace(torch.UntypedStorage, "resize_", self._resizing)
        for home in COLLECTIVES:
            if home in sys.modules:
                self._replace(sys.modules[home], "_get_param_all_gather_inputs", self._copying_in)
        for owner, name, around in self._sharding.wrappers():
            self._replace(owner, name, around)

    def remove(self) -> None:
        """Put everything back, then name the buffers that turned out to be nothing else."""
        while self._replaced:
            owner, name, original = self._replaced.pop()
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        if self._library is not None:
            self._library._destroy()
            self._library = None
        self._name_buffers()
        self._buffers, self._references = {}, []

    def _watch_collectives(self) -> None:
        try:
            self._library = torch.library.Library("c10d", "IMPL")
            for name, words in _BUFFERS.items():
                packet = getattr(torch.ops.c10d, name, None)
                if packet is None:
                    continue
                for key in _KEYS:
                    self._library.impl(name, self._kernel(packet.default, words), key)
        except Exception as error:
            text = f"Collectives could not be watched, so their buffers are not told apart ({error})."
            self.log.problem("collectives_unseen", Severity.warning, " ".join(text.split()))

    def _kernel(self, operator: Any, words: str) -> Callable[..., Any]:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            self._note_buffers(words, args)
            with torch._C._AutoDispatchBelowAutograd():
                return operator(*args, **kwargs)

        return kernel

    def _replace(self, owner: Any, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        self._replaced.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, functools.wraps(original)(around(original)))

    # What the replacements note.

    def _resizing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def resize_(storage: torch.UntypedStorage, size: int) -> Any:
            self._note_resize(storage)
            return original(storage, size)

        return resize_

    def _copying_in(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_all_gather_inputs(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            inputs = original(parameters, *args, **kwargs)
            self._note_inputs(parameters, inputs)
            return inputs

        return get_all_gather_inputs

    @guarded
    def _note_resize(self, storage: torch.UntypedStorage) -> None:
        number = self.log.storages.ended(storage)
        buffer = self._buffers.get(number)
        if buffer is not None and buffer.end_time == NONE:
            buffer.end_time = time.time_ns()

    @guarded
    def _note_inputs(self, parameters: Any, inputs: Any) -> None:
        for parameter, tensors in zip(parameters, inputs, strict=False):
            name, module = place_of(self.log, parameter)
            for tensor in tensors:
                self._note_buffer(tensor, f"all-gather input of {name}", module)

    @guarded
    def _note_buffers(self, words: str, args: tuple[Any, ...]) -> None:
        parameters = moved_parameters()
        module = self.log.module(thread_id())
        if parameters:
            name, module = place_of(self.log, parameters[0])
            words += f" of {name}" + (f" and {len(parameters) - 1} more" if len(parameters) > 1 else "")
        for tensor in pytree.tree_leaves(args):
            if isinstance(tensor, torch.Tensor):
                self._note_buffer(tensor, words, module)

    def _note_buffer(self, tensor: torch.Tensor, name: str, module: torch.nn.Module | None) -> None:
        for piece in pieces(tensor):
            (part,) = self.log.storages.parts(piece)
            if part.storage == NONE or part.storage_bytes == 0 or part.storage in self._buffers:
                continue
            known = Known(StorageKind.communication, part.device, part.address, part.storage_bytes, name, module,
                          time.time_ns())  # fmt: skip
            self._forget_some()
            self._buffers[part.storage] = known
            self._references.append(weakref.ref(piece.untyped_storage(), functools.partial(_died, known)))

    def _forget_some(self) -> None:
        """A run that is watched for a thousand steps must not grow: the oldest dead half goes when there are many."""
        if len(self._buffers) < _MOST_BUFFERS:
            return
        dead = [number for number, known in self._buffers.items() if known.end_time != NONE]
        for number in dead[: len(dead) // 2 + 1]:
            del self._buffers[number]
        self._references = [reference for reference in self._references if reference() is not None]

    def _name_buffers(self) -> None:
        packed = {row.storage for row in self.log.saved}
        for number, known in self._buffers.items():
            if number not in packed and self.log.storages.known_row(number) == NONE:
                self.log.storages.adopt(number, known)


def _died(known: Known, _: Any) -> None:
    if known.end_time == NONE:
        known.end_time = time.time_ns()
