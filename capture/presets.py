"""What `memstrata dry-run` runs: the teaching model, the hybrid one, or whatever a Hugging Face config describes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .checkpointing import apply_plan
from .dry_step import dry_run
from .errors import CaptureError
from .format.plan import Plan
from .layers import layer_lists
from .messages import sentence
from .models import from_config
from .models.teaching import TeachingConfig, TeachingModel

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
SUPER_BLOCK = 4
"""Layers per super-block of both presets."""

_REFERENCE = (
    "Gated-delta layers run transformers' reference kernel, written out in Python: a fused kernel keeps several times"
    " less."
)


@dataclass(frozen=True)
class Sizes:
    """What was asked for. `layers`: only the first so many; `segment_layers`: layers in one checkpoint segment; None
    for all, and for no checkpoints. Raises CaptureError where a size cannot be."""

    tokens: int = 8192
    batch: int = 1
    layers: int | None = None
    segment_layers: int | None = None

    def __post_init__(self) -> None:
        for what, value in (("token", self.tokens), ("sequence", self.batch), ("layer", self.layers)):
            if value is not None and value < 1:
                raise CaptureError(f"a step has at least one {what}, not {value}")


@dataclass(frozen=True)
class Job:
    """A model and a step of it."""

    model: Callable[[], nn.Module]
    given: Callable[[], torch.Tensor]
    """Makes the input of a step."""
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor]
    super_block: int | None = None
    estimates: tuple[str, ...] = ()

    def run(self, path: str | os.PathLike[str], optimizer: str | None = None, fused: bool = False,
            progress: Callable[[str], None] | None = None) -> None:  # fmt: skip
        """The dry run; with an optimizer after one warm-up step, so that the recorded step has its state.

        Raises CaptureError, also for what the model raises: it is not the caller's.
        """
        try:
            dry_run(
                lambda: self._built(optimizer), self._step, path, warmup=0 if optimizer is None else 1, fused=fused,
                super_block=self.super_block, estimates=self.estimates, progress=progress,
            )  # fmt: skip
        except CaptureError:
            raise
        except Exception as error:
            raise CaptureError(f"the model raised {type(error).__name__}: {sentence(error)}") from error

    def _built(self, optimizer: str | None) -> tuple[nn.Module, torch.Tensor, torch.optim.Optimizer | None]:
        model = self.model()
        made = None if optimizer is None else OPTIMIZERS[optimizer](model.parameters(), lr=1e-4)
        return model, self.given(), made

    def _step(self, model: nn.Module, given: torch.Tensor, optimizer: torch.optim.Optimizer | None) -> None:
        self.loss(model, given).backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()


def job(preset: str | None, hf_config: str | None, sizes: Sizes) -> Job:
    """The job of that preset, or of that config file.

    Raises:
        CaptureError: there is no such preset, transformers is missing, or the sizes make no model: one sentence.
    """
    if hf_config is not None:
        return _language(from_config.load(hf_config, sizes.layers), sizes)
    if preset not in PRESETS:
        raise CaptureError(f"there is no preset called {preset!r}; there is {' and '.join(sorted(PRESETS))}")
    return PRESETS[preset](sizes)


def _teaching(sizes: Sizes) -> Job:
    whole = TeachingConfig().layers
    if sizes.layers is not None and sizes.layers > whole:
        raise CaptureError(f"the model has {whole} layers, not {sizes.layers}")
    try:
        config = TeachingConfig(layers=sizes.layers or whole, segment_layers=sizes.segment_layers)
    except ValueError as error:
        raise CaptureError(str(error)) from error
    return Job(lambda: _in_bfloat16(config), _hidden_states(sizes, config.hidden), _summed, SUPER_BLOCK)


def _in_bfloat16(config: TeachingConfig) -> nn.Module:
    torch.set_default_dtype(torch.bfloat16)
    return TeachingModel(config)


def _hybrid(sizes: Sizes) -> Job:
    config = from_config.hybrid(sizes.layers)
    given = _hidden_states(sizes, config.hidden_size)
    return Job(_checkpointed(config, sizes, head=False), given, _last_hidden, SUPER_BLOCK, (_REFERENCE,))


def _language(config: Any, sizes: Sizes) -> Job:
    def given() -> torch.Tensor:
        return torch.zeros(sizes.batch, sizes.tokens, dtype=torch.int64)

    def loss(model: nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        return out

    gated = any("linear" in str(kind) for kind in getattr(config, "layer_types", None) or ())
    return Job(_checkpointed(config, sizes, head=True), given, loss, estimates=(_REFERENCE,) if gated else ())


def _checkpointed(config: Any, sizes: Sizes, head: bool) -> Callable[[], nn.Module]:
    """Builds the model and cuts its layers into segments, if any were asked for."""
    layers, length = config.num_hidden_layers, sizes.segment_layers
    if length is not None and not 1 <= length <= layers:
        raise CaptureError(f"a segment has 1 to {layers} layers in this model, not {length}")

    def build() -> nn.Module:
        model = from_config.build(config, head)
        if length is not None:
            longest = max(layer_lists(model), key=len)
            names = {id(module): path for path, module in model.named_modules()}
            apply_plan(model, Plan.every([names[id(layer)] for layer in longest], length))
        return model

    return build


def _hidden_states(sizes: Sizes, hidden: int) -> Callable[[], torch.Tensor]:
    """(batch, tokens, hidden): what an embedding would hand to the first layer."""
    return lambda: torch.zeros(sizes.batch, sizes.tokens, hidden, requires_grad=True)


def _summed(model: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = model(hidden)
    return out.sum()


def _last_hidden(model: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = model(inputs_embeds=hidden, use_cache=False).last_hidden_state
    return out.sum()


PRESETS: dict[str, Callable[[Sizes], Job]] = {"teaching": _teaching, "hybrid": _hybrid}
