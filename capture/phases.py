"""When backward and the optimizer ran, the loss, and the storages of gradients and optimizer state."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.optim import optimizer as torch_optimizer

from .format.schema import Phase, StorageKind
from .step_log import StepLog, guarded, thread_id


class PhaseWatch:
    """Wraps autograd's one entry to its engine, and uses the optimizers' global step hooks."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self._engine: Any = None
        self._handles: list[Any] = []
        self._depth = 0
        self._opened: list[Any] = []

    def install(self) -> None:
        """Start watching backward passes and optimizer steps."""
        self._engine = torch.autograd._engine_run_backward
        torch.autograd._engine_run_backward = self._run_backward
        self._handles = [
            torch_optimizer.register_optimizer_step_pre_hook(self._before_step),
            torch_optimizer.register_optimizer_step_post_hook(self._after_step),
        ]

    def remove(self) -> None:
        """Put everything back."""
        if self._engine is not None:
            torch.autograd._engine_run_backward = self._engine
        for handle in self._handles:
            handle.remove()
        self._engine, self._handles = None, []

    def _run_backward(self, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        engine = self._engine or torch.autograd._engine_run_backward
        if self._depth == 0:
            self._note_loss(outputs)
            self.log.create_graph = bool(args[2]) if len(args) > 2 else False
        interval = self.log.interval(Phase.backward) if self._depth == 0 and self.log.active else None
        self._depth += 1
        try:
            return engine(outputs, *args, **kwargs)
        finally:
            self._depth -= 1
            if interval is not None:
                interval.end = time.time_ns()
                self._note_gradients()

    @guarded
    def _note_loss(self, outputs: Any) -> None:
        for output in outputs if isinstance(outputs, (tuple, list)) else (outputs,):
            if isinstance(output, torch.Tensor) and output.numel() == 1 and output.device.type in ("cpu", "cuda"):
                loss = output.detach()
                # A GPU's loss is read after the step: reading it now would synchronise in the middle.
                self.log.losses.append(loss if loss.is_cuda else float(loss))

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
        if not any(optimizer is known for known in self.log.optimizers):
            self.log.optimizers.append(optimizer)
        for root in self.log.roots:
            note_gradients(self.log, root)
        note_state(self.log, optimizer)
        self.log.optimizing[thread_id()] += 1
        self._opened.append(self.log.interval(Phase.optimizer))

    @guarded
    def _note_after_step(self, optimizer: torch.optim.Optimizer) -> None:
        note_state(self.log, optimizer)
        self.log.optimizing[thread_id()] -= 1
        if self._opened:
            self._opened.pop().end = time.time_ns()


def parameter_owners(model: torch.nn.Module) -> dict[int, tuple[str, torch.nn.Module]]:
    """id of each parameter -> (path, module that holds it)."""
    owners: dict[int, tuple[str, torch.nn.Module]] = {}
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            owners.setdefault(id(parameter), (f"{prefix}.{name}" if prefix else name, module))
    return owners


def note_parameters(log: StepLog, model: torch.nn.Module) -> None:
    """Name the storages of parameters and buffers."""
    owners = parameter_owners(model)
    for parameter in model.parameters():
        name, module = owners[id(parameter)]
        log.storages.name(StorageKind.parameter, parameter, name, module)
    for prefix, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            log.storages.name(StorageKind.buffer, buffer, f"{prefix}.{name}" if prefix else name, module)


def note_gradients(log: StepLog, model: torch.nn.Module) -> None:
    """Name the storages of the gradients there are now."""
    owners = parameter_owners(model)
    for parameter in model.parameters():
        if parameter.grad is not None:
            name, module = owners[id(parameter)]
            log.storages.name(StorageKind.gradient, parameter.grad, f"gradient of {name}", module)


def note_state(log: StepLog, optimizer: torch.optim.Optimizer) -> None:
    """Name the storages of the optimizer's state tensors."""
    owners: dict[int, tuple[str, torch.nn.Module]] = {}
    for root in log.roots:
        owners.update(parameter_owners(root))
    for parameter, state in optimizer.state.items():
        name, module = owners.get(id(parameter), ("a parameter", None))
        for key, value in state.items() if isinstance(state, dict) else ():
            if isinstance(value, torch.Tensor):
                log.storages.name(StorageKind.optimizer_state, value, f"{key} of {name}", module)
