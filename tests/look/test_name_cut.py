"""Names with too little room."""

import pytest

from memstrata.viewer.look.name_cut import cut_apart, middle_cut

LLAMA = [f"llama-3-8b-zero3-{n}ockpt-bs4-seq4096-seed1234-run1.mstrata" for n in "nt"]
GRID = [f"host{i}-llama-3-8b-zero3-run-{j}-2026-11-30.mstrata" for i in range(2) for j in range(3)]
FOLDERS = ["a/run.mstrata", "b/run.mstrata", "a/run.mstrata (same file again)"]


def test_the_middle_goes_and_a_third_of_what_stays_is_the_beginning():
    assert [middle_cut("abcdefghij", room) for room in (10, 9, 8, 5, 4, 1, 0)] == [
        "abcdefghij", "ab...ghij", "a...ghij", "...ij", "abcd", "a", ""]  # fmt: skip
    assert middle_cut("abcdefghij", 60, lambda text: 10 * len(text), "…") == "a…ghij"


@pytest.mark.parametrize("names", [LLAMA, GRID, FOLDERS])
@pytest.mark.parametrize("room", [12, 16, 20, 22, 30, 36, 50, 80])
def test_names_that_differ_still_do_when_they_are_cut(names, room):
    cut = cut_apart(names, room)
    assert len({*cut}) == len(names) and max(map(len, cut)) <= room
    assert [one == name for one, name in zip(cut, names)] == [len(name) <= room for name in names]


def test_the_word_that_differs_stays_whole():
    assert cut_apart(LLAMA, 25) == ["llama-3...nockpt...strata", "llama-3...tockpt...strata"]
    assert cut_apart([LLAMA[0], LLAMA[0]], 25) == [middle_cut(LLAMA[0], 25)] * 2
    assert cut_apart(["before.mstrata", "after.mstrata"], 20) == ["before.mstrata", "after.mstrata"]
