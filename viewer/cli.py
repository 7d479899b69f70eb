"""The `memstrata` command. Qt is imported only by what opens or paints a window, torch only by the demo.

Exit status: 0, or 2 after one sentence on stderr; `check` exits 1 where a limit is exceeded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from . import estimates
from .arguments import parser
from .pages import numpy_with_small_pages
from .saying import Patience, UserError, name_of, print_json, print_text, refuse_own, say

VIEW_EXTRA = "The window needs PySide6 and pyqtgraph: pip install 'memstrata[view]'"
CAPTURE_EXTRA = "The demo needs torch: pip install 'memstrata[capture]'"
DEBIAN_PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libOpenGL.so.0": "libopengl0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
}
"""What PySide6 links against and does not bring along."""

COMPARISON_SIZE = (1600, 1000)
"""Pixels of the picture that the demo writes where there is no display."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process) and return its exit status."""
    options = parser().parse_args(arguments)
    if options.command not in _TRAINING:
        numpy_with_small_pages()
    try:
        return int(_RUN[options.command](options))
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except (UserError, ValueError) as error:  # FormatError is a ValueError
        return _fail(str(error))
    except OSError as error:
        what = error.filename or "the output cannot be written"
        return _fail(f"{what}: {(error.strerror or str(error)).lower()}")
    except MemoryError:
        return _fail("this takes more memory than there is")
    except KeyboardInterrupt:
        return _fail("interrupted")


_TRAINING = ("demo", "record", "dry-run")
"""Commands in whose process a model runs, which is left as it would be without us."""


def _fail(sentence: str) -> int:
    words = "".join(c if c.isprintable() else " " for c in sentence)  # a file's name can hold control characters
    print(f"memstrata: {' '.join(words.split())}", file=sys.stderr)
    return 2


def _silence_stdout() -> None:
    """The reader of our output is gone: the interpreter's last flush must not complain about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _view(options: argparse.Namespace) -> int:
    return int(_window().run(list(options.files)))


def _window() -> Any:
    """The window module; one sentence where its libraries are missing."""
    try:
        from . import window
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in ("PySide6", "shiboken6", "pyqtgraph"):
            raise UserError(VIEW_EXTRA) from error
        raise
    except ImportError as error:
        raise UserError(_missing_library(str(error))) from error
    return window


def _missing_library(message: str) -> str:
    """One sentence for a system library that Qt could not load, with Debian's package where it is a usual one."""
    library = message.split(":")[0]
    package = DEBIAN_PACKAGES.get(library)
    install = f", on Debian: apt-get install {package}" if package else ""
    return f"The window needs a system library that cannot be loaded ({message}){install}"


def _report(options: argparse.Namespace) -> int:
    from .report.html import report_html
    from .report.json import report_json
    from .report.text import report_text
    from .sources import open_file

    if os.path.isdir(options.file):
        return _report_ranks(options)
    recording, name = open_file(options.file), name_of(options.file)
    if options.residual and not (options.json or options.html):
        from .report.residual_report import residual_report

        print_text(residual_report(recording, name))
        return 0
    asked = recording, name
    page = partial(report_html, *asked, Patience(f"replaying the allocator over all events of {name} for the page"))
    return say(options, partial(report_json, *asked), partial(report_text, *asked), page)


def _report_ranks(options: argparse.Namespace) -> int:
    from .report.html_compare import ranks_html
    from .report.ranks_text import ranks_json, ranks_text
    from .sources import open_run_directory, recordings_in

    if options.residual:
        count = len(recordings_in(options.file))
        raise UserError(f"--residual is of one recording, and {options.file} is a folder with {count}")
    directory = open_run_directory(options.file)
    return say(options, partial(ranks_json, directory), partial(ranks_text, directory), partial(ranks_html, directory))


def _export(options: argparse.Namespace) -> int:
    from .report.exports import EXPORTS, export_for, left_out, ranks_export
    from .sources import open_file, open_run_directory, recordings_in

    key = options.to or export_for(options.output)
    if key not in EXPORTS:
        raise UserError(f"there is no export called {key!r}; there are {', '.join(EXPORTS)}")
    left = ""
    if os.path.isdir(options.file):
        refuse_own(options.output, recordings_in(options.file))
        made = ranks_export(key, open_run_directory(options.file))
    else:
        refuse_own(options.output, [options.file])
        name, recording = name_of(options.file), open_file(options.file)
        made = EXPORTS[key].make(recording, name, options.table, Patience(f"still at work on {name}"))
        left = left_out(recording) if EXPORTS[key].one_device else ""
    with open(options.output, "wb") as file:
        file.write(made)
    print(f"memstrata: wrote {options.output} ({len(made):,} bytes)", file=sys.stderr)
    if left:
        print(f"memstrata: {left}", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    from .analysis.check import FIGURES, Limits, judge
    from .analysis.opened import held
    from .look.units import parse_bytes, parse_percent
    from .report.check_text import check_json, check_text

    if options.tolerance is not None and options.baseline is None:
        raise UserError("--tolerance needs a --baseline to be measured against")
    asked = {name: text for name in FIGURES if (text := getattr(options, f"max_{name}")) is not None}
    limits = Limits(
        {name: parse_bytes(text) for name, text in asked.items()},
        None if options.max_layer is None else parse_bytes(options.max_layer),
        tolerance=parse_percent(options.tolerance or "0"),
    )
    verdict = judge(held(options.file, options.baseline), limits)
    if options.json:
        print_json(check_json(verdict))
    else:
        print_text(check_text(verdict))
    return 0 if verdict.passed else 1


def _diff(options: argparse.Namespace) -> int:
    from .analysis.diff import Diff
    from .analysis.opened import runs_of_files
    from .report.diff_json import diffs_json
    from .report.diff_text import diffs_text
    from .report.html_compare import diffs_html

    first, *others = runs_of_files([options.a, options.b, *options.others])
    diffs = [Diff(first, other) for other in others]
    return say(options, partial(diffs_json, diffs), partial(diffs_text, diffs), partial(diffs_html, diffs))


def _dry_run(options: argparse.Namespace) -> int:
    try:
        from memstrata.capture import CaptureError, presets
        from memstrata.capture.progress_line import ProgressLine
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "torch":
            raise UserError("A dry run needs torch: pip install 'memstrata[capture]'") from error
        raise
    try:
        sizes = presets.Sizes(options.tokens, options.batch, options.layers, options.segment_layers)
        job = presets.job(options.preset, options.hf_config, sizes)
        with ProgressLine() as progress:
            job.run(options.output, options.optimizer, options.fused, progress)
    except CaptureError as error:
        raise UserError(str(error)) from error
    return 0


def _record(options: argparse.Namespace) -> int:
    from memstrata.capture import CaptureError
    from memstrata.capture.script import Request, record

    name, *arguments = options.module or options.script or [""]
    if not name:
        raise UserError("record needs a script, or -m and a module; see memstrata record --help")
    asked = Request(options.output, options.step, options.steps, options.on, options.keep)
    try:
        return int(record(asked, name, arguments, is_module=bool(options.module)))
    except CaptureError as error:
        raise UserError(str(error)) from error


def _demo(options: argparse.Namespace) -> int:
    try:
        from memstrata.capture import CaptureError, demo
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "torch":
            raise UserError(CAPTURE_EXTRA) from error
        raise
    try:
        before, after = demo.run(options.output)
    except CaptureError as error:
        raise UserError(str(error)) from error
    return _show_demo(str(before), str(after), options.output)


def has_display() -> bool:
    """Whether there may be a screen for a window: one is named, or the system always has one. Qt is not asked yet."""
    wanted = os.environ.get("QT_QPA_PLATFORM", "").partition(":")[0].lower()
    if wanted in ("offscreen", "minimal"):
        return False
    if wanted or sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _why_no_window() -> str:
    """The cause in words; empty where a window can be shown."""
    if not has_display():
        return "No display here"
    try:
        return str(_window().why_no_window())
    except UserError as error:
        return str(error)


def _show_demo(before: str, after: str, folder: str) -> int:
    """Open the comparison, or, where no window can be shown, write it as text and as a picture and say where."""
    why = _why_no_window()
    if not why:
        return int(_window().run([before, after]))
    from .analysis.diff import Diff
    from .analysis.opened import run_of_file
    from .report.diff_text import diff_text

    text = diff_text(Diff(run_of_file(before), run_of_file(after)))
    print_text(text)
    page = os.path.join(folder, "comparison.txt")
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)
    said = [page]
    picture = os.path.join(folder, "comparison.png")
    try:
        _window().write_png([before, after], picture, COMPARISON_SIZE)
        said.append(picture)
    except UserError as error:
        print(f"memstrata: no picture: {error}", file=sys.stderr)
    print(f"{why}: the comparison is in {' and '.join(said)}")
    return 0


_RUN: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "view": _view,
    "report": _report,
    "diff": _diff,
    "export": _export,
    "check": _check,
    "predict": estimates.predict,
    "scale": estimates.scale,
    "plan": estimates.plan,
    "what-else": estimates.what_else,
    "dry-run": _dry_run,
    "record": _record,
    "allocator": estimates.allocator,
}
