"""Dry runs of real transformers models from a config alone; skipped where the package is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memstrata.capture import CaptureError
from memstrata.capture.format import files
from memstrata.capture.format.schema import Fate
from memstrata.capture.presets import Sizes, job
from memstrata.viewer.model.identities import check
from memstrata.viewer.model.run import Run

from .recordings import saved_bytes

pytest.importorskip("transformers")

LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1000,
}  # fmt: skip


def config(folder: Path, **changes: Any) -> str:
    fields = {key: value for key, value in {**LLAMA, **changes}.items() if value is not None}
    path = folder / "config.json"
    path.write_text(json.dumps(fields))
    return str(path)


def run(folder: Path, sizes: Sizes, path: str, **options: Any) -> Run:
    job(None, path, sizes).run(folder / "a.mstrata", **options)
    found = Run(files.read(folder / "a.mstrata"))
    assert check(found) == []
    return found


@pytest.mark.parametrize("segment", [None, 1, 2])
def test_a_language_model_with_its_head(tmp_path: Path, segment: int | None) -> None:
    found = run(tmp_path, Sizes(tokens=128, segment_layers=segment), config(tmp_path), optimizer="adamw")
    assert found.recording.meta.model == "LlamaForCausalLM"
    assert (found.recording.meta.batch, found.recording.meta.sequence) == (1, 128)
    assert len(found.layers) == 4
    plan = found.recording.meta.plan
    paths = [f"model.layers.{i}" for i in range(4)]
    assert plan == (None if segment is None else tuple(tuple(paths[i : i + segment]) for i in range(0, 4, segment)))
    assert bool(saved_bytes(found.recording, Fate.dropped)) == (segment is not None)


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100},
        {"model_type": "mixtral", "num_hidden_layers": 2},
    ],
)
def test_other_kinds(tmp_path: Path, fields: dict[str, Any]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**(LLAMA if fields["model_type"] == "mixtral" else {}), **fields}))
    assert len(run(tmp_path, Sizes(tokens=32), str(path), fused=True).layers) == 2


def test_hybrid_layers_keep_what_was_measured_once(tmp_path: Path) -> None:
    """At 256 tokens, one super-block: linear attention keeps more than full attention, and all is booked on layers."""
    job("hybrid", None, Sizes(tokens=256, layers=4)).run(tmp_path / "a.mstrata")
    found = Run(files.read(tmp_path / "a.mstrata"))
    saved = found.saved_bytes_by_layer()
    assert saved[1] == saved[2] > saved[3]
    final_norm = 256 * (2 * 5120 * 4 + 4) + 5120 * 4
    assert saved[-1] == final_norm
    assert "reference kernel" in found.recording.meta.estimates[-1]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": None}, "lacks the field 'model_type'"),
        ({"num_attention_heads": None}, "lacks the field 'num_attention_heads'"),
        ({"num_attention_heads": 3}, "attention heads"),
        ({"num_key_value_heads": 3}, "'num_key_value_heads'"),
        ({"hidden_size": "wide"}, "'hidden_size'"),
        ({"num_hidden_layers": 0}, "'num_hidden_layers'"),
        ({"model_type": "no_such_model"}, "no model of the type 'no_such_model'"),
        ({"model_type": "vit"}, "no language model of the type 'vit'"),
    ],
)
def test_bad_configs_name_the_field(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(CaptureError) as refused:
        job(None, config(tmp_path, **changes), Sizes(tokens=16)).run(tmp_path / "a.mstrata")
    assert says in str(refused.value)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_sizes_that_do_not_fit(tmp_path: Path) -> None:
    for sizes, says in ((Sizes(segment_layers=5), "1 to 4 layers"), (Sizes(layers=9), "has 4 layers")):
        with pytest.raises(CaptureError, match=says):
            job(None, config(tmp_path), sizes)
