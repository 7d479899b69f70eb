"""How much of each cell of a picture is covered, and in which colours, by rectangles too small to be painted."""

from __future__ import annotations

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
        self._upright = np.zeros((4, self.width * (self.height + 1)))
        """Column by column what each cell has more than the one above: coverage, then red, green and blue by coverage.
        """
        self._lying = np.zeros((4, self.height * (self.width + 1)))
        """Row by row what each cell has more than the one to its left."""

    def add(self, index: AddressIndex, places: I64, weight: float) -> None:
        """Rectangles of the index, each `weight` times."""
        per_x = self.width / (self.frame.x1 - self.frame.x0)
        per_y = self.height / (self.frame.y1 - self.frame.y0)
        x0, x1 = ((edge[places] - self.frame.x0) * per_x for edge in (index.x0, index.x1))
        y0, y1 = ((self.frame.y1 - edge[places]) * per_y for edge in (index.y1, index.y0))
        seen = (x1 >= 0) & (x0 <= self.width) & (y1 >= 0) & (y0 <= self.height)
        x0, x1 = np.clip(x0[seen], 0, self.width), np.clip(x1[seen], 0, self.width)
        y0, y1 = np.clip(y0[seen], 0, self.height), np.clip(y1[seen], 0, self.height)
        kinds, upright = self.colours.kind[index.row[places[seen]]], (y1 - y0) > (x1 - x0)
        along, across = (self.height, self.width), (self.width, self.height)
        self._spread(self._upright, along, kinds[upright], y0[upright], y1[upright], x0[upright], x1[upright], weight)
        lying: B1 = ~upright
        self._spread(self._lying, across, kinds[lying], x0[lying], x1[lying], y0[lying], y1[lying], weight)

    def _spread(
        self, sums: F64, shape: tuple[int, int], kinds: NDArray[np.int16], begin: F64, end: F64, low: F64, high: F64,
        weight: float,
    ) -> None:  # fmt: skip
        """Adds the share of a cell's breadth to all cells from begin to end."""
        length, breadth = shape
        first = np.minimum(begin.astype(np.int64), length - 1)
        last = np.clip(np.ceil(end).astype(np.int64), first + 1, length)
        share = (high - low) * (end - begin) / (last - first) * weight
        line = np.minimum(low.astype(np.int64), breadth - 1)
        begins = line * (length + 1)
        begins, ends = begins + first, begins + last
        for part, values in zip(sums, self._parts):
            weights = share * values[kinds]
            np.add.at(part, begins, weights)
            np.subtract.at(part, ends, weights)

    def coverage(self) -> F64:
        """Coverage, then red, green and blue by coverage; shape [4, height, width]."""
        upright, lying = (np.cumsum(part, axis=2)[:, :, :-1] for part in (
            self._upright.reshape(4, self.width, self.height + 1), self._lying.reshape(4, self.height, self.width + 1)
        ))  # fmt: skip
        return upright.transpose(0, 2, 1) + lying

    def pixels(self) -> U32:
        """The mean colour of what lies in each cell, the fuller the stronger."""
        cover, *colours = self.coverage()
        some = cover > 1e-9
        alpha = np.where(some, np.clip(_LEAST + (1 - _LEAST) * cover, 0, 1), 0.0)
        scale = np.divide(alpha, cover, out=np.zeros_like(cover), where=some)
        red, green, blue = (np.clip(part * scale, 0, alpha * 255).astype(np.uint32) for part in colours)
        pixels = ((alpha * 255).astype(np.uint32) << 24) | (red << 16) | (green << 8) | blue
        return pixels
