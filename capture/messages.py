"""What the recorder says to people: one sentence at a time, on stderr."""

from __future__ import annotations

import sys

from .distributed import place


def say(text: str) -> None:
    """One line on stderr, with the rank where it is not the only or the first one."""
    if sys.stderr is None:
        return
    here = place(named=False)
    who = "" if here.alone or here.rank == 0 else f"rank {here.rank}: "
    try:
        print(f"memstrata: {who}{text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # stderr is closed: nobody is there to be told


def sentence(error: BaseException) -> str:
    """What an exception says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def counted(number: int, noun: str) -> str:
    """`1 step`, `1,437 steps`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
