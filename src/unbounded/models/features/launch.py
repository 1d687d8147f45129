"""What jumps are made of: where they are, a pool of rows to ask first, and launches (docs/features.md, "Jumps").

A launch knows the loadings and weights of some columns, and all other columns, but not the entries of its own. It says
how probable these are: rows are independent, and log odds are linear in a row and in its other entries. The loadings of
the other columns are those that are expected beside the launch's own, found with a random pool of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from unbounded.arrays import Array
from unbounded.contracts import Engine, Summary
from unbounded.models.features.likelihood import FeatureStatistics, Loadings
from unbounded.models.features.model import Features
from unbounded.models.features.state import FeatureShard, FeatureState
from unbounded.randomness import uniforms
from unbounded.rows import boundaries

STEPS = 3  # in which the loadings of other columns learn what those of a launch take from them
SURE = 20.0  # nats
FEW = 10.0  # uses of a column in the pool that count as much as what all rows have on average
LARGEST = (0, 31, 9, 5, 3, 2, 2, 1, 1)  # entries that are considered, by the number of columns
FITTING, HOT = 14, 4.0  # steps of EM, and by how much the noise is larger at first
TRIES = 3  # of EM, from other directions
_CHUNK = 4096


@dataclass(frozen=True)
class Place:
    """Where a chain of jumps is: the statistics of occupied atoms and, after them, of always-on columns."""

    model: Features
    state: FeatureState
    statistics: FeatureStatistics
    entries: float  # log factors of the entries of Z

    @property
    def size(self) -> int:
        return len(self.statistics.members) - self.state.fixed

    def without(self, gone: Array) -> Array:
        """Columns that stay, always-on ones included."""
        return np.setdiff1d(np.arange(len(self.statistics.members)), gone)

    @cached_property
    def loadings(self) -> Loadings:
        """Their law given Z."""
        return self.model.likelihood.posterior(self.state.scales, self.statistics)

    @cached_property
    def log_target(self) -> float:
        """Log density with loadings and weights integrated out."""
        model, state = self.model, self.state
        prior = model.measure.log_prob(state.hyper, self.statistics.members[: self.size].astype(float), model.n_rows)
        return float(prior + self.entries + model.likelihood.log_joint(state.scales, self.statistics))


def place(model: Features, state: FeatureState) -> Place:
    return Place(model, state, model.everything(state), state.table.entries)


class Terms(NamedTuple):
    """Loadings and weights of some columns."""

    loadings: Array  # [k, D]
    weights: Array  # [k]


class Pool(NamedTuple):
    """Random rows at the driver, around the centre, and their columns of Z, always-on ones last."""

    rows: Array
    Z: Array
    chosen: Array  # their numbers
    share: float  # rows of the data for each of them

    def half(self, which: int) -> Pool:
        """Every other row: what is found with one half is judged by the other, unless they are all there are."""
        if self.share == 1.0:
            return self
        rows, chosen = self.rows[which::2], self.chosen[which::2]
        return Pool(rows, self.Z[:, which::2], chosen, self.share * len(self.rows) / len(rows))


class Guide(NamedTuple):
    """Around which loadings, and from which laws of weights, new columns are drawn."""

    loadings: Array  # [k, D]
    variances: Array  # [k]
    shapes: tuple[Array, Array]


class Odds(NamedTuple):
    """What a launch says of the entries of its columns in a row."""

    slopes: Array  # [k, D]
    offset: Array  # [k]
    pull: Array  # [kept columns, k]
    patterns: Array  # [J, k] entries
    cost: Array  # [J]


class Launches(NamedTuple):
    """Columns that go, launches of these and of what comes in their place, and the key of the latter's entries."""

    gone: Array
    old: Odds
    new: Odds
    key: Any


# ---- at the driver


def of_columns(statistics: FeatureStatistics, kept: Array) -> FeatureStatistics:
    """The statistics of some columns."""
    return statistics._replace(
        members=statistics.members[kept],
        products=statistics.products[np.ix_(kept, kept)],
        sums=statistics.sums[kept],
    )


def look(model: Features, state: FeatureState, engine: Engine, chosen: Array) -> Pool:
    """The chosen rows with their columns of Z."""
    edges = boundaries(model.n_rows, model.n_shards)
    home = np.searchsorted(edges, chosen, side="right") - 1
    own = [(chosen[home == p] - edges[p], state.sources(p)) for p in range(model.n_shards)]
    parts = engine.map(partial(_look_at, model), own)
    rows, Z = (np.concatenate(part, axis=axis) for part, axis in zip(zip(*parts, strict=True), (0, 1), strict=True))
    return Pool(rows - model.likelihood.centre, Z.astype(float), chosen, model.n_rows / len(chosen))


def promise(gain: float, doubt: float) -> float:
    """Log ratio of a first decision, by what the pool lets expect: the opposite for the way back.

    Never more than what settles it: a gain of a hundred thousand nats is known to a few percent only, and what the
    first decision counted too much, the second one takes back.
    """
    return math.copysign(min(max(abs(gain) - doubt, 0.0), SURE), gain)


def launch(model: Features, state: FeatureState, pool: Pool, kept: FeatureStatistics, own: Terms) -> tuple[Odds, float]:
    """What these loadings and weights say of entries, and the log likelihood of all rows that the pool lets expect."""
    likelihood, noise = model.likelihood, state.scales.noise
    patterns, log_prior = _patterns(model, state, own.weights)
    slopes = own.loadings / noise
    cost = log_prior - 0.5 * np.einsum("jk,kl,jl->j", patterns, slopes @ own.loadings.T, patterns)
    cross = np.outer(kept.members, np.exp(log_prior) @ patterns)
    for step in range(STEPS):
        others = likelihood.expected(state.scales, kept._replace(sums=kept.sums - cross @ own.loadings))
        odds = Odds(slopes, slopes @ likelihood.centre, others @ slopes.T, patterns, cost)
        rest = pool.rows - pool.Z.T @ others
        log_chances, log_total = _normalised(slopes @ rest.T, patterns, cost)
        if step < STEPS - 1:
            inside = np.exp(log_chances).T @ patterns
            cross = kept.members[:, None] * _beside(pool.Z, inside)
    return odds, pool.share * float(log_total.sum() - 0.5 * np.sum(rest**2) / noise)


def _beside(Z: Array, inside: Array) -> Array:
    """[columns, k]: entries that are expected in rows that use a column. The pool says little of those that few use."""
    middle = inside.mean(axis=0)
    return np.asarray(middle + Z @ (inside - middle) / (Z.sum(axis=1, keepdims=True) + FEW))


def _patterns(model: Features, state: FeatureState, weights: Array) -> tuple[Array, Array]:
    """Entries of a row that are considered, and their log probabilities a priori."""
    k = len(weights)
    law = model.measure.law(state.hyper, model.n_rows)
    entries = range(_base(model, k))
    patterns = np.indices((len(entries),) * k).reshape(k, len(entries) ** k).T
    log_prior = np.zeros(len(patterns))
    for j, weight in enumerate(weights):
        log_prior += np.array([law.log_entry(-1.0, float(weight), z) for z in entries])[patterns[:, j]]
    return patterns.astype(float), log_prior - np.logaddexp.reduce(log_prior)


def _base(model: Features, k: int) -> int:
    return 2 if model.measure.binary else LARGEST[k] + 1


def _normalised(linear: Array, patterns: Array, cost: Array) -> tuple[Array, Array]:
    """(log probabilities [patterns, rows], logs of what they were divided by); linear: [k, rows]."""
    logits = patterns @ linear + cost[:, None]
    highest = logits.max(axis=0)
    log_total = highest + np.log(np.exp(logits - highest).sum(axis=0))
    return logits - log_total, log_total


def fit(model: Features, state: FeatureState, pool: Pool, size: int, rng: np.random.Generator) -> Guide:
    """So many 0/1 columns that explain the pool beside those that it has, by EM; the best of some tries."""
    found = max((_Fit(state.scales, pool, size, rng) for _ in range(TRIES)), key=lambda one: one.score)
    m = len(pool.rows)
    amounts = np.clip(found.inside.sum(axis=0), 0.5, m - 0.5)
    variances = state.scales.noise / np.minimum(amounts, m - amounts)
    return Guide(found.loadings, variances, model.measure.weight_shapes(state.hyper, amounts, float(m)))


class _Fit:
    """EM for new columns, each 0 or 1, with the loadings of all: from random directions, with less and less noise."""

    def __init__(self, scales: Any, pool: Pool, size: int, rng: np.random.Generator):
        self.pool, self.size, self.scales = pool, size, scales
        kept = len(pool.Z)
        self.patterns = np.indices((2,) * size).reshape(size, 2**size).T.astype(float)
        self.inside = np.zeros((len(pool.rows), 0))
        rest = pool.rows - pool.Z.T @ self._regress(np.zeros((0, 0)))
        scatter = rest.T @ rest / len(rest)
        directions = rng.standard_normal((size, rest.shape[1])) @ scatter @ scatter
        scores = rest @ directions.T
        self.inside = expit(2.0 * scores / np.maximum(scores.std(axis=0), 1e-300))
        second = self.inside.T @ self.inside
        np.fill_diagonal(second, self.inside.sum(axis=0))
        for step in range(FITTING):
            loadings = self._regress(second)
            self.loadings = loadings[kept:]
            hot = max(1.0, HOT * 0.75**step)
            chances = self._expect(pool.rows - pool.Z.T @ loadings[:kept], hot * scales.noise)
            self.inside, second = chances.T @ self.patterns, (self.patterns.T * chances.sum(axis=1)) @ self.patterns

    def _regress(self, second: Array) -> Array:
        """Loadings of the pool's columns and of the new ones; second: expected products of these."""
        Z, rows = self.pool.Z, self.pool.rows
        cross = Z @ self.inside
        products = np.block([[Z @ Z.T, cross], [cross.T, second]])
        products[np.diag_indices(len(products))] += self.scales.noise / self.scales.loading
        return np.asarray(np.linalg.solve(products, np.concatenate([Z @ rows, self.inside.T @ rows])))

    def _expect(self, rest: Array, noise: float) -> Array:
        """Probabilities of patterns."""
        slopes, share = self.loadings / noise, np.clip(self.inside.mean(axis=0), 1e-3, 1.0 - 1e-3)
        cost = self.patterns @ np.log(share / (1.0 - share)) + np.log1p(-share).sum()
        cost = cost - 0.5 * np.einsum("jk,kl,jl->j", self.patterns, slopes @ self.loadings.T, self.patterns)
        log_chances, log_total = _normalised(slopes @ rest.T, self.patterns, cost)
        self.score = float(log_total.sum() - 0.5 * np.sum(rest**2) / noise)  # the log likelihood, with that noise
        return np.asarray(np.exp(log_chances))


# ---- on a shard


def _look_at(model: Features, shard: FeatureShard, own: tuple[Array, Array]) -> tuple[Array, Array]:
    chosen, sources = own
    Z = np.zeros((len(sources), len(chosen)), shard.Z.dtype)
    Z[sources >= 0] = shard.Z[np.ix_(sources[sources >= 0], chosen)]
    return shard.data[chosen], _with_fixed(model, Z)


def _with_fixed(model: Features, Z: Array) -> Array:
    return np.concatenate([Z, np.ones((model.likelihood.fixed, Z.shape[1]), Z.dtype)])


def _drawn(
    model: Features, shard: FeatureShard, launches: Launches, Z: Array
) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Rows in blocks: (where, columns that stay, entries of the new ones, log probabilities of what goes and comes)."""
    kept, gone = _with_fixed(model, np.delete(Z, launches.gone, axis=0)), Z[launches.gone]
    base = _base(model, len(gone))
    places = base ** np.arange(len(gone))[::-1]
    for start in range(0, Z.shape[1], _CHUNK):
        where = slice(start, start + _CHUNK)
        rows, others = shard.data[where], kept[:, where].astype(float)
        i = np.arange(len(rows))
        old, new = (
            _normalised(odds.slopes @ rows.T - odds.offset[:, None] - odds.pull.T @ others, odds.patterns, odds.cost)[0]
            for odds in (launches.old, launches.new)
        )
        now = np.minimum(gone[:, where], base - 1)
        log_old = old[places @ now.astype(np.int64), i].sum() if (now == gone[:, where]).all() else -math.inf
        u = uniforms(launches.key, shard.first + start + i)
        drawn = (np.cumsum(np.exp(new), axis=0)[:-1] < u).sum(axis=0)
        yield where, others, launches.new.patterns[drawn].T, np.array([log_old, new[drawn, i].sum()])


def find(model: Features, shard: FeatureShard, launches: Launches, sources: Array) -> Summary:
    """Statistics of new columns, and log probabilities of what goes and of what comes."""
    Z = shard.columns(sources)
    k, (stay, _) = len(launches.new.slopes), launches.new.pull.shape
    drawn, log_q = np.empty((k, Z.shape[1]), Z.dtype), np.zeros(2)
    products, cross, sums = np.zeros((k, k)), np.zeros((stay, k)), np.zeros((k, shard.data.shape[1]))
    for where, others, entries, log_chances in _drawn(model, shard, launches, Z):
        drawn[:, where] = entries
        log_q += log_chances
        products += entries @ entries.T
        cross += others @ entries.T
        sums += entries @ shard.data[where]
    members = drawn.sum(axis=1, dtype=np.int64)
    return Summary({
        "members": members, "products": products, "cross": cross, "sums": sums - members[:, None] * shard.centre,
        "log_q": log_q, "entries": np.array([model.measure.log_entries(part) for part in (Z[launches.gone], drawn)]),
    }, {})  # fmt: skip


def apply(model: Features, shard: FeatureShard, launches: Launches, sources: Array) -> Summary:
    """Draw once more, for good: a candidate kept aside would be state that no checkpoint knows."""
    Z = shard.columns(sources)
    drawn = np.concatenate([part for _, _, part, _ in _drawn(model, shard, launches, Z)], axis=1).astype(Z.dtype)
    shard.Z = _with_fixed(model, np.concatenate([np.delete(Z, launches.gone, axis=0), drawn]))
    return model.kernel.of_candidate(shard, shard.Z)
