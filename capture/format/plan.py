"""Super-blocks, checkpoint plans and model shapes: pure functions over plain data, shared by recorder and viewer.

A shape counts what a layer keeps for its backward, in values per token, from widths alone:

* a *half* (attention, linear attention, gated or plain MLP) keeps the normalised input, what each projection puts
  out, what goes into the output projection, and its output;
* a layer keeps its residual input and its halves.

Full attention without a memory-efficient kernel would add batch x heads x T x T, which is not counted here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of layer indices."""


def layer_kind(row: int, classes: Sequence[str], children: Sequence[Sequence[int]]) -> str:
    """The kind of the module in this row: its class and the classes of all its descendants, in tree order."""
    inner = ",".join(layer_kind(child, classes, children) for child in children[row])
    return f"{classes[row]}({inner})" if inner else classes[row]


def layer_kinds(rows: Iterable[int], classes: Sequence[str], parents: Sequence[int]) -> list[str]:
    """The kind of each of these modules of a module tree given as class names and parent rows (-1 at the root)."""
    children: list[list[int]] = [[] for _ in classes]
    for row, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(row)
    return [layer_kind(row, classes, children) for row in rows]


def super_blocks(kinds: Sequence[str], override: int | None = None) -> Ranges:
    """The super-blocks of one layer list as ranges that cover it in order.

    The period that explains the most layers with at least two repeats decides, the shortest one among equals.
    Layers before and after its repeats are split by the same rule, but up to a period of them stay together.
    Without a period every layer is a super-block of its own. `override` is a number of layers per super-block.
    Raises ValueError if `override` is below 1.
    """
    if override is not None:
        return every(len(kinds), override)
    return tuple(_split(list(kinds), 0, len(kinds)))


def every(layers: int, length: int) -> Ranges:
    """Ranges of `length` layers; the last one is shorter where the length does not divide. ValueError below 1."""
    if length < 1:
        raise ValueError(f"a super-block has at least one layer, not {length}")
    return tuple((start, min(start + length, layers)) for start in range(0, layers, length))


def _split(kinds: list[str], first: int, last: int) -> Iterable[tuple[int, int]]:
    period, start, stop = _longest_repeat(kinds, first, last)
    if not period:
        yield from ((i, i + 1) for i in range(first, last))
        return
    yield from _rest(kinds, first, start, period)
    yield from ((i, i + period) for i in range(start, stop, period))
    yield from _rest(kinds, stop, last, period)


def _rest(kinds: list[str], first: int, last: int, period: int) -> Iterable[tuple[int, int]]:
    if first == last:
        return ()
    return [(first, last)] if last - first <= period else _split(kinds, first, last)


def _longest_repeat(kinds: list[str], first: int, last: int) -> tuple[int, int, int]:
    """(period, start, stop) of the repeats that cover the most layers; period 0 if nothing repeats."""
    best = (0, first, first)
    for period in range(1, (last - first) // 2 + 1):
        run = 0  # how many layers up to here equal the one a period later
        for i in range(first, last - period + 1):
            if i < last - period and kinds[i] == kinds[i + period]:
                run += 1
                continue
            covered = (run + period) // period * period if run >= period else 0
            if covered > best[2] - best[1]:
                best = (period, i - run, i - run + covered)
            run = 0
    return best


@dataclass(frozen=True)
class Plan:
    """Where checkpoint segments are cut: each segment holds the paths of the modules recomputed together."""

    segments: tuple[tuple[str, ...], ...] = ()
    NONE: ClassVar[Plan]

    @staticmethod
    def every(paths: Sequence[str], length: int) -> Plan:
        """Segments of `length` layers each, the last one shorter where that does not divide."""
        return Plan.of(paths, every(len(paths), length))

    @staticmethod
    def of(paths: Sequence[str], ranges: Ranges) -> Plan:
        """One segment for each range of layers."""
        return Plan(tuple(tuple(paths[start:stop]) for start, stop in ranges))

    def segment_of(self, module: str) -> int:
        """The first segment that recomputes the module with this path, -1 if none does."""
        for number, paths in enumerate(self.segments):
            if any(covers(path, module) for path in paths):
                return number
        return -1


Plan.NONE = Plan()


def covers(path: str, module: str) -> bool:
    """Whether the module at `path` is, or contains, `module`. The empty path is the whole model."""
    return not path or module == path or module.startswith(path + ".")


@dataclass(frozen=True)
class Term:
    """One tensor that a layer keeps for backward: `width` values per token, owned by the module at path `module`."""

    name: str
    width: int
    itemsize: int
    formula: str
    module: str
    """Empty for what the code around the model keeps, the loss say."""
    dtype: str = ""
    """Empty for the model's own."""
    row: int = 0
    """Values that a norm which reads it takes together, where that is a head and not the whole row; else 0."""
    more_rows: int = 0
    """Rows beyond one per token: those that a padded convolution puts out."""

    def bytes(self, tokens: int) -> int:
        """Bytes for this many tokens."""
        return self.width * self.itemsize * (tokens + self.more_rows)


@dataclass(frozen=True)
class LayerShape:
    """What one layer keeps, in the order in which forward makes it."""

    kind: str
    terms: tuple[Term, ...]
    estimate: bool = False
    """Whether it is counted for a kernel that was not measured."""

    @property
    def width(self) -> int:
        """Values per token."""
        return sum(term.width for term in self.terms)

    def bytes(self, tokens: int) -> int:
        """Bytes for this many tokens."""
        return sum(term.bytes(tokens) for term in self.terms)


@dataclass(frozen=True)
class ModelShape:
    """The layers of a model by what they keep. `names` are the module paths of the layers, `hidden` the residual
    width, `itemsize` bytes of one value, `tokens` = batch x sequence, `parameters` their number."""

    layers: tuple[LayerShape, ...]
    names: tuple[str, ...]
    hidden: int
    itemsize: int
    tokens: int
    super_block_length: int
    parameters: int
    assumptions: tuple[str, ...] = ()
    ranges: Ranges = field(default=())
    """The super-blocks where they are not all `super_block_length` layers long."""
    dtype: str = ""
    """Of a hidden state, `bfloat16` say; empty unknown."""
    ahead: tuple[Term, ...] = ()
    """What is kept ahead of the layers: the embedding's indices."""
    behind: tuple[Term, ...] = ()
    """What is kept behind the layers: final norm, head, loss."""

    @property
    def outside_bytes(self) -> int:
        """What is kept outside the layers."""
        return sum(term.bytes(self.tokens) for term in (*self.ahead, *self.behind))

    def with_tokens(self, tokens: int) -> ModelShape:
        """The same model with another number of tokens. ValueError below 1."""
        if tokens < 1:
            raise ValueError(f"a step has at least one token, not {tokens}")
        return replace(self, tokens=tokens)

    def per_super_block(self) -> Plan:
        """The plan with one segment for each super-block."""
        return Plan.of(self.names, self.ranges or every(len(self.layers), self.super_block_length))

    def every(self, length: int) -> Plan:
        """The plan with `length` layers in each segment. ValueError unless 1 <= length <= number of layers."""
        if not 1 <= length <= len(self.layers):
            raise ValueError(f"a segment has 1 to {len(self.layers)} layers in this model, not {length}")
        return Plan.every(self.names, length)


@dataclass(frozen=True)
class InnerNorm:
    """A norm over queries or keys, head by head: what the projection puts out is kept before it and behind it."""

    projection: str
    path: str
    width: int
    """Values per token that go through it."""
    row: int
    """Values that it takes together: those of one head."""


@dataclass(frozen=True)
class Half:
    """The widths of one half of a layer: a module with projections out of `hidden` and one projection back."""

    name: str
    module: str
    norm: str
    """Path of the norm in front of it, which keeps the residual stream."""
    projections: tuple[tuple[str, int], ...]
    """(name, output width) of every projection but the output projection."""
    input_path: str
    """Path of the first projection, which keeps the normalised input."""
    output_path: str
    inner: int
    """Input width of the output projection."""
    chosen: int = 0
    """Experts that each token goes through, of which the widths are those of one; 0 where there are none."""
    router: tuple[str, int] = ("", 0)
    """(path, number of experts) of the projection that chooses them."""
    post_norm: str = ""
    """Path of a norm behind it, which keeps the output before it is normalised; empty for none."""
    inner_norms: tuple[InnerNorm, ...] = ()
    """Norms between projections and attention."""
    more_rows: tuple[str, int] = ("", 0)
    """(projection, rows that it puts out beyond one per token)."""


def half_terms(half: Half, hidden: int, itemsize: int, reader: str) -> list[Term]:
    """Normalised input, each projection's output, the output projection's input, and the half's output, which the
    module at path `reader` keeps: the next norm, or the layer. Of experts also the router's scores, and for each token
    its rows as the chosen experts get them and as their outputs are weighted; of norms over queries and keys what goes
    into them."""

    def term(name: str, width: int, formula: str, module: str) -> Term:
        return Term(f"{half.name} {name}".strip(), width, itemsize, formula, module)

    times, prefix = max(half.chosen, 1), "chosen x " if half.chosen else ""
    (router, experts), back = half.router, half.output_path.rpartition(".")[2]
    terms = [term("norm output", hidden, "hidden", router or half.input_path)]
    if experts:
        terms.append(term("router scores", experts, "number of experts", router))
    if half.chosen:
        terms.append(term("input", times * hidden, "chosen x hidden", half.input_path))
    padded, more = half.more_rows
    for name, width in half.projections:
        put_out = term(f"{name} output", times * width, f"{prefix}width of {name}", half.module)
        terms.append(replace(put_out, more_rows=more) if name == padded else put_out)
    terms += [
        replace(term(f"{n.projection} output before its norm", n.width, "heads x head width", n.path), row=n.row)
        for n in half.inner_norms
    ]
    terms.append(term(f"{back} input", times * half.inner, f"{prefix}input width of {back}", half.output_path))
    if half.chosen:
        terms.append(term("weighted output", times * hidden, "chosen x hidden", half.module))
    if half.post_norm:
        terms.append(term("output before its norm", hidden, "hidden", half.post_norm))
    terms.append(term("output", hidden, "hidden", reader))
    return terms


def layer_shape(kind: str, path: str, halves: Sequence[Half], hidden: int, itemsize: int) -> LayerShape:
    """The layer at `path`, which has a residual stream: its residual input, then its halves (at least one)."""
    readers = [half.norm for half in halves] + [path]
    terms = [Term("residual input", hidden, itemsize, "hidden", readers[0])]
    for half, reader in zip(halves, readers[1:], strict=True):
        terms += half_terms(half, hidden, itemsize, reader)
    return LayerShape(kind, tuple(terms))


def _teaching_layer(path: str) -> LayerShape:
    attention = Half(
        "attention",
        f"{path}.attention",
        f"{path}.attention_norm",
        (("query", 2 * 24 * 256), ("key", 4 * 256), ("value", 4 * 256)),
        f"{path}.attention.query",
        f"{path}.attention.output",
        24 * 256,
    )
    ffn = Half(
        "FFN",
        f"{path}.ffn",
        f"{path}.ffn_norm",
        (("gate", 17408), ("up", 17408)),
        f"{path}.ffn.gate",
        f"{path}.ffn.down",
        17408,
    )
    return layer_shape("full attention", path, (attention, ffn), hidden=5120, itemsize=2)


def _teaching() -> ModelShape:
    """64 uniform full-attention layers of width 5120 with 24 query heads of 256 and an output gate inside the query
    projection, 4 key and value heads, FFN 17408, bfloat16, batch 1; 27e9 parameters are posited."""
    names = tuple(f"layers.{i}" for i in range(64))
    return ModelShape(
        layers=tuple(_teaching_layer(name) for name in names),
        names=names,
        hidden=5120,
        itemsize=2,
        tokens=8192,
        super_block_length=4,
        parameters=27_000_000_000,
        assumptions=(
            "bfloat16, batch 1, a memory-efficient attention kernel; 27e9 parameters are posited: the layers"
            " listed hold 23.82e9, embeddings and head the rest, and what those keep is not counted",
        ),
        dtype="bfloat16",
    )


PRESETS: dict[str, ModelShape] = {"teaching": _teaching()}
