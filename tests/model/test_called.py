"""What files are called that are open together."""

from pathlib import Path

from memstrata.viewer.analysis.opened import held, run_of_file, runs_of_files
from memstrata.viewer.model.called import tell_apart


def placed(samples: Path, folder: Path, *places: str) -> list[str]:
    """Copies of a real recording under these names."""
    for place in places:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes((samples / "format-1.mstrata").read_bytes())
    return [str(folder / place) for place in places]


def test_files_of_one_name_have_their_folders_in_front(samples: Path, tmp_path: Path) -> None:
    paths = placed(samples, tmp_path, "a/run.mstrata", "b/run.mstrata", "c/other.mstrata")
    assert [run.name for run in runs_of_files(paths[:1] + paths[2:])] == ["run.mstrata", "other.mstrata"]
    assert [run.name for run in runs_of_files(paths)] == ["a/run.mstrata", "b/run.mstrata", "other.mstrata"]
    deep = placed(samples, tmp_path, "x/1/run.mstrata", "x/2/run.mstrata", "y/1/run.mstrata")
    assert [run.name for run in runs_of_files(deep)] == ["x/1/run.mstrata", "x/2/run.mstrata", "y/1/run.mstrata"]


def test_a_file_given_twice_is_told_as_such(samples: Path, tmp_path: Path, monkeypatch) -> None:
    paths = placed(samples, tmp_path, "a/run.mstrata", "b/run.mstrata")
    monkeypatch.chdir(tmp_path)
    runs = runs_of_files([*paths, "a/run.mstrata", "a/../a/run.mstrata"])
    assert [run.name for run in runs] == [
        "a/run.mstrata", "b/run.mstrata", "a/run.mstrata (same file again)",
        "a/run.mstrata (same file again, 3)"]  # fmt: skip
    assert [run.name for run in runs_of_files([paths[0]] * 2)] == ["run.mstrata", "run.mstrata (same file again)"]


def test_a_name_is_that_of_all_devices_and_goes_back(samples: Path, tmp_path: Path) -> None:
    a, b = (run_of_file(path) for path in placed(samples, tmp_path, "a/run.mstrata", "b/run.mstrata"))
    other = a.on(1)
    tell_apart([a, b])
    assert a.name == other.name == "a/run.mstrata"
    tell_apart([a])
    assert a.name == other.name == "run.mstrata"


def test_what_a_file_is_held_against_differs_in_name(samples: Path, tmp_path: Path) -> None:
    ((run, past),) = held(*placed(samples, tmp_path, "new/run.mstrata", "old/run.mstrata")).pairs
    assert past is not None and (run.name, past.name) == ("new/run.mstrata", "old/run.mstrata")
