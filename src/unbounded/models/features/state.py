"""What a feature model passes around: the state between rounds, and the message of a round to its shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.operations import Finite, Keys


class ColumnTable(NamedTuple):
    """Statistics of Z: of its columns, and of all of it.

    First the columns that all shards share (mobile, then held, then always-on ones), then each shard's private ones.
    """

    members: Array
    products: Array  # [K, K], or [K, 0] where the likelihood does not need it
    sums: Array
    owner: Array  # the only shard that uses a column, or -1 when several or none do
    rest: Array  # statistics that belong to no atom
    square: float  # sum of squares of the data
    entries: float  # log factors of the entries of Z


@dataclass(frozen=True)
class FeatureState:
    round: int
    hyper: FeatureHyper
    scales: Any
    table: ColumnTable
    n_shared: int  # always-on columns included, which come last
    n_private: Array  # [P]
    likelihood: FeatureBound

    @property
    def fixed(self) -> int:
        return self.likelihood.fixed

    def arrays(self) -> dict[str, Array]:
        numbers = {name: np.array(getattr(self, name)) for name in ("round", "n_shared", "hyper")}
        table = {name: np.asarray(value) for name, value in self.table._asdict().items()}
        return {**numbers, "scales": self.likelihood.pack(self.scales), "n_private": self.n_private, **table}

    @property
    def occupied(self) -> Array:
        """Atoms in use, without always-on columns."""
        live = self.table.members > 0
        live[self.n_shared - self.fixed : self.n_shared] = False
        return np.flatnonzero(live)

    @property
    def always(self) -> Array:
        return np.arange(self.n_shared - self.fixed, self.n_shared)

    def here(self, columns: Array, p: int) -> Array:
        """Where shard p's Z has these columns of the table; -1: nowhere."""
        first = self.n_shared + int(self.n_private[:p].sum())
        shared = columns < self.n_shared
        local = np.where(shared, columns, columns - first + self.n_shared)
        local[~shared & ((columns < first) | (columns >= first + self.n_private[p]))] = -1
        return local

    def sources(self, p: int) -> Array:
        """Column of shard p's Z that holds each occupied atom, -1 where it has none."""
        return self.here(self.occupied, p)


class FeatureRound(NamedTuple):
    """The finite part: what all shards need to know of a round."""

    round: int
    finite: Sequence[Finite]  # for shards that may move mobile columns, and for one that may move held ones as well
    laws: Sequence[Any]  # closed, open
    scales: Any
    loadings: Array  # of all shared columns
    hyper: FeatureHyper
    keys: Keys

    @property
    def n_shared(self) -> int:
        return len(self.loadings)


class FeaturePart(NamedTuple):
    """What one shard needs to know of a round besides."""

    sources: Array  # old column of each of the shard's columns, -1 where there is none
    lone: bool
    open: bool
    loadings: Array  # of the shard's private atoms


class FeatureTask(NamedTuple):
    """What one shard has to do in a round, as kernels take it."""

    round: FeatureRound
    part: FeaturePart

    @property
    def finite(self) -> Finite:
        return self.round.finite[self.part.lone]

    @property
    def law(self) -> Any:
        return self.round.laws[self.part.open]

    @property
    def n_private(self) -> int:
        return len(self.part.sources) - self.round.n_shared

    @property
    def loadings(self) -> Array:
        """Of all the shard's columns, where private ones have some."""
        return np.concatenate([self.round.loadings, self.part.loadings])


def all_shared(loadings: Array) -> FeaturePart:
    """The part of every shard when there are no private atoms and none may be born: old columns stay as they are."""
    return FeaturePart(np.arange(len(loadings)), False, False, loadings[:0])
