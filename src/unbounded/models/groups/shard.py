"""Shards of grouped rows: whole groups, as equal in rows as can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.likelihoods.base import Bound
from unbounded.models.groups.franchise import labels_to_dishes
from unbounded.models.labelled.labels import LabelShard, relabel
from unbounded.rows import rows_of

KeptT = TypeVar("KeptT")


class GroupShard(LabelShard):
    """Whole groups: rows first .. first + n of the data, cut by `offsets`; seats and dishes in the franchise only."""

    def __init__(self, index: int, first: int, data: Any, offsets: Array, imputed: Array, form: str):
        super().__init__(index, first, data, int(offsets[-1]), imputed)
        self.offsets = offsets
        self.seated = form == "franchise"
        self.seats = np.zeros(len(self.labels) if self.seated else 0, np.int32)
        self.dishes = np.zeros_like(self.seats)
        self._kept: Any = None

    def kept(self, make: Callable[[Any], KeptT]) -> KeptT:
        """What a kernel keeps with the data, in whatever order suits it; made when it is first asked for."""
        if self._kept is None:
            self._kept = make(self.data)
        kept: KeptT = self._kept
        return kept

    def replace(self, data: Array) -> None:
        """Other rows, as many as before."""
        self.data[:] = data
        self._kept = None

    def recode(self, codes: Array) -> None:
        """Labels, and dishes with them, in another code."""
        relabel(self.labels, codes)
        if self.seated:
            labels_to_dishes(self.seats, self.labels, self.offsets, self.dishes)

    def seat(self, seats: Array) -> None:
        """Rows sit at these tables of their groups; labels say what is served there."""
        self.seats[:] = seats
        labels_to_dishes(self.seats, self.labels, self.offsets, self.dishes)

    def arrays(self) -> dict[str, Array]:
        return super().arrays() | ({"seats": self.seats, "dishes": self.dishes} if self.seated else {})

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        if self.seated:
            self.seats[:], self.dishes[:] = arrays["seats"], arrays["dishes"]


def cut(sizes: Array, n_shards: int) -> list[Array]:
    """Where the groups of each shard begin and end, among all rows: whole groups, as equal in rows as can be."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    wanted = np.arange(n_shards + 1) * offsets[-1] // n_shards
    right = np.searchsorted(offsets, wanted)
    left = np.maximum(right - 1, 0)
    edges = np.where(wanted - offsets[left] < offsets[right] - wanted, left, right)
    edges[0], edges[-1] = 0, len(sizes)
    return [offsets[start : stop + 1] for start, stop in pairwise(edges)]


@dataclass(frozen=True)
class GroupShards:
    """The recipe: rows, group after group of these sizes, cut into P shards of whole groups."""

    X: Any
    sizes: Array
    likelihood: Bound
    n_shards: int
    form: str = "direct"

    @cached_property
    def _groups(self) -> list[Array]:
        return cut(self.sizes, self.n_shards)

    @property
    def edges(self) -> Array:
        return np.array([0, *(own[-1] for own in self._groups)])

    def __call__(self, p: int) -> GroupShard:
        own = self._groups[p]
        data = rows_of(self.X, int(own[0]), int(own[-1]))
        shard = GroupShard(p, int(own[0]), data, own - own[0], self.likelihood.imputed, self.form)
        shard.fill(self.likelihood.columns.mean)
        return shard
