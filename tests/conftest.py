"""What all tests share: the project's folders, real snapshot files where they are at hand, and Qt without a screen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

# before anything imports Qt: a test run never opens a window on the screen of the person who started it; the tests of
# a real screen start one of their own and name it here
os.environ["QT_QPA_PLATFORM"] = os.environ.get("MEMSTRATA_TEST_PLATFORM", "offscreen")
# how much scratch memory a matrix product or a convolution takes on the CPU depends on the instructions that it has,
# with AMX several times as much: the bytes that are asserted are those of the ones that every x86 processor has
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")

ROOT = Path(__file__).resolve().parents[1]
SNAPSHOTS = ROOT.parent / "shared" / "snapshots"


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Small tensors gain nothing from several."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def root() -> Path:
    """The project folder, the one with pyproject.toml."""
    return ROOT


@pytest.fixture(scope="session")
def samples() -> Path:
    """The folder of recordings that come with the project."""
    return ROOT / "samples"


@pytest.fixture(scope="session")
def with_findings(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with two findings of 15 MiB: the sample whose step raised, told as a step that came to its end."""
    from memstrata.capture.format import files

    raised = files.read(samples / "raised.mstrata")
    ends = np.where(raised.steps.recorded, int(raised.events.time[-1]), raised.steps.end_time)
    problems = tuple(problem for problem in raised.meta.problems if problem.code != "step_raised")
    path = tmp_path_factory.mktemp("findings") / "findings.mstrata"
    files.write(
        replace(raised, steps=replace(raised.steps, end_time=ends), meta=replace(raised.meta, problems=problems)), path
    )
    return path


@pytest.fixture(scope="session")
def snapshots() -> Path:
    """The folder of real snapshot files, which is not part of the project: the test is skipped where it is absent."""
    if not SNAPSHOTS.is_dir():
        pytest.skip("no folder of snapshot files beside the project")
    return SNAPSHOTS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument `snapshot_file` runs once for each real snapshot file."""
    if "snapshot_file" in metafunc.fixturenames:
        files = sorted(SNAPSHOTS.glob("*.pickle"))
        none = pytest.param(None, marks=pytest.mark.skip(reason="no folder of snapshot files beside the project"))
        metafunc.parametrize("snapshot_file", files or [none], ids=[f.stem for f in files] or ["absent"])
