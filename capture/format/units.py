"""Bytes as people read them; the recorder's last line and the viewer use the same words."""

from __future__ import annotations

_BYTE_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def three_digits(value: float) -> str:
    """A number from 0 up to 999.4 with three significant digits: `1.00`, `23.5`, `768`."""
    for decimals, limit in ((2, 9.995), (1, 99.95)):
        if abs(value) < limit:
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"


def bytes_text(count: float) -> str:
    """`75.8 GiB` for 81,352,720,384 bytes. Below 1 KiB the exact number; 1000 KiB reads 0.977 MiB."""
    size = abs(count)
    sign = "-" if count < 0 else ""
    if size < 1024:
        return f"{sign}{size:.0f} B"
    for unit in _BYTE_UNITS:
        size /= 1024
        if size < 999.5 or unit == _BYTE_UNITS[-1]:
            break
    text = f"{size:.3f}" if size < 0.9995 else three_digits(size)
    return f"{sign}{text} {unit}"
