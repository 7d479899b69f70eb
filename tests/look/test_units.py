"""Units: binary, three significant digits, the unit always written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.viewer.look import units

GIB = 1024**3


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (81_352_720_384, "75.8 GiB"),
        (6_750_000_000, "6.29 GiB"),
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1000 * 1024, "0.977 MiB"),
        (999 * 1024, "999 KiB"),
        (1024**2 - 1, "1.00 MiB"),
        (5 * GIB, "5.00 GiB"),
        (96 * GIB, "96.0 GiB"),
        (3072 * GIB, "3.00 TiB"),
        (int(9.996 * GIB), "10.0 GiB"),
        (int(99.96 * GIB), "100 GiB"),
        (-3 * GIB, "-3.00 GiB"),
    ],
)
def test_bytes(count, text):
    assert units.bytes_text(count) == text


@given(st.integers(1024, 2**62))
def test_bytes_have_three_significant_digits_and_a_binary_unit(count):
    number, unit = units.bytes_text(count).split()
    assert unit in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    assert len(number.replace(".", "").lstrip("0")) == 3
    scale = 1024 ** (1 + ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB").index(unit))
    assert float(number) * scale == pytest.approx(count, rel=0.006)


def test_difference_carries_its_sign():
    assert units.difference_text(2 * GIB) == "+2.00 GiB"
    assert units.difference_text(-2 * GIB) == "-2.00 GiB"
    assert units.difference_text(0) == "0 B"


def test_exact_bytes():
    assert units.exact_bytes_text(81_352_720_384) == "81,352,720,384 bytes"
    assert units.exact_bytes_text(1) == "1 byte"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.02, "1.02 s"), (0.0123, "12.3 ms"), (4.2e-6, "4.20 us"), (0, "0 s"), (3600.0, "3,600 s"), (-0.5, "-500 ms")],
)
def test_seconds(seconds, text):
    assert units.seconds_text(seconds) == text


def test_counts_and_shares():
    assert units.count_text(4986) == "4,986"
    assert units.count_text(4986, "event") == "4,986 events"
    assert units.count_text(1, "event") == "1 event"
    assert units.count_text(2, "recovery", "recoveries") == "2 recoveries"
    assert units.percent_text(0.992) == "99.2%"
    assert units.percent_text(0.99999) == ">99.9%"
    assert units.percent_text(1.0) == "100.0%"
    assert units.percent_text(0.0001) == "<0.1%"
    assert units.ratio_text(13.2414) == "13.2x"


@pytest.mark.parametrize(
    ("text", "count"),
    [("30GiB", 30 * GIB), ("1.5 MiB", 1572864), ("512", 512), ("0", 0), ("30GB", 30 * 10**9), ("24G", 24 * GIB),
     (".5gib", GIB // 2), ("7 B", 7), ("80,GiB", None), ("", None), ("GiB", None), ("-1GiB", None), ("9e99", None),
     ("99999999999EiB", None), ("1 GiB 2", None)],
)  # fmt: skip
def test_sizes_that_people_type(text, count):
    if count is None:
        with pytest.raises(ValueError, match=r"size such as|more than any"):
            units.parse_bytes(text)
    else:
        assert units.parse_bytes(text) == count
