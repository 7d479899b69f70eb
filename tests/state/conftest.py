"""The two recordings that most of these tests look at; nothing in them is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from memstrata.viewer.model.run import Run
from memstrata.viewer.state.loading import open_run


@pytest.fixture(scope="module")
def before(samples: Path) -> Run:
    return open_run(str(samples / "before.mstrata"))


@pytest.fixture(scope="module")
def after(samples: Path) -> Run:
    return open_run(str(samples / "after.mstrata"))
