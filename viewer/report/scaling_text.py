"""How a step grows with its size, and what fits a budget: text and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..analysis.scaling import MOST_TOKENS, Growth, Scaling
from ..look.units import bytes_text, count_text, percent_text
from .layout import joined, section, table, wrapped

LONGEST = 262_144


@dataclass(frozen=True)
class AskedSize:
    """What is asked: the budget in bytes or None, the batch for the curve, and how far it goes in tokens. ValueError
    where one is below 1."""

    budget: int | None = None
    batch: int | None = None
    to: int = LONGEST

    def __post_init__(self) -> None:
        for what, value in (("batch", self.batch), ("sequence length", self.to)):
            if value is not None and not 1 <= value <= MOST_TOKENS:
                raise ValueError(f"a {what} is 1 to {MOST_TOKENS:,}, not {value}")


def scaling_text(found: Scaling, asked: AskedSize) -> str:
    """The answer, the parts, the curve."""
    batch = asked.batch or found.measured[0].batch
    lines = wrapped(answer_text(found, asked))
    rows = [(m.name, f"{m.batch} x {m.sequence:,}", bytes_text(m.peak_bytes)) for m in found.measured]
    lines += section("Measured", table(("file", "batch x sequence", "peak"), rows))
    lines += section(
        "How the peak grows (fitted)",
        table(("part", "stays", "per token", "per sequence^2"), [growth_row(part) for part in found.parts]),
    )
    curve = [(f"{length:,}", bytes_text(found.bytes(batch, length))) for length in lengths(found, asked.to)]
    lines += section(f"Peak by sequence length, batch {batch} (estimate)", table(("tokens", "peak"), curve))
    lines += wrapped(f"the fit misses a recording's peak by {percent_text(found.error)} at most", indent="  ")
    lines += wrapped("taken for granted: the step's peak stays near that of its activations", indent="  ")
    if found.one_length:
        lines += wrapped(
            "all recordings have one sequence length: what grows with its square cannot be told from what is linear,"
            " so longer sequences are underestimated",
            indent="  ",
        )
    return joined(lines)


def answer_text(found: Scaling, asked: AskedSize) -> str:
    """What fits the budget; without one, what a token costs."""
    batch = asked.batch or found.measured[0].batch
    if asked.budget is None:
        linear = sum(part.linear for part in found.parts)
        return f"{bytes_text(round(linear))} more for each token, beside what grows with the square of the length"
    sequence = found.measured[-1].sequence
    longest, most = found.longest(asked.budget, batch), found.most(asked.budget, sequence)
    return (
        f"In {bytes_text(asked.budget)} fit sequences of {count_text(longest, 'token')} with batch {batch}, or a batch"
        f" of {count_text(most)} with sequences of {count_text(sequence, 'token')} (estimates)"
    )


def growth_row(part: Growth) -> tuple[str, str, str, str]:
    """Name, what stays, bytes per token, bytes per batch x sequence^2."""
    constant = bytes_text(round(part.constant)) if part.constant else "-"
    square = f"{part.quadratic:.3g} B" if part.quadratic else "-"
    return part.name, constant, bytes_text(round(part.linear)) if part.linear else "-", square


def lengths(found: Scaling, to: int = LONGEST) -> list[int]:
    """Sequence lengths for the curve: doubling from the longest measured one to where it is to end."""
    out = [max(m.sequence for m in found.measured)]
    while out[-1] < to:
        out.append(min(2 * out[-1], to))
    return out


def scaling_json(found: Scaling, asked: AskedSize) -> dict[str, Any]:
    """The object that `memstrata scale --json` prints; every figure beyond `measured` is an estimate."""
    batch = asked.batch or found.measured[0].batch
    sequence = found.measured[-1].sequence
    return {
        "estimate": True,
        "measured": [
            {"file": m.name, "batch": m.batch, "sequence": m.sequence, "peak_bytes": m.peak_bytes, "parts": m.parts}
            for m in found.measured
        ],
        "parts": [
            {
                "name": part.name,
                "constant_bytes": part.constant,
                "bytes_per_token": part.linear,
                "bytes_per_batch_and_sequence_squared": part.quadratic,
            }
            for part in found.parts
        ],
        "quadratic_determined": not found.one_length,
        "largest_error": found.error,
        "curve": [{"sequence": n, "peak_bytes": found.bytes(batch, n)} for n in lengths(found, asked.to)],
        "longest_sequence": None if asked.budget is None else found.longest(asked.budget, batch),
        "largest_batch": None if asked.budget is None else found.most(asked.budget, sequence),
    }
