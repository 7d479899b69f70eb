"""`memstrata allocator`."""

import json

import pytest

from memstrata.viewer import cli


def run(capsys, *arguments):
    status = cli.main(["allocator", *arguments])
    return status, *capsys.readouterr()


@pytest.fixture
def before(samples):
    return str(samples / "before.mstrata")


def test_page_and_object(capsys, before):
    status, page, err = run(capsys, before)
    assert (status, err) == (0, "") and "Reserved memory" in page
    status, text, _ = run(capsys, before, "--json", "--conf", "expandable_segments:True", "--capacity", "80GiB")
    found = json.loads(text)
    assert status == 0 and found["capacity_bytes"] == 80 << 30 and found["conf"] == "expandable_segments:True"
    assert len(found["devices"]) == 1


def test_the_cache_is_emptied_where_asked(capsys, before):
    def device(*arguments):
        return json.loads(run(capsys, before, "--json", *arguments)[1])["devices"][0]

    plain, emptied = device(), device("--empty-cache-at", "2000")
    assert emptied["curve"]["reserved_replayed"][-1] < plain["curve"]["reserved_replayed"][-1]
    assert emptied["reserved_peak_bytes_replayed"] <= plain["reserved_peak_bytes_replayed"]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--conf", "max_split_size_mb:1"], "memstrata: max_split_size_mb: it must be at least 20, not 1\n"),
        (["--conf", "no_such:1"], "memstrata: no_such: the allocator has no such setting\n"),
        (["--capacity", "much"], "memstrata: 'much' is not a size such as 30GiB or 512MiB\n"),
        (["--empty-cache-at", "999999999"], "memstrata: there is no event 999999999: the events of cpu"),
    ],
)
def test_bad_input_is_one_sentence(capsys, before, arguments, sentence):
    status, out, err = run(capsys, before, *arguments)
    assert (status, out) == (2, "") and err.startswith(sentence) and err.count("\n") == 1
