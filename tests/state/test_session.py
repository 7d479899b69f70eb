"""One state, one way to change it, a way back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from memstrata.viewer.model.run import Run
from memstrata.viewer.state.loading import open_run
from memstrata.viewer.state.scope import Scope
from memstrata.viewer.state.session import Drag, Session
from memstrata.viewer.state.view_state import COMPARE, ViewState, closed, looking, opened


@pytest.fixture(scope="module")
def runs(samples: Path) -> tuple[Run, Run]:
    return open_run(str(samples / "before.mstrata")), open_run(str(samples / "after.mstrata"))


def both(runs: tuple[Run, Run]) -> ViewState:
    return opened(opened(ViewState(), runs[0], "category"), runs[1], "category")


def test_changed_carries_old_and_new_and_is_silent_for_equal_states(runs: tuple[Run, Run]) -> None:
    session, heard = Session(), []
    session.changed.connect(lambda old, new: heard.append((old, new)))
    state = opened(ViewState(), runs[0], "category")
    session.set(state)
    session.set(replace(state))
    assert heard == [(ViewState(), state)]


def test_a_run_opens_on_its_peak_with_its_largest_allocation(runs: tuple[Run, Run]) -> None:
    view = opened(ViewState(), runs[0], "category").views[0]
    assert view.cursor == runs[0].peak_position and view.axis == "time" and view.visible is None
    alive = runs[0].allocations.alive(view.cursor)
    assert runs[0].allocations.bytes[view.allocation] == runs[0].allocations.bytes[alive].max()


def test_two_runs_bring_the_comparison_to_the_front(runs: tuple[Run, Run]) -> None:
    state = both(runs)
    assert state.page == COMPARE and state.compared == runs and state.run is None
    one = closed(state, 0)
    assert one.runs == (runs[1],) and one.page == 0 and one.run is runs[1] and one.compared is None
    assert closed(one, 0) == ViewState()


def test_closing_keeps_the_page_in_front(runs: tuple[Run, Run]) -> None:
    state = replace(both(runs), page=1)
    assert closed(state, 0).run is runs[1]
    assert closed(state, 1).run is runs[0]


def test_changes_of_one_gesture_are_one_step_back(runs: tuple[Run, Run]) -> None:
    session = Session()
    session.set(opened(ViewState(), runs[0], "category"))
    start = session.state
    for cursor in range(5):
        session.look(0, ("keys",), cursor=cursor)
    session.look(0, grouping="layer")
    session.undo()
    assert session.view(0).cursor == 4 and session.view(0).grouping == "category"
    session.undo()
    assert session.state == start
    session.redo()
    assert session.view(0).cursor == 4
    session.look(0, cursor=9)
    assert not session.can_redo


def test_a_gesture_that_leads_back_is_no_step(runs: tuple[Run, Run]) -> None:
    session, drag = Session(), Drag()
    session.set(opened(ViewState(), runs[0], "category"))
    session.look(0, visible=(100.0, 200.0))
    start = session.state
    for low in (150.0, 130.0, 100.00001):
        session.look(0, drag, visible=(low, low + 100))
    assert session.state is start
    session.look(0, drag, visible=(170.0, 270.0))  # the button is still held
    session.undo()
    assert session.state is start
    session.look(0, visible=(100.0002, 200.0))
    session.look(0, visible=(100.0, 200.0))  # no gesture: two steps
    session.undo()
    assert session.view(0).visible == (100.0002, 200.0)
    session.undo()
    session.undo()
    assert session.view(0).visible is None


def test_no_step_leads_nowhere_where_states_between_were_forgotten(runs: tuple[Run, Run]) -> None:
    session = Session()
    for run in runs:
        session.set(opened(session.state, run, "category"))
        session.set(closed(session.state, 0))
    assert session.state == ViewState()
    session.undo()
    assert session.state.runs == (runs[1],)
    session.undo()
    assert session.state == ViewState() and not session.can_undo
    session.redo()
    session.set(both(runs))
    session.set(ViewState())  # both at once: only the second can come back, and was never open alone
    while session.can_undo:
        last = session.state
        session.undo()
        assert session.state != last


def test_only_the_run_closed_last_can_come_back(runs: tuple[Run, Run]) -> None:
    session = Session()
    session.set(both(runs))
    session.look(1, cursor=3)
    session.set(closed(session.state, 0))
    session.undo()
    assert session.state.runs == runs and session.view(1).cursor == 3
    session.redo()
    session.set(closed(session.state, 0))
    session.undo()
    assert session.state.runs == (runs[1],) and session.view(0).cursor == 3
    session.undo()
    assert session.state == ViewState() and not session.can_undo


def test_a_scope_hears_of_its_own_run_only_and_survives_others_closing(runs: tuple[Run, Run]) -> None:
    session = Session()
    session.set(both(runs))
    scope, heard = Scope(session, runs[1]), []
    scope.changed.connect(lambda old, new: heard.append(new.cursor))
    session.look(0, cursor=1)
    assert heard == []
    session.set(closed(session.state, 0))
    scope.look(cursor=10**9)
    assert heard == [runs[1].n_events] and session.view(0).cursor == runs[1].n_events
    session.set(ViewState())
    session.set(looking(opened(ViewState(), runs[1], "category"), 0, cursor=2))
    scope.release()
    session.look(0, cursor=3)
    assert len(heard) == 1
