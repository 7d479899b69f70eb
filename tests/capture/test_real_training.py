"""Training as people really write it: the results, what stays installed, and what the recording says of it."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

from memstrata.capture import CaptureError, Recorder, record_step, saved_tensors
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Action, Fate, Phase, StorageKind
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .recordings import codes, fates, mlp, module_paths, record
from .test_training_unchanged import replaced

WIDTH = 16
Step = Callable[[], Any]
Results = Callable[[], list[torch.Tensor]]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.drop(self.down(torch.relu(self.up(self.norm(x)))))
        return y


class Net(nn.Module):
    """Blocks, each called through `around`."""

    def __init__(self, around: Callable[[nn.Module, torch.Tensor], torch.Tensor] = lambda block, x: block(x)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.around = around

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.around(layer, x)
        return x


def batch() -> torch.Tensor:
    return torch.randn(2, 8, WIDTH)


def tensors_of(model: nn.Module) -> list[torch.Tensor]:
    return [t.detach().clone() for p in model.parameters() for t in (p, p.grad) if t is not None]


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


def phases(recording: Recording) -> list[str]:
    spans = recording.spans
    return [Phase(p).name for p, m in zip(spans.phase, spans.module, strict=True) if m == -1]


def test_the_closure_of_an_optimizer_runs_forward_and_backward(tmp_path: Path) -> None:
    step, _ = closure()
    step()
    recording = record(tmp_path / "a.mstrata", step)
    rounds = [phase for phase in phases(recording) if phase != "other"]
    assert rounds[:5] == ["optimizer", "forward", "backward", "optimizer", "forward"] and rounds[-1] == "optimizer"
    assert "layers.0" in module_paths(recording, Phase.forward) and module_paths(recording, Phase.optimizer) == []
    names = {recording.strings[int(name)].split("[")[0] for name in recording.known_storages.name}
    assert any(name.startswith("old_dirs of ") for name in names)


def test_an_optimizer_inside_backward_interrupts_it(tmp_path: Path) -> None:
    step, _ = inside_backward()
    step()
    rounds = [phase for phase in phases(record(tmp_path / "a.mstrata", step)) if phase != "other"]
    assert rounds[0] == "forward" and len(rounds) > 3
    assert set(rounds[1::2]) == {"backward"} and set(rounds[2::2]) == {"optimizer"}


def test_forward_goes_on_after_a_backward_inside_it(tmp_path: Path) -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(leaf.pow(3).sum(), leaf)
            return x * gradient

    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Inner(), nn.Linear(WIDTH, WIDTH))
    recording = record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward())
    assert [p for p in phases(recording) if p != "other"] == ["forward", "backward", "forward", "backward"]


def test_the_plan_of_nested_checkpoints_names_what_each_recomputes(tmp_path: Path) -> None:
    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.groups = nn.ModuleList(nn.ModuleList(Block() for _ in range(2)) for _ in range(2))

        def run(self, group: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
            for block in group:
                x = checkpoint(block, x, use_reentrant=False)
            return x

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for group in self.groups:
                x = checkpoint(functools.partial(self.run, group), x, use_reentrant=False)
            return x

    model = Nested()
    plan = record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward()).meta.plan
    assert plan == (
        ("groups.0.0", "groups.0.1"), ("groups.0.0",), ("groups.0.1",),
        ("groups.1.0", "groups.1.1"), ("groups.1.0",), ("groups.1.1",),
    )  # fmt: skip


def test_a_checkpointed_method_names_its_modules_and_a_function_without_any_the_one_around_it(tmp_path: Path) -> None:
    class Method(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

        def body(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.b(torch.tanh(self.a(x) * 2)) + x
            return y

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = checkpoint(self.body, x, use_reentrant=False)
            y: torch.Tensor = checkpoint(torch.tanh, x, use_reentrant=False)
            return y

    model = nn.Sequential(Method(), Method())
    plan = record(tmp_path / "a.mstrata", lambda: model(batch()).sum().backward()).meta.plan
    assert plan == (("0.a", "0.b"), ("0",), ("1.a", "1.b"), ("1",))


@pytest.fixture
def no_hooks_left() -> Iterator[None]:
    yield
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None


def doubled(packed: list[int]) -> saved_tensors_hooks:
    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor.numel())
        return tensor.detach()

    return saved_tensors_hooks(pack, lambda tensor: tensor * 2)


@pytest.mark.usefixtures("no_hooks_left")
def test_a_hook_left_open_by_the_step_stays_as_its_owner_made_it(tmp_path: Path) -> None:
    model, packed, stack = mlp(1), list[int](), contextlib.ExitStack()
    hooks = doubled(packed)

    def step() -> None:
        stack.enter_context(hooks)
        model(torch.ones(2, WIDTH)).sum().backward()

    record(tmp_path / "a.mstrata", step)
    top = torch._C._autograd._top_saved_tensors_default_hooks(True)
    assert top == (hooks.pack_hook, hooks.unpack_hook)
    count = len(packed)
    model(torch.ones(2, WIDTH))
    assert len(packed) == 2 * count
    stack.close()


@pytest.mark.usefixtures("no_hooks_left")
def test_a_hook_from_before_the_step_may_end_inside_it(tmp_path: Path) -> None:
    gradients = []
    for recorded in (False, True):
        model, stack = mlp(1), contextlib.ExitStack()
        stack.enter_context(doubled([]))
        with Recorder(tmp_path / "a.mstrata") if recorded else contextlib.nullcontext():
            model(torch.ones(2, WIDTH)).sum().backward()
            stack.close()
            model(torch.ones(2, WIDTH)).sum().backward()
        gradients.append(tensors_of(model))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    recording = open_file(tmp_path / "a.mstrata")
    assert len(recording.saved_tensors) > 0 and "hooks_before_recording" in codes(recording)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_torch_that_cannot_name_the_hooks_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    monkeypatch.setattr(saved_tensors, "_TOP", None)  # before torch 2.8
    model, packed, before = mlp(1), list[int](), replaced()

    def step() -> None:
        model(batch()).sum().backward()
        if not hidden:
            torch.func.grad(lambda x: x.pow(2).sum())(torch.ones(2))

    with doubled(packed) if hidden else contextlib.nullcontext():
        recording = record(tmp_path / "a.mstrata", step)
    assert replaced() == before
    assert (len(packed) > 0) == hidden == ("hooks_hidden" in codes(recording))
    assert (len(recording.saved_tensors) > 0) != hidden


def test_hooks_that_are_disabled_when_the_recording_begins_are_seen_once_enabled(tmp_path: Path) -> None:
    model = mlp(1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.autograd.graph.disable_saved_tensors_hooks("none here"))
        with Recorder(tmp_path / "a.mstrata"):
            model(batch()).sum().backward()
            stack.close()
            model(batch()).sum().backward()
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert fates(open_file(tmp_path / "a.mstrata"))["kept"] == 5


def test_tensor_modes_and_classes_of_the_user_do_not_see_the_bookkeeping(tmp_path: Path) -> None:
    seen: list[str] = []

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return super().__torch_function__(function, types, args, kwargs or {})

    model, x = mlp(1), batch().as_subclass(Mine)
    record(tmp_path / "a.mstrata", lambda: model(x).sum().backward())
    assert not [name for name in seen if "detach" in name or "untyped_storage" in name or "numel" in name]


def strange_losses() -> dict[str, Callable[[], None]]:
    from torch._subclasses import FakeTensorMode

    def fake() -> None:
        with FakeTensorMode():
            nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()

    def complex_() -> None:
        model = nn.Linear(2, 2, dtype=torch.complex64)
        model(torch.ones(1, 2, dtype=torch.complex64)).sum().backward(torch.tensor(1 + 0j))

    def mapped() -> None:
        torch.func.vmap(torch.func.grad(lambda x: x.pow(3).sum()))(torch.ones(2, 2))

    return {"fake": fake, "complex": complex_, "mapped": mapped}


@pytest.mark.parametrize("kind", ["fake", "complex", "mapped"])
def test_a_loss_that_is_no_plain_number_is_passed_over(tmp_path: Path, kind: str) -> None:
    model, x = mlp(1), batch()

    def step() -> None:
        model(x).sum().backward()
        strange_losses()[kind]()

    recording = record(tmp_path / "a.mstrata", step)
    assert recording.meta.loss == pytest.approx(float(model(x).sum())) and "recorder_failure" not in codes(recording)


class Outputs(dict[str, torch.Tensor]):
    """Registered without keys, as the outputs of transformers are."""


pytree.register_pytree_node(
    Outputs, lambda d: (list(d.values()), list(d)), lambda values, keys: Outputs(zip(keys, values, strict=True))
)


def test_inputs_in_containers_without_keys_are_numbered(tmp_path: Path) -> None:
    class Encoded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(1)

        def forward(self, x: torch.Tensor, *, encoded: Outputs) -> torch.Tensor:
            y: torch.Tensor = self.body(x + encoded["hidden"])
            return y

    model = Encoded()
    recording = record(tmp_path / "a.mstrata", lambda: model(batch(), encoded=Outputs(hidden=batch())).sum().backward())
    assert recording.meta.shapes == {"args[0]": [2, 8, WIDTH], "encoded[0]": [2, 8, WIDTH]}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_ragged_inputs_are_recorded(tmp_path: Path, layout: torch.layout) -> None:
    model = nn.Linear(WIDTH, WIDTH)

    def step() -> None:
        ragged = torch.nested.nested_tensor([torch.ones(2, WIDTH), torch.ones(3, WIDTH)], layout=layout)
        y = model(ragged).relu()
        sum(part.sum() for part in y.unbind()).backward()

    recording = record(tmp_path / "a.mstrata", step)
    assert recording.meta.batch is None and "recorder_failure" not in codes(recording)
    assert (recording.known_storages.kind == StorageKind.input).any() and len(recording.saved_tensors) > 0


def test_shapes_are_those_of_the_recorded_model(tmp_path: Path) -> None:
    augment, model, criterion = nn.Upsample(scale_factor=2), nn.Linear(8, 4), nn.MSELoss()
    recording = record(tmp_path / "a.mstrata", lambda: criterion(model(augment(torch.ones(1, 3, 4))), torch.ones(3, 4)))
    assert recording.meta.model == "Linear" and recording.meta.shapes == {"args[0]": [1, 3, 8]}


def test_a_parameter_given_to_a_module_is_no_input(tmp_path: Path) -> None:
    model, latents = mlp(1), nn.Parameter(batch())
    known = record(tmp_path / "a.mstrata", lambda: model(latents).sum().backward()).known_storages
    assert StorageKind.input not in known.kind.tolist()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("warmup", [0, 1])
def test_parameters_that_are_not_initialised_yet(tmp_path: Path, warmup: int) -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.never = nn.LazyLinear(WIDTH), nn.LazyLinear(WIDTH)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.used(x)
            return y

    model, criterion = Lazy(), nn.MSELoss()
    step = record_step(tmp_path / "a.mstrata", warmup=warmup)(lambda: criterion(model(batch()), batch()).backward())
    for _ in range(warmup + 1):
        step()
    recording = open_file(tmp_path / "a.mstrata")
    assert len(recording.module_parameters) == 2 and check(Run(recording)) == []


def test_a_module_that_cannot_be_looked_at_does_not_stop_training(tmp_path: Path) -> None:
    class Broken(nn.Module):
        def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
            raise LookupError("not today")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    model, broken, half_made = mlp(1), Broken(), nn.Module.__new__(nn.Module)
    extra = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*model.parameters(), extra], lr=0.1)
    before, ran = replaced(), []

    @record_step(tmp_path / "a.mstrata", warmup=1)
    def step() -> None:
        broken(model(batch())).sum().backward()
        optimizer.step()
        ran.append(True)

    step()
    step()
    with Recorder(tmp_path / "b.mstrata", model=broken):
        step()
    assert ran == [True] * 3 and half_made is not None
    assert replaced() == before and not torch.autograd._profiler_enabled()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupted_forward_ends_its_spans(tmp_path: Path, error: type[BaseException]) -> None:
    class Interrupted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = mlp(1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.body(x)
            raise error

    model, before = Interrupted(), replaced()
    with pytest.raises(error), Recorder(tmp_path / "a.mstrata"):
        model(batch())
    recording = open_file(tmp_path / "a.mstrata")
    assert module_paths(recording, Phase.forward)[0] == "" and "step_raised" in codes(recording)
    assert replaced() == before


@pytest.mark.filterwarnings("ignore")
def test_a_profiler_inside_the_step_is_said(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            model(batch()).sum().backward()
        model(batch()).sum().backward()

    assert "profiler_ended" in codes(record(tmp_path / "a.mstrata", step))


def test_what_is_freed_on_another_thread_is_freed_before_its_address_is_used_again(tmp_path: Path) -> None:
    model = mlp(1)

    def step() -> None:
        model(batch()).sum().backward()
        for _ in range(8):
            held = [torch.ones(1 << 12)]
            worker = threading.Thread(target=held.clear)
            worker.start()
            worker.join()

    recording = record(tmp_path / "a.mstrata", step)
    alive: set[int] = set()
    for action, address in zip(recording.events.action, recording.events.address.tolist(), strict=True):
        assert (address in alive) == (action == Action.free_completed)
        alive ^= {address}
    assert check(Run(recording)) == []


def test_memory_of_numpy_at_one_address_is_counted_one_after_the_other(tmp_path: Path) -> None:
    model, memory = nn.Linear(64, 4), np.ones(1 << 14, np.float32)

    def step() -> None:
        for _ in range(3):
            model(torch.from_numpy(memory).view(-1, 64)).sum().backward()

    recording = record(tmp_path / "a.mstrata", step)
    events = recording.events
    mine = [Action(a).name for a, size in zip(events.action, events.bytes, strict=True) if size == 1 << 16]
    assert mine == ["free_completed", "alloc", "free_completed", "alloc", "free_completed"]
    assert check(Run(recording)) == []


def test_a_graph_kept_beyond_the_step_keeps_no_module(tmp_path: Path) -> None:
    model, kept = mlp(1), list[torch.Tensor]()
    alive = weakref.ref(model[0])
    step = lambda model: kept.append(model(batch()))
    record(tmp_path / "a.mstrata", functools.partial(step, model))
    gc.collect()
    gc.disable()
    try:
        del model
        assert alive() is None and kept[0].grad_fn is not None
    finally:
        gc.enable()


def test_what_runs_after_its_call_returned_is_refused(tmp_path: Path) -> None:
    async def coroutine() -> None: ...

    def generator() -> Iterator[None]:
        yield

    for function in (coroutine, generator, 3):
        with pytest.raises(CaptureError, match="plain function"):
            record_step(tmp_path / "a.mstrata")(function)  # type: ignore[arg-type]


def test_methods_are_steps_too(tmp_path: Path) -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = mlp(1)

        @record_step(tmp_path / "a.mstrata", warmup=1)
        def step(self, scale: float = 1.0) -> float:
            loss = self.model(batch()).sum() * scale
            loss.backward()
            return float(loss)

    trainer = Trainer()
    trainer.step()
    loss = trainer.step(scale=2.0)
    assert open_file(tmp_path / "a.mstrata").meta.loss == pytest.approx(loss)


@pytest.mark.parametrize("name", ["x" * 300 + ".mstrata", "a\0b", "file/a.mstrata"])
def test_a_path_that_cannot_be_a_file_is_said_before_training(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match="cannot be written"):
        Recorder(tmp_path / name)


def test_a_folder_removed_during_the_step_costs_the_recording_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, model = tmp_path / "gone", mlp(1)
    folder.mkdir()
    with Recorder(folder / "a.mstrata") as recorder:
        model(batch()).sum().backward()
        folder.rmdir()
    assert not recorder.written and list(tmp_path.iterdir()) == []
    assert "memstrata: the step was not recorded: " in capfd.readouterr().err


def test_odd_names_and_no_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = mlp(1), tmp_path / "Größe 模型 \U0001f9e0.mstrata"
    monkeypatch.setattr("sys.stderr", None)
    recording = record(path, lambda: model(batch()).sum().backward())
    assert fates(recording)[Fate.kept.name] > 0


def test_many_optimizers_and_modules_cost_no_more_than_their_number(tmp_path: Path) -> None:
    """Calls of Python functions inside the step are what torch.profiler pays for: they may not grow with the square."""
    counts = []
    for number in (20, 80):
        model = nn.Sequential(*[nn.Linear(2, 2, bias=False) for _ in range(number)])
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p, o=optimizers: o[p].step())
        recorder = Recorder(tmp_path / "a.mstrata", model=model)
        with recorder:
            model(torch.ones(1, 2)).sum().backward()
            source = recorder._source
            counted = source._profile
        counts.append(sum(1 for _ in _walk(counted.profiler.kineto_results.experimental_event_tree())))
    assert counts[1] < 5 * counts[0]


def _walk(roots: list[Any]) -> Iterator[Any]:
    todo = list(roots)
    while todo:
        event = todo.pop()
        todo.extend(event.children)
        yield event
