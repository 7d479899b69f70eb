"""What kernels keep beside the widths: a shape with the terms that the choice of kernels adds, and those that shapes
count twice taken out.

`with_kernels` leaves the plain count of a shape alone and returns another shape, so that prediction, plan, curve and
residual work on either. Rules, per half of a layer (h hidden, b bytes of a value):

* RMS norm, composite (CPU): its input and the normalised values in float32, 4 bytes per row; fused: 4 bytes per row.
  Layer norm: 8 bytes per row, mean and reciprocal deviation.
* attention: log-sum-exp, 4 bytes per head and token; math: the scores instead, heads x T x b per token. A query
  projection twice as wide as the heads carries a gate: what attention puts out and the sigmoid of the gate besides.
* gated MLP: what its activation function puts out.
* dropout: a mask of one byte (CPU: one value) behind each half.
* gated delta, reference: what transformers' kernel in Python was measured to keep in a dry run, by value width; over
  a recording it is measured and stays in the residual.
* a layer's output is the next layer's input: one storage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from memstrata.capture.format.plan import LayerShape, ModelShape, Term

RECURRENT = re.compile(r"delta|linear.?attention|mamba|ssm|retention|rwkv", re.IGNORECASE)
REFERENCE_BYTES = 74
"""Bytes per token and value of the value projection that the reference gated-delta kernel keeps beyond the widths of a
configuration: 544,555 bytes per token in a linear-attention half of the hybrid preset's dry run at 8,192 tokens (48
value heads x 128, bfloat16 with float32 inside), of which the widths are 88,256."""
FLOAT32 = 4
ADDED_INSIDE = (
    "activation output", "mixed values", "sigmoid of the gate", "log-sum-exp", "scores", "reference kernel",
)  # fmt: skip
"""How the names of the terms end that kernels add between the projections of a half."""


@dataclass(frozen=True)
class Kernels:
    """The choice of kernels, and whether it was seen in a recording (else every figure of it is an estimate)."""

    norm: str = "fused"
    attention: str = "efficient"
    linear: str = "fused"
    loss: str = "whole"
    dropout: str = "none"
    measured: bool = False

    def __str__(self) -> str:
        """`norm=fused, attention=efficient, ...`."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in CHOICES)


CHOICES: Mapping[str, tuple[str, ...]] = {
    "norm": ("fused", "composite", "layer"),
    "attention": ("efficient", "math"),
    "linear": ("fused", "reference"),
    "loss": ("whole", "chunked"),
    "dropout": ("none", "mask", "values"),
}
"""What each kernel can be. `layer` is layer norm; dropout keeps a `mask` of bytes or, on the CPU, `values`."""


def parse_kernels(text: str) -> Kernels:
    """Of `norm=composite,attention=math`. ValueError with one sentence that names what is wrong."""
    return Kernels(**_pairs(text, CHOICES, "kernel"))


def _pairs(text: str, choices: Mapping[str, tuple[str, ...]], what: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for pair in filter(None, text.replace(" ", "").split(",")):
        name, _, value = pair.partition("=")
        if name not in choices:
            raise ValueError(f"there is no {what} called {name!r}; there is {', '.join(choices)}")
        if value not in choices[name]:
            raise ValueError(f"{name} is {' or '.join(choices[name])}, not {value!r}")
        out[name] = value
    return out


@dataclass(frozen=True)
class ModelFacts:
    """What widths do not tell. `heads` of full attention, 0 unknown; `vocabulary` 0 where the model has no head;
    `sequence` the length over which attention looks, in tokens."""

    heads: int = 0
    vocabulary: int = 0
    sequence: int = 0
    recurrent: frozenset[str] = frozenset()
    """Paths of the modules that are linear attention of some kind, where names do not say so."""


_NO_FACTS = ModelFacts()


@dataclass(frozen=True)
class HalfTerms:
    """One half of a layer, as its terms say: `start` is the place of its first term in the layer."""

    start: int
    norm_output: Term
    projections: tuple[Term, ...]
    inner: Term
    output: Term
    recurrent: bool
    """Linear attention of some kind."""

    @property
    def gated_mlp(self) -> bool:
        """Two projections as wide as what goes into the output projection."""
        wide = [term for term in self.projections if term.width == self.inner.width]
        return not self.recurrent and len(wide) == 2 and (len(self.projections) == 2 or "expert" in self.inner.name)

    @property
    def attention(self) -> bool:
        """Three projections or a packed one."""
        if self.recurrent or self.gated_mlp or "expert" in self.norm_output.name:
            return False
        packed = len(self.projections) == 1 and self.projections[0].width > self.inner.width
        return packed or len(self.projections) >= 3

    @property
    def output_gate(self) -> bool:
        """The query projection is twice as wide as the heads."""
        return self.attention and len(self.projections) >= 3 and self.projections[0].width == 2 * self.inner.width


def halves_in(layer: LayerShape, facts: ModelFacts = _NO_FACTS) -> list[HalfTerms]:
    """The halves of a layer; none where its modules run in order."""
    begins = [i for i, term in enumerate(layer.terms) if term.name.endswith("norm output")]
    found = []
    for begin, end in pairwise([*begins, len(layer.terms)]):
        terms = layer.terms[begin:end]
        inner = _inner(terms)
        if inner:
            holder = terms[inner].module.rpartition(".")[0]
            recurrent = bool(RECURRENT.search(f"{terms[0].name} {holder}")) or holder in facts.recurrent
            found.append(HalfTerms(begin, terms[0], terms[1:inner], terms[inner], terms[-1], recurrent))
    return found


def _inner(terms: tuple[Term, ...]) -> int:
    """The place of what goes into the output projection: an input, and not that of experts; 0 where there is none."""
    inputs = [i for i, term in enumerate(terms) if term.name.endswith(" input") and "expert input" not in term.name]
    return inputs[-1] if inputs else 0


def with_kernels(shape: ModelShape, kernels: Kernels, facts: ModelFacts) -> ModelShape:
    """The shape with what these kernels keep. A layer without halves stays as it is."""
    layers = tuple(_layer(layer, shape, kernels, facts) for layer in shape.layers)
    what = "kernels as recorded" if kernels.measured else "estimate, kernels not measured"
    return replace(shape, layers=layers, assumptions=(*shape.assumptions, f"{what}: {kernels}"))


def _layer(layer: LayerShape, shape: ModelShape, kernels: Kernels, facts: ModelFacts) -> LayerShape:
    halves = halves_in(layer, facts)
    if not halves:
        return layer
    before = {half.start - 1: half for half in halves}
    terms: list[Term] = []
    for place, term in enumerate(layer.terms[:-1]):  # the last one is the next layer's input
        half = before.get(place)
        terms += [term] if half is None else _norm(term, kernels)
    for half in halves:
        terms += _added(half, shape, kernels, facts)
    return LayerShape(layer.kind, tuple(terms))


def _norm(read: Term, kernels: Kernels) -> list[Term]:
    """What the norm keeps that reads this term of the residual stream."""
    name, module = read.name, read.module
    which = ("mean", "deviation") if kernels.norm == "layer" else ("root mean square",)
    statistics = [Term(f"{name}, {what} of its norm", 1, FLOAT32, "4 bytes per row", module) for what in which]
    if kernels.norm != "composite":
        return [read, *statistics]
    own = replace(read, itemsize=max(read.itemsize, FLOAT32), formula=f"{read.formula}, in float32")
    product = Term(f"{name}, normalised", read.width, own.itemsize, f"{read.formula}, before the weight", module)
    return [own, product, *statistics]


def _added(half: HalfTerms, shape: ModelShape, kernels: Kernels, facts: ModelFacts) -> list[Term]:
    inner, name = half.inner, half.norm_output.name.removesuffix("norm output").strip()
    holder = half.projections[0].module if half.projections else inner.module
    found = []

    def add(what: str, width: int, itemsize: int, formula: str) -> None:
        if width:
            found.append(Term(f"{name} {what}".strip(), width, itemsize, formula, holder))

    if half.gated_mlp:
        add("activation output", inner.width, inner.itemsize, f"as wide as {inner.name}")
    if half.output_gate:
        add("mixed values", inner.width, inner.itemsize, f"as wide as {inner.name}")
        add("sigmoid of the gate", inner.width, inner.itemsize, f"as wide as {inner.name}")
    if half.attention and kernels.attention == "efficient":
        add("log-sum-exp", facts.heads, FLOAT32, "heads x 4 bytes")
    if half.attention and kernels.attention == "math":
        add("scores", facts.heads * facts.sequence, inner.itemsize, "heads x T")
    if half.recurrent and kernels.linear == "reference" and not kernels.measured:
        add("reference kernel", inner.width * REFERENCE_BYTES, 1, f"{REFERENCE_BYTES} bytes x {inner.name}")
    if kernels.dropout != "none":
        add("dropout mask", shape.hidden, 1 if kernels.dropout == "mask" else shape.itemsize, "hidden")
    return found


def outside(shape: ModelShape, kernels: Kernels, facts: ModelFacts) -> tuple[Term, ...]:
    """What is kept behind the layers: final norm, input of the head, and the loss's copy of the logits in float32,
    which cross-entropy in chunks makes again instead. Empty without a vocabulary."""
    if not facts.vocabulary:
        return ()
    last = Term("final norm input", shape.hidden, shape.itemsize, "hidden", "norm")
    head = Term("head input", shape.hidden, shape.itemsize, "hidden", "head")
    terms = [*_norm(last, kernels), head]
    if kernels.loss == "whole":
        terms.append(Term("log-probabilities", facts.vocabulary, FLOAT32, "vocabulary x 4 bytes", "loss"))
    return tuple(terms)


@dataclass(frozen=True)
class Change:
    """What the kernels make of the plain count under one name, over all layers."""

    name: str
    layers: int
    bytes: int
    formula: str
    estimate: bool


def changes(shape: ModelShape, kernels: Kernels, facts: ModelFacts) -> tuple[Change, ...]:
    """From the plain count to the one with kernels, largest first; they sum to the difference exactly."""
    counted: dict[str, list[tuple[int, str]]] = {}
    after = with_kernels(shape, kernels, facts)
    for old, new in zip(shape.layers, after.layers, strict=True):
        plain, full = ({term.name: term for term in layer.terms} for layer in (old, new))
        for name in dict.fromkeys([*plain, *full]):
            own = plain[name].bytes(shape.tokens) if name in plain else 0
            size = (full[name].bytes(shape.tokens) if name in full else 0) - own
            if size:
                formula = full[name].formula if name in full else "one storage with the next layer's input"
                counted.setdefault(name, []).append((size, formula))
    return tuple(
        sorted(
            (
                Change(name, len(each), sum(size for size, _ in each), each[0][1], not kernels.measured)
                for name, each in counted.items()
            ),
            key=lambda change: -abs(change.bytes),
        )
    )
