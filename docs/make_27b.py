"""Writes docs/27b.md: every figure in it is read from the output of the command printed beside it.

The dry runs go to build/27b and are used again unless --again is given; the hybrid one needs transformers (PYTHON is an
interpreter that has it and torch) and takes about five minutes of one core.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from memstrata.viewer.arguments import script_parser
from memstrata.viewer.look.units import bytes_text, difference_text, ratio_text

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "build" / "27b"
PAGE = ROOT / "docs" / "27b.md"
LAYERS, SEGMENT = 64, 4
FEW = 8
"""Layers of the hybrid's dry run under checkpoints: the reference kernel under them is slow, and every further segment
adds one boundary."""
BOUNDARY = 8192 * 5120 * 2

DRY_RUNS = {
    "uniform": "--preset teaching",
    "uniform-checkpointed": "--preset teaching --segment-layers 4",
    "uniform-fused": "--preset teaching --fused",
    "uniform-fused-checkpointed": "--preset teaching --fused --segment-layers 4",
    "hybrid": "--preset hybrid",
    "hybrid-checkpointed": f"--preset hybrid --layers {FEW} --segment-layers 4",
    "hybrid-4096": "--preset hybrid --layers 4 --tokens 4096",
    "hybrid-8192": "--preset hybrid --layers 4",
}


class Commands:
    """Runs `memstrata` and keeps what it printed."""

    def __init__(self, hybrid_python: str) -> None:
        self.hybrid_python = hybrid_python

    def run(self, arguments: str, python: str = sys.executable) -> str:
        """Standard output. SystemExit with what it said where the command fails."""
        environment = os.environ | {"PYTHONPATH": str(ROOT / "build" / "types")}
        command = [python, "-m", "memstrata.viewer", *shlex.split(arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=RUNS, env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"memstrata {arguments}: {done.stderr.strip().splitlines()[-1]}")
        return done.stdout

    def json(self, arguments: str) -> Any:
        """The object it prints."""
        return json.loads(self.run(f"{arguments} --json"))

    def dry_run(self, name: str) -> None:
        """The recording of that name, unless it is there."""
        if not (RUNS / f"{name}.mstrata").exists():
            print(f"dry run: {name}", flush=True)
            python = self.hybrid_python if name.startswith("hybrid") else sys.executable
            self.run(f"dry-run {DRY_RUNS[name]} -o {name}.mstrata", python)


def said(arguments: str) -> str:
    """The command as it stands in the page."""
    return f"`memstrata {arguments}`"


def figures(report: Any) -> dict[str, int]:
    """What the tables take from a report."""
    missed = report["prediction"]["residual"]
    return {
        "activations": missed["measured_bytes"],
        "shapes": missed["predicted_bytes"],
        "kernels": report["prediction"]["with_kernels"]["predicted_bytes"],
        "kept": report["saved_tensors"]["kept"],
        "again": report["saved_tensors"]["rematerialized"],
        "peak": report["devices"][0]["peak_bytes"],
    }


def answer(name: str, plain: dict[str, int], cut: dict[str, int]) -> str:
    """A row of the first table."""
    less = ratio_text(plain["activations"] / cut["activations"])
    return f"| {name} | {bytes_text(plain['activations'])} | {bytes_text(cut['activations'])} | {less} |"


def residual_table(report: Any, file: str) -> list[str]:
    """The items of the residual, with their sentences."""
    missed = report["prediction"]["residual"]
    lines = [
        f"{said(f'report {file}.mstrata --residual')} (exact in `--json`): measured"
        f" {bytes_text(missed['measured_bytes'])}, shapes say"
        f" {bytes_text(missed['predicted_bytes'])}.",
        "",
        "| item | layers x tensors | bytes | what it is |",
        "|---|---|---|---|",
    ]
    for item in missed["items"]:
        layers = sum(part["layers"] for part in item["layer_kinds"])
        number = f"{layers} x {-(-item['count'] // layers)}" if layers else str(item["count"])
        lines.append(f"| {item['label']} | {number} | {difference_text(item['bytes'])} | {item['text']} |")
    total = missed["measured_bytes"] - missed["predicted_bytes"]
    lines += [f"| **sum: measured minus predicted** | | **{difference_text(total)}** | closes exactly |", ""]
    lines += [
        f"Matched {bytes_text(missed['matched_bytes'])}, of that {difference_text(missed['other_dtype_bytes'])} by"
        f" another precision; unpredicted {difference_text(missed['unpredicted_bytes'])}; absent"
        f" {difference_text(-missed['absent_bytes'])}.",
        "",
    ]
    return lines


def page(commands: Commands) -> list[str]:
    """The lines of the page."""
    shapes = commands.json("predict --preset teaching --segment-layers 4")
    reports = {name: commands.json(f"report {name}.mstrata") for name in DRY_RUNS}
    facts = {name: figures(report) for name, report in reports.items()}
    return [
        "# The 27B question",
        "",
        "A decoder of 64 layers, hidden 5120, FFN 17408, trained in bfloat16 on one sequence of 8,192 tokens. How much",
        "does a step keep for backward, and what is left with one checkpoint for every super-block of four layers? The",
        "estimates below differ by more than an order of magnitude. Every figure below is read from the output of"
        " the command",
        "beside it (with `--json` to the byte), all run in one folder; `make 27b` runs them and writes this page.",
        "",
        *_answers(shapes, commands.json("predict --preset hybrid --segment-layers 4"), facts),
        *_by_shapes(commands, shapes),
        *_uniform(reports, facts),
        *_hybrid(commands, reports, facts),
        *_long(commands),
        *_conclusions(shapes, facts),
    ]


def whole_hybrid(facts: dict[str, dict[str, int]]) -> int:
    """The hybrid's activation peak under checkpoints with all layers: one boundary more for each further segment."""
    return facts["hybrid-checkpointed"]["activations"] + (LAYERS - FEW) // SEGMENT * BOUNDARY


def _answers(shapes: Any, other: Any, facts: dict[str, dict[str, int]]) -> list[str]:
    hybrid = whole_hybrid(facts)
    measured = facts["hybrid"]["activations"]
    fused, fused_cut = facts["uniform-fused"], facts["uniform-fused-checkpointed"]
    return [
        "| | kept without checkpoints | activation peak, one per super-block | less |",
        "|---|---|---|---|",
        f"| residual stream only | {bytes_text(shapes['residual_only_bytes'])} |"
        f" {bytes_text(shapes['boundary_bytes'])} (its boundaries alone) | |",
        f"| shapes, uniform model | {bytes_text(shapes['total_bytes'])} |"
        f" {bytes_text(shapes['checkpointed_peak_bytes'])} | {ratio_text(shapes['ratio'])} |",
        f"| shapes, hybrid with fused kernels (estimate) | {bytes_text(other['total_bytes'])} |"
        f" {bytes_text(other['checkpointed_peak_bytes'])} | {ratio_text(other['ratio'])} |",
        answer("dry run, uniform model, CPU kernels", facts["uniform"], facts["uniform-checkpointed"]),
        answer("dry run, uniform model, fused kernels (estimate)", fused, fused_cut),
        f"| dry run, real hybrid, reference kernel | {bytes_text(measured)} | {bytes_text(hybrid)} (from {FEW}"
        " layers) |"
        f" {ratio_text(measured / hybrid)} |",
        "",
        "A dry run moves no data: its bytes are those of the storages autograd holds, and memory inside a"
        " kernel is not",
        "seen.",
        "",
    ]


def _by_shapes(commands: Commands, shapes: Any) -> list[str]:
    long = commands.json("predict --preset teaching --segment-layers 4 --tokens 262144")
    return [
        "## The residual stream, and shapes",
        "",
        said("predict --preset teaching --segment-layers 4"),
        "",
        f"- 64 hidden states of 8,192 x 5,120 bfloat16 values: {bytes_text(shapes['residual_only_bytes'])}."
        " This forgets",
        "  everything inside a layer.",
        f"- By widths one layer keeps {bytes_text(shapes['per_layer_bytes'])}, all"
        f" {bytes_text(shapes['total_bytes'])}.",
        f"- With 16 segments: boundaries {bytes_text(shapes['boundary_bytes'])}, one segment made again",
        f"  {bytes_text(shapes['rematerialized_bytes'])}, peak {bytes_text(shapes['checkpointed_peak_bytes'])};"
        " the running",
        "  segment's own input is in both terms.",
        "- Parameters, gradients and optimizer state sharded over 64 ranks:"
        f" {bytes_text(shapes['budget']['persistent_bytes'])} each."
        " Checkpoints",
        "  do not move them.",
        f"- With fused kernels instead of bare widths (estimate): {bytes_text(shapes['with_kernels']['total_bytes'])},",
        f"  checkpointed {bytes_text(shapes['with_kernels']['checkpointed_peak_bytes'])}.",
        "",
        f"{said('predict --preset teaching --segment-layers 4 --tokens 262144')}: {bytes_text(long['total_bytes'])} by",
        f"widths, checkpointed {bytes_text(long['checkpointed_peak_bytes'])}.",
        "",
    ]


def _uniform(reports: dict[str, Any], facts: dict[str, dict[str, int]]) -> list[str]:
    plain, cut = facts["uniform"], facts["uniform-checkpointed"]
    fused, fused_cut = facts["uniform-fused"], facts["uniform-fused-checkpointed"]
    return [
        "## A dry run of the uniform model",
        "",
        f"{said('dry-run --preset teaching -o uniform.mstrata')} and"
        f" {said('report uniform.mstrata --json')}: {plain['activations'] / 2**30:.2f} GiB",
        f"({plain['activations']:,} bytes, `measured_bytes`).",
        "",
        *residual_table(reports["uniform"], "uniform"),
        f"Counted with the kernels that were seen (`with_kernels` in the same output), shapes say {plain['kernels']:,}",
        f"bytes: {plain['activations'] - plain['kernels']:,} bytes remain.",
        "",
        f"{said('dry-run --preset teaching --segment-layers 4 -o uniform-checkpointed.mstrata')} and",
        f"{said('report uniform-checkpointed.mstrata --json')}: boundaries {bytes_text(cut['kept'])} as"
        " activations (the",
        f"first segment's is the input of the step), activation peak {bytes_text(cut['activations'])}: the"
        " segment that is",
        f"made again has the same copies in it. The whole step peaks at {bytes_text(cut['peak'])}, with"
        " parameters and all",
        "gradients and no optimizer.",
        "",
        f"{said('dry-run --preset teaching --fused -o uniform-fused.mstrata')}, the same with `--segment-layers 4 -o",
        "uniform-fused-checkpointed.mstrata`, and `memstrata report` of both: no float32 copies inside norms,",
        f"{bytes_text(fused['activations'])}, checkpointed {bytes_text(fused_cut['activations'])}. No fused kernel ran:"
        " both are estimates.",
        "",
    ]


def _hybrid(commands: Commands, reports: dict[str, Any], facts: dict[str, dict[str, int]]) -> list[str]:
    shapes = commands.json("predict --preset hybrid --segment-layers 4")
    slow = commands.json("predict --preset hybrid --segment-layers 4 --kernels norm=composite,linear=reference")
    few = facts["hybrid-checkpointed"]
    return [
        "## A dry run of the real hybrid",
        "",
        "The real model has 48 gated-delta layers and 16 full-attention ones.",
        "",
        f"- {said('predict --preset hybrid --segment-layers 4')}: {bytes_text(shapes['total_bytes'])} by widths,",
        f"  checkpointed {bytes_text(shapes['checkpointed_peak_bytes'])}. Gated-delta layers are counted for a"
        " fused kernel",
        "  that was not measured: an estimate.",
        "- The same with `--kernels norm=composite,linear=reference`:"
        f" {bytes_text(slow['with_kernels']['total_bytes'])}, checkpointed"
        f" {bytes_text(slow['with_kernels']['checkpointed_peak_bytes'])},",
        "  an estimate too; what the reference kernel keeps per token was fitted to real steps of small layers.",
        f"- Outside the layers it says {bytes_text(shapes['outside_layers_bytes'])} more where backward begins: the"
        " loss's float32 log-probabilities over a vocabulary",
        f"  of 248,320, beside embedding and head. They make the checkpointed peak {bytes_text(shapes['peak_bytes'])},"
        " and no checkpoint moves them.",
        "  The dry runs here have neither head nor loss.",
        f"- {said('dry-run --preset hybrid -o hybrid.mstrata')} and {said('report hybrid.mstrata')} measure"
        f" {bytes_text(facts['hybrid']['activations'])} with",
        "  transformers' reference kernel, which is written out in Python.",
        "",
        *residual_table(reports["hybrid"], "hybrid"),
        f"{said(f'dry-run --preset hybrid --layers {FEW} --segment-layers 4 -o hybrid-checkpointed.mstrata')}"
        f" and {said('report hybrid-checkpointed.mstrata')}:",
        f"activation peak {bytes_text(few['activations'])} with {FEW // SEGMENT} segments. One segment runs at a time"
        " whatever the"
        " number of layers,",
        "and each further segment adds a boundary of 8,192 x 5,120 x 2 bytes:"
        f" {bytes_text(whole_hybrid(facts))} with all",
        f"{LAYERS} layers. The whole model under checkpoints was not run.",
        "",
    ]


def _dry(name: str) -> str:
    return f"dry-run {DRY_RUNS[name]} -o {name}.mstrata"


def _long(commands: Commands) -> list[str]:
    found = commands.json("scale hybrid-4096.mstrata hybrid-8192.mstrata --to 262144")
    lines = [
        "## Longer sequences",
        "",
        f"{said('scale hybrid-4096.mstrata hybrid-8192.mstrata --to 262144')}, from dry runs of one super-block"
        " (4 layers)",
        f"at 4,096 and 8,192 tokens ({said(_dry('hybrid-4096'))} and",
        f"{said(_dry('hybrid-8192'))}) without checkpoints: the step's peak, an estimate beyond what was measured.",
        "Further super-blocks add what their layers have again.",
        "",
        "| tokens | peak of the step, one super-block |",
        "|---|---|",
    ]
    lines += [f"| {point['sequence']:,} | {bytes_text(point['peak_bytes'])} |" for point in found["curve"]]
    lines += ["", "| part | bytes per token | bytes per sequence^2 |", "|---|---|---|"]
    for part in found["parts"]:
        linear, square = part["bytes_per_token"], part["bytes_per_batch_and_sequence_squared"]
        lines.append(f"| {part['name']} | {bytes_text(round(linear))} | {square:.3g} |")
    lines += [
        "",
        "What grows with the square is the causal mask: every full-attention layer makes T x T bfloat16 values of the",
        "step's boolean one and keeps them, so that further super-blocks add it again.",
    ]
    return [*lines, ""]


def _conclusions(shapes: Any, facts: dict[str, dict[str, int]]) -> list[str]:
    first = shapes["residual_only_bytes"]
    uniform, hybrid = facts["uniform"]["activations"], facts["hybrid"]["activations"]
    return [
        "## What follows",
        "",
        f"- The first estimate was {ratio_text(uniform / first)} too low for the uniform model and"
        f" {ratio_text(hybrid / first)} for the hybrid with its",
        "  reference kernel: a layer keeps its inside, and kernels keep copies.",
        f"- One checkpoint per super-block brings the hybrid from {bytes_text(hybrid)} to"
        f" {bytes_text(whole_hybrid(facts))} with that kernel.",
        "- Not measured here: a GPU's kernels, their workspace, fragmentation, and the time that recomputation takes.",
        "",
    ]


def main() -> None:
    """Runs what is missing and writes the page."""
    parser = script_parser(__doc__)
    parser.add_argument("--hybrid-python", default=sys.executable, help="an interpreter that has transformers")
    parser.add_argument("--again", action="store_true", help="run every dry run again")
    options = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    if options.again:
        for name in DRY_RUNS:
            (RUNS / f"{name}.mstrata").unlink(missing_ok=True)
    commands = Commands(options.hybrid_python)
    for name in DRY_RUNS:
        commands.dry_run(name)
    PAGE.write_text("\n".join(page(commands)))
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
