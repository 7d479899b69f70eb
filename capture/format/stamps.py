"""The text that the recorder has torch stamp on allocations: which module ran, in which phase, on that very thread.

`memstrata: forward layers.3.mlp`, after the user's own text if there is one: `warm-up | memstrata: backward head`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .schema import Phase

_OURS = "memstrata: "
_BETWEEN = " | "


@dataclass(frozen=True)
class Stamp:
    """What a stamped text says: `user` is the program's own part, `phase` None where nothing of ours is in it."""

    user: str
    phase: Phase | None = None
    place: str = ""

    @property
    def text(self) -> str:
        """The text as it is stamped."""
        if self.phase is None:
            return self.user
        ours = f"{_OURS}{self.phase.name} {self.place}".rstrip()
        return f"{self.user}{_BETWEEN}{ours}" if self.user else ours


def parse(text: str) -> Stamp:
    """The parts of a stamped text; any text is legal."""
    user, ours = text, ""
    if text.startswith(_OURS):
        user, ours = "", text[len(_OURS) :]
    elif _BETWEEN + _OURS in text:
        user, _, ours = text.rpartition(_BETWEEN + _OURS)
    phase, _, place = ours.partition(" ")
    return Stamp(user, Phase[phase], place) if phase in Phase.__members__ else Stamp(text)
