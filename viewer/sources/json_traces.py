"""JSON files that hold memory events: which kind it is, and their entries one at a time.

Entries are decoded one by one, so that a long file neither stops the window nor is held as objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from memstrata.capture.format.checks import check_recording
from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording

from . import memory_timeline, profiler_trace
from .pickle_errors import plain
from .progress import Progress

MAX_BYTES = 2 << 30
"""A trace of one step has a few hundred megabytes."""
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
_SPACE = re.compile(r"[\s,]*")
_EACH = 4096
_NEITHER = "is JSON, but neither a torch.profiler trace nor a memory timeline"
_DAMAGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)


def read(file: BinaryIO, size: int, name: str, progress: Progress) -> Recording:
    """The recording of an open JSON file; `name` is used in sentences. Raises FormatError."""
    if size > MAX_BYTES:
        raise FormatError(f"{name} is JSON of more than 2 GiB, more than a memory trace can hold.")
    progress("Reading", 0.0)
    try:
        text = file.read().decode("utf-8-sig", "replace")
        recording = _timeline(text, progress) if text.lstrip().startswith("[") else _trace(text, name, progress)
        if recording is None:
            raise FormatError(f"{name} {_NEITHER}.")
        check_recording(recording)
        return recording
    except FormatError:
        raise
    except json.JSONDecodeError as error:
        raise FormatError(f"{name} is damaged or cut short: it is not JSON from character {error.pos:,} on.") from error
    except RecursionError as error:
        raise FormatError(f"{name} {_NEITHER}: it nests too deeply.") from error
    except _DAMAGE as error:
        raise FormatError(f"{name} cannot be read as a memory trace: {plain(str(error)).strip('. ')}.") from error


def _trace(text: str, name: str, progress: Progress) -> Recording | None:
    found = _EVENTS.search(text)
    if found is None:
        return None
    trace = profiler_trace.Trace()
    end = found.end()
    for entry, behind in entries(text, found.end(), progress):
        trace.add(entry)
        end = behind
    about = json.loads(f"{text[: found.end()]}{text[end:]}")
    if not trace.memory:
        raise FormatError(f"{name} is a profiler trace without memory events: profile with `profile_memory=True`.")
    return trace.recording(about)


def _timeline(text: str, progress: Progress) -> Recording | None:
    start = text.index("[") + 1
    timeline = memory_timeline.Timeline()
    for entry, _ in entries(text, start, progress):
        if not timeline.add(entry):
            return None
    return timeline.recording()


def entries(text: str, at: int, progress: Progress) -> Iterator[tuple[Any, int]]:
    """(entry, the character behind it) of the array that begins at this character; ends in front of its bracket."""
    decode = json.JSONDecoder().raw_decode
    count = 0
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space is not None else at
        if text.startswith("]", at):
            return
        value, at = decode(text, at)
        yield value, at
        count += 1
        if count % _EACH == 0:
            progress("Reading", at / len(text))
