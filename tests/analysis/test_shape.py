"""Shapes read from module trees."""

import dataclasses

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StringTable
from memstrata.capture.format.plan import PRESETS
from memstrata.capture.format.schema import Fate, Phase
from memstrata.viewer.analysis.prediction import predict
from memstrata.viewer.analysis.shape import not_counted, shape_of_recording


def widths(recording, layer=0):
    return [term.width for term in shape_of_recording(recording).layers[layer].terms]


def test_the_teaching_tree_reads_as_the_teaching_preset(teaching):
    shape, preset = shape_of_recording(teaching), PRESETS["teaching"]
    assert [t.width for t in shape.layers[0].terms] == [t.width for t in preset.layers[0].terms]
    assert (shape.hidden, shape.itemsize, shape.tokens, shape.super_block_length) == (5120, 2, 8192, 4)
    assert predict(shape, shape.per_super_block()) == predict(preset, preset.per_super_block())
    assert 23.8e9 < shape.parameters < 23.9e9


def test_hybrid_layers_are_read_by_kind(hybrid):
    shape = shape_of_recording(hybrid)
    assert [t.width for t in shape.layers[0].terms] == [8, 8, 8, 8, 8, 8, 8, 8, 24, 24, 24, 8]
    assert [t.width for t in shape.layers[3].terms] == [8, 8, 8, 4, 4, 8, 8, 8, 24, 24, 24, 8]
    assert shape.ranges == ((0, 4), (4, 8), (8, 12))
    assert shape.tokens == 32


def test_terms_belong_to_the_modules_that_keep_them(hybrid):
    owners = {t.name: t.module for t in shape_of_recording(hybrid).layers[3].terms}
    assert owners["residual input"] == "layers.3.input_norm"
    assert owners["mixer q_proj output"] == "layers.3.mixer"
    assert owners["mixer o_proj input"] == "layers.3.mixer.o_proj"
    assert owners["mixer output"] == "layers.3.post_norm"
    assert owners["mlp output"] == "layers.3"


def test_blocks_of_leaves_follow_the_rule_of_each_leaf(m8):
    shape = shape_of_recording(m8)
    assert [(t.width, t.module) for t in shape.layers[2].terms] == [(512, f"2.{i}") for i in range(4)]
    assert predict(shape).total_bytes == 128 * 2**20
    assert predict(shape).residual_only_bytes == 32 * 2**20


def test_a_tensor_kept_by_two_neighbours_counts_once(tree):
    tree.add("", "Sequential").linear("0", 8, 32, listed=True).add("1", "ReLU", listed=True)
    tree.linear("2", 32, 8, listed=True).add("3", "Tanh", listed=True).linear("4", 8, 8, listed=True)
    recording = tree.recording([["0", "1", "2", "3", "4"]], batch=4, sequence=1)
    shape = shape_of_recording(recording)
    assert [[t.width for t in layer.terms] for layer in shape.layers] == [[8], [32], [], [8], []]


def test_dropout_keeps_a_mask_of_the_backend_that_ran(tree):
    tree.add("", "Sequential").linear("0", 8, 8, listed=True).add("1", "Dropout", listed=True)
    recording = tree.recording([["0", "1"]], batch=4, sequence=1, source="cpu")
    assert shape_of_recording(recording).layers[1].terms[0].itemsize == 4
    cuda = shape_of_recording(recording.replace_meta(source="cuda"))
    assert cuda.layers[1].terms[0].itemsize == 1


def test_torch_encoder_layer(tree):
    tree.add("", "TransformerEncoder").add("layers", "ModuleList").add(
        "layers.0", "TransformerEncoderLayer", listed=True
    )
    tree.add("layers.0.self_attn", "MultiheadAttention", in_proj_weight=(48, 16))
    tree.linear("layers.0.self_attn.out_proj", 16, 16).linear("layers.0.linear1", 16, 64)
    tree.add("layers.0.dropout", "Dropout").linear("layers.0.linear2", 64, 16)
    tree.add("layers.0.norm1", "LayerNorm", weight=(16,)).add("layers.0.norm2", "LayerNorm", weight=(16,))
    assert widths(tree.recording([["layers.0"]], batch=1, sequence=4)) == [16, 16, 48, 16, 16, 16, 64, 64, 16]


def test_a_relu_keeps_its_output_only(tree):
    tree.add("", "TransformerEncoder").add("layers", "ModuleList")
    tree.add("layers.0", "TransformerEncoderLayer", listed=True, attributes={"activation_relu_or_gelu": 1})
    tree.add("layers.0.self_attn", "MultiheadAttention", in_proj_weight=(48, 16))
    tree.linear("layers.0.self_attn.out_proj", 16, 16).linear("layers.0.linear1", 16, 64)
    tree.linear("layers.0.linear2", 64, 16).add("layers.0.norm1", "LayerNorm", weight=(16,))
    tree.add("layers.0.norm2", "LayerNorm", weight=(16,))
    assert widths(tree.recording([["layers.0"]], batch=1, sequence=4)) == [16, 16, 48, 16, 16, 16, 64, 16]


def test_a_way_back_that_is_listed_first(tree):
    tree.add("", "Model").add("layers", "ModuleList").add("layers.0", "Layer", listed=True)
    tree.add("layers.0.mixer", "GatedDeltaNet").linear("layers.0.mixer.out_proj", 24, 8)
    tree.linear("layers.0.mixer.in_proj_qkv", 8, 40).linear("layers.0.mixer.in_proj_z", 8, 24)
    tree.add("layers.0.norm", "RMSNorm", weight=(8,))
    assert widths(tree.recording([["layers.0"]], batch=1, sequence=4)) == [8, 8, 40, 24, 24, 8]


def test_transposed_weights_of_conv1d(tree):
    tree.add("", "GPT2").add("h", "ModuleList").add("h.0", "Block", listed=True).add(
        "h.0.ln_1", "LayerNorm", weight=(16,)
    )
    tree.add("h.0.attn", "Attention").add("h.0.attn.c_attn", "Conv1D", weight=(16, 48))
    tree.add("h.0.attn.c_proj", "Conv1D", weight=(16, 16)).add("h.0.ln_2", "LayerNorm", weight=(16,))
    tree.add("h.0.mlp", "MLP").add("h.0.mlp.c_fc", "Conv1D", weight=(16, 64))
    tree.add("h.0.mlp.c_proj", "Conv1D", weight=(64, 16)).add("h.0.mlp.act", "GELU")
    assert widths(tree.recording([["h.0"]], batch=1, sequence=4)) == [16, 16, 48, 16, 16, 16, 64, 64, 16]


def test_way_back_in_the_middle_of_the_list(tree):
    tree.add("", "Llama").add("layers", "ModuleList").add("layers.0", "Block", listed=True)
    tree.add("layers.0.attention", "Attention")
    for name in ("wq", "wk", "wv", "wo"):
        tree.linear(f"layers.0.attention.{name}", 16, 16)
    tree.add("layers.0.feed_forward", "FeedForward").linear("layers.0.feed_forward.w1", 16, 64)
    tree.linear("layers.0.feed_forward.w2", 64, 16).linear("layers.0.feed_forward.w3", 16, 64)
    tree.add("layers.0.attention_norm", "RMSNorm", weight=(16,)).add("layers.0.ffn_norm", "RMSNorm", weight=(16,))
    got = widths(tree.recording([["layers.0"]], batch=1, sequence=4))
    assert sorted(got) == sorted([16] * 7 + [16, 64, 64, 64, 16])


def test_a_token_goes_through_the_chosen_experts_only(tree):
    tree.add("", "Moe").add("layers", "ModuleList").add("layers.0", "Layer", listed=True).add(
        "layers.0.attn", "Attention"
    )
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        tree.linear(f"layers.0.attn.{name}", 16, 16)
    tree.add("layers.0.moe", "MoE", attributes={"top_k": 2}).add("layers.0.moe.experts", "ModuleList")
    for i in range(8):
        path = f"layers.0.moe.experts.{i}"
        tree.add(path, "Expert", listed=True).linear(f"{path}.gate", 16, 32).linear(f"{path}.up", 16, 32)
        tree.linear(f"{path}.down", 32, 16)
    tree.add("layers.0.norm1", "RMSNorm", weight=(16,)).add("layers.0.norm2", "RMSNorm", weight=(16,))
    got = widths(tree.recording([["layers.0"]], batch=1, sequence=4))
    # norm output, rows of the chosen, gate, up, product, weighted outputs, output
    assert got[-7:] == [16, 32, 64, 64, 64, 32, 16]


def test_encoder_and_decoder_lists(tree):
    tree.add("", "Seq2Seq").add("encoder", "ModuleList").add("decoder", "ModuleList")
    for part in ("encoder", "decoder"):
        for i in range(2):
            tree.add(f"{part}.{i}", "Sequential", listed=True)
            tree.linear(f"{part}.{i}.0", 8, 8, listed=True).add(f"{part}.{i}.1", "GELU", listed=True)
    recording = tree.recording([["encoder.0", "encoder.1"], ["decoder.0", "decoder.1"]], batch=4, sequence=1)
    shape = shape_of_recording(recording)
    assert shape.names == ("encoder.0", "encoder.1", "decoder.0", "decoder.1")
    assert shape.ranges == ((0, 1), (1, 2), (2, 3), (3, 4))


def test_nothing_is_claimed_without_layers_batch_or_widths(tree):
    tree.add("", "Net").add("0", "Conv2d", listed=True, weight=(8, 3, 3, 3))
    assert shape_of_recording(tree.recording([["0"]], batch=1, sequence=1)) is None
    assert shape_of_recording(tree.recording([], batch=1, sequence=1)) is None
    tree.linear("1", 8, 8, listed=True)
    assert shape_of_recording(tree.recording([["0", "1"]])) is None
    known = shape_of_recording(tree.recording([["0", "1"]], batch=1, sequence=1))
    assert any("not counted: Conv2d" in text for text in known.assumptions)


def test_a_compiled_model_is_said_to_break_the_rules(tree):
    tree.add("", "OptimizedModule").add("_orig_mod", "Sequential").linear("_orig_mod.0", 8, 8, listed=True)
    shape = shape_of_recording(tree.recording([["_orig_mod.0"]], batch=1, sequence=1))
    assert any("compiled" in text for text in shape.assumptions)


def seen(recording, shape, module, known=-1):
    """The recording with one saved tensor of this shape, packed by this module."""
    strings = StringTable()
    for text in recording.strings:
        strings.intern(text)
    row = (1, -1, module, Phase.forward, Fate.kept, -1, 0, known, 0, 0, 4, 4, strings.intern(shape), 0, 0, -1, -1)
    saved = schema.from_rows(schema.SavedTensors, [row])
    return dataclasses.replace(recording, strings=strings.freeze(), saved_tensors=saved)


def test_the_patches_of_an_image_are_read_from_what_layers_kept(hybrid):
    image = hybrid.replace_meta(batch=2, sequence=1, shapes={"args[0]": [2, 3, 32, 32]})
    layer = int(hybrid.layers.module[0])
    assert shape_of_recording(image) is None  # how many rows a layer sees is not known
    shape = shape_of_recording(seen(image, "2,64,8", layer))
    assert shape.tokens == 128
    assert "batch x sequence = 2 x 64" in shape.assumptions[0]
    assert shape_of_recording(seen(image, "128,8", layer)).tokens == 128
    assert shape_of_recording(seen(image, "2,64,9", layer)) is None
    assert shape_of_recording(seen(image, "2,64,8", module=0)) is None  # outside layers
    assert shape_of_recording(seen(hybrid, "16,8", layer)).tokens == 16
    assert shape_of_recording(seen(hybrid, "2,16,8", layer)).tokens == 32


def test_a_convolution_is_not_counted_and_what_follows_it_neither(tree):
    tree.add("", "Sequential").add("0", "Conv2d", listed=True, weight=(8, 3, 3, 3))
    tree.add("1", "BatchNorm2d", listed=True, weight=(8,)).add("2", "ReLU", listed=True)
    assert shape_of_recording(tree.recording([["0", "1", "2"]], batch=4, sequence=1)) is None
    tree.linear("3", 16, 4, listed=True).add("4", "LSTM", listed=True, weight_ih_l0=(8, 4)).add(
        "5", "Tanh", listed=True
    )
    shape = shape_of_recording(tree.recording([["0", "1", "2", "3", "4", "5"]], batch=4, sequence=1))
    assert [[t.width for t in layer.terms] for layer in shape.layers] == [[], [], [], [16], [], []]
    assert not_counted(shape) == "BatchNorm2d, Conv2d, LSTM, ReLU, Tanh"


def test_a_norm_and_an_embedding_say_their_width(tree):
    tree.add("", "Sequential").add("0", "Embedding", listed=True, weight=(100, 8)).add("1", "GELU", listed=True)
    shape = shape_of_recording(tree.recording([["0", "1"]], batch=4, sequence=1))
    assert ([[t.width for t in layer.terms] for layer in shape.layers], not_counted(shape)) == ([[], [8]], "")
    other = type(tree)().add("", "Sequential").add("0", "LayerNorm", listed=True, weight=(8,))
    assert widths(other.linear("1", 8, 8, listed=True).recording([["0", "1"]], batch=4, sequence=1)) == [8]
