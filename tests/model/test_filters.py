"""The words of the filter box against real recordings and snapshots."""

import numpy as np
import pytest

from memstrata.capture.format.schema import Category, Phase
from memstrata.viewer.model.filters import matching, words_of
from memstrata.viewer.model.query import AllocationQuery
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

MIB = 1024**2


@pytest.fixture(scope="module")
def run(samples):
    return Run(open_file(str(samples / "after.mstrata")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" a  b ", ["a", "b"]),
        ('"a b" c', ["a b", "c"]),
        ("layer:3 >1MiB", ["layer:3", ">1MiB"]),
        ("#x", ["#x"]),
    ],
)
def test_words(text, words):
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("> 1MiB", ">1MiB"),
        (">1 MiB", ">1MiB"),
        ("mlp >= 1.5  MiB -x", "mlp >=1.5MiB -x"),
        ("-< 4 kib", "-<4kib"),
        (">16 mlp", ">16 mlp"),
        ("= 512", "=512"),
        ("a MiB", "a MiB"),
    ],
)
def test_a_size_may_be_written_with_blanks(typed, meant):
    assert words_of(typed) == meant.split(" ")


def test_a_size_with_blanks_matches_what_it_says(run):
    assert (matching(run, "> 1 MiB") == matching(run, ">1MiB")).all() and matching(run, "> 1 MiB").any()


def test_a_size_that_is_not_there_is_asked_for(run):
    with pytest.raises(ValueError, match="> takes a size after it, such as >16MiB"):
        matching(run, ">")


def test_an_open_quote_is_said():
    with pytest.raises(ValueError, match="a quote is left open"):
        words_of('"a')


def test_nothing_typed_matches_everything(run):
    assert matching(run, "  ").all()


@pytest.mark.parametrize(
    ("word", "compare"),
    [
        (">1MiB", lambda b: b > MIB),
        (">=1MiB", lambda b: b >= MIB),
        ("<4KiB", lambda b: b < 4096),
        ("=512", lambda b: b == 512),
    ],
)
def test_sizes(run, word, compare):
    assert np.array_equal(matching(run, word), compare(run.allocations.bytes))


def test_a_category_a_phase_and_a_layer(run):
    attribution = run.attribution
    assert np.array_equal(matching(run, "category:rematerialized"), attribution.category == Category.rematerialized)
    born = (attribution.phase == Phase.backward) & ~run.allocations.before
    assert np.array_equal(matching(run, "phase:backward"), born)
    assert np.array_equal(matching(run, "layer:1"), attribution.layer == 1)  # and not 10, 11
    assert np.array_equal(matching(run, "LAYERS.3"), matching(run, "layers.3"))


def test_words_narrow_and_a_minus_excludes(run):
    one, two = matching(run, "category:activation"), matching(run, "layer:0")
    assert np.array_equal(matching(run, "category:activation layer:0"), one & two)
    assert np.array_equal(matching(run, "category:activation -layer:0"), one & ~two)
    assert (one & two).any() and (one & ~two).any()


def test_a_frame_of_the_stack_by_function_and_by_file_and_line(run):
    recording = run.recording
    stack = int(run.allocations.stack[run.allocations.stack >= 0][0])
    function, file, line = recording.stack_frames(stack)[-1]
    for text, part in ((f'"stack:{function}"', function), (f'"{file}:{line}"', f"{file}:{line}")):
        expected = [part.lower() in frames_of(recording, s) for s in run.allocations.stack.tolist()]
        assert any(expected) and not all(expected)
        assert matching(run, text)[np.array(expected)].all()


def frames_of(recording, stack):
    """All frames of a stack as one text."""
    return "\n".join(f"{file}:{line} {name}" for name, file, line in recording.stack_frames(stack)).lower()


def test_an_operator_and_a_name(run):
    strings, saved = run.recording.strings, run.recording.saved_tensors
    found = matching(run, "op:silu")
    ops = [strings[int(saved.op[row])] for row in run.attribution.saved[found].tolist() if row >= 0]
    assert any("Silu" in op for op in ops)
    named = matching(run, "name:exp_avg_sq")
    assert named.any() and (run.attribution.category[named] == Category.optimizer_state).all()


def test_a_query_carries_a_filter_and_a_range(run):
    position = run.peak_position
    query = AllocationQuery(position=position, filter="category:activation >1MiB")
    rows = query.select(run)
    assert len(rows) and (run.allocations.bytes[rows] > MIB).all()
    part = AllocationQuery(alive_in=(position, position), filter="category:activation >1MiB")
    assert np.array_equal(part.select(run), rows)
    whole = AllocationQuery(alive_in=(0, run.n_events))
    assert whole.mask(run).all()


@pytest.mark.parametrize(("text", "sentence"), [(">lots", "is not a size"), ('x "', "a quote is left open")])
def test_nonsense_is_one_sentence(run, text, sentence):
    with pytest.raises(ValueError, match=sentence):
        matching(run, text)


def test_files_without_stacks_layers_or_events_filter_too(snapshot_file):
    run = Run(open_file(str(snapshot_file)))
    for text in ("forward", "layer:1", "op:mm", ">1KiB", "name:x", "module:m", "-stack:torch"):
        assert matching(run, text).shape == (len(run.allocations),)
