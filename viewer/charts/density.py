"""How much of each cell of a picture is covered, and in which colours, by rectangles too small to be painted."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import B1, F64, I64

from ..model.address_index import AddressIndex
from .allocation_colours import AllocationColours
from .frame import Frame
from .pixels import U32

_LEAST = 0.16
"""Opacity of a cell in which there is anything at all."""


class DensityGrid:
    """Cells of the frame. What is added is narrow or low: each rectangle is spread along its longer side only."""

    def __init__(self, frame: Frame, colours: AllocationColours, cell: int) -> None:
        rect = frame.rect
        self.frame, self.colours = frame, colours
        self.width, self.height = max(int(rect.width()) // cell, 1), max(int(rect.height()) // cell, 1)
        rgb = colours.rgb
        self._parts = [np.ones(len(rgb)), *(((rgb >> shift) & 255).astype(np.float64) for shift in (16, 8, 0))]
        self._upright = np.zeros((self.width, 4, self.height + 1))
        """Column by column what each cell has more than the one above: coverage, then red, green and blue by coverage.
        Rectangles come in order of x, and so what is next to each other is changed one after the other."""
        self._lying = np.zeros((self.width + 1, 4, self.height))
        """Column by column what each cell has more than the one to its left."""

    def add(self, index: AddressIndex, places: I64, weight: float) -> None:
        """Rectangles of the index, each `weight` times."""
        per_x = self.width / (self.frame.x1 - self.frame.x0)
        per_y = self.height / (self.frame.y1 - self.frame.y0)
        x0, x1 = ((edge[places] - self.frame.x0) * per_x for edge in (index.x0, index.x1))
        y0, y1 = ((self.frame.y1 - edge[places]) * per_y for edge in (index.y1, index.y0))
        for edge, most in ((x0, self.width), (x1, self.width), (y0, self.height), (y1, self.height)):
            np.clip(edge, 0, most, out=edge)  # of what is out of sight nothing is left
        kinds, upright = self.colours.kind[index.row[places]], (y1 - y0) > (x1 - x0)
        tall = kinds[upright], y0[upright], y1[upright], x0[upright], x1[upright]
        self._spread(self._upright.transpose(2, 1, 0), *tall, weight)
        lying: B1 = ~upright
        self._spread(self._lying, kinds[lying], x0[lying], x1[lying], y0[lying], y1[lying], weight)

    def _spread(
        self, sums: F64, kinds: NDArray[np.int16], begin: F64, end: F64, low: F64, high: F64, weight: float
    ) -> None:
        """Adds the share of a cell's breadth to all cells from begin to end; shape of the sums [length, 4, breadth]."""
        length, breadth = len(sums) - 1, sums.shape[2]
        first = np.minimum(begin.astype(np.int64), length - 1)
        last = np.clip(np.ceil(end).astype(np.int64), first + 1, length)
        share = (high - low) * (end - begin) / (last - first) * weight
        along, between, across = (stride // sums.itemsize for stride in sums.strides)
        line, flat = np.minimum(low.astype(np.int64), breadth - 1) * across, sums.ravel("K")
        begins, ends = line + first * along, line + last * along
        for part, values in enumerate(self._parts):
            weights = share * values[kinds] if part else share
            np.add.at(flat, begins + part * between, weights)
            np.subtract.at(flat, ends + part * between, weights)

    def coverage(self) -> F64:
        """Coverage, then red, green and blue by coverage; shape [4, height, width]."""
        upright, lying = _running(self._upright.transpose(2, 1, 0)), _running(self._lying)
        return upright[:-1].transpose(1, 0, 2) + lying[:-1].transpose(1, 2, 0)

    def pixels(self) -> U32:
        """The mean colour of what lies in each cell, the fuller the stronger."""
        cover, *colours = self.coverage()
        alpha = np.minimum(cover * (1 - _LEAST) + _LEAST, 1)
        alpha[cover <= 1e-9] = 0
        scale = np.divide(alpha, cover, out=np.zeros_like(cover), where=alpha > 0)
        alpha *= 255
        pixels = alpha.astype(np.uint32)
        for part in colours:
            part *= scale
            np.clip(part, 0, alpha, out=part)
            pixels <<= 8
            pixels |= part.astype(np.uint32)
        return pixels


def _running(changes: F64) -> F64:
    """Running sums along the first axis. A row at a time: numpy's cumsum takes each number by itself."""
    out = np.array(changes, order="C")
    rows = list(out.reshape(len(out), -1))
    for above, row in pairwise(rows):
        np.add(above, row, out=row)
    return out
