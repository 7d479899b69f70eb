"""The `memstrata` command. Qt is imported only by what opens or paints a window, torch only by the demo.

Exit status: 0, or 2 after one sentence on stderr; `check` exits 1 where a limit is exceeded.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from .arguments import parser

_T = TypeVar("_T")

if TYPE_CHECKING:
    pass

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


class UserError(Exception):
    """What the user can put right; the message is one sentence."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process) and return its exit status."""
    options = parser().parse_args(arguments)
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


def _fail(sentence: str) -> int:
    words = "".join(c if c.isprintable() else " " for c in sentence)  # a file's name can hold control characters
    print(f"memstrata: {' '.join(words.split())}", file=sys.stderr)
    return 2


def _silence_stdout() -> None:
    """The reader of our output is gone: the interpreter's last flush must not complain about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print(text: str) -> None:
    """To stdout at once, so that a closed pipe shows here; what its encoding lacks becomes `?`."""
    if sys.stdout is None:  # started with stdout closed
        raise UserError("there is nowhere to print to: standard output is closed")
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def _print_json(value: dict[str, Any]) -> None:
    from .report.plain_json import json_text

    _print(json_text(value))


def _name(path: str) -> str:
    return os.path.basename(path) or path


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
    recording, name = open_file(options.file), _name(options.file)
    if options.residual and not (options.json or options.html):
        from .report.residual_report import residual_report

        _print(residual_report(recording, name))
        return 0
    asked = recording, name
    return _say(options, partial(report_json, *asked), partial(report_text, *asked), partial(report_html, *asked))


def _say(
    options: argparse.Namespace,
    as_json: Callable[[], Any],
    as_text: Callable[[], str],
    as_html: Callable[[], str] | None = None,
) -> int:
    """Print what `--json` or, where there is one, `--html` asks for, or the page in text."""
    if options.json:
        _print_json(as_json())
    else:
        _print(as_html() if as_html is not None and options.html else as_text())
    return 0


def _report_ranks(options: argparse.Namespace) -> int:
    if options.residual:
        raise UserError(f"--residual is of one recording, and {options.file} is a folder of several")
    from .report.html_compare import ranks_html
    from .report.ranks_text import ranks_json, ranks_text
    from .sources import open_run_directory

    directory = open_run_directory(options.file)
    return _say(options, partial(ranks_json, directory), partial(ranks_text, directory), partial(ranks_html, directory))


def _export(options: argparse.Namespace) -> int:
    from .report.exports import EXPORTS, export_for, ranks_export
    from .sources import open_file, open_run_directory

    key = options.to or export_for(options.output)
    if key not in EXPORTS:
        raise UserError(f"there is no export called {key!r}; there are {', '.join(EXPORTS)}")
    if os.path.isdir(options.file):
        made = ranks_export(key, open_run_directory(options.file))
    else:
        made = EXPORTS[key].make(open_file(options.file), _name(options.file), options.table)
    with open(options.output, "wb") as file:
        file.write(made)
    print(f"memstrata: wrote {options.output} ({len(made):,} bytes)", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    from .analysis.check import FIGURES, Limits, judge
    from .analysis.opened import beside
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
    results = [judge(run, replace(limits, baseline=past)) for run, past in beside(options.file, options.baseline)]
    if options.json:
        _print_json(check_json(results))
    else:
        _print(check_text(results))
    return 0 if all(result.passed for result in results) else 1


def _diff(options: argparse.Namespace) -> int:
    from .analysis.diff import Diff
    from .analysis.opened import run_of_file
    from .report.diff_json import diffs_json
    from .report.diff_text import diffs_text
    from .report.html_compare import diffs_html

    first = run_of_file(options.a)
    diffs = [Diff(first, run_of_file(path)) for path in (options.b, *options.others)]
    return _say(options, partial(diffs_json, diffs), partial(diffs_text, diffs), partial(diffs_html, diffs))


def _predict(options: argparse.Namespace) -> int:
    from .analysis.kernels import parse_kernels
    from .analysis.model_facts import facts_of_file, facts_of_preset
    from .analysis.parallel import parse_parallel
    from .analysis.shape_config import shape_of_file
    from .analysis.shape_presets import preset
    from .report.predict_text import Asked, predict_json, predict_text

    name = options.preset if options.config is None else _name(options.config)
    shape = preset(options.preset) if options.config is None else shape_of_file(options.config)
    if options.tokens is not None:
        shape = _named("--tokens", shape.with_tokens, options.tokens)
    length = options.segment_layers
    plan = shape.per_super_block() if length is None else _named("--segment-layers", shape.every, length)
    facts = facts_of_preset(name, shape) if options.config is None else facts_of_file(options.config, shape)
    asked = Asked(parse_kernels(options.kernels), parse_parallel(options.parallel), facts)
    return _say(options, lambda: predict_json(shape, plan, asked), lambda: predict_text(name, shape, plan, asked))


def _named(option: str, made: Callable[[int], _T], value: int) -> _T:
    """What that makes of the value; where it cannot, the sentence begins with the option."""
    try:
        return made(value)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error


def _scale(options: argparse.Namespace) -> int:
    from .analysis.opened import run_of_file
    from .analysis.scaling import scaling
    from .look.units import parse_bytes
    from .report.scaling_text import AskedSize, scaling_json, scaling_text

    budget = None if options.budget is None else parse_bytes(options.budget)
    asked = AskedSize(budget, options.batch, options.to)
    found = scaling([run_of_file(path) for path in options.files])
    return _say(options, lambda: scaling_json(found, asked), lambda: scaling_text(found, asked))


def _plan(options: argparse.Namespace) -> int:
    from .analysis.opened import run_of_file
    from .look.units import parse_bytes
    from .report.plan_text import Asked, plan_json, plan_text, plans

    budget = None if options.budget is None else parse_bytes(options.budget)
    found = plans(run_of_file(options.file), Asked(budget, options.segment_layers, options.keep))
    return _say(options, lambda: plan_json(found), lambda: plan_text(found))


def _what_else(options: argparse.Namespace) -> int:
    from .analysis.opened import run_of_file
    from .analysis.parallel import parse_parallel
    from .report.what_else_text import AskedElse, what_else, what_else_json, what_else_text

    asked = AskedElse(options.segment_layers, parse_parallel(options.parallel))
    found = what_else(run_of_file(options.file), asked)
    return _say(options, lambda: what_else_json(found), lambda: what_else_text(found))


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


def _allocator(options: argparse.Namespace) -> int:
    from .analysis.allocator.answer import Question
    from .look.units import parse_bytes
    from .report.allocator_json import allocator_json
    from .report.allocator_text import allocator_text
    from .sources import open_file

    capacity = None if options.capacity is None else parse_bytes(options.capacity)
    if options.segment_layers is not None:
        return _planned(options, capacity)
    question = Question(options.conf, capacity, tuple(options.empty_cache_at))
    recording, name = open_file(options.file), _name(options.file)
    if options.json:
        _print_json(allocator_json(recording, name, question))
    else:
        _print(allocator_text(recording, name, question))
    return 0


def _planned(options: argparse.Namespace, capacity: int | None) -> int:
    from .analysis.opened import run_of_file
    from .report.planned_text import planned, planned_json, planned_text

    if options.empty_cache_at:
        raise UserError(
            "--empty-cache-at counts events of the recorded step, which --segment-layers puts in a new order"
        )
    run = run_of_file(options.file)
    said = planned(run, options.segment_layers, options.conf, capacity)
    return _say(options, lambda: planned_json(run, said), lambda: planned_text(run, said))


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
    _print(text)
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
    "predict": _predict,
    "scale": _scale,
    "plan": _plan,
    "what-else": _what_else,
    "dry-run": _dry_run,
    "record": _record,
    "allocator": _allocator,
}
