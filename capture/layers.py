"""Module spans while recording, and the layer lists of a model."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.utils import _pytree as pytree

from .format.schema import StorageKind
from .step_log import ModuleCall, StepLog, guarded, thread_id

CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


class ModuleWatch:
    """Global forward hooks: they compute nothing, return None, and fire on exceptions too (`always_call`)."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self._handles: list[Any] = []

    def install(self) -> None:
        """Start watching every module call."""
        self._handles = [
            nn_module.register_module_forward_pre_hook(self._enter_hook),
            nn_module.register_module_forward_hook(self._leave_hook, always_call=True),
        ]

    def remove(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _enter_hook(self, module: nn.Module, args: Any) -> None:
        if not torch.compiler.is_compiling():  # a compiled region must not trace the recorder
            self._enter(module, args)

    def _leave_hook(self, module: nn.Module, args: Any, output: Any) -> None:
        if not torch.compiler.is_compiling():
            self._leave(module)

    @guarded
    def _enter(self, module: nn.Module, args: Any) -> None:
        thread = thread_id()
        stack = self.log.open_modules.setdefault(thread, [])
        phase = self.log.phase(thread)
        if not stack and phase == 0:
            self._note_root(module, args, _keyword_arguments())
        self.log.autocast = _autocast_device() is not None and torch.is_autocast_cache_enabled()
        stack.append((module, phase, time.time_ns()))

    @guarded
    def _leave(self, module: nn.Module) -> None:
        thread, now = thread_id(), time.time_ns()
        stack = self.log.open_modules.get(thread, [])
        if not any(entry[0] is module for entry in stack):
            return
        while stack:  # calls whose own hook never fired end with their caller
            open_module, phase, start = stack.pop()
            self.log.calls.append(ModuleCall(open_module, phase, start, now, thread))
            if open_module is module:
                return

    def _note_root(self, module: nn.Module, args: Any, kwargs: Mapping[str, Any]) -> None:
        self.log.root_times.append(time.time_ns())
        if not any(module is root for root in self.log.roots):
            self.log.roots.append(module)
        device = _autocast_device()
        if self.log.dtype is None and device is not None:
            self.log.dtype = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
        for path, value in pytree.tree_flatten_with_path({"args": args, **kwargs})[0]:
            # What an earlier module computed is an activation, though it is the argument of this one.
            if isinstance(value, torch.Tensor) and value.grad_fn is None:
                self._note_input(pytree.keystr(path), value)

    def _note_input(self, name: str, tensor: torch.Tensor) -> None:
        name = name.replace("['", "", 1).replace("']", "", 1)
        self.log.storages.name(StorageKind.input, tensor, name)
        self.log.shapes.setdefault(name, list(tensor.shape))
        if self.log.first_input is None and tensor.dim() > 0:
            self.log.first_input = tensor.shape
            self.log.first_input_is_index = not (tensor.is_floating_point() or tensor.is_complex())


def _autocast_device() -> str | None:
    """The device type for which autocast is on now."""
    return next((device for device in ("cuda", "cpu") if torch.is_autocast_enabled(device)), None)


def _keyword_arguments() -> Mapping[str, Any]:
    """The keyword arguments of the module call whose global pre-hook runs: torch passes them to no global hook."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals is not nn_module.__dict__:
        frame = frame.f_back
    kwargs = frame.f_locals.get("kwargs") if frame is not None else None
    return kwargs if isinstance(kwargs, dict) else {}


def batch_and_sequence(shape: torch.Size | None, is_index: bool) -> tuple[int | None, int | None]:
    """(batch, sequence) read from the first input: (B, T) indices, (B, T, features), or rows of features."""
    if shape is None:
        return None, None
    if is_index:
        return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])
    return (shape[0], shape[1]) if len(shape) == 3 else (shape[0], 1)


def kind_of(module: nn.Module) -> str:
    """A layer's kind: its class with the classes of all its descendants."""
    children = [kind_of(child) for child in module.children()]
    name = type(module).__name__
    return f"{name}({','.join(children)})" if children else name


def layer_lists(model: nn.Module) -> list[list[nn.Module]]:
    """The layer lists of a model, each in order.

    A layer list is an outermost container in which a kind repeats; lists of composite layers win over lists of bare
    operations. A model in which nothing repeats has one list, its top-level children (or itself).
    """
    lists = _repeating_lists(model)
    composite = [found for found in lists if any(any(True for _ in layer.children()) for layer in found)]
    if composite or lists:
        return composite or lists
    return [list(model.children()) or [model]]


def _repeating_lists(module: nn.Module) -> list[list[nn.Module]]:
    children = list(module.children())
    if isinstance(module, CONTAINERS) and _repeats([kind_of(child) for child in children]):
        return [children]
    found: list[list[nn.Module]] = []
    for child in children:
        found += _repeating_lists(child)
    return found


def _repeats(kinds: list[str]) -> bool:
    return len(set(kinds)) < len(kinds)
