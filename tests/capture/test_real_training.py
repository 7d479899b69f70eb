"""Training as people really write it: the results, what stays installed, and what the recording says of it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

from memstrata.capture import Recorder
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .recordings import WIDTH, Block, Net, batch, codes, mlp, tensors_of
from .test_training_unchanged import replaced

Step = Callable[[], Any]
Results = Callable[[], list[torch.Tensor]]


def plain(model: nn.Module | None = None) -> tuple[Step, Results]:
    net = Net() if model is None else model
    optimizer = torch.optim.AdamW(net.parameters())

    def step() -> None:
        optimizer.zero_grad()
        net(batch()).square().mean().backward()
        optimizer.step()

    return step, lambda: tensors_of(net)


def accumulation() -> tuple[Step, Results]:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        for _ in range(3):
            (net(batch()).square().mean() / 3).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return step, lambda: tensors_of(net)


def scaled() -> tuple[Step, Results]:
    net = Net(lambda block, x: checkpoint(block, x, use_reentrant=False))
    optimizer, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler("cpu")

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = net(batch()).float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step, lambda: tensors_of(net)


def closure() -> tuple[Step, Results]:
    net, x = Net().eval(), batch()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)

    def evaluate() -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss

    return lambda: optimizer.step(evaluate), lambda: tensors_of(net)


def inside_backward() -> tuple[Step, Results]:
    net = Net()
    optimizers = {p: torch.optim.AdamW([p]) for p in net.parameters()}

    def update(parameter: torch.Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    return lambda: net(batch()).square().mean().backward(), lambda: tensors_of(net)


def selective() -> tuple[Step, Results]:
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])
    return plain(Net(lambda block, x: checkpoint(block, x, use_reentrant=False, context_fn=contexts)))


def sequential() -> tuple[Step, Results]:
    body = nn.Sequential(*[Block() for _ in range(4)])
    return plain(Net(lambda block, x: checkpoint_sequential(body, 2, block(x), use_reentrant=False)))


def twice_through_one_graph() -> tuple[Step, Results]:
    net = Net(lambda block, x: checkpoint(block, x, use_reentrant=False))

    def step() -> None:
        x = batch().requires_grad_()
        y = net(x)
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        gradient.square().mean().backward(retain_graph=True)
        y.abs().mean().backward()

    return step, lambda: tensors_of(net)


def transforms() -> tuple[Step, Results]:
    net, seen = Net().eval(), list[torch.Tensor]()

    def step() -> None:
        net(batch()).square().mean().backward()
        held = {name: p.detach() for name, p in net.named_parameters()}
        loss = lambda held, x: torch.func.functional_call(net, held, (x,)).square().mean()
        seen.extend(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(held, batch()).values())
        seen.append(torch.func.hessian(lambda x: x.pow(3).sum())(torch.ones(3)))

    return step, lambda: tensors_of(net) + seen


def recurrent() -> tuple[Step, Results]:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True, dropout=0.1)
            self.norm = nn.BatchNorm1d(8)
            self.head = nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.head(self.norm(self.cells(x)[0]))
            y[:, 0].mul_(2)
            return y.relu_()

    return plain(Recurrent())


def attention() -> tuple[Step, Results]:
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True)
    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    step, results = plain(net)

    def step_and_evaluate() -> None:
        step()
        net.eval()
        with torch.inference_mode():
            net(batch())
        net.train()

    return step_and_evaluate, results


def compiled() -> tuple[Step, Results]:
    torch._dynamo.reset()
    net = mlp(1)
    call = torch.compile(net, backend="aot_eager")  # compiled for the first time inside the step
    return lambda: call(batch()).square().mean().backward(), lambda: tensors_of(net)


LOOPS: list[tuple[Callable[[], tuple[Step, Results]], int]] = [
    (plain, 1), (accumulation, 1), (scaled, 1), (closure, 1), (inside_backward, 1), (selective, 1), (sequential, 1),
    (twice_through_one_graph, 0), (transforms, 1), (recurrent, 1), (attention, 1), (compiled, 0),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make, warmup", LOOPS, ids=[make.__name__ for make, _ in LOOPS])
def test_training_is_the_same_and_its_recording_holds(
    tmp_path: Path, make: Callable[[], tuple[Step, Results]], warmup: int
) -> None:
    outcomes = []
    for recorded in (False, True):
        torch.manual_seed(5)
        step, results = make()
        for _ in range(warmup):
            step()
        before = replaced()
        with Recorder(tmp_path / "a.mstrata") if recorded else contextlib.nullcontext():
            step()
        assert replaced() == before
        outcomes.append([*results(), torch.rand(2)])
    assert len(outcomes[0]) > 2 and all(torch.equal(a, b) for a, b in zip(*outcomes, strict=True))
    recording = open_file(tmp_path / "a.mstrata")
    assert check(Run(recording)) == []
    assert not {"recorder_failure", "other_threads", "profiler_ended"} & codes(recording)
