"""Bands: as many groups as can be told apart, and the rest as one, which can be asked for like the others."""

from __future__ import annotations

from dataclasses import replace

from memstrata.viewer.model.bands import MOST_DISTINCT, bands_of
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run

from .recordings import MALLOC, Step

MANY = MOST_DISTINCT + 4


def many_frames() -> Run:
    """A line of code for each allocation: 1 to 14 KiB, all alive at the end."""
    step = Step()
    for number in range(MANY):
        frames = step.frames(MALLOC, (f"f{number}", "/home/user/train.py", number))
        step.alloc(0x1000 * (number + 1), (number + 1) << 10, number + 1, stack=frames)
    return step.run()


def test_each_band_asks_for_what_it_shows_and_is_found_again() -> None:
    run = many_frames()
    bands = bands_of(run, "frame")
    assert len(bands) == MOST_DISTINCT + 1 and bands.grouping.names[-1] == "other (4)"
    queries = [bands.query(group) for group in range(len(bands))]
    held = bands.bytes_at([run.peak_position])[:, 0].tolist()
    assert [replace(query, position=run.peak_position).bytes(run) for query in queries] == held
    assert [bands.group_of(query) for query in queries] == list(range(len(bands)))
    assert held[-1] == (1 + 2 + 3 + 4) << 10 and queries[-1].select(run).tolist() == [3, 2, 1, 0]


def test_other_questions_are_of_no_band() -> None:
    run = many_frames()
    bands, other = bands_of(run, "frame"), bands_of(run, "frame").query(MOST_DISTINCT)
    assert other.groups is not None
    unnamed = min(other.groups[1])
    asked = (None, AllocationQuery(), AllocationQuery(group=("frame", unnamed)), AllocationQuery(group=("op", 5)),
             replace(other, groups=("frame", frozenset({unnamed}))))  # fmt: skip
    assert [bands.group_of(query) for query in asked] == [None] * len(asked)
    assert bands_of(run, "category").group_of(other) is None
