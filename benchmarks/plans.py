"""Predict plans from one recording each, apply them, record again, and compare.

For every model and plan: the peak of activations (kept plus rematerialised) and of the whole step as predicted from
the recording without checkpoints and as measured with the plan applied, on the CPU. Gradients with and without the
plan are compared bit by bit. Exit status 1 where a model of the four breaks 3% (activations) or 5% (whole step).

--time adds how much longer an unrecorded step takes, predicted and measured, as shares of the step. --selective keeps
the outputs of matmul and attention operators, and runs the printed code instead of `apply_plan`; activations are then
those and what the checkpoints' caches hold. --teaching does dry runs of the teaching model instead, all 64 layers in
segments of 1, 2, 4 and 8; they have to be met within 1%.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import process_time

import torch
from plan_models import PLANS, SEED, TUNED, UNTUNED, Case, ranges_of
from torch import Tensor

from memstrata.capture import Recorder, apply_plan
from memstrata.capture.format.schema import Category
from memstrata.capture.presets import Sizes, job
from memstrata.viewer.analysis.operators import KINDS, parse_keep
from memstrata.viewer.analysis.plan_code import torch_code
from memstrata.viewer.analysis.planner import Outcome, Planner
from memstrata.viewer.arguments import Parser, script_parser
from memstrata.viewer.model.curves import live_bytes
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

ACTIVATIONS_WITHIN, WHOLE_STEP_WITHIN, TEACHING_WITHIN = 0.03, 0.05, 0.01
TIMED_STEPS = 5


@dataclass(frozen=True)
class Row:
    """One model under one plan; bytes, seconds, and relative errors of the predictions."""

    model: str
    plan: str
    activations_predicted: int
    activations_measured: int
    peak_predicted: int
    peak_measured: int
    gradients_equal: bool
    extra_share_predicted: float
    """Of the step; NaN where it was not timed."""
    extra_share_measured: float

    @property
    def activations_error(self) -> float:
        """Predicted / measured - 1."""
        return self.activations_predicted / self.activations_measured - 1

    @property
    def peak_error(self) -> float:
        """Predicted / measured - 1."""
        return self.peak_predicted / self.peak_measured - 1


class Training:
    """One model with its optimizer, from the fixed seed; each step sees the same random numbers."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(SEED)
        self.case, self.model = case, case.build()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.0)  # parameters stay, so steps compare

    def step(self) -> None:
        """One step."""
        torch.manual_seed(SEED + 1)
        self.optimizer.zero_grad()
        self.case.loss(self.model).backward()
        self.optimizer.step()

    def recorded(self, path: Path) -> Run:
        """The second step, recorded: the first one makes the optimizer's state."""
        self.step()
        with contextlib.redirect_stderr(io.StringIO()), Recorder(path, model=self.model, optimizer=self.optimizer):
            self.step()
        return Run(open_file(str(path)), name=path.name)

    def gradients(self) -> list[Tensor]:
        """Of the last step."""
        return [p.grad.clone() for p in self.model.parameters() if p.grad is not None]

    def seconds(self) -> float:
        """Of one unrecorded step, in time of this process: other work on the machine counts little."""
        start = process_time()
        self.step()
        return process_time() - start


def rows_of(
    case: Case, folder: Path, plans: tuple[str, ...] = PLANS, timed: bool = True, keep: str = ""
) -> Iterator[Row]:
    """The rows of one model."""
    plain = Training(case)
    run = plain.recorded(folder / "plain.mstrata")
    planner = Planner(run)
    if keep:
        words = [word for word in keep.split(",") if set(KINDS[word]) & set(planner.operators.names)]
        planner = planner.keeping(parse_keep(",".join(words), planner.operators))
    expected = plain.gradients()
    for name in plans:
        ranges = ranges_of(name, len(planner.run.layers))
        outcome = planner.outcome(ranges)
        training = Training(case)
        with applied(training, planner, outcome):
            after = training.recorded(folder / "plan.mstrata")
            equal = _equal(expected, training.gradients())
            measured = _longer(plain, training) if timed else math.nan
        predicted = (outcome.extra_seconds or math.nan) / (run.recording.meta.step_seconds_recorded or math.nan)
        yield Row(
            case.name, name, outcome.activation_peak_bytes + outcome.cached_bytes, _activations(after),
            outcome.peak_bytes, after.peak_bytes, equal, predicted if timed else math.nan, measured,
        )  # fmt: skip


def teaching_rows(folder: Path, layers: int = 64) -> Iterator[Row]:
    """Dry runs of the teaching model; nothing is computed in them, so no gradients to compare."""
    plain = folder / "plain.mstrata"
    with contextlib.redirect_stderr(io.StringIO()):
        job("teaching", None, Sizes(layers=layers)).run(plain)
    planner = Planner(Run(open_file(str(plain))))
    for length in (1, 2, 4, 8):
        outcome, path = planner.outcome(planner.every(length)), folder / "plan.mstrata"
        with contextlib.redirect_stderr(io.StringIO()):
            job("teaching", None, Sizes(layers=layers, segment_layers=length)).run(path)
        run = Run(open_file(str(path)))
        yield Row(
            "teaching, dry run", str(length), outcome.activation_peak_bytes, _activations(run), outcome.peak_bytes,
            run.peak_bytes, True, math.nan, math.nan,
        )  # fmt: skip


@contextlib.contextmanager
def applied(training: Training, planner: Planner, outcome: Outcome) -> Iterator[None]:
    """The plan in force: by `apply_plan`, or, where operators are kept, by the code that is printed."""
    if not planner.keep:
        with apply_plan(training.model, outcome.plan):
            yield
        return
    names = {"model": training.model}
    exec(compile(torch_code(planner, outcome.ranges), "plan", "exec"), names)  # our own output, not a file's
    training.model = names["model"]
    yield


def _activations(run: Run) -> int:
    """At most; with what the caches of selective checkpoints hold at their own highest moment."""
    cached = run.attribution.category == Category.selective_cache
    return int(run.activation_curve.max()) + int(live_bytes(run.allocations, run.n_events, cached).max())


def _longer(plain: Training, planned: Training) -> float:
    """How much longer a step with the plan takes, as a share: medians of steps run in turn."""
    times: list[tuple[float, float]] = [(plain.seconds(), planned.seconds()) for _ in range(TIMED_STEPS)]
    before, after = (median(each) for each in zip(*times, strict=True))
    return after / before - 1


def _equal(one: list[Tensor], two: list[Tensor]) -> bool:
    return len(one) == len(two) and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def table(rows: list[Row]) -> str:
    """A Markdown table in MiB."""
    head = "| model | segments of | activations predicted | measured | error | step predicted | measured | error |"
    timed = any(not math.isnan(row.extra_share_measured) for row in rows)
    more = " more time predicted | measured |" if timed else ""
    lines = [head + more, "|" + "---|" * (10 if timed else 8)]
    for r in rows:
        sizes = [r.activations_predicted, r.activations_measured, r.peak_predicted, r.peak_measured]
        a, b, c, d = (f"{size / 2**20:.2f}" for size in sizes)
        more = f" {r.extra_share_predicted:+.1%} | {r.extra_share_measured:+.1%} |" if timed else ""
        lines.append(
            f"| {r.model} | {r.plan} | {a} | {b} | {r.activations_error:+.2%} | {c} | {d} | {r.peak_error:+.2%} |"
            + more
        )
    return "\n".join(lines)


def _is_met(row: Row) -> bool:
    """Whether a row keeps the limits that hold for its model; models nobody tuned on have none."""
    limits = {case.name: (ACTIVATIONS_WITHIN, WHOLE_STEP_WITHIN) for case in TUNED}
    limits["teaching, dry run"] = (TEACHING_WITHIN, TEACHING_WITHIN)
    activations, whole = limits.get(row.model, (math.inf, math.inf))
    return abs(row.activations_error) <= activations and abs(row.peak_error) <= whole


def _parser() -> Parser:
    parser = script_parser(__doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON list with exact figures")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--teaching", action="store_true", help="dry runs of the teaching model instead")
    which.add_argument("--selective", action="store_true", help="keep outputs of operators, run the printed code")
    parser.add_argument("--time", action="store_true", help="how much longer a step takes, too")
    return parser


def main() -> int:
    """Print the table; 1 where the four models miss."""
    asked = _parser().parse_args()
    torch.set_num_threads(1)  # times compare even where other work shares the machine
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        if asked.teaching:
            rows += teaching_rows(Path(folder))
        else:
            timed, keep = asked.time, "matmul,attention" if asked.selective else ""
            for case in (case for case in (*TUNED, *UNTUNED) if case.has_matmul or not keep):
                rows += rows_of(case, Path(folder), timed=timed, keep=keep)
    if asked.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(table(rows))
    missed = [row for row in rows if not _is_met(row)]
    different = [row for row in rows if not row.gradients_equal]
    for row in (*missed, *different):
        print(f"missed: {row}", file=sys.stderr)
    return int(bool(missed or different))


if __name__ == "__main__":
    sys.exit(main())
