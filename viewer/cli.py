"""The `memstrata` command. Qt is imported only by what opens or paints a window, torch only by the demo.

Exit status: 0, or 2 after one sentence on stderr; `check` exits 1 where a limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .model.run import Run

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
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except (UserError, ValueError) as error:  # FormatError is a ValueError
        return _fail(str(error))
    except OSError as error:
        what = error.filename or "the output cannot be written"
        return _fail(f"{what}: {(error.strerror or str(error)).lower()}")
    except KeyboardInterrupt:
        return _fail("interrupted")


def _fail(sentence: str) -> int:
    words = "".join(c if c.isprintable() else " " for c in sentence)  # a file's name can hold control characters
    print(f"memstrata: {' '.join(words.split())}", file=sys.stderr)
    return 2


def _silence_stdout() -> None:
    """The reader of our output is gone: the interpreter's last flush must not complain about it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Errors as one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"memstrata: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="memstrata",
        description="Where the memory of a PyTorch training step went, and what checkpointing would buy.",
    )
    parser.add_argument("--version", action="version", version=f"memstrata {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_files(commands)
    _add_export(commands)
    _add_check(commands)
    _add_predict(commands)
    _add_scale(commands)
    _add_plan(commands)
    _add_allocator(commands)
    _add_dry_run(commands)
    _add_record(commands)
    demo = _command(commands, "demo", _demo, "record the demo without and with checkpointing, and compare")
    demo.add_argument("-o", "--output", metavar="DIR", default="memstrata-demo", help="folder for the recordings")
    return parser


def _add_files(commands: Any) -> None:
    view = _command(commands, "view", _view, "open recordings, snapshots or a run directory, in a window")
    view.add_argument("files", metavar="FILE", nargs="*", help="a recording, a snapshot, or a folder of ranks")
    report = _command(commands, "report", _report, "print what one file says, or compare the ranks of a run")
    report.add_argument("file", metavar="FILE", help="a file, or a folder with a file for each rank")
    report.add_argument("--json", action="store_true", help="print one JSON object with exact figures")
    diff = _command(commands, "diff", _diff, "compare two files or more")
    diff.add_argument("a", metavar="A", help="the run before")
    diff.add_argument("b", metavar="B", help="the run after")
    diff.add_argument("others", metavar="C", nargs="*", help="more runs, each compared with A")
    diff.add_argument("--json", action="store_true", help="print one JSON object with exact figures")


def _add_export(commands: Any) -> None:
    export = _command(commands, "export", _export, "write one file as HTML, CSV, SVG, a Perfetto trace or a snapshot")
    export.add_argument("file", metavar="FILE")
    export.add_argument("-o", "--output", metavar="OUT", required=True, help="what to write; its name says the kind")
    export.add_argument("--to", metavar="KIND", help="the kind, where the name does not say it (`html`, `csv`, ...)")
    export.add_argument("--table", metavar="NAME", default="allocations", help="the table of a CSV file")


def _add_check(commands: Any) -> None:
    check = _command(commands, "check", _check, "hold one file to limits; exit status 1 if it is over one")
    check.add_argument("file", metavar="FILE")
    for figure in ("peak", "activations", "reserved"):
        check.add_argument(f"--max-{figure}", metavar="SIZE", help=f"most bytes of {figure}, such as 30GiB")
    check.add_argument("--max-layer", metavar="SIZE", help="most bytes that one layer may hold at the peak")
    check.add_argument("--baseline", metavar="FILE", help="another run, whose figures must not be exceeded")
    check.add_argument("--tolerance", metavar="PERCENT", help="how far the baseline may be exceeded, such as 2%%")
    check.add_argument("--json", action="store_true", help="print one JSON object with exact figures")


def _add_predict(commands: Any) -> None:
    predict = _command(commands, "predict", _predict, "print what shapes alone say of a model")
    what = predict.add_mutually_exclusive_group(required=True)
    what.add_argument("--preset", metavar="NAME", help="`teaching`, `hybrid` or a public model such as `llama-3-8b`")
    what.add_argument("--config", metavar="FILE", help="a Hugging Face config.json, or a TOML file")
    predict.add_argument("--tokens", type=int, metavar="N", help="batch x sequence length (default: the preset's)")
    predict.add_argument("--segment-layers", type=int, metavar="K", help="layers in one checkpoint segment")
    predict.add_argument("--kernels", default="", metavar="NAME=KIND,...", help="norm=composite, attention=math, ...")
    predict.add_argument("--parallel", default="zero=3,data=64", metavar="NAME=N,...",
                         help="zero, data, tensor, sequence, pipeline, microbatches (default: zero=3,data=64)")  # fmt: skip
    predict.add_argument("--json", action="store_true", help="print one JSON object with exact figures")


def _add_scale(commands: Any) -> None:
    scale = _command(commands, "scale", _scale, "print how a step grows with its size, and what fits a budget")
    scale.add_argument("files", metavar="FILE", nargs="+", help="recordings of one model at two sizes or more")
    scale.add_argument("--budget", metavar="SIZE", help="what there is, e.g. 80GiB")
    scale.add_argument("--batch", type=int, metavar="N", help="batch size for the curve (default: the first file's)")
    scale.add_argument("--to", type=int, default=262_144, metavar="N", help="sequence length at which the curve ends")
    scale.add_argument("--json", action="store_true", help="print one JSON object with exact figures")


def _add_plan(commands: Any) -> None:
    plan = _command(commands, "plan", _plan, "print what checkpoint plans would make of a recorded step")
    plan.add_argument("file", metavar="FILE", help="a recording of a step without checkpoints")
    which = plan.add_mutually_exclusive_group()
    which.add_argument("--budget", metavar="SIZE", help="the best plan whose peak fits, such as 4GiB, with its code")
    which.add_argument("--segment-layers", type=int, metavar="K", help="the plan with K layers in each segment")
    which.add_argument("--frontier", action="store_true", help="peak against time of the best plans (the default)")
    plan.add_argument("--json", action="store_true", help="print one JSON object with exact figures")


def _add_dry_run(commands: Any) -> None:
    dry = _command(commands, "dry-run", _dry_run, "record a full-size step without a GPU and without memory")
    what = dry.add_mutually_exclusive_group(required=True)
    what.add_argument("--preset", metavar="NAME", help="`teaching` or `hybrid`")
    what.add_argument("--hf-config", metavar="FILE", help="a Hugging Face config.json; needs transformers, no weights")
    dry.add_argument("--tokens", type=int, metavar="N", default=8192, help="sequence length (default: 8192)")
    dry.add_argument("--batch", type=int, metavar="N", default=1, help="sequences (default: 1)")
    dry.add_argument("--layers", type=int, metavar="N", help="only the first N layers")
    dry.add_argument("--segment-layers", type=int, metavar="K", help="layers in one checkpoint segment")
    dry.add_argument("--optimizer", choices=("adamw", "sgd"), help="step it too, after one warm-up step")
    dry.add_argument("--fused", action="store_true", help="what torch's fused CUDA kernels would keep: an estimate")
    dry.add_argument("-o", "--output", metavar="FILE", default="dry_run.mstrata", help="the recording to write")


def _add_record(commands: Any) -> None:
    record = _command(commands, "record", _record, "run a training script as it is, and record a step of it")
    record.usage = "memstrata record [options] (train.py | -m module) [arguments of the script]"
    record.add_argument("--step", type=int, metavar="N", help="the step to record, from 0 (default: 3)")
    record.add_argument("--steps", type=int, metavar="K", help="how many steps to record from there (default: 1)")
    record.add_argument("--on", choices=("oom", "peak", "signal"), help="record when it happens, with steps before it")
    record.add_argument("--keep", type=int, default=2, metavar="N", help="steps before it to keep (default: 2)")
    record.add_argument("-o", "--output", metavar="FILE", default="step.mstrata", help="the recording to write")
    record.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module")
    record.add_argument("script", nargs=argparse.REMAINDER, help="the script and its arguments")


def _add_allocator(commands: Any) -> None:
    allocator = _command(commands, "allocator", _allocator, "replay the GPU's allocator, as recorded or changed")
    allocator.add_argument("file", metavar="FILE")
    allocator.add_argument("--conf", metavar="TEXT", help="other settings, as in PYTORCH_CUDA_ALLOC_CONF")
    allocator.add_argument("--capacity", metavar="SIZE", help="what the allocator may reserve, such as 80GiB")
    allocator.add_argument("--empty-cache-at", metavar="EVENT", type=int, action="append", default=[])
    allocator.add_argument("--json", action="store_true", help="print one JSON object with exact figures")


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=run)
    return parser


def _version() -> str:
    try:
        return version("memstrata")
    except PackageNotFoundError:
        return "(not installed)"


def _print(text: str) -> None:
    """To stdout at once, so that a closed pipe shows here; what its encoding lacks becomes `?`."""
    if sys.stdout is None:  # started with stdout closed
        raise UserError("there is nowhere to print to: standard output is closed")
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def _print_json(value: dict[str, Any]) -> None:
    _print(json.dumps(value, indent=2, allow_nan=False) + "\n")


def _name(path: str) -> str:
    return os.path.basename(path) or path


def _open(path: str) -> Run:
    from .model.run import Run
    from .sources import open_file

    return Run(open_file(path), name=_name(path))


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
    from .report.json import report_json
    from .report.text import report_text
    from .sources import open_file

    if os.path.isdir(options.file):
        return _report_ranks(options)
    recording, name = open_file(options.file), _name(options.file)
    if options.json:
        _print_json(report_json(recording, name))
    else:
        _print(report_text(recording, name))
    return 0


def _report_ranks(options: argparse.Namespace) -> int:
    from .report.ranks_text import ranks_json, ranks_text
    from .sources import open_run_directory

    directory = open_run_directory(options.file)
    if options.json:
        _print_json(ranks_json(directory))
    else:
        _print(ranks_text(directory))
    return 0


def _export(options: argparse.Namespace) -> int:
    from .report.exports import EXPORTS, export_for
    from .sources import open_file

    key = options.to or export_for(options.output)
    if key not in EXPORTS:
        raise UserError(f"there is no export called {key!r}; there are {', '.join(EXPORTS)}")
    made = EXPORTS[key].make(open_file(options.file), _name(options.file), options.table)
    with open(options.output, "wb") as file:
        file.write(made)
    print(f"memstrata: wrote {options.output} ({len(made):,} bytes)", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    from .analysis.check import FIGURES, Limits, check
    from .look.units import parse_bytes, parse_percent
    from .report.check_text import check_json, check_text

    if options.tolerance is not None and options.baseline is None:
        raise UserError("--tolerance needs a --baseline to be measured against")
    asked = {name: text for name in FIGURES if (text := getattr(options, f"max_{name}")) is not None}
    limits = Limits(
        {name: parse_bytes(text) for name, text in asked.items()},
        None if options.max_layer is None else parse_bytes(options.max_layer),
        None if options.baseline is None else _open(options.baseline),
        parse_percent(options.tolerance or "0"),
    )
    run = _open(options.file)
    checked = check(run, limits)
    if options.json:
        _print_json(check_json(run.name, checked))
    else:
        _print(check_text(run.name, checked))
    return 0 if all(figure.passed for figure in checked) else 1


def _diff(options: argparse.Namespace) -> int:
    from .analysis.diff import Diff
    from .report.diff_json import diffs_json
    from .report.diff_text import diffs_text

    first = _open(options.a)
    diffs = [Diff(first, _open(path)) for path in (options.b, *options.others)]
    if options.json:
        _print_json(diffs_json(diffs))
    else:
        _print(diffs_text(diffs))
    return 0


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
        shape = shape.with_tokens(options.tokens)
    plan = shape.per_super_block() if options.segment_layers is None else shape.every(options.segment_layers)
    facts = facts_of_preset(name, shape) if options.config is None else facts_of_file(options.config, shape)
    asked = Asked(parse_kernels(options.kernels), parse_parallel(options.parallel), facts)
    if options.json:
        _print_json(predict_json(shape, plan, asked))
    else:
        _print(predict_text(name, shape, plan, asked))
    return 0


def _scale(options: argparse.Namespace) -> int:
    from .analysis.scaling import scaling
    from .look.units import parse_bytes
    from .report.scaling_text import AskedSize, scaling_json, scaling_text

    budget = None if options.budget is None else parse_bytes(options.budget)
    asked = AskedSize(budget, options.batch, options.to)
    found = scaling([_open(path) for path in options.files])
    if options.json:
        _print_json(scaling_json(found, asked))
    else:
        _print(scaling_text(found, asked))
    return 0


def _plan(options: argparse.Namespace) -> int:
    from .look.units import parse_bytes
    from .report.plan_text import Asked, plan_json, plan_text, plans

    budget = None if options.budget is None else parse_bytes(options.budget)
    found = plans(_open(options.file), Asked(budget, options.segment_layers))
    if options.json:
        _print_json(plan_json(found))
    else:
        _print(plan_text(found))
    return 0


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
    question = Question(options.conf, capacity, tuple(options.empty_cache_at))
    recording, name = open_file(options.file), _name(options.file)
    if options.json:
        _print_json(allocator_json(recording, name, question))
    else:
        _print(allocator_text(recording, name, question))
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
    """Whether a window can be shown: always on macOS and Windows, elsewhere where a display server is named."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _show_demo(before: str, after: str, folder: str) -> int:
    """Open the comparison, or, without a display, write it as text and as a picture and say where."""
    if has_display():
        return int(_window().run([before, after]))
    from .analysis.diff import Diff
    from .report.diff_text import diff_text

    text = diff_text(Diff(_open(before), _open(after)))
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
    print(f"No display here: the comparison is in {' and '.join(said)}")
    return 0
