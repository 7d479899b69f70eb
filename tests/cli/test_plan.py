"""`memstrata plan`, and the code it prints, which runs without memstrata."""

import json

import pytest

from memstrata.viewer.cli import main

MIB = 2**20


def run(capsys, *arguments):
    status = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_frontier_is_the_default(samples, capsys):
    status, out, _ = run(capsys, "plan", samples / "before.mstrata")
    assert status == 0 and out == run(capsys, "plan", samples / "before.mstrata", "--frontier")[1]
    lines = out.splitlines()
    assert lines[0] == "before.mstrata: measured peak 751 MiB without checkpoints"
    assert any(line.split()[:2] == ["none", "751"] for line in lines) and max(map(len, lines)) <= 80


def test_a_budget_is_kept(samples, capsys):
    status, out, _ = run(capsys, "plan", samples / "before.mstrata", "--budget", "300MiB", "--json")
    plan = json.loads(out)["plan"]
    assert status == 0 and plan["peak_bytes"] <= 300 * MIB and plan["estimate"] is True
    assert all(path.startswith("layers.") for segment in plan["segments"] for path in segment)


def test_time_is_a_range_of_forward_again_and_the_checkpoints_own_cost(samples, capsys):
    arguments = ("plan", samples / "before.mstrata", "--segment-layers", "2")
    plan = json.loads(run(capsys, *arguments, "--json")[1])["plan"]
    assert plan["extra_seconds_at_most"] == pytest.approx(plan["extra_seconds"] + 6 * 3e-3)
    assert "each checkpoint costs the host besides, up to 3.00 ms, it is at most +" in " ".join(
        run(capsys, *arguments)[1].split()
    )


def test_a_budget_beyond_the_peak_needs_no_checkpoint(samples, capsys):
    status, out, _ = run(capsys, "plan", samples / "before.mstrata", "--budget", "1GiB")
    assert status == 0 and out.endswith("The step fits without a checkpoint.\n")


def test_a_budget_that_nothing_fits_names_the_lowest_peak(samples, capsys):
    status, out, _ = run(capsys, "plan", samples / "before.mstrata", "--budget", "30MiB")
    assert status == 0 and "No plan fits 30.0 MiB: the lowest peak any plan reaches is 2" in out
    found = json.loads(run(capsys, "plan", samples / "before.mstrata", "--budget", "30MiB", "--json")[1])
    assert found["plan"] is None and found["lowest"]["peak_bytes"] > 30 * MIB


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("after.mstrata",), "recorded with checkpoints in force"),
        (("before.mstrata", "--segment-layers", "13"), "a segment has 1 to 12 layers in this model, not 13"),
        (("before.mstrata", "--segment-layers", "0"), "a segment has 1 to 12 layers in this model, not 0"),
        (("before.mstrata", "--budget", "much"), "'much' is not a size"),
    ],
)
def test_bad_input_is_one_sentence(samples, capsys, arguments, sentence):
    status, out, err = run(capsys, "plan", samples / arguments[0], *arguments[1:])
    assert status == 2 and not out and sentence in err and err.count("\n") == 1


def code_of(out, name):
    """The block of code under `# ---- name ----`."""
    return out.split(f"# ---- {name} ----\n")[1].split("\n# ---- ")[0]


def test_the_torch_code_runs_and_computes_the_same(samples, capsys):
    torch = pytest.importorskip("torch")
    from memstrata.capture.models.hybrid import HybridConfig, HybridDecoder

    torch.manual_seed(0)
    model = HybridDecoder(HybridConfig(vocabulary=16, hidden=16, heads=2, kv_heads=1, ffn=32, chunk=8))
    tokens = torch.randint(16, (2, 16))
    model(tokens).square().sum().backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    out = run(capsys, "plan", samples / "before.mstrata", "--segment-layers", "5")[1]
    exec(compile(code_of(out, "torch"), "plan", "exec"), {"model": model})  # our own output, not a file's
    assert [len(entry) for entry in model.layers] == [5, 5, 2]
    model(tokens).square().sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(expected, model.parameters(), strict=True))


def test_the_code_for_other_frameworks(samples, capsys):
    out = run(capsys, "plan", samples / "before.mstrata", "--segment-layers", "1")[1]
    assert "gradient_checkpointing_enable" in code_of(out, "Hugging Face")
    fsdp = code_of(out, "FSDP2").splitlines()
    steps = ("checkpoint_layers(model", "torch.compile", "    fully_shard(layer)", "fully_shard(model)")
    order = [next(i for i, line in enumerate(fsdp) if text in line) for text in steps]
    assert order == sorted(order)
    longer = run(capsys, "plan", samples / "before.mstrata", "--segment-layers", "2")[1]
    assert "single layers only" in code_of(longer, "Hugging Face")
    assert "checkpoint_segments(model.layers, [(0, 2)" in code_of(longer, "Hugging Face")


def test_a_sequential_is_cut_as_one(samples, capsys):
    out = run(capsys, "plan", samples / "uniform.mstrata", "--segment-layers", "4")[1]
    assert "model = checkpoint_segments(model, [(0, 4), (4, 8)])" in code_of(out, "torch")


def test_operators_can_be_kept(samples, capsys):
    arguments = ("plan", samples / "before.mstrata", "--segment-layers", "1")
    status, out, _ = run(capsys, *arguments, "--keep", "matmul,attention")
    lines = " ".join(out.split())
    assert status == 0 and "checkpoints keep the outputs of mm, bmm, _scaled_dot_product_flash_attention_for" in lines
    assert "create_selective_checkpoint_contexts, KEEP" in code_of(out, "torch")
    assert "torch.ops.aten.mm.default" in code_of(out, "Hugging Face") and "context_fn=contexts" in code_of(
        out, "FSDP2"
    )
    assert max(map(len, out.split("# ----")[0].splitlines())) <= 80
    plain = json.loads(run(capsys, *arguments, "--json")[1])
    kept = json.loads(run(capsys, *arguments, "--keep", "mm", "--json")[1])
    sizes = {each["operator"]: each["bytes"] for each in plain["operators"]}
    assert plain["plan"]["kept_output_bytes"] == 0 and kept["plan"]["kept_output_bytes"] == sizes["mm"]
    assert kept["plan"]["extra_seconds"] < plain["plan"]["extra_seconds"] and kept["keep"] == ["mm"]


@pytest.mark.parametrize("keep", ["silu", "convolution"])
def test_an_operator_that_cannot_be_kept_is_one_sentence(samples, capsys, keep):
    status, out, err = run(capsys, "plan", samples / "before.mstrata", "--keep", keep)
    assert (status, out) == (2, "") and err.startswith(f"memstrata: no operator called '{keep}' ")
