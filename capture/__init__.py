"""memstrata's recorder: `record_step` and `Recorder`.

Names resolve lazily, so that `memstrata.capture.format` imports without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import CaptureError as CaptureError
    from .recorder import Recorder as Recorder
    from .recorder import record_step as record_step

__all__ = ["CaptureError", "Recorder", "record_step"]

_HOMES = {"CaptureError": "errors", "Recorder": "recorder", "record_step": "recorder"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
