"""Frames as people read them: `train.py:12 step` for Python, a C++ function without its arguments."""

from __future__ import annotations

from memstrata.capture.format.recording import Recording

from . import stacks


def frame_name(recording: Recording, frame: int) -> str:
    """The short name of a row of frames."""
    frames, strings = recording.frames, recording.strings
    name, file, line = strings[int(frames.name[frame])], strings[int(frames.file[frame])], int(frames.line[frame])
    place = file.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{place}:{line} {name}" if line > 0 else native_name(name)


def native_name(name: str) -> str:
    """A C++ function without its arguments; nodes and operators of torch by their own name."""
    if node := stacks.AUTOGRAD_NODE.match(name):
        return f"{node[1]} (autograd)"
    if operator := stacks.OPERATOR.match(name):
        return f"{operator[1]} (operator)"
    short = name.replace("(anonymous namespace)::", "").split("(", 1)[0]
    return short if len(short) <= 80 else short[:77] + "..."
