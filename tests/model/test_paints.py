"""The paints of groups."""

from __future__ import annotations

import numpy as np
import pytest

from memstrata.viewer.model.grouping import ColourRule, Grouping
from memstrata.viewer.model.paints import group_paints


@pytest.mark.parametrize("rule", [ColourRule.RAMP, ColourRule.DISTINCT, ColourRule.PHASE])
def test_two_grey_groups_can_be_told_apart(rule) -> None:
    grouping = Grouping("x", "x", np.arange(4), ("none", "a", "b", "other"), rule, frozenset({0, 3}))
    paints = group_paints(grouping, dark=False)
    assert paints[0].fill == paints[3].fill and (paints[0].hatch, paints[3].hatch) == ("", "dots")
    assert len(set(paints)) == 4
