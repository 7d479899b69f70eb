"""The ways in which a pickle is not a plain one, each a sentence about the file."""

from __future__ import annotations

import pickletools

_BUILDING = "it asks to build objects, which no memory snapshot does"


class PickleProblem(Exception):
    """The text is the sentence without the file's name in front of it."""


def cut_short() -> PickleProblem:
    """The file ends before the pickle does."""
    return PickleProblem("is cut short: the snapshot in it does not end.")


def damaged(at: int, what: str) -> PickleProblem:
    """Something that no pickle writer writes, at a byte."""
    return PickleProblem(f"is damaged at byte {at:,}: {what}.")


def outside(what: str, op: int, at: int) -> PickleProblem:
    """The file names something that is not in it."""
    rest = "and a memory snapshot names nothing outside itself"
    return PickleProblem(f"was not opened: it asks for {plain(what)} ({name_of(op)} at byte {at:,}), {rest}.")


def refused(op: int, at: int) -> PickleProblem:
    """An instruction that no snapshot holds, or none at all."""
    name = name_of(op)
    if name is None:
        return damaged(at, "it is not a pickle from here on")
    return PickleProblem(f"was not opened: {_BUILDING} ({name} at byte {at:,}).")


def beyond(what: str) -> PickleProblem:
    """A limit is exceeded."""
    return PickleProblem(f"was not opened: {what}, more than a memory snapshot can hold.")


def name_of(op: int) -> str | None:
    """The name Python gives an instruction."""
    return next((known.name for known in pickletools.opcodes if known.code == chr(op)), None)


def cause(error: BaseException) -> str:
    """What a wrong instruction raised, as part of a sentence."""
    if type(error) in (ValueError, TypeError, KeyError) and error.args and " " in str(error.args[0]):
        return plain(str(error.args[0])).strip(". ")
    return "it is not a pickle of plain values from here on"


def plain(text: str) -> str:
    """Part of a file's text as part of a sentence."""
    printable = " ".join("".join(c if c.isprintable() else " " for c in text[:400]).split())
    return printable if len(printable) <= 100 else printable[:97] + "..."
