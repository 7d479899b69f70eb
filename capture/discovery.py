"""Finds model and optimizers by watching one unrecorded call, so that the recording knows them from its start."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim import optimizer as torch_optimizer


@dataclass(frozen=True)
class Found:
    """Weak references: looking must not keep a model alive. `given` if the user named the model."""

    model: Callable[[], nn.Module | None] = lambda: None
    optimizer_refs: tuple[Callable[[], Optimizer | None], ...] = ()
    given: bool = False

    @classmethod
    def of(cls, model: nn.Module | None, optimizer: Optimizer | None) -> Found:
        """What the user named."""
        refs = () if optimizer is None else (weakref.ref(optimizer),)
        return cls(weakref.ref(model) if model is not None else lambda: None, refs, model is not None)

    def optimizers(self) -> list[Optimizer]:
        """The optimizers still alive."""
        return [o for o in (ref() for ref in self.optimizer_refs) if o is not None]

    def or_else(self, other: Found) -> Found:
        """This, with what it lacks taken from `other`."""
        model = self.model if self.model() is not None else other.model
        return Found(model, self.optimizer_refs or other.optimizer_refs, self.given)


class Discovery:
    """Global hooks around one call that note modules and optimizers and nothing else."""

    def __init__(self) -> None:
        self._modules: dict[int, nn.Module] = {}
        self._optimizers: dict[int, Optimizer] = {}
        self._handles: list[Any] = []

    def __enter__(self) -> Discovery:
        self._handles = [
            nn_module.register_module_forward_pre_hook(self._note_module),
            torch_optimizer.register_optimizer_step_pre_hook(self._note_optimizer),
        ]
        return self

    def __exit__(self, *_: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _note_module(self, module: nn.Module, args: Any) -> None:
        if not torch.compiler.is_compiling():
            self._modules.setdefault(id(module), module)

    def _note_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._optimizers[id(optimizer)] = optimizer

    @property
    def saw_module(self) -> bool:
        """Whether a module has been called."""
        return bool(self._modules)

    def found(self) -> Found:
        """The outermost module whose parameters the optimizers hold, and the optimizers.

        Nothing where a module cannot be looked at: the call is training's, and must not fail for it.
        """
        try:
            return self._found()
        except Exception:
            return Found()

    def _found(self) -> Found:
        inner = {id(child) for m in self._modules.values() for child in m.modules() if child is not m}
        roots = [m for key, m in self._modules.items() if key not in inner]
        self._modules = {}
        model = choose_root(roots, list(self._optimizers.values()))
        refs = tuple(weakref.ref(o) for o in self._optimizers.values())
        self._optimizers = {}
        return Found(weakref.ref(model) if model is not None else lambda: None, refs)


def choose_root(roots: list[nn.Module], optimizers: list[Optimizer]) -> nn.Module | None:
    """The root that holds most of the optimizers' parameters; without optimizers the one with most parameters.

    A step may call the blocks of a model one by one and never the model itself: then no root holds everything, and
    the model is the module, among all that exist, that does.
    """
    held = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    best = max(roots, key=lambda root: _rank(root, held), default=None)
    if best is None or not held or len(roots) == 1 or _holds(best, held) == len(held):
        return best
    return _holder_of_all(held, roots) or best


def optimizers_of(model: nn.Module) -> list[Optimizer]:
    """The optimizers, among all that exist, that hold a parameter of this model, whether they stepped or not."""
    held = {id(p) for p in model.parameters()}
    alive = [o for o in gc.get_objects() if issubclass(type(o), Optimizer) and "param_groups" in vars(o)]
    return [o for o in alive if any(id(p) in held for group in o.param_groups for p in group["params"])]


def _rank(root: nn.Module, held: set[int]) -> tuple[int, int]:
    return _holds(root, held), sum(p.numel() for p in root.parameters() if p.requires_grad and not is_lazy(p))


def _holds(module: nn.Module, held: set[int]) -> int:
    return sum(id(p) in held for p in module.parameters())


def _holder_of_all(held: set[int], roots: list[nn.Module]) -> nn.Module | None:
    """The smallest module that holds all these parameters and contains one of the roots."""
    modules = [o for o in gc.get_objects() if issubclass(type(o), nn.Module) and "_parameters" in vars(o)]
    holders = [m for m in modules if _holds(m, held) == len(held) and any(r is c for c in m.modules() for r in roots)]
    return min(holders, key=lambda m: sum(1 for _ in m.modules()), default=None)
