"""Reading and writing `.mstrata` files: a zip of `.npy` columns, the strings, and `meta.json`.

A file is untrusted: dtype, length, index ranges and claimed sizes are checked against the schema before use, pickles
are never loaded, and every way to fail is one `FormatError` sentence.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import secrets
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from . import schema, upgrade
from .checks import check_recording
from .interning import Strings
from .problems import FormatError, Problem
from .recording import Device, Meta, Recording, build

MAX_BYTES = 8 << 30
"""No recording of one step comes near 8 GiB of columns; a file that claims more is refused before it is unpacked."""
UNPACKED_PER_BYTE = 100
"""Bytes of columns for each byte of the file, at most, beyond `UNPACKED_FREE`; a recording packs to about a fifth."""
UNPACKED_FREE = 64 << 20
MAX_META_BYTES = 16 << 20
RANKS_FOLDER = ".d"
"""`step.mstrata` becomes the folder `step.mstrata.d`, a file for each rank in it, where there are several."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, EOFError, OverflowError,
           NotImplementedError, RuntimeError, MemoryError, RecursionError)  # fmt: skip


def write(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write to a temporary file beside `path` and rename it, so that an earlier file is lost only to a whole new one.

    Raises OSError (disk full, read-only folder); nothing half-written stays behind.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            write_to(recording, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_to(recording: Recording, file: BinaryIO) -> None:
    """Write the zip to an open binary file."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        meta = dict(meta_to_json(recording.meta), magic=schema.MAGIC, format_version=schema.FORMAT_VERSION)
        archive.writestr("meta.json", json.dumps(meta, indent=1, ensure_ascii=False))
        for name, array in _named_arrays(recording):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read(path: str | os.PathLike[str]) -> Recording:
    """Read a recording; raises FormatError with one sentence, or OSError if the file cannot be opened."""
    name = Path(path).name
    try:
        with zipfile.ZipFile(path) as archive:
            return _read_archive(archive, name, os.stat(path).st_size)
    except FormatError:
        raise
    except _DAMAGE as error:
        raise FormatError(f"{name} is damaged or cut short and cannot be read ({_cause(error)}).") from error


def _cause(error: BaseException) -> str:
    text = " ".join(str(error).split()).strip(". ") or type(error).__name__
    return text if len(text) <= 120 else text[:117] + "..."


def _read_archive(archive: zipfile.ZipFile, name: str, size: int) -> Recording:
    members = {info.filename: info for info in archive.infolist()}
    if "meta.json" not in members:
        what = "a torch checkpoint" if any(m.endswith("data.pkl") for m in members) else "a zip archive"
        raise FormatError(f"{name} is {what}, not a memstrata recording.")
    if len(members) < len(archive.infolist()):
        raise FormatError(f"{name} is damaged: it holds a column twice.")
    claimed = sum(info.file_size for info in members.values())
    if claimed > MAX_BYTES:
        raise FormatError(f"{name} claims more than 8 GiB of columns, more than a recording can hold.")
    if claimed > UNPACKED_FREE + UNPACKED_PER_BYTE * size:
        raise FormatError(f"{name} unpacks to far more than a recording of its size holds.")
    if members["meta.json"].file_size > MAX_META_BYTES:
        raise FormatError(f"{name} holds a meta.json too large to be one.")
    meta = json.loads(archive.read("meta.json"))
    if not isinstance(meta, dict) or meta.get("magic") != schema.MAGIC:
        raise FormatError(f"{name} is a zip archive, not a memstrata recording.")
    columns = {m[:-4]: _read_column(archive, info) for m, info in members.items() if m in _MEMBERS}
    meta, columns = upgrade.to_current(meta, columns, name)
    recording = _recording(meta, columns)
    check_recording(recording)
    return recording


_MEMBERS = frozenset({"strings/blob.npy", "strings/offsets.npy"} | {
    f"{name}/{f.name}.npy" for name, table in schema.TABLES.items() for f in schema.columns_of(table)
})  # fmt: skip
"""What is read of an archive: every column that any format knows."""


def _read_column(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    raw = archive.read(info)  # checks the CRC
    stream = io.BytesIO(raw)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"column {info.filename} has an unknown npy version")
    shape, _fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    body = len(raw) - stream.tell()
    if len(shape) != 1 or dtype.hasobject or shape[0] * dtype.itemsize != body:
        raise ValueError(f"column {info.filename} does not have the length it claims")
    return np.frombuffer(raw, dtype, offset=stream.tell())


def _recording(meta: dict[str, Any], columns: dict[str, NDArray[Any]]) -> Recording:
    tables = {name: _table(name, table, columns) for name, table in schema.TABLES.items()}
    strings = Strings(_column(columns, "strings/blob", np.uint8), _column(columns, "strings/offsets", np.int64))
    return build(meta_from_json(meta), strings, **tables)


def _table(name: str, table: type[schema.Table], columns: dict[str, NDArray[Any]]) -> schema.Table:
    fields = schema.columns_of(table)
    made = table(**{f.name: _column(columns, f"{name}/{f.name}", f.metadata["dtype"]) for f in fields})
    if len({len(getattr(made, f.name)) for f in fields}) != 1:
        raise ValueError(f"the columns of {name} differ in length")
    return made


def _column(columns: dict[str, NDArray[Any]], name: str, dtype: Any) -> NDArray[Any]:
    array = columns.get(name)
    if array is None:
        raise ValueError(f"column {name} is missing")
    if array.dtype != np.dtype(dtype):
        raise ValueError(f"column {name} has dtype {array.dtype}, expected {np.dtype(dtype)}")
    return array


def _named_arrays(recording: Recording) -> list[tuple[str, NDArray[Any]]]:
    strings = recording.strings
    arrays: list[tuple[str, NDArray[Any]]] = [("strings/blob", strings.blob), ("strings/offsets", strings.offsets)]
    for name, table in recording.tables():
        arrays += [(f"{name}/{f.name}", getattr(table, f.name)) for f in schema.columns_of(type(table))]
    return arrays


def meta_to_json(meta: Meta) -> dict[str, Any]:
    """Meta as plain JSON values."""
    data = {f.name: getattr(meta, f.name) for f in dataclasses.fields(Meta)}
    data["devices"] = [dataclasses.asdict(d) for d in meta.devices]
    data["problems"] = [p.as_json() for p in meta.problems]
    return data


def meta_from_json(data: dict[str, Any]) -> Meta:
    """Meta from JSON values; unknown keys are ignored, wrong types raise ValueError."""
    known = {f.name: data[f.name] for f in dataclasses.fields(Meta) if f.name in data}
    known["devices"] = tuple(Device(str(d["name"]), int(d["ordinal"]), _optional_int(d.get("total_bytes")))
                             for d in known.get("devices", ()))  # fmt: skip
    known["problems"] = tuple(_problem(p) for p in known.get("problems", ()))
    if known.get("plan") is not None:
        known["plan"] = tuple(tuple(str(path) for path in segment) for segment in known["plan"])
    known["estimates"] = tuple(str(text) for text in known.get("estimates", ()))
    _check_types(known)
    return Meta(**known)


def _optional_int(value: Any) -> int | None:
    return None if value is None else int(value)


def _problem(data: dict[str, Any]) -> Problem:
    return Problem(str(data["code"]), schema.Severity[data["severity"]], str(data["text"]), int(data["count"]))


_NUMBER = (int, float, type(None))
_META_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,), "source": (str,), "rank": (int,), "world_size": (int,), "allocator_settings": (dict,),
    "shapes": (dict,), "has_reserved": (bool,), "has_time": (bool,), "has_durations": (bool,),
    "step_seconds_recorded": _NUMBER,
    "step_seconds_unrecorded": _NUMBER, "loss": _NUMBER, "batch": (int, type(None)), "sequence": (int, type(None)),
    "super_block_override": (int, type(None)), "step_index": (int, type(None)),
    "local_rank": (int, type(None)), "mesh": (dict,), "mesh_coordinate": (dict,), "loss_scale": _NUMBER,
    "kernels": (str, type(None)), "trigger": (str, type(None)), "compiled_regions": (int, type(None)),
    "graph_breaks": (int, type(None)),
    **dict.fromkeys(("torch_version", "memstrata_version", "created", "model", "optimizer"), (str, type(None))),
    "dtype": (str, type(None)), "run_id": (str, type(None)),
}  # fmt: skip


def _check_types(known: dict[str, Any]) -> None:
    for name, value in known.items():
        if name in _META_TYPES and not isinstance(value, _META_TYPES[name]):
            raise ValueError(f"meta entry {name} has the wrong type")
