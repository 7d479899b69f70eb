"""What can be asked of the `memstrata` command: its subcommands and their arguments. Scripts here ask alike."""

from __future__ import annotations

import argparse
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Errors as one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog.partition(' ')[0]}: {message}; see {self.prog} --help\n")


def script_parser(docstring: str | None) -> Parser:
    """The parser of a script that says in its docstring what it does."""
    return Parser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)


def folder_to_write(text: str) -> Path:
    """A folder to write into, made where there is none."""
    try:
        Path(text).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text}: {(error.strerror or str(error)).lower()}") from error
    return Path(text)


def whole_number(text: str) -> int:
    """How many, from 1: `1000000` or `1e6`."""
    try:
        number = float(text)
        if number >= 1 and number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command; `command` in what it gives back names what to do."""
    whole = Parser(
        prog="memstrata",
        description="Where the memory of a PyTorch training step went, and what checkpointing would buy.",
    )
    whole.add_argument("--version", action="version", version=f"memstrata {_version()}")
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_files(commands)
    _add_export(commands)
    _add_check(commands)
    _add_predict(commands)
    _add_scale(commands)
    _add_plan(commands)
    _add_what_else(commands)
    _add_allocator(commands)
    _add_dry_run(commands)
    _add_record(commands)
    demo = _command(commands, "demo", "record the demo without and with checkpointing, and compare")
    demo.add_argument("-o", "--output", metavar="DIR", default="memstrata-demo", help="folder for the recordings")
    return whole


def _add_files(commands: Any) -> None:
    view = _command(commands, "view", "open recordings, snapshots or a run directory, in a window")
    view.add_argument(
        "files", metavar="FILE", nargs="*", default=[], help="a recording, a snapshot, or a folder of ranks"
    )
    report = _command(commands, "report", "print what one file says, or compare the ranks of a run")
    report.add_argument("file", metavar="FILE", help="a file, or a folder with a file for each rank")
    _add_html(_add_json(report))
    report.add_argument("--residual", action="store_true", help="print every item of measured minus predicted instead")
    diff = _command(commands, "diff", "compare two files or more")
    diff.add_argument("a", metavar="A", help="the run before")
    diff.add_argument("b", metavar="B", help="the run after")
    diff.add_argument("others", metavar="C", nargs="*", default=[], help="more runs, each compared with A")
    _add_html(_add_json(diff))


def _add_export(commands: Any) -> None:
    export = _command(commands, "export", "write one file as HTML, CSV, SVG, a Perfetto trace or a snapshot")
    export.add_argument("file", metavar="FILE")
    export.add_argument("-o", "--output", metavar="OUT", required=True, help="what to write; its name says the kind")
    export.add_argument("--to", metavar="KIND", help="the kind, where the name does not say it (`html`, `csv`, ...)")
    tables = "categories, layers, allocations (where nothing is said) or saved_tensors"
    export.add_argument("--table", metavar="NAME", default="allocations", help=f"the table of a CSV file: {tables}")


def _add_check(commands: Any) -> None:
    check = _command(commands, "check", "hold a run to limits; exit status 1 if it is over one or was cut short")
    check.add_argument("file", metavar="FILE", help="a file, or a folder of ranks, each of which is held to the limits")
    for figure in ("peak", "activations", "reserved"):
        check.add_argument(f"--max-{figure}", metavar="SIZE", help=f"most bytes of {figure}, such as 30GiB")
    check.add_argument("--max-layer", metavar="SIZE", help="most bytes that one layer may hold at the peak")
    check.add_argument("--baseline", metavar="FILE", help="another run, or its folder of ranks, not to be exceeded")
    check.add_argument("--tolerance", metavar="PERCENT", help="how far the baseline may be exceeded, such as 2%%")
    _add_json(check)


def _add_predict(commands: Any) -> None:
    predict = _command(commands, "predict", "print what shapes alone say of a model")
    what = predict.add_mutually_exclusive_group(required=True)
    what.add_argument("--preset", metavar="NAME", help="`teaching`, `hybrid` or a public model such as `llama-3-8b`")
    what.add_argument("--config", metavar="FILE", help="a Hugging Face config.json, or a TOML file")
    predict.add_argument("--tokens", type=int, metavar="N", help="batch x sequence length (default: the preset's)")
    predict.add_argument("--segment-layers", type=int, metavar="K", help="layers in one checkpoint segment")
    predict.add_argument("--kernels", default="", metavar="NAME=KIND,...", help="norm=composite, attention=math, ...")
    degrees = "zero, data, tensor, sequence, pipeline, microbatches (default: zero=3,data=64)"
    predict.add_argument("--parallel", default="zero=3,data=64", metavar="NAME=N,...", help=degrees)
    _add_json(predict)


def _add_scale(commands: Any) -> None:
    scale = _command(commands, "scale", "print how a step grows with its size, and what fits a budget")
    scale.add_argument("files", metavar="FILE", nargs="+", help="recordings of one model at two sizes or more")
    scale.add_argument("--budget", metavar="SIZE", help="what there is, e.g. 80GiB")
    scale.add_argument("--batch", type=int, metavar="N", help="batch size for the curve (default: the first file's)")
    scale.add_argument("--to", type=int, default=262_144, metavar="N", help="sequence length at which the curve ends")
    _add_json(scale)


def _add_plan(commands: Any) -> None:
    plan = _command(commands, "plan", "print what checkpoint plans would make of a recorded step")
    plan.add_argument("file", metavar="FILE", help="a recording of a step without checkpoints")
    which = plan.add_mutually_exclusive_group()
    which.add_argument("--budget", metavar="SIZE", help="the best plan whose peak fits, such as 4GiB, with its code")
    which.add_argument("--segment-layers", type=int, metavar="K", help="the plan with K layers in each segment")
    which.add_argument("--frontier", action="store_true", help="peak against time of the best plans (the default)")
    plan.add_argument("--keep", default="", metavar="OP,...", help="operators that checkpoints keep: matmul,attention")
    _add_json(plan)


def _add_what_else(commands: Any) -> None:
    other = _command(commands, "what-else", "print what else than checkpoints would make room in a recorded step")
    other.add_argument("file", metavar="FILE")
    other.add_argument("--segment-layers", type=int, metavar="K", help="on top of a plan with K layers in each segment")
    degrees = "pipeline and microbatches, as pipeline=4,microbatches=8: what each stage holds"
    other.add_argument("--parallel", default="", metavar="NAME=N,...", help=degrees)
    _add_json(other)


def _add_dry_run(commands: Any) -> None:
    dry = _command(commands, "dry-run", "record a full-size step without a GPU and without memory")
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
    record = _command(commands, "record", "run a training script as it is, and record a step of it")
    record.usage = "memstrata record [options] (train.py | -m module) [arguments of the script]"
    record.add_argument("--step", type=int, metavar="N", help="the step to record, from 0 (default: 3)")
    record.add_argument("--steps", type=int, metavar="K", help="how many steps to record from there (default: 1)")
    record.add_argument("--on", choices=("oom", "peak", "signal"), help="record when it happens, with steps before it")
    record.add_argument("--keep", type=int, metavar="N", help="steps before it to keep, with --on (default: 2)")
    record.add_argument("-o", "--output", metavar="FILE", default="step.mstrata", help="the recording to write")
    record.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module")
    record.add_argument("script", nargs=argparse.REMAINDER, help="the script and its arguments")


def _add_allocator(commands: Any) -> None:
    allocator = _command(commands, "allocator", "replay the GPU's allocator, as recorded or changed")
    allocator.add_argument("file", metavar="FILE")
    allocator.add_argument("--conf", metavar="TEXT", help="other settings, as in PYTORCH_CUDA_ALLOC_CONF")
    allocator.add_argument("--capacity", metavar="SIZE", help="what the allocator may reserve, such as 80GiB")
    allocator.add_argument(
        "--segment-layers", type=int, metavar="K", help="under a checkpoint plan of K layers a segment"
    )
    emptied = "with torch.cuda.empty_cache() in front of this event; may be given several times"
    allocator.add_argument("--empty-cache-at", metavar="EVENT", type=int, action="append", default=[], help=emptied)
    _add_json(allocator)


def _add_json(parser: argparse.ArgumentParser) -> Any:
    """Returns the group of arguments of which only one can be given."""
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="print one JSON object with exact figures")
    return forms


def _add_html(forms: Any) -> None:
    forms.add_argument("--html", action="store_true", help="print one HTML page that opens offline")


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    return parser


def _version() -> str:
    try:
        return version("memstrata")
    except PackageNotFoundError:
        return "(not installed)"
