"""From the raw facts of a step to the tables of a `Recording`."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from . import compiled, step_rows
from .allocation_sources import Allocations
from .distributed import class_name, local_bytes
from .fates import settled_fates
from .format import schema
from .format.interning import StackTable, StringTable
from .format.problems import Problem, merge
from .format.recording import Meta, Recording, build
from .format.schema import NONE, MarkKind, Phase, Severity
from .frame_rows import FrameRows
from .layers import batch_and_sequence, inputs_of, kind_of, layer_lists
from .spans import backward_calls, phase_intervals, recomputed_segments
from .step_log import Input, StepLog
from .step_rows import StepRow
from .storages import plain_path


class ModuleRows:
    """The module tree of the recorded model with a row for each module; `checkpoint_wrapper` is seen through."""

    def __init__(self, model: nn.Module | None) -> None:
        self.paths: list[str] = []
        self.modules: list[nn.Module] = []
        self.rows: dict[int, int] = {}
        self.wrappers: set[int] = set()
        """ids of wrapping modules: they share the row of what they wrap."""
        self._row_of_path: dict[str, int] = {}
        for path, module in model.named_modules() if model is not None else ():
            self._add(plain_path(path), module)

    def _add(self, path: str, module: nn.Module) -> None:
        row = self.rows[id(module)] = self._row_of_path.setdefault(path, len(self.modules))
        if row < len(self.modules):
            self.wrappers.add(id(self.modules[row]))
            self.modules[row] = module
        else:
            self.paths.append(path)
            self.modules.append(module)

    def row(self, module: nn.Module | None) -> int:
        """The row of a module, -1 for none and for modules of other models."""
        row = NONE if module is None else self.rows.get(id(module), NONE)
        if row == NONE and module is not None and "_orig_mod" in module._modules:  # torch.compile(part of the model)
            row = self.rows.get(id(module._orig_mod), NONE)
        return row

    def parent(self, row: int) -> int:
        """The row of the module that holds this one under its path."""
        path = self.paths[row]
        while path:
            path = path.rpartition(".")[0]
            if path in self._row_of_path:
                return self._row_of_path[path]
        return NONE


def assemble(log: StepLog, model: nn.Module | None, allocations: Allocations, strings: StringTable,
             stacks: StackTable, meta: dict[str, Any], steps: Sequence[StepRow] = ()) -> Recording:  # fmt: skip
    """The recording of the steps in a log."""
    rows = ModuleRows(model)
    lists = layer_lists(model) if model is not None else []
    tables = dict(allocations.tables)
    devices = {device.name: row for row, device in enumerate(allocations.devices)}
    tables["modules"], tables["module_parameters"], tables["module_attributes"] = _module_tables(rows, strings)
    tables["layers"] = _layer_table(rows, lists, strings)
    tables["spans"] = _span_table(log, rows, lists)
    tables["saved_tensors"] = _saved_table(log, rows, strings, FrameRows(stacks), devices)
    tables["known_storages"] = _known_table(log, rows, strings, devices)
    marks = _marks(log, strings, tables.pop("marks", None), meta.get("trigger"))
    tables["marks"] = schema.from_columns(schema.Marks, **marks)
    tables["steps"] = step_rows.table(steps, model)
    if log.device is not None and isinstance(events := tables["events"], schema.Events):
        log.device.named(events, strings, lambda m: None if rows.row(m) == NONE else rows.paths[rows.row(m)])
    tables["frames"], tables["stacks"] = stacks.freeze()
    return build(_meta(log, model, rows, allocations, meta), strings, **tables)


def _meta(
    log: StepLog, model: nn.Module | None, rows: ModuleRows, allocations: Allocations, meta: dict[str, Any]
) -> Meta:
    inputs = inputs_of(model, log.inputs) if model is not None else []
    first = next((given for given in inputs if given.sizes), None)
    operation = _first_operation(log, rows)
    batch, sequence = batch_and_sequence(first.sizes, first.is_index, operation) if first else (None, None)
    regions, breaks = compiled.counts()
    problems = [*allocations.problems, *log.problems, *_failures(log), *_compiled(model, log), *_threads(log)]
    return Meta(
        kind="recording", devices=allocations.devices, torch_version=torch.__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        allocator_settings=allocations.settings, model=class_name(model) if model is not None else None,
        optimizer=", ".join(sorted({type(o).__name__ for o in log.optimizers.values()})) or None,
        shapes=_shapes(inputs), batch=batch, sequence=sequence,
        dtype=log.dtype or _dtype(model), loss=_loss(log), loss_scale=_loss_scale(log), plan=_plan(log, rows),
        compiled_regions=regions, graph_breaks=breaks,
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
        "Other threads ran forward or called backward: what they saved outside modules, and on a CPU what they"
        " allocated, was not seen."
    )
    return [Problem("other_threads", Severity.warning, text, len(log.other_threads))] if log.other_threads else []


def _shapes(inputs: list[Input]) -> dict[str, list[int]]:
    first: dict[str, list[int]] = {}
    for given in inputs:
        first.setdefault(given.name, list(given.sizes or ()))
    return first


def _compiled(model: nn.Module | None, log: StepLog) -> list[Problem]:
    inside = list(model.modules()) if model is not None else []
    called = [call.module for call in log.calls if compiled.is_compiled(call.module)]
    count = len({id(module) for module in (*filter(compiled.is_compiled, inside), *called)})
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
    return step_rows.loss_value(log.losses[-1]) if log.losses else None


def _loss_scale(log: StepLog) -> float | None:
    """What a gradient scaler multiplied the last loss by."""
    loss, held = _loss(log), log.loss_scales[-1] if log.loss_scales else None
    if loss is None or held is None:
        return None
    try:
        scale = loss / float(held) if isinstance(held, torch.Tensor) else held
    except (RuntimeError, ZeroDivisionError):
        return None
    return scale if math.isfinite(scale) else None


def _first_operation(log: StepLog, rows: ModuleRows) -> nn.Module | None:
    """The first module with parameters of its own that ran."""
    ran = (c for c in log.calls if rows.row(c.module) != NONE and c.module._parameters)
    first = min(ran, key=lambda call: call.start, default=None)
    return first.module if first is not None else None


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
        modules.append((parent, strings.intern(path), strings.intern(class_name(module)), in_list))
        for name, p in module.named_parameters(recurse=False):
            if is_lazy(p):  # it has neither shape nor bytes before the module's first call
                continue
            shape, dtype = ",".join(map(str, p.shape)), str(p.dtype).removeprefix("torch.")
            parameters.append((row, strings.intern(name), strings.intern(shape), strings.intern(dtype),
                               local_bytes(p), p.requires_grad))  # fmt: skip
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
    calls = [c for c in log.calls if rows.row(c.module) != NONE and id(c.module) not in rows.wrappers]
    calls += backward_calls(log, lambda module: owner.get(id(module)))
    found: list[tuple[Any, ...]] = [(i.start, -i.end, NONE, i.phase, i.end, NONE) for i in phase_intervals(log)]
    found += [(c.start, -c.end, rows.row(c.module), c.phase, c.end, c.thread) for c in calls]
    numbers: Counter[tuple[int, Phase]] = Counter()
    spans = []
    for start, _, module, phase, end, thread in sorted(found, key=lambda span: span[:2]):
        device_time = NONE if log.device is None else log.device.worked(start, end)
        spans.append((module, phase, numbers[module, phase], start, end, thread, device_time))
        numbers[module, phase] += 1
    return schema.from_rows(schema.Spans, spans)


def _owners(rows: ModuleRows, lists: list[list[nn.Module]]) -> dict[int, nn.Module]:
    """id of each module -> the layer it is in, or for modules outside layers the module itself."""
    owner = {id(module): module for module in rows.modules}
    for layer in (layer for layers in lists for layer in layers):
        owner.update({id(module): layer for module in layer.modules()})
    return owner


def _saved_table(log: StepLog, rows: ModuleRows, strings: StringTable, frames: FrameRows,
                 devices: dict[str, int]) -> schema.SavedTensors:  # fmt: skip
    text, known = strings.intern, log.storages.known_row
    found = [
        (
            s.time, s.unpack_time, rows.row(s.module), s.phase, fate, s.checkpoint, s.storage, known(s.storage),
            devices.get(str(s.device), NONE), s.address, s.storage_bytes, s.tensor_bytes, text(s.shape), text(s.dtype),
            text(s.op),
            frames.stack(s.frames), s.thread,
        )
        for s, fate in zip(log.saved, settled_fates(log), strict=True)
    ]  # fmt: skip
    return schema.from_rows(schema.SavedTensors, found)


def _known_table(log: StepLog, rows: ModuleRows, strings: StringTable, devices: dict[str, int]) -> schema.KnownStorages:
    found = []
    for k in log.storages.known:
        device = devices.get(str(k.device), NONE)
        found.append((k.kind, device, k.address, k.bytes, strings.intern(k.name), rows.row(k.module), k.start_time,
                      k.end_time))  # fmt: skip
    return schema.from_rows(schema.KnownStorages, found)


def _marks(log: StepLog, strings: StringTable, measured: Any, trigger: str | None) -> dict[str, Any]:
    names = [f.name for f in schema.columns_of(schema.Marks)]
    columns: dict[str, list[Any]] = {n: list(getattr(measured, n)) if measured is not None else [] for n in names}
    loss = _loss(log)
    rows: list[tuple[Any, ...]] = []
    if loss is not None:
        rows.append((MarkKind.loss, log.end_time, NONE, strings.intern("loss"), loss))
    if trigger is not None:
        rows.append((MarkKind.trigger, log.end_time, NONE, strings.intern(trigger), math.nan))
    for row in rows:
        for name, value in zip(names, row, strict=True):
            columns[name].append(value)
    return columns
