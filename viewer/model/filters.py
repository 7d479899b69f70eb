"""The filter box: words that all must match an allocation, as a mask over a run's allocations.

A plain word matches, in any case, anywhere in a frame of the stack (function, file, `file:line`), the layer, the
module, the operator, the category or the name of what it is. `layer:3`, `category:activation`, `op:addmm`,
`module:mlp`, `stack:forward`, `phase:backward`, `name:exp_avg` look in one place only. `>16MiB`, `<=1KiB`, `=512`
compare the size. A minus in front excludes. Quotes keep blanks together.
"""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import B1, Category, Phase

from ..look.units import parse_bytes
from . import stacks

if TYPE_CHECKING:
    from .run import Run

_COMPARE: dict[str, Callable[[Any, int], Any]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip
_SIZE = re.compile(r"(>=|<=|>|<|=)(.+)")
_COMPARES = re.compile(r"-?(>=|<=|>|<|=)")
_NO_UNIT = re.compile(r"-?(>=|<=|>|<|=)\s*[0-9.]+")
_UNIT = re.compile(r"[kmgtpe]?i?b|[kmgtpe]", re.IGNORECASE)
_PLACED = re.compile(r"([a-z]+):(.+)", re.IGNORECASE)


def matching(run: Run, text: str) -> B1:
    """Whether each allocation matches; ValueError with one sentence for a filter that makes no sense."""
    found: B1 = np.ones(len(run.allocations), np.bool_)
    for word in words_of(text):
        if word.startswith("-") and len(word) > 1:
            found &= ~_matches(run, word[1:])
        else:
            found &= _matches(run, word)
    return found


def words_of(text: str) -> list[str]:
    """The words of a filter; ValueError with one sentence where a quote is left open."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=False)
    reader.whitespace_split, reader.commenters, reader.escape = True, "", ""
    try:
        return _sizes_joined(list(reader))
    except ValueError:
        raise ValueError(f"a quote is left open in {text!r}") from None


def _sizes_joined(words: list[str]) -> list[str]:
    """`>`, `16`, `MiB` are the one word that `>16MiB` is."""
    joined: list[str] = []
    for word in words:
        last = joined[-1] if joined else ""
        if _COMPARES.fullmatch(last) or (_NO_UNIT.fullmatch(last) and _UNIT.fullmatch(word)):
            joined[-1] = last + word
        else:
            joined.append(word)
    return joined


def _matches(run: Run, word: str) -> B1:
    if _COMPARES.fullmatch(word):
        raise ValueError(f"{word} takes a size after it, such as {word}16MiB")
    if size := _SIZE.fullmatch(word):
        found: B1 = _COMPARE[size[1]](run.allocations.bytes, parse_bytes(size[2]))
        return found
    if (placed := _PLACED.fullmatch(word)) and placed[1].lower() in PLACES:
        return PLACES[placed[1].lower()](run, placed[2].lower())
    found = np.zeros(len(run.allocations), np.bool_)
    for place in _ANYWHERE:
        found |= place(run, word.lower())
    return found


def _among(names: Iterable[str], word: str) -> B1:
    return np.array([word in name.lower() for name in names], np.bool_)


def _at(hit: B1, rows: NDArray[np.integer]) -> B1:
    """hit[rows], False where the row is -1."""
    found: B1 = np.append(hit, False)[rows]
    return found


def _in_stack(run: Run, word: str) -> B1:
    recording = run.recording
    if not len(recording.stacks):
        return np.zeros(len(run.allocations), np.bool_)
    frames, strings = recording.frames, recording.strings
    said = zip(frames.name.tolist(), frames.file.tolist(), frames.line.tolist(), strict=True)
    hit = np.array([word in f"{strings[file]}:{line} {strings[name]}".lower() for name, file, line in said], np.bool_)
    return _at(stacks.in_stacks(recording, hit), run.allocations.stack)


def _in_layer(run: Run, word: str) -> B1:
    """`layer:3` is layer 3 and not layer 13; other words are parts of the name."""
    names = run.layers.names
    if word.isdigit():
        hit = np.array([word in re.findall(r"\d+", name) for name in names], np.bool_)
    else:
        hit = _among(names, word)
    return _at(hit, run.attribution.layer)


def _layer_named(run: Run, word: str) -> B1:
    return _at(_among(run.layers.names, word), run.attribution.layer)


def _in_module(run: Run, word: str) -> B1:
    strings, modules = run.recording.strings, run.recording.modules
    return _at(_among((strings[path] for path in modules.path.tolist()), word), run.attribution.module)


def _in_op(run: Run, word: str) -> B1:
    """The autograd node that made a saved tensor, or an operator on the stack."""
    strings, saved = run.recording.strings, run.recording.saved_tensors
    of_text = {number: word in strings[number].lower() for number in np.unique(saved.op).tolist()}
    hit = np.array([of_text[number] for number in saved.op.tolist()], np.bool_)
    return _at(hit, run.attribution.saved) | _operators(run, word)


def _operators(run: Run, word: str) -> B1:
    recording = run.recording
    if not len(recording.stacks):
        return np.zeros(len(run.allocations), np.bool_)
    names = {number: recording.strings[number] for number in np.unique(recording.frames.name).tolist()}
    is_op = {
        n: word in t.lower() and (t.startswith("aten::") or bool(stacks.OPERATOR.match(t))) for n, t in names.items()
    }
    hit = np.array([is_op[number] for number in recording.frames.name.tolist()], np.bool_)
    return _at(stacks.in_stacks(recording, hit), run.allocations.stack)


def _in_category(run: Run, word: str) -> B1:
    hit = _among((category.label for category in Category), word)
    found: B1 = hit[run.attribution.category]
    return found


def _in_phase(run: Run, word: str) -> B1:
    found: B1 = _among((phase.name for phase in Phase), word)[run.attribution.phase]
    return found & ~run.allocations.before


def _in_name(run: Run, word: str) -> B1:
    strings, known = run.recording.strings, run.recording.known_storages
    return _at(_among((strings[name] for name in known.name.tolist()), word), run.attribution.known)


PLACES: dict[str, Callable[[Run, str], B1]] = {
    "stack": _in_stack,
    "layer": _in_layer,
    "module": _in_module,
    "op": _in_op,
    "category": _in_category,
    "phase": _in_phase,
    "name": _in_name,
}
"""Where a word can be looked for."""

_ANYWHERE = (_in_stack, _layer_named, _in_module, _in_op, _in_category, _in_name)
