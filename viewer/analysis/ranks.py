"""The ranks of one run side by side: which of them stands out, by how much, and in what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import Category, Severity

from ..look.units import bytes_text, difference_text, percent_text
from ..model.run import Run
from .diff import Diff, DiffRow
from .headline import Line, Part, joined, line

AGREE = 0.02
"""Share of the median peak within which ranks agree: uneven shards and padding make about so much."""

_NAMED = 3
"""How many categories the sentence about an outlier names; the rest is summed, so that it closes."""


@dataclass(frozen=True)
class RankRow:
    """One rank: bytes of each kind at its own peak, but activations and communication each at their own."""

    rank: int
    run: Run

    @property
    def peak_bytes(self) -> int:
        """Highest active bytes."""
        return self.run.peak_bytes

    @cached_property
    def activation_bytes(self) -> int:
        """Highest activation bytes."""
        return int(self.run.activation_curve.max())

    @cached_property
    def communication_bytes(self) -> int:
        """Highest bytes of gathered parameters and communication buffers."""
        return int(self.run.category_curve(Category.communication).max())

    @cached_property
    def at_peak(self) -> dict[Category, int]:
        """Bytes by category at the peak."""
        return self.run.categories_at(self.run.peak_position)

    @property
    def step_seconds(self) -> float | None:
        """Duration of an unrecorded step; None where none was timed."""
        return self.run.recording.meta.step_seconds_unrecorded

    @property
    def recorded_seconds(self) -> float | None:
        """Duration of the recorded step, slower for being recorded."""
        return self.run.recording.meta.step_seconds_recorded


class Ranks:
    """The runs of the ranks of one run, one for each, in order of rank; at least one."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.rows = tuple(RankRow(run.recording.meta.rank, run) for run in runs)

    @cached_property
    def middle(self) -> float:
        """Median of the peaks, in bytes."""
        return median(row.peak_bytes for row in self.rows)

    @property
    def spread(self) -> float:
        """Highest peak minus lowest, as a share of the median."""
        peaks = [row.peak_bytes for row in self.rows]
        return (max(peaks) - min(peaks)) / self.middle if self.middle else 0.0

    @cached_property
    def outlier(self) -> RankRow | None:
        """The rank whose peak is farthest from the median, of equals the higher: that one runs out of memory first.
        None where all agree."""
        if self.spread <= AGREE:
            return None
        return max(self.rows, key=lambda row: (abs(row.peak_bytes - self.middle), row.peak_bytes, -row.rank))

    @cached_property
    def reference(self) -> RankRow:
        """The rank in the middle: of all but the outlier the one whose peak is nearest to the median."""
        others = [row for row in self.rows if row is not self.outlier] or list(self.rows)
        return min(others, key=lambda row: (abs(row.peak_bytes - self.middle), row.rank))

    def farthest(self, count: int) -> tuple[RankRow, ...]:
        """So many ranks, in order: the one in the middle and those whose peaks are farthest from the median."""
        far = sorted(self.rows, key=lambda row: (row is not self.reference, -abs(row.peak_bytes - self.middle)))
        return tuple(row for row in self.rows if row in far[:count])

    @cached_property
    def diff(self) -> Diff | None:
        """The outlier against the rank in the middle; None where all agree."""
        return Diff(self.reference.run, self.outlier.run) if self.outlier is not None else None

    @cached_property
    def by_category(self) -> tuple[DiffRow, ...]:
        """Where the outlier's difference lies, the largest first; sums to the difference of the peaks."""
        return _largest(self.diff.by_category) if self.diff else ()

    @cached_property
    def by_super_block(self) -> tuple[DiffRow, ...]:
        """The same by super-block; () without layers."""
        return _largest(self.diff.by_super_block) if self.diff else ()


def _largest(rows: Sequence[DiffRow]) -> tuple[DiffRow, ...]:
    found = [row for row in rows if row.difference_bytes]
    return tuple(sorted(found, key=lambda row: -abs(row.difference_bytes)))


def ranks_headline(ranks: Ranks) -> tuple[Line, ...]:
    """The answer in sentences."""
    outlier = ranks.outlier
    if len(ranks.rows) == 1:
        (row,) = ranks.rows
        return (line(f"One rank only: rank {row.rank}, ", _bytes("peak ", row.peak_bytes), "."),)
    if outlier is None:
        spread = f", highest and lowest within {percent_text(ranks.spread)}."
        return (line(f"The {len(ranks.rows)} ranks agree: ", _bytes("peak ", round(ranks.middle)), spread),)
    said = _who(ranks, outlier), _in_what(ranks), _where(ranks), line(_inputs(ranks, outlier))
    return tuple(one for one in said if one.text)


def _bytes(words: str, size: int) -> Part:
    return Part(f"{words}{bytes_text(size)}", None, size)


def _difference(words: str, size: int) -> Part:
    return Part(f"{words} {difference_text(size)}", None, size)


def ranks_sentence(ranks: Ranks) -> str:
    """The answer in short: who stands out, and the usual cause where it is there."""
    outlier = ranks.outlier
    if outlier is None:
        return ranks_headline(ranks)[0].text
    return f"{_who(ranks, outlier).text} {_inputs(ranks, outlier)}".strip()


def ranks_problem(ranks: Ranks) -> Problem | None:
    """The same as a warning; None where no rank stands out."""
    if ranks.outlier is None:
        return None
    high, low = ranks.outlier.peak_bytes, ranks.reference.peak_bytes
    return Problem("rank_stands_out", Severity.warning, ranks_sentence(ranks), sizes=(high, abs(high - low), low))


def _who(ranks: Ranks, outlier: RankRow) -> Line:
    low = ranks.reference.peak_bytes
    difference = outlier.peak_bytes - low
    share = percent_text(abs(difference) / low)
    word = "more" if difference > 0 else "less"
    return line(
        f"Rank {outlier.rank} stands out: ", _bytes("its peak is ", outlier.peak_bytes), ", ",
        _bytes("", abs(difference)), f" ({share}) {word} than ", _bytes(f"rank {ranks.reference.rank}'s ", low), ".",
    )  # fmt: skip


def _in_what(ranks: Ranks) -> Line:
    named = ranks.by_category[:_NAMED]
    rest = sum(row.difference_bytes for row in ranks.by_category[_NAMED:])
    parts = [_difference(row.label, row.difference_bytes) for row in named]
    parts += [_difference("other", rest)] if rest else []
    return line("By category at the peaks: ", *joined(parts), ".") if parts else line()


def _where(ranks: Ranks) -> Line:
    if not ranks.by_super_block:
        return line()
    first = ranks.by_super_block[0]
    return line("The largest part is in ", _difference(f"{first.label}:", first.difference_bytes), ".")


def _inputs(ranks: Ranks, outlier: RankRow) -> str:
    """Ranks with different batches are the usual cause."""
    a, b = (_shape(row) for row in (ranks.reference, outlier))
    if a == b or not (a and b):
        return ""
    return f"Its input is {b}, that of rank {ranks.reference.rank} is {a}."


def _shape(row: RankRow) -> str:
    first = next(iter(row.run.recording.meta.shapes.values()), [])
    return " x ".join(map(str, first))
