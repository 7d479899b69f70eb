"""The rules one by one, on sequences small enough to do by hand. Sizes in MiB, addresses relative to the first."""

import pytest

from memstrata.capture.format.schema import Action
from memstrata.viewer.analysis.allocator.config import parse
from memstrata.viewer.analysis.allocator.memory import FIRST_ADDRESS
from memstrata.viewer.analysis.allocator.recorded import recorded
from memstrata.viewer.analysis.allocator.replay import replay
from memstrata.viewer.analysis.allocator.sequence import Op, sequence
from memstrata.viewer.analysis.allocator.what_if import what_if

from .allocator_traces import GIB, MIB, Script, traced


def placed(done, number):
    return (int(done.outcome.address[number]) - FIRST_ADDRESS) / MIB


def moves(done):
    return [(move.action.name, move.bytes // MIB) for move in done.outcome.moves]


def test_small_requests_share_two_mebibytes():
    script = Script()
    a, b = script.alloc(100), script.alloc(513)
    done = replay(script.sequence())
    assert moves(done) == [("segment_alloc", 2)]
    assert (placed(done, a), placed(done, b)) == (0, 512 / MIB)
    assert done.outcome.held.tolist() == [512, 1024]
    assert done.allocated.tolist() == [0, 512, 1536]
    assert done.reserved.tolist() == [0, 2 * MIB, 2 * MIB]


def test_the_best_fit_is_the_smallest_then_the_lowest_block():
    script = Script()
    numbers = [script.alloc(n * MIB) for n in (30, 12, 14, 12)]
    script.free(*numbers)
    again = script.alloc(11.5 * MIB)
    done = replay(script.sequence())
    assert placed(done, again) == placed(done, numbers[1])  # of two ranges of 12 MiB the lower one
    assert done.outcome.held[again] == 12 * MIB  # 0.5 MiB is too little to split off


def test_a_large_block_is_split_if_more_than_one_mebibyte_remains():
    script = Script()
    first = script.alloc(20 * MIB)
    script.free(first)
    exact = script.alloc(19 * MIB)  # 1 MiB remains: not more than 1 MiB
    script.free(exact)
    split = script.alloc(19 * MIB - 512)
    rest = script.alloc(MIB + 512)
    done = replay(script.sequence())
    assert done.outcome.held[[exact, split, rest]].tolist() == [20 * MIB, 19 * MIB - 512, MIB + 512]
    assert placed(done, rest) == 19 - 512 / MIB
    assert moves(done) == [("segment_alloc", 20)]


def test_neighbours_grow_together_and_the_cache_is_emptied():
    script = Script()
    a, b, c = (script.alloc(4 * MIB) for _ in range(3))
    script.free(a, c).empty_cache()
    script.free(b)
    whole = script.alloc(20 * MIB)
    script.free(whole).empty_cache()
    done = replay(script.sequence())
    assert placed(done, whole) == 0
    assert moves(done) == [("segment_alloc", 20), ("segment_free", 20)]


def test_a_stream_and_a_private_pool_keep_their_memory():
    script = Script()
    script.free(script.alloc(20 * MIB, stream=0))
    script.alloc(20 * MIB, stream=5)
    script.free(script.alloc(20 * MIB, pool=1))
    script.alloc(20 * MIB)
    done = replay(script.sequence())
    assert moves(done) == [("segment_alloc", 20)] * 3
    assert placed(done, 3) == placed(done, 0)


def test_failed_malloc_empties_the_cache_and_tries_again():
    script = Script()
    small, large = script.alloc(100), script.alloc(40 * MIB)
    script.free(large)
    script.alloc(60 * MIB)
    done = replay(script.sequence(), capacity=64 * MIB)
    assert moves(done) == [("segment_alloc", 2), ("segment_alloc", 40), ("segment_free", 40), ("segment_alloc", 60)]
    assert done.oom is None and done.peak_reserved_bytes == 62 * MIB
    assert small == 0
    tight = replay(script.sequence(), capacity=61 * MIB)
    assert tight.oom == 3 and tight.outcome.stopped_at == 3
    assert tight.reserved[-1] == 2 * MIB


def test_expandable_segments_leave_no_gap():
    script = Script()
    a, b = script.alloc(30 * MIB), script.alloc(30 * MIB)
    script.free(a, b)
    whole = script.alloc(60 * MIB)
    stock, grown = replay(script.sequence()), replay(script.sequence(), parse("expandable_segments:True"))
    assert stock.peak_reserved_bytes == 120 * MIB
    assert moves(grown) == [("segment_map", 40), ("segment_map", 20)]
    assert placed(grown, whole) == 0
    script.free(whole).empty_cache()
    emptied = replay(script.sequence(), parse("expandable_segments:True"))
    assert moves(emptied)[2:] == [("segment_unmap", 60)] and emptied.reserved[-1] == 0


def test_oversize_blocks_are_neither_split_nor_given_to_small_requests():
    config = parse("max_split_size_mb:100")
    script = Script()
    script.free(script.alloc(200 * MIB))
    small, large, other = script.alloc(50 * MIB), script.alloc(190 * MIB), script.alloc(150 * MIB)
    done = replay(script.sequence(), config)
    assert moves(done) == [("segment_alloc", 200), ("segment_alloc", 50), ("segment_alloc", 150)]
    assert done.outcome.held[[small, large, other]].tolist() == [50 * MIB, 200 * MIB, 150 * MIB]


def test_expandable_segments_split_whatever_the_largest_size_for_splitting():
    config = parse("expandable_segments:True,max_split_size_mb:20")
    script = Script()
    number = script.alloc(30 * MIB)
    assert replay(script.sequence(), config).outcome.held[number] == 30 * MIB


def test_garbage_collection_frees_what_was_passed_over_longest():
    config = parse("garbage_collection_threshold:0.5")
    script = Script()
    old, young = script.alloc(30 * MIB), script.alloc(40 * MIB)
    script.free(old)
    script.free(script.alloc(32 * MIB))  # a range of its own, passed over less often
    script.free(young)
    script.alloc(60 * MIB)
    done = replay(script.sequence(), config, capacity=200 * MIB)
    # 102 MiB are reserved, 2 more than half: the block older than the average goes before cudaMalloc is asked
    assert moves(done)[3:] == [("segment_free", 30), ("segment_alloc", 60)]
    plain = replay(script.sequence(), capacity=200 * MIB)
    assert moves(plain)[3:] == [("segment_alloc", 60)]


def test_a_memory_fraction_limits_what_is_reserved():
    script = Script()
    script.alloc(30 * MIB)
    assert replay(script.sequence(), parse("per_process_memory_fraction:0.25"), 100 * MIB).oom == 0
    assert replay(script.sequence(), parse("per_process_memory_fraction:0.5"), 100 * MIB).oom is None


def test_what_if_of_a_trace():
    script = Script()
    a, b = script.alloc(300 * MIB), script.alloc(300 * MIB)
    script.free(a, b)
    script.alloc(600 * MIB)
    run = traced(script.sequence())
    known = recorded(run)
    last = run.n_events - 1
    assert int(run.reserved.max()) == 1200 * MIB
    assert what_if(known).replay.peak_reserved_bytes == 1200 * MIB
    assert what_if(known, parse("expandable_segments:True")).replay.peak_reserved_bytes == 600 * MIB
    assert what_if(known, empty_cache_at=(last,)).replay.peak_reserved_bytes == 600 * MIB
    roomy, tight = what_if(known, capacity=GIB), what_if(known, capacity=500 * MIB)
    assert roomy.replay.oom is None  # the cache is emptied on the way
    assert known.sequence.event[tight.replay.oom] == run.events.action.tolist().index(Action.alloc, 2)
    with pytest.raises(ValueError, match="there is no event 99"):
        what_if(known, empty_cache_at=(99,))


def test_sequences_are_checked():
    with pytest.raises(ValueError, match="number of its own"):
        sequence([Op.alloc, Op.alloc], [0, 0], [1, 1])
    with pytest.raises(ValueError, match="freed twice"):
        sequence([Op.alloc, Op.free, Op.free], [0, 0, 0], [1, 0, 0])
