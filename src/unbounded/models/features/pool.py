"""Shards whose rows and 0/1 entries live on a GPU, all those of a worker in one pool (docs/gpu.md).

The host has the rows as well, and Z when it asks for it: an entry of row i is a bit of one integer.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import torch

from unbounded.arrays import Array
from unbounded.models.features.gpu import bits
from unbounded.models.features.state import FeatureShard
from unbounded.rows import row_blocks


class PooledShard(FeatureShard):
    """`fresh` says where Z is up to date: on the "host", the "device", or both."""

    def __init__(self, *arguments: Any):
        self.pool: DevicePool | None = None
        self.at = 0  # in the pool
        self.fresh, self.size = "host", 0
        super().__init__(*arguments)

    @property
    def Z(self) -> Array:
        """For those who may write: from here on the device's Z is out of date."""
        Z = self.current()
        self.fresh = "host"
        return Z

    @Z.setter
    def Z(self, Z: Array) -> None:
        self._Z, self.fresh, self.size = Z, "host", len(Z)

    def current(self) -> Array:
        """Z on the host, to be read."""
        if self.fresh == "device":
            assert self.pool is not None
            self._Z = unpacked(self.pool.on_host(self), self.size)
            self.fresh = "both"
        return self._Z

    def place(self) -> None:
        """Make sure that the device has the current Z."""
        if self.fresh == "host":
            assert self.pool is not None
            self.pool.bits_of(self).copy_(torch.from_numpy(packed(self._Z)))
            self.fresh = "both"

    def moved(self, size: int) -> None:
        """The device has changed Z, which has so many columns now."""
        self.fresh, self.size = "device", size

    def entries(self, sources: Array, chosen: Array) -> Array:
        if self.fresh != "device":
            return super().entries(sources, chosen)
        assert self.pool is not None
        found = (self.pool.on_host(self)[chosen] >> np.maximum(sources, 0)[:, None]) & (sources >= 0)[:, None]
        return found.astype(np.uint8)


def packed(Z: Array) -> Array:
    """Columns as bits of integers."""
    eights = np.zeros((8, Z.shape[1]), np.uint8)
    some = np.packbits(Z, axis=0, bitorder="little")
    eights[: len(some)] = some
    return np.ascontiguousarray(eights.T).view("<i8").ravel()


def unpacked(values: Array, size: int) -> Array:
    """[size, n]: bits as columns."""
    eights = np.ascontiguousarray(values.view(np.uint8).reshape(len(values), 8)[:, : -(-size // 8)].T)
    return np.unpackbits(eights, axis=0, count=size, bitorder="little")


class DevicePool:
    """The rows of some shards on the device, column by column, around the centre: in double precision, since what a
    round may compute in single precision is known in that round, and sums are of the rows as they are."""

    def __init__(self, shards: Sequence[PooledShard], device: Any):
        self.shards, self._turn = list(shards), Lock()
        self._landing: Any = None
        self._copy: Array | None = None  # of the bits, since they moved
        sizes = [len(shard.data) for shard in shards]
        self.edges = np.append(0, np.cumsum(sizes))
        n, width = int(self.edges[-1]), shards[0].data.shape[1]
        cells = torch.empty((width, n), dtype=torch.float64, device=device)
        empty = torch.zeros(n, dtype=torch.int64, device=device)
        self.units = torch.empty((len(shards), width), dtype=torch.float64, device=device)
        self.rows = bits.PoolRows(cells, empty, torch.zeros_like(empty), self._cut(bits.ROWS, device), n, width)
        for p, shard in enumerate(shards):
            self._fill(p, shard)
            shard.pool, shard.at, shard.fresh = self, p, "host"
        self.chunks, self.blocks = self._chunks(self._cut(bits.CHUNK, device)), self._chunks(self.rows.blocks)
        self.offsets = np.array([shard.first for shard in shards]) - self.edges[:-1]

    def _cut(self, most: int, device: Any) -> Any:
        """(shard, first row, end) of pieces of at most so many rows."""
        sizes = np.diff(self.edges)
        pieces = -(-sizes // most)
        shard = np.repeat(np.arange(len(sizes)), pieces)
        begin = self.edges[shard] + most * (np.arange(len(shard)) - np.repeat(np.cumsum(pieces) - pieces, pieces))
        end = np.minimum(begin + most, self.edges[shard + 1])
        return torch.from_numpy(np.column_stack([shard, begin, end]).astype(np.int64)).to(device)

    def _chunks(self, pieces: Any) -> bits.Chunks:
        p = torch.arange(len(self.shards) + 1, device=pieces.device)
        return bits.Chunks(pieces, torch.searchsorted(pieces[:, 0].contiguous(), p), len(self.shards))

    def _fill(self, p: int, shard: PooledShard) -> None:
        cells, begin = self.rows.cells, int(self.edges[p])
        centre = torch.from_numpy(shard.centre.astype(np.float64)).to(cells.device)
        for rows in row_blocks(shard.data):
            part = shard.data[rows]
            on_device = torch.from_numpy(part if part.flags.writeable else part.copy()).to(cells.device)
            cells[:, begin + rows.start : begin + rows.stop] = (on_device - centre).T
        own = cells[:, begin : int(self.edges[p + 1])]
        reach = own.abs().amax(1) if own.shape[1] else torch.zeros(len(own), device=cells.device)
        self.units[p] = 2.0 ** torch.ceil(torch.log2(torch.where(reach > 0.0, reach, 1024.0))) / 1024.0

    def bits_of(self, shard: PooledShard) -> Any:
        return self.rows.bits[int(self.edges[shard.at]) : int(self.edges[shard.at + 1])]

    def on_host(self, shard: PooledShard) -> Array:
        """The bits of a shard on the host: all shards' come at once, since they are all asked for together."""
        with self._turn:
            if self._copy is None:
                self._copy = self.rows.bits.cpu().numpy()
        return self._copy[int(self.edges[shard.at]) : int(self.edges[shard.at + 1])]

    def landed(self, values: Any) -> Array:
        """Doubles, copied to the host through pinned memory; the next call overwrites them."""
        if values.device.type == "cpu":
            return np.asarray(values.numpy())
        if self._landing is None or len(self._landing) < values.numel():
            self._landing = torch.empty(values.numel(), dtype=torch.float64, pin_memory=True)
        pinned = self._landing[: values.numel()].view(values.shape)
        pinned.copy_(values)
        return np.asarray(pinned.numpy())

    def swap(self) -> None:
        """What has moved becomes the current Z."""
        self._copy = None
        self.rows = self.rows._replace(bits=self.rows.moved, moved=self.rows.bits)
