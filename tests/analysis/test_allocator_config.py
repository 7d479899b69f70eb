"""Settings text: what torch accepts is accepted and means the same; a bad text is one sentence naming its key."""

import numpy as np
import pytest

from memstrata.viewer.analysis.allocator.config import STOCK, Config, ConfigError, from_settings, parse
from memstrata.viewer.analysis.allocator.rules import rounded, segment_bytes

MIB = 1 << 20

ACCEPTED = [
    "", "expandable_segments:True", "expandable_segments: False , max_split_size_mb : 30", "max_split_size_mb:20",
    "backend:native", "roundup_power2_divisions:4", "roundup_power2_divisions:[64:8,256:4,1024:4,>:1]",
    "roundup_power2_divisions:[>:8]", "roundup_power2_divisions:[]", "garbage_collection_threshold:0.8",
    "large_segment_size_mb:40", "max_non_split_rounding_mb:60", "per_process_memory_fraction:0.5",
    "expandable_segments:True,", "release_lock_on_cudamalloc:True", "pinned_num_register_threads:8",
]  # fmt: skip
REFUSED = [
    ("expandable_segments:true", "expandable_segments"), ("expandable_segments:", "expandable_segments"),
    ("max_split_size_mb:10", "max_split_size_mb"), ("max_split_size_mb:abc", "max_split_size_mb"),
    ("roundup_power2_divisions:3", "roundup_power2_divisions"),
    ("roundup_power2_divisions:0", "roundup_power2_divisions"),
    ("roundup_power2_divisions:[64:8,256:3]", "roundup_power2_divisions"),
    ("roundup_power2_divisions:[63:8]", "roundup_power2_divisions"),
    ("roundup_power2_divisions:[64:8", "roundup_power2_divisions"),
    ("garbage_collection_threshold:0", "garbage_collection_threshold"),
    ("garbage_collection_threshold:1.0", "garbage_collection_threshold"),
    ("garbage_collection_threshold:x", "garbage_collection_threshold"),
    ("large_segment_size_mb:9", "large_segment_size_mb"),
    ("large_segment_size_mb:40,max_split_size_mb:30", "max_split_size_mb"),
]  # fmt: skip
OURS = [
    ("expandable_segments=True", "expandable_segments=True"), ("no_such_key:1", "no_such_key"),
    ("backend:cudaMallocAsync", "backend"), ("max_split_size_mb:30x", "max_split_size_mb"),
    ("max_split_size_mb:40 expandable_segments:True", "max_split_size_mb"),
]  # fmt: skip
"""What some torch lets pass, in silence or to another allocator."""


@pytest.fixture(scope="module")
def torch_reads():
    """torch's own parser, which works in a build without CUDA; it is left with the defaults."""
    torch = pytest.importorskip("torch")
    read = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if read is None:
        pytest.skip("this torch has no settings parser in the CPU build")
    yield read
    read("expandable_segments:False")


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_torch_accepts_is_accepted(text, torch_reads):
    torch_reads(text)
    parse(text)


@pytest.mark.parametrize("text, key", REFUSED)
def test_what_torch_refuses_is_refused_by_name(text, key, torch_reads):
    with pytest.raises((ValueError, RuntimeError)):
        torch_reads(text)
    with pytest.raises(ConfigError) as error:
        parse(text)
    assert str(error.value).startswith(f"{key}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text, key", OURS)
def test_what_cannot_be_meant_is_refused(text, key):
    with pytest.raises(ConfigError, match=f"^{key}"):
        parse(text)


def test_values():
    config = parse("expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.8")
    assert config == Config(True, 128 * MIB, garbage_collection_threshold=0.8)
    assert config.features == ("expandable_segments", "max_split_size_mb", "garbage_collection_threshold")
    assert parse(config.text) == config
    assert parse("") == STOCK and STOCK.text == ""


def test_divisions_fill_as_torch_documents():
    divisions = parse("roundup_power2_divisions:[64:8,256:4,1024:2,>:1]").roundup_power2_divisions
    # below the first size its number, between sizes none, `>` from the last size on
    assert divisions == (8,) * 7 + (0, 4, 0) + (1,) * 6
    assert parse(f"roundup_power2_divisions:[{','.join(f'{1 << i}:{n}' for i, n in enumerate(divisions))}]") == parse(
        "roundup_power2_divisions:[64:8,256:4,1024:2,>:1]"
    )


def test_rounding():
    sizes = np.array([1, 512, 513, 1 << 20, (1 << 20) + 1])
    assert rounded(sizes, STOCK).tolist() == [512, 512, 1024, 1 << 20, (1 << 20) + 512]
    four = parse("roundup_power2_divisions:4")
    # 5000 lies between 4096 and 8192 in steps of 1024; 2048 and below are rounded to 512 B as ever
    assert rounded(np.array([5000, 4096, 2048, 1025, 1200]), four).tolist() == [5120, 4096, 2048, 1536, 1536]
    big = np.array([(1 << 40) - 1, (1 << 40) + 1, (1 << 49) - 1])
    assert rounded(big, four).tolist() == [1 << 40, (1 << 40) + (1 << 38), 1 << 49]


def test_segments():
    sizes = [512, MIB, MIB + 512, 10 * MIB - 512, 10 * MIB, 10 * MIB + 512]
    assert [segment_bytes(n, STOCK) // MIB for n in sizes] == [2, 2, 20, 20, 10, 12]
    assert segment_bytes(2 * MIB, parse("large_segment_size_mb:64")) == 64 * MIB


def test_settings_of_a_snapshot():
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1, "expandable_segments": True,
        "garbage_collection_threshold": 0.0, "roundup_power2_divisions": {"1": 0, "2": 4, "4": "x"},
    }  # fmt: skip
    config = from_settings(settings)
    assert config.expandable_segments and config.max_split_bytes is None
    assert config.roundup_power2_divisions[:3] == (0, 4, 0)
    assert from_settings({}) == STOCK
    assert from_settings({"PYTORCH_CUDA_ALLOC_CONF": "???", "max_split_size": 10**30}) == STOCK
