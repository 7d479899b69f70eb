"""What lies inside attention, and at the head: norms of heads, padding of convolutions, scores, masks, capped logits.
Each on a real step, predicted to the byte."""

import pytest

from memstrata.viewer.analysis.kernels import with_kernels
from memstrata.viewer.analysis.matching import Reason
from memstrata.viewer.analysis.model_facts import facts_of, facts_of_config, kernels_of
from memstrata.viewer.analysis.residual import residual
from memstrata.viewer.analysis.shape import plan_in_force, shape_of
from memstrata.viewer.analysis.shape_config import shape_of_config
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

VOCABULARY, HIDDEN, FFN, TOKENS, BATCH, LAYERS = 90, 32, 56, 20, 2, 2
HEADS, HEAD_DIM = 4, 12
ROWS, WIDE = BATCH * TOKENS, HEADS * HEAD_DIM
SCORES = LAYERS * BATCH * HEADS * TOKENS * TOKENS
SIZES = {
    "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "head_dim": HEAD_DIM,
    "intermediate_size": FFN, "vocab_size": VOCABULARY, "dtype": "float32",
}  # fmt: skip


class Attention(nn.Module):
    """Written out or fused; with norms over heads, capped scores, and dropout of them."""

    def __init__(self, kv_heads=HEADS, normed=False, cap=0.0, drop=None, fused=False):
        super().__init__()
        self.num_heads, self.cap, self.drop, self.fused = HEADS, cap, drop, fused
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(HIDDEN, heads * HEAD_DIM, bias=False) for heads in (HEADS, kv_heads, kv_heads)
        )
        self.o_proj = nn.Linear(WIDE, HIDDEN, bias=False)
        if normed:
            self.q_norm, self.k_norm = nn.RMSNorm(HEAD_DIM), nn.RMSNorm(HEAD_DIM)

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, HEAD_DIM)) for p in (self.q_proj, self.k_proj, self.v_proj))
        if hasattr(self, "q_norm"):
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            k, v = (t.repeat_interleave(HEADS // t.shape[1], 1) if t.shape[1] < HEADS else t for t in (k, v))
            scores = q @ k.transpose(2, 3)
            if self.cap:
                scores = torch.tanh(scores / self.cap) * self.cap
            shares = torch.softmax(scores, -1)
            mixed = (shares if self.drop is None else self.drop(shares)) @ v
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


class Masked(Attention):
    """Fused, with a mask of its own that wants no gradient."""

    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        mask = torch.full((BATCH, 1, TOKENS, TOKENS), -1e9).triu(1)
        return self.o_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, **given):
        super().__init__()
        self.norm, self.attention, self.mlp_norm = nn.LayerNorm(HIDDEN), Attention(**given), nn.LayerNorm(HIDDEN)
        self.mlp = nn.Module()
        self.mlp.up, self.mlp.down = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp.down(F.gelu(self.mlp.up(self.mlp_norm(x))))


class Decoder(nn.Module):
    def __init__(self, cap=0.0, dropped=0.0, **given):
        super().__init__()
        self.cap = cap
        self.embed, self.drop = nn.Embedding(VOCABULARY, HIDDEN), nn.Dropout(dropped)
        self.layers = nn.ModuleList(Layer(**given) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.drop(self.embed(tokens))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return torch.tanh(logits / self.cap) * self.cap if self.cap else logits


def native_dropout(shares):
    """What dropout is where it has a kernel of its own: the mask has one byte per value."""
    return torch.native_dropout(shares, 0.5, True)[0]


def values_dropout(shares):
    return F.dropout(shares, 0.5)


def recorded(path, **given):
    from memstrata.capture import Recorder

    torch.manual_seed(0)
    model, tokens = Decoder(**given), torch.randint(0, VOCABULARY, (BATCH, TOKENS))

    def step():
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten()).backward()

    step()
    with Recorder(path, model=model):
        step()
    return Run(open_file(path), name=path.name)


def explained(run):
    """The residual against the shape with the kernels seen, and what was matched of each term."""
    shape = with_kernels(shape_of(run), kernels_of(run), facts_of(run))
    missed = residual(run, shape, plan_in_force(run))
    assert sum(item.bytes for item in missed.items) == missed.bytes == missed.measured_bytes - missed.predicted_bytes
    assert all(each.bytes == each.predicted_bytes for each in missed.matched)
    return missed, {each.label: each.bytes for each in missed.matched}


def left_in_layers(missed):
    return {item.label: item.bytes for item in missed.items if any(part.layers for part in item.parts)}


def test_norms_over_queries_and_keys(tmp_path):
    run = recorded(tmp_path / "normed.mstrata", kv_heads=2, normed=True, fused=False)
    terms = {term.name: term for term in shape_of(run).layers[0].terms}
    before = [terms[f"attention {name}_proj output before its norm"] for name in "qk"]
    assert [(t.width, t.row, t.module) for t in before] == [
        (WIDE, HEAD_DIM, "layers.0.attention.q_norm"), (2 * HEAD_DIM, HEAD_DIM, "layers.0.attention.k_norm"),
    ]  # fmt: skip
    said = shape_of_config(SIZES | {"num_key_value_heads": 2, "gated": False, "qk_norm": True}, "x", ROWS)
    assert [layer.width for layer in said.layers] == [layer.width for layer in shape_of(run).layers]
    plain = shape_of_config(SIZES | {"num_key_value_heads": 2, "gated": False}, "x", ROWS)
    assert said.layers[0].width - plain.layers[0].width == WIDE + 2 * HEAD_DIM
    by_widths = residual(run, shape_of(run), plan_in_force(run))
    matched = {each.label: each.bytes for each in by_widths.matched}
    assert matched["attention q_proj output before its norm"] == LAYERS * ROWS * WIDE * 4


def test_a_norm_over_heads_has_a_row_for_each(run_of, tmp_path):
    from dataclasses import replace

    run = recorded(tmp_path / "normed.mstrata", normed=True, fused=True)
    shape = with_kernels(shape_of(run), replace(kernels_of(run), norm="composite"), facts_of(run))
    terms = {term.name: term for term in shape.layers[0].terms}
    assert terms["attention q_proj output before its norm, root mean square of its norm"].width == HEADS
    assert terms["residual input, root mean square of its norm"].width == 1


@pytest.mark.parametrize(
    ("drop", "size", "kind"), [(values_dropout, 4, "values"), (native_dropout, 1, "mask"), (None, 0, "none")]
)
def test_scores_and_their_dropout(tmp_path, drop, size, kind):
    """Math attention: probabilities, the mask, and what it leaves of them, each batch x heads x T x T."""
    run = recorded(tmp_path / "scores.mstrata", drop=drop)
    assert (kernels_of(run).attention, kernels_of(run).dropout) == ("math", kind)
    missed, matched = explained(run)
    assert matched["attention scores"] == 4 * SCORES
    assert matched.get("attention dropout mask of the scores", 0) == size * SCORES
    assert matched.get("attention scores after dropout", 0) == (4 * SCORES if size else 0)
    assert left_in_layers(missed) == {}


def test_capped_scores_and_logits_and_repeated_keys(tmp_path):
    run = recorded(tmp_path / "capped.mstrata", cap=5.0, kv_heads=2)
    missed, matched = explained(run)
    assert matched["capped logits"] == matched["log-probabilities"] == 4 * ROWS * VOCABULARY
    assert matched["attention k_proj output"] == LAYERS * 4 * ROWS * WIDE  # of two heads, repeated for four
    assert left_in_layers(missed) == {}
    plain = {term.name for term in shape_of(recorded(tmp_path / "plain.mstrata")).behind}
    assert "capped logits" not in plain


def test_capped_scores(tmp_path):
    class Capped(Attention):
        def __init__(self, **given):
            super().__init__(**given, cap=5.0)

    run = recorded(tmp_path / "capped.mstrata")
    assert not facts_of(run).caps_scores
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Layer.__init__.__globals__, "Attention", Capped)
        run = recorded(tmp_path / "capped.mstrata")
    assert facts_of(run).caps_scores
    missed, matched = explained(run)
    assert matched["attention capped scores"] == 4 * SCORES and left_in_layers(missed) == {}


def test_what_a_configuration_says_of_caps_and_dropout():
    given = SIZES | {"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0, "attention_dropout": 0.1}
    shape = shape_of_config(given, "x", ROWS)
    capped = {term.name: term.bytes(ROWS) for term in shape.behind}["capped logits"]
    assert capped == 4 * ROWS * VOCABULARY
    assert "capped logits" not in {term.name for term in shape_of_config(SIZES, "x", ROWS).behind}
    facts = facts_of_config(given, shape)
    assert (facts.caps_scores, facts.drops_scores) == (True, True)
    assert any("embedding puts out is the first layer's residual input" in text for text in shape.assumptions)


def test_the_embeddings_dropout_keeps_a_mask_of_its_own(tmp_path):
    run = recorded(tmp_path / "dropped.mstrata", dropped=0.5, fused=True)
    assert [term.name for term in shape_of(run).ahead] == ["embedding indices", "drop dropout mask"]
    assert explained(run)[1]["drop dropout mask"] == 4 * ROWS * HIDDEN
    assert "what it puts out is the first layer's residual input" in " ".join(shape_of(run).assumptions)


class Convolved(nn.Module):
    """A causal convolution, padded on both sides and cut again, in front of a recurrence and a gated norm."""

    def __init__(self, padded):
        super().__init__()
        self.padded, wide = padded, 3 * WIDE
        self.in_proj, self.gate_proj = nn.Linear(HIDDEN, wide, bias=False), nn.Linear(HIDDEN, WIDE, bias=False)
        self.conv = nn.Conv1d(wide, wide, 4, groups=wide, padding=3 if padded else 0, bias=False)
        self.norm, self.out_proj = nn.RMSNorm(WIDE), nn.Linear(WIDE, HIDDEN, bias=False)

    def forward(self, x):
        given = self.in_proj(x).transpose(1, 2)
        mixed = self.conv(given if self.padded else F.pad(given, (3, 0)))[..., : x.shape[1]]
        q, k, v = F.silu(mixed).transpose(1, 2).chunk(3, -1)
        return self.out_proj(self.norm((q * k).cumsum(1) * v) * F.silu(self.gate_proj(x)))


@pytest.mark.parametrize("padded", [True, False])
def test_a_padded_convolution_puts_out_more_positions(tmp_path, padded):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Layer.__init__.__globals__, "Attention", lambda: Convolved(padded))
        run = recorded(tmp_path / "convolved.mstrata")
    term = next(t for t in shape_of(run).layers[0].terms if t.name == "attention conv output")
    rows = BATCH * (TOKENS + 3 if padded else TOKENS)
    assert term.bytes(ROWS) == 4 * rows * 3 * WIDE
    missed = residual(run, shape_of(run), plan_in_force(run))
    assert {each.label: each.bytes for each in missed.matched}["attention conv output"] == LAYERS * term.bytes(ROWS)


def test_cross_attention_is_named(run_of):
    """One packed projection, queries of 4 x 64 rows, keys and values of 4 x 128: neither is 3 x width x own rows."""
    run = run_of("encoder-decoder.mstrata")
    items = {item.label: item for item in residual(run, shape_of(run), plan_in_force(run)).items}
    absent = items["multihead_attn in_proj output (predicted only)"]
    assert absent.reason is Reason.absent and absent.text.startswith("cross-attention: its packed projection")
    found = items["tensors in multihead_attn"]
    assert found.text.startswith("queries, keys and values of cross-attention inside MultiheadAttention")
    assert "two inputs" in found.text and "two inputs" in absent.text


def test_scores_and_statistics_are_not_taken_for_one_another(tmp_path):
    run = recorded(tmp_path / "scores.mstrata", drop=values_dropout)
    items = {item.label: item for item in residual(run, shape_of(run), plan_in_force(run)).items}
    mask = items["T x T tensors without grad_fn in attention"]
    assert mask.bytes == 4 * SCORES and mask.text.startswith("dropout mask of attention's scores in float32")
    again = items["T x T tensors in attention"]
    assert again.bytes == 4 * SCORES and again.text.startswith("attention's scores once more")


def test_attentions_own_mask_is_not_its_dropout(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(Layer.__init__.__globals__, "Attention", Masked)
        run = recorded(tmp_path / "masked.mstrata")
    assert (kernels_of(run).attention, kernels_of(run).dropout) == ("efficient", "none")
    items = [item for item in residual(run, shape_of(run), plan_in_force(run)).items if "mask" in item.text]
    assert [item.bytes for item in items] == [LAYERS * BATCH * TOKENS * TOKENS * 4]
    assert items[0].text.startswith("attention's mask in float32, T x T")
