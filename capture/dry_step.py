"""`dry_run`: a whole training step at full size without a GPU and without memory, as a recording.

The step runs for real, through autograd, checkpointing and the optimizer, on fake tensors, which have shapes and no
values. So every allocation and every saved tensor is that of the real step, as the kernels of the CPU make it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .allocation_sources.dry_run import DryRunSource
from .errors import CaptureError
from .format.units import bytes_text
from .fused import FusedKernels
from .recorder import Recorder
from .refusal import REFUSALS, path_in, running_module

PROGRESS_SECONDS = 0.5


def dry_run(
    model_factory: Callable[[], Any], step: Callable[..., Any], path: str | os.PathLike[str] = "dry_run.mstrata", *,
    warmup: int = 0, fused: bool = False, super_block: int | None = None,
    estimates: Iterable[str] = (), progress: Callable[[str], None] | None = None,
) -> None:  # fmt: skip
    """Run one training step on fake tensors and write its recording to `path`.

    Args:
        model_factory: builds the model and returns it, or a tuple whose first module is the model, such as
            (model, optimizer). It must build the model itself: parameters that exist already are real memory.
        step: called with what the factory returned (a tuple unpacked): forward, backward, and what else belongs to a
            step. Inputs are made in it or in the factory, on the CPU.
        path: the `.mstrata` file to write.
        warmup: steps to run before the recorded one. An optimizer that makes its state in its first step has it in
            the recorded one only after a warm-up.
        fused: let the operations of `fused.RULES` keep what torch's fused CUDA kernels keep; an estimate.
        super_block: layers per super-block; by default found from the module tree.
        estimates: sentences about the model's figures that are not measured ones, written to the recording.
        progress: called with a line of text about twice a second.

    Raises:
        CaptureError: the path cannot be written, the arguments make no sense, an operation needs values or has no
            kernel that works on shapes alone, or a tensor is on another device than the CPU.
        Exception: whatever the factory or the step raised, unchanged; what the step did until then is written.
    """
    if warmup < 0:
        raise CaptureError(f"warmup counts the steps before the recorded one and cannot be {warmup}.")
    kernels = FusedKernels() if fused else None
    source = DryRunSource(kernels, tuple(estimates))
    Recorder(path, super_block=super_block)  # wrong arguments are said before the model is built
    models: list[nn.Module] = []
    try:
        with _undisturbed(), _fake_tensors(source, kernels), _Progress(source, progress, models) as say:
            _run(model_factory, step, warmup, models, say, path=path, super_block=super_block, source=source)
    except REFUSALS as error:
        if source.refusal is None or source.refusal.error is not error:
            raise
        raise CaptureError(source.refusal.sentence(models)) from error
    finally:
        source.release()


def _run(model_factory: Callable[[], Any], step: Callable[..., Any], warmup: int, models: list[nn.Module],
         say: _Progress, path: str | os.PathLike[str], **options: Any) -> None:  # fmt: skip
    say.stage = "building the model"
    built = model_factory()
    state = built if isinstance(built, tuple) else (built,)
    models += [part for part in state if isinstance(part, nn.Module)]
    if not models:
        raise CaptureError(f"The model factory returned no torch.nn.Module but {type(built).__name__}.")
    _check_is_fake(models[0])
    optimizer = next((part for part in state if isinstance(part, torch.optim.Optimizer)), None)
    recorder = Recorder(path, model=models[0], optimizer=optimizer, **options)
    for number in range(warmup):
        say.stage = f"warm-up step {number + 1} of {warmup}"
        step(*state)
    say.stage = "the recorded step"
    with recorder:
        step(*state)
    if not recorder.written:
        raise CaptureError(f"{os.fspath(path)} was not written: the step could not be recorded.")


def _check_is_fake(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, FakeTensor):
            raise CaptureError(f"The model factory must build the model: {name} was there before and is real memory.")


@contextmanager
def _fake_tensors(source: DryRunSource, kernels: FusedKernels | None) -> Iterator[None]:
    # Without fallback: an operation that cannot work on shapes would run for real, and take real memory.
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False))
        stack.enter_context(source.watching())
        if kernels is not None:
            stack.enter_context(kernels)
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Whatever the factory and the step set for the whole process is put back: default dtype, device, randomness."""
    dtype, device, random = torch.get_default_dtype(), _default_device(), torch.get_rng_state()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        if _default_device() != device:
            torch.set_default_device(device)
        torch.set_rng_state(random)


def _default_device() -> torch.device | None:
    """The device given to `torch.set_default_device`, None if none was."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context.device if context is not None else None


class _Progress:
    """Says twice a second what runs, how far it is, and what is alive."""

    def __init__(self, source: DryRunSource, say: Callable[[str], None] | None, models: list[nn.Module]) -> None:
        self.stage = ""
        self._source, self._say, self._models = source, say, models
        self._next = time.monotonic() + PROGRESS_SECONDS

    def __enter__(self) -> _Progress:
        if self._say is not None:
            self._source.progress = self._tell
        return self

    def __exit__(self, *_: Any) -> None:
        self._source.progress = lambda: None

    def _tell(self) -> None:
        now = time.monotonic()
        if now < self._next or self._say is None:
            return
        self._next = now + PROGRESS_SECONDS
        module = running_module()
        where = path_in(module, self._models) if module is not None else ""
        counted, alive = f"{self._source.operations:,} operations", bytes_text(self._source.alive_bytes)
        self._say(f"{self.stage}{f', {where}' if where else ''}: {counted}, {alive} alive")
