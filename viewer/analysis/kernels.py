"""What kernels keep beside the widths: a shape with the terms that the choice of kernels adds, and those that shapes
count twice taken out.

`with_kernels` leaves the plain count of a shape alone and returns another shape, so that prediction, plan, curve and
residual work on either. Rules, per half of a layer (h hidden, b bytes of a value):

* RMS norm, composite (CPU): its input and the normalised values in float32, 4 bytes per row; cast (written out, as in
  Llama): the normalised values back in the model's own precision; fused: 4 bytes per row. Layer norm: 8 bytes per row,
  mean and reciprocal deviation. A norm over queries or keys has a row for every head.
* attention: log-sum-exp, 4 bytes per head and token; math: the scores instead, heads x T x b per token, keys and
  values as wide as the queries, and, where the model has them, the scores' dropout mask, the probabilities that it
  leaves, and the capped scores, each as large as the scores. A query projection twice as wide as the heads carries a
  gate: what attention puts out and the sigmoid of the gate besides.
* gated MLP: what its activation function puts out.
* dropout: a mask of one byte (CPU: one value) behind each half; over a recording where modules were seen to keep one.
* gated delta, reference: what transformers' kernel in Python was measured to keep, see `gated_delta`; over a recording
  it is measured and stays in the residual.
* cross-entropy in chunks keeps no log-probabilities.
* a layer's output is the input of what comes next: one storage.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from memstrata.capture.format.plan import LayerShape, ModelShape, Term, covers

from .gated_delta import DeltaHeads, reference_terms
from .outside_layers import LOG_PROBABILITIES, NORM_WIDTH

RECURRENT = re.compile(r"delta|linear.?attention|mamba|ssm|retention|rwkv", re.IGNORECASE)
BEFORE_ITS_NORM = " output before its norm"
"""Ends the name of what a norm behind a half keeps."""
ATTENTION = re.compile(r"qkv|attn|attention|query|in_proj", re.IGNORECASE)
FLOAT32 = 4
SCORES, DROPPED, CAPPED, SCORES_MASK = "scores", "scores after dropout", "capped scores", "dropout mask of the scores"
ADDED_INSIDE = (
    "activation output", "mixed values", "sigmoid of the gate", "log-sum-exp", SCORES, DROPPED, CAPPED, SCORES_MASK,
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
    "norm": ("fused", "composite", "cast", "layer"),
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
    delta: DeltaHeads = DeltaHeads()
    drops_scores: bool = False
    """Whether attention has dropout."""
    caps_scores: bool = False
    """Whether the scores go through a tanh."""
    masks: tuple[Mask, ...] = ()
    """Dropout masks in layers, as a recording has them."""


@dataclass(frozen=True)
class Mask:
    """What a dropout in a layer was seen to keep."""

    module: str
    width: int
    """Values per token."""
    itemsize: int


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
        wide = [term for term in self.outputs if term.width == self.inner.width]
        return not self.recurrent and (self._packed_gate or (len(wide) == len(self.outputs) == 2))

    @property
    def outputs(self) -> tuple[Term, ...]:
        """What its projections put out; of experts neither the router's scores nor the rows they get."""
        return tuple(term for term in self.projections if term.name.endswith(" output"))

    @property
    def _packed_gate(self) -> bool:
        """One projection for gate and up together, twice as wide as what goes into the way back."""
        first = self.outputs[0] if len(self.outputs) == 1 else None
        if first is None or ATTENTION.search(f"{first.name} {first.module}"):
            return False
        return first.width == 2 * self.inner.width

    @property
    def shared(self) -> bool:
        """The expert that every token goes through beside the chosen ones."""
        return "shared" in self.norm_output.name

    @property
    def experts(self) -> bool:
        """Of a mixture of experts."""
        return "expert" in self.norm_output.name

    @property
    def attention(self) -> bool:
        """Three projections or a packed one."""
        if self.recurrent or self.gated_mlp or self.experts:
            return False
        packed = len(self.outputs) == 1 and self.outputs[0].width > self.inner.width
        return packed or len(self.outputs) >= 3

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
    """The place of what goes into the output projection: the last input; 0 where there is none."""
    inputs = [i for i, term in enumerate(terms) if term.name.endswith(" input")]
    return inputs[-1] if inputs else 0


def with_kernels(shape: ModelShape, kernels: Kernels, facts: ModelFacts) -> ModelShape:
    """The shape with what these kernels keep. A layer without halves stays as it is."""
    named = zip(shape.names, shape.layers, strict=True)
    layers = tuple(_layer(name, layer, shape, kernels, facts) for name, layer in named)
    ahead, behind = (tuple(_outside(terms, kernels)) for terms in (shape.ahead, shape.behind))
    what = "kernels as recorded" if kernels.measured else "estimate, kernels not measured"
    assumptions = (*shape.assumptions, f"{what}: {kernels}")
    return replace(shape, layers=layers, ahead=ahead, behind=behind, assumptions=assumptions)


def _layer(name: str, layer: LayerShape, shape: ModelShape, kernels: Kernels, facts: ModelFacts) -> LayerShape:
    halves = halves_in(layer, facts)
    if not halves:
        return layer
    repeated = {id(term): found for half in halves for term, found in _repeated(half, kernels)}
    normed = {half.start - 1 for half in halves if not half.shared}
    shared = {half.start for half in halves if half.shared}  # reads what the chosen experts read: one storage
    terms: list[Term] = []
    for place, term in enumerate(layer.terms[:-1]):  # the last one is the next layer's input
        if place in normed or term.name.endswith(BEFORE_ITS_NORM):
            terms += _norm(term, kernels)
        elif id(term) in repeated:
            terms += repeated[id(term)]
        elif place not in shared:
            terms.append(term)
    for half in halves:
        terms += _added(half, shape, kernels, facts)
    terms += _masks(name, kernels, facts)
    return replace(layer, terms=tuple(terms))


def _repeated(half: HalfTerms, kernels: Kernels) -> Iterator[tuple[Term, list[Term]]]:
    """(projection's output, what the math kernel keeps in its place): keys and values of fewer heads than the queries
    have are repeated, and what a packed projection puts out is copied into three."""
    if not half.attention or kernels.attention != "math":
        return
    wide, outputs = half.inner.width, half.outputs
    if len(outputs) >= 3:
        for term in outputs[1:3]:
            if term.width < wide:
                yield term, [replace(term, width=wide, formula="repeated for every query head")]
    elif outputs:
        packed, how = outputs[0], "copied out of the packed projection"
        names = (packed.name.removesuffix(" output") + f", {what}" for what in ("queries", "keys", "values"))
        yield packed, [replace(packed, name=name, width=wide, formula=how) for name in names]


def _masks(layer: str, kernels: Kernels, facts: ModelFacts) -> Iterator[Term]:
    """Dropout masks that were seen in this layer."""
    for mask in facts.masks if kernels.measured else ():
        if covers(layer, mask.module):
            name = f"{mask.module[len(layer) :].lstrip('.')} dropout mask"
            dtype = "bool" if mask.itemsize == 1 else ""
            yield Term(name, mask.width, mask.itemsize, "width of what it drops", mask.module, dtype)


def _norm(read: Term, kernels: Kernels) -> list[Term]:
    """What the norm keeps that reads this term of the residual stream."""
    name, module = read.name, read.module
    which = ("mean", "deviation") if kernels.norm == "layer" else ("root mean square",)
    rows, how = (read.width // read.row, "one per head") if read.row else (1, "one per row")
    statistics = [Term(f"{name}, {what} of its norm", rows, FLOAT32, how, module, "float32") for what in which]
    if kernels.norm not in ("composite", "cast"):
        return [read, *statistics]
    dtype = "float32" if read.itemsize < FLOAT32 else read.dtype
    own = replace(read, itemsize=max(read.itemsize, FLOAT32), formula=f"{read.formula}, in float32", dtype=dtype)
    behind = own if kernels.norm == "composite" else read
    product = replace(behind, name=f"{name}, normalised", formula=f"{read.formula}, before the weight")
    return [own, product, *statistics]


def _added(half: HalfTerms, shape: ModelShape, kernels: Kernels, facts: ModelFacts) -> list[Term]:
    inner, name = half.inner, half.norm_output.name.removesuffix("norm output").strip()
    holder = next((term.module for term in half.outputs), inner.module)
    found = []

    def add(what: str, width: int, itemsize: int, formula: str, dtype: str = "") -> None:
        if width:
            found.append(Term(f"{name} {what}".strip(), width, itemsize, formula, holder, dtype))

    if half.gated_mlp:
        add("activation output", inner.width, inner.itemsize, f"as wide as {inner.name}")
    if half.output_gate:
        add("mixed values", inner.width, inner.itemsize, f"as wide as {inner.name}")
        add("sigmoid of the gate", inner.width, inner.itemsize, f"as wide as {inner.name}")
    if half.attention and kernels.attention == "efficient":
        add("log-sum-exp", facts.heads, FLOAT32, "heads", "float32")
    if half.attention and kernels.attention == "math":
        for what, size, dtype in _scores(inner.itemsize, kernels, facts):
            add(what, facts.heads * facts.sequence, size, "heads x T", dtype)
    if half.recurrent and kernels.linear == "reference" and not kernels.measured:
        found += reference_terms(name, holder, inner.width, shape.itemsize, facts.delta)
    if kernels.dropout != "none" and not kernels.measured:
        masks = ("dropout mask", shape.hidden, 1, "hidden", "bool")
        add(*masks if kernels.dropout == "mask" else (masks[0], shape.hidden, shape.itemsize, "hidden"))
    return found


def _scores(itemsize: int, kernels: Kernels, facts: ModelFacts) -> Iterator[tuple[str, int, str]]:
    """(name, bytes of a value, dtype) of what the math kernel keeps as large as the scores."""
    yield SCORES, itemsize, ""
    if facts.caps_scores:
        yield CAPPED, itemsize, ""
    if facts.drops_scores and kernels.dropout != "none":
        yield DROPPED, itemsize, ""
        yield (SCORES_MASK, 1, "bool") if kernels.dropout == "mask" else (SCORES_MASK, itemsize, "")


def _outside(terms: Iterable[Term], kernels: Kernels) -> Iterator[Term]:
    """Outside the layers: what norms keep, and no log-probabilities where the loss makes them in chunks."""
    for term in terms:
        if term.formula.startswith(NORM_WIDTH):
            yield from _norm(term, kernels)
        elif term.name != LOG_PROBABILITIES or kernels.loss == "whole":
            yield term


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
                formula = full[name].formula if name in full else "one storage with the input of what comes next"
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
