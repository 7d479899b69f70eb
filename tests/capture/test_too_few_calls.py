"""A decorated function that is not called often enough: nothing is recorded, and that is said at the end."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from memstrata.capture import record_step
from memstrata.capture.format import files

from .recordings import codes, mlp

pytestmark = pytest.mark.usefixtures("one_thread")

PROGRAM = """
    import sys, torch
    from memstrata.capture import record_step

    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @record_step("a.mstrata", warmup=int(sys.argv[1]))
    def train_step(fails):
        loss = model(torch.ones(2, 8)).sum()
        if fails:
            raise ValueError("boom")
        loss.backward()
        optimizer.step()

    train_step(False)
    train_step(True)
"""


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Functions of other tests end before."""
    gc.collect()
    yield
    gc.collect()


def test_at_the_end_of_a_program_whose_exception_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(PROGRAM))

    def run(warmup: int) -> tuple[int, str, list[str]]:
        done = subprocess.run([sys.executable, "train.py", str(warmup)], cwd=tmp_path, capture_output=True, text=True,
                              check=False)  # fmt: skip
        return done.returncode, done.stdout, done.stderr.splitlines()

    status, out, err = run(3)
    assert (status, out, list(tmp_path.glob("*.mstrata"))) == (1, "", [])
    assert err[0].startswith("Traceback") and err[-2:] == [
        "ValueError: boom",
        "memstrata: train_step was called 2 times, and the last call raised ValueError: nothing was recorded, since"
        " recording begins after 3 calls; use warmup=1 to record the last one.",
    ]
    status, out, err = run(1)
    assert (status, out, err[-1]) == (1, "", "ValueError: boom")
    recording = files.read(tmp_path / "a.mstrata")
    assert recording.steps.index[recording.steps.recorded].tolist() == [1] and "step_raised" in codes(recording)


NOTHING = ": nothing was recorded, since recording begins after "
TOLD: dict[str, tuple[str, dict[str, Any], str]] = {
    "too few": ("ff", {}, f"step was called 2 times{NOTHING}3 calls; use warmup=1 to record the last one."),
    "one of two": ("f", {"warmup": 1}, f"step was called once{NOTHING}1 call; use warmup=0 to record the last one."),
    "the first fails": (
        "x", {}, f"step was called once, and raised KeyError{NOTHING}3 calls; use warmup=0 to record the last one."
    ),
    "an earlier one fails": (
        "xf", {"steps": 2}, f"step was called 2 times{NOTHING}3 calls; use warmup=1 to record the last one."
    ),
    "never called": ("", {}, ""),
    "recorded": ("ff", {"warmup": 1}, "recorded"),
    "some of those to be recorded": ("fff", {"warmup": 1, "steps": 3}, "recorded"),
    "armed": ("f", {"on": "oom"}, "armed for an out-of-memory error over 1 step: nothing was written."),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD)
def test_what_is_said_once_nobody_can_call_the_function(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str
) -> None:
    calls, options, words = TOLD[case]
    model = mlp()

    @record_step(tmp_path / "a.mstrata", **options)
    def step(fails: bool) -> None:
        model(torch.randn(8, 16)).sum().backward()
        if fails:
            raise KeyError

    for call in calls:
        if call == "x":
            with pytest.raises(KeyError):
                step(True)
        else:
            step(False)
    del step
    gc.collect()
    said = [line.removeprefix("memstrata: ") for line in capfd.readouterr().err.splitlines() if "memstrata:" in line]
    if words == "recorded":
        assert len(said) == 1 and said[0].startswith("recorded ")
    else:
        assert said == ([words] if words else []) and list(tmp_path.iterdir()) == []
