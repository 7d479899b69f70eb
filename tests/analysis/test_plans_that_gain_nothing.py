"""Eight blocks of Linear-GELU-Linear-GELU: measured 152, 152, 152, 68 and 68 MiB for these plans."""

import pytest

from memstrata.capture.format.plan import Plan
from memstrata.viewer.analysis.prediction import predict
from memstrata.viewer.analysis.shape import shape_of_recording

MIB = 2**20
EVERY_LINEAR = Plan(tuple((f"{i}.{j}",) for i in range(8) for j in (0, 2)))
WHOLE_MODEL = Plan((("",),))
PER_BLOCK = Plan(tuple((f"{i}",) for i in range(8)))
ALL_BUT_THE_LAST = Plan(PER_BLOCK.segments[:-1])


@pytest.mark.parametrize("plan", [EVERY_LINEAR, WHOLE_MODEL], ids=["every Linear", "whole model"])
def test_no_gain(m8, plan):
    assert predict(shape_of_recording(m8), plan).saving_bytes <= 0


def test_per_block_gains_what_was_measured(m8):
    prediction = predict(shape_of_recording(m8), PER_BLOCK)
    assert (prediction.boundary_bytes, prediction.rematerialized_bytes) == (32 * MIB, 16 * MIB)
    # the running block's input is in both terms
    assert prediction.saving_bytes + prediction.counted_twice_bytes == 84 * MIB == (152 - 68) * MIB


def test_recomputing_the_last_block_buys_nothing(m8):
    prediction = predict(shape_of_recording(m8), ALL_BUT_THE_LAST)
    assert prediction.timeline_peak_bytes == 44 * MIB
    everything = predict(shape_of_recording(m8), PER_BLOCK)
    assert everything.timeline_peak_bytes - everything.counted_twice_bytes == 44 * MIB
