"""What a dry run cannot answer, because its tensors have shapes and no values: said in one sentence, with the place."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch._subclasses import fake_tensor

REFUSALS: tuple[type[Exception], ...] = tuple(
    getattr(fake_tensor, name)
    for name in (
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "UnsupportedOperatorException",
        "UnsupportedFakeTensorException",
        "UnsupportedMutationAliasingException",
    )
    if hasattr(fake_tensor, name)
)

_WHY = {
    "DataDependentOutputException": "asks for a value (.item(), bool(tensor), .tolist() and the like)",
    "DynamicOutputShapeException": "makes a tensor whose shape depends on values",
}


@dataclass(frozen=True)
class Refusal:
    """torch refused `operation` while `module` ran (None outside modules)."""

    error: BaseException
    operation: str
    module: nn.Module | None

    def sentence(self, models: list[nn.Module]) -> str:
        """One sentence that names the operation and the module's path in one of these models."""
        name = self.operation.replace("::", ".")
        why = _WHY.get(type(self.error).__name__, "has no kernel in torch that works on shapes alone")
        return f"The dry run cannot go past {name} in {self._place(models)}: it {why}, and a dry run has no values."

    def _place(self, models: list[nn.Module]) -> str:
        if self.module is None:
            return "the step, outside of modules"
        return path_in(self.module, models) or f"a {type(self.module).__name__}"


def path_in(module: nn.Module, models: list[nn.Module]) -> str:
    """The path of a module in the first of these models that holds it; the class where it is the model itself."""
    for model in models:
        for path, held in model.named_modules():
            if held is module:
                return path or f"the {type(model).__name__} itself"
    return ""


def running_module() -> nn.Module | None:
    """The innermost module whose method is on the Python stack."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_argcount and code.co_varnames[0] == "self":
            owner = frame.f_locals.get("self")
            if isinstance(owner, nn.Module):
                return owner
        frame = frame.f_back
    return None
