"""Tests in this folder need a CUDA device and are skipped where there is none."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for `gpu_steps`, whichever folder pytest takes for the root


@cache
def missing() -> str | None:
    """Why these tests cannot run here, or None if they can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return None if torch.cuda.is_available() else "no CUDA device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips the tests of this folder (the hook sees those of all folders)."""
    here = [item for item in items if item.path.is_relative_to(HERE)]
    reason = missing() if here else None
    if reason:
        for item in here:
            item.add_marker(pytest.mark.skip(reason=reason))
