"""JSON that every reader accepts: it has no word for what is no number."""

from __future__ import annotations

import json
import math
from typing import Any


def json_text(value: Any, indent: int = 2) -> str:
    """The value as JSON with a newline at its end; numbers that are infinite or not a number become null.

    A loss that has become NaN is a fact of many runs, and no reason to print nothing.
    """
    return json.dumps(_finite(value), indent=indent, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
