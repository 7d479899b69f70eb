"""Unmodified scripts of training frameworks, where those are installed."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from memstrata.capture.format import files
from memstrata.viewer.cli import main
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run

TRANSFORMERS = """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                         num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64))
    data = [{"input_ids": torch.randint(0, 64, (16,)), "labels": torch.randint(0, 64, (16,))} for _ in range(64)]
    options = TrainingArguments("out", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=7,
                                report_to=[], save_strategy="no", use_cpu=True, dataloader_pin_memory=False)
    Trainer(model=model, args=options, train_dataset=data).train()
"""

LIGHTNING = """
    import lightning, torch

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 1))

        def training_step(self, batch, number):
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 8)), batch_size=4)
    lightning.Trainer(max_steps=8, accelerator="cpu", logger=False, enable_checkpointing=False,
                      enable_progress_bar=False, enable_model_summary=False).fit(Model(), data)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder in which the script runs; what running it changes of this process is put back."""
    argv, path, main_module, cwd = list(sys.argv), list(sys.path), sys.modules["__main__"], os.getcwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(cwd)
    sys.argv[:], sys.path[:], sys.modules["__main__"] = argv, path, main_module


def test_the_trainer_of_transformers(folder: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    (folder / "train.py").write_text(textwrap.dedent(TRANSFORMERS))
    assert main(["record", "-o", "a.mstrata", "train.py"]) == 0
    recording = files.read(folder / "a.mstrata")
    steps = recording.steps
    assert (recording.meta.model, len(recording.layers)) == ("LlamaForCausalLM", 2)
    assert steps.index.tolist() == [0, 1, 2, 3, 4, 5, 6] and steps.index[steps.recorded].tolist() == [3]
    assert steps.tokens[2:].tolist() == [2 * 4 * 16] * 5  # two rounds of gradient accumulation
    assert identities.check(Run(recording)) == []


@pytest.mark.parametrize("options, recorded", [(["--steps", "2"], [3, 4]), (["--on", "peak"], None)])
def test_lightning_runs_forward_and_backward_inside_the_optimizer(
    folder: Path, options: list[str], recorded: list[int] | None
) -> None:
    pytest.importorskip("lightning")
    (folder / "train.py").write_text(textwrap.dedent(LIGHTNING))
    assert main(["record", *options, "-o", "a.mstrata", "train.py"]) == 0
    recording = files.read(folder / "a.mstrata")
    steps = recording.steps
    assert recorded in (None, steps.index[steps.recorded].tolist())
    assert identities.check(Run(recording)) == []
