"""How file names in stacks are shortened."""

from __future__ import annotations

import pytest

from memstrata.capture.format.paths import short_path


@pytest.mark.parametrize("path, short", [
    ("/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", "torch/nn/modules/linear.py"),
    ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy/core.py"),
    ("/usr/lib/python3.11/threading.py", "threading.py"),
    ("/opt/lib/python3.13t/threading.py", "threading.py"),
    (r"C:\Users\a\venv\Lib\site-packages\torch\optim\adam.py", "torch/optim/adam.py"),
    (r"C:\Python311\Lib\threading.py", "threading.py"),
    (r"D:\work\train.py", "D:/work/train.py"),
    ("/home/a/project/train.py", "train.py"),
    ("/home/a/project2/train.py", "/home/a/project2/train.py"),
    ("<string>", "<string>"),
    ("??", "??"),
])  # fmt: skip
def test_short_path(path: str, short: str) -> None:
    assert short_path(path, "/home/a/project") == short
