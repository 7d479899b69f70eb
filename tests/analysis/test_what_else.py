"""What else would help: by hand on small real steps, and against the same step really changed that way."""

import json

import numpy as np
import pytest

from memstrata.viewer.analysis.parallel import Parallel
from memstrata.viewer.analysis.planner import Planner
from memstrata.viewer.analysis.what_else import as_recorded, stages, under_plan, without
from memstrata.viewer.cli import main
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

MIB = 2**20
ROWS, WIDTH, VOCABULARY, BLOCKS = 512, 64, 4096, 4
LOGITS = ROWS * VOCABULARY * 4
pytestmark = pytest.mark.usefixtures("one_thread")


class Net(nn.Module):
    def __init__(self, width=WIDTH, blocks=BLOCKS, vocabulary=VOCABULARY):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(blocks))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x, head=True):
        for layer in self.layers:
            x = layer(x)
        return self.head(x) if head else x


def recorded(path, model, step, optimizer=None):
    from memstrata.capture import Recorder

    step()
    with Recorder(path, model=model, optimizer=optimizer):
        step()
    return Run(open_file(str(path)))


def changes(run, under=None):
    return {each.name: each for each in without(run, under)}


def loss_step(model, rows, target, chunks=1):
    """One step of head and cross-entropy, the loss in so many parts whose logits are made again in backward."""

    def part(x, t):
        return F.cross_entropy(model.head(x), t, reduction="sum")

    def step():
        model.zero_grad()
        hidden = model(rows, head=False)
        pieces = zip(hidden.chunk(chunks), target.chunk(chunks), strict=True)
        run = part if chunks == 1 else lambda x, t: checkpoint(part, x, t, use_reentrant=False)
        (sum(run(x, t) for x, t in pieces) / ROWS).backward()

    return step


def test_cross_entropy_in_chunks(tmp_path):
    """Four tensors as large as the logits: logits, log-probabilities, and the gradients of both."""
    torch.manual_seed(0)
    model, rows, target = Net(), torch.randn(ROWS, WIDTH), torch.randint(VOCABULARY, (ROWS,))
    whole = recorded(tmp_path / "whole.mstrata", model, loss_step(model, rows, target))
    change = changes(whole)["cross-entropy in chunks"]
    sizes = whole.allocations.bytes[list(change.query.rows)]
    assert (sizes == LOGITS).sum() == 4 and sizes.sum() < 4.01 * LOGITS and change.share == 15 / 16
    chunked = recorded(tmp_path / "chunked.mstrata", model, loss_step(model, rows, target, 16))
    # beside the backward of one chunk the head's gradient is there already, and once more while it is added up
    twice = 2 * model.head.weight.numel() * 4
    assert chunked.peak_bytes - twice <= change.peak_bytes <= chunked.peak_bytes
    assert change.saved_bytes == pytest.approx(3 * LOGITS * 15 / 16, rel=0.02)


def test_the_optimizer_in_backward(tmp_path):
    """Eight layers of 256 x 256: gradients of 2 MiB, of which one layer's stay."""
    torch.manual_seed(0)

    def build():
        return Net(256, 8, 4), torch.randn(16, 256)

    model, rows = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)

    def plain():
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()

    whole = recorded(tmp_path / "whole.mstrata", model, plain, optimizer)
    change = changes(whole)["optimizer in backward"]
    gradients = sum(p.numel() * 4 for p in model.parameters())
    # those of the step before, until they are set to none, and those of this one
    assert whole.allocations.bytes[list(change.query.rows)].sum() == 2 * gradients and change.share == 7 / 8
    model, rows = build()
    own = {p: torch.optim.SGD([p], lr=0.0, momentum=0.9) for p in model.parameters()}

    def at_once(parameter):
        own[parameter].step()
        own[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(at_once)
    inside = recorded(tmp_path / "inside.mstrata", model, lambda: model(rows).square().mean().backward())
    assert change.peak_bytes == pytest.approx(inside.peak_bytes, rel=0.08)
    assert change.saved_bytes == pytest.approx(whole.peak_bytes - inside.peak_bytes, rel=0.15)


def test_eight_bit_states(tmp_path):
    """Three quarters of two moments for each value, and of a step count of 4 bytes for each parameter."""
    model, rows = Net(64, 4, 4), torch.randn(16, 64)
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()

    run = recorded(tmp_path / "a.mstrata", model, step, optimizer)
    values, parameters = sum(p.numel() for p in model.parameters()), len(list(model.parameters()))
    change = changes(run)["8-bit optimizer states"]
    assert change.saved_bytes == 6 * values + 3 * parameters
    assert change.peak_bytes == run.peak_bytes - change.saved_bytes


def by_brute_force(under, change, rows, until):
    curve = under.curve.copy()
    for row, end in zip(rows, until, strict=True):
        curve[under.run.allocations.start[row] : end] -= round(int(under.run.allocations.bytes[row]) * change.share)
    return int(curve.max())


def test_boundaries_offloaded_of_a_step_with_checkpoints(run_of):
    """Seven boundaries between eight segments, and the last output, which the loss saves; two segments' share stays."""
    run = run_of("uniform-checkpointed.mstrata")
    under, change = as_recorded(run), changes(run)["boundaries offloaded"]
    assert run.allocations.bytes[list(change.query.rows)].tolist() == [4 * MIB] * 8 and change.share == 0.75
    assert change.peak_bytes == by_brute_force(under, change, under.boundaries, under.held_until)
    assert change.saved_bytes == run.peak_bytes - change.peak_bytes


def test_boundaries_offloaded_of_a_plan_that_is_tried(run_of):
    planner = Planner(run_of("uniform.mstrata"))
    outcome = planner.outcome(planner.every(1))
    under = under_plan(planner, outcome)
    change = changes(planner.run, under)["boundaries offloaded"]
    assert planner.run.allocations.bytes[list(change.query.rows)].tolist() == [4 * MIB] * 7
    assert int(under.curve.max()) == outcome.peak_bytes
    assert change.peak_bytes == by_brute_force(under, change, under.boundaries, under.held_until)
    # the same as of the step that really ran with these checkpoints, but for the last output
    really = changes(run_of("uniform-checkpointed.mstrata"))["boundaries offloaded"]
    assert change.peak_bytes == pytest.approx(really.peak_bytes, abs=4 * MIB)


def test_changes_stand_on_the_plan_that_is_tried(run_of):
    planner = Planner(run_of("before.mstrata"))
    outcome = planner.outcome(planner.every(4))
    found = changes(planner.run, under_plan(planner, outcome))["8-bit optimizer states"]
    states = planner.run.allocations.bytes[list(found.query.rows)]
    assert found.saved_bytes == np.rint(states * 0.75).sum() == outcome.peak_bytes - found.peak_bytes


def test_microbatches_in_flight_by_measured_bytes(run_of):
    """Two of eight blocks in each of four stages: 8 saved tensors of 4 MiB, of which the first is the model's input,
    no activation; the last stage has what the loss saves besides. 4, 3, 2 and 1 of them wait at once."""
    found = stages(run_of("uniform.mstrata"), Parallel(pipeline=4, microbatches=8))
    assert [stage.layers for stage in found] == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert [stage.in_flight for stage in found] == [4, 3, 2, 1]
    assert [stage.kept_bytes for stage in found] == [28 * MIB, 32 * MIB, 32 * MIB, 36 * MIB]
    assert [stage.peak_bytes for stage in found] == [112 * MIB, 96 * MIB, 64 * MIB, 36 * MIB]
    few = stages(run_of("uniform.mstrata"), Parallel(pipeline=4, microbatches=2))
    assert [stage.in_flight for stage in few] == [2, 2, 2, 1]


def test_a_waiting_microbatch_holds_no_rematerialised_segment(run_of):
    """Under a checkpoint per block the first stage keeps one boundary of 4 MiB for each that waits, and three tensors
    more are made again for the one that runs."""
    first = stages(run_of("uniform-checkpointed.mstrata"), Parallel(pipeline=4, microbatches=4))[0]
    assert (first.kept_bytes, first.peak_bytes) == (4 * MIB, 3 * 4 * MIB + 4 * MIB + 3 * 4 * MIB)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_stages_under_a_plan_that_is_tried(run_of, length):
    """As of the step that really ran with a checkpoint per block. Segments longer than a stage are cut: with two
    blocks in each stage four make one checkpoint of two."""
    planner = Planner(run_of("uniform.mstrata"))
    parallel, under = Parallel(pipeline=4, microbatches=8), under_plan(planner, planner.outcome(planner.every(length)))
    found = stages(planner.run, parallel, under)
    if length == 1:
        really = stages(run_of("uniform-checkpointed.mstrata"), parallel)
        assert [(s.layers, s.kept_bytes) for s in found[1:3]] == [(s.layers, s.kept_bytes) for s in really[1:3]]
        assert [s.peak_bytes for s in found[1:3]] == [s.peak_bytes for s in really[1:3]]
    checkpoints = 2 if length == 1 else 1
    assert [s.kept_bytes for s in found[1:3]] == [checkpoints * 4 * MIB] * 2  # a boundary of 4 MiB for each
    cut = under_plan(planner, planner.outcome(planner.every(2)))
    assert length == 1 or found == stages(planner.run, parallel, cut)


def said(capsys, *arguments):
    status = main(["what-else", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command(samples, capsys):
    file, parallel = samples / "before.mstrata", ("--parallel", "pipeline=4,microbatches=8")
    status, out, _ = said(capsys, file, "--segment-layers", 1, *parallel)
    assert status == 0 and out.startswith("before.mstrata: peak 215 MiB with 12 segments (estimate)\n")
    assert max(map(len, out.splitlines())) <= 80 and "boundaries offloaded" in out and "0-2" in out
    assert "Pipeline with 12 segments, each microbatch as large as recorded (estimates)" in out
    found = json.loads(said(capsys, file, "--segment-layers", 1, *parallel, "--json")[1])
    assert [stage["microbatches_in_flight"] for stage in found["stages"]] == [4, 3, 2, 1]
    assert len(found["segments"]) == 12 and {change["name"] for change in found["changes"]} == {
        "8-bit optimizer states", "optimizer in backward", "cross-entropy in chunks", "boundaries offloaded",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--parallel", "pipeline=13"), "pipeline=13 is more than the 12 layers of this model"),
        (("--parallel", "data=4"), "a recording tells nothing of data: give pipeline and microbatches, or use predict"),
        (("--segment-layers", "13"), "a segment has 1 to 12 layers in this model, not 13"),
    ],
)
def test_bad_input_is_one_sentence(samples, capsys, arguments, sentence):
    status, out, err = said(capsys, samples / "before.mstrata", *arguments)
    assert (status, out, err) == (2, "", f"memstrata: {sentence}\n")
