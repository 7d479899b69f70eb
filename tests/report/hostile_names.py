"""Recordings whose every text is meant to do harm where it is shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from memstrata.capture.format import files
from memstrata.capture.format.interning import Strings
from memstrata.capture.format.problems import Problem
from memstrata.capture.format.recording import Device, Recording
from memstrata.capture.format.schema import Severity
from memstrata.viewer.sources import open_file

MARKUP = '<b>{}</b><img src="file:///x" onerror="alert(1)"><script>alert(1)</script>'
TEXTS: list[Callable[[str], str]] = [
    MARKUP.format,
    "=cmd|' /C calc'!A0 {}".format,
    '{}\nsecond,line\r\n"third"'.format,
    "{}\0nul\x1b[31mred\x07".format,
    "\u202e{} \u2066עברית".format,
    lambda text: text + "W" * 10_000,
    "' onmouseover='x' \" ]]></svg></style></title>{}".format,
    "&lt;{}&amp;".format,
    "\uffff\ufffe{}\u2028".format,
    "\t+{}".format,
]


def hostile(path: Path, target: Path, *, keep_paths: bool) -> Path:
    """Write the recording with all texts made harmful; with `keep_paths` those by which layers are found stay."""
    recording = open_file(path)
    kept = _telling(recording) if keep_paths else set()
    old = recording.strings.all()
    new = [text if i in kept else TEXTS[i % len(TEXTS)](text) for i, text in enumerate(old)]
    parts = [text.encode() for text in new]
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    strings = Strings(np.frombuffer(b"".join(parts), np.uint8), offsets)
    files.write(dataclasses.replace(recording, strings=strings, meta=_meta(recording)), target)
    return target


def _telling(recording: Recording) -> set[int]:
    modules, held, saved = recording.modules, recording.module_parameters, recording.saved_tensors
    columns = [modules.path, modules.cls, held.shape, held.dtype, recording.layers.kind, saved.shape, saved.dtype]
    return {number for column in columns for number in column.tolist()}


def _meta(recording: Recording) -> object:
    meta, bad = recording.meta, MARKUP.format
    problems = [Problem(f"code{i}", Severity(i % 3), text("a problem"), 3) for i, text in enumerate(TEXTS)]
    return dataclasses.replace(
        meta, model=bad("model"), optimizer=bad("AdamW"), torch_version=bad("2.13"), kernels=bad("cpu"),
        estimates=(bad("estimate"),), trigger=bad("trigger"), loss=float("nan"), loss_scale=float("inf"),
        devices=tuple(Device(bad(device.name), device.ordinal) for device in meta.devices),
        problems=(*meta.problems, *problems), shapes={bad(key): shape for key, shape in meta.shapes.items()},
    )  # fmt: skip
