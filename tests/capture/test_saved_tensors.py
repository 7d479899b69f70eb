"""What autograd saved: bytes by hand, fates, and views, parameters and strange tensors counted right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Fate, Phase, StorageKind

from .recordings import codes, fates, mlp, module_paths, record, saved_bytes

ROWS, WIDTH = 32, 16
ONE = ROWS * WIDTH * 4
"""Bytes of one activation of `mlp`."""


def run(tmp_path: Path, step: object, **options: object) -> Recording:
    return record(tmp_path / "a.mstrata", step, **options)  # type: ignore[arg-type]


def test_kept_bytes_of_an_mlp_by_hand(tmp_path: Path) -> None:
    model = mlp(2)
    recording = run(tmp_path, lambda: model(torch.randn(ROWS, WIDTH)).sum().backward(), model=model)
    # Each block keeps: the first GELU's input and output, the second GELU's input, and its own output as the next
    # Linear's input; the first block's input is a known storage, and the last output is not saved by sum().
    assert saved_bytes(recording, Fate.kept) == (4 + 3) * ONE
    assert set(fates(recording)) == {"kept"}
    assert (recording.saved_tensors.unpack_time > 0).all()


def test_checkpoint_drops_and_rematerializes(tmp_path: Path) -> None:
    model = mlp(2)

    def step() -> None:
        y = torch.randn(ROWS, WIDTH)
        for block in model:
            y = checkpoint(block, y, use_reentrant=False)
        y.sum().backward()

    recording = run(tmp_path, step, model=model)
    assert fates(recording)["dropped"] == fates(recording)["rematerialized"] > 0
    assert saved_bytes(recording, Fate.kept) == ONE  # the boundary between the blocks; the first input is known
    assert saved_bytes(recording, Fate.rematerialized) == 2 * 3 * ONE  # each block without its input
    assert recording.meta.plan == (("0",), ("1",))
    assert module_paths(recording, Phase.recompute)[0] == "1"  # recomputed in the order of backward


def test_a_reentrant_checkpoint_is_inferred_from_its_recomputation(tmp_path: Path) -> None:
    model, x = mlp(2), torch.randn(ROWS, WIDTH, requires_grad=True)

    def step() -> None:
        y = x
        for block in model:
            y = checkpoint(block, y, use_reentrant=True)
        y.sum().backward()

    recording = run(tmp_path, step, model=model)
    assert set(fates(recording)) == {"kept", "rematerialized"}  # what it dropped no hook ever saw
    assert saved_bytes(recording, Fate.rematerialized) == 2 * 3 * ONE
    assert recording.meta.plan == (("0",), ("1",))
    assert module_paths(recording, Phase.recompute)[0] == "1"


def test_double_backward_is_not_taken_for_a_recompute(tmp_path: Path) -> None:
    model, x = mlp(1), torch.randn(ROWS, WIDTH, requires_grad=True)

    def step() -> None:
        (gradient,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
        gradient.square().sum().backward()

    recording = run(tmp_path, step, model=model)
    assert set(fates(recording)) == {"kept"}
    assert (recording.saved_tensors.phase == Phase.backward).any()


def test_early_stop_and_recompute_are_told_apart_from_forward(tmp_path: Path) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.tail = nn.Identity()  # after the last saved tensor: the recomputation stops before it

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.tail(self.b(self.a(x).relu()))

    model = nn.Sequential(Block(), Block())

    def step() -> None:
        y = torch.randn(ROWS, WIDTH)
        for block in model:
            y = checkpoint(block, y, use_reentrant=False)
        y.sum().backward()

    recording = run(tmp_path, step, model=model)
    assert module_paths(recording, Phase.forward) == ["0", "0.a", "0.b", "0.tail", "1", "1.a", "1.b", "1.tail"]
    assert module_paths(recording, Phase.recompute) == ["1", "1.a", "1.b", "0", "0.a", "0.b"]
    assert not {"recorder_failure"} & codes(recording)


def test_offloaded_is_what_a_hook_moved_elsewhere(tmp_path: Path) -> None:
    model, disk = mlp(1), tmp_path / "disk"
    disk.mkdir()

    def pack(tensor: torch.Tensor) -> str:
        name = str(disk / f"{len(list(disk.iterdir()))}.npy")
        np.save(name, tensor.detach().numpy())
        return name

    def step() -> None:
        x = torch.randn(ROWS, WIDTH)
        with saved_tensors_hooks(pack, lambda name: torch.from_numpy(np.load(name))):
            y = model(x)
        y.sum().backward()

    recording = run(tmp_path, step, model=model)
    assert set(fates(recording)) == {"offloaded"}
    assert saved_bytes(recording, Fate.offloaded) == 3 * ONE


def test_save_on_cpu_of_cpu_tensors_moves_nothing(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        with save_on_cpu():
            y = model(torch.randn(ROWS, WIDTH))
        y.sum().backward()

    assert set(fates(run(tmp_path, step, model=model))) == {"kept"}


def test_hooks_pushed_past_the_class_are_seen(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        torch._C._autograd._push_saved_tensors_default_hooks(lambda t: t.detach(), lambda t: t)
        try:
            y = model(torch.randn(ROWS, WIDTH))
        finally:
            torch._C._autograd._pop_saved_tensors_default_hooks()
        y.sum().backward()

    recording = run(tmp_path, step, model=model)
    assert saved_bytes(recording, Fate.kept) == 3 * ONE


def test_a_view_counts_the_storage_it_keeps_and_a_storage_counts_once(tmp_path: Path) -> None:
    model, w = mlp(1), torch.ones(1024, 1, requires_grad=True)
    big = torch.ones(1024, 1024)  # 4 MiB, of which a column of 4 KiB is seen

    def step() -> None:
        model(torch.randn(ROWS, WIDTH)).sum().backward()
        view = (big + 0)[:, :1]
        (w * view).sum().backward()
        twice = (w + 0).exp()  # saved by exp as its output and by sin as its input
        twice.sin().sum().backward()
        wide = (w + 0)[:1].expand(1024, 1024)
        (wide * wide).sum().backward()

    recording = run(tmp_path, step, model=model)
    saved = recording.saved_tensors
    four_mib = [i for i in range(len(saved)) if saved.storage_bytes[i] == 4 << 20 and saved.tensor_bytes[i] == 4096]
    assert len(four_mib) == 1
    expanded = [i for i in range(len(saved)) if saved.tensor_bytes[i] == 4 << 20 and saved.storage_bytes[i] == 4096]
    assert expanded and len({int(saved.storage[i]) for i in expanded}) == 1
    column = [int(s) for s, b in zip(saved.storage, saved.storage_bytes, strict=True) if b == 4096]
    assert max(column.count(s) for s in set(column)) >= 2


def test_a_parameter_saved_as_a_transposed_view_is_known(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False))
    model[1].weight = model[0].weight  # tied: one storage, the first name
    recording = run(tmp_path, lambda: model(torch.randn(ROWS, WIDTH)).sum().backward(), model=model)
    known, saved = recording.known_storages, recording.saved_tensors
    names = [
        recording.strings[int(n)] for n, k in zip(known.name, known.kind, strict=True) if k == StorageKind.parameter
    ]
    assert names == ["0.weight"]
    weights = [
        i for i in range(len(saved)) if saved.known[i] >= 0 and known.kind[saved.known[i]] == StorageKind.parameter
    ]
    assert weights and all(saved.storage_bytes[i] == WIDTH * WIDTH * 4 for i in weights)


def test_recycled_storages_are_not_mistaken_for_known_ones(tmp_path: Path) -> None:
    model, w = mlp(1), torch.ones(64, requires_grad=True)

    def step() -> None:
        model(torch.randn(ROWS, WIDTH)).sum().backward()
        for _ in range(40):  # each dies at once, so objects and addresses are reused
            (w * 2).exp().sum().backward()

    recording = run(tmp_path, step, model=model)
    saved = recording.saved_tensors
    mine = [int(saved.storage[i]) for i in range(len(saved)) if saved.tensor_bytes[i] == 256]
    assert len(mine) == 40 and len(set(mine)) == 40


def test_strange_tensors_never_raise_and_are_counted_by_parts(tmp_path: Path) -> None:
    model = mlp(1)
    index = torch.tensor([[0, 1], [1, 0]])
    sparse = torch.sparse_coo_tensor(index, torch.ones(2), (2, 2), requires_grad=True)
    meta = torch.ones(4, device="meta", requires_grad=True)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged, requires_grad=True)

    def step() -> None:
        model(torch.randn(ROWS, WIDTH)).sum().backward()
        torch.sparse.mm(sparse, torch.ones(2, 2)).sum().backward()
        (meta * meta).sum().backward()
        (nested * nested).values().sum().backward()

    assert "recorder_failure" not in codes(run(tmp_path, step, model=model))


def test_a_module_called_inside_a_functions_backward_is_no_recompute(tmp_path: Path) -> None:
    helper = nn.Linear(WIDTH, WIDTH)

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return helper(gradient)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.helper, self.first = helper, nn.Linear(WIDTH, WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Custom.apply(self.first(x))

    model = Model()
    recording = run(tmp_path, lambda: model(torch.randn(ROWS, WIDTH)).sum().backward(), model=model)
    assert module_paths(recording, Phase.recompute) == []
    assert "helper" in module_paths(recording, Phase.backward)


def test_the_autocast_copy_of_a_weight_is_its_own_kind(tmp_path: Path) -> None:
    model = nn.Sequential(*[nn.Linear(64, 64, bias=False) for _ in range(3)])

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            y = model(torch.randn(8, 64))
        y.sum().backward()

    recording = run(tmp_path, step, model=model)
    known = recording.known_storages
    cached = [i for i in range(len(known)) if known.kind[i] == StorageKind.autocast_cache]
    # the first layer needs no gradient of its input, so its weight is cast and cached but never saved
    assert [int(known.bytes[i]) for i in cached] == [64 * 64 * 2] * 2
    assert recording.meta.dtype == "bfloat16"


@pytest.mark.parametrize("reentrant", [False, True])
def test_loss_and_shapes_are_recorded(tmp_path: Path, reentrant: bool) -> None:
    model = mlp(1)
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    losses = []

    def step() -> None:
        loss = checkpoint(model, x, use_reentrant=reentrant).sum()
        losses.append(loss.item())
        loss.backward()

    meta = run(tmp_path, step, model=model).meta
    assert meta.loss == pytest.approx(losses[0])
    assert (meta.batch, meta.sequence, meta.dtype) == (ROWS, 1, "float32")
