"""Questions asked of all stacks at once. A stack is a row of a parent-linked tree; nothing here loops over events."""

from __future__ import annotations

import re
import sys

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, NONE

LIBRARIES = frozenset(
    {"torch", "torch_npu", "torchgen", "triton", "functorch", "accelerate", "lightning",
     "pytorch_lightning", "deepspeed", "IPython", "ipykernel", "traitlets", "tornado", "pytest", "_pytest", "pluggy"}
)  # fmt: skip
"""Packages that call the user's code or are called by it, and so never are the user's code."""

_ABSOLUTE = re.compile(r"^(/|[A-Za-z]:[\\/])")
_GENERATED = re.compile(r"[\\/]torchinductor_|^<")

AUTOGRAD_NODE = re.compile(r"^torch::autograd::(?:generated::)?(\w+)::apply\(")
"""A node of the backward pass: all that tells the stacks of the engine's threads apart."""
OPERATOR = re.compile(r"^at::_ops::(\w+)::")

NATIVE, OPERATED, NODE, LIBRARY, RELATIVE, USER = range(6)
"""What a frame is, the more telling the higher: C++; an operator; an autograd node; Python of a library; Python under
a relative path; Python of the user by absolute path."""


def frame_ranks(recording: Recording) -> I32:
    """NATIVE .. USER for each row of frames.

    Paths inside site-packages and the standard library are stored relative to them, so an absolute path is the
    user's; a relative one may be the user's (a recording stores the project's that way) or another package's.
    """
    frames, strings = recording.frames, recording.strings
    by_file = {number: _rank(strings[number]) for number in np.unique(frames.file).tolist()}
    by_name = {number: _native_rank(strings[number]) for number in np.unique(frames.name).tolist()}
    pairs = zip(frames.file.tolist(), frames.name.tolist())
    return np.array([by_file[file] or by_name[name] for file, name in pairs], np.int32)


def own_frames(recording: Recording) -> B1:
    """Which rows of frames are the user's own code, as far as their paths tell."""
    found: B1 = frame_ranks(recording) >= RELATIVE
    return found


def _native_rank(name: str) -> int:
    if AUTOGRAD_NODE.match(name):
        return NODE
    return OPERATED if OPERATOR.match(name) else NATIVE


def _rank(file: str) -> int:
    if not file.endswith(".py") and not file.startswith("<"):
        return NATIVE
    if _GENERATED.search(file):
        return LIBRARY
    if _ABSOLUTE.match(file):
        return USER
    top = file.replace("\\", "/").split("/", 1)[0].removesuffix(".py")
    return LIBRARY if top in LIBRARIES or top in sys.stdlib_module_names else RELATIVE


def first_user_frames(recording: Recording) -> I32:
    """Frame row that stands for each stack: its innermost user frame, else its innermost frame of the highest rank."""
    rank = frame_ranks(recording)[recording.stacks.frame] if len(recording.stacks) else np.empty(0, np.int32)
    best = np.arange(len(recording.stacks), dtype=np.int64)
    for least in (OPERATED, NODE, LIBRARY, RELATIVE, USER):
        found = nearest(recording.stacks.parent, rank >= least)
        best = np.where(found != NONE, found, best)
    return recording.stacks.frame[best] if len(best) else np.empty(0, np.int32)


def last_user_frames(recording: Recording) -> I32:
    """Frame row of the outermost frame of each stack that is of the highest rank the stack has: the user's own code,
    else another package's, else a library's. Where it has no Python at all, of its outermost frame."""
    if not len(recording.stacks):
        return np.empty(0, np.int32)
    parent = recording.stacks.parent
    rank = frame_ranks(recording)[recording.stacks.frame]
    best = outermost(parent, np.ones(len(parent), np.bool_))
    for least in (LIBRARY, RELATIVE, USER):
        found = outermost(parent, rank >= least)
        best = np.where(found != NONE, found, best)
    return recording.stacks.frame[best]


def outermost(parent: I32, wanted: B1) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For each row the outermost row at or above it that is wanted, -1 if none."""
    own = nearest(parent, wanted)
    above = np.where(parent >= 0, own[parent], NONE)  # the next wanted one beyond each row
    return np.append(nearest(above.astype(np.int32), wanted & (above == NONE)), NONE)[own]


def mentions(recording: Recording, pattern: str) -> B1:
    """For each stack, whether the function name of any of its frames matches the regular expression."""
    if not len(recording.stacks):
        return np.empty(0, np.bool_)
    names = np.unique(recording.frames.name)
    search = re.compile(pattern).search
    hit = np.array([search(recording.strings[n]) is not None for n in names.tolist()], np.bool_)
    return in_stacks(recording, hit[np.searchsorted(names, recording.frames.name)])


def in_stacks(recording: Recording, frames: B1) -> B1:
    """For each stack, whether any of its frames is one of those marked in `frames`."""
    found: B1 = nearest(recording.stacks.parent, frames[recording.stacks.frame]) != NONE
    return found


def nearest(parent: I32, wanted: B1) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """For each row the nearest row at or above it that is wanted, -1 if none: pointers that double their stride."""
    count = len(parent)
    above = np.where(parent >= 0, parent, count).astype(np.int64)
    jump = np.append(np.where(wanted, np.arange(count), above), count)
    while not np.array_equal(jump, further := jump[jump]):
        jump = further
    return np.where((jump[:-1] < count) & np.append(wanted, False)[jump[:-1]], jump[:-1], NONE)
