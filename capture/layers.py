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

from .compiled import CompiledCalls
from .distributed import class_name
from .format.schema import Phase, StorageKind
from .phases import end_left_steps, note_gradients
from .step_log import Input, Interval, ModuleCall, StepLog, guarded, thread_id
from .storages import WRAPPED, sizes_of

CONTAINERS = (nn.ModuleList, nn.Sequential, nn.ModuleDict)


class ModuleWatch:
    """Global forward hooks: they compute nothing, return None, and fire on exceptions too (`always_call`)."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self._handles: list[Any] = []
        self._compiled = CompiledCalls(self._enter, self._leave)
        self._rounds: dict[int, Interval] = {}
        """By thread the outermost call that runs."""

    def install(self) -> None:
        """Start watching every module call."""
        self._handles = [
            nn_module.register_module_forward_pre_hook(self._enter_hook),
            nn_module.register_module_forward_hook(self._leave_hook, always_call=True),
        ]
        self._compiled.install()
        for root in self.log.roots:
            self._compiled.look_at(root)

    def remove(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._compiled.remove()
        for thread in list(self.log.open_modules):  # torch calls no hook where a forward ends by KeyboardInterrupt
            self._close(thread, 0)

    def let_go(self) -> None:
        """After a failure nothing ends any more: what is open would be taken for what runs."""
        self.log.open_modules.clear()

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
        if not stack:
            end_left_steps(self.log, thread)
        phase = self.log.phase(thread)
        if phase == Phase.forward:
            self._note_checkpointed(module, thread, len(stack))
            if not stack:
                self._note_root(module, args, keyword_arguments(), thread)
        self.log.autocast = _autocast_device() is not None and torch.is_autocast_cache_enabled()
        now = time.time_ns()
        stack.append((module, phase, now))
        if self.log.device is not None:
            self.log.device.entered(module, phase, now)

    @guarded
    def _leave(self, module: nn.Module) -> None:
        thread = thread_id()
        stack = self.log.open_modules.get(thread, [])
        depth = len(stack) - 1
        while depth >= 0 and stack[depth][0] is not module:
            depth -= 1
        if depth >= 0:
            self._close(thread, depth)  # calls whose own hook never fired end with their caller

    def _close(self, thread: int, depth: int) -> None:
        """End all calls on this thread but the outermost `depth`."""
        stack, now = self.log.open_modules[thread], time.time_ns()
        while len(stack) > depth:
            module, phase, start = stack.pop()
            self.log.calls.append(ModuleCall(module, phase, start, now, thread))
            if self.log.device is not None:
                self.log.device.left(module, now)
        if not stack and thread != self.log.thread and thread == thread_id():
            self.log.watch_thread(False)
        if not stack and thread in self._rounds:
            self._rounds.pop(thread).end = now

    def _note_checkpointed(self, module: nn.Module, thread: int, depth: int) -> None:
        """A module that a checkpoint's function calls itself, not through another one, will be recomputed."""
        for number, outside in self.log.checkpointing[thread]:
            if outside == depth:
                known = self.log.checkpoint_modules.setdefault(number, [])
                if not any(module is m for m in known):
                    known.append(module)

    def _note_root(self, module: nn.Module, args: Any, kwargs: Mapping[str, Any], thread: int) -> None:
        self._rounds[thread] = self.log.interval(Phase.forward)
        if thread != self.log.thread:
            self.log.other_threads.add(thread)
            self.log.watch_thread(True)
        if not any(module is root for root in self.log.roots):
            self.log.roots.append(module)
            self._compiled.look_at(module)
            note_gradients(self.log, module)  # those of the step before may die before the next backward
        device = _autocast_device()
        if self.log.dtype is None and device is not None:
            self.log.dtype = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
        for name, value in tensors_of({"args": args}) + tensors_of(dict(kwargs)):
            # What an earlier module computed is an activation, though it is the argument of this one.
            if value.grad_fn is None and not isinstance(value, nn.Parameter):
                self._note_input(module, name, value)

    def _note_input(self, module: nn.Module, name: str, tensor: torch.Tensor) -> None:
        self.log.storages.name(StorageKind.input, tensor, name)
        is_index = not (tensor.is_floating_point() or tensor.is_complex())
        self.log.inputs.append(Input(module, name, sizes_of(tensor), is_index))


def tensors_of(arguments: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensors among a call's arguments, named like `args[0]` or `batch['x']`."""
    try:
        leaves = [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_flatten_with_path(arguments)[0]]
    except ValueError:  # a container whose author named no keys (transformers' outputs): numbered instead
        leaves = [
            (f"['{name}'][{number}]", leaf)
            for name, value in arguments.items()
            for number, leaf in enumerate(pytree.tree_leaves(value))
        ]
    found = [(path, leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [(path.replace("['", "", 1).replace("']", "", 1), leaf) for path, leaf in found]


def inputs_of(model: nn.Module, inputs: list[Input]) -> list[Input]:
    """What the model itself was called with; where only parts of it were called, what came first."""
    inside = {id(module) for module in model.modules()}
    own = [given for given in inputs if given.module is model]
    chosen = own or [given for given in inputs if id(given.module) in inside]
    return [given for given in chosen if given.module is chosen[0].module and given.sizes is not None]


def _autocast_device() -> str | None:
    """The device type for which autocast is on now."""
    return next((device for device in ("cuda", "cpu") if torch.is_autocast_enabled(device)), None)


def keyword_arguments() -> Mapping[str, Any]:
    """The keyword arguments of the module call whose global pre-hook runs: torch passes them to no global hook."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals is not nn_module.__dict__:
        frame = frame.f_back
    kwargs = frame.f_locals.get("kwargs") if frame is not None else None
    return kwargs if isinstance(kwargs, dict) else {}


def batch_and_sequence(
    shape: tuple[int, ...] | None, is_index: bool, first: nn.Module | None = None
) -> tuple[int | None, int | None]:
    """(batch, sequence) read from the first input: (B, T) indices, (B, T, features), or rows of features.

    The `first` operation to run tells more: a convolution reads (B, channels, T), a recurrent net may read (T, B, ..).
    """
    if shape is None:
        return None, None
    if len(shape) == 3 and isinstance(first, (nn.Conv1d, nn.ConvTranspose1d)) and first.in_channels == shape[1]:
        return shape[0], shape[2]
    if len(shape) == 3 and isinstance(first, nn.RNNBase) and not first.batch_first:
        return shape[1], shape[0]
    if is_index:
        return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])
    return (shape[0], shape[1]) if len(shape) == 3 else (shape[0], 1)


def kind_of(module: nn.Module) -> str:
    """A layer's kind: its class with the classes of all its descendants, wrappers that only checkpoint left out."""
    module = next((getattr(module, name) for name in WRAPPED if hasattr(module, name)), module)
    children = [kind_of(child) for child in module.children()]
    name = class_name(module)
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
