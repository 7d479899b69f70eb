"""The residual of models with experts, ReLU, dropout and convolutions, on real steps."""

import pytest

from memstrata.viewer.analysis.headline import headline
from memstrata.viewer.analysis.matching import Reason
from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

HIDDEN, FFN, EXPERTS, CHOSEN, TOKENS = 32, 64, 4, 2, 128


def recorded(path, model, given):
    from memstrata.capture import Recorder

    model(given).sum().backward()
    with Recorder(path, model=model):
        model(given).sum().backward()
    return Run(open_file(path), name=path.name)


def missed(run):
    return residual(run, shape_of(run), plan_in_force(run))


class Stack(nn.Module):
    def __init__(self, layer, count=3):
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(HIDDEN, FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Each token goes through two of four experts, more through some than through others."""

    def __init__(self):
        super().__init__()
        self.top_k = CHOSEN
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x):
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.arange(len(x))
            chosen = rows[(rows % 7 % EXPERTS == number) | ((rows % 7 + 1) % EXPERTS == number)]
            out = out.index_add(0, chosen, expert(x[chosen]))
        return out


class MoELayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.moe = nn.LayerNorm(HIDDEN), Experts()

    def forward(self, x):
        return x + self.moe(self.norm(x))


def test_experts_are_matched_together(tmp_path):
    run = recorded(tmp_path / "moe.mstrata", Stack(MoELayer), torch.randn(TOKENS, HIDDEN, requires_grad=True))
    found = missed(run)
    matched = {each.label: each for each in found.matched}
    wide = 3 * CHOSEN * TOKENS * FFN * 4
    for label in ("experts gate output", "experts up output", "experts down input"):
        assert (matched[label].bytes, matched[label].predicted_bytes) == (wide, wide)
        assert matched[label].count == 3 * EXPERTS
    items = {item.label: item for item in found.items}
    silu = next(item for label, item in items.items() if label.startswith("silu outputs"))
    assert (silu.bytes, silu.count) == (wide, 3 * EXPERTS)


class ReluLayer(nn.Module):
    """ReLU called as a function: the module tree does not show it."""

    def __init__(self):
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(HIDDEN), nn.Module()
        self.ffn.up, self.ffn.down = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        return x + self.ffn.down(torch.relu(self.ffn.up(self.norm(x))))


def test_what_goes_into_a_relu_is_not_kept(tmp_path):
    found = missed(recorded(tmp_path / "relu.mstrata", Stack(ReluLayer), torch.randn(TOKENS, HIDDEN)))
    absent = [item for item in found.items if item.reason is Reason.absent]
    assert sum(item.bytes for item in absent) == -3 * TOKENS * FFN * 4
    assert all("a ReLU keeps its output" in item.text for item in absent)


class DropoutLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(HIDDEN), nn.Module()
        self.ffn.up, self.ffn.down = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(FFN, HIDDEN, bias=False)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return x + self.drop(self.ffn.down(nn.functional.gelu(self.ffn.up(self.norm(x)))))


def test_dropout_masks_are_named(tmp_path):
    found = missed(recorded(tmp_path / "dropout.mstrata", Stack(DropoutLayer), torch.randn(TOKENS, HIDDEN)))
    masks = [item for item in found.items if item.text.startswith("dropout mask in float32")]
    assert sum(item.bytes for item in masks) == 3 * TOKENS * HIDDEN * 4
    assert "one byte per value" in masks[0].text


def test_scores_of_attention_written_out_are_named(tmp_path):
    class Scores(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(HIDDEN), nn.Module()
            for name in ("q", "k", "v", "o"):
                setattr(self.attention, name, nn.Linear(HIDDEN, HIDDEN, bias=False))

        def forward(self, x):
            a, y = self.attention, self.norm(x)
            return x + a.o(torch.softmax(a.q(y) @ a.k(y).T, -1) @ a.v(y))

    found = missed(recorded(tmp_path / "scores.mstrata", Stack(Scores), torch.randn(TOKENS, HIDDEN)))
    scores = next(item for item in found.items if "T x T" in item.text)
    assert scores.bytes == 3 * TOKENS * TOKENS * 4


def test_convolutions_are_named_where_there_is_no_prediction(tmp_path):
    def layer():
        return nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU())

    run = recorded(tmp_path / "conv.mstrata", Stack(layer), torch.randn(2, 3, 8, 8))
    assert shape_of(run) is None
    assert headline(run)[2].text == (
        "No prediction: Conv2d keep their input pixel by pixel, and no parameter says how many there are."
    )
