"""The data structures of a feature model: shards, the state between rounds, messages and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays, packed_entries, unpacked_entries
from unbounded.contracts import Summary
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.measure import FeatureHyper, FeatureMeasure
from unbounded.models.features.operations import Finite, Keys, Sums
from unbounded.rows import boundaries, rows_of
from unbounded.setup import Setup

FeatureSetup = Setup[FeatureMeasure, FeatureBound, int]

FEW = 64  # columns up to which the indices of a triangle are cached
PATTERN = 4  # columns up to which a fold has a coin for each pattern of use (fold.py); beyond: for none, some, all


class FeatureShard:
    """Rows first .. first + n of the data, and their part of Z, a column of which is a row of `Z`."""

    def __init__(self, index: int, first: int, data: Array, dtype: Any, centre: Array, fill: Array):
        self.index, self.first = index, first
        self.holes = np.argwhere(np.isnan(data)) if np.isnan(data.sum()) else np.empty((0, 2), np.int64)
        if len(self.holes):
            data = data.copy()
            data[tuple(self.holes.T)] = fill[self.holes[:, 1]]
        self.data, self.centre = data, centre
        self.Z = np.zeros((0, len(data)), dtype)
        self.square = self._square()

    def _square(self) -> float:
        return float(sum(np.sum((self.data[s : s + 4096] - self.centre) ** 2) for s in range(0, len(self.data), 4096)))

    def changed(self) -> None:
        self.square = self._square()

    def current(self) -> Array:
        """Z, to be read."""
        return self.Z

    def put(self, Z: Array) -> None:
        self.Z = Z.astype(self.current().dtype)
        self.changed()

    def columns(self, sources: Array, size: int | None = None) -> Array:
        """[size, n]: these columns of Z, and zeros where the source is -1 or there is none."""
        return chosen_columns(self.current(), sources, size)

    def entries(self, sources: Array, chosen: Array) -> Array:
        """The same for some of the rows."""
        return chosen_columns(self.current()[:, chosen], sources)

    def arrays(self) -> dict[str, Array]:
        filled = self.data[tuple(self.holes.T)] if len(self.holes) else np.empty(0)
        return {**packed_entries(self.current()), "holes": filled}

    def restore(self, arrays: Arrays) -> None:
        Z = unpacked_entries(arrays)
        if Z.shape[1] != len(self.data):
            raise ValueError("another number of rows")
        self.Z = Z.astype(self.current().dtype)
        if len(self.holes):
            self.data[tuple(self.holes.T)] = arrays["holes"]
            self.changed()


def chosen_columns(Z: Array, sources: Array, size: int | None = None) -> Array:
    """[size, n]: these columns of Z, and zeros where the source is -1 or there is none."""
    out = np.zeros((len(sources) if size is None else size, Z.shape[1]), Z.dtype)
    for column, source in enumerate(sources):
        if source >= 0:
            out[column] = Z[source]
    return out


@dataclass(frozen=True)
class FeatureRecipe:
    """How to make P shards of contiguous rows."""

    X: Any
    likelihood: FeatureBound
    n_shards: int
    binary: bool = False  # whether entries of Z are 0 or 1
    shard: type[FeatureShard] = FeatureShard

    @property
    def edges(self) -> Array:
        return boundaries(self.X.shape[0], self.n_shards)

    def __call__(self, p: int) -> FeatureShard:
        start, stop = self.edges[p : p + 2].tolist()
        columns = self.likelihood.columns
        fill = np.rint(columns.mean) if self.likelihood.counts else columns.mean
        kind = np.uint8 if self.binary else np.int32
        return self.shard(p, start, rows_of(self.X, start, stop), kind, self.likelihood.centre, fill)


class ColumnTable(NamedTuple):
    """Statistics of Z: of its columns, and of all of it.

    First the columns that all shards share (mobile, then frozen, then always-on ones), then each shard's private ones.
    """

    members: Array
    products: Array  # [K, K], or [K, 0] where the likelihood does not need it
    sums: Array
    owner: Array  # the only shard that uses a column, or -1 when several or none do
    rest: Array  # statistics of what no atom explains
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

    @cached_property
    def fixed(self) -> int:
        return self.likelihood.fixed

    def arrays(self) -> dict[str, Array]:
        numbers = {name: np.array(getattr(self, name)) for name in ("round", "n_shared", "hyper")}
        table = {name: np.asarray(value) for name, value in self.table._asdict().items()}
        return {**numbers, "scales": self.likelihood.pack(self.scales), "n_private": self.n_private, **table}

    @cached_property
    def occupied(self) -> Array:
        """Atoms in use, without always-on columns."""
        live = self.table.members > 0
        live[self.n_shared - self.fixed : self.n_shared] = False
        return np.flatnonzero(live)

    @cached_property
    def always(self) -> Array:
        return np.arange(self.n_shared - self.fixed, self.n_shared)

    def at(self, columns: Array, p: int) -> Array:
        """Where shard p has these columns of the table in its Z, -1: nowhere."""
        first = self.n_shared + int(self.n_private[:p].sum())
        shared = columns < self.n_shared
        local = np.where(shared, columns, columns - first + self.n_shared)
        local[~shared & ((columns < first) | (columns >= first + self.n_private[p]))] = -1
        return local

    def here(self, columns: Array) -> list[Array]:
        """The same for every shard. Shards without private columns share one array."""
        parts = [np.where(columns < self.n_shared, columns, -1)] * len(self.n_private)
        for p in np.flatnonzero(self.n_private).tolist():
            parts[p] = self.at(columns, p)
        return parts

    def sources(self) -> list[Array]:
        """By shard: the column of its Z that holds each occupied atom, -1 where it has none."""
        return self.here(self.occupied)


def upper_triangle(size: int) -> tuple[Array, Array]:
    """(rows, columns) of the upper triangle of Z'Z, row by row: the products that shards report."""
    return _small_triangle(size) if size <= FEW else np.triu_indices(size)


_small_triangle = lru_cache(FEW)(np.triu_indices)


class FeatureRound(NamedTuple):
    """What all shards need to know of a round: above all, the finite part."""

    round: int
    finite: Sequence[Finite]  # for shards that may move mobile columns, and for one that may move frozen ones as well
    laws: Sequence[Any]  # closed, open
    scales: Any
    loadings: Array  # of all shared columns
    hyper: FeatureHyper
    keys: Keys


class FeatureShare(NamedTuple):
    """What one shard needs to know of its own columns."""

    sources: Array  # old column of each of the shard's columns, -1 where there is none
    lone: bool  # whether the shard may move frozen columns, too
    open: bool  # whether it may create atoms
    loadings: Array  # of the shard's private atoms


class FeaturePart(NamedTuple):
    """What a kernel needs for the local step of a shard."""

    round: FeatureRound
    share: FeatureShare

    @property
    def finite(self) -> Finite:
        return self.round.finite[self.share.lone]

    @property
    def law(self) -> Any:
        return self.round.laws[self.share.open]

    def alike(self, other: FeaturePart) -> bool:
        """Whether two shards of a round have the same finite part and the same law."""
        return (self.share.lone, self.share.open) == (other.share.lone, other.share.open)

    @property
    def loadings(self) -> Array:
        """Loadings of all the shard's columns, private ones included where the likelihood keeps these."""
        return np.concatenate([self.round.loadings, self.share.loadings])


def all_shared(loadings: Array) -> FeatureShare:
    """The share of every shard when there are no private atoms and none may be born: columns stay as they are."""
    return FeatureShare(np.arange(len(loadings)), False, False, loadings[:0])


# ---- what shards report


def summary(setup: FeatureSetup, shard: FeatureShard, Z: Array, n_shared: int, sums: Sums) -> Summary:
    """What a shard reports of a Z with these statistics."""
    measure, gram, products = setup.measure, setup.likelihood.gram, sums.products
    members = np.diagonal(products).astype(np.int64) if gram and measure.binary else Z.sum(axis=1, dtype=np.int64)
    present = (members[:n_shared] > 0).astype(np.int64)
    s, own = slice(0, n_shared), slice(n_shared, len(Z))
    entries = 0.0 if measure.binary else measure.log_entries(Z)
    shared = {
        "members": members[s], "products": products[upper_triangle(n_shared)] if gram else products[s],
        "sums": sums.sums[s],
        "rest": sums.rest, "square": np.array(shard.square), "entries": np.array(entries),
        "shards": present, "owner": present * shard.index,
    }  # fmt: skip
    private = {
        "members": members[own], "cross": products[s, own] if gram else products[s],
        "products": products[own, own] if gram else products[own], "sums": sums.sums[own],
    }  # fmt: skip
    return Summary(shared, private)


def select_columns(sums: Sums, kept: Any) -> Sums:
    """The statistics of some columns."""
    products = sums.products[kept]
    products = products[:, kept] if products.shape[1] else products
    return Sums(products, sums.sums[kept], sums.rest)
