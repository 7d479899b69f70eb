"""Recording files: what is written is read, and what is damaged is refused with one sentence."""

from __future__ import annotations

import io
import json
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from memstrata.capture.format import files, schema
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.problems import FormatError, Problem, merge
from memstrata.capture.format.recording import Device, Meta, Recording, build
from memstrata.capture.format.schema import Action, Severity

GOLDEN = "before.mstrata"


@pytest.fixture(scope="session")
def golden(samples: Path) -> bytes:
    """The bytes of a recording that comes with the project."""
    return (samples / GOLDEN).read_bytes()


def small() -> Recording:
    """A recording of two events with texts that are hard to keep."""
    strings = StringTable()
    stacks = StackTable(strings)
    stack = stacks.stack([stacks.frame("main", "train.py", 3), stacks.frame("café\0\ud800", "", 0)])
    events = [
        (Action.alloc, 0, 4096, 512, 10, stack, 0, -1, -1, -1),
        (Action.free_completed, 0, 4096, 512, 20, -1, 0, -1, -1, -1),
    ]
    frames, tree = stacks.freeze()
    problem = Problem("a_code", Severity.warning, "A sentence.", 2)
    meta = Meta(devices=(Device("cuda:1", 1, 80 << 30),), plan=(("layers.0",),), loss=0.5, problems=(problem,))
    return build(meta, strings, events=schema.from_rows(schema.Events, events), frames=frames, stacks=tree)


def assert_equal(a: Recording, b: Recording) -> None:
    """Every array, text and meta entry is the same."""
    assert a.meta == b.meta and a.strings.all() == b.strings.all()
    for (name, left), (_, right) in zip(a.tables(), b.tables(), strict=True):
        for f in schema.columns_of(type(left)):
            x, y = getattr(left, f.name), getattr(right, f.name)
            assert x.dtype == y.dtype == f.metadata["dtype"], (name, f.name)
            assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), (name, f.name)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    recording = small()
    files.write(recording, tmp_path / "a.mstrata")
    again = files.read(tmp_path / "a.mstrata")
    assert_equal(again, recording)
    assert again.stack_frames(1) == [("café\0?", "", 0), ("main", "train.py", 3)]
    assert [p.name for p in tmp_path.iterdir()] == ["a.mstrata"]


def test_every_sample_survives_being_read_and_written(samples: Path, tmp_path: Path) -> None:
    found = sorted(samples.glob("*.mstrata"))
    assert found
    for path in found:
        recording = files.read(path)
        files.write(recording, tmp_path / "again.mstrata")
        assert_equal(files.read(tmp_path / "again.mstrata"), recording)


def test_numpy_alone_can_open_a_recording(samples: Path) -> None:
    with np.load(samples / GOLDEN) as archive:
        assert len(archive["events/address"]) == len(files.read(samples / GOLDEN).events)


def test_arrays_are_read_only(samples: Path) -> None:
    for recording in (small(), files.read(samples / GOLDEN)):
        with pytest.raises(ValueError):
            recording.events.bytes[0] = 1


def test_a_failed_write_keeps_the_earlier_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mstrata"
    path.write_bytes(b"earlier")
    broken = small().replace_meta(shapes={"x": object()})  # type: ignore[dict-item]
    with pytest.raises(TypeError):
        files.write(broken, path)
    assert path.read_bytes() == b"earlier" and [p.name for p in tmp_path.iterdir()] == ["a.mstrata"]


def sentence(data: bytes, tmp_path: Path) -> str:
    """The sentence with which this file is refused."""
    path = tmp_path / "x.mstrata"
    path.write_bytes(data)
    with pytest.raises(FormatError) as refused:
        files.read(path)
    text = str(refused.value)
    assert text.startswith("x.mstrata ") and text.endswith(".") and "\n" not in text and "Traceback" not in text
    return text


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(golden: bytes, tmp_path: Path, part: float) -> None:
    assert "damaged or cut short" in sentence(golden[: int(len(golden) * part)], tmp_path)


def test_flipped_bits_never_give_a_half_right_picture(golden: bytes, samples: Path, tmp_path: Path) -> None:
    whole, choose, refused = files.read(samples / GOLDEN), random.Random(0), 0
    path = tmp_path / "x.mstrata"
    for _ in range(150):
        data = bytearray(golden)
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        path.write_bytes(data)
        try:
            recording = files.read(path)
        except FormatError:
            refused += 1
        else:  # a byte that carries nothing, such as a date in the archive
            assert_equal(recording, whole)
    assert refused > 100


def rewritten(golden: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The golden file with its members changed, checksums right."""
    with zipfile.ZipFile(io.BytesIO(golden)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array)
    return out.getvalue()


def with_meta(**entries: object) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        members["meta.json"] = json.dumps({**json.loads(members["meta.json"]), **entries}).encode()

    return change


def column(name: str, edit: Callable[[np.ndarray], np.ndarray]) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        members[f"{name}.npy"] = npy(edit(np.load(io.BytesIO(members[f"{name}.npy"]))))

    return change


def filled(value: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda array: np.full_like(array, value)


@pytest.mark.parametrize("change, words", [
    (with_meta(format_version=schema.FORMAT_VERSION + 1), "written by a newer memstrata"),
    (with_meta(format_version=None), "does not say which format version"),
    (with_meta(magic="another tool"), "not a memstrata recording"),
    (with_meta(devices=7), "damaged"),
    (with_meta(problems=[{"code": 1}]), "damaged"),
    (with_meta(loss="low"), "meta entry loss has the wrong type"),
    (column("events/address", lambda a: a[:-1]), "differ in length"),
    (column("events/bytes", lambda a: a.astype(np.int32)), "has dtype int32"),
    (column("events/bytes", filled(-1)), "impossible sizes"),
    (column("events/bytes", filled(1 << 61)), "impossible sizes"),
    (column("events/stack", filled(1 << 20)), "points outside stacks"),
    (column("events/stack", filled(-2)), "points outside stacks"),
    (column("events/device", filled(3)), "points outside devices"),
    (column("events/action", filled(200)), "unknown Action number"),
    (column("stacks/parent", filled(5)), "does not form a tree"),
    (column("strings/offsets", filled(0)), "string table does not fit"),
    (column("events/time", lambda a: a.reshape(1, -1)), "does not have the length it claims"),
    (lambda members: members.pop("events/bytes.npy"), "column events/bytes is missing"),
    (lambda members: members.pop("meta.json"), "a zip archive, not a memstrata recording"),
])  # fmt: skip
def test_damage_is_named(golden: bytes, tmp_path: Path, change: Callable[[dict[str, bytes]], None], words: str) -> None:
    assert words in sentence(rewritten(golden, change), tmp_path)


def test_a_wrong_zip_and_a_checkpoint_are_named(tmp_path: Path) -> None:
    for member, words in (("a.txt", "is a zip archive"), ("archive/data.pkl", "is a torch checkpoint")):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(member, b"x")
        assert words in sentence(out.getvalue(), tmp_path)


def test_nothing_in_a_recording_is_executed(golden: bytes, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (str(tmp_path / "ran"),))

    array = np.array([Evil()], object)
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=True)

    def change(members: dict[str, bytes]) -> None:
        members["events/bytes.npy"] = out.getvalue()

    assert "damaged" in sentence(rewritten(golden, change), tmp_path)
    assert pickle.dumps(1) and not (tmp_path / "ran").exists()


def test_a_claimed_size_is_not_believed(golden: bytes, tmp_path: Path) -> None:
    def change(members: dict[str, bytes]) -> None:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (1 << 60,)})
        members["events/bytes.npy"] = header.getvalue() + b"\0" * 8

    assert "does not have the length it claims" in sentence(rewritten(golden, change), tmp_path)


def test_equal_problems_are_counted_together() -> None:
    one = Problem("a", Severity.info, "x.")
    assert merge([one, Problem("b", Severity.info, "y."), one]) == (Problem("a", Severity.info, "x.", 2),
                                                                   Problem("b", Severity.info, "y."))  # fmt: skip


def test_the_format_before_the_list_of_steps_is_upgraded(samples):
    recording = files.read(samples / "format-1.mstrata")
    assert recording.steps.index.tolist() == [recording.meta.step_index]
    assert recording.steps.recorded.tolist() == [True]
    assert recording.steps.end_time[0] > recording.steps.start_time[0] > 0
    assert recording.steps.loss[0] == recording.meta.loss
    assert set(recording.saved_tensors.device.tolist()) == {0}
    assert recording.module_parameters.requires_grad.all()
    assert (recording.events.metadata == schema.NONE).all() and (recording.events.compile_context == schema.NONE).all()
