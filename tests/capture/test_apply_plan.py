"""A plan applied to a model that knows nothing of it: same gradients, the right segments, and taken away again."""

import gc
import random
import weakref

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from memstrata.capture import CaptureError, Recorder, apply_plan, check_plan  # noqa: E402
from memstrata.capture.format.plan import Plan  # noqa: E402
from memstrata.capture.format.schema import Fate  # noqa: E402
from memstrata.viewer.model.run import Run  # noqa: E402
from memstrata.viewer.sources import open_file  # noqa: E402

WIDTH = 16
pytestmark = pytest.mark.usefixtures("one_thread")


PLANS = [
    [["layers.0"], ["layers.1"], ["layers.2"], ["layers.3"]],
    [["layers.0", "layers.1"], ["layers.2", "layers.3"]],
    [["layers.0", "layers.1", "layers.2", "layers.3"]],
    [["layers.1", "layers.2"]],
    [["layers.0.mlp"], ["layers.1", "layers.2", "layers.3"]],
]


class Layer(nn.Module):
    """Takes a tensor, a mask and a scale by keyword, returns a tuple, draws random numbers."""

    def __init__(self, dropout=0.2):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(WIDTH), nn.Dropout(dropout)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, mask=None, *, scale=1.0):
        y = self.mlp(self.norm(x)) * scale
        return x + self.drop(y if mask is None else y * mask), y


class Model(nn.Module):
    """`how` says what the loop does besides calling its layers."""

    def __init__(self, how="plain", layers=4):
        super().__init__()
        self.how = how
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.gate = nn.Linear(WIDTH, 1)

    def forward(self, x):
        masks = [torch.ones(WIDTH), torch.arange(WIDTH) / WIDTH]
        seen = ()
        for number, layer in enumerate(self.layers):
            if self.how == "random between":
                x = x * (1 + 0.1 * torch.rand(1))
            if self.how == "stops" and number == 2:
                break
            if self.how == "gated":
                x = x * torch.sigmoid(self.gate(x))
            x, y = layer(x, masks[number % 2], scale=torch.tensor(1.0 + number))
            seen = (*seen, x, y)
        if self.how == "collects":
            return x + sum(t.mean() for t in seen)
        return x


def gradients(model, rows):
    torch.manual_seed(3)
    model.zero_grad()
    model(rows).square().sum().backward()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def made(how="plain"):
    torch.manual_seed(0)
    return Model(how), torch.randn(8, WIDTH, requires_grad=True)


def equal(one, two):
    return all((a is None) == (b is None) and (a is None or torch.equal(a, b)) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("how", ["plain", "collects", "random between", "gated", "stops"])
@pytest.mark.parametrize("plan", PLANS, ids=["each", "pairs", "all", "middle", "inside"])
def test_gradients_are_bit_equal(how, plan):
    model, rows = made(how)
    expected = gradients(model, rows)
    with apply_plan(model, plan) as applied:
        assert equal(expected, gradients(model, rows))
        assert sum(applied.runs) >= 1
    assert equal(expected, gradients(model, rows))


def recorded(model, rows, path):
    with Recorder(path, model=model):
        model(rows).square().sum().backward()
    return Run(open_file(path))


@pytest.mark.parametrize("plan", PLANS[:4], ids=["each", "pairs", "all", "middle"])
def test_exactly_these_segments_run_again(tmp_path, plan):
    model, rows = made()
    plain = recorded(model, rows, tmp_path / "plain.mstrata").saved_bytes_by_fate()
    with apply_plan(model, plan):
        run = recorded(model, rows, tmp_path / "plan.mstrata")
    fates = run.saved_bytes_by_fate()
    assert [list(segment) for segment in run.recording.meta.plan] == plan
    assert not run.recording.meta.problems or all(p.code != "recorder_failure" for p in run.recording.meta.problems)
    assert fates[Fate.rematerialized] == fates[Fate.dropped] > 0
    assert fates[Fate.kept] < plain[Fate.kept]
    assert plain[Fate.dropped] == 0


def test_paths_parameters_and_classes_stay(tmp_path):
    model, _ = made()
    keys, names = list(model.state_dict()), [type(m).__name__ for m in model.modules()]
    classes = [type(m) for m in model.modules()]
    applied = apply_plan(model, PLANS[1])
    assert list(model.state_dict()) == keys and [type(m).__name__ for m in model.modules()] == names
    assert all(isinstance(layer, Layer) for layer in model.layers)
    applied.remove()
    assert [type(m) for m in model.modules()] == classes


def test_without_gradients_nothing_is_checkpointed():
    model, rows = made()
    with apply_plan(model, PLANS[1]) as applied, torch.no_grad():
        model(rows)
    assert applied.runs == [0, 0]


def test_an_exception_in_the_middle_leaves_no_hook_behind():
    model, rows = made()
    with apply_plan(model, PLANS[2]):
        model.layers[2].mlp[0].register_forward_pre_hook(_fails)
        with pytest.raises(KeyError):
            model(rows)
        torch._C._autograd._saved_tensors_hooks_disable("a test")  # raises where a pair is in force
        torch._C._autograd._saved_tensors_hooks_enable()
        model.layers[2].mlp[0]._forward_pre_hooks.clear()
        expected = gradients(model, rows)
    assert equal(expected, gradients(model, rows))


def _fails(module, args):
    raise KeyError("the batch")


@pytest.mark.parametrize("how", ["plain", "gated", "collects"])
def test_nothing_lives_on_where_no_backward_runs(how):
    model, rows = made(how)
    with apply_plan(model, PLANS[2]):
        gc.collect()
        gc.disable()
        try:
            output, alive = model(rows), weakref.ref(rows)
            del rows
            assert alive() is not None  # the graph keeps it
            del output
            assert alive() is None
        finally:
            gc.enable()


def test_a_graph_outlives_the_plan():
    model, rows = made()
    expected = gradients(model, rows)
    torch.manual_seed(3)
    model.zero_grad()
    with apply_plan(model, PLANS[1]):
        loss = model(rows).square().sum()
    loss.backward()
    assert equal(expected, [p.grad for p in model.parameters()])


def test_a_change_in_place_is_still_an_error():
    model, _ = made()
    rows = torch.randn(8, WIDTH)
    with apply_plan(model, PLANS[1]):
        loss = model(rows).square().sum()
        rows.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_autocast_is_repeated():
    model, rows = made()

    def loss():
        torch.manual_seed(3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(rows).float().square().sum()

    loss().backward()
    expected = [p.grad.clone() if p.grad is not None else None for p in model.parameters()]
    model.zero_grad()
    with apply_plan(model, PLANS[2]):
        loss().backward()
    assert equal(expected, [p.grad for p in model.parameters()])


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ([["layers.9"]], "The model has no module 'layers.9', which the plan names."),
        ([["layers.0"], ["layers.0", "layers.1"]], "names the module layers.0 twice"),
        ([["layers.0"], ["layers.0.mlp"]], "layers.0.mlp lies inside layers.0"),
        ([["layers.0", "layers.2"]], "do not follow one another"),
        ([["layers.1", "layers.0"]], "do not follow one another"),
        ([[]], "A segment of the plan is empty."),
    ],
)
def test_a_plan_that_cannot_be_applied_is_refused_in_one_sentence(plan, sentence):
    model, _ = made()
    classes = [type(m) for m in model.modules()]
    with pytest.raises(CaptureError) as error:
        apply_plan(model, plan)
    assert sentence in str(error.value) and str(error.value).count(". ") == 0
    assert [type(m) for m in model.modules()] == classes


def test_a_second_plan_and_a_compiled_model_are_refused():
    model, _ = made()
    with apply_plan(model, PLANS[0]), pytest.raises(CaptureError, match="in force on this model already"):
        apply_plan(model, PLANS[1])
    with pytest.raises(CaptureError, match="compiled"):
        apply_plan(torch.compile(model), PLANS[1])


class Cache(nn.Module):
    """Remembers how often it was called."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return (x * self.calls).tanh()


class OwnGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, x):
        return (x * torch.rand(x.shape, generator=self.generator)).tanh()


def chain(odd):
    torch.manual_seed(0)
    middle = [nn.Tanh(), odd(), nn.Tanh()]
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), m, nn.Linear(WIDTH, WIDTH)) for m in middle])


@pytest.mark.parametrize(
    ("odd", "module", "cause"),
    [(lambda: nn.BatchNorm1d(WIDTH), "1.1", "batch statistics"), (nn.Dropout, "", ""), (nn.Tanh, "", "")],
)
def test_the_first_module_that_diverges_is_named(odd, module, cause):
    model, rows = chain(odd), torch.randn(8, WIDTH)
    buffers = [b.clone() for b in model.buffers()]
    found = check_plan(model, lambda: model(rows).square().sum(), [["0", "1", "2"]])
    assert (found.module, found.cause, found.equal) == (module, cause, not module)
    assert all(torch.equal(a, b) for a, b in zip(buffers, model.buffers(), strict=True))
    assert all(p.grad is None for p in model.parameters())


class Flips(nn.Module):
    """Gives something else in the recomputation, and neither draws nor remembers anything."""

    def forward(self, x):
        return (x * (1 if torch._C._current_graph_task_id() == -1 else 2)).tanh()


def test_a_module_that_behaves_otherwise_when_recomputed_is_named():
    model, rows = chain(Flips), torch.randn(8, WIDTH)
    found = check_plan(model, lambda: model(rows).square().sum(), [["0", "1", "2"]])
    assert (found.module, found.cause, found.equal) == ("1.1", "unknown", False)


class PythonRandom(nn.Module):
    """Drops out by Python's own random numbers."""

    def forward(self, x):
        return x.tanh() * random.random()


class NumpyRandom(nn.Module):
    def forward(self, x):
        return x.tanh() * float(numpy.random.rand())  # noqa: NPY002 - the generator that all share


class KeepsKeys(nn.Module):
    """Attends to what it saw before, as a cache of keys and values does."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def forward(self, x):
        self.seen.append(x.detach())
        return (x + sum(self.seen)).tanh()


@pytest.mark.parametrize(
    ("odd", "cause"),
    [(Cache, "cache"), (KeepsKeys, "cache"), (OwnGenerator, "random numbers"), (PythonRandom, "random numbers"),
     (NumpyRandom, "random numbers")],
)  # fmt: skip
def test_random_numbers_and_caches_are_told_apart(odd, cause):
    model, rows = chain(odd), torch.randn(8, WIDTH)
    found = check_plan(model, lambda: model(rows).square().sum(), [["0", "1", "2"]])
    assert (found.equal, found.module, found.cause) == (False, "1.1", cause)
    assert ("random numbers" in found.text) == (cause == "random numbers") != ("remembers" in found.text)
    assert "forward" not in vars(model[1][1])


def test_a_step_that_never_repeats_is_not_laid_to_the_plan():
    model, rows = chain(nn.Tanh), [torch.randn(8, WIDTH), torch.randn(8, WIDTH)]
    found = check_plan(model, lambda: model(rows.pop()).square().sum(), [["0", "1", "2"]])
    assert (found.equal, found.module, found.cause) == (False, "", "not repeatable")
    assert "not repeatable" in found.text


def test_a_plan_without_effect_is_said():
    model, rows = chain(nn.Tanh), torch.randn(8, WIDTH)

    def step():
        with torch.no_grad():
            hidden = model[:2](rows)
        return model[2](hidden).square().sum()

    found = check_plan(model, step, Plan((("0",),)))
    assert found.equal and "no effect" in found.text


def test_steps_are_timed_without_and_with_the_plan():
    model, rows = chain(nn.Tanh), torch.randn(8, WIDTH)
    calls, plans = [], []

    def step():
        calls.append(1)
        plans.append(hasattr(type(model[0]), "_memstrata_call"))
        return model(rows).square().sum()

    found = check_plan(model, step, [["0", "1", "2"]], timed_steps=4)
    assert plans == [False, True] * 5 and len(calls) == 10  # one of each to compare, then four timed in turn
    assert found.equal and found.seconds_before > 0 and found.seconds_after > 0
    before, after = found.throughput(8)
    assert (before, after) == (8 / found.seconds_before, 8 / found.seconds_after)
    assert not any(plans[i] for i in range(0, 10, 2)) and all(p.grad is None for p in model.parameters())


def test_what_differs_or_is_not_asked_for_is_not_timed():
    rows = torch.randn(8, WIDTH)
    model = chain(lambda: nn.BatchNorm1d(WIDTH))
    assert check_plan(model, lambda: model(rows).square().sum(), [["0", "1", "2"]]).throughput(8) is None
    model = chain(nn.Tanh)
    found = check_plan(model, lambda: model(rows).square().sum(), [["0"]], timed_steps=0)
    assert found.equal and found.seconds_before is None
