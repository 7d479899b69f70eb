"""Which pool each operation and each range belongs to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from memstrata.capture.format.schema import I64

from .rules import SMALL_SIZE
from .sequence import Sequence, State


class PoolKey(NamedTuple):
    """Free blocks are looked for among those of one private pool (0: the default), size class and stream."""

    private: int
    is_small: bool
    stream: int

    @property
    def order(self) -> tuple[int, bool, int]:
        """In which order the cache is emptied: large before small, streams as unsigned pointers."""
        return self.private, self.is_small, self.stream % (1 << 64)


class Pools:
    """Numbers the pools that occur. `sizes` are the rounded bytes of each operation, `of_op` its pool."""

    def __init__(self, sequence: Sequence, state: State, sizes: I64) -> None:
        self.keys: list[PoolKey] = []
        self.number: dict[PoolKey, int] = {}
        _, stream_of = np.unique(sequence.stream, return_inverse=True)
        code = (stream_of * (int(sequence.pool.max(initial=0)) + 1) + sequence.pool) * 2 + (sizes <= SMALL_SIZE)
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        distinct = zip(
            sequence.pool[first].tolist(), (sizes[first] <= SMALL_SIZE).tolist(), sequence.stream[first].tolist()
        )
        numbers = [self.add(PoolKey(*key)) for key in distinct]
        own = np.array(numbers, np.int64)[inverse] if numbers else np.empty(0, np.int64)
        ranges = zip(state.pool.tolist(), state.is_small.tolist(), state.stream.tolist())
        self.of_range = [self.add(PoolKey(*key)) for key in ranges]
        of_id = np.zeros(sequence.count + 1, np.int64)  # the last for -1: no allocation
        makes = (sequence.kind == 0) | (sequence.kind == 4)
        of_id[sequence.id[makes]] = own[makes]
        of_blocks = self._pool_at(state, state.block_address)
        of_id[state.block_id] = of_blocks
        self.of_block: list[int] = of_blocks.tolist()
        """The pool of each block of the state."""
        self.of_op: list[int] = np.where(sequence.kind == 1, of_id[sequence.id], own).tolist() if len(own) else []
        self.sizes: list[int] = sizes.tolist()

    def add(self, key: PoolKey) -> int:
        """The number of a pool, a new one if it was not seen before."""
        if key not in self.number:
            self.number[key] = len(self.keys)
            self.keys.append(key)
        return self.number[key]

    def _pool_at(self, state: State, addresses: I64) -> I64:
        """The pool of the range that holds each address; 0 where there is none."""
        if not len(state.address):
            return np.zeros(len(addresses), np.int64)
        order = np.argsort(state.address, kind="stable")
        at = order[np.maximum(np.searchsorted(state.address[order], addresses, "right") - 1, 0)]
        return np.array(self.of_range, np.int64)[at]
