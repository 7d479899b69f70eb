"""Colours as `#rrggbb` and hatches by name: one colour per category everywhere, for light and dark backgrounds.

Chosen so that categories which lie next to each other in a stack stay apart (CIEDE2000 of 18 and more) with normal
sight and with simulated protanopia and deuteranopia, and all others by 10 and more.
"""

from __future__ import annotations

from memstrata.capture.format.schema import Category, Phase

BACKGROUND = {False: "#ffffff", True: "#1e1f22"}
"""By `dark`."""

_LIGHT: dict[Category, str] = {
    Category.parameter: "#1b2a6b",
    Category.buffer: "#80d4ee",
    Category.gradient: "#2468bd",
    Category.optimizer_state: "#1f8a78",
    Category.activation: "#cc8016",
    Category.rematerialized: "#8c2a2c",
    Category.selective_cache: "#d8889c",
    Category.input: "#eee87c",
    Category.communication: "#c278b4",
    Category.autocast_cache: "#9a8a5c",
    Category.workspace: "#5b2340",
    Category.temporary: "#8aa2f5",
    Category.unattributed: "#c0c2c6",
}

_DARK: dict[Category, str] = {
    Category.parameter: "#3158b9",
    Category.buffer: "#c9f0c7",
    Category.gradient: "#88e2f0",
    Category.optimizer_state: "#43b897",
    Category.activation: "#cd8212",
    Category.rematerialized: "#b44b5f",
    Category.selective_cache: "#101074",
    Category.input: "#f0f089",
    Category.communication: "#b497b7",
    Category.autocast_cache: "#a6571e",
    Category.workspace: "#84426c",
    Category.temporary: "#6497f0",
    Category.unattributed: "#7d8187",
}

HATCHES: dict[Category, str] = {Category.rematerialized: "diagonal", Category.unattributed: "dots"}
"""Categories that are hatched over their colour; recompute is always diagonal."""

_PHASE_LIGHT: dict[Phase, str] = {
    Phase.forward: "#8aa4bf",
    Phase.recompute: "#6d8299",
    Phase.backward: "#46607a",
    Phase.optimizer: "#1f2f3f",
    Phase.other: "#c0c2c6",
}

_PHASE_DARK: dict[Phase, str] = {
    Phase.forward: "#a3bcd6",
    Phase.recompute: "#7f96ad",
    Phase.backward: "#587491",
    Phase.optimizer: "#dbe4ed",
    Phase.other: "#7d8187",
}

RECOMPUTE_HATCH = "diagonal"

RUN_FILL = {False: ("#a9b0ba", "#2f6fc0"), True: ("#8f959e", "#4d8fe0")}
"""Areas of the run before and of the run after, by `dark`."""
RUN_LINE = {False: ("#565c66", "#2f6fc0"), True: ("#d7dbe0", "#4d8fe0")}
"""The lines over them: that of the run before stays visible in front of the other's area."""

_RAMP = ("#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725")
_RAMP_SPAN = {False: (0.0, 0.9), True: (0.2, 1.0)}  # the ends that would sink into the background are left out

_CYCLE = (
    Category.gradient,
    Category.activation,
    Category.optimizer_state,
    Category.rematerialized,
    Category.temporary,
    Category.communication,
    Category.buffer,
    Category.parameter,
    Category.autocast_cache,
    Category.workspace,
)
"""Order in which unordered groups (frames, streams) take colours; those for input and unattributed stay out."""


def category_colour(category: Category | int, dark: bool = False) -> str:
    """The one colour of a category."""
    return (_DARK if dark else _LIGHT)[Category(category)]


def hatch(category: Category | int) -> str:
    """`diagonal`, `dots`, or the empty string for a plain fill."""
    return HATCHES.get(Category(category), "")


def phase_colour(phase: Phase | int, dark: bool = False) -> str:
    """Slates told apart by lightness, so that no phase wears a category's colour; recompute is hatched as well."""
    return (_PHASE_DARK if dark else _PHASE_LIGHT)[Phase(phase)]


def neutral(dark: bool = False) -> str:
    """Grey for what belongs to no layer or to no group."""
    return category_colour(Category.unattributed, dark)


def further_runs(count: int, dark: bool = False) -> tuple[str, ...]:
    """Colours of lines beside those of the two runs that are compared."""
    return cycle(count + 1, dark)[1:]  # the first is too near to that of the run after


def ramp(count: int, dark: bool = False) -> tuple[str, ...]:
    """`count` colours in order for super-blocks or layers: lightness rises evenly, so any sight can follow it."""
    low, high = _RAMP_SPAN[dark]
    steps = [low + (high - low) * (i / (count - 1) if count > 1 else 0.5) for i in range(count)]
    return tuple(_mix(step) for step in steps)


def cycle(count: int, dark: bool = False) -> tuple[str, ...]:
    """`count` colours for groups without an order; they repeat after ten."""
    return tuple(category_colour(_CYCLE[i % len(_CYCLE)], dark) for i in range(count))


def channels(colour: str) -> tuple[int, int, int]:
    """`#rrggbb` as three numbers from 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def text_on(colour: str) -> str:
    """Black or white, whichever has the higher contrast with this fill."""
    return "#000000" if contrast(colour, "#000000") >= contrast(colour, "#ffffff") else "#ffffff"


def contrast(one: str, other: str) -> float:
    """Contrast of two colours as WCAG reckons it: 1 for the same, 21 for black on white."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    """From 0 for black to 1 for white."""
    parts = (value / 255 for value in channels(colour))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mix(step: float) -> str:
    place = min(max(step, 0.0), 1.0) * (len(_RAMP) - 1)
    index = min(int(place), len(_RAMP) - 2)
    low, high = channels(_RAMP[index]), channels(_RAMP[index + 1])
    mixed = (round(a + (b - a) * (place - index)) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)
