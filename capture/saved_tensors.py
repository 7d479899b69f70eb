"""Sees every tensor that autograd saves and asks for again, also inside checkpoint, save_on_cpu and users' hooks.

Only the innermost pair of saved-tensor hooks is ever called. So one pair of our own lies at the bottom, and the two
functions by which every other pair is pushed and popped are replaced while recording: what a user's hook does stays
exactly as it was, and its result travels through autograd inside a `_Box` that remembers the row.

With any pair installed autograd no longer notices that a saved tensor was modified in place; our own pair compares
versions and raises the error torch would have raised. It does not compare under users' hooks: torch does not either.
"""

from __future__ import annotations

import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .format.schema import NONE, Fate, Phase, Severity, StorageKind
from .step_log import Saved, StepLog, Unpack, guarded, python_frames, thread_id

Hook = Callable[[Any], Any]
_AUTOGRAD = torch._C._autograd
_REPLACED = (
    "_push_saved_tensors_default_hooks",
    "_pop_saved_tensors_default_hooks",
    "_saved_tensors_hooks_disable",
    "_saved_tensors_hooks_enable",
)


class _Box:
    """What autograd keeps in place of a hook's result. Outlives the recording if the graph does."""

    __slots__ = ("original", "packed", "row", "version")

    def __init__(self, packed: Any, row: Saved | None, version: int = NONE, original: Any = None) -> None:
        self.packed = packed
        self.row = row
        self.version = version
        self.original = original


@dataclass(slots=True)
class _Pair:
    """A pair of hooks that was pushed while recording."""

    kind: str
    checkpoint: int
    depth: int


class SavedTensorWatch:
    """Installs and removes itself around one recorded step."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self._originals: dict[str, Any] = {}
        self._open: dict[int, list[_Pair]] = defaultdict(list)
        self._unpacking: dict[int, list[int]] = defaultdict(list)
        self._checkpoints = 0
        self._thread = NONE
        self._aside = False

    def install(self) -> None:
        """Start watching: the calling thread gets the bottom pair."""
        self._thread = thread_id()
        self._originals = {name: getattr(_AUTOGRAD, name) for name in _REPLACED}
        replacements = (self._push, self._pop, self._disable, self._enable)
        for name, replacement in zip(_REPLACED, replacements, strict=True):
            setattr(_AUTOGRAD, name, replacement)
        under = _AUTOGRAD._top_saved_tensors_default_hooks(False)
        self._base: tuple[Hook, Hook] = (self._base_pack, _base_unpack(self))
        if under is not None:
            text = "A saved-tensor hook was already in force when the recording began; it stays in force."
            self.log.problem("hooks_before_recording", Severity.info, text)
            self._base = self._wrapped(under[0], under[1], _Pair("user", NONE, 0))
        try:
            self._originals[_REPLACED[0]](*self._base)
        except RuntimeError:  # hooks are disabled here: nothing can be seen, and nothing may be forced
            self._aside = True
            self.log.problem("hooks_disabled", Severity.warning, "Saved-tensor hooks are disabled: none was seen.")

    def remove(self) -> None:
        """Put everything back, whatever happened."""
        for name, original in self._originals.items():
            setattr(_AUTOGRAD, name, original)
        if self._originals and not self._aside:
            if self._open[self._thread]:
                text = "A saved-tensor hook entered during the step is still open after it."
                self.log.problem("hooks_left_open", Severity.warning, text)
            else:
                self._originals["_pop_saved_tensors_default_hooks"]()
        self._originals = {}

    # The replacements of torch's four functions.

    def _push(self, pack: Hook, unpack: Hook) -> None:
        pair = self._describe(pack)
        self._originals_now("_push_saved_tensors_default_hooks")(*self._wrapped(pack, unpack, pair))
        thread = thread_id()
        self._open[thread].append(pair)
        if pair.kind == "recompute":
            self.log.recomputing[thread] += 1

    def _pop(self) -> None:
        self._originals_now("_pop_saved_tensors_default_hooks")()
        thread = thread_id()
        if self._open[thread] and self._open[thread].pop().kind == "recompute":
            self.log.recomputing[thread] -= 1

    def _disable(self, message: str, *args: Any, **kwargs: Any) -> None:
        """Regions that forbid hooks (torch.func) raise if one is there: ours steps aside."""
        stepped = thread_id() == self._thread and not self._aside and not self._open[self._thread]
        if stepped:
            self._originals_now("_pop_saved_tensors_default_hooks")()
        try:
            self._originals_now("_saved_tensors_hooks_disable")(message, *args, **kwargs)
        except BaseException:
            if stepped:
                self._originals_now("_push_saved_tensors_default_hooks")(*self._base)
            raise
        self._aside = self._aside or stepped

    def _enable(self) -> None:
        self._originals_now("_saved_tensors_hooks_enable")()
        if self._aside and thread_id() == self._thread:
            self._originals_now("_push_saved_tensors_default_hooks")(*self._base)
            self._aside = False

    def _originals_now(self, name: str) -> Any:
        # A caller may have kept our replacement beyond the recording.
        return self._originals.get(name) or getattr(_AUTOGRAD, name)

    def _describe(self, pack: Hook) -> _Pair:
        name, home = getattr(pack, "__qualname__", ""), getattr(pack, "__module__", "")
        thread = thread_id()
        if home == "torch.utils.checkpoint" and name.startswith("_checkpoint_hook"):
            self._checkpoints += 1
            return _Pair("checkpoint", self._checkpoints - 1, len(self.log.open_modules.get(thread, ())))
        if home == "torch.utils.checkpoint" and name.startswith("_recomputation_hook"):
            unpacking = self._unpacking[thread]
            return _Pair("recompute", unpacking[-1] if unpacking else NONE, 0)
        return _Pair("user", NONE, 0)

    def _wrapped(self, pack: Hook, unpack: Hook, pair: _Pair) -> tuple[Hook, Hook]:
        def wrapped_pack(tensor: torch.Tensor) -> _Box:
            try:
                packed = pack(tensor)
            except BaseException as error:
                if type(error).__name__ == "_StopRecomputationError":
                    self._note_pack(tensor, Fate.rematerialized, pair)  # it was stored before the stop
                raise
            return _Box(packed, self._note_pack(tensor, _fate(tensor, packed, pair), pair))

        def wrapped_unpack(box: _Box) -> Any:
            start, unpacking = time.time_ns(), self._unpacking[thread_id()]
            unpacking.append(pair.checkpoint)
            try:
                return unpack(box.packed)
            finally:
                unpacking.pop()
                self._note_unpack(box, start)

        return wrapped_pack, wrapped_unpack

    def _base_pack(self, tensor: torch.Tensor) -> _Box:
        # Returning the argument itself would make a reference cycle for outputs saved by their own op.
        fate = Fate.rematerialized if self.log.phase_inside(thread_id()) == Phase.recompute else Fate.kept
        row = self._note_pack(tensor, fate, _Pair("base", NONE, 0))
        version = NONE if tensor.is_inference() else tensor._version
        return _Box(tensor.detach(), row, version, weakref.ref(tensor))

    @guarded
    def _note_pack(self, tensor: torch.Tensor, fate: Fate, pair: _Pair) -> Saved:
        thread, now = thread_id(), time.time_ns()
        node, frames, first = tensor.grad_fn, python_frames(), None
        self._note_checkpoint_module(pair, thread)
        self._note_autocast_cache(tensor)
        for part in self.log.storages.parts(tensor):
            row = Saved(
                now, self.log.module(thread), self.log.phase_inside(thread), fate, pair.checkpoint, part.storage,
                part.address, part.storage_bytes, part.tensor_bytes, ",".join(map(str, tensor.shape)),
                str(tensor.dtype).removeprefix("torch."), node.name() if node is not None else "", frames, thread,
            )  # fmt: skip
            self.log.saved.append(row)
            first = first or row
        assert first is not None
        return first

    def _note_checkpoint_module(self, pair: _Pair, thread: int) -> None:
        """The outermost module running under a checkpoint's hooks is one that will be recomputed."""
        stack = self.log.open_modules.get(thread, [])
        if pair.kind == "checkpoint":
            module = stack[min(pair.depth, len(stack) - 1)][0] if stack else None
            known = self.log.checkpoint_modules.setdefault(pair.checkpoint, [])
            if module is not None and not any(module is m for m in known):
                known.append(module)

    def _note_autocast_cache(self, tensor: torch.Tensor) -> None:
        """Under autocast the cast copy of a weight lives in a cache until autocast exits, whoever saved it."""
        if self.log.autocast and _cast_of(tensor.grad_fn) is not None:
            self.log.storages.name(StorageKind.autocast_cache, tensor, "autocast copy of a weight")

    @guarded
    def _note_unpack(self, box: _Box, start: int) -> None:
        if box.row is None:
            return
        if box.row.unpack_time == NONE:
            box.row.unpack_time = start
        self.log.unpacks.append(Unpack(box.row.module, start, time.time_ns()))


def _fate(tensor: torch.Tensor, packed: Any, pair: _Pair) -> Fate:
    if pair.kind == "recompute":
        return Fate.rematerialized
    if pair.kind == "checkpoint":
        return Fate.dropped
    held = [leaf for leaf in torch.utils._pytree.tree_leaves(packed) if isinstance(leaf, torch.Tensor)]
    return Fate.kept if any(leaf.device == tensor.device for leaf in held) else Fate.offloaded


def _cast_of(node: Any) -> Any:
    """The parameter of which a node's output is a dtype copy, seen through views; else None."""
    for _ in range(3):
        if node is None or len(node.next_functions) != 1:
            return None
        below = node.next_functions[0][0]
        if node.name() == "ToCopyBackward0":
            return getattr(below, "variable", None)
        node = below
    return None


def _base_unpack(watch: SavedTensorWatch) -> Hook:
    def unpack(box: _Box) -> torch.Tensor:
        tensor: torch.Tensor = box.packed
        if box.version != NONE and tensor._version != box.version:
            raise RuntimeError(_modified_in_place(tensor, box))
        watch._note_unpack(box, time.time_ns())
        return tensor

    return unpack


def _modified_in_place(tensor: torch.Tensor, box: _Box) -> str:
    """The sentence of torch's `SavedVariable::unpack`."""
    original = box.original()
    node = original.grad_fn if original is not None else None
    output = f", which is output {original.output_nr} of {node.name()}," if node is not None else ""
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
        f"{box.version} instead. {hint}"
    )
