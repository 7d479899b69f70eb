"""Steps with something odd about them: losses, inputs, parameters, modules, threads, paths."""

from __future__ import annotations

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
from torch.utils import _pytree as pytree

from memstrata.capture import CaptureError, Recorder, record_step
from memstrata.capture.format.schema import Action, Fate, Phase, StorageKind
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

from .recordings import WIDTH, batch, codes, fates, mlp, module_paths, record
from .test_training_unchanged import replaced


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
