"""Growth fitted to real steps at several sizes, held against a size that was not in the fit."""

import pytest

from memstrata.viewer.analysis.scaling import REST_NAME, STAYS_NAME, scaling
from memstrata.viewer.model.run import Run
from memstrata.viewer.report.scaling_text import AskedSize, scaling_json, scaling_text
from memstrata.viewer.sources import open_file

torch = pytest.importorskip("torch")

HIDDEN, HEADS, LAYERS = 32, 2, 3


def model():
    from torch import nn

    class Attention(nn.Module):
        """With scores written out: they grow with the square of the sequence."""

        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))

        def forward(self, x):
            q, k, v = (p(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
            return self.o((torch.softmax(q @ k.transpose(-1, -2), -1) @ v).transpose(1, 2).flatten(2))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(HIDDEN), Attention()

        def forward(self, x):
            return x + self.attention(self.norm(x))

    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Block() for _ in range(LAYERS))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    return Blocks()


@pytest.fixture(scope="module")
def run_at(tmp_path_factory):
    from memstrata.capture import Recorder

    folder = tmp_path_factory.mktemp("sizes")
    made = {}

    def record(batch, sequence):
        if (batch, sequence) not in made:
            path, net = folder / f"{batch}x{sequence}.mstrata", model()
            given = torch.randn(batch, sequence, HIDDEN)
            net(given).square().sum().backward()  # gradients exist from now on
            with Recorder(path, model=net):
                net(given).square().sum().backward()
            made[batch, sequence] = Run(open_file(path), name=path.name)
        return made[batch, sequence]

    return record


def test_two_lengths_predict_a_third(run_at):
    found = scaling([run_at(2, 128), run_at(2, 256)])
    measured = run_at(2, 512)
    assert found.error < 0.001
    assert found.bytes(2, 512) == pytest.approx(measured.peak_bytes, rel=0.02)
    parts = {part.name: part for part in found.parts}
    assert set(parts) >= {"Block", STAYS_NAME, REST_NAME}
    # softmax keeps its output: heads x T x T float32 for each layer, and nothing else is quadratic
    assert parts["Block"].quadratic == pytest.approx(LAYERS * HEADS * 4, rel=0.01)


def test_another_batch_is_predicted_too(run_at):
    found = scaling([run_at(2, 128), run_at(2, 256), run_at(4, 256)])
    assert found.bytes(6, 128) == pytest.approx(run_at(6, 128).peak_bytes, rel=0.02)


def test_the_largest_that_fits(run_at):
    found = scaling([run_at(2, 128), run_at(2, 256)])
    budget = found.bytes(2, 1000)
    longest, most = found.longest(budget, 2), found.most(budget, 256)
    assert found.bytes(2, longest) <= budget < found.bytes(2, longest + 1)
    assert longest == pytest.approx(1000, abs=1)
    assert found.bytes(most, 256) <= budget < found.bytes(most + 1, 256)
    assert (found.longest(1, 2), found.most(1, 256)) == (0, 0)


def test_one_length_cannot_tell_the_square(run_at):
    found = scaling([run_at(2, 128), run_at(4, 128)])
    assert found.one_length and all(part.quadratic == 0 for part in found.parts)
    assert "longer sequences are underestimated" in " ".join(scaling_text(found, AskedSize()).split())
    assert found.bytes(8, 128) == pytest.approx(run_at(8, 128).peak_bytes, rel=0.02)


def test_parts_sum_to_the_measured_peak(run_at):
    found = scaling([run_at(2, 128), run_at(2, 256)])
    for each in found.measured:
        assert sum(each.parts.values()) == each.peak_bytes


def test_a_measured_hybrid_to_262144_tokens(tmp_path):
    """Both kinds of layer have a part of their own; a length that was not in the fit, and the curve's far end."""
    from memstrata.capture import Recorder
    from memstrata.capture.models.hybrid import HybridConfig, HybridDecoder

    def record(length):
        net = HybridDecoder(HybridConfig(vocabulary=32, hidden=32, heads=2, kv_heads=1, ffn=64, layers=4, chunk=32))
        tokens = torch.zeros(1, length, dtype=torch.long)
        net(tokens).square().sum().backward()
        with Recorder(tmp_path / f"{length}.mstrata", model=net):
            net(tokens).square().sum().backward()
        return Run(open_file(tmp_path / f"{length}.mstrata"), name=str(length))

    found, measured = scaling([record(256), record(512)]), record(1024)
    assert found.bytes(1, 1024) == pytest.approx(measured.peak_bytes, rel=0.02)
    names = {part.name: part for part in found.parts}
    linear, full = (name for name in names if name.startswith("DecoderLayer"))
    assert {"LinearAttention" in linear, "LinearAttention" in full} == {True, False}
    assert all(names[name].linear > 0 for name in (linear, full))
    curve = scaling_json(found, AskedSize(batch=1))["curve"]
    assert curve[-1] == {"sequence": 262_144, "peak_bytes": found.bytes(1, 262_144)}
    by_hand = sum(p.constant + 262_144 * p.linear + 262_144**2 * p.quadratic for p in found.parts)
    assert curve[-1]["peak_bytes"] == pytest.approx(by_hand, abs=len(found.parts))


def test_text_and_json_agree(run_at):
    found = scaling([run_at(2, 128), run_at(2, 256)])
    asked = AskedSize(budget=2**26, batch=2, to=1024)
    out = scaling_json(found, asked)
    assert [point["sequence"] for point in out["curve"]] == [256, 512, 1024]
    assert out["estimate"] and out["quadratic_determined"]
    assert out["longest_sequence"] == found.longest(2**26, 2)
    text = " ".join(scaling_text(found, asked).split())
    assert f"fit sequences of {out['longest_sequence']:,} tokens with batch 2" in text
    assert all(len(line) <= 80 for line in scaling_text(found, asked).splitlines())


def test_what_cannot_be_fitted(run_at, run_of):
    with pytest.raises(ValueError, match="two recordings of different batch size or sequence length are needed"):
        scaling([run_at(2, 128), run_at(2, 128)])
    with pytest.raises(ValueError, match="has other layers than"):
        scaling([run_at(2, 128), run_of("before.mstrata")])
    with pytest.raises(ValueError, match="a batch is 1 to"):
        AskedSize(batch=0)
