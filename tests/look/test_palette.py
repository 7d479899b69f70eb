"""Colours stay apart for colour-blind readers: CIEDE2000 under the simulation of Machado, Oliveira, Fernandes 2009."""

import itertools
import math

import numpy as np
import pytest

from memstrata.capture.format.schema import Category, Fate, Phase
from memstrata.viewer.look import palette, words

SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
C = Category
NEIGHBOURS = [
    (C.parameter, C.buffer),
    (C.parameter, C.gradient),
    (C.parameter, C.optimizer_state),
    (C.parameter, C.activation),
    (C.buffer, C.gradient),
    (C.gradient, C.optimizer_state),
    (C.gradient, C.activation),
    (C.gradient, C.temporary),
    (C.optimizer_state, C.activation),
    (C.optimizer_state, C.input),
    (C.optimizer_state, C.temporary),
    (C.activation, C.rematerialized),
    (C.activation, C.input),
    (C.activation, C.temporary),
    (C.activation, C.unattributed),
    (C.activation, C.selective_cache),
    (C.rematerialized, C.selective_cache),
    (C.selective_cache, C.input),
    (C.selective_cache, C.temporary),
    (C.rematerialized, C.input),
    (C.rematerialized, C.temporary),
    (C.input, C.temporary),
    (C.workspace, C.temporary),
    (C.temporary, C.unattributed),
]


def lab(colour, sight):
    srgb = np.array(palette.channels(colour)) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(SIGHT[sight] @ linear, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def ciede2000(one, two):
    (l1, a1, b1), (l2, a2, b2) = one, two
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 1.5 - 0.5 * math.sqrt(mean**7 / (mean**7 + 25**7))
    c1, c2 = math.hypot(a1 * g, b1), math.hypot(a2 * g, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1 * g)) % 360, math.degrees(math.atan2(b2, a2 * g)) % 360
    dh = (h2 - h1 + 180) % 360 - 180
    hue = (h1 + dh / 2) % 360
    cm, lm = (c1 + c2) / 2, (l1 + l2) / 2
    t = 1 - 0.17 * _cos(hue - 30) + 0.24 * _cos(2 * hue) + 0.32 * _cos(3 * hue + 6) - 0.2 * _cos(4 * hue - 63)
    sl = 1 + 0.015 * (lm - 50) ** 2 / math.sqrt(20 + (lm - 50) ** 2)
    turn = -math.sin(math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2)))) * 2 * math.sqrt(cm**7 / (cm**7 + 25**7))
    light, chroma = (l2 - l1) / sl, (c2 - c1) / (1 + 0.045 * cm)
    tint = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(dh / 2)) / (1 + 0.015 * cm * t)
    return math.sqrt(light**2 + chroma**2 + tint**2 + turn * chroma * tint)


def _cos(degrees):
    return math.cos(math.radians(degrees))


def apart(one, two):
    return min(ciede2000(lab(one, sight), lab(two, sight)) for sight in SIGHT)


def test_the_distance_measure_matches_a_published_pair():
    assert ciede2000((50, 2.6772, -79.7751), (50, 0, -82.7485)) == pytest.approx(2.0425, abs=1e-4)
    assert ciede2000((50, 2.5, 0), (73, 25, -18)) == pytest.approx(27.1492, abs=1e-4)


@pytest.mark.parametrize("dark", [False, True])
def test_neighbours_in_a_stack_are_far_apart_for_every_sight(dark):
    near = {
        (a.label, b.label): round(distance, 1)
        for a, b in NEIGHBOURS
        if (distance := apart(palette.category_colour(a, dark), palette.category_colour(b, dark))) < 18
    }
    assert not near


@pytest.mark.parametrize("dark", [False, True])
def test_all_categories_are_told_apart(dark):
    pairs = itertools.combinations(Category, 2)
    assert min(apart(palette.category_colour(a, dark), palette.category_colour(b, dark)) for a, b in pairs) >= 9


@pytest.mark.parametrize("dark", [False, True])
def test_every_category_stands_out_from_the_background(dark):
    shown = [palette.category_colour(c, dark) for c in Category]
    assert min(apart(colour, palette.BACKGROUND[dark]) for colour in shown) >= 12


@pytest.mark.parametrize("dark", [False, True])
def test_ramp_rises_in_lightness(dark):
    colours = palette.ramp(64, dark)
    assert len(set(colours)) == 64
    lightness = [lab(colour, "normal")[0] for colour in colours]
    assert all(b > a - 0.3 for a, b in itertools.pairwise(lightness))
    assert min(apart(a, b) for a, b in itertools.pairwise(palette.ramp(4, dark))) > 12


def test_small_ramps_and_cycles():
    assert palette.ramp(0) == ()
    assert len(palette.ramp(1)) == 1
    assert len(palette.cycle(25)) == 25
    assert len(set(palette.cycle(10))) == 10


def test_recompute_is_hatched_and_kept_is_not():
    assert palette.hatch(Category.rematerialized) == palette.RECOMPUTE_HATCH
    assert palette.hatch(Category.activation) == ""


def test_every_word_has_a_colour_and_a_meaning():
    assert set(words.CATEGORY_MEANING) == set(Category)
    assert set(words.FATE_MEANING) == set(Fate)
    for dark in (False, True):
        assert all(palette.phase_colour(p, dark).startswith("#") for p in Phase)


def test_text_is_readable_on_its_fill():
    assert palette.text_on("#1b2a6b") == "#ffffff"
    assert palette.text_on("#eee87c") == "#000000"
    for dark in (False, True):
        fills = [palette.category_colour(category, dark) for category in Category]
        for fill in (*fills, *palette.ramp(64, dark), *(palette.phase_colour(phase, dark) for phase in Phase)):
            assert palette.contrast(fill, palette.text_on(fill)) >= 4.5, fill


def test_contrast_is_that_of_the_standard():
    assert palette.contrast("#000000", "#ffffff") == palette.contrast("#ffffff", "#000000") == 21
    assert palette.contrast("#7d8187", "#7d8187") == 1
    assert round(palette.contrast("#767676", "#ffffff"), 2) == 4.54


def test_words():
    assert words.category_text(Category.optimizer_state) == "optimizer state"
    assert words.category_of("optimizer state") is Category.optimizer_state
    assert words.phase_text(Phase.backward) == "backward"
    assert words.sentence_list(["a", "b", "c"]) == "a, b and c"
    assert words.sentence_list(["a"]) == "a"
