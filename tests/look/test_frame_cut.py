"""How the name of a frame is cut."""

from memstrata.viewer.look.frame_cut import frame_cut


def cut(text: str, room: int) -> str:
    return frame_cut(text, room, len)


def test_first_the_file_then_the_function_is_cut_and_the_line_stays():
    name = "memory_leaks_demo.py:17 train_one_step"
    assert cut(name, 38) == name
    assert cut(name, 37) == "memory_leaks_de….py:17 train_one_step"
    assert cut(name, 26) == "memo….py:17 train_one_step"
    assert cut(name, 25) == "mem….py:17 train_one_step"
    assert cut(name, 24) == "mem….py:17 train_one_st…"
    assert cut(name, 12) == "mem….py:17…"
    assert cut(name, 5) == "mem….py:17…"  # the rest is for who paints it
    assert cut("memory_leaks_demo.py:17", 12) == "memor….py:17"
    assert cut("nn.py:6 softmax_of_all", 14) == "nn.py:6 softm…"


def test_no_cut_is_wider_than_it_may_be():
    name = "memory_leaks_demo.py:17 train_one_step"
    assert all(len(cut(name, room)) <= room for room in range(11, 40))
    assert all(len(cut("nn.py:6 softmax_of_all", room)) <= room for room in range(8, 23))


def test_other_texts_are_left_alone():
    for text in ("no stack (older than the recording)", "torch/nn/modules/module.py:1832", "AccumulateGrad (autograd)"):
        assert cut(text, 5) == text
