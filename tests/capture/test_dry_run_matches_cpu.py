"""A dry run against a real recording of the same model: saved tensors row by row, allocations by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from memstrata.capture import dry_run
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Action
from memstrata.capture.models.hybrid import HybridConfig, HybridDecoder
from memstrata.capture.models.teaching import TeachingConfig, TeachingModel
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run

from .recordings import record

RNG_STATE = 5056
"""Bytes of the CPU generator's state, which a checkpoint keeps; a dry run has no random numbers."""


def teaching(dtype: torch.dtype = torch.float32, **options: Any) -> Callable[[], tuple[nn.Module, torch.Tensor]]:
    def build() -> tuple[nn.Module, torch.Tensor]:
        torch.set_default_dtype(dtype)
        sizes = {"layers": 3, "hidden": 64, "heads": 4, "head_dim": 16, "kv_heads": 2, "ffn": 128}
        return TeachingModel(TeachingConfig(**{**sizes, **options})), torch.randn(2, 32, 64, requires_grad=True)

    return build


def hybrid(checkpointing: bool) -> Callable[[], tuple[nn.Module, torch.Tensor]]:
    sizes = HybridConfig(hidden=64, heads=4, kv_heads=2, ffn=96, layers=4, super_block=2, chunk=8)
    return lambda: (HybridDecoder(sizes, checkpointing), torch.zeros(2, 32, dtype=torch.int64))


def step(model: nn.Module, given: torch.Tensor) -> None:
    out = model(given)
    (out.sum() if given.is_floating_point() else F.cross_entropy(out.flatten(0, 1), given.flatten())).backward()


MODELS = {
    "teaching": teaching(),
    "teaching bf16": teaching(torch.bfloat16),
    "teaching checkpointed": teaching(segment_layers=2),
    "teaching dropout": teaching(dropout=0.1),
    "teaching dropout checkpointed": teaching(dropout=0.1, segment_layers=1),
    "hybrid": hybrid(False),
    "hybrid checkpointed": hybrid(True),
}


@pytest.fixture(params=MODELS, scope="module")
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Recording, Recording]:
    """(name, dry, real)"""
    build, tmp_path = MODELS[request.param], tmp_path_factory.mktemp("both")
    dry_run(build, step, tmp_path / "dry.mstrata")
    model, given = build()
    real = record(tmp_path / "real.mstrata", lambda: step(model, given), model=model, source="cpu")
    torch.set_default_dtype(torch.float32)
    return request.param, files.read(tmp_path / "dry.mstrata"), real


def saved_rows(recording: Recording) -> list[tuple[Any, ...]]:
    """All that a row of saved_tensors says but times, addresses and stacks; storages numbered as they first appear."""
    table, text = recording.saved_tensors, recording.strings
    paths = [text[int(path)] for path in recording.modules.path]
    names = [text[int(name)] for name in recording.known_storages.name]
    numbers: dict[int, int] = {}
    return [
        (
            paths[table.module[i]] if table.module[i] >= 0 else None,
            table.phase[i], table.fate[i], table.checkpoint[i], text[int(table.op[i])],
            text[int(table.shape[i])], text[int(table.dtype[i])], table.storage_bytes[i], table.tensor_bytes[i],
            names[table.known[i]] if table.known[i] >= 0 else None,
            numbers.setdefault(int(table.storage[i]), len(numbers)), table.unpack_time[i] >= 0,
        )
        for i in range(len(table))
    ]  # fmt: skip


def test_saved_tensors_match_row_by_row(both: tuple[str, Recording, Recording]) -> None:
    name, dry, real = both
    rows = saved_rows(dry)
    assert rows == saved_rows(real)
    assert len(rows) > 100
    assert dry.meta.plan == real.meta.plan
    assert (dry.meta.plan is not None) == ("checkpointed" in name)
    assert (dry.meta.batch, dry.meta.sequence, dry.meta.dtype) == (real.meta.batch, real.meta.sequence, real.meta.dtype)


def test_peak_matches(both: tuple[str, Recording, Recording]) -> None:
    """Random states may be alive at the real peak, one for each checkpoint still to be repeated, and nothing else."""
    _, dry, real = both
    dry_run_, run = Run(dry), Run(real)
    assert check(dry_run_) == []
    states = _alive_states(run)
    assert run.peak_bytes - dry_run_.peak_bytes == states * RNG_STATE
    assert dry_run_.activation_curve.max() == run.activation_curve.max()
    assert dry_run_.baseline_bytes == run.baseline_bytes


def _alive_states(run: Run) -> int:
    rows, at = run.allocations, run.peak_position
    return int(((rows.bytes == RNG_STATE) & (rows.start <= at) & (rows.end > at)).sum())


def test_allocations_match_but_for_what_is_named(both: tuple[str, Recording, Recording]) -> None:
    _, dry, real = both
    assert Counter(_seen(dry)) == Counter(_seen(real))


def _seen(recording: Recording) -> Iterator[int]:
    """Sizes of the allocations without those in which the two are known to differ."""
    events = recording.events
    for i in range(len(events)):
        if events.action[i] == Action.alloc:
            names = [name for name, _, _ in recording.stack_frames(int(events.stack[i]))]
            if _difference(names, int(events.bytes[i])) is None:
                yield int(events.bytes[i])


def _difference(names: list[str], size: int) -> str | None:
    """Why the profiler's view and the dry run's differ in this allocation; None if they do not."""
    inside = [name for name in names if name.startswith("aten::")]
    if any("get_state" in name or name == "get_rng_state" for name in names):
        return "random states, which a dry run does not have"
    if size <= 8:
        return "Python scalars that become tensors below the dispatcher, and results of one value"
    if any("flash_attention_for_cpu" in name for name in inside):
        return "scratch memory inside the attention kernel"
    if {"aten::to", "aten::clone"} & {*inside} and {"aten::mul", "aten::mm", "aten::bmm"} & {*inside}:
        return "an operand that the CPU's kernel copies first, into the other one's dtype or to be contiguous"
    if _sums_gradients(names):
        return "sums of gradients: in place in a real step, which no fake tensor allows"
    return None


def _sums_gradients(names: list[str]) -> bool:
    """Called by the engine between two nodes: to add what arrives, or to own what it adds to."""
    operations = list(takewhile(lambda name: name.startswith("aten::"), names))
    caller = names[len(operations)] if len(operations) < len(names) else ""
    by_engine = caller.startswith("autograd::engine") or (operations == ["aten::add"] and "Backward" in caller)
    return by_engine and operations[-1] in ("aten::add", "aten::clone")


def test_bytes_of_each_layer_by_hand(tmp_path: Any) -> None:
    """float32, per token. Each norm keeps its input, the scaled input and one value; the first layer's first norm has
    the model's input, which is no activation."""
    dry_run(teaching(), step, tmp_path / "dry.mstrata")
    saved = Run(files.read(tmp_path / "dry.mstrata")).saved_bytes_by_layer()
    norms, norm_outputs = 2 * (64 + 64 + 1), 2 * 64
    attention = 128 + 32 + 32 + (64 + 4) + 64 + 64  # query with gate, key, value, output with logsumexp, sigmoid, gated
    ffn = 4 * 128  # gate, silu, up, product
    layer = 2 * 32 * 4 * (norms + norm_outputs + attention + ffn)
    assert {number: size for number, size in saved.items() if size} == {0: layer - 2 * 32 * 4 * 64, 1: layer, 2: layer}
