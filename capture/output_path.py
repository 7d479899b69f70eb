"""Whether a recording can be written to a path; asked before training starts, and before torch is imported."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import CaptureError


def means_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a run directory and not a file: it ends in a separator."""
    return os.fspath(path).endswith(tuple(filter(None, (os.sep, os.altsep))))


def writable(path: str | os.PathLike[str]) -> Path:
    """The path in full; raises CaptureError if no file or folder can be written there."""
    target = Path(path).absolute()
    try:
        target.lstat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CaptureError(f"{os.fspath(path)!r} cannot be written: {reason}.") from error
    if means_folder(path) and target.exists():
        return _writable_folder(target)
    if target.is_dir():
        raise CaptureError(f"{target} is a folder; record_step needs the name of a file, or a / at its end.")
    if not target.parent.is_dir():
        raise CaptureError(f"The folder {target.parent} does not exist, so {target.name} cannot be written.")
    if not os.access(target.parent, os.W_OK):
        raise CaptureError(f"The folder {target.parent} is not writable, so {target.name} cannot be written.")
    return target


def _writable_folder(target: Path) -> Path:
    if not target.is_dir():
        raise CaptureError(f"{target} is a file, and a path that ends in / names a folder.")
    if not os.access(target, os.W_OK):
        raise CaptureError(f"The folder {target} is not writable.")
    return target
