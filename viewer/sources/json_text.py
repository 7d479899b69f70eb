"""The text of a JSON file in parts, and the entries of a long array in it: of neither more than a part is in memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from .progress import Progress

_PART = 1 << 18
"""Bytes read at a time."""
_BATCH = 1 << 15
"""Characters of entries that are decoded together."""
MAX_ENTRY = 64 << 20
"""Characters of one entry, and of what is before or behind all of them."""
_BETWEEN = re.compile(r"[\s,]*")
_CUT = 16
"""An error so close to the end of what was read can come from that end; the longest word is `-Infinity`."""


class JsonText:
    """The part of a file's text that was read and not yet used: `text` from `at` on."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress) -> None:
        self._file, self._size, self._progress = file, size, progress
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self.text, self.at = "", 0
        self.dropped = 0
        """Characters in front of `text`."""
        self.ended = False

    def more(self) -> bool:
        """Read on; False if there is no more."""
        if self.ended:
            return False
        left = self.text[self.at :]
        if len(left) > MAX_ENTRY:
            raise ValueError("one entry of it is larger than a trace holds")
        data = self._file.read(max(_PART, len(left)))  # so that one long entry is not looked at too often
        self.ended = not data
        self.dropped += self.at
        self.text, self.at = left + self._decoder.decode(data, final=self.ended), 0
        self._progress("Reading", self._file.tell() / max(self._size, 1))
        return True

    def search(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """The first match in the text; nothing of it is dropped."""
        seen = 0
        while True:
            found = pattern.search(self.text, max(seen - 1024, 0))
            if found is not None:
                return found
            seen = len(self.text)
            if seen > MAX_ENTRY or not self.more():
                return None

    def rest(self) -> str:
        """All that is left."""
        parts, length = [], 0
        while True:
            parts.append(self.text[self.at :])
            length += len(parts[-1])
            if length > MAX_ENTRY:
                raise ValueError("there is more behind its entries than a trace holds")
            self.at = len(self.text)
            if not self.more():
                return "".join(parts)

    def skip_space(self) -> bool:
        """Go on to the next entry or bracket; whether there was a comma. Traces put together by hand have several."""
        comma = False
        while True:
            found = _BETWEEN.match(self.text, self.at)
            assert found is not None
            comma = comma or "," in found.group()
            self.at = found.end()
            if self.at < len(self.text) or not self.more():
                return comma

    def entry(self) -> Any:
        """The next entry. Raises JSONDecodeError, which counts from the beginning of the file."""
        while True:
            try:
                value, self.at = _DECODE(self.text, self.at)
                return value
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated string") or error.pos >= len(self.text) - _CUT
                if not (cut and self.more()):
                    error.pos += self.dropped
                    raise


_DECODE = json.JSONDecoder().raw_decode


def entries(text: JsonText, closing: str) -> Iterator[list[Any]]:
    """The entries of the array inside which the text is, some at a time; ends in front of its bracket.

    `closing` is how an entry ends: where it is found the entries before it are tried together, which is quicker.
    """
    alone = 0  # up to here entries come one by one
    first = True
    while True:
        comma = text.skip_space()
        if text.text.startswith("]", text.at):
            return
        if not comma and not first:
            raise json.JSONDecodeError("a comma is missing", "", text.dropped + text.at)
        first = False
        if text.dropped + text.at >= alone:
            many = _batch(text, closing)
            if many:
                yield many
                continue
            alone = text.dropped + text.at + _BATCH
        yield [text.entry()]


def _batch(text: JsonText, closing: str) -> list[Any]:
    """Several entries at once; none if it is not clear where they end."""
    if len(text.text) - text.at < _BATCH:
        text.more()
    end = text.text.rfind(closing, text.at, text.at + _BATCH)
    if end < 0:
        return []
    end += closing.index(",")
    try:
        made: list[Any] = json.loads(f"[{text.text[text.at : end]}]")
    except ValueError:
        return []
    text.at = end
    return made
