"""Shards whose rows and 0/1 entries are resident on a GPU, with those of the worker's other shards (docs/gpu.md).

The host has the rows as well, and gets Z when it asks for it. On the device, the entries of a row are the bits of one
integer.
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


class ResidentShard(FeatureShard):
    """`fresh` says where Z is up to date: on the "host", the "device", or both."""

    def __init__(self, *arguments: Any):
        self.memory: DeviceMemory | None = None
        self.position = 0  # among the shards of the memory
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
            assert self.memory is not None
            self._Z = unpacked(self.memory.on_host(self), self.size)
            self.fresh = "both"
        return self._Z

    def upload(self) -> None:
        """Make sure that the device has the current Z."""
        if self.fresh == "host":
            assert self.memory is not None
            self.memory.bits_of(self).copy_(torch.from_numpy(packed(self._Z)))
            self.fresh = "both"

    def written(self, size: int) -> None:
        """The device has changed Z, which has `size` columns now."""
        self.fresh, self.size = "device", size

    def entries(self, sources: Array, chosen: Array) -> Array:
        if self.fresh != "device":
            return super().entries(sources, chosen)
        assert self.memory is not None
        found = (self.memory.on_host(self)[chosen] >> np.maximum(sources, 0)[:, None]) & (sources >= 0)[:, None]
        return found.astype(np.uint8)


def packed(Z: Array) -> Array:
    """[n]: the columns of Z as bits of integers."""
    eights = np.zeros((8, Z.shape[1]), np.uint8)
    some = np.packbits(Z, axis=0, bitorder="little")
    eights[: len(some)] = some
    return np.ascontiguousarray(eights.T).view("<i8").ravel()


def unpacked(values: Array, size: int) -> Array:
    """[size, n]: the bits of integers as columns."""
    eights = np.ascontiguousarray(values.view(np.uint8).reshape(len(values), 8)[:, : -(-size // 8)].T)
    return np.unpackbits(eights, axis=0, count=size, bitorder="little")


class DeviceMemory:
    """The rows of all of a worker's shards on the device, centred, one column after another.

    They are in double precision: whether a round may compute in single precision is only known in that round, and sums
    are always those of the rows as they are.
    """

    def __init__(self, shards: Sequence[ResidentShard], device: Any):
        self.shards, self._lock = list(shards), Lock()
        self._pinned: Any = None
        self._copy: Array | None = None  # of the current bits, on the host
        sizes = [len(shard.data) for shard in shards]
        self.edges = np.append(0, np.cumsum(sizes))
        n, width = int(self.edges[-1]), shards[0].data.shape[1]
        cells = torch.empty((width, n), dtype=torch.float64, device=device)
        empty = torch.zeros(n, dtype=torch.int64, device=device)
        self.units = torch.empty((len(shards), width), dtype=torch.float64, device=device)
        self.rows = bits.PackedRows(cells, empty, torch.zeros_like(empty), self._pieces(bits.ROWS, device), n, width)
        for position, shard in enumerate(shards):
            self._fill(position, shard)
            shard.memory, shard.position, shard.fresh = self, position, "host"
        self.chunks, self.blocks = self._chunks(self._pieces(bits.CHUNK, device)), self._chunks(self.rows.blocks)
        self.offsets = np.array([shard.first for shard in shards]) - self.edges[:-1]

    def _pieces(self, most: int, device: Any) -> Any:
        """(shard, first row, end) of pieces of at most this many rows."""
        sizes = np.diff(self.edges)
        pieces = -(-sizes // most)
        shard = np.repeat(np.arange(len(sizes)), pieces)
        begin = self.edges[shard] + most * (np.arange(len(shard)) - np.repeat(np.cumsum(pieces) - pieces, pieces))
        end = np.minimum(begin + most, self.edges[shard + 1])
        return torch.from_numpy(np.column_stack([shard, begin, end]).astype(np.int64)).to(device)

    def _chunks(self, pieces: Any) -> bits.Chunks:
        p = torch.arange(len(self.shards) + 1, device=pieces.device)
        return bits.Chunks(pieces, torch.searchsorted(pieces[:, 0].contiguous(), p), len(self.shards))

    def _fill(self, position: int, shard: ResidentShard) -> None:
        """Copy the rows of a shard, and choose units in which its values are at most 1024."""
        cells, begin = self.rows.cells, int(self.edges[position])
        centre = torch.from_numpy(shard.centre.astype(np.float64)).to(cells.device)
        for rows in row_blocks(shard.data):
            part = shard.data[rows]
            on_device = torch.from_numpy(part if part.flags.writeable else part.copy()).to(cells.device)
            cells[:, begin + rows.start : begin + rows.stop] = (on_device - centre).T
        own = cells[:, begin : int(self.edges[position + 1])]
        largest = own.abs().amax(1) if own.shape[1] else torch.zeros(len(own), device=cells.device)
        self.units[position] = 2.0 ** torch.ceil(torch.log2(torch.where(largest > 0.0, largest, 1024.0))) / 1024.0

    def bits_of(self, shard: ResidentShard) -> Any:
        """Z of a shard on the device."""
        return self.rows.bits[self._slice(shard)]

    def on_host(self, shard: ResidentShard) -> Array:
        """Z of a shard as bits on the host. All shards are copied at once: whoever asks for one asks for all."""
        with self._lock:
            if self._copy is None:
                self._copy = self.rows.bits.cpu().numpy()
        return self._copy[self._slice(shard)]

    def _slice(self, shard: ResidentShard) -> slice:
        return slice(int(self.edges[shard.position]), int(self.edges[shard.position + 1]))

    def to_host(self, values: Any) -> Array:
        """Copy float64 values to the host via a pinned buffer that is reused."""
        if values.device.type == "cpu":
            return np.asarray(values.numpy())
        if self._pinned is None or len(self._pinned) < values.numel():
            self._pinned = torch.empty(values.numel(), dtype=torch.float64, pin_memory=True)
        pinned = self._pinned[: values.numel()].view(values.shape)
        pinned.copy_(values)
        return np.asarray(pinned.numpy())

    def swap(self) -> None:
        """The next Z becomes the current one."""
        self._copy = None
        self.rows = self.rows._replace(bits=self.rows.next_bits, next_bits=self.rows.bits)
