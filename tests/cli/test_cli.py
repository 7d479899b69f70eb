"""The command: what it prints, what it refuses, and that it needs neither a display nor Qt nor torch."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

from memstrata.viewer import cli
from memstrata.viewer.report.tables_csv import TABLES
from memstrata.viewer.saying import Patience

GIB = 1024**3
KEYS = [
    "residual_only_bytes",
    "per_layer_bytes",
    "total_bytes",
    "outside_layers_bytes",
    "boundary_bytes",
    "rematerialized_bytes",
    "checkpointed_peak_bytes",
    "ratio",
    "peak_bytes",
    "estimate",
    "not_counted",
    "assumptions",
    "terms",
]


def run(capsys, *arguments):
    status = cli.main(list(arguments))
    return status, *capsys.readouterr()


def refused(capsys, *arguments):
    """The one sentence on stderr."""
    try:
        status = cli.main(list(arguments))
    except SystemExit as stop:
        status = stop.code
    out, err = capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.startswith("memstrata: ")
    assert err.count("\n") == 1
    return err


def predicted(capsys, *arguments):
    status, out, _ = run(capsys, "predict", "--preset", "teaching", *arguments, "--json")
    assert status == 0
    return json.loads(out)


def test_predict_teaching_is_exact(capsys):
    got = predicted(capsys)
    assert list(got) == [
        *KEYS, "with_kernels", "budget", "microbatches_in_flight", "activations_by_stage", "alternatives",
    ]  # fmt: skip
    assert got["residual_only_bytes"] == 5 * GIB
    assert got["per_layer_bytes"] == 3 * GIB // 2
    assert got["total_bytes"] == 96 * GIB
    assert got["boundary_bytes"] == 5 * GIB // 4
    assert got["rematerialized_bytes"] == 6 * GIB
    assert got["checkpointed_peak_bytes"] == 29 * GIB // 4
    assert got["ratio"] == 96 / 7.25


def test_predict_with_other_tokens_and_segments(capsys):
    assert predicted(capsys, "--tokens", "262144")["total_bytes"] == 3072 * GIB
    assert predicted(capsys, "--segment-layers", "4") == predicted(capsys, "--tokens", "8192")
    got = predicted(capsys, "--segment-layers", "5")
    assert got["boundary_bytes"] == 13 * 8192 * 5120 * 2
    assert got["rematerialized_bytes"] == 5 * 3 * GIB // 2
    assert got["checkpointed_peak_bytes"] == got["boundary_bytes"] + got["rematerialized_bytes"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["predict", "--preset", "teaching", "--tokens", "0"], "at least one token, not 0"),
        (["predict", "--preset", "teaching", "--tokens", "-5"], "at least one token, not -5"),
        (["predict", "--preset", "teaching", "--tokens", "many"], "invalid int value: 'many'"),
        (["predict", "--preset", "teaching", "--segment-layers", "65"], "1 to 64 layers"),
        (["predict", "--preset", "teaching", "--segment-layers", "0"], "1 to 64 layers"),
        (["predict", "--preset", "none"], "no preset called 'none'; there is bert-base, gemma"),
        (["predict"], "--preset"),
        ([], "COMMAND"),
        (["weigh", "x"], "invalid choice"),
        (["report"], "FILE"),
        (["report", "no-such-file"], "no-such-file cannot be opened: no such file or directory"),
        (["report", "."], "a folder without any .mstrata recording"),
        (["diff", "no-such-file", "other"], "no-such-file"),
        (["view", "a", "b", "c"], "a cannot be opened"),
    ],
)
def test_errors_are_one_sentence(capsys, arguments, says):
    assert says in refused(capsys, *arguments)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02}", b"version https://git-lfs.github.com/spec/v1\n"])
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_files_that_are_no_recording(capsys, tmp_path, content, flags):
    path = tmp_path / "thing.mstrata"
    path.write_bytes(content)
    refused(capsys, "report", str(path), *flags)


def test_a_truncated_recording(capsys, tmp_path, samples):
    path = tmp_path / "half.mstrata"
    path.write_bytes((samples / "before.mstrata").read_bytes()[:20_000])
    assert "half.mstrata" in refused(capsys, "report", str(path))


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read(capsys, tmp_path):
    path = tmp_path / "closed.mstrata"
    path.write_bytes(b"x")
    path.chmod(0)
    assert "permission denied" in refused(capsys, "report", str(path))


def test_report_and_diff_print_text_by_default(capsys, samples):
    a, b = str(samples / "before.mstrata"), str(samples / "after.mstrata")
    assert run(capsys, "report", a)[1].startswith("before.mstrata: recording of HybridDecoder")
    assert "Peak 751 MiB to 358 MiB" in run(capsys, "diff", a, b)[1]
    assert "13.2x less" in run(capsys, "predict", "--preset", "teaching")[1]


def test_files_of_one_name_can_be_told_apart(capsys, samples, tmp_path):
    """In text, in the object and in the page, a file that is given twice too."""
    for folder, sample in (("a", "before"), ("b", "after")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.mstrata").write_bytes((samples / f"{sample}.mstrata").read_bytes())
    a, b = (str(tmp_path / folder / "run.mstrata") for folder in "ab")
    text = run(capsys, "diff", a, b)[1]
    assert text.startswith("A  a/run.mstrata: recording") and "\nB  b/run.mstrata: recording" in text
    table = run(capsys, "diff", a, b, a)[1].splitlines()
    assert [line.split("  ")[1] for line in table[2:5]] == [
        "a/run.mstrata", "b/run.mstrata", "a/run.mstrata (same file again)"]  # fmt: skip
    page = run(capsys, "diff", a, b, "--html")[1]
    assert "A: a/run.mstrata" in page and "B: b/run.mstrata" in page
    found = json.loads(run(capsys, "diff", a, b, "--json")[1])
    assert [found[side]["file"] for side in "ab"] == ["a/run.mstrata", "b/run.mstrata"]


def test_version_and_help(capsys):
    for arguments, says in ((["--version"], "memstrata "), (["--help"], "predict"), (["diff", "--help"], "--json")):
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        assert stop.value.code == 0
        assert says in capsys.readouterr().out


BLOCKED = textwrap.dedent("""
    import sys

    class Block:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in {blocked!r}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

    sys.meta_path.insert(0, Block())
    from memstrata.viewer.cli import main
    sys.exit(main({arguments!r}))
""")


def blocked(arguments, modules=("PySide6", "shiboken6", "pyqtgraph", "torch"), **environment):
    code = BLOCKED.format(blocked=set(modules), arguments=[str(a) for a in arguments])
    bare = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=bare | environment)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["predict", "--preset", "teaching"],
        ["report", "before.mstrata"],
        ["report", "before.mstrata", "--json"],
        ["diff", "before.mstrata", "after.mstrata"],
    ],
)
def test_all_but_the_window_works_without_qt_torch_and_display(samples, arguments):
    files = [str(samples / a) if a.endswith(".mstrata") else a for a in arguments]
    done = blocked(files)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_missing_extra_is_one_sentence(samples, tmp_path):
    done = blocked(["view", samples / "before.mstrata"])
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == [
        "memstrata: The window needs PySide6 and pyqtgraph: pip install 'memstrata[view]'"
    ]
    done = blocked(["demo", "-o", tmp_path])
    assert done.returncode == 2
    assert done.stderr.strip().splitlines() == ["memstrata: The demo needs torch: pip install 'memstrata[capture]'"]


def test_a_closed_pipe_is_no_error(samples):
    path = str(samples / "before.mstrata")
    code = f"import sys; from memstrata.viewer.cli import main; sys.exit(main(['report', {path!r}]))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), errors) == (0, b"")


def test_a_terminal_without_unicode(samples):
    done = blocked(["report", samples / "before.mstrata"], PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("libEGL.so.1: cannot open shared object file: No such file or directory", "apt-get install libegl1"),
        ("libodd.so.3: cannot open shared object file", "libodd.so.3"),
    ],
)
def test_a_missing_system_library_names_its_package(message, says):
    assert says in cli._missing_library(message)


@pytest.fixture
def recorded_demo(monkeypatch, samples):
    """The demo's recordings, taken from the samples instead of trained anew."""
    torch = pytest.importorskip("torch")
    assert torch
    from memstrata.capture import demo

    def copied(folder):
        os.makedirs(folder, exist_ok=True)
        return tuple(shutil.copy(samples / f"{n}.mstrata", folder) for n in ("before", "after"))

    monkeypatch.setattr(demo, "run", copied)


class FakeWindow:
    def __init__(self, why_not=""):
        self.shown, self.why_not = [], why_not

    def why_no_window(self):
        return self.why_not

    def run(self, paths):
        self.shown.append(paths)
        return 0


def test_the_demo_opens_a_window_where_there_is_a_display(capsys, monkeypatch, tmp_path, recorded_demo):
    window = FakeWindow()
    monkeypatch.setattr(cli, "_window", lambda: window)
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.delenv("QT_QPA_PLATFORM")
    assert cli.main(["demo", "-o", str(tmp_path)]) == 0
    assert window.shown == [[str(tmp_path / "before.mstrata"), str(tmp_path / "after.mstrata")]]


@pytest.mark.parametrize(
    ("wanted", "display", "there_may_be"),
    [("", ":7", True), ("offscreen", ":7", False), ("Minimal:x", ":7", False), ("xcb", "", True), ("", "", False)],
)
def test_where_there_may_be_a_display(monkeypatch, wanted, display, there_may_be):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("QT_QPA_PLATFORM", wanted)
    monkeypatch.setenv("DISPLAY", display)
    assert cli.has_display() == there_may_be


def test_the_demo_says_why_there_is_no_window(capsys, monkeypatch, tmp_path, recorded_demo):
    def missing():
        raise cli.UserError(cli.VIEW_EXTRA)

    monkeypatch.setenv("QT_QPA_PLATFORM", "xcb")
    monkeypatch.setattr(cli, "_window", missing)
    status, out, err = run(capsys, "demo", "-o", str(tmp_path))
    assert status == 0 and f"{cli.VIEW_EXTRA}: the comparison is in {tmp_path / 'comparison.txt'}" in out
    assert "no picture" in err


def test_the_demo_writes_the_comparison_where_there_is_no_display(capsys, monkeypatch, tmp_path, recorded_demo):
    pytest.importorskip("PySide6")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    status, out, err = run(capsys, "demo", "-o", str(tmp_path))
    assert (status, err) == (0, "")
    assert "Peak 751 MiB to 358 MiB" in (tmp_path / "comparison.txt").read_text(encoding="utf-8")
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    said = f"the comparison is in {tmp_path / 'comparison.txt'} and {tmp_path / 'comparison.png'}"
    assert said in out


def test_the_demo_without_qt_still_writes_the_text(capsys, monkeypatch, tmp_path, recorded_demo):
    def missing():
        raise cli.UserError(cli.VIEW_EXTRA)

    monkeypatch.setattr(cli, "_window", missing)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    status, _, err = run(capsys, "demo", "-o", str(tmp_path))
    assert status == 0
    assert "memstrata[view]" in err
    assert (tmp_path / "comparison.txt").exists()
    assert not (tmp_path / "comparison.png").exists()


def test_a_folder_that_cannot_be_written(capsys, monkeypatch, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "file").write_text("x")
    message = refused(capsys, "demo", "-o", str(tmp_path / "file" / "inside"))
    assert "inside" in message


def test_stdout_closed_or_full_is_one_sentence(samples, tmp_path):
    file = samples / "uniform.mstrata"
    for redirect, cause in ((">&-", "standard output is closed"), (">/dev/full", "no space left on device")):
        done = subprocess.run(
            f"exec '{sys.executable}' -m memstrata.viewer report '{file}' {redirect}",
            shell=True, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 2
        assert cause in done.stderr
        assert done.stderr.count("\n") == 1


def test_control_characters_of_a_name_do_not_reach_the_terminal(capsys):
    assert "\x1b" not in refused(capsys, "report", "none\x1b[31m.mstrata")


def test_predict_says_where_a_plan_gains_nothing(capsys):
    _, out, _ = run(capsys, "predict", "--preset", "teaching", "--tokens", "1", "--segment-layers", "64")
    assert "hidden 5120, 1 token\n" in out
    assert "no gain" in out
    assert "x less" not in out


def test_what_takes_long_says_once_what_it_is_busy_with(capsys, monkeypatch, snapshots, tmp_path):
    path = str(snapshots / "torch26-train-from-start.pickle")
    status, page, err = run(capsys, "report", path, "--html")
    assert (status, err) == (0, "")
    monkeypatch.setattr(Patience, "SECONDS", -1.0)
    status, again, err = run(capsys, "report", path, "--html")
    assert (status, again) == (0, page)
    name = "torch26-train-from-start.pickle"
    assert err == f"memstrata: replaying the allocator over all events of {name} for the page\n"
    _, _, err = run(capsys, "export", path, "-o", str(tmp_path / "x.csv"))
    assert err.splitlines()[0] == f"memstrata: still at work on {name}" and len(err.splitlines()) == 2


def test_help_names_every_table(capsys):
    with pytest.raises(SystemExit):
        cli.main(["export", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"the table of a CSV file: {', '.join([*TABLES][:2])}, " in said and all(name in said for name in TABLES)
