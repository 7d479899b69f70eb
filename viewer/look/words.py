"""The words shown to people for what the format enumerates, each with one sentence for a tooltip or a manual."""

from __future__ import annotations

from collections.abc import Iterable

from memstrata.capture.format.schema import Category, Fate, Phase, Severity

OUTSIDE_LAYERS = "outside layers"
RESERVED = "reserved"
PREDICTION = "prediction"
WHAT_IF = "with the plan tried"

CATEGORY_MEANING: dict[Category, str] = {
    Category.parameter: "weights of the model",
    Category.buffer: "state of the model that is not trained",
    Category.gradient: "gradients of parameters, while they are held",
    Category.optimizer_state: "what the optimizer keeps from step to step",
    Category.activation: "kept by forward for backward, segment boundaries included",
    Category.rematerialized: "made again in backward by a checkpoint",
    Category.selective_cache: "kept by a selective checkpoint instead of being made again",
    Category.input: "tensors passed to the step",
    Category.communication: "buffers of collectives and gathered shards",
    Category.autocast_cache: "weights cast by autocast, held until it exits",
    Category.workspace: "scratch memory of a math library",
    Category.temporary: "made and freed inside the step without being kept for backward",
    Category.unattributed: "nothing recorded explains it",
}

FATE_MEANING: dict[Fate, str] = {
    Fate.kept: "held from forward to backward",
    Fate.dropped: "thrown away by a checkpoint",
    Fate.rematerialized: "made again in backward",
    Fate.offloaded: "moved to another device until backward",
}


def one_device_text(done: str, device: str, others: Iterable[str]) -> str:
    """`Checked: cuda:1, whose peak is the highest. Not checked: cuda:0.`"""
    return f"{done}: {device}, whose peak is the highest. Not {done.lower()}: {', '.join(others)}."


def category_text(category: Category | int) -> str:
    """`optimizer state`."""
    return Category(category).label


def category_title(category: Category | int, inferred_bytes: int, all_bytes: int) -> str:
    """`activation (inferred)`, where that is what all its bytes are; `activation (partly inferred)`."""
    label = category_text(category)
    if not inferred_bytes:
        return label
    return f"{label} (inferred)" if inferred_bytes == all_bytes else f"{label} (partly inferred)"


def category_of(label: str) -> Category:
    """The category with this word; KeyError if there is none."""
    return Category[label.replace(" ", "_")]


def fate_text(fate: Fate | int) -> str:
    """`kept`."""
    return Fate(fate).name


def phase_text(phase: Phase | int) -> str:
    """`forward`; `other` is what lies outside forward, backward and optimizer."""
    return Phase(phase).name


def severity_text(severity: Severity | int) -> str:
    """`warning`."""
    return Severity(severity).name


def sentence_list(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
