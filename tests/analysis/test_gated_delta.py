"""The reference kernel of gated-delta attention: the formula against what real CPU runs of it kept."""

import pytest

from memstrata.capture.format.plan import Plan
from memstrata.viewer.analysis.gated_delta import DeltaHeads, reference_terms
from memstrata.viewer.analysis.kernels import Kernels, with_kernels
from memstrata.viewer.analysis.model_facts import facts_of_config, facts_of_preset
from memstrata.viewer.analysis.prediction import predict
from memstrata.viewer.analysis.shape_config import shape_of_config
from memstrata.viewer.analysis.shape_presets import preset

# (value heads, key heads, key width, value width, tokens, hidden): bytes per token that transformers 5.24's layer kept
# in one recorded CPU step, in bfloat16 and in float32
MEASURED = {
    (4, 2, 16, 16, 128, 64): (9982.5, 12044.5),
    (8, 4, 16, 16, 128, 64): (19805.0, 23801.0),
    (4, 2, 32, 16, 128, 64): (12353.5, 15698.5),
    (4, 2, 16, 32, 128, 64): (12225.5, 14930.5),
    (4, 2, 32, 32, 256, 64): (14638.375, 18620.375),
    (6, 2, 16, 48, 128, 96): (21557.25, 26449.75),
    (8, 2, 32, 64, 128, 64): (37871.0, 47773.0),
    (4, 2, 16, 16, 256, 128): (10091.375, 12278.375),
    (4, 1, 16, 16, 128, 64): (9853.0, 11785.5),
}


@pytest.mark.parametrize("size", MEASURED, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_formula_says_what_real_runs_kept(size, dtype):
    heads, key_heads, key, value, tokens, hidden = size
    config = {
        "hidden_size": hidden, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64,
        "layer_types": ["linear_attention"], "linear_num_value_heads": heads, "linear_num_key_heads": key_heads,
        "linear_key_head_dim": key, "linear_value_head_dim": value, "dtype": dtype,
    }  # fmt: skip
    shape = shape_of_config(config, "x", tokens)
    full = with_kernels(shape, Kernels(linear="reference"), facts_of_config(config, shape))
    mixer = [term for term in full.layers[0].terms if "attention" in term.module]  # its norm is read elsewhere
    kept = sum(term.bytes(1) for term in mixer if not term.name.startswith("residual input"))
    assert kept == pytest.approx(MEASURED[size][dtype == "float32"], rel=0.005)


def test_the_terms_by_hand():
    found = reference_terms("", "m", 6144, 2, DeltaHeads(48, 128))
    terms = {term.name.partition(", ")[2]: (term.width, term.itemsize) for term in found}
    assert terms == {
        "queries and keys": (8 * 6144, 2),
        "queries and keys in float32": (4 * 6144, 4),
        "values": (6 * 6144, 4),
        "chunks": (48 * 329, 4),
        "states": (48 * 128 * 128 // 64, 4),
    }
    assert sum(width * size for width, size in terms.values()) == 456_384


def test_the_hybrid_with_the_reference_kernel():
    """A dry run of all 64 layers at 8,192 tokens kept 334 GiB."""
    shape = preset("hybrid")
    facts = facts_of_preset("hybrid", shape)
    full = with_kernels(shape, Kernels(norm="composite", linear="reference"), facts)
    assert predict(full, Plan.NONE).total_bytes / 2**30 == pytest.approx(334, rel=0.05)


def test_without_heads_the_kernel_is_counted_by_values():
    (term,) = reference_terms("mixer", "m", 100, 2, DeltaHeads())
    assert (term.width * term.itemsize, term.name) == (7400, "mixer reference, all of it")
