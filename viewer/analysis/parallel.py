"""How a model is spread over ranks, and what of its shape is left on one."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from memstrata.capture.format.plan import LayerShape, ModelShape, Plan, Term

from .gated_delta import REFERENCE
from .kernels import ADDED_INSIDE, halves_in
from .outside_layers import LOG_PROBABILITIES


@dataclass(frozen=True)
class Parallel:
    """Degrees, 1 for none; `zero` is the sharding stage 0 to 3. `sequence` divides the tokens of a rank, `tensor` the
    projections. ValueError where one is out of range."""

    zero: int = 0
    data: int = 1
    tensor: int = 1
    sequence: int = 1
    pipeline: int = 1
    microbatches: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.zero <= 3:
            raise ValueError(f"zero is a sharding stage from 0 to 3, not {self.zero}")
        for name in ("data", "tensor", "sequence", "pipeline", "microbatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: there is at least one rank, not {getattr(self, name)}")

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.data * self.tensor * self.sequence * self.pipeline

    def stage(self, shape: ModelShape, plan: Plan, number: int = 0) -> tuple[ModelShape, Plan]:
        """What a pipeline stage keeps of one microbatch, and the part of the plan that lies in it: the embedding is on
        the first stage, final norm, head and loss on the last. ValueError where a degree does not divide what it is to
        divide."""
        if self.pipeline > len(shape.layers):
            raise ValueError(f"pipeline={self.pipeline} is more than the model's {len(shape.layers)} layers")
        if shape.tokens % self.sequence:
            raise ValueError(f"sequence={self.sequence} does not divide {shape.tokens:,} tokens")
        start, stop = self._range(len(shape.layers), number)
        names = shape.names[start:stop]
        own = replace(
            shape,
            layers=tuple(self._divided(layer) for layer in shape.layers[start:stop]),
            names=names,
            tokens=shape.tokens // self.sequence,
            ranges=(),
            ahead=shape.ahead if number == 0 else (),
            behind=tuple(self._vocabulary(term) for term in shape.behind) if number == self.pipeline - 1 else (),
        )
        segments = (tuple(path for path in paths if path in names) for paths in plan.segments)
        return own, Plan(tuple(paths for paths in segments if paths))

    def _range(self, layers: int, number: int) -> tuple[int, int]:
        """Its layers; the first stages have one more where the layers do not divide."""
        each, more = divmod(layers, self.pipeline)
        start = number * each + min(number, more)
        return start, start + each + (number < more)

    def _vocabulary(self, term: Term) -> Term:
        """Log-probabilities are divided with the head's weight, which is padded where that does not divide."""
        if term.name != LOG_PROBABILITIES or self.tensor == 1:
            return term
        return replace(term, width=-(-term.width // self.tensor), formula=f"{term.formula} / {self.tensor}")

    def _divided(self, layer: LayerShape) -> LayerShape:
        """What lies between the projections is divided, the hidden states between the halves are not."""
        if self.tensor == 1:
            return layer
        inside = {id(term) for half in halves_in(layer) for term in (*half.projections, half.inner)}
        divided = (
            id(term) in inside or term.name.endswith(ADDED_INSIDE) or f" {REFERENCE}, " in term.name
            for term in layer.terms
        )  # fmt: skip
        terms = (self._term(term) if cut else term for term, cut in zip(layer.terms, divided, strict=True))
        return replace(layer, terms=tuple(terms))

    def _term(self, term: Term) -> Term:
        if term.name.endswith(_EVERYWHERE):
            return term
        if term.width % self.tensor:
            raise ValueError(f"tensor={self.tensor} does not divide the {term.width:,} values of {term.name}")
        return replace(term, width=term.width // self.tensor, formula=f"{term.formula} / {self.tensor}")


_EVERYWHERE = ("router scores", "experts input")
"""What every rank of a tensor-parallel group holds whole."""


def parse_parallel(text: str) -> Parallel:
    """Of `zero=3,data=64,tensor=8`. ValueError with one sentence that names what is wrong."""
    names = [field.name for field in fields(Parallel)]
    out: dict[str, int] = {}
    for pair in filter(None, text.replace(" ", "").split(",")):
        name, _, value = pair.partition("=")
        if name not in names:
            raise ValueError(f"there is no degree called {name!r}; there is {', '.join(names)}")
        if not value.isdecimal() or len(value) > 9:
            raise ValueError(f"{name} is a whole number, not {value!r}")
        out[name] = int(value)
    return Parallel(**out)
