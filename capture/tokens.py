"""How many tokens the steps get that are only timed."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module

from .format.schema import NONE
from .layers import keyword_arguments, tensors_of
from .step_rows import tokens_in
from .storages import sizes_of


class TokenCount:
    """A global hook that looks at one model's training forwards. On the model itself a hook would be copied and saved
    together with it."""

    def __init__(self, model: nn.Module) -> None:
        self._model = weakref.ref(model)
        self._key = id(model)
        self._tokens: int | None = None
        self._handle: Any = nn_module.register_module_forward_pre_hook(self._hook)

    def begin(self) -> None:
        """A step begins."""
        self._tokens = None

    def taken(self) -> int:
        """batch x sequence length over the model's forwards since `begin`; -1 if there was none, or one unknown."""
        return NONE if self._tokens is None else self._tokens

    def remove(self) -> None:
        """Stop looking."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _hook(self, module: nn.Module, args: Any) -> None:
        if id(module) != self._key or torch.compiler.is_compiling() or self._model() is not module:
            return
        if torch.is_grad_enabled() and torch._C._current_graph_task_id() == NONE:
            try:
                self._count(args)
            except Exception:  # the forward is training's: it must not fail for this
                self._tokens = NONE

    def _count(self, args: Any) -> None:
        for _, value in tensors_of({"args": args}) + tensors_of(dict(keyword_arguments())):
            sizes = sizes_of(value) if value.grad_fn is None and not isinstance(value, nn.Parameter) else None
            if sizes:
                tokens = tokens_in(sizes, not (value.is_floating_point() or value.is_complex()))
                known = NONE not in (tokens, self._tokens)
                self._tokens = (self._tokens or 0) + tokens if known else NONE
                return
        self._tokens = NONE
