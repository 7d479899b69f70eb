"""The wheel holds every file of the tree, and works where nothing but numpy is installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from memstrata.viewer.state.recent import samples

from . import tree


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the tree (a build leaves things behind)."""
    copy = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(tree.ROOT / name, copy)
    for folder in (*tree.FOLDERS, tree.SAMPLES):
        shutil.copytree(tree.ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return next((copy / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content, as pip would lay it."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    """pyproject.toml."""
    return tomllib.loads((tree.ROOT / "pyproject.toml").read_text())


def test_every_package_is_declared(project: dict) -> None:
    assert sorted(project["tool"]["setuptools"]["packages"]) == sorted([*tree.packages(), "memstrata.samples"]), (
        "[tool.setuptools] packages"
    )


def test_the_wheel_holds_the_tree(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = sorted(name for name in archive.namelist() if ".dist-info/" not in name)
    assert inside == sorted(f"memstrata/{path.as_posix()}" for path in tree.files((*tree.FOLDERS, tree.SAMPLES)))


def test_both_halves_are_marked_as_typed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"memstrata/capture/py.typed", "memstrata/viewer/py.typed"} <= set(names)


def test_the_wheel_is_a_namespace_package(wheel: Path) -> None:
    assert "memstrata/__init__.py" not in zipfile.ZipFile(wheel).namelist()


def test_the_command_starts_from_the_wheel_alone(unpacked: Path) -> None:
    entries = ConfigParser()
    entries.read_string(next(unpacked.glob("*.dist-info/entry_points.txt")).read_text())
    module, function = entries["console_scripts"]["memstrata"].split(":")
    # -S: no site-packages, thus no editable install; numpy is then fetched from there by hand
    program = (
        f"import sys; sys.path[:0] = [{str(unpacked)!r}, {sysconfig.get_path('purelib')!r}]; "
        f"sys.argv = ['memstrata', '--help']; from {module} import {function}; "
        f"print(sys.modules[{module!r}].__file__); sys.exit({function}())"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(unpacked))
    assert all(command in done.stdout for command in ("view", "report", "diff", "predict", "demo"))


def test_the_samples_of_an_empty_window_are_in_the_wheel(unpacked: Path) -> None:
    program = (
        f"import sys; sys.path[:0] = [{str(unpacked)!r}, {sysconfig.get_path('purelib')!r}]; "
        "from memstrata.viewer.state.recent import samples; "
        "print(*(path for sample in samples() for path in sample.paths), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    here = [Path(path).relative_to(tree.ROOT) for sample in samples() for path in sample.paths]
    assert [Path(path) for path in done.stdout.split()] == [unpacked / "memstrata" / path for path in here]
    assert Path("samples/ranks") in here


def test_the_core_needs_numpy_only(project: dict) -> None:
    assert [Requirement(text).name for text in project["project"]["dependencies"]] == ["numpy"]


@pytest.mark.parametrize(("python", "allowed"), [("3.11", False), ("3.12", True), ("3.13", True)])
def test_the_broken_qt_release_is_excluded(project: dict, python: str, allowed: bool) -> None:
    """PySide6 6.12.0 loses references to None on Python 3.11."""
    wanted = [Requirement(text) for text in project["project"]["optional-dependencies"]["view"]]
    applying = [r for r in wanted if r.name == "PySide6-Essentials" and r.marker.evaluate({"python_version": python})]
    assert len(applying) == 1
    assert applying[0].specifier.contains("6.12.0") is allowed
    assert applying[0].specifier.contains("6.11.3")
    assert applying[0].specifier.contains("6.12.1")


def test_the_pins_satisfy_the_requirements(project: dict) -> None:
    lines = (tree.ROOT / "constraints.txt").read_text().splitlines()
    pins = {r.name.replace("_", "-").lower(): r for r in map(Requirement, filter(lambda t: t[:1] not in "#", lines))}
    extras = project["project"]["optional-dependencies"]
    for text in [*project["project"]["dependencies"], *(t for group in extras.values() for t in group)]:
        wanted = Requirement(text)
        [pin] = pins[wanted.name.lower()].specifier
        assert pin.operator == "==" and wanted.specifier.contains(pin.version), text
