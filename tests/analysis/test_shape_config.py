"""Shapes from configurations: exact where the arithmetic is known, one sentence where the file is wrong."""

import json

import pytest

from memstrata.capture.format.plan import PRESETS, Plan
from memstrata.viewer.analysis.prediction import predict
from memstrata.viewer.analysis.shape import not_counted
from memstrata.viewer.analysis.shape_config import shape_of_config, shape_of_file
from memstrata.viewer.analysis.shape_presets import CONFIGS, preset
from memstrata.viewer.cli import main

TEACHING = """
layers = 64
hidden = 5120
heads = 24
kv_heads = 4
head_dim = 256
output_gate = true
ffn = 17408
dtype = "bfloat16"
"""
SMALL = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 128}


def test_the_teaching_model_in_toml_is_the_preset(tmp_path):
    file = tmp_path / "teaching.toml"
    file.write_text(TEACHING)
    shape, expected = shape_of_file(str(file)), PRESETS["teaching"]
    assert shape.layers[0].width == 98_304
    assert [(t.name, t.width, t.formula) for t in shape.layers[5].terms] == [
        (t.name, t.width, t.formula) for t in expected.layers[5].terms
    ]
    assert predict(shape, shape.every(4)) == predict(expected, expected.every(4))
    assert shape.parameters == pytest.approx(23.82e9, rel=0.001)  # the layers listed, without embedding and head


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("llama-3-8b", 8.03e9), ("llama-3-70b", 70.55e9), ("mistral-7b", 7.24e9), ("mixtral-8x7b", 46.7e9),
     ("gpt2", 0.124e9), ("hybrid", 26.9e9), ("qwen3-8b", 8.19e9), ("qwen3-next-80b-a3b", 79.7e9),
     ("gemma-2-9b", 9.24e9), ("bert-base", 0.1095e9)],
)  # fmt: skip
def test_presets_have_the_parameters_they_are_known_for(name, parameters):
    assert preset(name).parameters == pytest.approx(parameters, rel=0.01)
    assert predict(preset(name), Plan.NONE).total_bytes > 0


def test_the_hybrid_repeats_every_four_layers():
    shape = preset("hybrid")
    assert shape.ranges == tuple((i, i + 4) for i in range(0, 64, 4))
    assert [shape.layers[i].kind for i in range(4)] == ["linear attention"] * 3 + ["full attention"]
    assert shape.layers[3].width == 98_304 + 24 * 256 + 4 * 256  # queries and keys before their norms
    assert any(text.startswith("estimate: gated-delta") for text in shape.assumptions)


def test_what_a_small_layer_keeps_by_hand():
    """Input, norm output, q, k, v, what the output projection gets, output; norm output, gate, up, product, output."""
    shape = shape_of_config(SMALL | {"num_key_value_heads": 2}, "x", tokens=10)
    assert shape.layers[0].width == 64 * 2 + (64 + 32 + 32) + 64 + 64 + 64 + 3 * 128 + 64
    assert shape.layers[0].bytes(10) == shape.layers[0].width * 2 * 10


def test_experts_keep_what_each_token_is_sent_to():
    shape = shape_of_config(CONFIGS["mixtral-8x7b"], "x")
    experts = {t.name: t.width for t in shape.layers[0].terms if t.name.startswith("experts")}
    assert experts["experts router scores"] == 8 and experts["experts up output"] == 2 * 14336


def test_unknown_kinds_are_unknown_and_not_zero(tmp_path, capsys):
    given = SMALL | {"layer_types": ["full_attention", "mamba"] * 2, "vocab_size": 100}
    shape = shape_of_config(given, "x")
    assert "mamba" in not_counted(shape)
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model_type": "outer", "text_config": given}))
    assert main(["predict", "--config", str(file)]) == 0
    out = capsys.readouterr().out
    assert "At least" in out and "what mamba (2 layers) keep is unknown" in " ".join(out.split())
    assert main(["predict", "--config", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["total_bytes"] > 0 and "mamba" in found["not_counted"]
    assert [term for term in found["terms"] if term["layer_kind"] == "mamba"] == [
        {"layer_kind": "mamba", "layers": 2, "estimate": False, "name": None, "bytes": None}
    ]


@pytest.mark.parametrize(
    "given",
    [SMALL | {"layer_types": ["mamba"] * 4}, {"model_type": "mamba", "hidden_size": 64, "num_hidden_layers": 4}],
)
def test_a_model_of_unknown_layers_has_no_figure(tmp_path, capsys, given):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(given))
    assert main(["predict", "--config", str(file)]) == 0
    out = capsys.readouterr().out
    assert "Activations: unknown; what mamba (4 layers) keep is not known here" in " ".join(out.split())
    assert "GiB" not in out and "MiB" not in out and " 0 B" not in out
    assert main(["predict", "--config", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["total_bytes"] is None and found["checkpointed_peak_bytes"] is None


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"hidden_size": None}, "hidden_size (hidden in TOML) is missing"),
        ({"num_attention_heads": None}, "num_attention_heads (heads in TOML) is missing"),
        ({"intermediate_size": None}, "intermediate_size (ffn in TOML) is missing"),
        ({"hidden_size": 0}, "hidden_size must be a whole number from 1, not 0"),
        ({"hidden_size": "64"}, "hidden_size must be a whole number from 1, not '64'"),
        ({"num_hidden_layers": True}, "num_hidden_layers must be a whole number from 1, not True"),
        ({"num_hidden_layers": 10**6}, "no model has so many layers"),
        ({"num_attention_heads": 5}, "num_attention_heads = 5 does not divide hidden_size = 64"),
        ({"num_key_value_heads": 3}, "num_key_value_heads = 3 does not divide num_attention_heads = 4"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for num_hidden_layers = 4"),
        ({"layer_types": "full"}, "layer_types must be a list of names"),
        ({"num_local_experts": 2, "num_experts_per_tok": 3}, "num_experts_per_tok = 3 is more than num_experts = 2"),
        ({"dtype": "float3"}, "dtype 'float3' is not known"),
        ({"attn_output_gate": 1}, "attn_output_gate must be true or false, not 1"),
        ({"num_attention_heads": -4}, "num_attention_heads must be a whole number from 1, not -4"),
        ({"mlp_only_layers": 3}, "mlp_only_layers must be a list of whole numbers"),
        ({"text_config": []}, "text_config must be a table of fields, not []"),
        (
            {"linear_num_key_heads": 3, "linear_num_value_heads": 4},
            "linear_num_key_heads = 3 does not divide linear_num_value_heads = 4",
        ),
    ],
)
def test_a_bad_config_is_one_sentence_that_names_the_field(tmp_path, capsys, changed, sentence):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMALL | changed))
    assert main(["predict", "--config", str(file)]) == 2
    out, err = capsys.readouterr()
    assert not out and sentence in err and err.count("\n") == 1 and "config.json" in err


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [("c.json", "{", "is no JSON"), ("c.toml", "a = ", "is no TOML"), ("c.json", "[1]", "no configuration"),
     ("c.json", "[" * 100_000, "is no JSON"), ("c.toml", "\udcff", "is no TOML")],
)  # fmt: skip
def test_a_file_that_is_no_config_is_one_sentence(tmp_path, capsys, name, text, sentence):
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    assert main(["predict", "--config", str(tmp_path / name)]) == 2
    assert sentence in capsys.readouterr().err


def test_segments_and_tokens_that_cannot_be(tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMALL))
    for arguments, sentence in (
        (["--segment-layers", "5"], "--segment-layers: a segment has 1 to 4 layers in this model, not 5"),
        (["--segment-layers", "0"], "--segment-layers: a segment has 1 to 4 layers in this model, not 0"),
        (["--tokens", "0"], "--tokens: a step has at least one token, not 0"),
        (["--tokens", "-3"], "--tokens: a step has at least one token, not -3"),
    ):
        assert main(["predict", "--config", str(file), *arguments]) == 2
        assert sentence in capsys.readouterr().err
