"""The code that a plan is printed as, executed: torch on real models, FSDP2 on two ranks, Hugging Face where there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memstrata.viewer.analysis.operators import parse_keep
from memstrata.viewer.analysis.plan_code import fsdp2_code, huggingface_code, torch_code
from memstrata.viewer.analysis.planner import Planner
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

torch = pytest.importorskip("torch")

from memstrata.capture import Recorder  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RANKS, LAYERS, STEPS = 2, 4, 3
PLANS = {"each": ((0, 1), (1, 2), (2, 3), (3, 4)), "pairs": ((0, 2), (2, 4)), "uneven": ((0, 1), (1, 4))}
KEEPS = {"": "", "selective ": "matmul,attention"}
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def models():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import plan_models
    finally:
        sys.path.remove(str(BENCHMARKS))
    return plan_models


def planner_of(path, model, step):
    step()
    model.zero_grad()
    with Recorder(path, model=model):
        step()
    model.zero_grad()
    return Planner(Run(open_file(str(path))))


def keeping(planner, text):
    return planner.keeping(parse_keep(text, planner.operators))


@pytest.fixture(scope="module")
def sharded(tmp_path_factory, models):
    """What both ranks said of each plan's code."""
    folder = tmp_path_factory.mktemp("fsdp2")
    torch.manual_seed(0)
    model = models.Gpt2(layers=LAYERS, width=32, vocabulary=64)
    planner = planner_of(folder / "a.mstrata", model, lambda: model(torch.ones(2, 16, dtype=int)).sum().backward())
    codes = []
    for name, ranges in PLANS.items():
        for word, keep in KEEPS.items():
            codes.append(folder / f"{word}{name}")
            codes[-1].write_text(fsdp2_code(keeping(planner, keep), ranges))
    script = Path(__file__).with_name("plan_code_training.py")
    command = [sys.executable, str(script), str(folder / "store"), str(BENCHMARKS), *map(str, codes)]
    processes = [
        subprocess.Popen(
            command, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(RANKS)
    ]  # fmt: skip
    try:
        ended = [process.communicate(timeout=150) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * RANKS, "\n".join(error for _, error in ended)
    lines = [json.loads(line) for out, _ in ended for line in out.splitlines() if line.startswith("{")]
    return {Path(line["code"]).name: [one for one in lines if one["code"] == line["code"]] for line in lines}


@pytest.mark.parametrize("name", [f"{word}{name}" for name in PLANS for word in KEEPS])
def test_under_fsdp2_gradients_are_equal_on_both_ranks(sharded, name):
    said = sharded[name]
    assert len(said) == RANKS
    for rank in said:
        assert rank["equal"]
        assert rank["again"] == STEPS * LAYERS  # every layer is in a segment and ran again in each backward
        assert rank["sharded"] == LAYERS + 1  # each layer, and the model


def gradients(model, step):
    model.zero_grad()
    torch.manual_seed(3)
    step(model).backward()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("keep", ["", "matmul"])
@pytest.mark.parametrize("number", range(4), ids=["uniform", "hybrid", "GPT-2", "encoder"])
def test_the_torch_code_computes_the_same(models, tmp_path, number, keep):
    case = models.TUNED[number]
    torch.manual_seed(0)
    model = case.build()
    planner = keeping(planner_of(tmp_path / "a.mstrata", model, lambda: case.loss(model).backward()), keep)
    expected = gradients(model, case.loss)
    names = {"model": model}
    exec(compile(torch_code(planner, ((0, 1), (1, 4), (4, 7))), "plan", "exec"), names)  # our own output
    again = [0]
    list(model.parameters())  # the same parameters in the new places
    layer = planner.run.layers.names[1].rpartition(".")[0]
    assert len(names["model"].get_submodule(layer)) == 4  # 0, 1-3, 4-6, 7
    inner = next(m for m in names["model"].modules() if type(m).__name__ == "Segment")
    inner[0].register_forward_hook(lambda *_: again.__setitem__(0, torch._C._current_graph_task_id()))
    found = gradients(names["model"], case.loss)
    assert again[0] != -1  # its last forward was in backward
    assert len(found) == len(expected)
    assert all((a is None) == (b is None) and (a is None or torch.equal(a, b))
               for a, b in zip(expected, found, strict=True))  # fmt: skip


def llama():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=LAYERS, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).train()


def said(model):
    tokens = torch.arange(32).reshape(2, 16)
    return model(input_ids=tokens, labels=tokens).loss


@pytest.mark.parametrize("keep", ["", "matmul"])
@pytest.mark.parametrize("ranges", [PLANS["each"], ((0, 1), (2, 3)), PLANS["pairs"], PLANS["uneven"]])
def test_hugging_face_computes_the_same(tmp_path, ranges, keep):
    model = llama()
    planner = keeping(planner_of(tmp_path / "a.mstrata", model, lambda: said(model).backward()), keep)
    expected = gradients(model, said)
    layers, ran = list(model.model.layers), []
    for number, layer in enumerate(layers):
        layer.input_layernorm.register_forward_hook(  # a recomputation stops before the end
            lambda *_, number=number: ran.append(number) if torch._C._current_graph_task_id() != -1 else None
        )
    exec(compile(huggingface_code(planner, ranges), "plan", "exec"), {"model": model})  # our own output
    found = gradients(model, said)
    assert sorted(set(ran)) == [number for first, stop in ranges for number in range(first, stop)]
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
