"""One sentence in plain words for each residual item: what the tensors are, how many and how large in a layer, and
which kernel or setting would not keep them. A rule looks at the op, the dtype and the module, never at a name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from memstrata.capture.format.schema import NONE

from ..look.units import bytes_text, count_text, difference_text
from .kept import Kept
from .matching import VIEWS, Pair, Reason
from .places import Places

_ACTIVATIONS = frozenset(("silu", "gelu", "sigmoid", "tanh", "relu", "mish", "softplus", "elu", "leaky relu", "mul"))
_LOSS = frozenset(("log softmax", "nll loss", "cross entropy loss", "softmax"))
_NO_GRADIENT = frozenset(("int64", "int32", "uint8", "bool"))
_MASKS = frozenset(("bool", "uint8"))
_RECURRENT = re.compile(r"delta|linear_?attention|mamba|ssm|retention|rwkv", re.IGNORECASE)
_FUNCTION = re.compile(r"silu|gelu|relu|sigmoid|tanh|swish|mish|activation", re.IGNORECASE)
"""Classes of activation functions."""


NOT_COUNTED = "the rules of shapes do not count it"


@dataclass(frozen=True)
class Seen:
    """What the other pairs of a residual say about one."""

    relu: frozenset[str]
    """Output projections that keep what a ReLU put out."""
    crossed: frozenset[str]
    """Attention whose packed projection puts out no tensor of the size that its own rows give it."""


def seen_in(pairs: Iterable[Pair]) -> Seen:
    """Of all pairs of a residual."""
    relu, crossed = set(), set()
    for pair in pairs:
        if pair.step and pair.kept and pair.kept.op == "relu":
            relu.add(pair.step.term.module)
        if pair.step and pair.kept is None and pair.step.term.name.endswith("in_proj output"):
            crossed.add(pair.step.term.module)
    return Seen(frozenset(relu), frozenset(crossed))


def explained(group: list[Pair], places: Places, dtype: str, seen: Seen) -> str:
    """The sentence for these pairs, which share op, dtype, place and reason."""
    reason, step = group[0].reason, group[0].step
    if reason is Reason.absent and step and step.term.module in seen.crossed and "in_proj" in step.term.name:
        return _CROSSED
    if reason is Reason.absent and step and _before_relu(group[0], seen.relu):
        return "a ReLU keeps its output, which is the next projection's input, and nothing keeps what goes into it"
    if reason in _OF_ABSENT:
        return _OF_ABSENT[reason]
    kept = max((pair.kept for pair in group if pair.kept is not None), key=lambda one: one.bytes)
    what, advice = _words(kept, reason, places, dtype)
    if kept.module in seen.crossed and kept.op in VIEWS:
        what, advice = f"queries, keys and values of cross-attention inside {places.class_of(kept.module)}", _TWO_INPUTS
    return f"{what}{_amount(group)}{f': {advice}' if advice else ''}"


_TWO_INPUTS = "its packed projection is applied to two inputs, each with its own rows"
_CROSSED = f"cross-attention: {_TWO_INPUTS}, so that two tensors of other sizes stand in the place of this one"
_OF_ABSENT = {
    Reason.next_input: "counted twice by shapes: a layer's output is the input of what comes next, one storage",
    Reason.running_input: "counted twice by shapes: the running segment's input is its boundary and its first tensor",
    Reason.model_input: "it is the input of the step, which counts as input and not as activation",
    Reason.handed_on: "shapes count the last layer's output, and at this moment nothing behind the layers keeps it",
    Reason.absent: "shapes count it, and no storage of its size was kept there",
}


def _before_relu(pair: Pair, relu: frozenset[str]) -> bool:
    step = pair.step
    return step is not None and step.term.name.endswith(" output") and any(
        module.rpartition(".")[0] == step.term.module for module in relu
    )  # fmt: skip


def _amount(group: list[Pair]) -> str:
    """`, 2 per layer, +0.31 GiB each`: exact where all are alike, else the mean."""
    count = sum(len(pair.kept.rows) if pair.kept else 1 for pair in group)
    layers = {pair.kept.layer for pair in group if pair.kept} - {NONE}
    total = sum(pair.bytes for pair in group)
    each = f"{difference_text(total / count)} each"
    alike = len({pair.bytes for pair in group}) == 1 and count == len(group)
    if len(layers) > 1 and count % len(layers) == 0:
        number = f"{count_text(count // len(layers))} per layer"
    else:
        number = count_text(count, "tensor")
    return f", {number}, {each if alike else f'{bytes_text(total)} in all'}"


def _words(kept: Kept, reason: Reason, places: Places, dtype: str) -> tuple[str, str]:
    """(what it is, what would not keep it)."""
    for rule in (_outside, _norm, _mask, _attention, _recurrent, _statistics, _other_precision, _activation):
        found = rule(kept, places, dtype)
        if found:
            return found
    cls = places.class_of(kept.module)
    where = f" inside {cls}" if cls else ""
    if kept.op and kept.op not in VIEWS:
        return f"the result of {kept.op}{where}", NOT_COUNTED
    return f"a tensor kept{where}", NOT_COUNTED


def _outside(kept: Kept, places: Places, dtype: str) -> tuple[str, str] | None:
    if not kept.packed and kept.op not in _LOSS:
        what = "one value" if kept.values == 1 else f"{kept.dtype} values" if kept.dtype else "values"
        return f"{what} kept by the code around the model, such as the loss", NOT_COUNTED
    if kept.layer >= 0:
        return None
    if kept.op in _LOSS:
        return f"{kept.dtype} copy of the logits in the loss", "cross-entropy in chunks would not keep it whole"
    if places.is_norm(kept.module):
        return None
    what = f"what {kept.op} puts out" if kept.op and kept.op not in VIEWS else f"{kept.dtype} values"
    return f"{what}, kept outside the layers{_in(kept, places)}", NOT_COUNTED


def _in(kept: Kept, places: Places) -> str:
    cls = places.class_of(kept.module)
    return f" by {cls}" if cls else ""


def _norm(kept: Kept, places: Places, dtype: str) -> tuple[str, str] | None:
    if not places.is_norm(kept.module):
        return None
    cls = places.class_of(kept.module)
    if kept.last <= 1:
        return f"one {kept.dtype} per row inside {cls}", "every norm keeps its statistics"
    if kept.values == kept.last:
        return f"a vector as wide as the weight of {cls}", "made of the weight, and the same whatever the tokens"
    if dtype and kept.dtype != dtype:
        return f"{kept.dtype} copy inside {cls}", "a fused norm would not keep it"
    if kept.op == "mul":
        return f"the normalised values before the weight inside {cls}", "a fused norm would not keep them"
    return f"what goes into {cls}", "every norm keeps its input"


def _mask(kept: Kept, places: Places, dtype: str) -> tuple[str, str] | None:
    dropout = "dropout" in kept.op or "bernoulli" in kept.op or "Dropout" in places.class_of(kept.module)
    if not kept.op and places.is_scores(kept):
        what = f"dropout mask of attention's scores in {kept.dtype}, batch x heads x T x T"
        return what, "a memory-efficient kernel makes it again"
    if dropout:
        return f"dropout mask in {kept.dtype}", "native dropout keeps one byte per value" if kept.dtype == dtype else ""
    if kept.dtype in _MASKS:
        return f"mask or flags in {kept.dtype}", "not differentiated, kept for the backward of what used it"
    return None


def _attention(kept: Kept, places: Places, dtype: str) -> tuple[str, str] | None:
    if "attention" in kept.op:
        return (
            "what attention puts out",
            "its backward needs it beside the output projection's input, unless the two are one storage",
        )
    if kept.op in ("softmax", "safe softmax"):
        return "attention scores after softmax, batch x heads x T x T", "a memory-efficient kernel keeps one per row"
    if places.is_scores(kept):
        made = f"what {kept.op} makes of attention's scores" if kept.op not in VIEWS else "attention's scores once more"
        return f"{made}, batch x heads x T x T", "a memory-efficient kernel keeps one per row"
    return None


def _recurrent(kept: Kept, places: Places, dtype: str) -> tuple[str, str] | None:
    cls = places.class_of(kept.module)
    if not _RECURRENT.search(cls):
        return None
    what = f"{kept.dtype} intermediate results of linear attention inside {cls}"
    return what, "the kernel written out in Python keeps them, a fused one would keep a fraction (not measured)"


def _statistics(kept: Kept, places: Places, dtype: str) -> tuple[str, str] | None:
    if kept.dtype in _NO_GRADIENT:
        return f"{kept.dtype} indices or random state{_in(kept, places)}", "kept for backward beside the activations"
    if kept.op:
        return None
    if places.is_square(kept):
        return f"attention's mask in {kept.dtype}, T x T", "a kernel that is told that it is causal needs none"
    if places.is_table(kept):
        return f"a {kept.dtype} table with a row for each position, rotary angles say", "made once for all layers"
    if "ttention" not in places.class_of(kept.module):
        return None
    if kept.dtype == "float32":
        return "float32 log-sum-exp or other statistics of attention", "every memory-efficient kernel keeps them"
    return None


def _other_precision(kept: Kept, places: Places, dtype: str) -> tuple[str, str] | None:
    if not dtype or not kept.dtype or kept.dtype == dtype:
        return None
    cls = places.class_of(kept.module)
    return (
        f"{kept.dtype} copy inside {cls or 'the layer'}",
        "a kernel that computes inside in that precision keeps none",
    )


def _activation(kept: Kept, places: Places, dtype: str) -> tuple[str, str] | None:
    if kept.op in _ACTIVATIONS:
        verb = "a product" if kept.op == "mul" else kept.op
        return f"what {verb} puts out", "kept by what it is multiplied with; a fused kernel would make it again"
    cls = places.class_of(kept.module)
    if _FUNCTION.search(cls) and kept.op in VIEWS:
        return f"what goes into {cls}", "kept beside what comes out of it, which the product behind it keeps"
    return None
