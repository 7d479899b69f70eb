"""`memstrata predict` with kernels and degrees, and `memstrata scale`."""

import json

import pytest

from memstrata.viewer.cli import main


def out_of(capsys, *arguments):
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_predict_marks_what_was_not_measured(capsys):
    code, text, _ = out_of(capsys, "predict", "--preset", "teaching", "--parallel", "zero=3,data=64")
    assert code == 0
    words = " ".join(text.split())
    assert "What kernels keep (estimate: not measured): norm=fused" in words
    assert "with kernels (estimate)" in words and "communication (estimate)" in words
    assert "Budget of one rank of 64 (ZeRO stage 3, data 64)" in words


def test_predict_as_json(capsys):
    code, text, _ = out_of(capsys, "predict", "--preset", "teaching", "--kernels", "norm=composite", "--json")
    found = json.loads(text)
    assert code == 0 and found["total_bytes"] == 96 * 2**30
    assert found["with_kernels"]["estimate"] is True
    assert f"{found['with_kernels']['total_bytes'] / 2**30:.2f}" == "150.05"
    lines = found["budget"]
    assert sum(lines[f"{n}_bytes"] for n in ("parameters", "gradients", "optimizer_state")) == 6_750_000_000
    assert all(each["estimate"] for each in found["alternatives"])


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--kernels", "attention=flash"], "attention is efficient or math, not 'flash'"),
        (["--parallel", "zero=7"], "zero is a sharding stage from 0 to 3, not 7"),
        (["--parallel", "tensor=7"], "tensor=7 does not divide the 12,288 values of attention query output"),
    ],
)
def test_what_cannot_be_predicted(capsys, arguments, said):
    code, text, error = out_of(capsys, "predict", "--preset", "teaching", *arguments)
    assert (code, text, error) == (2, "", f"memstrata: {said}\n")


def test_scale_needs_two_sizes(capsys, samples):
    code, text, error = out_of(capsys, "scale", str(samples / "before.mstrata"))
    assert (code, text) == (2, "")
    assert error == "memstrata: two recordings of different batch size or sequence length are needed\n"
