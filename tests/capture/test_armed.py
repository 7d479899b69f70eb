"""Waiting for the one bad step: what is written when, and that a thousand steps leave nothing behind."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import record_function

from memstrata.capture import Recorder, record_step
from memstrata.capture.armed import is_out_of_memory
from memstrata.capture.format import files
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import MarkKind, StorageKind
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run

from .recordings import codes, mlp

WIDTH = 16
usr1 = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 on this system")
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(autouse=True)
def nothing_armed() -> Iterator[None]:
    """What is still armed afterwards is let go of."""
    yield
    gc.collect()


def training() -> Callable[..., None]:
    """A step that trains on so many rows, and may ask for more memory than there is."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(rows: int = 8, fails: bool = False) -> None:
        optimizer.zero_grad()
        loss = model(torch.randn(rows, WIDTH)).square().sum()
        if fails:
            torch.empty(1 << 60, dtype=torch.uint8)
        loss.backward()
        optimizer.step()

    return step


def triggers(recording: Recording) -> list[str]:
    marks = recording.marks
    return [recording.strings[int(t)] for t, k in zip(marks.text, marks.kind, strict=True) if k == MarkKind.trigger]


def test_running_out_of_memory_late_in_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.mstrata"
    step = record_step(path, on="oom")(training())
    for number in range(12):
        step(4 + number)
    assert not path.exists()
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        step(99, fails=True)
    recording = files.read(path)
    assert recording.steps.index.tolist() == [10, 11, 12] and recording.steps.recorded.all()
    assert recording.steps.tokens.tolist() == [14, 15, 99]
    assert (recording.steps.end_time == -1).tolist() == [False, False, True]
    assert (recording.meta.trigger, recording.meta.step_index, triggers(recording)) == ("oom", 12, ["oom"])
    assert "step_raised" in codes(recording)
    assert (recording.events.time >= recording.steps.start_time[0]).all()
    kinds = [StorageKind(k) for k in recording.known_storages.kind]
    assert kinds.count(StorageKind.parameter) == 4 and kinds.count(StorageKind.optimizer_state) == 12
    assert identities.check(Run(recording)) == []
    assert "step 12 ran out of memory: recorded" in capfd.readouterr().err


def test_a_caught_error_leaves_it_armed_for_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "a.mstrata"
    step = record_step(path, on="oom", keep=1)(training())
    for fails in (False, True, False, False, True):
        try:
            step(fails=fails)
        except RuntimeError:
            assert fails
    assert files.read(path).steps.index.tolist() == [3, 4]


def test_other_errors_are_none_of_its_business(tmp_path: Path) -> None:
    inner, path = training(), tmp_path / "a.mstrata"

    @record_step(path, on="oom")
    def step(error: Exception | None) -> None:
        inner()
        if error is not None:
            raise error

    step(None)
    for error in (KeyError("a"), RuntimeError("shapes")):
        with pytest.raises(type(error)) as raised:
            step(error)
        assert raised.value is error
    step(None)
    assert not path.exists()
    with pytest.raises(MemoryError):
        step(MemoryError())
    steps = files.read(path).steps
    assert steps.index.tolist() == [2, 3, 4] and (steps.end_time == -1).tolist() == [True, False, True]


def test_which_errors_say_that_memory_ran_out() -> None:
    wrapped = ValueError("batch 3")
    wrapped.__cause__ = torch.OutOfMemoryError("CUDA out of memory")
    assert is_out_of_memory(wrapped) and is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError("x"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes")) and not is_out_of_memory(KeyboardInterrupt())


def test_an_error_that_leaves_a_loop(tmp_path: Path) -> None:
    step, path = training(), tmp_path / "a.mstrata"
    with pytest.raises(RuntimeError), Recorder(path, on="oom", keep=1) as recorder:
        for number in range(6):
            step(fails=number == 5)
    recording = files.read(path)
    assert recording.steps.index.tolist() == [4, 5] and recorder.written
    assert len(recording.spans) and identities.check(Run(recording)) == []


def test_a_new_peak_is_written_and_smaller_steps_are_not(tmp_path: Path) -> None:
    step, path, written = training(), tmp_path / "a.mstrata", []
    rows = [512, 64, 64, 64, 64, 65, 128, 64, 127]
    with Recorder(path, on="peak"):
        for number in rows:
            step(number)
            written.append(files.read(path).meta.step_index if path.exists() else None)
    assert written == [None, None, None, None, 3, 3, 3, 6, 6]  # known at the first forward of the next step
    recording = files.read(path)
    assert recording.steps.index[recording.steps.recorded].tolist() == [4, 5, 6]
    assert recording.steps.index[~recording.steps.recorded].tolist() == [0, 1, 2]  # the warm-up, however large
    assert recording.meta.step_seconds_unrecorded is not None
    run = Run(recording)
    assert run.recording.steps.start_time[5] <= run.events.time[run.peak_position - 1]
    assert identities.check(run) == []


@usr1
def test_a_signal_asks_for_the_step_that_runs(tmp_path: Path) -> None:
    step, path, theirs = training(), tmp_path / "a.mstrata", list[int]()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: theirs.append(number))
    try:
        handler = signal.getsignal(signal.SIGUSR1)
        with Recorder(path, on="signal", warmup=0):
            for number in range(6):
                step()
                if number == 3:
                    os.kill(os.getpid(), signal.SIGUSR1)
        assert files.read(path).steps.index.tolist() == [1, 2, 3]
        assert theirs == [signal.SIGUSR1] and signal.getsignal(signal.SIGUSR1) is handler
    finally:
        signal.signal(signal.SIGUSR1, before)


@usr1
def test_without_steps_to_keep_nothing_is_recorded_until_the_signal_comes(tmp_path: Path) -> None:
    inner, path, profiled = training(), tmp_path / "a.mstrata", list[bool]()

    @record_step(path, on="signal", keep=0, warmup=0, signal=signal.SIGUSR2)
    def step() -> None:
        inner()
        profiled.append(torch.autograd._profiler_enabled())

    for number in range(5):
        step()
        if number == 2:
            os.kill(os.getpid(), signal.SIGUSR2)
    assert profiled == [False, False, False, True, False]
    recording = files.read(path)
    assert recording.steps.index[recording.steps.recorded].tolist() == [3]
    del step
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL


def test_thirty_idle_steps_leave_nothing_behind(tmp_path: Path) -> None:
    """Each step has a model, an optimizer and a graph of its own: only those of the kept steps are still there."""
    alive: list[weakref.ref[Any]] = []

    @record_step(tmp_path / "a.mstrata", on="oom", keep=2)
    def step() -> None:
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        y = model(torch.randn(4, WIDTH))
        y.sum().backward()
        optimizer.step()
        alive.extend((weakref.ref(model), weakref.ref(optimizer), weakref.ref(y), weakref.ref(model[0].weight)))

    def count() -> int:
        gc.collect()
        return len(gc.get_objects())

    for _ in range(5):
        step()
    before = count()
    for _ in range(30):
        step()
    grown = count() - before
    living = [number // 4 for number, ref in enumerate(alive) if ref() is not None]
    assert set(living) <= {33, 34}  # of 35
    assert grown < 30 * 4 + 100  # the weak references of this test, and what Python itself caches
    del step


def test_what_outlives_its_step_keeps_its_place_in_the_file(tmp_path: Path) -> None:
    """Leaked in step 2, seven steps before the file begins: the bytes and the line that allocated them are in it."""
    inner, path, kept = training(), tmp_path / "a.mstrata", list[torch.Tensor]()

    @record_step(path, on="oom")
    def step(number: int) -> None:
        inner(fails=number == 11)
        if number == 2:
            kept.append(torch.zeros(1 << 16))

    with pytest.raises(RuntimeError):
        for number in range(12):
            step(number)
    run = Run(files.read(path))
    rows = np.flatnonzero(run.allocations.before & (run.allocations.bytes == 4 << 16))
    assert len(rows) == 1
    frames = run.recording.stack_frames(int(run.allocations.stack[rows[0]]))
    assert "step" in {name for name, _, _ in frames}


def test_a_range_around_the_step_is_left_in_peace(tmp_path: Path) -> None:
    """torch crashes where a range ends under another profiler than it began under."""
    inner, path = training(), tmp_path / "a.mstrata"
    step = record_step(path, on="oom", keep=1)(inner)
    for _ in range(6):
        with record_function("iteration"):
            step()
    with pytest.raises(RuntimeError), record_function("iteration"):
        step(fails=True)
    del step
    gc.collect()
    recording = files.read(path)
    assert recording.steps.index.tolist() == [5, 6] and identities.check(Run(recording)) == []
    assert record_function.__enter__.__qualname__ == "record_function.__enter__"


def test_an_evaluation_between_two_steps_is_not_recorded(tmp_path: Path) -> None:
    inner, path = training(), tmp_path / "a.mstrata"
    other, profiled = mlp(), list[bool]()
    step = record_step(path, on="oom")(inner)
    for number in range(6):
        step()
        if number == 3:
            with torch.no_grad():
                other(torch.randn(2048, WIDTH))
            profiled.append(torch.autograd._profiler_enabled())
    with pytest.raises(RuntimeError):
        step(fails=True)
    recording = files.read(path)
    assert profiled == [False] and recording.steps.index.tolist() == [4, 5, 6]
    assert recording.events.bytes.max() < 2048 * WIDTH * 4


def test_a_failure_of_its_own_is_said_once_and_training_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from memstrata.capture.ring import Ring

    def broken(*_: Any) -> None:
        raise ZeroDivisionError("broken")

    inner, path = training(), tmp_path / "a.mstrata"
    step = record_step(path, on="oom")(inner)
    for _ in range(3):
        step()
    monkeypatch.setattr(Ring, "forget_before", broken)
    for _ in range(4):
        step()
    assert capfd.readouterr().err.count("memstrata: recording ended early: broken") == 1
    assert not torch.autograd._profiler_enabled() and not path.exists()
    with pytest.raises(RuntimeError, match="can't allocate"):
        step(fails=True)
