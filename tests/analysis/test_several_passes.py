"""What is said of a step, or of what it keeps, where a recording has several steps or a step several micro-batches."""

import csv
import json

import numpy as np
import pytest

from memstrata.capture.format.schema import NONE, Fate, Phase
from memstrata.viewer.analysis.findings import findings
from memstrata.viewer.analysis.headline import headline
from memstrata.viewer.analysis.plan_search import Search
from memstrata.viewer.analysis.planner import CHECKPOINT_SECONDS, Planner
from memstrata.viewer.cli import main
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.plan_text import Asked, plans
from memstrata.viewer.report.tables_csv import table_csv
from memstrata.viewer.sources import open_file

from .test_planner import all_ranges

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

WIDTH, ROWS, LAYERS = 64, 256, 4
TENSOR = WIDTH * ROWS * 4
"""Bytes of one tensor of a hidden state."""


class Block(nn.Module):
    """Keeps its input, and what its Linear and its GELU put out."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(x))).relu()


class Net(nn.Module):
    def __init__(self, checkpointed=False, twice=False):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.checkpointed, self.twice = checkpointed, twice

    def forward(self, x):
        for layer in [*self.layers] * (2 if self.twice else 1):
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointed else layer(x)
        return x


def record(path, steps=1, batches=1, model=None, calls=3):
    """So many steps of so many micro-batches of `ROWS`, after a first one that was not recorded."""
    from memstrata.capture import record_step

    torch.manual_seed(0)
    model = model or Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    @record_step(path, model=model, optimizer=optimizer, steps=steps, warmup=1)
    def step(rows):
        for _ in range(batches):
            model(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(1 + steps + calls):
        step(torch.randn(ROWS, WIDTH))
    return path


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """One step, three steps, one step of four micro-batches, two of three."""
    folder = tmp_path_factory.mktemp("passes")
    return {
        "one": record(folder / "one.mstrata"),
        "steps": record(folder / "steps.mstrata", steps=3),
        "batches": record(folder / "batches.mstrata", batches=4),
        "both": record(folder / "both.mstrata", steps=2, batches=3),
    }


@pytest.fixture(scope="module")
def runs(paths):
    return {name: Run(open_file(str(path)), name=path.name) for name, path in paths.items()}


SEVERAL = ("steps", "batches", "both")


def test_passes_are_steps_and_micro_batches(runs):
    assert [len(runs[name].passes) for name in ("one", *SEVERAL)] == [1, 3, 4, 6]
    assert runs["both"].passes.step.tolist() == [0, 0, 0, 1, 1, 1]
    assert runs["one"].passes.text == "" and "recorded step" not in runs["batches"].passes.text
    assert runs["steps"].passes.text.endswith("of 3, which has the peak")
    for run in runs.values():  # no backward of a pass reaches into the next one
        edges = run.passes.start
        forward = (run.spans.phase == Phase.forward) & (run.spans.module == 0)
        assert np.searchsorted(edges, run.spans.start_position[forward], side="right").tolist() == [
            *range(1, len(edges) + 1)
        ]
        begin, end = run.passes.window
        assert begin < run.peak_position <= (run.n_events if end is None else end)


@pytest.mark.parametrize("name", SEVERAL)
def test_saved_bytes_are_those_that_are_kept_at_once(runs, name):
    one, run = runs["one"], runs[name]
    # a block keeps the Linear's output for GELU, GELU's for the second Linear, and ReLU's output, which is the next
    # one's input; the first one's input is the step's
    assert one.saved_bytes_by_layer() == {**dict.fromkeys(range(LAYERS), 3 * TENSOR), NONE: 0}
    assert run.saved_bytes_by_layer() == one.saved_bytes_by_layer()
    assert run.saved_bytes_by_fate() == one.saved_bytes_by_fate()
    assert run.saved_bytes_by_fate()[Fate.kept] == LAYERS * 3 * TENSOR
    rows = csv.DictReader(table_csv(run, "layers").splitlines())
    assert [row["saved_bytes"] for row in rows] == [str(3 * TENSOR)] * LAYERS


def test_what_checkpoints_dropped_is_that_of_one_pass(tmp_path):
    one, several = (
        Run(open_file(str(record(tmp_path / f"{steps}{batches}.mstrata", steps, batches, Net(checkpointed=True)))))
        for steps, batches in ((1, 1), (2, 2))
    )
    fates = one.saved_bytes_by_fate()
    assert fates[Fate.dropped] == 2 * LAYERS * TENSOR  # what ReLU puts out is kept by what comes after the segment
    assert fates[Fate.rematerialized] == 3 * LAYERS * TENSOR
    assert several.saved_bytes_by_fate() == fates
    assert headline(several)[2].text == headline(one)[2].text
    assert [finding.code for finding in findings(several)] == [finding.code for finding in findings(one)]


@pytest.mark.parametrize("name", ("one", *SEVERAL))
def test_time_is_that_of_one_step(runs, name):
    run, batches = runs[name], {"batches": 4, "both": 3}.get(name, 1)
    planner = Planner(run)
    outcome = planner.outcome(planner.every(1))
    assert outcome.checkpoints == outcome.layers_again == LAYERS * batches
    assert outcome.at_most_seconds == pytest.approx(outcome.extra_seconds + LAYERS * batches * CHECKPOINT_SECONDS)
    steps = run.recording.steps
    row = np.flatnonzero(steps.recorded)[run.passes.step[run.passes.peak]]
    runs_of_layers = planner.facts.runs
    inside = (runs_of_layers.start_time >= steps.start_time[row]) & (runs_of_layers.stop_time <= steps.end_time[row])
    assert inside.sum() == LAYERS * batches
    forward = int((runs_of_layers.stop_time - runs_of_layers.start_time)[inside].sum()) / 1e9
    assert 0 < outcome.extra_seconds <= forward * planner.time_scale
    seconds = float(steps.end_time[row] - steps.start_time[row]) / 1e9
    assert planner.time_scale == pytest.approx(run.recording.meta.step_seconds_unrecorded / seconds, rel=1e-3)


@pytest.mark.parametrize("name", ("one", *SEVERAL))
def test_what_keeping_operators_costs_is_that_of_one_pass(runs, name):
    (choice,) = Planner(runs[name]).choices
    assert (choice.operator, choice.outputs, choice.bytes) == ("addmm", 2 * LAYERS, 2 * LAYERS * TENSOR)


@pytest.mark.parametrize("name", SEVERAL)
def test_the_best_plans_are_found(runs, name):
    planner = Planner(runs[name])
    everything = [planner.outcome(ranges) for ranges in all_ranges(LAYERS)]
    search = Search(planner)
    assert search.lowest().peak_bytes == min(outcome.peak_bytes for outcome in everything) < runs[name].peak_bytes
    for budget in sorted({outcome.peak_bytes for outcome in everything}):
        found = search.best(budget)
        fastest = min(outcome.extra_seconds for outcome in everything if outcome.peak_bytes <= budget)
        assert found.peak_bytes <= budget and found.extra_seconds == pytest.approx(fastest)
    assert len(plans(runs[name], Asked()).others) > 1


@pytest.mark.parametrize("name", SEVERAL)
def test_the_commands_say_which_pass_it_is(paths, runs, name, capsys):
    assert main(["report", str(paths[name])]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.count(f"saved in {runs[name].passes.text}") == 2
    assert main(["report", "--json", str(paths[name])]) == 0
    passes, said = runs[name].passes, json.loads(capsys.readouterr().out)["saved_in"]
    steps, batches = {"steps": (3, 1), "batches": (1, 4), "both": (2, 3)}[name]
    assert said == {
        "recorded_step": int(passes.step[passes.peak]), "recorded_steps": steps,
        "pass": passes.peak % batches, "passes": batches,
    }  # fmt: skip
    assert main(["plan", str(paths[name]), "--segment-layers", "1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"Outputs and bytes are those of {passes.text}" in text
    assert (f"times are those of all {batches} passes of the step" in text) == (batches > 1)


def test_a_plan_is_judged_by_steps_that_came_to_their_end(runs, tmp_path):
    """The third step keeps what it has until it raises, which no plan is known to change."""
    from memstrata.capture import Recorder

    model, path = Net(), tmp_path / "raised.mstrata"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def forward_and_backward(raises=False):
        loss = model(torch.randn(ROWS, WIDTH)).square().mean()
        if raises:
            raise ValueError
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    forward_and_backward()
    with pytest.raises(ValueError), Recorder(path, model=model, optimizer=optimizer, steps=3):
        for number in range(3):
            forward_and_backward(raises=number == 2)
    raised = Planner(Run(open_file(str(path))))
    assert raised.run.recording.steps.end_time[-1] == NONE and len(raised.run.passes) == 3
    whole = Planner(runs["steps"])
    for length in (1, 2, LAYERS):
        outcome, wanted = (planner.outcome(planner.every(length)) for planner in (raised, whole))
        assert outcome.peak_bytes - wanted.peak_bytes == raised.run.peak_bytes - whole.run.peak_bytes
        assert outcome.activation_peak_bytes == wanted.activation_peak_bytes
        assert outcome.peak_position <= raised.until < raised.run.n_events
    assert "for the part" not in headline(raised.run)[2].text


def test_one_pass_is_not_spoken_of(paths, capsys):
    assert main(["report", str(paths["one"])]) == 0
    assert main(["plan", str(paths["one"]), "--segment-layers", "1"]) == 0
    assert "which has the peak" not in capsys.readouterr().out


def test_layers_that_run_twice_in_one_forward_are_told_what_to_do(tmp_path, capsys):
    path = record(tmp_path / "twice.mstrata", steps=2, model=Net(twice=True))
    assert Run(open_file(str(path))).saved_bytes_by_fate()[Fate.kept] == 2 * LAYERS * 3 * TENSOR
    assert main(["plan", str(path)]) == 2
    said = "Some layers ran more than once in one forward, so the best plans cannot be found: choose a segment length"
    assert said + " with --segment-layers." in capsys.readouterr().err
    assert main(["plan", str(path), "--segment-layers", "1"]) == 0
