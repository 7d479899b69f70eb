"""The allocator's side of one file in 80 columns: is the replay right, what was asked, where free memory is stuck."""

from __future__ import annotations

from memstrata.capture.format.recording import Recording

from ..analysis.allocator.answer import Answer, Question
from ..analysis.allocator.oom import Oom
from ..analysis.allocator.remedies import Change
from ..analysis.allocator.what_if import ALLOCATED_AFRESH
from ..look.units import bytes_text, count_text, percent_text
from .json import runs_of
from .layout import joined, section, table, wrapped
from .text import title

PINNED = 8
MIB = 1 << 20
CATEGORIES = 6


def allocator_text(recording: Recording, name: str, question: Question) -> str:
    """The whole page, every device of the file."""
    lines: list[str] = []
    for run in runs_of(recording, name):
        lines += ["", *_device(Answer(run, question))] if lines else _device(Answer(run, question))
    return joined(lines or [f"{name} lists no device."])


def _device(answer: Answer) -> list[str]:
    lines = wrapped(title(answer.run))
    if answer.refusal:
        return lines + wrapped(answer.refusal)
    lines += wrapped(exactness_text(answer)) + (wrapped(verdict_text(answer)) if answer.what_if else [])
    lines += _reserved(answer) + _free(answer) + _pinned(answer)
    for oom in answer.ooms:
        lines += _oom(answer, oom) + _changes(answer, oom)
    return lines + _notes(answer)


def exactness_text(answer: Answer) -> str:
    """How far the model can be trusted on this very trace."""
    checked = answer.verification
    if not answer.has_allocator:
        return (
            f"There is no CUDA allocator in this file: its {count_text(checked.allocations, 'allocation')} are played"
            " through a stock one (estimate, kernels: cpu)."
        )
    if not checked.allocations:
        return "There is no history of allocations: only the state at the end can be looked at."
    whole = "Replayed exactly" if checked.exact else "Not reproduced"
    text = (
        f"{whole}: {checked.exact_matches:,} of {checked.allocations:,} addresses,"
        f" {checked.segment_matches:,} of {checked.segment_events:,} allocator segment events."
    )
    if checked.first_mismatch:
        text += f" First difference at event {checked.first_mismatch['event']:,}: {checked.first_mismatch['why']}."
    failed = answer.retries[1]
    if failed:
        text += f" cudaMalloc failed and the cache was emptied {count_text(failed, 'time')}."
    return text


def verdict_text(answer: Answer) -> str:
    """`On 80.0 GiB with expandable_segments:True: fits, with 3.10 GiB to spare (estimate).`"""
    done = answer.what_if
    assert done is not None
    question, played = answer.question, done.replay
    parts = [f"with {played.config.text or 'the stock settings'}"]
    parts += [f"on {bytes_text(question.capacity)}"] if question.capacity is not None else []
    parts += [f"the cache emptied at event {event:,}" for event in question.empty_cache_at]
    peak = bytes_text(played.peak_reserved_bytes)
    if played.oom is not None:
        said = f"runs out of memory {_where(answer, int(played.sequence.event[played.oom]))}"
    elif question.capacity is not None:
        said = f"fits, {bytes_text(question.capacity - played.peak_reserved_bytes)} to spare, at most {peak} reserved"
    else:
        said = f"at most {peak} reserved"
    labels = [*(["estimate"] if answer.estimates else []), *(["unverified"] if answer.unverified else [])]
    return f"{_upper(', '.join(parts))}: {said}{label_text(labels)}.{_need_text(answer)}"


def _where(answer: Answer, event: int) -> str:
    """`at event 4,052, forward`."""
    place = answer.place_text(event)
    return f"at event {event:,}{f', {place}' if place else ''}" if event >= 0 else place


def _need_text(answer: Answer) -> str:
    """What would have been enough, after a verdict; in whole MiB as the option takes it."""
    if not answer.ooms:
        return ""
    oom = answer.ooms[0]
    begins, needed = oom.begins_with_bytes, oom.needed_bytes
    said = "" if begins is None else f" What is alive before the first event, {bytes_text(begins)}, does not fit."
    if needed is not None:
        whole = "the whole trace" if answer.run.n_events else "all of it"
        said += f" With {bytes_text(needed)} (--capacity {-(-needed // MIB)}MiB) {whole} passes."
    return said


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def label_text(labels: list[str]) -> str:
    """` (estimate, unverified)`; empty for none."""
    return f" ({', '.join(labels)})" if labels else ""


def _reserved(answer: Answer) -> list[str]:
    run = answer.run
    replay = answer.played
    own = run.reserved
    recorded = ("-", "-", "-") if own is None else _three(int(own[0]), int(own.max()), int(own[-1]))
    head = ("", "at start", "highest", "at end")
    told = "what-if" if answer.question.is_what_if else "replayed"
    replayed = _three(int(replay.reserved[0]), replay.peak_reserved_bytes, int(replay.reserved[-1]))
    blocks = replay.allocated
    rows = [
        ("reserved, recorded", *recorded),
        (f"reserved, {told}{label_text(['unverified'] if answer.unverified else [])}", *replayed),
        (f"in blocks, {told}", *_three(int(blocks[0]), int(blocks.max()), int(blocks[-1]))),
    ]
    return section("Reserved memory", table(head, rows))


def _three(start: int, highest: int, end: int) -> tuple[str, str, str]:
    return bytes_text(start), bytes_text(highest), bytes_text(end)


def _free(answer: Answer) -> list[str]:
    parts = answer.fragmentation
    total = parts.reserved_bytes
    if not total:
        return []
    rows = [
        ("in blocks (rounding included)", parts.allocated_bytes),
        ("free, emptying the cache gives it back", parts.returnable_bytes),
        ("free, kept by private pools", parts.private_bytes),
        ("free, but kept by something alive", parts.pinned_bytes),
        ("reserved", total),
    ]
    lines = table(
        ("", "bytes", "share"),
        [(name, bytes_text(n), percent_text(n / total)) for name, n in rows if n or "private" not in name],
    )
    when = f"event {answer.peak_event:,}" if answer.peak_event >= 0 else "the start"
    lines += wrapped(f"largest free block: {bytes_text(parts.largest_free_bytes)}", indent="  ")
    return section(f"At the highest reserved bytes ({when})", lines)


def _pinned(answer: Answer) -> list[str]:
    parts = answer.fragmentation.pinned
    rows = []
    for part in parts[:PINNED]:
        kept_by, held = answer.pins_text(part.pins)
        rows.append((kept_by, bytes_text(held), bytes_text(part.free_bytes), bytes_text(part.returned_bytes)))
    if parts[PINNED:]:
        rest = sum(part.free_bytes for part in parts[PINNED:])
        rows.append((f"{len(parts) - PINNED:,} others", "", bytes_text(rest), ""))
    if not rows:
        return []
    return section("Mostly free, and what keeps them", table(("kept by", "its bytes", "free", "would return"), rows))


def _oom(answer: Answer, oom: Oom) -> list[str]:
    rows = [
        ("requested", oom.requested_bytes), ("asked of cudaMalloc", oom.asked_bytes),
        ("largest free block for it", oom.largest_free_bytes), ("free in its pool and stream", oom.usable_free_bytes),
        ("free inside the reserved memory", oom.free_bytes), ("reserved", oom.reserved_bytes),
    ]  # fmt: skip
    rows += [("free on the device", oom.device_free_bytes)] if oom.device_free_bytes is not None else []
    rows += [("the allocator may reserve", oom.capacity_bytes)] if oom.capacity_bytes is not None else []
    rows += [(f"{alive_title(oom)}: {name}", size) for name, size in oom.alive[:CATEGORIES]]
    where = answer.place_text(oom.event)
    lines = wrapped(f"in {answer.stack_text(oom.stack)}{f', {where}' if where else ''}", indent="  ")
    lines += table(("", "bytes"), [(name, bytes_text(size)) for name, size in rows])
    when = f"at event {oom.event:,}" if oom.event >= 0 else "before the first event"
    kind = "predicted" if answer.what_if else "recorded"
    return section(f"Out of memory {when} ({kind})", lines)


def alive_title(oom: Oom) -> str:
    """What stands before a category of what lay in the reserved memory."""
    return "alive" if oom.begins_with_bytes is None else "placed by then"


def _changes(answer: Answer, oom: Oom) -> list[str]:
    rows = [
        (f"{c.what}{label_text(['unverified'] if c.unverified else [])}", runs_out_text(c),
         bytes_text(c.peak_reserved_bytes))
        for c in oom.changes
    ]  # fmt: skip
    head = ("change", "out of memory", "most reserved")
    return section(changes_title(answer), table(head, rows)) if rows else []


def changes_title(answer: Answer) -> str:
    """What the table of changes is about. What follows a recorded failure is not what would have followed without."""
    how = "the whole trace replayed" if answer.what_if else "replayed up to there from an empty allocator"
    return f"One change at a time, {how} (estimate)"


def runs_out_text(change: Change) -> str:
    """Where memory runs out with a change."""
    if change.runs_out_at is None:
        return "no"
    return f"at event {change.runs_out_at:,}" if change.runs_out_at >= 0 else "at the start"


def _notes(answer: Answer) -> list[str]:
    return section("Notes", [text for note in notes_of(answer) for text in wrapped(note, indent="  ")])


def notes_of(answer: Answer) -> list[str]:
    """What is not measured, and what no real trace has confirmed."""
    notes = list(answer.estimates)
    tried = answer.what_if is not None and any(oom.changes for oom in answer.ooms)
    if tried and ALLOCATED_AFRESH not in notes and answer.known.state.reserved_bytes:
        notes.append(f"With other settings: {ALLOCATED_AFRESH[:1].lower()}{ALLOCATED_AFRESH[1:]}")
    if answer.unverified:
        notes.append(f"unverified: no real trace has confirmed {', '.join(answer.unverified)} in this replay.")
    return notes
