"""JSON files that hold memory events: which kind it is, and their entries one at a time.

A file is read in parts and its entries become columns at once. With all that is made of it an entry takes 130 bytes at
most, whatever its text: a gibibyte for `MAX_ENTRIES`.
"""

from __future__ import annotations

import json
import re
from typing import Any, BinaryIO

from memstrata.capture.format.checks import check_recording
from memstrata.capture.format.problems import FormatError
from memstrata.capture.format.recording import Recording

from . import memory_timeline, profiler_trace
from .json_text import JsonText, entries
from .pickle_errors import plain
from .progress import Progress

MAX_BYTES = 2 << 30
"""A trace of one step has a few hundred megabytes."""
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[')
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
        text = JsonText(file, size, progress)
        recording = _timeline(text, progress) if _is_list(text) else _trace(text, name, progress)
        if recording is None:
            raise FormatError(f"{name} {_NEITHER}.")
        check_recording(recording)
        progress("Building tables", 1.0)
        return recording
    except FormatError:
        raise
    except json.JSONDecodeError as error:
        raise FormatError(f"{name} is damaged or cut short: it is not JSON from character {error.pos:,} on.") from error
    except RecursionError as error:
        raise FormatError(f"{name} {_NEITHER}: it nests too deeply.") from error
    except _DAMAGE as error:
        raise FormatError(f"{name} cannot be read as a memory trace: {_cause(error)}.") from error


def _is_list(text: JsonText) -> bool:
    while not text.text.lstrip() and text.more():
        pass
    return text.text.lstrip().startswith("[")


def _cause(error: BaseException) -> str:
    """What our own checks said; of what Python says, what it means."""
    if type(error) is not ValueError:
        return "it is not as torch.profiler writes it"
    text = plain(str(error)).strip(". ")
    return "it holds a number of thousands of digits" if text.startswith("Exceeds the limit") else text


def _trace(text: JsonText, name: str, progress: Progress) -> Recording | None:
    found = text.search(_EVENTS)
    if found is None:
        return None
    trace = profiler_trace.Trace()
    head, text.at = text.text[: found.end()], found.end()
    for some in entries(text, "},\n  {"):
        for entry in some:
            trace.add(entry)
        if trace.count > MAX_ENTRIES:
            raise ValueError("it holds more memory events than a step can have")
    about = _without(head, text)
    if not trace.count:
        raise FormatError(f"{name} is a profiler trace without memory events: profile with `profile_memory=True`.")
    return trace.recording(about, progress)


def _timeline(text: JsonText, progress: Progress) -> Recording | None:
    text.at = text.text.index("[") + 1
    head = text.text[: text.at]
    timeline = memory_timeline.Timeline()
    for some in entries(text, "],"):
        if not timeline.add(some):
            return None
        if len(timeline) > MAX_ENTRIES:
            raise ValueError("it holds more entries than a memory timeline can")
    _without(head, text)
    return timeline.recording(progress)


def _without(head: str, text: JsonText) -> Any:
    """The whole of which all entries were read already: it must be JSON, too. `head` is what was before them."""
    text.skip_space()
    behind = text.dropped + text.at
    try:
        return json.loads(head + text.rest())
    except json.JSONDecodeError as error:
        at = error.pos if error.pos < len(head) else error.pos + behind - len(head)
        error.pos = at
        raise
