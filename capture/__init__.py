"""memstrata's recorder: `record_step` and `Recorder`.

Names resolve lazily, so that `memstrata.capture.format` imports without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .allocation_sources.cuda import CudaSource as CudaSource
    from .checkpointing import AppliedPlan as AppliedPlan
    from .checkpointing import apply_plan as apply_plan
    from .dry_step import dry_run as dry_run
    from .errors import CaptureError as CaptureError
    from .plan_check import PlanCheck as PlanCheck
    from .plan_check import check_plan as check_plan
    from .recorder import Recorder as Recorder
    from .recorder import record_step as record_step

__all__ = [
    "AppliedPlan",
    "CaptureError",
    "CudaSource",
    "PlanCheck",
    "Recorder",
    "apply_plan",
    "check_plan",
    "dry_run",
    "record_step",
]

_HOMES = {
    "AppliedPlan": "checkpointing",
    "CaptureError": "errors",
    "CudaSource": "allocation_sources.cuda",
    "PlanCheck": "plan_check",
    "Recorder": "recorder",
    "apply_plan": "checkpointing",
    "check_plan": "plan_check",
    "dry_run": "dry_step",
    "record_step": "recorder",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
