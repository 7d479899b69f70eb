"""Category and layer: each rule by itself, and which one wins."""

from __future__ import annotations

import pytest

from memstrata.capture.format.schema import NONE, Category, Fate, Phase, StorageKind
from memstrata.viewer.model import identities
from memstrata.viewer.model.run import Run

from .recordings import Step, two_layers


def category(run: Run, address: int) -> Category:
    """The category of the only allocation at this address."""
    return Category(int(run.attribution.category[row(run, address)]))


def row(run: Run, address: int) -> int:
    """The only allocation at this address."""
    found = [i for i, a in enumerate(run.allocations.address.tolist()) if a == address]
    assert len(found) == 1
    return found[0]


def layer(run: Run, address: int) -> int:
    """The layer of the only allocation at this address."""
    return int(run.attribution.layer[row(run, address)])


@pytest.mark.parametrize("kind", list(StorageKind))
def test_a_known_storage_is_what_it_is(kind: StorageKind) -> None:
    step = two_layers()
    step.alloc(512, 64, 250)
    step.known(kind, 512, 64, start=260, module="layers.1.up")
    run = step.run()
    assert category(run, 512).name == kind.name
    assert layer(run, 512) == 1
    assert run.attribution.known[row(run, 512)] == 0


def test_what_was_there_before_is_known_or_unattributed() -> None:
    step = two_layers()
    step.blocks = [(512, 64), (1024, 32), (2048, 16)]
    step.known(StorageKind.parameter, 512, 64, start=0, module="layers.0.up")
    step.saved(2048, 16, 250, module="layers.0.up")
    run = step.run()
    assert [category(run, a) for a in (512, 1024, 2048)] == [
        Category.parameter,
        Category.unattributed,
        Category.unattributed,
    ]
    assert run.categories_at(0) == {Category.parameter: 64, Category.unattributed: 48}
    assert run.coverage_at(0) == pytest.approx(64 / 112)
    assert (layer(run, 512), layer(run, 1024)) == (0, NONE)


def test_a_gradient_is_a_gradient_only_while_it_is_known() -> None:
    step = two_layers()
    step.known(StorageKind.gradient, 512, 64, start=0, end=250, module="layers.0.up")
    step.blocks = []
    step.alloc(512, 64, 260)
    step.free(512, 64, 900)
    run = step.run(device="cpu")
    assert run.attribution.category.tolist() == [Category.gradient, Category.temporary]


def test_a_parameter_that_autograd_saved_stays_a_parameter() -> None:
    step = two_layers()
    step.alloc(512, 64, 50)
    step.known(StorageKind.parameter, 512, 64, start=60, module="head")
    step.saved(512, 64, 250, module="layers.0.up", known=0)
    step.saved(512, 64, 260, module="layers.0.up")  # a pack that came before the storage was known
    run = step.run()
    assert category(run, 512) == Category.parameter
    assert layer(run, 512) == NONE


@pytest.mark.parametrize(
    ("fates", "expected"),
    [
        ([Fate.kept], Category.activation),
        ([Fate.rematerialized], Category.rematerialized),
        ([Fate.dropped], Category.temporary),
        ([Fate.offloaded], Category.temporary),
        ([Fate.rematerialized, Fate.kept], Category.activation),
        ([Fate.dropped, Fate.rematerialized], Category.rematerialized),
        ([Fate.dropped, Fate.kept, Fate.offloaded], Category.activation),
    ],
)
def test_the_strongest_fate_decides(fates: list[Fate], expected: Category) -> None:
    step = two_layers()
    step.alloc(512, 64, 250)
    for time, fate in enumerate(fates, 260):
        step.saved(512, 64, time, fate, "layers.0.up")
    step.free(512, 64, 7000)
    run = step.run()
    assert category(run, 512) == expected
    saved = int(run.attribution.saved[row(run, 512)])
    assert Fate(int(run.recording.saved_tensors.fate[saved])) == min(
        fates, key=(Fate.kept, Fate.rematerialized, Fate.offloaded, Fate.dropped).index
    )


def test_only_the_allocation_alive_at_the_pack_is_saved() -> None:
    step = two_layers()
    step.alloc(512, 64, 210)
    step.free(512, 64, 220)
    step.alloc(512, 64, 230)
    step.saved(512, 64, 240, module="layers.0.up")
    step.free(512, 64, 7000)
    assert step.run().attribution.category.tolist() == [Category.temporary, Category.activation]


def test_temporary_is_born_and_freed_inside_the_step() -> None:
    step = two_layers()
    step.alloc(512, 1, 5000)
    step.free(512, 1, 5500)
    step.alloc(1024, 2, 5600)
    step.free(1024, 2, 11_000)  # after the step
    step.alloc(2048, 4, 9000)
    step.alloc(4096, 8, 12_000)  # after the step
    step.free(4096, 8, 12_500)
    run = step.run()
    assert [category(run, a) for a in (512, 1024, 2048, 4096)] == [
        Category.temporary,
        Category.unattributed,
        Category.unattributed,
        Category.unattributed,
    ]


def test_without_spans_nothing_is_temporary() -> None:
    step = Step()
    step.alloc(512, 1, 5000)
    step.free(512, 1, 5500)
    assert category(step.run(kind="snapshot"), 512) == Category.unattributed


WORKSPACE = 8_519_680


def test_the_workspace_made_in_the_first_layer_is_not_its_activation() -> None:
    step = two_layers()
    step.alloc(512, WORKSPACE, 250)
    step.alloc(1 << 30, 64, 260)
    step.saved(1 << 30, 64, 270, module="layers.0.up")
    run = step.run()
    assert category(run, 512) == Category.workspace
    assert run.categories_at(2) == {Category.activation: 64, Category.workspace: WORKSPACE}


def test_as_many_bytes_on_the_cpu_or_freed_again_are_no_workspace() -> None:
    step = two_layers()
    step.alloc(512, WORKSPACE, 250)
    assert category(step.run(device="cpu"), 512) == Category.unattributed
    step.free(512, WORKSPACE, 6000)
    assert category(step.run(), 512) == Category.temporary


def test_a_workspace_is_known_by_its_stack_too() -> None:
    step = two_layers()
    stack = step.frames(("unwind", "??", 0), ("at::cuda::getNewWorkspace()", "??", 0), ("forward", "/p/model.py", 3))
    step.alloc(512, 33_554_432, 250, stack=stack)
    step.free(512, 33_554_432, 6000)
    assert category(step.run(), 512) == Category.workspace


def test_the_layer_is_that_of_the_packing_module() -> None:
    """Made by layer 0, saved by layer 1: it is layer 1 that needs it."""
    step = two_layers()
    step.alloc(512, 64, 900)
    step.saved(512, 64, 1200, module="layers.1.up")
    run = step.run()
    assert layer(run, 512) == 1
    assert run.attribution.module[row(run, 512)] == step.modules["layers.1.up"]
    assert run.attribution.phase[row(run, 512)] == Phase.forward


def test_a_checkpoints_input_is_booked_on_the_layer_it_leads_into() -> None:
    """The model around the segment keeps it; the segment's first layer packs it again and drops that."""
    step = two_layers()
    step.alloc(512, 64, 900)
    step.saved(512, 64, 1050, Fate.kept, "", storage=0)
    step.saved(512, 64, 1150, Fate.dropped, "layers.1", storage=0)
    run = step.run()
    assert (category(run, 512), layer(run, 512)) == (Category.activation, 1)
    assert run.saved_bytes_by_layer() == {0: 0, 1: 64, NONE: 0}
    assert run.saved_bytes_by_layer(Fate.dropped) == {0: 0, 1: 0, NONE: 0}


def test_otherwise_the_layer_is_the_one_running() -> None:
    step = two_layers()
    times = {512: 50, 1024: 150, 2048: 250, 4096: 1500, 8192: 2500, 16384: 5500, 32768: 6200, 65536: 6600, 131072: 9000}
    for address, time in times.items():
        step.alloc(address, 8, time)
    run = step.run()
    assert {a: layer(run, a) for a in times} == {
        512: NONE, 1024: 0, 2048: 0, 4096: 1, 8192: NONE, 16384: 1, 32768: 0, 65536: 0, 131072: NONE
    }  # fmt: skip
    phases = [Phase(int(run.attribution.phase[row(run, a)])).name for a in times]
    assert phases == ["forward"] * 5 + ["backward", "recompute", "backward", "optimizer"]
    assert identities.check(run) == []


def test_the_super_block_follows_the_layer() -> None:
    step = two_layers()
    step.alloc(512, 64, 1500)
    step.alloc(1024, 64, 2500)
    run = step.run(super_block_override=2)
    assert run.attribution.super_block.tolist() == [0, NONE]


def test_saved_storages_are_counted_once_and_known_ones_not_at_all() -> None:
    step = two_layers()
    step.known(StorageKind.parameter, 512, 100, start=0)
    step.saved(512, 100, 200, known=0, storage=0)
    step.saved(1024, 10, 210, Fate.kept, "layers.0.up", storage=1)
    step.saved(1024, 10, 220, Fate.kept, "layers.1.up", storage=1)
    step.saved(2048, 20, 230, Fate.dropped, "layers.1.up", storage=2)
    step.saved(2048, 20, 240, Fate.kept, "", storage=2)
    step.saved(4096, 40, 6200, Fate.rematerialized, "layers.1", storage=3)
    step.saved(0, 7, 6300, Fate.kept, "head", storage=NONE)
    run = step.run()
    assert run.saved_bytes_by_fate() == {
        Fate.kept: 30, Fate.dropped: 0, Fate.rematerialized: 40, Fate.offloaded: 0
    }  # fmt: skip
    assert run.saved_bytes_by_layer() == {0: 10, 1: 20, NONE: 0}
    assert run.saved_bytes_by_layer(Fate.rematerialized, Fate.kept) == {0: 10, 1: 60, NONE: 0}


def test_the_activation_curve_holds_what_checkpointing_moves() -> None:
    step = two_layers()
    step.alloc(512, 64, 250)
    step.saved(512, 64, 260, module="layers.0.up")
    step.alloc(1024, 32, 6200)
    step.saved(1024, 32, 6250, Fate.rematerialized, "layers.0")
    step.alloc(2048, 16, 6300)
    assert step.run().activation_curve.tolist() == [0, 64, 96, 96]


def test_what_the_selective_cache_holds_belongs_where_it_was_made() -> None:
    """Nobody holds it: its layer is that of the module that packed it, else of the one that ran at its birth."""
    step = two_layers()
    step.alloc(512, 64, 250)
    step.known(StorageKind.selective_cache, 512, 64, start=3500)
    step.alloc(1024, 32, 1500)
    step.known(StorageKind.selective_cache, 1024, 32, start=3500)
    step.saved(1024, 32, 1600, Fate.dropped, "layers.0.up", known=1)
    run = step.run()
    assert [category(run, a) for a in (512, 1024)] == [Category.selective_cache] * 2
    assert [layer(run, a) for a in (512, 1024)] == [0, 1]
    assert run.saved_bytes_by_fate()[Fate.dropped] == 0


def recomputed() -> Step:
    """A recomputation from 6100 to 6400 that makes 64 B again, and a temporary."""
    step = two_layers()
    step.alloc(512, 64, 6150)
    step.saved(512, 64, 6200, Fate.rematerialized, "layers.0", storage=0)
    step.alloc(1024, 8, 6210)
    step.free(1024, 8, 6220)
    return step


def test_hooks_and_allocator_agree_on_what_was_made_again() -> None:
    step = recomputed()
    step.free(512, 64, 7000)
    run = step.run()
    assert run.rematerialized is not None
    assert (run.rematerialized.hooks_bytes, run.rematerialized.allocator_bytes) == (64, 64)
    assert "rematerialized_disagrees" not in {p.code for p in run.problems}
    assert two_layers().run().rematerialized is None  # nothing was saved


def test_what_outlives_a_recomputation_unpacked_is_said() -> None:
    step = recomputed()
    step.alloc(2048, 16, 6300)
    step.free(2048, 16, 6500)
    step.free(512, 64, 7000)
    run = step.run()
    found = run.rematerialized
    assert found is not None and (found.unseen_bytes, found.unmeasured_bytes) == (16, 0)
    (problem,) = (p for p in run.problems if p.code == "rematerialized_disagrees")
    assert "64 B by autograd's packs, 80 B by the allocator (16 B outlived" in problem.text


def test_what_was_packed_but_not_allocated_in_a_recomputation_is_said() -> None:
    step = recomputed()
    step.free(512, 64, 6300)  # gone before the recomputation is over
    step.alloc(4096, 4, 3000)
    step.events.insert(0, step.events.pop())
    step.saved(4096, 4, 6250, Fate.rematerialized, "layers.0", storage=1)
    step.saved(8192, 2, 6260, Fate.rematerialized, "layers.0", storage=2)  # no event explains it
    found = step.run().rematerialized
    assert found is not None
    assert (found.hooks_bytes, found.allocator_bytes, found.unmeasured_bytes) == (70, 0, 70)


def test_known_storages_are_on_neither_side() -> None:
    step = recomputed()
    step.known(StorageKind.gradient, 512, 64, start=6160)
    step.known(StorageKind.autocast_cache, 2048, 16, start=6310)
    step.alloc(2048, 16, 6300)
    step.saved_rows[0] = (*step.saved_rows[0][:7], 0, *step.saved_rows[0][8:])  # packed, and known
    found = step.run().rematerialized
    assert found is not None and (found.hooks_bytes, found.allocator_bytes) == (0, 0)
