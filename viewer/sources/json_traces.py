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
_BETWEEN = re.compile(r"[\s,]*")
_EACH = 4096
MAX_ENTRIES = 8_000_000
"""Memory events of one file; a made-up one could hold hundreds of millions."""
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
        raise FormatError(f"{name} cannot be read as a memory trace: {_cause(error)}.") from error


def _cause(error: BaseException) -> str:
    """What our own checks said; of what Python says, what it means."""
    if type(error) is not ValueError:
        return "it is not as torch.profiler writes it"
    text = plain(str(error)).strip(". ")
    return "it holds a number of thousands of digits" if text.startswith("Exceeds the limit") else text


def _trace(text: str, name: str, progress: Progress) -> Recording | None:
    found = _EVENTS.search(text)
    if found is None:
        return None
    trace = profiler_trace.Trace()
    end = found.end()
    for entry, behind in entries(text, found.end(), progress):
        trace.add(entry)
        if len(trace.memory) > MAX_ENTRIES:
            raise ValueError("it holds more memory events than a step can have")
        end = behind
    about = _without(text, found.end(), end)
    if not trace.memory:
        raise FormatError(f"{name} is a profiler trace without memory events: profile with `profile_memory=True`.")
    return trace.recording(about)


def _timeline(text: str, progress: Progress) -> Recording | None:
    start = text.index("[") + 1
    timeline = memory_timeline.Timeline()
    end = start
    for entry, behind in entries(text, start, progress):
        if not timeline.add(entry):
            return None
        if len(timeline) > MAX_ENTRIES:
            raise ValueError("it holds more entries than a memory timeline can")
        end = behind
    _without(text, start, end)
    return timeline.recording()


def _without(text: str, start: int, end: int) -> Any:
    """The whole of which the entries from `start` to `end` were read already: it must be JSON, too."""
    end = _skipped(_BETWEEN, text, end)
    try:
        return json.loads(f"{text[:start]}{text[end:]}")
    except json.JSONDecodeError as error:
        at = error.pos if error.pos < start else error.pos + end - start
        raise json.JSONDecodeError(error.msg, text, at) from error


def entries(text: str, at: int, progress: Progress) -> Iterator[tuple[Any, int]]:
    """(entry, the character behind it) of the array that begins at this character; ends in front of its bracket.

    Of commas there may be more than one, as in traces that were put together by hand, but never none.
    """
    decode = json.JSONDecoder().raw_decode
    count = 0
    behind = at
    while True:
        at = _skipped(_BETWEEN, text, behind)
        if text.startswith("]", at):
            return
        if count and text.find(",", behind, at) < 0:
            raise json.JSONDecodeError("a comma is missing", text, at)
        value, behind = decode(text, at)
        yield value, behind
        count += 1
        if count % _EACH == 0:
            progress("Reading", at / len(text))


def _skipped(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found is not None else at
