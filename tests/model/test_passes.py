"""Where the passes of a step begin: real steps of shapes that are not one forward and one backward."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memstrata.capture.format.schema import Fate
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

WIDTH, ROWS = 32, 64
TENSOR = WIDTH * ROWS * 4


class Pair(nn.Module):
    """Two networks of one Linear and one ReLU each, which a step may train one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.two = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())


def recorded(path: Path, step: Callable[[Pair], object]) -> Run:
    from memstrata.capture import Recorder

    model = Pair()
    step(model)
    with Recorder(path, model=model):
        step(model)
    return Run(open_file(str(path)))


def rows() -> "torch.Tensor":
    return torch.randn(ROWS, WIDTH)


def test_networks_trained_one_after_the_other_are_one_pass(tmp_path: Path) -> None:
    def step(model: Pair) -> None:
        model.one(rows()).sum().backward()
        model.two(rows()).sum().backward()

    run = recorded(tmp_path / "a.mstrata", step)
    assert len(run.passes) == 1 and run.saved_bytes_by_fate()[Fate.kept] == 2 * TENSOR


def test_a_network_that_runs_again_after_a_backward_begins_a_pass(tmp_path: Path) -> None:
    def step(model: Pair) -> None:
        model.one(rows()).sum().backward()
        model.one(model.two(rows())).sum().backward()  # keeps more, and so has the peak

    run = recorded(tmp_path / "a.mstrata", step)
    assert run.passes.text == "pass 2 of 2, which has the peak"
    assert run.saved_bytes_by_fate()[Fate.kept] == 2 * TENSOR


def test_what_waits_for_one_backward_is_one_pass(tmp_path: Path) -> None:
    def step(model: Pair) -> None:
        with torch.no_grad():
            model.one(rows())
        (model.one(rows()).sum() + model.one(rows()).sum()).backward()

    run = recorded(tmp_path / "a.mstrata", step)
    assert len(run.passes) == 1 and run.saved_bytes_by_fate()[Fate.kept] == 2 * TENSOR


def test_a_second_backward_through_the_same_graph_is_no_pass(tmp_path: Path) -> None:
    def step(model: Pair) -> None:
        loss = model.one(rows()).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    assert len(recorded(tmp_path / "a.mstrata", step).passes) == 1


def test_a_file_without_a_backward_or_without_steps_is_one_pass(tmp_path: Path, samples: Path) -> None:
    run = recorded(tmp_path / "a.mstrata", lambda model: model.one(rows()))
    assert len(run.passes) == 1 and run.passes.window == (0, None)
    assert len(Run(open_file(str(samples / "format-1.mstrata"))).passes) == 1


def test_a_forward_of_which_nothing_is_kept_is_not_what_is_told_of(tmp_path: Path) -> None:
    """With more alive beside it, it has the peak; but what is kept is that of the other."""

    def step(pair: Pair) -> None:
        pair.one(torch.ones(ROWS, WIDTH)).sum().backward()
        with torch.no_grad():
            held = torch.ones(1 << 20)
            pair.one(held[: ROWS * WIDTH].view(ROWS, WIDTH))

    run = recorded(tmp_path / "a.mstrata", step)
    assert len(run.passes) == 2 and run.passes.peak == 0
    assert run.passes.text == "pass 1 of 2, which saves the most"
    assert run.saved_bytes_by_fate()[Fate.kept] == TENSOR  # what ReLU returns
