"""`memstrata record`: a script runs as it would by itself, and a step of it is recorded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from memstrata.capture import CaptureError
from memstrata.capture.format import files
from memstrata.capture.script import Request, ScriptError, record
from memstrata.viewer.cli import main

from .recordings import codes

pytestmark = pytest.mark.qt_no_exception_capture  # a script that raises calls sys.excepthook, as Python would

TRAIN = """
    import os, sys
    said = [sys.argv, __name__, sys.path[0], __file__, os.path.basename(sys.modules["__main__"].__file__)]
    import beside
    import torch
    steps, end = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(2)])
    optimizer = torch.optim.AdamW(model.parameters())

    def fail(*_):
        if end == "exit inside":
            sys.exit(3)
        raise ValueError("boom")

    def train(rows):
        optimizer.zero_grad()
        model(torch.ones(rows, 8)).square().sum().backward()
        optimizer.step()

    for number in range(steps):
        train(4 + number)
    if end.endswith("inside"):
        model[1].register_forward_hook(fail)
        train(4)
    if end == "raise":
        raise ValueError("boom")
    if end == "exit":
        sys.exit(7)
    if end == "memory":
        train(99) if steps > 50 else torch.empty(1 << 60, dtype=torch.uint8)
    beside.found.append(said)
"""


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Path]:
    """A training script in a folder with a module beside it; what running it changes of this process is put back."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "beside.py").write_text("found = []\n")
    (folder / "train.py").write_text(textwrap.dedent(TRAIN))
    argv, path, main_module, cwd = list(sys.argv), list(sys.path), sys.modules["__main__"], os.getcwd()
    os.chdir(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield folder / "train.py"
    torch.set_num_threads(threads)
    os.chdir(cwd)
    sys.argv[:], sys.path[:], sys.modules["__main__"] = argv, path, main_module
    sys.modules.pop("beside", None)


def test_the_fourth_step_of_a_script_is_recorded(script: Path, tmp_path: Path) -> None:
    assert main(["record", "-o", "a.mstrata", "code/train.py", "9", "--lr", "3"]) == 0
    recording = files.read(tmp_path / "a.mstrata")
    steps = recording.steps
    assert steps.index[steps.recorded].tolist() == [3]
    assert steps.index.tolist() == [0, 1, 2, 3, 4, 5, 6]  # three before and three after it
    assert steps.tokens.tolist() == [-1, -1, 6, 7, 8, 9, 10]
    said = sys.modules["beside"].found[0]
    assert said == [["code/train.py", "9", "--lr", "3"], "__main__", str(script.parent), str(script), "train.py"]


def test_several_steps_from_one_on(script: Path, tmp_path: Path) -> None:
    assert main(["record", "--step", "1", "--steps", "2", "-o", "a.mstrata", "code/train.py", "4"]) == 0
    steps = files.read(tmp_path / "a.mstrata").steps
    assert steps.index[steps.recorded].tolist() == [1, 2]


def test_a_package_runs_as_a_module(script: Path, tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "beside.py").write_text("found = []\n")
    source = script.read_text().replace("import beside", "from . import beside")
    (package / "__main__.py").write_text(source)
    assert main(["record", "--step", "0", "-o", "a.mstrata", "-m", "pkg", "3", "-x"]) == 0
    assert files.read(tmp_path / "a.mstrata").steps.index.tolist() == [0, 1, 2]
    arguments, name, first, file, _ = sys.modules["pkg.beside"].found[0]
    assert (arguments, name, first) == ([str(package / "__main__.py"), "3", "-x"], "__main__", str(tmp_path))
    assert file == str(package / "__main__.py")


@pytest.mark.parametrize("arguments, status, words", [
    (["2"], 2, "only 2 steps ran: nothing was recorded; use --step 1."),
    (["1"], 2, "only 1 step ran: nothing was recorded; use --step 0."),
    (["0"], 2, "no optimizer stepped, so there was no step: nothing was recorded."),
    (["2", "raise"], 1, "only 2 steps ran before it raised ValueError: nothing was recorded; use --step 1."),
    (["3", "raise"], 1, "only 3 steps ran before it raised ValueError: nothing was recorded; use --step 2."),
    (["2", "inside"], 1, "step 2 raised ValueError before step 3 began: nothing was recorded; use --step 2."),
    (["0", "inside"], 1, "step 0 raised ValueError before step 3 began: nothing was recorded; use --step 0."),
    (["0", "raise"], 1, "no optimizer stepped before it raised ValueError, so there was no step: nothing was"
                        " recorded."),
])  # fmt: skip
def test_what_was_too_short_is_said_in_one_sentence(
    script: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], status: int, words: str
) -> None:
    assert main(["record", "-o", "a.mstrata", "code/train.py", *arguments]) == status
    err = capfd.readouterr().err
    assert [line for line in err.splitlines() if line.startswith("memstrata: ")] == [f"memstrata: {words}"]
    assert not (tmp_path / "a.mstrata").exists()
    said = re.search("--step [0-9]+", err)
    if said is not None:  # what it says to use does record that step
        assert main(["record", *said[0].split(), "-o", "a.mstrata", "code/train.py", *arguments]) == status % 2
        recording = files.read(tmp_path / "a.mstrata")
        assert ("step_raised" in codes(recording)) == ("inside" in arguments)


def test_a_script_that_exits_in_the_middle_of_a_step_has_ended(
    script: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["record", "-o", "a.mstrata", "code/train.py", "2", "exit inside"])
    assert left.value.code == 3
    assert capfd.readouterr().err == "memstrata: only 2 steps ran: nothing was recorded; use --step 1.\n"


def test_the_script_s_own_end_is_kept(script: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["record", "-o", "a.mstrata", "code/train.py", "5", "exit"])
    assert left.value.code == 7 and (tmp_path / "a.mstrata").exists()
    assert main(["record", "-o", "b.mstrata", "code/train.py", "5", "raise"]) == 1
    err = capfd.readouterr().err
    trace = err[err.index("Traceback") :]
    assert trace.startswith(f'Traceback (most recent call last):\n  File "{script}", line') and "boom" in trace
    assert "memstrata" not in trace.replace(str(tmp_path), "") and (tmp_path / "b.mstrata").exists()


def test_armed_over_a_script(script: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--on", "oom", "--keep", "1", "-o", "a.mstrata", "code/train.py", "5"]) == 0
    assert "armed for an out-of-memory error over 5 steps: nothing was written" in capfd.readouterr().err
    assert main(["record", "--on", "oom", "--keep", "1", "-o", "a.mstrata", "code/train.py", "5", "memory"]) == 1
    recording = files.read(tmp_path / "a.mstrata")
    assert recording.meta.trigger == "oom" and recording.steps.index.tolist() == [4, 5]
    assert "can't allocate memory" in capfd.readouterr().err


@pytest.mark.parametrize("arguments, words", [
    (["no.py"], "no.py cannot be opened: no such file or directory."),
    (["-m", "no_such_module"], "There is no module no_such_module that can be run."),
    (["-m", "no.such.module"], "There is no module no.such.module that can be run."),
    ([], "record needs a script, or -m and a module"),
    (["--step", "-1", "code/train.py"], "--step cannot be -1."),
    (["--on", "oom", "--steps", "2", "code/train.py"], "--on and --steps exclude each other"),
    (["--on", "peak", "--step", "3", "code/train.py"], "--on and --step exclude each other"),
    (["--keep", "2", "code/train.py"], "needs --on."),
    (["--keep", "0", "--step", "1", "code/train.py"], "needs --on."),
    (["--on", "oom", "--keep", "-1", "code/train.py"], "--keep cannot be -1."),
    (["-o", "/no/such/folder/a.mstrata", "code/train.py"], "does not exist"),
    (["broken.py"], "is not a Python program: "),
])  # fmt: skip
def test_what_cannot_be_started_is_said_before_anything_runs(
    script: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "broken.py").write_text("for in:\n")
    assert main(["record", *arguments]) == 2
    err = capfd.readouterr().err
    assert words in err and err.count("\n") == 1 and "beside" not in sys.modules


def test_misuse_from_python(tmp_path: Path) -> None:
    with pytest.raises(CaptureError):
        record(Request(str(tmp_path)), "x.py", [], is_module=False)
    with pytest.raises(ScriptError):
        record(Request(str(tmp_path / "a.mstrata"), steps=0), "x.py", [], is_module=False)


def test_torch_is_imported_by_the_script_and_not_before(script: Path, tmp_path: Path) -> None:
    """In a process of its own: what a script sets before it imports torch must count."""
    lines = script.read_text().replace(
        "import torch\n",
        "assert 'torch' not in sys.modules\nimport torch\nassert torch.__loader__ is torch.__spec__.loader\n",
        1,
    )
    script.write_text(lines + "\nprint(type(torch.__loader__).__name__)\n")
    command = [sys.executable, "-c", "from memstrata.viewer.cli import main; import sys; sys.exit(main())"]
    done = subprocess.run(
        [*command, "record", "--step", "1", "-o", "a.mstrata", "code/train.py", "5"], capture_output=True, text=True,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "SourceFileLoader\n"), done.stderr
    assert files.read(tmp_path / "a.mstrata").steps.index.tolist() == [0, 1, 2, 3, 4]
    (tmp_path / "plain.py").write_text("print('hello')\n")
    done = subprocess.run([*command, "record", "plain.py"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (2, "hello\n")
    assert done.stderr == "memstrata: the script never imported torch: nothing was recorded.\n"
