"""Every kind of half, embedding, head and loss: the shape read from a real recording is the one its sizes describe."""

import pytest

from memstrata.viewer.analysis.matching import Reason
from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of
from memstrata.viewer.analysis.shape_config import shape_of_config
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

VOCABULARY, HIDDEN, FFN, TOKENS, BATCH = 96, 32, 48, 16, 2
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 8
EXPERTS, CHOSEN, EXPERT_FFN, SHARED = 4, 2, 24, 40
KEY_HEADS, VALUE_HEADS, KEY_DIM, VALUE_DIM = 2, 4, 8, 16
SIZES = {
    "hidden_size": HIDDEN, "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM, "intermediate_size": FFN, "vocab_size": VOCABULARY, "dtype": "float32",
}  # fmt: skip


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight)


class Attention(nn.Module):
    """Grouped KV heads; with `gate` the query projection carries a gate on the output."""

    def __init__(self, gate):
        super().__init__()
        self.num_heads, self.gate, wide = HEADS, gate, HEADS * HEAD_DIM
        self.q_proj = nn.Linear(HIDDEN, (2 if gate else 1) * wide, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(HIDDEN, KV_HEADS * HEAD_DIM, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(wide, HIDDEN, bias=False)

    def forward(self, x):
        q, *gate = self.q_proj(x).chunk(2 if self.gate else 1, -1)
        q, k, v = (t.unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2) for t in (q, self.k_proj(x), self.v_proj(x)))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2)
        return self.o_proj(mixed * torch.sigmoid(gate[0]) if gate else mixed)


class GatedDeltaNet(nn.Module):
    """Convolution, delta rule written out token by token, gated norm."""

    def __init__(self):
        super().__init__()
        self.mixed, self.values = 2 * KEY_HEADS * KEY_DIM + VALUE_HEADS * VALUE_DIM, VALUE_HEADS * VALUE_DIM
        self.in_proj_qkv = nn.Linear(HIDDEN, self.mixed, bias=False)
        self.in_proj_z = nn.Linear(HIDDEN, self.values, bias=False)
        self.in_proj_b, self.in_proj_a = (nn.Linear(HIDDEN, VALUE_HEADS, bias=False) for _ in range(2))
        self.conv1d = nn.Conv1d(self.mixed, self.mixed, 4, groups=self.mixed, padding=3, bias=False)
        self.norm = RMSNorm(VALUE_DIM)
        self.out_proj = nn.Linear(self.values, HIDDEN, bias=False)

    def forward(self, x):
        mixed = F.silu(self.conv1d(self.in_proj_qkv(x).transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        q, k, v = mixed.split([KEY_HEADS * KEY_DIM] * 2 + [self.values], -1)
        q, k = (t.unflatten(-1, (-1, KEY_DIM)).repeat_interleave(VALUE_HEADS // KEY_HEADS, 2) for t in (q, k))
        beta, decay = torch.sigmoid(self.in_proj_b(x)), torch.sigmoid(self.in_proj_a(x))
        out = self._delta(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v.unflatten(-1, (-1, VALUE_DIM)), beta, decay)
        gated = self.norm(out) * F.silu(self.in_proj_z(x).unflatten(-1, (-1, VALUE_DIM)))
        return self.out_proj(gated.flatten(2))

    def _delta(self, q, k, v, beta, decay):
        state, out = torch.zeros(len(q), VALUE_HEADS, KEY_DIM, VALUE_DIM), []
        for at in range(q.shape[1]):
            state = state * decay[:, at, :, None, None]
            missed = (v[:, at] - (k[:, at, :, :, None] * state).sum(-2)) * beta[:, at, :, None]
            state = state + k[:, at, :, :, None] * missed[:, :, None]
            out.append((q[:, at, :, :, None] * state).sum(-2))
        return torch.stack(out, 1)


class MLP(nn.Module):
    def __init__(self, width, gated=True):
        super().__init__()
        if gated:
            self.gate_proj = nn.Linear(HIDDEN, width, bias=False)
        self.up_proj = nn.Linear(HIDDEN, width, bias=False)
        self.down_proj = nn.Linear(width, HIDDEN, bias=False)

    def forward(self, x):
        gate = getattr(self, "gate_proj", None)
        return self.down_proj(F.gelu(self.up_proj(x)) if gate is None else F.silu(gate(x)) * self.up_proj(x))


class FusedExperts(nn.Module):
    """All experts' weights in two parameters, as transformers keeps them."""

    def __init__(self):
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(EXPERTS, 2 * EXPERT_FFN, HIDDEN) * 0.1)
        self.down_proj = nn.Parameter(torch.randn(EXPERTS, HIDDEN, EXPERT_FFN) * 0.1)

    def forward(self, x, chosen, weight):
        out = torch.zeros_like(x)
        for expert in range(EXPERTS):
            rows, place = torch.where(chosen == expert)
            gate, up = F.linear(x[rows], self.gate_up_proj[expert]).chunk(2, -1)
            one = F.linear(F.silu(gate) * up, self.down_proj[expert]) * weight[rows, place, None]
            out = out.index_add(0, rows, one)
        return out


class SparseMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.top_k = CHOSEN
        self.gate = nn.Linear(HIDDEN, EXPERTS, bias=False)
        self.experts, self.shared_expert = FusedExperts(), MLP(SHARED)

    def forward(self, x):
        flat = x.flatten(0, 1)
        weight, chosen = torch.softmax(self.gate(flat), -1).topk(CHOSEN)
        return (self.experts(flat, chosen, weight) + self.shared_expert(flat)).view_as(x)


class Layer(nn.Module):
    def __init__(self, mixer, mlp, norm):
        super().__init__()
        self.input_norm, self.mixer, self.mlp_norm, self.mlp = norm(HIDDEN), mixer, norm(HIDDEN), mlp

    def forward(self, x):
        x = x + self.mixer(self.input_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Decoder(nn.Module):
    def __init__(self, layer, norm):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(layer() for _ in range(2))
        self.norm, self.head = norm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def recorded(path, layer, norm=RMSNorm):
    """One real step of a decoder of such layers, with a cross-entropy over its logits."""
    from memstrata.capture import Recorder

    torch.manual_seed(0)
    model = Decoder(layer, norm)
    tokens = torch.randint(0, VOCABULARY, (BATCH, TOKENS))

    def step():
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()

    step()
    with Recorder(path, model=model):
        step()
    return Run(open_file(path), name=path.name)


CASES = {
    "attention with grouped KV heads, gated MLP": (lambda: Layer(Attention(False), MLP(FFN), RMSNorm), {}),
    "output gate": (lambda: Layer(Attention(True), MLP(FFN), RMSNorm), {"attn_output_gate": True}),
    "plain MLP": (lambda: Layer(Attention(False), MLP(FFN, gated=False), nn.LayerNorm), {"gated": False}),
    "gated delta": (
        lambda: Layer(GatedDeltaNet(), MLP(FFN), RMSNorm),
        {"layer_types": ["linear_attention"] * 2, "linear_num_key_heads": KEY_HEADS,
         "linear_num_value_heads": VALUE_HEADS, "linear_key_head_dim": KEY_DIM, "linear_value_head_dim": VALUE_DIM},
    ),
    "experts": (
        lambda: Layer(Attention(False), SparseMLP(), RMSNorm),
        {"num_experts": EXPERTS, "num_experts_per_tok": CHOSEN, "moe_intermediate_size": EXPERT_FFN,
         "shared_expert_intermediate_size": SHARED},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_recorded_shape_is_the_models(tmp_path, case):
    layer, given = CASES[case]
    run = recorded(tmp_path / "kind.mstrata", layer, nn.LayerNorm if case == "plain MLP" else RMSNorm)
    shape, said = shape_of(run), shape_of_config(SIZES | given, case, BATCH * TOKENS)
    assert (shape.tokens, shape.hidden, shape.itemsize, shape.dtype) == (BATCH * TOKENS, HIDDEN, 4, "float32")
    assert [layer.width for layer in shape.layers] == [layer.width for layer in said.layers]
    outside = [[(t.name, t.width, t.dtype) for t in (*s.ahead, *s.behind)] for s in (shape, said)]
    assert outside[0] == outside[1]
    assert [name for name, *_ in outside[0]] == [
        "embedding indices", "final norm input", "head input", "log-probabilities", "labels",
    ]  # fmt: skip

    missed = residual(run, shape, plan_in_force(run))
    assert sum(item.bytes for item in missed.items) == missed.bytes == missed.measured_bytes - missed.predicted_bytes
    matched = {each.label: each.bytes for each in missed.matched}
    wide = BATCH * TOKENS * HIDDEN * 4
    assert (matched["final norm input"], matched["head input"]) == (wide, wide)
    assert matched["log-probabilities"] == BATCH * TOKENS * VOCABULARY * 4
    assert matched["labels"] == BATCH * TOKENS * 8
    absent = {item.label for item in missed.items if item.reason is Reason.absent}
    assert not any("norm input" in label or "head" in label or "log" in label for label in absent)


def test_parameters_are_counted_once_where_the_head_is_the_embedding(tmp_path):
    from memstrata.capture import Recorder

    model = Decoder(CASES["plain MLP"][0], nn.LayerNorm)
    model.head.weight = model.embed.weight
    tokens = torch.randint(0, VOCABULARY, (1, 8))
    with Recorder(tmp_path / "tied.mstrata", model=model):
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    shape = shape_of(Run(open_file(tmp_path / "tied.mstrata"), name="tied"))
    assert shape.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert "log-probabilities" in {term.name for term in shape.behind}
