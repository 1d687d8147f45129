"""A shard of a feature model, and the recipe that makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.models.features.likelihood import FeatureBound
from unbounded.rows import boundaries, rows_of


class FeatureShard:
    """Rows first .. first + n of the data, and their part of Z, a column of which is a row of `Z`."""

    def __init__(self, index: int, first: int, data: Array, dtype: Any, centre: Array, fill: Array):
        self.index, self.first = index, first
        self.holes = np.argwhere(np.isnan(data))
        if len(self.holes):
            data = data.copy()
            data[tuple(self.holes.T)] = fill[self.holes[:, 1]]
        self.data, self.centre = data, centre
        self.Z = np.zeros((0, len(data)), dtype)
        self.square = self._square()

    @property
    def read_only(self) -> Array:
        """The data as compiled code takes them: always read-only, so that it is compiled once."""
        view = self.data.view()
        view.flags.writeable = False
        return view

    def _square(self) -> float:
        return float(sum(np.sum((self.data[s : s + 4096] - self.centre) ** 2) for s in range(0, len(self.data), 4096)))

    def changed(self) -> None:
        self.square = self._square()

    def put(self, Z: Array) -> None:
        self.Z = Z.astype(self.Z.dtype)
        self.changed()

    def columns(self, sources: Array, size: int | None = None) -> Array:
        """[size, n]: these columns of Z, and zeros where the source is -1 or there is none."""
        Z = np.zeros((len(sources) if size is None else size, self.Z.shape[1]), self.Z.dtype)
        for column, source in enumerate(sources):
            if source >= 0:
                Z[column] = self.Z[source]
        return Z

    def arrays(self) -> dict[str, Array]:
        return {"Z": self.Z, "holes": self.data[tuple(self.holes.T)] if len(self.holes) else np.empty(0)}

    def restore(self, arrays: Arrays) -> None:
        if arrays["Z"].shape[1] != len(self.data):
            raise ValueError("another number of rows")
        self.Z = arrays["Z"].astype(self.Z.dtype)
        if len(self.holes):
            self.data[tuple(self.holes.T)] = arrays["holes"]
            self.changed()


@dataclass(frozen=True)
class FeatureShards:
    """The recipe: rows cut into P contiguous shards; binary: entries of Z are 0 or 1."""

    X: Any
    likelihood: FeatureBound
    n_shards: int
    binary: bool = False

    @property
    def edges(self) -> Array:
        return boundaries(self.X.shape[0], self.n_shards)

    def __call__(self, p: int) -> FeatureShard:
        start, stop = self.edges[p : p + 2].tolist()
        columns = self.likelihood.columns
        fill = np.rint(columns.mean) if self.likelihood.counts else columns.mean
        kind = np.uint8 if self.binary else np.int32
        return FeatureShard(p, start, rows_of(self.X, start, stop), kind, self.likelihood.centre, fill)
