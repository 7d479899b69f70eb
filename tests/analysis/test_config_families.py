"""Configurations of well-known families, with the field names that transformers writes.

Widths and parameters are those of the real models of transformers 5.24 with these configurations: the shape that was
read from one recorded step of each, and the number of their parameters.
"""

import json

import pytest

from memstrata.viewer.analysis.shape import shape_of
from memstrata.viewer.analysis.shape_config import shape_of_config
from memstrata.viewer.cli import main
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

HEADS = {"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
BASE = HEADS | {"hidden_size": 64, "intermediate_size": 160, "vocab_size": 500, "hidden_act": "silu"}
UNTIED, TIED = BASE | {"tie_word_embeddings": False}, BASE | {"tie_word_embeddings": True}
ENCODER = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 160, "vocab_size": 500,
    "hidden_act": "gelu", "max_position_embeddings": 128,
}  # fmt: skip
MIXED = ["linear_attention"] * 3 + ["full_attention"]
LINEAR = {
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
}  # fmt: skip
SPARSE = {"num_experts_per_tok": 2, "moe_intermediate_size": 48, "decoder_sparse_step": 1, "mlp_only_layers": []}

FAMILIES = {
    "llama": (UNTIED, [992] * 4, 236_608),
    "mistral": (UNTIED | {"sliding_window": 4096}, [992] * 4, 236_608),
    "qwen2": (UNTIED | {"layer_types": ["full_attention"] * 4}, [992] * 4, 237_120),
    "qwen3": (UNTIED | {"layer_types": ["full_attention"] * 4}, [1088] * 4, 236_736),
    "phi3": (UNTIED, [992] * 4, 236_608),
    "gemma": (TIED | {"hidden_act": "gelu_pytorch_tanh"}, [992] * 4, 204_608),
    "gemma2": (
        TIED | {"layer_types": ["sliding_attention", "full_attention"] * 2, "hidden_activation": "gelu_pytorch_tanh"},
        [1120] * 4, 205_120,
    ),
    "gemma3_text": (TIED | {"layer_types": ["sliding_attention"] * 3 + ["full_attention"]}, [1216] * 4, 205_248),
    "mixtral": (UNTIED | {"num_local_experts": 4, "num_experts_per_tok": 2}, [1732] * 4, 606_272),
    "qwen3_moe": (UNTIED | SPARSE | {"num_local_experts": 4}, [1156] * 4, 262_336),
    "qwen3_next": (
        UNTIED | LINEAR | SPARSE | {"num_experts": 4, "shared_expert_intermediate_size": 48, "layer_types": MIXED},
        [1596] * 3 + [1492], 318_888,
    ),
    "qwen3_5_text": (UNTIED | LINEAR | {"layer_types": MIXED}, [1256] * 3 + [1152], 256_168),
    "gpt2": (
        {"n_embd": 64, "n_layer": 4, "n_head": 4, "n_inner": None, "vocab_size": 500, "n_positions": 128,
         "activation_function": "gelu_new"},
        [1088] * 4, 240_256,
    ),
    "bert": (ENCODER, [896] * 4, 195_636),
    "roberta": (ENCODER, [896] * 4, 195_636),
    "gpt_neox": (ENCODER | {"tie_word_embeddings": False}, [896] * 4, 214_528),
    "opt": (
        {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "ffn_dim": 160, "vocab_size": 500,
         "activation_function": "relu", "tie_word_embeddings": True, "max_position_embeddings": 128},
        [736] * 4, 190_848,
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_the_shape_is_that_of_the_recorded_model(family):
    given, widths, parameters = FAMILIES[family]
    shape = shape_of_config(given | {"model_type": family}, family, tokens=128)
    assert [layer.width for layer in shape.layers] == widths
    assert shape.parameters == pytest.approx(parameters, rel=0.1)  # biases and norms inside halves are not counted
    names = [term.name for term in (*shape.ahead, *shape.behind)]
    assert {"embedding indices", "final norm input", "head input", "log-probabilities", "labels"} <= set(names)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_term_has_a_name_width_dtype_count_and_formula(family, tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(FAMILIES[family][0] | {"model_type": family, "torch_dtype": "bfloat16"}))
    assert main(["predict", "--config", str(file), "--tokens", "128", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for term in found["terms"] + found["with_kernels"]["terms"]:
        assert term["name"] and term["formula"] and term["values_per_token"] > 0 and term["count"] > 0
        assert term["dtype"] in ("bfloat16", "float32", "int64", "bool", "mixed")
        assert term["bytes"] == term["bytes_each"] * term["count"]
    inside = sum(term["bytes"] for term in found["terms"] if term["layers"])
    outside = sum(term["bytes"] for term in found["terms"] if not term["layers"])
    assert (inside, outside) == (found["total_bytes"], found["outside_layers_bytes"])
    assert found["with_kernels"]["estimate"] is True


def test_the_hybrids_interval_where_kinds_are_not_listed():
    given = {key: value for key, value in FAMILIES["qwen3_5_text"][0].items() if key != "layer_types"}
    shape = shape_of_config(given | {"model_type": "qwen3_5_text"}, "x")
    assert [layer.kind for layer in shape.layers] == ["linear attention"] * 3 + ["full attention"]


def test_layers_without_experts():
    given = FAMILIES["qwen3_moe"][0] | {"mlp_only_layers": [1]}
    shape = shape_of_config(given | {"model_type": "qwen3_moe"}, "x")
    assert [layer.width for layer in shape.layers] == [1156, 1088, 1156, 1156]
    assert [layer.estimate for layer in shape.layers] == [True, False, True, True]
    deep = shape_of_config(given | {"mlp_only_layers": [], "first_k_dense_replace": 3, "n_shared_experts": 2}, "x")
    assert [layer.width for layer in deep.layers[:3]] == [992] * 3
    assert {t.name: t.width for t in deep.layers[3].terms}["shared_expert up output"] == 2 * 48


@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen3", "gemma3_text", "qwen3_next", "bert"])
def test_a_real_model_of_the_family(family, tmp_path):
    """Where transformers is: one recorded step of it."""
    torch = pytest.importorskip("torch")
    package = pytest.importorskip("transformers")
    from memstrata.capture import Recorder

    given, widths, parameters = FAMILIES[family]
    config = package.CONFIG_MAPPING[family](**given, pad_token_id=0)
    kind = package.AutoModelForMaskedLM if family == "bert" else package.AutoModelForCausalLM
    model = kind.from_config(config).float().train()
    tokens = torch.randint(3, 500, (2, 64))
    with Recorder(tmp_path / "real.mstrata", model=model):
        model(input_ids=tokens, labels=tokens).loss.backward()
    shape = shape_of(Run(open_file(tmp_path / "real.mstrata"), name=family))
    assert [layer.width for layer in shape.layers] == widths
    assert shape.parameters == sum(p.numel() for p in model.parameters()) == parameters
