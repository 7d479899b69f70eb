"""From the raw facts of a step to the tables of a `Recording`."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from .allocation_sources import Allocations
from .format import schema
from .format.interning import StackTable, StringTable
from .format.paths import short_path
from .format.problems import Problem, merge
from .format.recording import Meta, Recording, build
from .format.schema import NONE, MarkKind, Phase, Severity
from .layers import batch_and_sequence, inputs_of, kind_of, layer_lists
from .spans import backward_calls, phase_intervals, recomputed_segments
from .step_log import Frame, Input, StepLog


class ModuleRows:
    """The module tree of the recorded model with a row for each module."""

    def __init__(self, model: nn.Module | None) -> None:
        self.paths: list[str] = []
        self.modules: list[nn.Module] = []
        self.rows: dict[int, int] = {}
        self._row_of_path: dict[str, int] = {}
        for path, module in model.named_modules() if model is not None else ():
            self.rows[id(module)] = self._row_of_path[path] = len(self.modules)
            self.paths.append(path)
            self.modules.append(module)

    def row(self, module: nn.Module | None) -> int:
        """The row of a module, -1 for none and for modules of other models."""
        return NONE if module is None else self.rows.get(id(module), NONE)

    def parent(self, row: int) -> int:
        """The row of the module that holds this one under its path."""
        path = self.paths[row]
        while path:
            path = path.rpartition(".")[0]
            if path in self._row_of_path:
                return self._row_of_path[path]
        return NONE


def assemble(log: StepLog, model: nn.Module | None, allocations: Allocations, strings: StringTable,
             stacks: StackTable, meta: dict[str, Any]) -> Recording:  # fmt: skip
    """The recording of one step."""
    rows = ModuleRows(model)
    lists = layer_lists(model) if model is not None else []
    tables = dict(allocations.tables)
    devices = {device.name: row for row, device in enumerate(allocations.devices)}
    tables["modules"], tables["module_parameters"], tables["module_attributes"] = _module_tables(rows, strings)
    tables["layers"] = _layer_table(rows, lists, strings)
    tables["spans"] = _span_table(log, rows, lists)
    tables["saved_tensors"] = _saved_table(log, rows, strings, _FrameRows(stacks), devices)
    tables["known_storages"] = _known_table(log, rows, strings, devices)
    tables["marks"] = schema.from_columns(schema.Marks, **_marks(log, strings, tables.pop("marks", None)))
    tables["steps"] = _step_table(log, meta)
    tables["frames"], tables["stacks"] = stacks.freeze()
    return build(_meta(log, model, rows, allocations, meta), strings, **tables)


def _meta(
    log: StepLog, model: nn.Module | None, rows: ModuleRows, allocations: Allocations, meta: dict[str, Any]
) -> Meta:
    inputs = inputs_of(model, log.inputs) if model is not None else []
    first = next((given for given in inputs if given.sizes), None)
    batch, sequence = batch_and_sequence(first.sizes, first.is_index) if first is not None else (None, None)
    problems = [*allocations.problems, *log.problems, *_failures(log), *_compiled(model), *_threads(log)]
    return Meta(
        kind="recording", devices=allocations.devices, torch_version=torch.__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        allocator_settings=allocations.settings, model=type(model).__name__ if model is not None else None,
        optimizer=", ".join(sorted({type(o).__name__ for o in log.optimizers.values()})) or None,
        shapes=_shapes(inputs), batch=batch, sequence=sequence,
        dtype=log.dtype or _dtype(model), loss=_loss(log), plan=_plan(log, rows),
        has_reserved=allocations.has_reserved, problems=merge(problems), **meta,
    )  # fmt: skip


def _failures(log: StepLog) -> list[Problem]:
    return [
        Problem(
            "recorder_failure", Severity.error, f"Part of the recorder failed and was switched off ({text}).", count
        )
        for text, count in log.failures.items()
    ]


def _threads(log: StepLog) -> list[Problem]:
    text = (
        "Other threads ran forward or called backward: what they saved, and on a CPU what they allocated, was not seen."
    )
    return [Problem("other_threads", Severity.warning, text, len(log.other_threads))] if log.other_threads else []


def _shapes(inputs: list[Input]) -> dict[str, list[int]]:
    first: dict[str, list[int]] = {}
    for given in inputs:
        first.setdefault(given.name, list(given.sizes or ()))
    return first


def _compiled(model: nn.Module | None) -> list[Problem]:
    modules = model.modules() if model is not None else ()
    count = sum(type(m).__name__ == "OptimizedModule" or m._compiled_call_impl is not None for m in modules)
    text = (
        "Part of the model is compiled: a compiled region is seen as one piece, and a prediction from the rules of "
        "eager execution does not apply to it."
    )
    return [Problem("compiled", Severity.warning, text, count)] if count else []


def _dtype(model: nn.Module | None) -> str | None:
    sizes: Counter[str] = Counter()
    for parameter in model.parameters() if model is not None else ():
        sizes[str(parameter.dtype).removeprefix("torch.")] += 0 if is_lazy(parameter) else parameter.numel()
    return sizes.most_common(1)[0][0] if sizes else None


def _loss(log: StepLog) -> float | None:
    try:
        value = float(log.losses[-1]) if log.losses else None
    except RuntimeError:  # the GPU failed in this step, and nothing on it can be read any more
        value = None
    return value if value is not None and math.isfinite(value) else None


def _plan(log: StepLog, rows: ModuleRows) -> tuple[tuple[str, ...], ...] | None:
    segments = []
    announced = [modules for _, modules in sorted(log.checkpoint_modules.items())]
    for modules in announced or recomputed_segments(log):
        paths = tuple(rows.paths[rows.row(m)] for m in modules if rows.row(m) != NONE)
        if paths:
            segments.append(paths)
    return tuple(segments) or None


def _module_tables(rows: ModuleRows, strings: StringTable) -> tuple[schema.Table, schema.Table, schema.Table]:
    modules, parameters, attributes = [], [], []
    for row, (path, module) in enumerate(zip(rows.paths, rows.modules, strict=True)):
        parent = rows.parent(row)
        in_list = parent != NONE and isinstance(rows.modules[parent], (nn.ModuleList, nn.Sequential, nn.ModuleDict))
        modules.append((parent, strings.intern(path), strings.intern(type(module).__name__), in_list))
        for name, p in module.named_parameters(recurse=False):
            if is_lazy(p):  # it has neither shape nor bytes before the module's first call
                continue
            shape, dtype = ",".join(map(str, p.shape)), str(p.dtype).removeprefix("torch.")
            parameters.append((row, strings.intern(name), strings.intern(shape), strings.intern(dtype),
                               p.numel() * p.element_size(), p.requires_grad))  # fmt: skip
        for name, value in vars(module).items():
            if type(value) is int and not name.startswith("_") and abs(value) < 2**62:
                attributes.append((row, strings.intern(name), value))
    return (
        schema.from_rows(schema.Modules, modules),
        schema.from_rows(schema.ModuleParameters, parameters),
        schema.from_rows(schema.ModuleAttributes, attributes),
    )


def _layer_table(rows: ModuleRows, lists: list[list[nn.Module]], strings: StringTable) -> schema.Layers:
    found = [
        (number, index, rows.row(layer), strings.intern(kind_of(layer)))
        for number, layers in enumerate(lists)
        for index, layer in enumerate(layers)
        if rows.row(layer) != NONE
    ]
    return schema.from_rows(schema.Layers, found)


def _span_table(log: StepLog, rows: ModuleRows, lists: list[list[nn.Module]]) -> schema.Spans:
    owner = _owners(rows, lists)
    calls = [c for c in log.calls if rows.row(c.module) != NONE]
    calls += backward_calls(log, lambda module: owner.get(id(module)))
    found: list[tuple[Any, ...]] = [(i.start, -i.end, NONE, i.phase, i.end, NONE) for i in phase_intervals(log)]
    found += [(c.start, -c.end, rows.row(c.module), c.phase, c.end, c.thread) for c in calls]
    numbers: Counter[tuple[int, Phase]] = Counter()
    spans = []
    for start, _, module, phase, end, thread in sorted(found, key=lambda span: span[:2]):
        spans.append((module, phase, numbers[module, phase], start, end, thread))
        numbers[module, phase] += 1
    return schema.from_rows(schema.Spans, spans)


def _owners(rows: ModuleRows, lists: list[list[nn.Module]]) -> dict[int, nn.Module]:
    """id of each module -> the layer it is in, or for modules outside layers the module itself."""
    owner = {id(module): module for module in rows.modules}
    for layer in (layer for layers in lists for layer in layers):
        owner.update({id(module): layer for module in layer.modules()})
    return owner


class _FrameRows:
    """Python frames to stack rows, each distinct (code, line) named once."""

    def __init__(self, stacks: StackTable) -> None:
        self._stacks = stacks
        self._frames: dict[Frame, int] = {}

    def stack(self, frames: tuple[Frame, ...]) -> int:
        return self._stacks.stack([self._frame(frame) for frame in reversed(frames)])

    def _frame(self, frame: Frame) -> int:
        if frame not in self._frames:
            code, line = frame
            self._frames[frame] = self._stacks.frame(code.co_name, short_path(code.co_filename), line)
        return self._frames[frame]


def _saved_table(log: StepLog, rows: ModuleRows, strings: StringTable, frames: _FrameRows,
                 devices: dict[str, int]) -> schema.SavedTensors:  # fmt: skip
    text, known = strings.intern, log.storages.known_row
    found = [
        (
            s.time, s.unpack_time, rows.row(s.module), s.phase, s.fate, s.checkpoint, s.storage, known(s.storage),
            devices.get(str(s.device), NONE), s.address, s.storage_bytes, s.tensor_bytes, text(s.shape), text(s.dtype),
            text(s.op),
            frames.stack(s.frames), s.thread,
        )
        for s in log.saved
    ]  # fmt: skip
    return schema.from_rows(schema.SavedTensors, found)


def _known_table(log: StepLog, rows: ModuleRows, strings: StringTable, devices: dict[str, int]) -> schema.KnownStorages:
    found = []
    for k in log.storages.known:
        device = devices.get(str(k.device), NONE)
        found.append((k.kind, device, k.address, k.bytes, strings.intern(k.name), rows.row(k.module), k.start_time,
                      k.end_time))  # fmt: skip
    return schema.from_rows(schema.KnownStorages, found)


def _step_table(log: StepLog, meta: dict[str, Any]) -> schema.Steps:
    loss = _loss(log)
    index = NONE if meta.get("step_index") is None else meta["step_index"]
    row = (index, log.start_time, log.end_time, True, NONE, math.nan if loss is None else loss)
    return schema.from_rows(schema.Steps, [row])


def _marks(log: StepLog, strings: StringTable, measured: Any) -> dict[str, Any]:
    names = [f.name for f in schema.columns_of(schema.Marks)]
    columns: dict[str, list[Any]] = {n: list(getattr(measured, n)) if measured is not None else [] for n in names}
    loss = _loss(log)
    if loss is not None:
        row = (MarkKind.loss, log.end_time, NONE, strings.intern("loss"), loss)
        for name, value in zip(names, row, strict=True):
            columns[name].append(value)
    return columns
