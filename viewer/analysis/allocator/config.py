"""The settings of the allocator that change what it does, read from PYTORCH_CUDA_ALLOC_CONF text as torch reads it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MIB = 1 << 20
LARGE_SEGMENT = 20 * MIB
INTERVALS = 16
"""`roundup_power2_divisions` has one entry per power of two from 1 MiB on; the last one serves all larger sizes."""


class ConfigError(ValueError):
    """A text that torch would refuse; the message is one sentence that names the key."""


@dataclass(frozen=True)
class Config:
    """Settings of the native allocator; the defaults are torch's."""

    expandable_segments: bool = False
    max_split_bytes: int | None = None
    """Blocks of this size or more are not split; None: all are."""
    max_non_split_rounding_bytes: int | None = None
    """How much larger an unsplit block may be than a request beyond `max_split_bytes`; None: a large segment."""
    roundup_power2_divisions: tuple[int, ...] = (0,) * INTERVALS
    garbage_collection_threshold: float = 0.0
    """torch applies it only where a memory fraction was set."""
    large_segment_bytes: int = LARGE_SEGMENT
    memory_fraction: float | None = None
    """Of the capacity; None: `set_per_process_memory_fraction` was not called."""

    @property
    def non_split_rounding_bytes(self) -> int:
        """`max_non_split_rounding_bytes` with its default filled in."""
        given = self.max_non_split_rounding_bytes
        return self.large_segment_bytes if given is None else given

    @property
    def features(self) -> tuple[str, ...]:
        """The keys that differ from torch's defaults, in the order in which `text` writes them."""
        return tuple(key for key in _WRITERS if getattr(self, _FIELD[key]) != getattr(STOCK, _FIELD[key]))

    @property
    def text(self) -> str:
        """The shortest text that means this; empty for the defaults."""
        return ",".join(f"{key}:{_WRITERS[key](getattr(self, _FIELD[key]))}" for key in self.features)


def parse(text: str, base: Config | None = None) -> Config:
    """The settings of a text as in PYTORCH_CUDA_ALLOC_CONF; raises ConfigError with one sentence naming the key.

    Keys that concern pinned host memory or locking are accepted and change nothing here. Every number must be
    a number to its end, though torch would take `30x` for 30.
    """
    tokens = [t for t in re.split(r"([,:\[\]])", re.sub(r"\s", "", text)) if t]
    values: dict[str, Any] = {}
    at = 0
    while at < len(tokens):
        at = _one(tokens, at, values)
    config = dataclasses.replace(base or Config(), **values)
    _check_sizes(config)
    return config


def from_settings(settings: dict[str, Any]) -> Config:
    """The settings that a snapshot says were in force; the defaults where it says nothing that can be read."""
    text = settings.get("PYTORCH_CUDA_ALLOC_CONF")
    try:
        config = parse(text) if isinstance(text, str) else Config()
    except ConfigError:
        config = Config()
    values: dict[str, Any] = {}
    if isinstance(settings.get("expandable_segments"), bool):
        values["expandable_segments"] = settings["expandable_segments"]
    split = settings.get("max_split_size")
    if isinstance(split, int) and not isinstance(split, bool):
        values["max_split_bytes"] = split if 0 < split < 1 << 62 else None
    threshold = settings.get("garbage_collection_threshold")
    if isinstance(threshold, float) and 0.0 <= threshold < 1.0:
        values["garbage_collection_threshold"] = threshold
    divisions = settings.get("roundup_power2_divisions")
    if isinstance(divisions, dict):
        values["roundup_power2_divisions"] = tuple(_division(divisions.get(str(1 << i))) for i in range(INTERVALS))
    return dataclasses.replace(config, **values)


def _division(value: Any) -> int:
    """A snapshot's number of divisions, 0 where it is none."""
    return value if isinstance(value, int) and value > 0 and value & (value - 1) == 0 else 0


def _one(tokens: list[str], at: int, values: dict[str, Any]) -> int:
    """Reads one `key:value` and the comma behind it; returns where the next begins."""
    key = tokens[at]
    if key == ",":
        return at + 1
    if key not in _READERS and key not in _WITHOUT_EFFECT:
        raise ConfigError(f"{key}: the allocator has no such setting")
    if at + 2 >= len(tokens) or tokens[at + 1] != ":":
        raise ConfigError(f"{key}: a colon and a value are expected after it")
    end = at + 3
    if tokens[at + 2] == "[":
        end = tokens.index("]", at) + 1 if "]" in tokens[at:] else 0
        if not end:
            raise ConfigError(f"{key}: the list has no closing bracket")
    if key == "backend":
        _refuse_other_backend(tokens[at + 2])
    elif key in _READERS:
        values[_FIELD[key]] = _READERS[key](key, tokens[at + 2 : end])
    if end < len(tokens) and tokens[end] != ",":
        raise ConfigError(f"{key}: a comma is expected after its value, not {tokens[end]!r}")
    return end + 1


def _bool(key: str, value: list[str]) -> bool:
    if value[0] not in ("True", "False"):
        raise ConfigError(f"{key}: True or False is expected, not {value[0]!r}")
    return value[0] == "True"


def _megabytes(key: str, value: list[str]) -> int:
    return _whole(key, value[0]) * MIB


def _whole(key: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text):
        raise ConfigError(f"{key}: a whole number is expected, not {text!r}")
    return int(text)


def _fraction(key: str, value: list[str]) -> float:
    try:
        number = float(value[0])
    except ValueError:
        number = -1.0
    inside = 0.0 < number < 1.0 or (key == "per_process_memory_fraction" and number in (0.0, 1.0))
    if not inside:
        raise ConfigError(f"{key}: a number between 0 and 1 is expected, not {value[0]!r}")
    return number


def _refuse_other_backend(name: str) -> None:
    if name != "native":
        raise ConfigError(f"backend: only the native allocator can be replayed, not {name!r}")


def _divisions(key: str, value: list[str]) -> tuple[int, ...]:
    """One number for all sizes, or a list of `MiB:divisions` where `>` stands for all above the one before."""
    if value[0] != "[":
        return (_power(key, value[0], "divisions"),) * INTERVALS
    out = [0] * INTERVALS
    last, first = 0, True
    entries = [e for e in "".join(value[1:-1]).split(",") if e]
    for entry in entries:
        size, colon, text = entry.partition(":")
        if not colon:
            raise ConfigError(f"{key}: `size:divisions` is expected in its list, not {entry!r}")
        number = _power(key, text, "divisions", zero=True)
        if size == ">":
            out[last:] = [number] * (INTERVALS - last)
            continue
        last = min(_power(key, size, "intervals").bit_length() - 1, INTERVALS - 1)
        if first:
            out[:last] = [number] * last
        out[last], first = number, False
    return tuple(out)


def _power(key: str, text: str, what: str, zero: bool = False) -> int:
    number = _whole(key, text)
    if number & (number - 1) or (number == 0 and not zero):
        raise ConfigError(f"{key}: {what} must be powers of two, not {text}")
    return number


def _check_sizes(config: Config) -> None:
    if config.large_segment_bytes <= 10 * MIB:
        raise ConfigError("large_segment_size_mb: it must be more than 10")
    least = config.large_segment_bytes
    for key in ("max_split_size_mb", "max_non_split_rounding_mb"):
        size = getattr(config, _FIELD[key])
        if size is not None and size < least:
            raise ConfigError(f"{key}: it must be at least {least // MIB}, not {size // MIB}")


def _list_text(divisions: tuple[int, ...]) -> str:
    if len(set(divisions)) == 1:
        return str(divisions[0])
    return "[" + ",".join(f"{1 << i}:{number}" for i, number in enumerate(divisions)) + "]"


_FIELD = {
    "expandable_segments": "expandable_segments",
    "max_split_size_mb": "max_split_bytes",
    "max_non_split_rounding_mb": "max_non_split_rounding_bytes",
    "roundup_power2_divisions": "roundup_power2_divisions",
    "garbage_collection_threshold": "garbage_collection_threshold",
    "large_segment_size_mb": "large_segment_bytes",
    "per_process_memory_fraction": "memory_fraction",
}
_READERS: dict[str, Callable[[str, list[str]], Any]] = {
    "expandable_segments": _bool,
    "max_split_size_mb": _megabytes,
    "max_non_split_rounding_mb": _megabytes,
    "roundup_power2_divisions": _divisions,
    "garbage_collection_threshold": _fraction,
    "large_segment_size_mb": _megabytes,
    "per_process_memory_fraction": _fraction,
}
_WRITERS: dict[str, Callable[[Any], str]] = {
    "expandable_segments": str,
    "max_split_size_mb": lambda size: str(size // MIB),
    "max_non_split_rounding_mb": lambda size: str(size // MIB),
    "roundup_power2_divisions": _list_text,
    "garbage_collection_threshold": repr,
    "large_segment_size_mb": lambda size: str(size // MIB),
    "per_process_memory_fraction": repr,
}
_WITHOUT_EFFECT = frozenset({
    "backend", "release_lock_on_cudamalloc", "pinned_use_cuda_host_register",
    "release_lock_on_hipmalloc", "pinned_use_hip_host_register", "graph_capture_record_stream_reuse",
    "pinned_reserve_segment_size_mb",
    "pinned_num_register_threads", "pinned_free_catch_all", "throw_on_cudamalloc_oom",
    "pinned_use_background_threads", "pinned_max_round_threshold_mb", "pinned_max_cached_size_mb",
})  # fmt: skip
STOCK = Config()
