"""A shard of rows with one label each, and the codes of its labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine


class LabelShard:
    """Rows first .. first + n of the data, and their labels."""

    def __init__(self, index: int, first: int, data: Any, n_rows: int, imputed: Array):
        self.index, self.first = index, first
        self.labels = np.zeros(n_rows, np.int32)
        self.holes = np.empty((0, 2), np.int64)
        if len(imputed):
            rows, which = np.nonzero(np.isnan(data[:, imputed]))
            self.holes = np.stack([rows, imputed[which]], axis=1)
            data = data.copy() if len(self.holes) else data
        self.data = data

    def fill(self, column_means: Array) -> None:
        if len(self.holes):
            rows, columns = self.holes.T
            self.data[rows, columns] = column_means[columns]

    def put(self, labels: Array) -> None:
        self.labels[:] = labels

    def coded(self, codes: Array) -> Array:
        """Labels in another code."""
        return codes[self.labels]

    def completed(self) -> Any:
        """Its rows without holes, where there were some."""
        return self.data if len(self.holes) else None

    def arrays(self) -> dict[str, Array]:
        return {"labels": self.labels, "holes": self.data[tuple(self.holes.T)] if len(self.holes) else np.empty(0)}

    def restore(self, arrays: Arrays) -> None:
        self.labels[:] = arrays["labels"]
        if len(self.holes):
            self.data[tuple(self.holes.T)] = arrays["holes"]


def recode(state: Any, live: Array, code: Array, p: int) -> Array:
    """Old label code of shard p -> new one, given those of the live atoms (-1 for atoms without rows)."""
    new = np.full(len(state.table.counts), -1, np.int32)
    new[live] = code
    first = state.n_shared + int(state.n_private[:p].sum())
    return np.concatenate([new[: state.n_shared], new[first : first + int(state.n_private[p])]])


def all_labels(state: Any, engine: Engine) -> Array:
    """Labels 0 .. K-1 of all rows, in the order of the occupied atoms of the table."""
    position = np.full(len(state.table.counts), -1, np.int32)
    position[state.occupied] = np.arange(len(state.occupied))
    codes = [recode(state, np.arange(len(position)), position, p) for p in range(len(state.n_private))]
    return np.concatenate(engine.map(LabelShard.coded, codes))
