"""Where ticks stand and what they say: bytes in powers of two, seconds and events in 1, 2, 5. Pure functions."""

from __future__ import annotations

import math

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def byte_step(span: float, most: int) -> float:
    """The power of two that cuts `span` bytes into at most `most` parts."""
    wanted = max(span / max(most, 1), 1.0)
    return float(2 ** math.ceil(math.log2(wanted)))


def byte_text(value: float, step: float) -> str:
    """`512 MiB`, `1.5 GiB`: the unit of the value, with as many decimals as the step needs."""
    if value == 0:
        return "0"
    power = min(max(int(math.log2(abs(value)) // 10), 0), len(_UNITS) - 1)
    scaled = value / 1024**power
    if scaled >= 1000 and power + 1 < len(_UNITS):
        power, scaled = power + 1, scaled / 1024
    decimals = _decimals(step / 1024**power)
    return f"{scaled:.{decimals}f} {_UNITS[power]}"


def round_step(span: float, most: int) -> float:
    """1, 2 or 5 times a power of ten that cuts `span` into at most `most` parts."""
    wanted = span / max(most, 1)
    if wanted <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(wanted))
    return next((f * power for f in (1, 2, 5) if f * power >= wanted * 0.999), 10 * power)


def seconds_text(value: float, step: float) -> str:
    """`0.2 s`, `15 ms`: the unit of the step, so that neighbours compare at a glance."""
    scale, unit = next((s, u) for s, u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")) if step >= s / 10.01)
    return f"{value / scale:,.{_decimals(step / scale)}f} {unit}"


def event_text(value: float, _step: float) -> str:
    """`12,000`."""
    return f"{value:,.0f}"


def multiples(low: float, high: float, step: float) -> list[float]:
    """All multiples of `step` from low to high."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def _decimals(step: float) -> int:
    """How many decimals tell neighbours `step` apart; a quarter needs two."""
    for decimals in range(4):
        if abs(step * 10**decimals - round(step * 10**decimals)) < 1e-6:
            return decimals
    return 3
