"""Every finding: a small real step that shows it, and one that does not."""

import dataclasses

import numpy as np
import pytest

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StringTable
from memstrata.capture.format.recording import Device, Meta, build
from memstrata.capture.format.schema import Action, BlockState
from memstrata.viewer.analysis.findings import findings
from memstrata.viewer.look.units import bytes_text
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

WIDTH, ROWS = 64, 512
ONE = WIDTH * ROWS * 4


class Block(nn.Module):
    def __init__(self, normed):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH) if normed else nn.Identity()
        self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """`how` is what the step does wrong."""

    def __init__(self, how="", blocks=4):
        super().__init__()
        self.how = how
        self.layers = nn.ModuleList(Block(how != "norm between") for _ in range(blocks))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(blocks))
        self.head = nn.Linear(WIDTH, 4096 if how == "large head" else 4, bias=False)
        self.seen = []

    def block(self, number, x):
        y = self.layers[number](x)
        if self.how == "hook keeps all":
            self.seen.append(y * y)
        elif self.how == "hook keeps last":
            self.seen = [y * y]
            self.seen.append(self.seen[0].exp())
        return y

    def forward(self, x):
        if self.how == "one checkpoint":
            return self.head(checkpoint(self.body, x, use_reentrant=False))
        return self.head(self.body(x))

    def body(self, x):
        for number in range(len(self.layers)):
            if self.how == "norm between":
                x = self.norms[number](x)
            if self.how in ("plain", "large head", "one checkpoint"):
                x = self.block(number, x)
            elif self.how == "view":
                x = self.block(number, x)
                x = x + _narrow(x)
            else:
                x = checkpoint(self.block, number, x, use_reentrant=False)
        return x


def _narrow(x):
    """Squares one column of a large tensor: the column is a view, and all of it stays."""
    return torch.cat([x] * 8, 1)[:, :1].square()


def recorded(path, model, step, optimizer=None):
    from memstrata.capture import Recorder

    with Recorder(path, model=model, optimizer=optimizer):
        held = step()
    del held
    return Run(open_file(str(path)), name=path.name)


@pytest.fixture
def run_step(tmp_path):
    def run(how, step=None, warm=True, optimizer=None):
        torch.manual_seed(0)
        model = Net(how)
        rows = torch.randn(ROWS, WIDTH)
        do = step or (lambda model, rows: model(rows).square().mean().backward())
        if warm:
            do(model, rows)
            model.seen = []
            model.zero_grad(set_to_none=True)
        made = optimizer(model) if optimizer else None
        arguments = (model, rows) if made is None else (model, rows, made)
        return recorded(tmp_path / "step.mstrata", model, lambda: do(*arguments), made)

    return run


def found(run, code):
    """The finding with this code; its query selects what it says."""
    by_code = {f.code: f for f in findings(run)}
    finding = by_code.get(code)
    if finding is not None:
        assert finding.bytes > 0 and finding.text.endswith(".") and finding.suggestion.endswith(".")
        assert len(finding.query.select(run))
        assert finding.query.rows is None or set(finding.query.select(run)) <= set(finding.query.rows)
    return finding


def test_a_plain_step_has_no_findings(run_step):
    assert findings(run_step("plain")) == ()
    assert findings(run_step("each")) == ()


def test_logits_that_dominate(run_step):
    finding = found(run_step("large head"), "logits_dominate")
    assert finding.bytes >= 2 * ROWS * 4096 * 4  # logits and their gradient or square
    assert found(run_step("plain"), "logits_dominate") is None


def test_a_hidden_state_kept_beside_the_boundaries(run_step):
    finding = found(run_step("norm between"), "boundary_kept_twice")
    assert finding.bytes == 3 * ONE  # each norm but the first keeps its input; it was made between boundaries
    assert found(run_step("each"), "boundary_kept_twice") is None


def test_a_segment_that_is_never_freed(run_step):
    run = run_step("hook keeps all")
    finding = found(run, "segment_never_freed")
    assert finding.bytes >= 4 * ONE and finding.bytes % ONE == 0
    assert found(run_step("each"), "segment_never_freed") is None


def test_two_segments_alive_at_once(run_step):
    finding = found(run_step("hook keeps last"), "two_segments_alive")
    assert finding.bytes >= ONE
    assert found(run_step("each"), "two_segments_alive") is None


def test_a_view_that_keeps_a_large_storage(run_step):
    finding = found(run_step("view"), "view_keeps_storage")
    assert finding.bytes == 4 * (8 * ONE - ROWS * 4)
    assert found(run_step("plain"), "view_keeps_storage") is None


def test_the_autocast_cache(run_step):
    def step(model, rows, cache=True):
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=cache):
            loss = model(rows).float().square().mean()
            loss.backward()

    finding = found(run_step("each", step), "autocast_cache")
    assert finding.bytes >= 8 * WIDTH * WIDTH * 2
    assert found(run_step("each", lambda m, r: step(m, r, cache=False)), "autocast_cache") is None


def test_gradients_alive_in_forward(tmp_path, run_step):
    assert found(run_step("large head"), "gradients_in_forward") is None
    model, rows = Net("plain"), torch.randn(16, WIDTH)
    model(rows).sum().backward()
    run = recorded(tmp_path / "s.mstrata", model, lambda: model(rows).sum().backward())
    used = sum(p.numel() * 4 for p in model.parameters() if p.grad is not None)
    assert found(run, "gradients_in_forward").bytes == used


def test_optimizer_state_made_at_the_peak(run_step):
    def step(model, rows, optimizer):
        model(rows[:4]).square().mean().backward()
        optimizer.step()

    def adam(model):
        return torch.optim.AdamW(model.parameters())

    def warm(model):
        optimizer = adam(model)
        model(torch.randn(4, WIDTH)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return optimizer

    finding = found(run_step("plain", step, warm=False, optimizer=adam), "optimizer_state_at_peak")
    weights = sum(p.numel() * 4 for p in Net("plain").parameters())
    assert 0 < finding.bytes <= 2.1 * weights
    assert found(run_step("plain", step, warm=False, optimizer=warm), "optimizer_state_at_peak") is None


def test_a_peak_in_the_optimizer_step_is_not_laid_to_logits(run_step):
    """Adam needs the root of each second moment, and with one parameter at a time the quotient by a number as well."""

    def with_state(**options):
        def made(model):
            optimizer = torch.optim.AdamW(model.parameters(), **options)
            model(torch.randn(4, WIDTH)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            return optimizer

        return made

    def step(model, rows, optimizer):
        model(rows[:4]).square().mean().backward()
        optimizer.step()

    def of(**options):
        run = run_step("plain", step, warm=False, optimizer=with_state(**options))
        assert found(run, "logits_dominate") is None
        return found(run, "optimizer_temporaries")

    weight, bias = WIDTH * WIDTH * 4, WIDTH * 4
    all_trained = 4 * (2 * weight + 4 * bias) + 4 * bias  # eight Linears with their norms, and the head
    one, every = of(foreach=False), of(foreach=True)
    assert 2 * weight <= one.bytes < 2 * weight + 2 * bias and "foreach" not in one.suggestion
    assert all_trained <= every.bytes < all_trained + bias and "foreach=False" in every.suggestion
    assert of(fused=True) is None


def test_saved_and_never_used(run_step):
    def step(model, rows, unused=True):
        other = model.layers[0](rows).exp() if unused else None
        model(rows).square().mean().backward()
        return other

    finding = found(run_step("plain", step), "saved_never_used")
    assert finding.bytes == 4 * ONE + 2 * ROWS * 4  # what three ops start from, exp's output, the norm's statistics
    assert found(run_step("plain", lambda m, r: step(m, r, unused=False)), "saved_never_used") is None


def test_a_checkpoint_that_does_not_help(run_step):
    finding = found(run_step("one checkpoint"), "checkpoints_do_not_help")
    assert "one segment holds nearly all" in finding.text
    assert found(run_step("each"), "checkpoints_do_not_help") is None


def test_alive_after_the_step(run_step):
    def step(model, rows, keep=True):
        loss = model(rows).square().mean()
        loss.backward(retain_graph=keep)
        return loss if keep else loss.detach()

    finding = found(run_step("plain", step), "alive_after_step")
    assert finding.bytes >= 8 * ONE
    assert found(run_step("plain", lambda m, r: step(m, r, keep=False)), "alive_after_step") is None


def test_a_step_cut_off_in_its_backward_kept_nothing_for_nothing(run_of, tmp_path):
    of_whole_steps = {"saved_never_used", "alive_after_step", "segment_never_freed"}
    assert not of_whole_steps & {finding.code for finding in findings(run_of("raised.mstrata"))}
    run = cut_off_in_the_second_step(tmp_path / "a.mstrata", unused=False)
    assert not of_whole_steps & {finding.code for finding in findings(run)}
    finding = found(cut_off_in_the_second_step(tmp_path / "b.mstrata", unused=True), "saved_never_used")
    assert finding.bytes == 4 * ONE + 2 * ROWS * 4  # of the first step, which came to its end


def cut_off_in_the_second_step(path, unused):
    """Backward raises half way through the second step; the first one keeps something for nothing if `unused`."""
    from memstrata.capture import record_step

    model, rows, number = Net("plain"), torch.randn(ROWS, WIDTH), iter(range(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @record_step(path, model=model, optimizer=optimizer, steps=2, warmup=0)
    def step():
        second = next(number)
        other = model.layers[0](rows).exp() if unused and not second else None
        x = model.layers[1](model.layers[0](rows))
        if second:
            x.register_hook(boom)
        model.head(model.layers[3](model.layers[2](x))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        del other

    def boom(gradient):
        raise ValueError("half way")

    step()
    with pytest.raises(ValueError, match="half way"):
        step()
    return Run(open_file(str(path)), name=path.name)


def fragmented(cached):
    """One allocation of 100 bytes inside an allocator segment of 100 + cached."""
    events = [(Action.segment_alloc, 0, 4096, 100 + cached, 10, -1, 0, 1, -1, -1),
              (Action.alloc, 0, 4096, 100, 20, -1, 0, 1, -1, -1)]  # fmt: skip
    blocks = [(0, 4096, 100, 100, BlockState.active_allocated, -1)]
    blocks += [(0, 4196, cached, cached, BlockState.inactive, -1)] if cached else []
    return Run(
        build(
            Meta(kind="snapshot", devices=(Device("cuda:0", 0),), has_reserved=True, has_time=True),
            StringTable(),
            events=schema.from_rows(schema.Events, events),
            allocator_segments=schema.from_rows(
                schema.AllocatorSegments, [(0, 4096, 100 + cached, 100, 100, 0, 0, 0, False, False, -1)]
            ),
            blocks=schema.from_rows(schema.Blocks, blocks),
        ),
        name="x",
    )


def test_fragmentation():
    assert found(fragmented(100), "fragmentation").bytes == 100
    assert found(fragmented(11), "fragmentation") is None


def test_fragmentation_of_real_trainings(snapshots):
    """GPUs that really trained: one had reserved 19.4 GiB for 13.4 in use, the other 11.7 for 11.6."""
    run = Run(open_file(snapshots / "torch23-train.pickle"), name="torch23-train.pickle")
    assert found(run, "fragmentation").bytes == 20_822_622_208 - 14_401_221_632
    tight = Run(open_file(snapshots / "torch211-train.pickle"), name="torch211-train.pickle")
    assert found(tight, "fragmentation") is None


def test_the_largest_comes_first(run_step):
    sizes = [f.bytes for f in findings(run_step("hook keeps all"))]
    assert sizes == sorted(sizes, reverse=True) and sizes


def test_a_query_names_rows_and_modules(run_of):
    run = run_of("before.mstrata")
    rows = AllocationQuery(rows=(3, 1)).select(run)
    assert sorted(rows.tolist()) == [1, 3]
    layer = int(run.layers.modules[0])
    modules = frozenset(np.flatnonzero(run.layers.layer_of_module == 0).tolist())
    inside = AllocationQuery(modules=modules).mask(run)
    assert layer in modules and inside.any()
    assert (inside == np.isin(run.attribution.module, list(modules))).all()
    assert dataclasses.replace(AllocationQuery(rows=(1,)), modules=modules).bytes(run) <= inside.sum() * 2**40


def test_what_could_not_be_had_is_found(snapshots):
    run = Run(open_file(snapshots / "torch28-oom-three-gpus-expandable.pickle"), name="oom.pickle").on(1)
    one = found(run, "out_of_memory")
    position = int(np.flatnonzero(run.events.action == Action.oom)[0]) + 1
    assert one.bytes == 5_308_694_528 and one.query == AllocationQuery(position=position)
    alive, reserved = int(run.curve[position]), int(run.reserved[position])
    assert f"{bytes_text(alive)} was alive then, {bytes_text(reserved - alive)} of the" in one.text
    assert found(run.on(0), "out_of_memory") is None
