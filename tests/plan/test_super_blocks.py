"""Super-blocks along one layer list."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.capture.format.plan import every, layer_kinds, super_blocks

HYBRID = "LLLF"


def lengths(ranges):
    return [stop - start for start, stop in ranges]


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (HYBRID * 3, [4, 4, 4]),
        (HYBRID * 16, [4] * 16),
        ("A" + HYBRID * 3 + "Z", [1, 4, 4, 4, 1]),
        (HYBRID * 2 + "LLL", [4, 4, 3]),
        ("AB" + HYBRID * 2, [2, 4, 4]),
        ("U" * 12, [1] * 12),
        ("D" * 3 + "M" * 58, [1] * 61),
        ("ABCD", [1, 1, 1, 1]),
        ("ABAB", [2, 2]),
        ("AABAAB", [3, 3]),
        ("E" * 6, [1] * 6),
        ("A", [1]),
        ("", []),
    ],
)
def test_shortest_period_decides(kinds, expected):
    assert lengths(super_blocks(kinds)) == expected


def test_a_leading_layer_does_not_shift_the_repeats():
    assert super_blocks("L" + HYBRID * 3) == ((0, 1), (1, 5), (5, 9), (9, 13))


def test_encoder_and_decoder_lists_are_split_on_their_own():
    assert lengths(super_blocks("E" * 4)) == [1] * 4
    assert lengths(super_blocks("SC" * 3)) == [2, 2, 2]


@pytest.mark.parametrize(("layers", "length", "expected"), [(64, 4, [4] * 16), (10, 4, [4, 4, 2]), (3, 64, [3])])
def test_override_counts_layers(layers, length, expected):
    assert lengths(super_blocks("U" * layers, override=length)) == expected
    assert every(layers, length) == super_blocks("U" * layers, override=length)


@pytest.mark.parametrize("override", [0, -1])
def test_override_below_one_is_refused(override):
    with pytest.raises(ValueError, match="at least one layer"):
        super_blocks("UU", override=override)


@given(st.text("ABC", max_size=24), st.none() | st.integers(1, 5))
def test_ranges_cover_the_list_in_order(kinds, override):
    ranges = super_blocks(kinds, override)
    assert [i for start, stop in ranges for i in range(start, stop)] == list(range(len(kinds)))
    assert all(start < stop for start, stop in ranges)


@given(st.text("AB", min_size=1, max_size=5), st.integers(2, 6))
def test_a_repeated_block_is_never_longer_than_itself(block, repeats):
    ranges = super_blocks(block * repeats)
    assert len(set(lengths(ranges))) == 1
    assert lengths(ranges)[0] <= len(block)
    assert len({(block * repeats)[start:stop] for start, stop in ranges}) == 1


def test_kind_is_the_class_with_all_descendants():
    classes = ["Model", "Layer", "Linear", "Mixer", "Conv", "Layer", "Linear", "Mixer"]
    parents = [-1, 0, 1, 1, 3, 0, 5, 5]
    assert layer_kinds([1, 5], classes, parents) == ["Layer(Linear,Mixer(Conv))", "Layer(Linear,Mixer)"]
