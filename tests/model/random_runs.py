"""Runs of random steps, small enough to be worked out the slow way."""

from __future__ import annotations

from hypothesis import strategies as st

from memstrata.viewer.model.run import Run

from .recordings import Step

Moves = list[tuple[int, int]]
"""(slot, bytes): memory is allocated in the slot, or freed if it is in use."""

moves = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 40)), min_size=1, max_size=60)
SLOT = 64


def run_of(what: Moves) -> Run:
    """The run of these moves; a slot is 64 addresses."""
    step, held = Step(), dict[int, int]()
    for time, (slot, size) in enumerate(what):
        address = (slot + 1) * SLOT
        if slot in held:
            step.free(address, held.pop(slot), time * 1000)
        else:
            held[slot] = size
            step.alloc(address, size, time * 1000)
    return step.run()


def piles(what: Moves) -> list[list[tuple[int, int]]]:
    """The slow way: for each position the (allocation, bytes) alive, in the order in which they were made."""
    held, out, made = dict[int, tuple[int, int]](), [[]], 0
    for slot, size in what:
        if slot in held:
            del held[slot]
        else:
            held[slot] = (made, size)
            made += 1
        out.append(sorted(held.values()))
    return out
