"""A plan as plain code, so that production needs no memstrata: torch, Hugging Face, and FSDP2 in wrapping order.

Single layers are checkpointed in place; a segment of several layers becomes one entry of the layer list. Where the
planner keeps the outputs of operators, every checkpoint gets torch's selective contexts with exactly those.
"""

from __future__ import annotations

from memstrata.capture.format.plan import Ranges

from .planner import Planner

_KEEP = '''
from torch.utils.checkpoint import create_selective_checkpoint_contexts

KEEP = [{operators}]
"""Operators whose outputs are kept; everything else is computed again."""
contexts = partial(create_selective_checkpoint_contexts, KEEP)
'''

_SINGLE = '''

def checkpoint_layers(layers, numbers):
    """Each of these layers is recomputed by itself. Paths, `state_dict` and the model's own loop stay."""
    for number in numbers:
        layers[number].forward = partial(again, layers[number].forward)
'''

_SEGMENTS = '''

class Segment(nn.ModuleList):
    """Layers that are recomputed together; each passes its (first) output on to the next, all get the same others."""

    def forward(self, x, *args, **kwargs):
        return again(self.run, x, *args, **kwargs)

    def run(self, x, *args, **kwargs):
        for layer in self:
            out = layer(x, *args, **kwargs)
            x = out[0] if isinstance(out, tuple) else out
        return out

    def __getattr__(self, name):  # what a model asks of its layers, where all say the same
        try:
            return super().__getattr__(name)
        except AttributeError:
            found = [getattr(layer, name) for layer in self.children()]
            if not found or any(x != found[0] for x in found if not isinstance(x, nn.Module)):
                raise
            return found[0]


def checkpoint_segments(layers, segments):
    """The layers with each segment (first, last + 1) as one entry. Load weights before: paths change."""
    out, done = [], 0
    for first, stop in segments:
        out += [*list(layers)[done:first], Segment(list(layers)[first:stop])]
        done = stop
    out += list(layers)[done:]
    return nn.Sequential(*out) if isinstance(layers, nn.Sequential) else nn.ModuleList(out)
'''


def torch_code(planner: Planner, ranges: Ranges) -> str:
    """The plan with `torch.utils.checkpoint`: runnable once `model` is there."""
    return _helpers(planner, ranges) + "\n\n" + "\n".join(_calls(planner, ranges)) + "\n"


def _helpers(planner: Planner, ranges: Ranges) -> str:
    longer = any(stop - first > 1 for first, stop in ranges)
    single = any(stop - first == 1 for first, stop in ranges)
    head = ["from functools import partial", ""]
    head += ["import torch"] if planner.keep else []
    head += ["from torch import nn"] if longer else []
    head += ["from torch.utils.checkpoint import checkpoint"]
    out = "\n".join(head) + (_keep(planner) if planner.keep else "\n\n")
    out += f"again = partial(checkpoint, use_reentrant=False{', context_fn=contexts' if planner.keep else ''})\n"
    return out + (_SINGLE if single else "") + (_SEGMENTS if longer else "")


def _keep(planner: Planner) -> str:
    names = [f"torch.ops.aten.{name}.default" for name in planner.keep]
    several = "\n    " + ",\n    ".join(names) + ",\n"
    return _KEEP.format(operators=several if len(names) > 1 else names[0])


def huggingface_code(planner: Planner, ranges: Ranges) -> str:
    """The plan for transformers, which checkpoints single layers by itself; longer segments are entries of its layer
    list, for models that give every layer the same arguments."""
    if any(stop - first > 1 for first, stop in ranges):
        return (
            "# transformers checkpoints single layers only. Segments of several layers become entries of its layer\n"
            "# list: for models that give every layer the same arguments, as Llama and Mistral do, not for hybrid\n"
            "# ones. Call the model with use_cache=False and leave gradient_checkpointing off.\n"
        ) + torch_code(planner, ranges)
    covered = {first for first, _ in ranges}
    out = []
    if planner.keep:
        out += [f"from functools import partial\n\nimport torch{_keep(planner)}"]
    kwargs = '{"use_reentrant": False, "context_fn": contexts}' if planner.keep else '{"use_reentrant": False}'
    out += [f"model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={kwargs})"]
    for path, first, stop in _lists(planner):
        rest = [number - first for number in range(first, stop) if number not in covered]
        if rest:
            out += [
                f"for i in {rest}:  # layers that keep what they save",
                f"    {_target(path)}[i].gradient_checkpointing = False",
            ]
    return "\n".join(out) + "\n"


def fsdp2_code(planner: Planner, ranges: Ranges) -> str:
    """The plan under FSDP2: checkpoints first, then compile, then `fully_shard` from the inside out; runnable once
    `model` is there, on every rank."""
    shards = [f"{_target(path)}" for path, _, _ in _lists(planner)]
    out = ["", "", "# 1. keep hold of the single layers, then checkpoint them"]
    out += [f"layers = [{', '.join('*' + name for name in shards)}]", *_calls(planner, ranges)]
    out += [
        "# 2. torch.compile, if at all",
        "# 3. shard from the inside out, the model last: a recomputed segment gathers its layers again, one by one",
        "from torch.distributed.fsdp import fully_shard",
        "for layer in layers:",
        "    fully_shard(layer)",
        "fully_shard(model)",
    ]
    return _helpers(planner, ranges) + "\n".join(out) + "\n"


def _calls(planner: Planner, ranges: Ranges) -> list[str]:
    """Single layers first: their numbers are those of the list as it was."""
    out = []
    for path, first, stop in _lists(planner):
        inside = [(a - first, b - first) for a, b in ranges if first <= a < stop]
        name = _target(path)
        single = [a for a, b in inside if b - a == 1]
        longer = [(a, b) for a, b in inside if b - a > 1]
        if single:
            out.append(f"checkpoint_layers({name}, {_numbers(single)})")
        if longer:
            out.append(f"{name} = checkpoint_segments({name}, {longer})")
    return out


def _numbers(numbers: list[int]) -> str:
    whole = numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 3
    return f"range({numbers[0]}, {numbers[-1] + 1})" if whole else str(numbers)


def _target(path: str) -> str:
    """`model.encoder.layers`; a number in a path is an index."""
    parts = [f"[{part}]" if part.isdecimal() else f".{part}" for part in path.split(".") if part]
    return "model" + "".join(parts)


def _lists(planner: Planner) -> list[tuple[str, int, int]]:
    """(path of the layer list, first layer, last layer + 1)."""
    names = planner.run.layers.names
    return [(names[first].rpartition(".")[0], first, stop) for first, stop in planner.lists]
