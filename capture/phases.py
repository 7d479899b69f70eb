"""When backward and the optimizer ran, the loss, and the storages of gradients and optimizer state."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer
from torch.utils._python_dispatch import _disable_current_modes

from .format.schema import Phase, StorageKind
from .sharding import note_gathered
from .step_log import Interval, StepLog, guarded, thread_id
from .storages import path_of, plain_path


class PhaseWatch:
    """Wraps autograd's one entry to its engine, and uses the optimizers' global step hooks."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self._engine: Any = None
        self._handles: list[Any] = []
        self._depth = 0
        self._scale: Any = None
        self._scaled: tuple[Any, float | torch.Tensor] | None = None
        """Weak reference to the last loss that a gradient scaler made, and its factor or, on a GPU, the loss before."""

    def install(self) -> None:
        """Start watching backward passes and optimizer steps."""
        self._engine = torch.autograd._engine_run_backward
        torch.autograd._engine_run_backward = self._run_backward
        self._handles = [
            torch_optimizer.register_optimizer_step_pre_hook(self._before_step),
            torch_optimizer.register_optimizer_step_post_hook(self._after_step),
        ]
        self._scale = torch.amp.GradScaler.scale
        torch.amp.GradScaler.scale = _also(self._scale, self._note_scaled)

    def remove(self) -> None:
        """Put everything back."""
        if self._engine is not None:
            torch.autograd._engine_run_backward = self._engine
        if self._scale is not None:
            torch.amp.GradScaler.scale = self._scale
        for handle in self._handles:
            handle.remove()
        self._engine, self._scale, self._handles = None, None, []

    def _run_backward(self, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        engine = self._engine or torch.autograd._engine_run_backward
        interval = self._begin_backward(outputs, args) if self._depth == 0 else None
        self._depth += 1
        try:
            return engine(outputs, *args, **kwargs)
        finally:
            self._depth -= 1
            if interval is not None:
                self.log.end(interval)
                self._note_gradients()

    @guarded
    def _begin_backward(self, outputs: Any, args: tuple[Any, ...]) -> Interval:
        if thread_id() != self.log.thread:
            self.log.other_threads.add(thread_id())
        end_left_steps(self.log, thread_id())
        if torch._C._functorch.peek_interpreter_stack() is None:  # torch.func's own passes have no loss
            self._note_loss(outputs)
        self.log.create_graph = bool(args[2]) if len(args) > 2 else False
        return self.log.interval(Phase.backward)

    def _note_loss(self, outputs: Any) -> None:
        with _disable_current_modes():  # a user's dispatch mode sees none of it
            for output in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
                if isinstance(output, torch.Tensor) and _is_loss(output):
                    # A GPU's loss is read after the step: reading it now would synchronise in the middle.
                    self.log.losses.append(output.detach() if output.is_cuda else output.detach().item())
                    scaled = self._scaled is not None and self._scaled[0]() is output
                    self.log.loss_scales.append(self._scaled[1] if scaled and self._scaled is not None else None)

    @guarded
    def _note_scaled(self, scaled: Any, scaler: torch.amp.GradScaler, outputs: Any) -> None:
        """The factor itself lies on the GPU, where reading it would wait: there the loss before tells it afterwards."""
        factor = getattr(scaler, "_scale", None)
        if isinstance(outputs, torch.Tensor) and scaled is not outputs and factor is not None and _is_loss(scaled):
            self._scaled = weakref.ref(scaled), outputs.detach() if outputs.is_cuda else float(factor)

    @guarded
    def _note_gradients(self) -> None:
        for root in self.log.roots:
            note_gradients(self.log, root)

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._note_before_step(optimizer)

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._note_after_step(optimizer)

    @guarded
    def _note_before_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.log.optimizers[id(optimizer)] = optimizer
        for group in optimizer.param_groups:
            name_gradients(self.log, group["params"])
        note_state(self.log, optimizer)
        thread = thread_id()
        end_left_steps(self.log, thread, but=1)
        self.log.optimizing[thread] += 1
        self.log.optimizer_steps[thread].append(self.log.interval(Phase.optimizer))

    @guarded
    def _note_after_step(self, optimizer: torch.optim.Optimizer) -> None:
        note_state(self.log, optimizer)
        _end_step(self.log, thread_id())


def end_left_steps(log: StepLog, thread: int, but: int = 0) -> None:
    """End the steps that an exception ended: no hook is called then, but torch's frame around the step is gone.

    `but` of the frames there are belong to steps not begun yet.
    """
    if not log.optimizing[thread]:
        return
    running = -but
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        running += frame.f_code in _AROUND_STEP
        frame = frame.f_back
    while log.optimizing[thread] > running:
        _end_step(log, thread)


def _end_step(log: StepLog, thread: int) -> None:
    if log.optimizing[thread]:
        log.optimizing[thread] -= 1
        log.end(log.optimizer_steps[thread].pop())


_AROUND_STEP = {
    code for code in torch_optimizer.Optimizer.profile_hook_step.__code__.co_consts if isinstance(code, CodeType)
}
"""Torch's wrapper around each optimizer's `step`, which calls the hooks."""


def _also(function: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose result and arguments are then noted."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not torch.compiler.is_compiling() and not kwargs:
            note(result, *args)
        return result

    return call


def _is_loss(output: torch.Tensor) -> bool:
    """A plain real number; not one out of a large tensor, which would have to be kept for it."""
    if type(output).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ or output.layout != torch.strided:
        return False
    if output.is_nested or output.device.type not in ("cpu", "cuda") or not output.is_floating_point():
        return False
    return output.numel() == 1 and (output.is_cpu or output.untyped_storage().nbytes() <= 512)


def note_parameters(log: StepLog, model: torch.nn.Module) -> None:
    """Name the storages of parameters and buffers."""
    log.owners.add(model)
    note_gathered(log, model)  # first: what the modules hold now may be gathered, and no parameter
    for parameter in model.parameters():
        log.storages.name(StorageKind.parameter, parameter, *log.owners.get(parameter))
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            log.storages.name(StorageKind.buffer, buffer, path_of(plain_path(prefix), name), module)


def note_gradients(log: StepLog, model: torch.nn.Module) -> None:
    """Name the storages of the gradients there are now."""
    log.owners.add(model)
    name_gradients(log, model.parameters())


def name_gradients(log: StepLog, parameters: Iterable[torch.Tensor]) -> None:
    """Name the storages of these parameters' gradients, where there are some now."""
    for parameter in parameters:
        gradient = parameter.grad if parameter.is_leaf else None
        if gradient is not None:
            name, module = log.owners.get(parameter)
            log.storages.name(StorageKind.gradient, gradient, f"gradient of {name}", module)


def note_state(log: StepLog, optimizer: torch.optim.Optimizer) -> None:
    """Name the storages of the optimizer's state tensors, also of those in lists (LBFGS)."""
    for parameter, state in optimizer.state.items():
        if isinstance(parameter, torch.Tensor):
            name, module = log.owners.get(parameter)
            for key, value in state.items() if isinstance(state, dict) else ():
                for tensor in value if isinstance(value, (list, tuple)) else (value,):
                    if isinstance(tensor, torch.Tensor):
                        log.storages.name(StorageKind.optimizer_state, tensor, f"{key} of {name}", module)
