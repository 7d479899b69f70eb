"""What the frames of a stack say about the phase of a training step that it belongs to.

Python frames keep their order in a stack, but where C++ frames are recorded too, Python frames may stand further out
than they ran. So it is the innermost Python frame that says something which decides; C++ frames only say that the
engine of autograd is in the stack at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, NONE, U8, Phase

from . import stacks

UNKNOWN = len(Phase)
"""A stack that says nothing of its phase."""

_TORCH = r"(?:^|[/\\])torch(?:_npu)?[/\\]"
_OPTIMIZER_FILE = re.compile(_TORCH + r"optim[/\\](?!lr_scheduler|swa_utils)\w+\.py$")
_NO_STEP = frozenset({"zero_grad", "__init__", "add_param_group", "state_dict", "load_state_dict", "__setstate__"})
_CHECKPOINT_FILE = re.compile(
    _TORCH + r"utils[/\\]checkpoint\.py$|activation_checkpointing[/\\]checkpointing\.py$|checkpoint_activations\.py$"
)
_RECOMPUTE = frozenset({"recompute_fn", "unpack_hook", "unpack", "backward"})
_AUTOGRAD_FILE = re.compile(_TORCH + r"(?:autograd[/\\](?:__init__|graph)|_tensor)\.py$")
_BACKWARD = frozenset({"backward", "grad", "_make_grads", "_engine_run_backward"})
_FUNCTION_FILE = re.compile(_TORCH + r"autograd[/\\]function\.py$")
_MODULE_FILE = re.compile(_TORCH + r"nn[/\\]modules[/\\]module\.py$")
_MODULE_CALL = frozenset({"_call_impl", "_wrapped_call_impl", "_slow_forward"})
_CLOSURE_FILE = re.compile(r"[/\\]closure\.py$")
_AUTOCAST_FILE = re.compile(_TORCH + r"(?:amp[/\\])?autocast_mode\.py$")
_ENGINE = re.compile(
    r"^torch::autograd::(?:Engine|python::PythonEngine)::|^autograd::engine::evaluate_function|"
    + stacks.AUTOGRAD_NODE.pattern
)
_AUTOCAST_CACHE = re.compile(r"^(?:at::autocast::clear_cache|torch::autograd::clear_autocast_cache)\(")

_NOTHING, _OPTIMIZER, _ZERO_GRAD, _CLOSURE, _RECOMPUTED, _BACKWARD_CALL, _MODULE, _ENGINE_FRAME, _UNCAST = range(9)


@dataclass(frozen=True, eq=False)
class StackEvidence:
    """One value for each stack, and a last one for "no stack"."""

    phase: U8
    """Number of a Phase (`other` is zero_grad), or UNKNOWN."""
    zeroes_gradients: B1
    """Under zero_grad."""
    uncasts: B1
    """Empties the cache of autocast."""
    calls_backward: B1
    """The program's own call of backward, outside the engine."""


def stack_evidence(recording: Recording) -> StackEvidence:
    """What each stack of a recording says."""
    if not len(recording.stacks):
        none = np.zeros(1, np.bool_)
        return StackEvidence(np.array([UNKNOWN], np.uint8), none, none, none)
    parent = recording.stacks.parent
    meaning = _meanings(recording)[recording.stacks.frame]
    context = stacks.nearest(parent, (meaning >= _OPTIMIZER) & (meaning <= _BACKWARD_CALL))
    module = stacks.nearest(parent, meaning == _MODULE)
    engine = (stacks.nearest(parent, meaning == _ENGINE_FRAME) != NONE) | _begun_by_the_engine(recording)
    what = np.where(context != NONE, meaning[context], _NOTHING)
    phase = np.where(module != NONE, int(Phase.forward), UNKNOWN)
    phase = np.where(engine, Phase.backward, phase)
    phase = np.where((what == _OPTIMIZER) & (module <= context), Phase.optimizer, phase)  # an outer row is smaller
    for each, meant in (
        (_ZERO_GRAD, Phase.other), (_RECOMPUTED, Phase.recompute), (_BACKWARD_CALL, Phase.backward),
    ):  # fmt: skip
        phase = np.where(what == each, meant, phase)
    uncasts = stacks.nearest(parent, meaning == _UNCAST) != NONE
    return StackEvidence(
        phase=np.append(phase, UNKNOWN).astype(np.uint8),
        zeroes_gradients=np.append(what == _ZERO_GRAD, False),
        uncasts=np.append(uncasts, False),
        calls_backward=np.append((what == _BACKWARD_CALL) & ~engine, False),
    )


def _begun_by_the_engine(recording: Recording) -> B1:
    """A stack of Python alone, on a thread of the engine: its outermost frame is a custom function's."""
    names, files = recording.frames.name, recording.frames.file
    texts = recording.strings
    function = {n: bool(_FUNCTION_FILE.search(texts[n])) for n in np.unique(files).tolist()}
    is_apply = np.array(
        [function[file] and texts[name] == "apply" for name, file in zip(names.tolist(), files.tolist())], np.bool_
    )
    parent = recording.stacks.parent
    root = stacks.nearest(parent, parent < 0)
    found: B1 = is_apply[recording.stacks.frame][root]
    return found


def _meanings(recording: Recording) -> I32:
    """What each row of frames says."""
    frames, strings = recording.frames, recording.strings
    files = {number: strings[number] for number in np.unique(frames.file).tolist()}
    names = {number: strings[number] for number in np.unique(frames.name).tolist()}
    kinds = {number: _file_kind(text) for number, text in files.items()}
    plain = {number: _plain_meaning(text) for number, text in names.items()}
    pairs = zip(frames.name.tolist(), frames.file.tolist())
    return np.array([_meaning(names[name], kinds[file]) or plain[name] for name, file in pairs], np.int32)


def _file_kind(file: str) -> int:
    for pattern, kind in (
        (_MODULE_FILE, _MODULE), (_OPTIMIZER_FILE, _OPTIMIZER), (_AUTOGRAD_FILE, _BACKWARD_CALL),
        (_CHECKPOINT_FILE, _RECOMPUTED), (_AUTOCAST_FILE, _UNCAST), (_CLOSURE_FILE, _CLOSURE),
    ):  # fmt: skip
        if pattern.search(file):
            return kind
    return _NOTHING


def _meaning(name: str, kind: int) -> int:
    """What a function of a file of this kind says."""
    if kind == _OPTIMIZER:
        return _ZERO_GRAD if name == "zero_grad" else _NOTHING if name in _NO_STEP else _OPTIMIZER
    if kind == _MODULE:
        return _MODULE if name in _MODULE_CALL else _ZERO_GRAD if name == "zero_grad" else _NOTHING
    wanted = {_BACKWARD_CALL: _BACKWARD, _RECOMPUTED: _RECOMPUTE, _UNCAST: frozenset({"__exit__"})}.get(kind)
    if wanted is not None:
        return kind if name in wanted else _NOTHING
    return kind  # nothing, or a closure


def _plain_meaning(name: str) -> int:
    """What a function says by its name alone."""
    if _ENGINE.search(name):
        return _ENGINE_FRAME
    if _AUTOCAST_CACHE.search(name):
        return _UNCAST
    return _CLOSURE if name == "closure" else _MODULE if name.startswith("nn.Module: ") else _NOTHING
