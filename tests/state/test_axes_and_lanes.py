"""What lies where: axes that can be inverted, columns that lose no peak, lanes that sum to the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memstrata.capture.format.plan import Plan
from memstrata.capture.format.schema import Category, Phase
from memstrata.viewer.analysis.aligned import structure_of
from memstrata.viewer.look import ticks
from memstrata.viewer.model.axes import AXES, XAxis, available_axes
from memstrata.viewer.model.bands import MOST_DISTINCT, bands_of
from memstrata.viewer.model.run import Run
from memstrata.viewer.model.sampling import peak_columns
from memstrata.viewer.state.lanes import ACTIVATIONS, lanes_of
from memstrata.viewer.state.loading import open_run


@pytest.fixture(scope="module")
def run(samples: Path) -> Run:
    return open_run(str(samples / "after.mstrata"))


@pytest.mark.parametrize("key", AXES)
def test_every_position_is_found_again(run: Run, key: str) -> None:
    axis = available_axes(run)[key].make(run)
    assert (np.diff(axis.edges) > 0).all() and len(axis.edges) == run.n_events + 2
    positions = np.arange(run.n_events + 1)
    assert np.array_equal(axis.position_at(axis.x_of(positions)), positions)
    assert axis.fraction_at(float(axis.x_of(7.25))) == pytest.approx(7.25, abs=1e-3)


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.integers(0, 1000), min_size=1, max_size=60),
    gaps=st.lists(st.floats(1e-6, 5), min_size=61, max_size=61),
    cut=st.tuples(st.floats(0, 1), st.floats(0.01, 1)),
    width=st.integers(1, 90),
)
def test_no_column_loses_a_peak(values: list[int], gaps: list[float], cut: tuple[float, float], width: int) -> None:
    curve = np.array(values, np.int64)
    axis = XAxis("time", "", "s", np.concatenate(([0.0], np.cumsum(gaps[: len(values)]))))
    whole = float(axis.edges[-1])
    low = cut[0] * whole * 0.9
    high = min(low + cut[1] * whole, whole)
    columns = peak_columns(curve, axis, low, high, width)
    for left, right, position in zip(columns.x[:-1], columns.x[1:], columns.positions.tolist()):
        touched = (axis.edges[1:] > left) & (axis.edges[:-1] < right)
        assert curve[position] == curve[touched].max()


def test_lanes_sum_to_the_run_at_every_position(run: Run) -> None:
    for categories in (ACTIVATIONS, tuple(Category)):
        lanes = lanes_of(run, categories)
        positions = np.arange(0, run.n_events + 1, 97)
        outer = sum(lane.bytes_at(positions).sum(axis=0) for lane in lanes.outer)
        assert np.array_equal(outer, run.category_curve(*categories)[positions])
        for lane in lanes.outer:
            assert [lane.total_at(int(p)) for p in positions] == lane.bytes_at(positions).sum(axis=0).tolist()
            whole = np.array([0]), np.array([run.n_events])
            assert lane.total_at(int(lane.peaks(*whole)[0])) == lane.highest


def test_more_than_activations_is_not_compared_with_their_prediction(run: Run) -> None:
    activations, everything = lanes_of(run), lanes_of(run, tuple(Category))
    assert any(activations.predicted(lane) is not None for lane in activations.outer)
    assert all(everything.predicted(lane) is None for lane in everything.outer)


def test_predicted_lanes_sum_to_the_predicted_curve(run: Run) -> None:
    from memstrata.viewer.analysis.predicted_curve import at_every_position, predicted_curve

    lanes, whole = lanes_of(run), predicted_curve(run)
    assert whole is not None
    for parts in (lanes.outer, [lane for inner in lanes.inner for lane in inner]):
        parts = [*(lane for lane in parts if lane.layers), lanes.outer[-1]]  # the last one is outside layers
        curves = [curve for lane in parts if (curve := lanes.predicted(lane)) is not None]
        dense = sum(at_every_position(curve.positions, curve.bytes, run.n_events) for curve in curves)
        settled = np.setdiff1d(np.arange(run.n_events + 1), whole.positions)
        wanted = at_every_position(whole.positions, whole.bytes, run.n_events)
        assert np.array_equal(dense[settled], wanted[settled])


def test_a_lane_knows_when_its_layers_ran(run: Run) -> None:
    lanes = lanes_of(run)
    phases = [phase for phase, _, _ in lanes.phases(lanes.inner[0][0])]
    assert phases == [Phase.forward, Phase.recompute, Phase.backward]


def test_bands_of_groups_without_order_are_few_and_complete(snapshots: Path) -> None:
    run = open_run(str(snapshots / "torch26-train-mid-run.pickle"))
    bands = bands_of(run, "frame")
    rest, peak = bands.query(MOST_DISTINCT), run.peak_position
    assert len(bands) == MOST_DISTINCT + 1 and rest is not None
    assert replace(rest, position=peak).bytes(run) == bands.bytes_at(np.array([peak]))[MOST_DISTINCT, 0] > 0
    positions = np.arange(0, run.n_events + 1, 501)
    assert np.array_equal(bands.bytes_at(positions).sum(axis=0), run.curve[positions])
    for group in range(MOST_DISTINCT):
        query = bands.query(group)
        assert query is not None and bands.group_of(query) == group
        assert query.bytes(run) == int(run.allocations.bytes[bands.grouping.labels == group].sum())


def test_structure_gives_every_state_of_both_runs_a_place(samples: Path, run: Run) -> None:
    other = open_run(str(samples / "before.mstrata"))
    structure = structure_of(other, run)
    for axis, one in ((structure.a, other), (structure.b, run)):
        assert (np.diff(axis.edges) > 0).all() and len(axis.edges) == one.n_events + 2
        columns = peak_columns(one.curve, axis, 0, structure.width, 300)
        assert one.peak_position in columns.positions
    assert all(a.x1 == b.x0 for a, b in zip(structure.cells, structure.cells[1:]))


BYTE_TICKS = [
    (0, 1, "0"),
    (2048, 1024, "2 KiB"),
    (512 << 20, 256 << 20, "512 MiB"),
    (1000 << 20, 1 << 20, "0.977 GiB"),
    (3 << 29, 1 << 29, "1.5 GiB"),
    (80 << 30, 16 << 30, "80 GiB"),
]


@pytest.mark.parametrize(("value", "step", "text"), BYTE_TICKS)
def test_byte_ticks(value: int, step: int, text: str) -> None:
    assert ticks.byte_text(value, step) == text


def test_ticks_are_round_and_few() -> None:
    assert ticks.byte_step(9.8 * 2**30, 6) == 2 * 2**30
    assert ticks.round_step(1.85, 9) == pytest.approx(0.5)
    assert ticks.seconds_text(0.2, 0.2) == "0.2 s" and ticks.seconds_text(0.05, 0.01) == "50 ms"
    assert ticks.multiples(0.1, 1.05, 0.2) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_lanes_of_a_tried_plan_sum_to_its_predicted_curve(samples: Path) -> None:
    """A saw-tooth for each super-block: its boundary waits, then its layers are made again."""
    from memstrata.viewer.analysis.predicted_curve import at_every_position, predicted_curve

    run = open_run(str(samples / "before.mstrata"))
    plan = tuple(tuple(run.layers.names[i : i + 4]) for i in (0, 4, 8))
    lanes, whole = lanes_of(run), predicted_curve(run, plan=Plan(plan))
    assert whole is not None and lanes.tried(lanes.outer[0], None) is None
    curves = [curve for lane in lanes.outer if (curve := lanes.tried(lane, plan)) is not None]
    dense = [at_every_position(curve.positions, curve.bytes, run.n_events) for curve in curves]
    settled = np.setdiff1d(np.arange(run.n_events + 1), whole.positions)
    wanted = at_every_position(whole.positions, whole.bytes, run.n_events)
    assert np.array_equal(sum(dense)[settled], wanted[settled])  # type: ignore[index]
    boundary = 4 * 512 * 256 * 4
    forward = lanes.phases(lanes.outer[0])[3][2]  # the last layer of the first super-block has run
    assert dense[0][forward + 1] == boundary and dense[0].max() == curves[0].peak_bytes > 10 * boundary
    alone = lanes.tried(lanes.inner[0][1], plan)
    assert alone is not None and alone.bytes[alone.positions <= forward].max() == 0  # no boundary begins there
    everything = lanes_of(run, tuple(Category))
    assert all(everything.tried(lane, plan) is None for lane in everything.outer)
