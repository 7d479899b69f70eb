"""Record a step of a full-size model without a GPU, without its memory and without weights."""

from __future__ import annotations

import importlib.util
import os

from PySide6.QtWidgets import QCheckBox, QComboBox, QWidget

from ..state.process import Command, dry_run_command, why_not
from .run_dialog import RunDialog

_ABOUT = (
    "Runs forward and backward of a full-size model on tensors without contents: every allocation is recorded, nothing "
    "is computed, and no GPU is needed. Sizes are those of the CPU's kernels."
)
_TEACHING = "Teaching model: 64 full-attention layers, 27 billion parameters"
_HYBRID = "Hybrid model: 48 gated-delta and 16 full-attention layers"
_CONFIG = "A Hugging Face config.json"


class DryRunDialog(RunDialog):
    """A preset or a config file, how many tokens, how many layers in a checkpoint segment, and the file to write."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__("Dry-run a model", _ABOUT, "Dry-run", ("torch",), parent)
        self.model.setFocus()

    def add_fields(self) -> None:
        self.model = QComboBox(self)
        has_transformers = importlib.util.find_spec("transformers") is not None
        self.model.addItems([_TEACHING, _HYBRID, _CONFIG] if has_transformers else [_TEACHING, _CONFIG])
        self.add_row("&Model", self.model)
        self.config = self.add_path("&Config file", "the config.json", "Hugging Face config (*.json)")
        self.config.setPlaceholderText("config.json; needs transformers, no weights")
        self.tokens = self.add_number("&Tokens", 8192, 1, 10_000_000)
        self.batch = self.add_number("&Batch", 1, 1, 100_000)
        self.layers = self.add_number("L&ayers", 0, 0, 10_000, "all of them")
        self.segments = self.add_number("&Layers in a checkpoint segment", 0, 0, 1000, "no checkpoints")
        self.fused = QCheckBox("as torch's fused CUDA kernels would: an estimate", self)
        self.fused.setAccessibleName("Keep what torch's fused CUDA kernels would keep: an estimate")
        self.add_row("Kernels", self.fused)
        self.output = self.add_path("&Write to", "the recording to write", "Recordings (*.mstrata)", save=True)
        self.offer(os.getcwd(), "dry_run.mstrata")
        self.model.currentIndexChanged.connect(lambda _: self._show_kind())
        self._show_kind()

    def _show_kind(self) -> None:
        self.form.setRowVisible(self.config.row, self.model.currentText() == _CONFIG)

    def command(self) -> Command:
        what = {_TEACHING: ("--preset", "teaching"), _HYBRID: ("--preset", "hybrid")}.get(self.model.currentText())
        if what is None:
            missing = why_not("transformers")
            if missing:
                raise ValueError(missing)
            what = ("--hf-config", self.config.text().strip())
        if not self.output.text().strip():
            raise ValueError("Name the recording to write.")
        options = [*what, "--tokens", str(self.tokens.value()), "--batch", str(self.batch.value())]
        for name, number in (("--layers", self.layers.value()), ("--segment-layers", self.segments.value())):
            options += [name, str(number)] if number else []
        options += ["--fused"] if self.fused.isChecked() else []
        return dry_run_command(options, os.getcwd(), self.output.text())
