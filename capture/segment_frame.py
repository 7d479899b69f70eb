"""One checkpoint around several module calls that are made one after the other, with torch's own checkpoint frame.

torch's `checkpoint(function)` needs the whole segment as one function. Here the calls come one at a time: the hooks of
the frame are in force inside each call and not between them, and the recomputation repeats the calls in order.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils.checkpoint as torch_checkpoint
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

Call = Callable[..., Any]
_FRAME = getattr(torch_checkpoint, "_CheckpointFrame", None)
_HOOK = getattr(torch_checkpoint, "_checkpoint_hook", None)


def frames_supported() -> bool:
    """Whether this torch has the two classes that its own non-reentrant checkpoint is made of (2.1 to 2.13 have)."""
    return _FRAME is not None and _HOOK is not None


@dataclass(frozen=True)
class _Made:
    """Stands for a tensor that an earlier call of the segment returned: (call, leaf)."""

    call: int
    leaf: int


@dataclass(frozen=True)
class _Kept:
    """Stands for a tensor from outside the segment: (keeper, place among what it keeps)."""

    keeper: int
    place: int


class _Keep(torch.autograd.Function):
    """Keeps tensors as autograd keeps saved ones: seen by saved-tensor hooks, guarded against changes in place."""

    @staticmethod
    def forward(ctx: Any, dummy: Tensor, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors)
        return torch.empty((0,))


@dataclass
class _Repeat:
    """One call to repeat: its leaves, with stand-ins for tensors."""

    call: Call
    leaves: list[Any]
    spec: Any
    random: _Random | None
    """Set before the call where random numbers were drawn since the call before it."""


class SegmentRun:
    """One pass through the segment. The object lives as long as the calls come; the graph keeps what it needs."""

    def __init__(self) -> None:
        self._repeats: list[_Repeat] = []
        self._keepers: list[Any] = []
        self._seen: dict[int, tuple[Any, _Made | _Kept]] = {}
        self._random = _Random()
        self._hook = _hook_of(_replay(self._repeats, self._keepers, self._random, _autocast_state()))
        self._after: _Random | None = None

    def call(self, function: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run `function(*args, **kwargs)` as the next part of the segment."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        now = _Random() if self._repeats else None
        drawn = now is not None and self._after is not None and not now.same(self._after)
        self._repeats.append(_Repeat(function, self._stand_ins(leaves), spec, now if drawn else None))
        with self._hook:
            output = function(*args, **kwargs)
        self._after = _Random()
        self._note_outputs(output)
        return output

    def _stand_ins(self, leaves: list[Any]) -> list[Any]:
        """The leaves with a stand-in for each tensor; those not seen before are kept from now on."""
        new: list[Tensor] = []
        out: list[Any] = []
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                out.append(leaf)
                continue
            known = self._seen.get(id(leaf))
            if known is None or known[0]() is not leaf:
                known = (weakref.ref(leaf), _Kept(len(self._keepers), len(new)))
                self._seen[id(leaf)] = known
                new.append(leaf)
            out.append(known[1])
        if new:
            self._keepers.append(_kept(new, detach=bool(self._repeats)))
        return out

    def _note_outputs(self, output: Any) -> None:
        number = len(self._repeats) - 1
        for place, leaf in enumerate(pytree.tree_leaves(output)):
            known = self._seen.get(id(leaf))
            if isinstance(leaf, Tensor) and (known is None or known[0]() is not leaf):
                self._seen[id(leaf)] = (weakref.ref(leaf), _Made(number, place))


def _kept(tensors: list[Tensor], detach: bool) -> Any:
    """A graph node that keeps these tensors. What comes in later may depend on the segment's own outputs: kept with
    its history it would hold the graph that holds it."""
    with torch.no_grad():
        given = [t.detach().requires_grad_(t.requires_grad) for t in tensors] if detach else tensors
    return _Keep.apply(torch.empty((0,), requires_grad=True), *given).grad_fn


def _hook_of(recompute: Call) -> Any:
    assert _FRAME is not None and _HOOK is not None
    early_stop = getattr(torch_checkpoint, "_enable_checkpoint_early_stop", True)
    extract = torch_checkpoint._allowed_determinism_checks_to_fns["default"]
    frame = _FRAME(recompute, True if early_stop is None else early_stop, None, extract)
    frame.forward_completed = True
    if not hasattr(frame, "save_inputs"):  # before torch 2.13: nothing is saved there, but the frame asks
        dummy = torch.empty((0,), requires_grad=True)
        frame.input_saver = torch_checkpoint._NoopSaveInputs.apply(dummy, {})
    return _HOOK(frame)


def _replay(repeats: list[_Repeat], keepers: list[Any], random: _Random, autocast: Call) -> Call:
    """The function that runs the calls again. It holds neither the run nor its outputs."""

    def again(*_: Any) -> None:
        kept = [keeper.saved_tensors for keeper in keepers]
        made: list[list[Any]] = []

        def tensor(leaf: Any) -> Any:
            if isinstance(leaf, _Made):
                return made[leaf.call][leaf.leaf]
            return kept[leaf.keeper][leaf.place] if isinstance(leaf, _Kept) else leaf

        with random.again(), autocast():
            for repeat in repeats:
                if repeat.random is not None:
                    repeat.random.set()
                args, kwargs = pytree.tree_unflatten([tensor(leaf) for leaf in repeat.leaves], repeat.spec)
                made.append(pytree.tree_leaves(repeat.call(*args, **kwargs)))

    return again


class _Random:
    """The state of the random number generators: of the CPU, and of CUDA devices in use."""

    def __init__(self) -> None:
        with _disable_current_modes():  # in a dry run, too, the states have values
            self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []

    def same(self, other: _Random) -> bool:
        """Whether nothing was drawn between the two."""
        pairs = zip([self.cpu, *self.cuda], [other.cpu, *other.cuda], strict=True)
        with _disable_current_modes():
            return all(torch.equal(a, b) for a, b in pairs)

    def set(self) -> None:
        """Draw from here on."""
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Inside, the same numbers are drawn again; afterwards the generators are where they were."""
        with torch.random.fork_rng(devices=range(len(self.cuda))):
            self.set()
            yield


def _autocast_state() -> Call:
    """Opens autocast as it is now, for every kind of device that is in use."""
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    cache = torch.is_autocast_cache_enabled()
    state = [(kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) for kind in kinds]

    @contextlib.contextmanager
    def opened() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for kind, dtype, enabled in state:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=cache))
            yield

    return opened
