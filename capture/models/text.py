"""Generated text to train on: sentences from a small grammar, as bytes. Learnable, endless, and nobody's property."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from torch import Tensor

_SUBJECTS = ("the allocator", "a gradient", "the optimizer", "every layer", "the checkpoint", "one tensor")
_VERBS = ("keeps", "frees", "recomputes", "allocates", "remembers", "shares")
_OBJECTS = ("its input", "two buffers", "the hidden state", "a small view", "the residual stream", "nothing")
_ENDS = (" in forward", " in backward", " after the step", "", "", " again")


def sentences(seed: int) -> Iterator[str]:
    """Sentences without end, the same for the same seed."""
    choose = random.Random(seed).choice
    while True:
        yield f"{choose(_SUBJECTS)} {choose(_VERBS)} {choose(_OBJECTS)}{choose(_ENDS)}. "


def batches(seed: int, batch: int, tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(inputs, targets), both (batch, tokens) int64 of byte values, targets one byte ahead."""
    source = sentences(seed)
    need = batch * (tokens + 1)
    while True:
        text = bytearray()
        while len(text) < need:
            text += next(source).encode()
        data = torch.tensor(list(text[:need])).view(batch, tokens + 1)
        yield data[:, :-1], data[:, 1:]
