"""`memstrata dry-run` as it is typed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memstrata.viewer.cli import main


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence of a command that must fail."""
    try:
        status = main(["dry-run", *arguments])
    except SystemExit as stop:
        status = int(str(stop.code))
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.count("\n") == 1 and "Traceback" not in err
    return err


def test_a_small_run_opens_like_any_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, cut = (str(tmp_path / f"{name}.mstrata") for name in ("plain", "cut"))
    size = ["--preset", "teaching", "--tokens", "512", "--layers", "8"]
    assert main(["dry-run", *size, "-o", plain]) == 0
    assert main(["dry-run", *size, "--segment-layers", "4", "--fused", "-o", cut]) == 0
    said = capsys.readouterr().err
    wrote = [line for line in said.splitlines() if line.startswith("memstrata: recorded ")]  # a slow machine says more
    assert len(wrote) == 2 and "plain.mstrata" in wrote[0] and "memstrata view" in wrote[0]
    assert main(["report", plain]) == 0
    text = capsys.readouterr().out
    assert "dry run of TeachingModel, kernels: cpu" in text and "super-block 1 (layers 4-7)" in text
    assert main(["diff", plain, cut]) == 0
    assert "Activations" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--preset", "teaching", "--tokens", "0"], "at least one token"),
        (["--preset", "teaching", "--batch", "0"], "at least one sequence"),
        (["--preset", "teaching", "--segment-layers", "65"], "1 to 64 layers"),
        (["--preset", "teaching", "--segment-layers", "0"], "1 to 64 layers"),
        (["--preset", "teaching", "--layers", "65"], "has 64 layers"),
        (["--preset", "no-such"], "there is hybrid and teaching"),
        (["--preset", "teaching", "-o", "/no/such/folder/a.mstrata"], "does not exist"),
        (["--hf-config", "/no/such/config.json"], "cannot be read"),
        ([], "--preset"),
    ],
)
def test_errors_are_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert says in refused(capsys, *arguments)


def test_a_config_that_is_no_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    for text, says in (("{", "is not JSON"), ("[]", "no JSON object"), ("{}", "'model_type'")):
        path.write_text(text)
        assert says in refused(capsys, "--hf-config", str(path))


@pytest.mark.skipif(importlib.util.find_spec("transformers") is not None, reason="transformers is here")
def test_without_transformers_the_command_that_installs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "pip install 'memstrata[hf]'" in refused(capsys, "--preset", "hybrid")


def test_interrupted(tmp_path: Path) -> None:
    """One sentence, status 2, and what ran until then is in the file."""
    code = (
        "import sys; from memstrata.capture import presets; from memstrata.viewer.cli import main\n"
        "def stop(model, hidden):\n    model(hidden); raise KeyboardInterrupt\n"
        "presets._summed = stop\n"
        f"sys.exit(main(['dry-run', '--preset', 'teaching', '--layers', '1', '-o', {str(tmp_path / 'a.mstrata')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "memstrata: interrupted"
    assert (tmp_path / "a.mstrata").exists()
