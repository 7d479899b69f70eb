"""Numbers as people read them. Bytes are always binary, with the unit written and three significant digits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from memstrata.capture.format.units import bytes_text, three_digits

__all__ = [
    "bytes_text", "count_text", "difference_text", "exact_bytes_text", "exact_lines", "parse_bytes", "parse_percent",
    "percent_text", "ratio_text", "seconds_text", "three_digits",
]  # fmt: skip

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?:([kmgtpe]?)(i?)b?)?\s*", re.IGNORECASE)
_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def difference_text(count: float) -> str:
    """Bytes with their sign, `+1.90 GiB`; `0 B` for none."""
    return f"+{bytes_text(count)}" if count > 0 else bytes_text(count)


def parse_bytes(text: str) -> int:
    """Bytes of `30GiB`, `1.5 MiB`, `512`. `30GB` is decimal, `30G` binary, as torch and nvidia-smi write it.

    Raises ValueError with one sentence.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a size such as 30GiB or 512MiB")
    number, prefix, binary = found.groups()
    decimal = text.strip().lower().endswith("b") and not binary
    scale = (1000 if decimal else 1024) ** " kmgtpe".index((prefix or " ").lower())
    size = float(number) * scale
    if not math.isfinite(size) or size >= 2**62:
        raise ValueError(f"{text!r} is more than any memory holds")
    return round(size)


def parse_percent(text: str) -> float:
    """The share that `2%` or `2` says, 0.02. Raises ValueError with one sentence unless it is 0 or more."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf:
        raise ValueError(f"{text!r} is not a percentage such as 2%")
    return share


def exact_bytes_text(count: int) -> str:
    """`81,352,720,384 bytes`: what stands on hover beside a rounded figure."""
    return f"{count:,} byte" if abs(count) == 1 else f"{count:,} bytes"


def exact_lines(sizes: Iterable[int]) -> list[str]:
    """`4.02 MiB: 4,215,808 bytes` for each of the figures that a text rounds."""
    return [f"{bytes_text(size)}: {exact_bytes_text(size)}" for size in sizes]


def seconds_text(seconds: float) -> str:
    """`1.02 s`, `12.3 ms`: three significant digits."""
    if seconds == 0:
        return "0 s"
    sign = "-" if seconds < 0 else ""
    size = abs(seconds)
    for scale, unit in _TIME_UNITS:
        if size >= scale * 0.9995 or unit == "ns":
            break
    value = size / scale
    return f"{sign}{three_digits(value)} {unit}" if value < 999.5 else f"{sign}{value:,.0f} {unit}"


def count_text(count: int, noun: str = "", plural: str = "") -> str:
    """`4,986`, or with a noun `4,986 events` and `1 event`."""
    if not noun:
        return f"{count:,}"
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def percent_text(share: float) -> str:
    """`99.2%` for 0.992. Never rounded up to 100% nor down to 0%: `>99.9%`, `<0.1%`."""
    if 0.9995 <= share < 1:
        return ">99.9%"
    if 0 < share < 0.0005:
        return "<0.1%"
    return f"{share * 100:.1f}%"


def ratio_text(ratio: float) -> str:
    """`13.2x`."""
    return f"{three_digits(ratio)}x" if ratio < 999.5 else f"{ratio:,.0f}x"
