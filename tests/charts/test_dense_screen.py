"""Charts on a screen with two device pixels to a pixel: sharp, in place, and with the right thing under the pointer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("factor", ["1", "2"])
def test_what_is_painted_is_sharp_and_is_what_the_pointer_finds(samples: Path, factor: str) -> None:
    script = Path(__file__).with_name("dense_screen.py")
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_SCALE_FACTOR": factor}
    command = [sys.executable, str(script), str(samples / "before.mstrata")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    for chart, found in said.items():
        assert found["ratio"] == float(factor), chart
        assert found["seen"] > 150, chart
        # by address what is less than a pixel is painted a pixel high, and may reach into its neighbour
        assert len(found["wrong"]) <= (found["seen"] // 100 if chart == "address" else 0), (chart, found["wrong"])
        assert found["fine"] > 1000, chart
