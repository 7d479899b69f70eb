"""A plan as plain code, so that production needs no memstrata: torch, Hugging Face, and FSDP2 in wrapping order."""

from __future__ import annotations

from memstrata.capture.format.plan import Ranges

from .planner import Planner

_TORCH = '''\
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Segment(nn.ModuleList):
    """Layers that are recomputed together; each passes its (first) output on to the next."""

    def forward(self, x, *args, **kwargs):
        if not torch.is_grad_enabled():
            return self.run(x, *args, **kwargs)
        return checkpoint(self.run, x, *args, use_reentrant=False, **kwargs)

    def run(self, x, *args, **kwargs):
        for layer in self:
            out = layer(x, *args, **kwargs)
            x = out[0] if isinstance(out, tuple) else out
        return out


def checkpoint_segments(layers, segments):
    """The layers with each segment (first, last + 1) as one entry. Load weights before: paths change."""
    out, done = [], 0
    for first, stop in segments:
        out += [*list(layers)[done:first], Segment(list(layers)[first:stop])]
        done = stop
    return type(layers)(*args(layers, [*out, *list(layers)[done:]]))


def args(layers, entries):
    return entries if isinstance(layers, nn.Sequential) else [entries]
'''


def torch_code(planner: Planner, ranges: Ranges) -> str:
    """The plan with `torch.utils.checkpoint`: runnable once `model` is there."""
    return "\n\n".join([_TORCH.rstrip("\n"), "\n".join(_assignments(planner, ranges))]) + "\n"


def huggingface_code(planner: Planner, ranges: Ranges) -> str:
    """The plan for transformers, which checkpoints single layers; longer segments need the torch code."""
    if any(stop - first > 1 for first, stop in ranges):
        return (
            "# transformers checkpoints single layers only: for segments of several layers use the torch code on\n"
            "# the layer list, with use_cache=False and gradient_checkpointing left off.\n"
        )
    covered = {first for first, _ in ranges}
    out = ['model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})']
    for path, first, stop in _lists(planner):
        rest = [number - first for number in range(first, stop) if number not in covered]
        if rest:
            out += [
                f"for i in {rest}:  # layers that keep what they save",
                f"    model.{path}[i].gradient_checkpointing = False",
            ]
    return "\n".join(out) + "\n"


def fsdp2_code(planner: Planner, ranges: Ranges) -> str:
    """The plan under FSDP2: checkpoints first, then compile, then `fully_shard` from the inside out."""
    shards = [f"{_target(path)}" for path, _, _ in _lists(planner)]
    out = ["# 1. keep the single layers, then checkpoint them (with the torch code above)"]
    out += [f"layers = [{', '.join('*' + name for name in shards)}]", *_assignments(planner, ranges)]
    out += [
        "# 2. torch.compile, if at all",
        "# 3. shard from the inside out, the model last: a recomputed segment gathers its layers again, one by one",
        "from torch.distributed.fsdp import fully_shard",
        "for layer in layers:",
        "    fully_shard(layer)",
        "fully_shard(model)",
    ]
    return "\n".join(out) + "\n"


def _assignments(planner: Planner, ranges: Ranges) -> list[str]:
    out = []
    for path, first, stop in _lists(planner):
        inside = [(a - first, b - first) for a, b in ranges if first <= a < stop]
        if inside:
            name = _target(path)
            out.append(f"{name} = checkpoint_segments({name}, {inside})")
    return out


def _target(path: str) -> str:
    """`model.encoder.layers`; a number in a path is an index."""
    parts = [f"[{part}]" if part.isdecimal() else f".{part}" for part in path.split(".") if part]
    return "model" + "".join(parts)


def _lists(planner: Planner) -> list[tuple[str, int, int]]:
    """(path of the layer list, first layer, last layer + 1)."""
    names = planner.run.layers.names
    return [(names[first].rpartition(".")[0], first, stop) for first, stop in planner.lists]
