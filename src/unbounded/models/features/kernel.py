"""The kernel of features on the CPU: memory for the compiled sweep, and what a shard reports.

Its layout is its own business: rows in lanes, as many as the cache holds, and free slots for new atoms, of which there
are more when they run out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Summary
from unbounded.models.features.laws import LARGEST
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.measure import FeatureMeasure
from unbounded.models.features.operations import Private, ShardRows, Sums, Work
from unbounded.models.features.shard import FeatureShard
from unbounded.models.features.state import FeatureTask
from unbounded.models.features.sweep import count, lanes_for, sweep, workspace
from unbounded.setup import Setup

FREE_SLOTS, MORE_SLOTS = 4, 16
_CHUNK = 4096

FeatureSetup = Setup[FeatureMeasure, FeatureBound, int]


class Prepared(NamedTuple):
    """A shard's private atoms, the statistics of the rows that are done, and scratch memory."""

    private: Private
    sums: Sums
    work: Work


@dataclass(frozen=True)
class CompiledFeatures:
    setup: FeatureSetup
    lanes: int | None = None  # rows per block; None: what the cache holds

    def prepare(self, shard: FeatureShard, part: FeatureTask) -> Prepared:
        """Arrange the shard's columns, redraw its missing values, and build the state of its private atoms."""
        arrange(self.setup.likelihood, shard, part, FREE_SLOTS if part.part.open else 0)
        return self.begin(shard, part)

    def begin(self, shard: FeatureShard, part: FeatureTask) -> Prepared:
        """Before the first row, with columns as they are."""
        n, d = shard.data.shape
        lanes = self.lanes or lanes_for(n, d + 2 * len(shard.Z))
        return self._room(shard, part, lanes, part.n_private > 0)

    def _room(self, shard: FeatureShard, part: FeatureTask, lanes: int, used: bool) -> Prepared:
        """Memory for all columns of the shard's Z; used: there are private atoms among them."""
        likelihood, finite = self.setup.likelihood, part.finite
        columns = len(shard.Z)
        slots = columns - finite.shared
        members = np.zeros(slots, np.int64)
        tail = likelihood.tail(part.round.scales, slots, lanes, finite.family, part.part.loadings)
        if used:
            count(shard.Z, finite.shared, members)
            likelihood.fill(finite.family, tail, shard.read_only, shard.Z, finite.shared)
        largest = 1 if self.setup.measure.binary else LARGEST
        work = workspace(columns, slots, self.setup.sweeps, lanes, largest, likelihood.precision(finite.family))
        d = shard.data.shape[1]
        sums = Sums(np.zeros((columns, columns if likelihood.gram else 0)), np.zeros((columns, d)), np.zeros(d))
        return Prepared(Private(tail, members), sums, work)

    def sweep(self, shard: FeatureShard, part: FeatureTask, tail: Prepared) -> Prepared:
        """All L sweeps over the shard's rows; where slots run out, there are more from that block on."""
        row, n = 0, shard.Z.shape[1]
        while True:
            rows = ShardRows(shard.read_only, shard.Z, shard.first)
            row = sweep(part.law, part.finite, tail.private, rows, row, part.round.keys, tail.work, tail.sums)
            if row == n:
                return tail
            if self.setup.likelihood.keeps_loadings:
                part = part._replace(part=part.part._replace(loadings=tail.private.tail.loadings))
            more = np.zeros((len(tail.private.members) + MORE_SLOTS, n), shard.Z.dtype)
            shard.Z = np.concatenate([shard.Z, more])
            done = tail.sums
            tail = self._room(shard, part, tail.work.lanes.size, True)
            for new, old in zip(tail.sums, done, strict=True):
                new[tuple(slice(0, size) for size in old.shape)] = old

    def statistics(self, shard: FeatureShard, part: FeatureTask, tail: Prepared) -> Summary:
        """What the shard reports of its Z, from which free slots are gone."""
        n_shared, members, sums = part.round.n_shared, tail.private.members, tail.sums
        if not members.all():
            kept: Any = slice(0, n_shared)
            if members.any():
                kept = np.concatenate([np.arange(n_shared), n_shared + np.flatnonzero(members)])
            shard.Z = shard.Z[kept]
            products = sums.products[kept]
            sums = Sums(products[:, kept] if self.setup.likelihood.gram else products, sums.sums[kept], sums.rest)
        return summary(self.setup, shard, shard.Z, n_shared, sums)

    def predictive(self, atoms: FeatureTask, X: FeatureShard) -> Array:
        """[n, K]: entries of new rows after sweeps over these atoms, all of them mobile, from those that X has."""
        self.sweep(X, atoms, self.prepare(X, atoms))
        return X.Z[: len(atoms.finite.mobile.order)].T.copy()

    def of_candidate(self, shard: FeatureShard, Z: Array) -> Summary:
        return candidate_summary(self.setup, shard, Z)


def arrange(likelihood: FeatureBound, shard: FeatureShard, part: FeatureTask, free: int) -> None:
    """The columns of Z for this round, with free slots, and missing values drawn anew given them."""
    shard.Z = shard.columns(part.part.sources, len(part.part.sources) + free)
    if len(shard.holes):
        loadings = part.loadings
        columns = shard.Z[: len(loadings)]
        likelihood.impute(
            shard.data, shard.holes, columns, loadings, part.round.scales, part.round.keys.impute, shard.first
        )
        shard.changed()


def summary(setup: FeatureSetup, shard: FeatureShard, Z: Array, n_shared: int, sums: Sums) -> Summary:
    """What a shard reports of a Z with these statistics."""
    measure, gram, products = setup.measure, setup.likelihood.gram, sums.products
    members = np.zeros(len(Z), np.int64)
    count(Z, 0, members)
    centred = sums.sums - members[:, None] * shard.centre
    there = (members[:n_shared] > 0).astype(np.int64)
    s, own = slice(0, n_shared), slice(n_shared, len(Z))
    entries = 0.0 if measure.binary else measure.log_entries(Z)
    shared = {
        "members": members[s], "products": products[s, s] if gram else products[s], "sums": centred[s],
        "rest": sums.rest, "square": np.array(shard.square), "entries": np.array(entries),
        "shards": there, "owner": there * shard.index,
    }  # fmt: skip
    private = {
        "members": members[own], "cross": products[s, own] if gram else products[s],
        "products": products[own, own] if gram else products[own], "sums": centred[own],
    }  # fmt: skip
    return Summary(shared, private)


def candidate_summary(setup: FeatureSetup, shard: FeatureShard, Z: Array) -> Summary:
    """What a shard would report of another Z, all columns shared, where loadings are integrated out."""
    products, sums = np.zeros((len(Z), len(Z))), np.zeros((len(Z), shard.data.shape[1]))
    for start in range(0, len(shard.data), _CHUNK):
        part = Z[:, start : start + _CHUNK].astype(float)
        products += part @ part.T
        sums += part @ shard.data[start : start + _CHUNK]
    return summary(setup, shard, Z, len(Z), Sums(products, sums, np.zeros(shard.data.shape[1])))
