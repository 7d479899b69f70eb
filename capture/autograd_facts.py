"""What can be read off autograd's own objects."""

from __future__ import annotations

import functools
from typing import Any

import torch


def enclosed(function: Any, name: str) -> Any:
    """What a function's closure holds under a name; None if nothing."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    if name not in names:
        return None
    return function.__closure__[names.index(name)].cell_contents


def module_run_by(function: Any) -> Any:
    """The module whose whole forward a function is: itself, its `forward`, or a `partial` of that; None for others."""
    if isinstance(function, torch.nn.Module):
        return function
    owner = getattr(function, "__self__", None)
    if isinstance(function, functools.partial):
        function, owner = function.func, getattr(function.func, "__self__", None) or next(iter(function.args), None)
    named = getattr(function, "__name__", "") == "forward"
    return owner if named and isinstance(owner, torch.nn.Module) else None


def cast_of(node: Any) -> Any:
    """The parameter of which a node's output is a dtype copy, seen through views; else None."""
    for _ in range(3):
        if node is None or len(node.next_functions) != 1:
            return None
        below = node.next_functions[0][0]
        if node.name() == "ToCopyBackward0":
            return getattr(below, "variable", None)
        node = below
    return None


def modified_in_place(tensor: torch.Tensor, version: int, original: torch.Tensor | None) -> str:
    """The sentence of torch's `SavedVariable::unpack`."""
    node = original.grad_fn if original is not None else None
    output = f", which is output {original.output_nr} of {node.name()}," if original is not None and node else ""
    hint = (
        "Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable in "
        "question was changed in there or anywhere later. Good luck!"
        if torch.is_anomaly_enabled()
        else "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{tensor.type()} {list(tensor.shape)}]{output} is at version {tensor._version}; expected version "
        f"{version} instead. {hint}"
    )
