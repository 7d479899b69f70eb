"""How the command answers: on stdout, as text, JSON or HTML; what it cannot do is a `UserError`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any


class UserError(Exception):
    """What the user can put right; the message is one sentence."""


def print_text(text: str) -> None:
    """To stdout at once, so that a closed pipe shows here; what its encoding lacks becomes `?`."""
    if sys.stdout is None:  # started with stdout closed
        raise UserError("there is nowhere to print to: standard output is closed")
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def print_json(value: dict[str, Any]) -> None:
    """One object; numbers that are not finite become null."""
    from .report.plain_json import json_text

    print_text(json_text(value))


def say(
    options: argparse.Namespace,
    as_json: Callable[[], Any],
    as_text: Callable[[], str],
    as_html: Callable[[], str] | None = None,
) -> int:
    """Print what `--json` or, where there is one, `--html` asks for, or the page in text."""
    if options.json:
        print_json(as_json())
    else:
        print_text(as_html() if as_html is not None and options.html else as_text())
    return 0


class Patience:
    """Tells on stderr, once, what the command is busy with, where that takes longer than a few seconds."""

    SECONDS = 3.0

    def __init__(self, sentence: str) -> None:
        self.sentence, self._begun, self._told = sentence, time.monotonic(), False

    def __call__(self, done: float) -> None:
        """That the work is so far."""
        if not self._told and time.monotonic() - self._begun > self.SECONDS:
            self._told = True
            print(f"memstrata: {self.sentence}", file=sys.stderr)


def refuse_own(output: str, files: Iterable[str | os.PathLike[str]]) -> None:
    """UserError if what is to be written is one of the files it is made of: that one would be lost."""
    from .model.called import is_same_file

    for file in files:
        if is_same_file(output, file):
            raise UserError(f"{output} is the file to be read: write to another one")


def name_of(path: str) -> str:
    """What a file is called in answers."""
    return os.path.basename(path) or path
