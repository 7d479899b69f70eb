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

from .autograd_facts import cast_of, enclosed, modified_in_place, module_run_by
from .format.schema import NONE, Fate, Phase, Severity, StorageKind
from .step_log import Interval, Saved, StepLog, Unpack, guarded, python_frames, thread_id
from .storages import shape_text

Hook = Callable[[Any], Any]
_AUTOGRAD = torch._C._autograd
_TOP = getattr(_AUTOGRAD, "_top_saved_tensors_default_hooks", None)
"""Not there before torch 2.8."""
_REPLACED = (
    "_push_saved_tensors_default_hooks",
    "_pop_saved_tensors_default_hooks",
    "_saved_tensors_hooks_disable",
    "_saved_tensors_hooks_enable",
)


_FATES = {"checkpoint": Fate.dropped, "recompute": Fate.rematerialized, "original": Fate.kept}
"""What a pair of hooks of each kind does with what it is given; users' hooks may do anything."""


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
    """A pair of hooks that is in force while recording, as its owner pushed it."""

    kind: str
    checkpoint: int
    depth: int
    pack: Hook
    unpack: Hook


class SavedTensorWatch:
    """Installs and removes itself around one recorded step."""

    def __init__(self, log: StepLog) -> None:
        self.log = log
        self.disarmed = False
        self._originals: dict[str, Any] = {}
        self._open: dict[int, list[_Pair]] = defaultdict(list)
        self._unpacking: dict[int, list[tuple[int, list[Interval]]]] = defaultdict(list)
        """By thread the unpacks that run, each with its checkpoint and the recomputes that it began."""
        self._checkpoints: weakref.WeakKeyDictionary[Hook, int] = weakref.WeakKeyDictionary()
        self._count = 0
        self._thread = NONE
        self._base: tuple[Hook, Hook] = (self._base_pack, _base_unpack(self))
        self._has_base = False
        self._threads: set[int] = set()
        """Other threads that have the bottom pair now."""
        self._stepped: set[int] = set()
        """Threads whose bottom pair stepped aside for a region that forbids hooks."""

    def install(self) -> None:
        """Start watching: the calling thread gets the bottom pair, and what was in force lies on it again."""
        self._thread = thread_id()
        self._originals = {name: getattr(_AUTOGRAD, name) for name in _REPLACED}
        self.log.watch_thread = self._watch_thread
        before = _taken_off()
        for name, replacement in zip(_REPLACED, (self._push, self._pop, self._disable, self._enable), strict=True):
            setattr(_AUTOGRAD, name, replacement)
        if before is None:
            text = "Saved-tensor hooks were in force before the recording: what is saved under them was not seen."
            self.log.problem("hooks_hidden", Severity.warning, text)
            return
        self._has_base = True
        if _AUTOGRAD._saved_tensors_hooks_get_disabled_error_message() is not None:
            self._stepped.add(self._thread)  # nothing may be forced; ours comes when they are enabled again
            self.log.problem("hooks_disabled", Severity.warning, "Saved-tensor hooks are disabled: none was seen.")
            return
        self._originals["_push_saved_tensors_default_hooks"](*self._base)
        if before:
            text = "A saved-tensor hook was already in force when the recording began; it stays in force."
            self.log.problem("hooks_before_recording", Severity.info, text)
        for pack, unpack in before:
            self._push(pack, unpack)

    def remove(self) -> None:
        """Put everything back, whatever happened; pairs that are still open stay, as their owners pushed them."""
        for name, original in self._originals.items():
            setattr(_AUTOGRAD, name, original)
        if self._originals and self._thread not in self._stepped:
            still_open = self._open[self._thread]
            for _ in range(len(still_open) + self._has_base):
                self._originals["_pop_saved_tensors_default_hooks"]()
            for pair in still_open:
                self._originals["_push_saved_tensors_default_hooks"](pair.pack, pair.unpack)
        self._originals, self._has_base = {}, False

    def _watch_thread(self, begins: bool) -> None:
        """Hooks belong to a thread: on another one the bottom pair is there while its outermost module runs.

        Only where no other pair is: it would lie beneath ours, and be called no more.
        """
        thread = thread_id()
        if begins and self._originals and not _some_on_this_thread():
            self._originals["_push_saved_tensors_default_hooks"](*self._base)
            self._threads.add(thread)
        elif not begins and thread in self._threads and self._base_is_on_top(thread):
            self._threads.discard(thread)
            self._originals_now("_pop_saved_tensors_default_hooks")()

    # The replacements of torch's four functions.

    def _push(self, pack: Hook, unpack: Hook) -> None:
        pair = self._describe(pack, unpack)
        self._originals_now("_push_saved_tensors_default_hooks")(*self._wrapped(pair))
        thread = thread_id()
        self._open[thread].append(pair)
        if pair.kind == "recompute":
            self.log.recomputing[thread] += 1
            self._note_recompute(thread)
        elif pair.kind == "checkpoint":
            self.log.checkpointing[thread].append((pair.checkpoint, pair.depth))

    def _pop(self) -> None:
        self._originals_now("_pop_saved_tensors_default_hooks")()
        thread = thread_id()
        kind = self._open[thread].pop().kind if self._open[thread] else ""
        if kind == "recompute":
            self.log.recomputing[thread] -= 1
        elif kind == "checkpoint":
            self._note_checkpoint_left(*self.log.checkpointing[thread].pop())

    def _disable(self, message: str, *args: Any, **kwargs: Any) -> None:
        """Regions that forbid hooks (torch.func) raise if one is there: ours steps aside."""
        thread = thread_id()
        steps = self._base_is_on_top(thread)
        if steps:
            self._originals_now("_pop_saved_tensors_default_hooks")()
        try:
            self._originals_now("_saved_tensors_hooks_disable")(message, *args, **kwargs)
        except BaseException:
            if steps:
                self._originals_now("_push_saved_tensors_default_hooks")(*self._base)
            raise
        if steps:
            self._stepped.add(thread)

    def _enable(self) -> None:
        self._originals_now("_saved_tensors_hooks_enable")()
        thread = thread_id()
        if thread in self._stepped:
            self._stepped.discard(thread)
            self._originals_now("_push_saved_tensors_default_hooks")(*self._base)

    def _base_is_on_top(self, thread: int) -> bool:
        if _TOP is None:
            has_base = (self._has_base and thread == self._thread) or thread in self._threads
            return has_base and thread not in self._stepped and not self._open[thread]
        top = _TOP(True)  # asked, not counted: threads of autograd's engine inherit the pairs of the calling thread
        return top is not None and top[0] is self._base[0]

    def _originals_now(self, name: str) -> Any:
        # A caller may have kept our replacement beyond the recording.
        return self._originals.get(name) or getattr(_AUTOGRAD, name)

    def _describe(self, pack: Hook, unpack: Hook) -> _Pair:
        name, home = getattr(pack, "__qualname__", ""), getattr(pack, "__module__", "")
        thread = thread_id()
        if home == "torch.utils.checkpoint" and name.startswith("_checkpoint_hook"):
            number = self._number_of(pack)
            hooked = self._note_hooked_module(number, pack)
            depth = NONE if hooked else len(self.log.open_modules.get(thread, ()))
            return _Pair("checkpoint", number, depth, pack, unpack)
        if home == "torch.utils.checkpoint" and name.startswith("_recomputation_hook"):
            unpacking = self._unpacking[thread]
            return _Pair("recompute", unpacking[-1][0] if unpacking else NONE, 0, pack, unpack)
        keeps_original = home == "torch.autograd.graph" and name.startswith("_swap_with_cloned")
        return _Pair("original" if keeps_original else "user", NONE, 0, pack, unpack)

    def _number_of(self, pack: Hook) -> int:
        """A checkpoint around several calls enters its one pair of hooks for each of them."""
        if pack not in self._checkpoints:
            self._checkpoints[pack] = self._count
            self._count += 1
        return self._checkpoints[pack]

    def _wrapped(self, pair: _Pair) -> tuple[Hook, Hook]:
        def wrapped_pack(tensor: torch.Tensor) -> _Box:
            try:
                packed = pair.pack(tensor)
            except BaseException as error:
                if type(error).__name__ == "_StopRecomputationError":
                    self._note_pack(tensor, Fate.rematerialized, pair.checkpoint)  # it was stored before the stop
                raise
            return _Box(packed, self._note_packed(tensor, packed, pair))

        def wrapped_unpack(box: _Box) -> Any:
            start, unpacking = time.time_ns(), self._unpacking[thread_id()]
            unpacking.append((pair.checkpoint, []))
            if self.log.device is not None and box.row is not None:
                self.log.device.unpacking(box.row.module, start)
            tensor = None
            try:
                tensor = pair.unpack(box.packed)
                return tensor
            finally:
                self._end_recomputes(unpacking.pop()[1])
                self._note_unpack(box, start, tensor)

        return wrapped_pack, wrapped_unpack

    def _base_pack(self, tensor: torch.Tensor) -> _Box:
        # Returning the argument itself would make a reference cycle for outputs saved by their own op.
        fate = Fate.rematerialized if self.log.phase_inside(thread_id()) == Phase.recompute else Fate.kept
        row = self._note_pack(tensor, fate, NONE)
        with torch._C.DisableTorchFunction():
            version = NONE if tensor.is_inference() else tensor._version
            return _Box(tensor.detach(), row, version, weakref.ref(tensor))

    @guarded
    def _note_recompute(self, thread: int) -> None:
        interval = Interval(Phase.recompute, time.time_ns())
        self.log.recomputations.append(interval)
        if self._unpacking[thread]:
            self._unpacking[thread][-1][1].append(interval)

    def _end_recomputes(self, begun: list[Interval]) -> None:
        """Not where the hook is popped: until the unpack is over, an early stop's exception holds what it left."""
        for interval in begun:
            interval.end = time.time_ns()

    @guarded
    def _note_packed(self, tensor: torch.Tensor, packed: Any, pair: _Pair) -> Saved | None:
        """A user's hook may keep a copy (another dtype, a mask and its values): then autograd holds that instead."""
        if pair.kind in _FATES:
            return self._note_pack(tensor, _FATES[pair.kind], pair.checkpoint)
        leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(packed) if isinstance(leaf, torch.Tensor)]
        here = [leaf for leaf in leaves if leaf.device == tensor.device]
        if not here:
            return self._note_pack(tensor, Fate.offloaded, NONE)
        own = {part.storage for part in self.log.storages.parts(tensor)}
        if any(part.storage in own for leaf in here for part in self.log.storages.parts(leaf)):
            return self._note_pack(tensor, Fate.kept, NONE)
        return next(iter([self._note_pack(leaf, Fate.kept, NONE) for leaf in here]))

    @guarded
    def _note_pack(self, tensor: torch.Tensor, fate: Fate, checkpoint: int) -> Saved:
        thread, now = thread_id(), time.time_ns()
        node, frames, first = tensor.grad_fn, python_frames(), None
        self._note_autocast_cache(tensor)
        for part in self.log.storages.parts(tensor):
            row = Saved(
                now, self.log.module(thread), self.log.phase_inside(thread), fate, checkpoint, part.storage,
                part.device, part.address, part.storage_bytes, part.tensor_bytes, shape_text(tensor),
                str(tensor.dtype).removeprefix("torch."), node.name() if node is not None else "", frames, thread,
            )  # fmt: skip
            self.log.saved.append(row)
            first = first or row
        assert first is not None
        return first

    @guarded
    def _note_checkpoint_left(self, number: int, depth: int) -> None:
        """A checkpoint that ran operations but no module will run part of the module around it again."""
        stack = self.log.open_modules.get(thread_id(), [])[:depth]
        if stack and number not in self.log.checkpoint_modules and stack[-1][1] == Phase.forward:
            self.log.checkpoint_modules[number] = [stack[-1][0]]

    @guarded
    def _note_hooked_module(self, number: int, pack: Hook) -> bool:
        """Whether it makes all of the module again that runs by then: the composable `checkpoint(module)` starts in a
        hook of it, and transformers' layers in their own forward."""
        stack = self.log.open_modules.get(thread_id(), [])
        function = enclosed(getattr(enclosed(pack, "frame"), "recompute_fn", None), "fn")
        hooked = bool(stack) and module_run_by(function) is stack[-1][0]
        if hooked:
            self.log.checkpoint_modules[number] = [stack[-1][0]]
        return hooked

    def _note_autocast_cache(self, tensor: torch.Tensor) -> None:
        """Under autocast the cast copy of a weight lives in a cache until autocast exits, whoever saved it."""
        if self.log.autocast and cast_of(tensor.grad_fn) is not None:
            self.log.storages.name(StorageKind.autocast_cache, tensor, "autocast copy of a weight")

    @guarded
    def _note_unpack(self, box: _Box, start: int, tensor: Any = None) -> None:
        if box.row is None:
            return
        if box.row.fate == Fate.offloaded and isinstance(tensor, torch.Tensor) and box.row.storage != NONE:
            # The hook gave autograd a key, and kept the very same memory itself.
            if box.row.storage in {part.storage for part in self.log.storages.parts(tensor)}:
                box.row.fate = Fate.kept
        if box.row.unpack_time == NONE:
            box.row.unpack_time = start
        end = time.time_ns()
        self.log.unpacks.append(Unpack(box.row.module, start, end))
        if self.log.device is not None:
            self.log.device.unpacking(box.row.module, start)
            self.log.device.unpacked(box.row.module, end)


def _taken_off() -> list[tuple[Hook, Hook]] | None:
    """The calling thread's pairs, outermost first, popped; None if there are some that torch (before 2.8) hides."""
    if _TOP is None:
        return None if _some_are_there() else []
    pairs = []
    while (top := _TOP(True)) is not None:
        _AUTOGRAD._pop_saved_tensors_default_hooks()
        pairs.append(top)
    return pairs[::-1]


def _some_on_this_thread() -> bool:
    """Whether pairs are in force, or forbidden, on the calling thread."""
    if _AUTOGRAD._saved_tensors_hooks_get_disabled_error_message() is not None:
        return True
    return _TOP(True) is not None if _TOP is not None else _some_are_there()


def _some_are_there() -> bool:
    if _AUTOGRAD._saved_tensors_hooks_get_disabled_error_message() is not None:
        return False
    try:
        _AUTOGRAD._saved_tensors_hooks_disable("asked by memstrata")
    except RuntimeError:  # torch refuses where a pair is in force, but disables all the same
        return True
    finally:
        _AUTOGRAD._saved_tensors_hooks_enable()
    return False


def _base_unpack(watch: SavedTensorWatch) -> Hook:
    def unpack(box: _Box) -> torch.Tensor:
        tensor: torch.Tensor = box.packed
        with torch._C.DisableTorchFunction():
            if box.version != NONE and tensor._version != box.version:
                raise RuntimeError(modified_in_place(tensor, box.version, box.original()))
        watch._note_unpack(box, time.time_ns())
        return tensor

    return unpack
