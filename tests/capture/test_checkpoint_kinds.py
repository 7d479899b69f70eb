"""Checkpointing of every kind: what is kept, made again, cached and moved, in bytes by hand; the same gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed._composable import checkpoint as composable
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    checkpoint_wrapper,
    offload_wrapper,
)
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Category, Fate, Phase, StorageKind
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run

from .recordings import codes, fates, mlp, module_paths, record, tensors_of

ROWS, WIDTH = 32, 16
ONE = ROWS * WIDTH * 4
"""Bytes of one activation. A block of `mlp` saves four: its input, the first GELU's input and output, the second's
input. The input of the model is a known storage, and sum() saves nothing of the output."""

KEEP_MM = functools.partial(
    create_selective_checkpoint_contexts, [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
)
KEEP_ALL = functools.partial(create_selective_checkpoint_contexts, lambda ctx, op, *args, **kwargs: True)

Step = Callable[[], torch.Tensor]


def x() -> torch.Tensor:
    return torch.linspace(-1, 1, ROWS * WIDTH).view(ROWS, WIDTH).requires_grad_()


def per_block(model: nn.Module, **options: object) -> Step:
    def forward() -> torch.Tensor:
        y = x()
        for block in model.children():
            y = checkpoint(block, y, **options)
        return y

    return forward


def nested(model: nn.Module) -> Step:
    def all_blocks(y: torch.Tensor) -> torch.Tensor:
        for block in model.children():
            y = checkpoint(block, y, use_reentrant=False)
        return y

    return lambda: checkpoint(all_blocks, x(), use_reentrant=False)


def wrapped(wrap: Callable[[nn.Module], nn.Module]) -> Callable[[nn.Module], Step]:
    def make(model: nn.Module) -> Step:
        for name, block in list(model.named_children()):
            setattr(model, name, wrap(block))
        return lambda: model(x())

    return make


def composed(model: nn.Module, **options: object) -> Step:
    for block in model.children():
        composable(block, **options)
    return lambda: model(x())


@dataclass(frozen=True)
class Kind:
    """A way to checkpoint two blocks, and what it does in units of `ONE`."""

    make: Callable[[nn.Module], Step]
    kept: int = 1
    """By default the boundary between the blocks."""
    rematerialized: int = 6
    cached: int = 0
    unseen: int = 0
    """What outlives a recomputation without having been packed."""
    plan: tuple[tuple[str, ...], ...] | None = (("0",), ("1",))


KINDS = {
    "none": Kind(lambda model: lambda: model(x()), kept=7, rematerialized=0, plan=None),
    "non-reentrant": Kind(lambda model: per_block(model, use_reentrant=False)),
    "without early stop": Kind(lambda model: per_block(model, use_reentrant=False, early_stop=False)),
    # a reentrant checkpoint holds the outputs that it computes again until its inner backward is over
    "reentrant": Kind(lambda model: per_block(model, use_reentrant=True), unseen=2),
    # the first block is computed again twice: by the outer checkpoint, which keeps the boundary, and by its own
    "nested": Kind(nested, kept=0, rematerialized=7, plan=(("0", "1"), ("0",), ("1",))),
    "selective": Kind(lambda m: per_block(m, use_reentrant=False, context_fn=KEEP_MM), rematerialized=2, cached=4),
    # the cache holds the outputs too: the boundary is one of them
    "selective, everything": Kind(
        lambda m: per_block(m, use_reentrant=False, context_fn=KEEP_ALL), kept=0, rematerialized=0, cached=8
    ),
    "sequential": Kind(
        lambda model: lambda: checkpoint_sequential(model, 2, x(), use_reentrant=False),
        kept=4, rematerialized=3, plan=(("0",),),
    ),
    "wrapper": Kind(wrapped(checkpoint_wrapper)),
    "wrapper, reentrant": Kind(
        wrapped(functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.REENTRANT)), unseen=2
    ),
    "wrapper, selective": Kind(
        wrapped(functools.partial(checkpoint_wrapper, context_fn=KEEP_MM)), rematerialized=2, cached=4
    ),
    "composable": Kind(composed),
    "composable, selective": Kind(functools.partial(composed, context_fn=KEEP_MM), rematerialized=2, cached=4),
}  # fmt: skip


def bytes_of(recording: Recording, kind: StorageKind) -> int:
    known = recording.known_storages
    return int(known.bytes[known.kind == kind].sum())


@pytest.mark.parametrize("name", KINDS)
def test_bytes_of_each_kind_by_hand(tmp_path: Path, name: str) -> None:
    kind, model = KINDS[name], mlp(2)
    forward = kind.make(model)
    run = Run(record(tmp_path / "a.mstrata", lambda: forward().sum().backward(), model=model))
    found = run.saved_bytes_by_fate()
    assert found[Fate.kept] == kind.kept * ONE
    assert found[Fate.rematerialized] == kind.rematerialized * ONE
    assert bytes_of(run.recording, StorageKind.selective_cache) == kind.cached * ONE
    assert run.recording.meta.plan == kind.plan
    assert check(run) == [] and "recorder_failure" not in codes(run.recording)
    assert run.layers.names == ("0", "1")
    sums = run.category_curve(Category.selective_cache)
    assert sums.max() == kind.cached * ONE and sums[-1] == 0
    measured = run.rematerialized
    assert (measured is None) == (name == "none")
    if measured is not None:
        assert (measured.hooks_bytes, measured.unmeasured_bytes) == (kind.rematerialized * ONE, 0)
        assert measured.allocator_bytes == measured.hooks_bytes + kind.unseen * ONE
        assert ("rematerialized_disagrees" in {p.code for p in run.problems}) == (kind.unseen > 0)


class Dropping(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, WIDTH))


# torch itself refuses to cache what dropout then changes in place
@pytest.mark.parametrize("name", [name for name in KINDS if name != "selective, everything"])
def test_dropout_draws_the_same_numbers_recorded_and_unrecorded(tmp_path: Path, name: str) -> None:
    outcomes = []
    for recorded in (False, True):
        torch.manual_seed(7)
        model = nn.Sequential(*[Dropping() for _ in range(4)])
        forward = KINDS[name].make(model)
        step = lambda forward=forward: forward().square().sum().backward()
        if recorded:
            recording = record(tmp_path / "a.mstrata", step)
            assert "recorder_failure" not in codes(recording)
        else:
            step()
        outcomes.append([*tensors_of(model), torch.rand(4)])
    assert len(outcomes[0]) == 4 * 4 * 2 + 1
    assert all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))


def test_the_selective_cache_lives_from_its_op_to_the_backward_that_needs_it(tmp_path: Path) -> None:
    model = mlp(2)
    run = Run(record(tmp_path / "a.mstrata", lambda: KINDS["selective"].make(model)().sum().backward(), model=model))
    rows = (run.attribution.category == Category.selective_cache).nonzero()[0]
    assert [run.layers.names[run.attribution.layer[row]] for row in rows] == ["0", "0", "1", "1"]
    assert all(Phase(int(run.attribution.phase[row])) == Phase.forward for row in rows)
    forward_ends, backward = (
        max(int(e) for e, p, m in zip(s.end_position, s.phase, s.module, strict=True) if p == phase and m == -1)
        for s, phase in ((run.spans, Phase.forward), (run.spans, Phase.backward))
    )
    assert all(run.allocations.start[row] <= forward_ends < run.allocations.end[row] <= backward for row in rows)
    first, last = run.allocations.end[rows[:2]].max(), run.allocations.end[rows[2:]].max()
    assert last < first  # the last block's backward comes first
    known = run.recording.known_storages
    names = {run.recording.strings[int(n)] for n, k in zip(known.name, known.kind, strict=True)
             if k == StorageKind.selective_cache}  # fmt: skip
    assert names == {"kept output of mm"}


def test_packs_of_the_selective_cache_are_neither_dropped_nor_made_again(tmp_path: Path) -> None:
    model = mlp(1)
    forward = KINDS["selective"].make(model)
    recording = record(tmp_path / "a.mstrata", lambda: forward().sum().backward(), model=model)
    saved, kinds = recording.saved_tensors, recording.known_storages.kind
    cached = [
        i for i in range(len(saved)) if saved.known[i] >= 0 and kinds[saved.known[i]] == StorageKind.selective_cache
    ]
    assert len(cached) >= 4 and {Fate(saved.fate[i]) for i in cached} == {Fate.kept}


def test_what_a_closure_captured_is_kept_and_not_made_again(tmp_path: Path) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(1)

        def forward(self, y: torch.Tensor) -> torch.Tensor:
            mask = (y.detach() > 0).float()
            return checkpoint(lambda y: self.body(y) * mask, y, use_reentrant=False)

    model = Masked()
    run = Run(record(tmp_path / "a.mstrata", lambda: model(x()).sum().backward(), model=model))
    found = run.saved_bytes_by_fate()
    assert (found[Fate.kept], found[Fate.rematerialized]) == (ONE, 3 * ONE)
    assert run.rematerialized is not None and run.rematerialized.allocator_bytes == 3 * ONE


def test_functions_after_the_last_module_of_a_segment_belong_to_its_recomputation(tmp_path: Path) -> None:
    model = mlp(1)
    forward = lambda: checkpoint(lambda y: torch.exp(model(y)).sin(), x(), use_reentrant=False)
    run = Run(record(tmp_path / "a.mstrata", lambda: forward().sum().backward(), model=model))
    measured = run.rematerialized
    assert measured is not None and measured.hooks_bytes == measured.allocator_bytes == 4 * ONE  # exp saves its output


@pytest.mark.parametrize("pin", [False, True])
def test_offloading_where_there_is_no_other_device(tmp_path: Path, pin: bool) -> None:
    """Pinning copies even then: autograd holds the copies, and the originals die with forward."""
    model = mlp(1)
    wrapper = offload_wrapper(model) if pin else model

    def step() -> None:
        with torch.autograd.graph.save_on_cpu(pin_memory=pin):
            y = model(x())
        y.sum().backward()

    def offloaded() -> None:
        wrapper(x()).sum().backward()

    run = Run(record(tmp_path / "a.mstrata", offloaded if pin else step, model=wrapper))
    found = run.saved_bytes_by_fate()
    copies = 2 * WIDTH * WIDTH * 4 + ONE if pin else 0  # of the weights and the input, which are known otherwise
    assert found == {Fate.kept: 3 * ONE + copies, Fate.dropped: 0, Fate.rematerialized: 0, Fate.offloaded: 0}
    assert run.recording.meta.model == ("OffloadWrapper" if pin else "Sequential")
    assert "0" in module_paths(run.recording, Phase.forward)


def test_a_hook_that_compresses_keeps_the_copy_and_frees_the_original(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        with saved_tensors_hooks(lambda t: t.to(torch.bfloat16), lambda t: t.to(torch.float32)):
            y = model(x())
        y.sum().backward()

    run = Run(record(tmp_path / "a.mstrata", step, model=model))
    weights = 2 * WIDTH * WIDTH * 4
    assert run.saved_bytes_by_fate()[Fate.kept] == (weights + 4 * ONE) // 2
    assert run.category_curve(Category.activation).max() == (weights + 4 * ONE) // 2
    assert {run.recording.strings[int(d)] for d in run.recording.saved_tensors.dtype} == {"bfloat16"}


def test_a_hook_that_returns_a_key_to_what_it_holds_keeps_it(tmp_path: Path) -> None:
    model, held = mlp(1), list[torch.Tensor]()

    def pack(tensor: torch.Tensor) -> int:
        held.append(tensor.detach())
        return len(held) - 1

    def step() -> None:
        with saved_tensors_hooks(pack, lambda key: held[key]):
            y = model(x())
        y.sum().backward()

    recording = record(tmp_path / "a.mstrata", step, model=model)
    assert set(fates(recording)) == {"kept"}
    assert Run(recording).saved_bytes_by_fate()[Fate.kept] == 3 * ONE


def test_what_mutation_tracking_holds_is_kept(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            model(x()).sum().backward()

    assert set(fates(record(tmp_path / "a.mstrata", step, model=model))) == {"kept"}


def test_two_backwards_through_one_checkpoint_make_it_again_twice(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        loss = checkpoint(model, x(), use_reentrant=False).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    run = Run(record(tmp_path / "a.mstrata", step, model=model))
    assert run.saved_bytes_by_fate()[Fate.rematerialized] == 2 * 3 * ONE
    assert run.rematerialized is not None and run.rematerialized.allocator_bytes == 2 * 3 * ONE
    assert module_paths(run.recording, Phase.recompute).count("0") == 2


def test_hugging_faces_switch(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=2, vocab_size=64
    )
    tokens = torch.arange(16).view(2, 8)
    gradients = []
    for recorded in (False, True):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(config).train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        step = lambda model=model: model(input_ids=tokens, labels=tokens).loss.backward()
        if recorded:
            run = Run(record(tmp_path / "a.mstrata", step, model=model))
        else:
            step()
        gradients.append(tensors_of(model))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert run.recording.meta.plan == tuple((f"model.layers.{i}",) for i in range(3))
    assert run.saved_bytes_by_fate()[Fate.rematerialized] > 0
    assert run.rematerialized is not None and run.rematerialized.unmeasured_bytes == 0


class _ChecksItself(nn.Module):
    """A layer whose forward checkpoints the whole of it, as transformers' layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.checkpointing = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.checkpointing:
            return checkpoint(functools.partial(type(self)._run, self), x, use_reentrant=False)
        return self._run(x)

    def _run(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


_ChecksItself._run.__name__ = "forward"


def test_a_layer_that_checkpoints_its_own_forward_is_the_segment(tmp_path: Path) -> None:
    model = nn.Sequential(_ChecksItself(), _ChecksItself())
    x = torch.randn(8, 32)
    run = Run(record(tmp_path / "a.mstrata", lambda: model(x).sum().backward(), model=model))
    assert run.recording.meta.plan == (("0",), ("1",))
    assert run.rematerialized is not None and run.rematerialized.unmeasured_bytes == 0
