"""The project's own tree, as module names: found by walking the folders, so that a new file is never forgotten."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("capture", "viewer")
SAMPLES = "samples"
"""Recordings to look at and the scripts that make them: installed too, but no part of the program."""


def files(folders: tuple[str, ...] = FOLDERS) -> list[Path]:
    """Every file that belongs into an installation, relative to the project."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    return sorted(p.relative_to(ROOT) for p in found if "__pycache__" not in p.parts and not p.name.startswith("."))


def module_name(path: Path) -> str:
    """`viewer/model/run.py` -> `memstrata.viewer.model.run`; a package for its `__init__.py`."""
    parts = path.with_suffix("").parts
    return ".".join(("memstrata", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def modules() -> list[str]:
    """Every module of the project."""
    return sorted(module_name(path) for path in files() if path.suffix == ".py")


def packages() -> list[str]:
    """Every folder that holds Python files, whether or not somebody remembered its `__init__.py`."""
    return sorted({".".join(("memstrata", *path.parent.parts)) for path in files() if path.suffix == ".py"})
