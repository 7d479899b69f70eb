"""The allocator's side of every device of a file as a section of a page: what is reserved, in which pools and streams,
what of it is free, what keeps it, and where memory ran out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import Category

from ..analysis.allocator.answer import Answer, Question
from ..analysis.allocator.fragmentation import Fragmentation
from ..analysis.allocator.history import Layout
from ..analysis.allocator.kinds import kinds_of, largest_free, layout_of
from ..analysis.allocator.oom import Oom
from ..look.units import count_text
from ..look.words import category_text
from ..model.said import Said, quiet
from .allocator_text import (
    alive_title,
    changes_title,
    exactness_text,
    label_text,
    notes_of,
    runs_out_text,
    verdict_text,
)
from .html_page import (
    Bar,
    bars_html,
    category_html,
    said_html,
    section_html,
    share_html,
    size_html,
    table_html,
    told_html,
)
from .json import runs_of
from .layout import markup
from .text import title

RANGES = 24
"""Allocator segments that get a row of their own; the others are summed up."""
PINNED = 30
FINEST = 2
"""Thousandths of a range below which neighbouring blocks are drawn as one."""


def allocator_html(recording: Recording, name: str, said: Said = quiet) -> list[str]:
    """The allocator's side of every device. `said(part)` is told how far the replay is, and calls it off by raising."""
    runs = runs_of(recording, name)
    parts: list[str] = []
    for number, run in enumerate(runs):
        answer = Answer(run, Question())
        if not answer.refusal:
            answer.work_out(lambda done, number=number: said((number + done) / len(runs)))  # type: ignore[misc]
        body = _device(answer, 4 if len(runs) > 1 else 3)
        parts += section_html(title(run), *body, level=3) if len(runs) > 1 else body
    return section_html("Allocator", *parts)


def _device(answer: Answer, level: int) -> list[str]:
    end = answer.recorded_end
    if answer.refusal:
        return [said_html([answer.refusal], ""), *_layout(level, answer, end, "As recorded at the end of the file")]
    parts = [said_html([exactness_text(answer)], "")]
    if answer.what_if:
        parts.append(f"<p>{told_html(verdict_text(answer), [answer.reserved_peak_bytes])}</p>")
    when = f"event {answer.peak_event:,}" if answer.peak_event >= 0 else "the start"
    highest = f"the highest reserved bytes ({when})"
    parts += _reserved(level, answer) + _free(level, answer.fragmentation, f"At {highest}")
    parts += _layout(level, answer, layout_of(answer.peak_state), f"At {highest}") + _pinned(level, answer)
    if len(answer.played.sequence):  # else the end is the state above
        parts += _layout(level, answer, end, "As recorded at the end of the file", with_ranges=False)
    for oom in answer.ooms:
        parts += _oom(level, answer, oom)
    return parts + section_html("Notes", said_html(notes_of(answer)), level=level)


def _reserved(level: int, answer: Answer) -> list[str]:
    own, replay = answer.run.reserved, answer.played
    recorded = ["-"] * 3 if own is None else _three(own)
    mark = label_text(["unverified"] if answer.unverified else [])
    rows = [
        ("reserved, recorded", *recorded),
        (f"reserved, replayed{mark}", *_three(replay.reserved, replay.peak_reserved_bytes)),
        ("in blocks, replayed", *_three(replay.allocated)),
    ]
    return section_html("Reserved memory", table_html(("", "at start", "highest", "at end"), rows), level=level)


def _three(curve: np.ndarray, highest: int | None = None) -> list[str]:
    return [size_html(int(n)) for n in (curve[0], curve.max() if highest is None else highest, curve[-1])]


def _free(level: int, parts: Fragmentation, name: str) -> list[str]:
    """The reserved bytes by what they are good for."""
    total, at = parts.reserved_bytes, 0
    if not total:
        return []
    rows = []
    for text, size, kind in (
        ("in blocks (rounding included)", parts.allocated_bytes, "used"),
        ("free, emptying the cache gives it back", parts.returnable_bytes, "less"),
        ("free, kept by private pools", parts.private_bytes, "rest"),
        ("free, but kept by something alive", parts.pinned_bytes, "more"),
    ):
        if size or "private" not in text:
            bar = bars_html([(kind, at, at + size, text)] if size else [], 0, total)
            rows.append((f'<i class="{kind}"></i>{text}', bar, size_html(size), share_html(size, total)))
            at += size
    rows.append(("reserved", "", size_html(total), share_html(total, total)))
    table = table_html(("", "", "bytes", "share"), rows, sums=1, bar=1)
    return section_html(name, table, f"<p>Largest free block: {size_html(parts.largest_free_bytes)}.</p>", level=level)


def _layout(level: int, answer: Answer, layout: Layout | None, when: str, with_ranges: bool = True) -> list[str]:
    """The reserved memory by pool and stream, and its largest allocator segments."""
    if layout is None or not len(layout.bytes):
        return []
    rows = []
    for kind in kinds_of(layout):
        bars: list[Bar] = [("used", 0, kind.used_bytes, "in blocks"),
                           ("free", kind.used_bytes, kind.reserved_bytes, "free")]  # fmt: skip
        expandable = f" ({kind.expandable:,} expandable)" if kind.expandable else ""
        rows.append((
            markup(answer.kind_text(kind.pool, kind.is_small, kind.stream)), f"{kind.ranges:,}{expandable}",
            size_html(kind.reserved_bytes), size_html(kind.used_bytes), size_html(kind.free_bytes),
            share_html(kind.free_bytes, kind.reserved_bytes), size_html(kind.largest_free_bytes),
            bars_html(bars, 0, layout.reserved_bytes),
        ))  # fmt: skip
    used = int(layout.block_bytes.sum())
    whole, largest = layout.reserved_bytes, int(largest_free(layout).max())
    rows.append((
        "all", f"{len(layout.bytes):,}", size_html(whole), size_html(used), size_html(whole - used),
        share_html(whole - used, whole), size_html(largest), "",
    ))  # fmt: skip
    head = ("pool and stream", "segments", "reserved", "in blocks", "free", "share", "largest free", "")
    key = '<p class="key"><span><i class="used"></i>in blocks</span> <span><i class="free"></i>free</span></p>'
    pools = section_html(f"Pools and streams: {when[:1].lower()}{when[1:]}", table_html(head, rows, sums=1, bar=7), key,
                         level=level)  # fmt: skip
    return pools + (_ranges(level, answer, layout, when) if with_ranges else [])


def _ranges(level: int, answer: Answer, layout: Layout, when: str) -> list[str]:
    """The largest ranges, each with its blocks where they lie in it."""
    order = np.argsort(-layout.bytes, kind="stable").tolist()
    counts = np.bincount(layout.home, minlength=len(layout.bytes)).tolist()
    largest, free = largest_free(layout), layout.free_bytes
    rows = []
    for row in order[:RANGES]:
        name = answer.kind_text(int(layout.pool[row]), bool(layout.is_small[row]), int(layout.stream[row]))
        size = int(layout.bytes[row])
        rows.append((
            f"<code>0x{int(layout.address[row]):x}</code>", markup(name), size_html(size), count_text(counts[row]),
            size_html(int(free[row])), size_html(int(largest[row])),
            bars_html([("free", 0, size, "free"), *_blocks(answer, layout, row)], 0, size),
        ))  # fmt: skip
    if rest := order[RANGES:]:
        sums = (int(layout.bytes[rest].sum()), int(free[rest].sum()), int(largest[rest].max()))
        rows.append((
            f"other ({count_text(len(rest))})", "", size_html(sums[0]), count_text(sum(counts[i] for i in rest)),
            size_html(sums[1]), size_html(sums[2]), "",
        ))  # fmt: skip
    head = ("address", "pool and stream", "bytes", "blocks", "free", "largest free", "blocks by category")
    ranges = "Ranges of allocator segments" if layout.expandable.any() else "Allocator segments"
    body = table_html(head, rows, left=(1,), bar=6) + _key(answer, layout, order[:RANGES])
    return section_html(f"{ranges}, the largest first: {when[:1].lower()}{when[1:]}", body, level=level)


def _blocks(answer: Answer, layout: Layout, row: int) -> list[Bar]:
    """The blocks of a range in the colours of their categories; neighbours too fine to tell apart are one bar."""
    first, last = np.searchsorted(layout.home, [row, row + 1]).tolist()
    start, finest = int(layout.address[row]), int(layout.bytes[row]) * FINEST / 1000
    bars: list[Bar] = []
    for number, address, size in zip(
        layout.number[first:last].tolist(), layout.block_address[first:last].tolist(),
        layout.block_bytes[first:last].tolist(), strict=True,
    ):  # fmt: skip
        kind, at = _category(answer, number), address - start
        name = _label(answer, kind)
        if bars and at - bars[-1][2] < finest and (bars[-1][0] == f"c{kind}" or size < finest):
            bars[-1] = (bars[-1][0], bars[-1][1], at + size, bars[-1][3])
        else:
            bars.append((f"c{kind}", at, at + size, name))
    return bars


def _category(answer: Answer, number: int) -> int:
    """Of the allocation that holds a block."""
    known = answer.run.attribution.category
    return int(known[number]) if 0 <= number < len(known) else int(Category.unattributed)


def _label(answer: Answer, category: int) -> str:
    """The name of a category; that of a plain snapshot is inferred."""
    guessed = answer.run.inferred is not None and category != Category.unattributed
    return category_text(category) + " (inferred)" * guessed


def _key(answer: Answer, layout: Layout, ranges: list[int]) -> str:
    """The colours of the blocks in these ranges."""
    inside = np.isin(layout.home, ranges)
    found = sorted({_category(answer, number) for number in layout.number[inside].tolist()})
    names = [f"<span>{category_html(category, _label(answer, category))}</span>" for category in found]
    return f'<p class="key">{" ".join(names)} <span><i class="free"></i>free</span></p>'


def _pinned(level: int, answer: Answer) -> list[str]:
    """Mostly free ranges and what is alive in each."""
    parts = answer.fragmentation.pinned
    rows = []
    for part in parts[:PINNED]:
        kept_by, held = answer.pins_text(part.pins)
        rows.append((
            markup(kept_by), size_html(held), size_html(part.free_bytes), size_html(part.returned_bytes),
            bars_html([("used", 0, part.bytes - part.free_bytes, "in blocks")], 0, part.bytes),
        ))  # fmt: skip
    if rest := parts[PINNED:]:
        rows.append((f"{len(rest):,} others", "", size_html(sum(part.free_bytes for part in rest)), "", ""))
    table = table_html(("kept by", "its bytes", "free", "would return", "in blocks"), rows, bar=4)
    return section_html("Mostly free, and what keeps them", table, level=level)


def _oom(level: int, answer: Answer, oom: Oom) -> list[str]:
    """What was asked for where memory ran out, what there was, and what would have passed."""
    rows: Sequence[tuple[str, int | None]] = (
        ("requested", oom.requested_bytes), ("asked of cudaMalloc", oom.asked_bytes),
        ("largest free block for it", oom.largest_free_bytes), ("free in its pool and stream", oom.usable_free_bytes),
        ("free inside the reserved memory", oom.free_bytes), ("reserved", oom.reserved_bytes),
        ("free on the device", oom.device_free_bytes), ("the allocator may reserve", oom.capacity_bytes),
        *((f"{alive_title(oom)}: {name}", size) for name, size in oom.alive),
    )  # fmt: skip
    where = answer.place_text(oom.event)
    frames = [f"{name}  {file}:{line}" if file else name
              for name, file, line in answer.run.recording.stack_frames(oom.stack)]  # fmt: skip
    said = markup(f"In {answer.stack_text(oom.stack)}{f', {where}' if where else ''}.")
    stack = (
        f"<details><summary>{said}</summary><pre>{chr(10).join(map(markup, frames))}</pre></details>"
        if frames
        else said
    )
    when = f"at event {oom.event:,}" if oom.event >= 0 else "before the first event"
    kind = "predicted" if answer.what_if else "recorded"
    table = table_html(("", "bytes"), [(markup(name), size_html(size)) for name, size in rows if size is not None])
    changes = [
        (told_html(f"{c.what}{label_text(['unverified'] * bool(c.unverified))}", [c.more_bytes or 0]),
         runs_out_text(c), size_html(c.peak_reserved_bytes))
        for c in oom.changes
    ]  # fmt: skip
    tried = f"<p>{markup(changes_title(answer))}:</p>"
    more = [tried, table_html(("change", "out of memory", "most reserved"), changes)] if changes else []
    return section_html(f"Out of memory {when} ({kind})", stack, table, *more, level=level)
