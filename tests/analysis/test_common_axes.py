"""The axes that two runs can share, and which of them is taken first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memstrata.viewer.analysis.common_axes import common_axes, first_axis
from memstrata.viewer.analysis.opened import run_of_file
from memstrata.viewer.model.axes import AXES
from memstrata.viewer.model.run import Run
from memstrata.viewer.model.sampling import peak_columns


@pytest.fixture(scope="module")
def before(samples: Path) -> Run:
    return run_of_file(str(samples / "before.mstrata"))


@pytest.fixture(scope="module")
def after(samples: Path) -> Run:
    return run_of_file(str(samples / "after.mstrata"))


def snapshot(folder: Path, name: str) -> Run:
    return run_of_file(str(folder / f"{name}.pickle"))


def test_two_recordings_have_all_axes_and_every_state_a_place(before: Run, after: Run) -> None:
    offered = common_axes(before, after)
    assert list(offered) == ["structure", "time", "events", "share"]
    assert first_axis(before, after) == "structure"
    for key, axis in offered.items():
        common = axis.make(before, after)
        for one, run in ((common.a, before), (common.b, after)):
            assert (np.diff(one.edges) > 0).all() and len(one.edges) == run.n_events + 2, key
            assert one.edges[-1] <= common.width * (1 + 1e-6)
            assert run.peak_position in peak_columns(run.curve, one, 0, common.width, 400).positions


def test_time_is_in_seconds_and_a_share_in_percent(before: Run, after: Run) -> None:
    offered = common_axes(before, after)
    time, share = offered["time"].make(before, after), offered["share"].make(before, after)
    assert time.a.unit == "s" and after.times is not None
    assert time.b.x_of(after.n_events) == pytest.approx(after.times[-1])
    assert share.a.unit == "%" and share.width == share.a.edges[-1] == share.b.edges[-1] == 100
    assert offered["events"].make(before, after).width == max(before.n_events, after.n_events) + 1


def test_a_run_is_laid_along_its_own_axis_which_is_made_once(before: Run, after: Run) -> None:
    offered = common_axes(before, after)
    for key in ("time", "events"):
        common = offered[key].make(before, after)
        assert common.a is before.once(AXES[key].make) and common.b is after.once(AXES[key].make)
    assert offered["share"].make(before, after).b is offered["share"].make(after, before).a


def test_snapshots_are_laid_along_time_or_along_their_shares(before: Run, snapshots: Path) -> None:
    grad, nograd = (snapshot(snapshots, f"torch24-linear-{name}") for name in ("grad", "nograd"))
    assert list(common_axes(grad, nograd)) == ["time", "events", "share"]
    assert first_axis(grad, nograd) == "time"
    assert first_axis(before, grad) == "share"  # 1.7 s and 48 ms


def test_states_without_a_history_have_no_axis(before: Run, snapshots: Path) -> None:
    state = snapshot(snapshots, "torch22-list-of-segments")
    assert common_axes(state, state) == {}
    assert list(common_axes(before, state)) == ["share"] and first_axis(before, state) == "share"
