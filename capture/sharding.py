"""What FSDP makes of a model: shards that are the parameters, and gathered parameters that come and go.

FSDP gathers into storages that `parameters()` does not show and that are resized to nothing and back, so that one
storage is several allocations in a step. Its few methods that say so are wrapped while recording.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .format.schema import StorageKind
from .step_log import StepLog, guarded

_FSDP = "torch.distributed.fsdp._fully_shard."
_OLD_FSDP = "torch.distributed._composable.fsdp."
"""Where `fully_shard` lived before torch 2.6."""

COLLECTIVES = (f"{_FSDP}_fsdp_collectives", f"{_OLD_FSDP}_fsdp_collectives")
"""The module of FSDP's own functions around its collectives."""

_FRAMES = 12
"""How far above a collective FSDP's own function is looked for."""

Around = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What lies around a function: given the function, its replacement."""


class ShardingNotes:
    """Wrappers for FSDP's methods, and what they note."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False

    def wrappers(self) -> Iterator[tuple[Any, str, Around]]:
        """(owner, name, what lies around it) of what FSDP calls when memory comes and goes, where it is in use."""
        flat = sys.modules.get("torch.distributed.fsdp._flat_param")
        if flat is not None:
            yield flat.FlatParamHandle, "unshard", self._flattening
        for home in (_FSDP, _OLD_FSDP):
            for file, owner, name, around in (
                ("_fsdp_param", "FSDPParam", "to_unsharded", self._gathering),
                ("_fsdp_param", "FSDPParam", "to_sharded_post_forward", self._keeping),
                ("_fsdp_param_group", "FSDPParamGroup", "post_backward", self._reducing),
            ):
                module = sys.modules.get(home + file)
                if module is not None:
                    yield getattr(module, owner), name, around

    def _gathering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def to_unsharded(parameter: Any) -> Any:
            result = original(parameter)
            self._note_gathered(parameter)
            return result

        return to_unsharded

    def _flattening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unshard(handle: Any) -> Any:
            result = original(handle)
            self._note_flat(handle)
            return result

        return unshard

    def _keeping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def to_sharded_post_forward(parameter: Any) -> Any:
            result = original(parameter)
            self._note_kept_shard(parameter)
            return result

        return to_sharded_post_forward

    def _reducing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def post_backward(group: Any, *args: Any, **kwargs: Any) -> Any:
            self._note_full_gradients(group)
            return original(group, *args, **kwargs)

        return post_backward

    @guarded
    def _note_gathered(self, parameter: Any) -> None:
        _name_gathered(self.log, parameter)

    @guarded
    def _note_flat(self, handle: Any) -> None:
        flat = handle.flat_param
        name, module = self.log.owners.get(flat)
        inside = f"gathered {', '.join(getattr(flat, '_fqns', ())) or name}"
        for tensor in (getattr(flat, "_full_param_padded", None), getattr(flat, "_mp_shard", None)):
            if tensor is not None:
                self.log.storages.name(
                    StorageKind.communication, tensor, inside, module or handle._fully_sharded_module
                )

    @guarded
    def _note_kept_shard(self, parameter: Any) -> None:
        name, module = place_of(self.log, parameter)
        kept = parameter._sharded_post_forward_param_data
        self.log.storages.name(StorageKind.communication, kept, f"smaller shard of {name}", module)

    @guarded
    def _note_full_gradients(self, group: Any) -> None:
        for parameter in group.fsdp_params:
            full = getattr(parameter, "_unsharded_param", None)
            name, module = place_of(self.log, parameter)
            for gradient in (full.grad if full is not None else None, parameter.unsharded_accumulated_grad):
                if gradient is not None:
                    self.log.storages.name(StorageKind.gradient, gradient, f"full gradient of {name}", module)


def note_gathered(log: StepLog, model: torch.nn.Module) -> None:
    """Name what FSDP holds of a model: the shards, also while the modules hold the gathered parameters, and those."""
    for parameter in fsdp_parameters(model):
        name, holder = place_of(log, parameter)
        log.owners.also(parameter.sharded_param, name, holder)
        log.storages.name(StorageKind.parameter, parameter.sharded_param, name, holder)
        if parameter.sharded_state.name == "UNSHARDED":
            _name_gathered(log, parameter)


def fsdp_parameters(model: torch.nn.Module) -> Iterator[Any]:
    """FSDP's own objects for the parameters it shards."""
    for module in model.modules():
        get_state = getattr(module, "_get_fsdp_state", None)
        for group in _groups(get_state()) if get_state is not None else ():
            yield from group.fsdp_params


def _groups(state: Any) -> list[Any]:
    """The parameter groups of a module's FSDP state; before torch 2.11 there was one or none."""
    groups = getattr(state, "_fsdp_param_groups", None)
    one = getattr(state, "_fsdp_param_group", None)
    return list(groups) if groups is not None else [one] if one is not None else []


def _name_gathered(log: StepLog, parameter: Any) -> None:
    name, module = place_of(log, parameter)
    for tensor in (parameter._unsharded_param, *parameter.all_gather_outputs):
        log.storages.name(StorageKind.communication, tensor, f"gathered {name}", module)


def place_of(log: StepLog, parameter: Any) -> tuple[str, torch.nn.Module | None]:
    """(path, module) of an FSDP parameter; its own name for it is relative to the root it was sharded under."""
    for held in (parameter.sharded_param, getattr(parameter, "_unsharded_param", None)):
        name, module = log.owners.get(held) if held is not None else ("", None)
        if module is not None:
            return name, module
    return parameter._module_info.param_name, parameter._module_info.module


def moved_parameters() -> list[Any]:
    """The FSDP parameters that the collective running now moves: an argument of FSDP's function further up."""
    frame: Any = sys._getframe(1)
    for _ in range(_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_name in ("foreach_all_gather", "foreach_reduce"):
            found = frame.f_locals.get("fsdp_params")
            return list(found) if isinstance(found, (list, tuple)) else []
        frame = frame.f_back
    return []
