"""What jumps are made of: their state, a random pool of rows to ask first, and launches (docs/features.md, "Jumps").

A launch is given loadings and weights of some columns, and all other columns, but not the entries of its own. It says
how probable each of these is: rows are independent, and log odds are linear in a row's data and in its other entries.
The loadings of the other columns are set to their expectation given the launch's own, found with the pool.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from unbounded.arrays import Array
from unbounded.contracts import Engine
from unbounded.models.features.column_moves import Odds, n_values, normalised, with_fixed
from unbounded.models.features.likelihood import FeatureStatistics, Loadings
from unbounded.models.features.model import Features
from unbounded.models.features.state import FeatureShard, FeatureState
from unbounded.rows import boundaries

STEPS = 3  # iterations between the loadings of the other columns and the expected entries of a launch
SURE = 20.0  # nats: the first stage of a decision is never surer than this
FEW = 10.0  # rows of the pool: the average over all of them counts as much as this many rows that use a column
FITTING, HOT = 14, 4.0  # steps of EM, and the factor of the noise in the first one
TRIES = 3  # of EM, from different directions


@dataclass(frozen=True)
class JumpState:
    """Current statistics during a sequence of jumps."""

    model: Features
    state: FeatureState
    statistics: FeatureStatistics  # of occupied atoms and, after them, of always-on columns
    entries: float  # log factors of the entries of Z

    @property
    def size(self) -> int:
        return len(self.statistics.members) - self.state.fixed

    def without(self, gone: Array) -> Array:
        """The other columns, always-on ones included."""
        stays = np.ones(len(self.statistics.members), bool)
        stays[gone] = False
        return stays.nonzero()[0]

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


def jump_state(model: Features, state: FeatureState) -> JumpState:
    return JumpState(model, state, model.everything(state), state.table.entries)


class AtomDraws(NamedTuple):
    """Loadings and weights that were drawn for some columns."""

    loadings: Array  # [k, D]
    weights: Array  # [k]


class Pool(NamedTuple):
    """Random rows at the driver, centred, and their columns of Z, always-on ones last."""

    rows: Array
    Z: Array
    chosen: Array  # numbers of the rows
    share: float  # how many rows of the data each of them stands for

    def half(self, which: int) -> Pool:
        """Every other row, so that what one half suggests is judged by the other; the pool itself if it is all of the
        data, or one row."""
        if self.share == 1.0 or len(self.rows) < 2:
            return self
        rows, chosen = self.rows[which::2], self.chosen[which::2]
        return Pool(rows, self.Z[:, which::2], chosen, self.share * len(self.rows) / len(rows))


class Guide(NamedTuple):
    """The law that loadings and weights of new columns are drawn from: Gaussian loadings, and shapes of weights."""

    loadings: Array  # [k, D]
    variances: Array  # [k]
    shapes: tuple[Array, Array]


# ---- at the driver


def select_columns(statistics: FeatureStatistics, kept: Array) -> FeatureStatistics:
    """The statistics of some columns."""
    return statistics._replace(
        members=statistics.members[kept],
        products=statistics.products[np.ix_(kept, kept)],
        sums=statistics.sums[kept],
    )


def fetch(model: Features, state: FeatureState, engine: Engine, chosen: Array) -> Pool:
    """The chosen rows with their columns of Z."""
    edges = boundaries(model.n_rows, model.n_shards)
    ends = np.searchsorted(chosen, edges)
    own = [(chosen[ends[p] : ends[p + 1]] - edges[p], sources) for p, sources in enumerate(state.sources())]
    parts = engine.map(partial(_fetched, model), own)
    rows, Z = (np.concatenate(part, axis=axis) for part, axis in zip(zip(*parts, strict=True), (0, 1), strict=True))
    return Pool(rows - model.likelihood.centre, Z.astype(float), chosen, model.n_rows / len(chosen))


def first_stage_log_ratio(gain: float, doubt: float) -> float:
    """First-stage (delayed acceptance) log ratio, capped at +-SURE; the second stage corrects it.

    It changes its sign with the gain that the pool suggests, as it must for the reverse move. A gain of a hundred
    thousand nats is known to a few percent only: without the cap the second stage would have to correct by thousands.
    """
    return math.copysign(min(max(abs(gain) - doubt, 0.0), SURE), gain)


def launch(
    model: Features, state: FeatureState, pool: Pool, kept: FeatureStatistics, own: AtomDraws
) -> tuple[Odds, float]:
    """(odds of the entries of columns with these loadings and weights, log likelihood of all rows, estimated by the
    pool)."""
    likelihood, noise = model.likelihood, state.scales.noise
    patterns, log_prior = _patterns(model, state, own.weights)
    slopes = own.loadings / noise
    cost = log_prior - 0.5 * np.einsum("jk,kl,jl->j", patterns, slopes @ own.loadings.T, patterns)
    cross = np.outer(kept.members, np.exp(log_prior) @ patterns)
    for step in range(STEPS):
        others = likelihood.expected(state.scales, kept._replace(sums=kept.sums - cross @ own.loadings))
        odds = Odds(slopes, others @ slopes.T, patterns, cost)
        rest = pool.rows - pool.Z.T @ others
        log_chances, log_total = normalised(slopes @ rest.T, patterns, cost)
        if step < STEPS - 1:
            inside = np.exp(log_chances).T @ patterns
            cross = kept.members[:, None] * _beside(pool.Z, inside)
    return odds, pool.share * float(log_total.sum() - 0.5 * np.sum(rest**2) / noise)


def _beside(Z: Array, inside: Array) -> Array:
    """[columns, k]: expected entries of rows that use each column, shrunk to the average where few of the pool do."""
    middle = inside.mean(axis=0)
    return np.asarray(middle + Z @ (inside - middle) / (Z.sum(axis=1, keepdims=True) + FEW))


def _patterns(model: Features, state: FeatureState, weights: Array) -> tuple[Array, Array]:
    """Patterns of a row's entries up to the truncation limit, and their prior log probabilities."""
    k = len(weights)
    law = model.measure.law(state.hyper, model.n_rows)
    entries = range(n_values(model.measure, k))
    patterns = np.indices((len(entries),) * k).reshape(k, len(entries) ** k).T
    log_prior = np.zeros(len(patterns))
    for j, weight in enumerate(weights):
        log_prior += np.array([law.log_entry(-1.0, float(weight), z) for z in entries])[patterns[:, j]]
    return patterns.astype(float), log_prior - np.logaddexp.reduce(log_prior)


def fit(model: Features, state: FeatureState, pool: Pool, size: int, rng: np.random.Generator) -> Guide:
    """Fit `size` more 0/1 columns to the pool by EM, beside those that it has; the best of several tries."""
    tries = _Tries(state.scales, pool, _known(state.scales, pool), size, rng)
    best, m = int(np.argmax(tries.scores)), len(pool.rows)
    amounts = np.clip(tries.inside[best].sum(axis=0), 0.5, m - 0.5)
    variances = state.scales.noise / np.minimum(amounts, m - amounts)
    return Guide(tries.loadings[best], variances, model.measure.weight_shapes(state.hyper, amounts, float(m)))


class _Known(NamedTuple):
    """What all regressions on the pool's columns have in common."""

    products: Array
    sums: Array
    rest: Array  # residuals of its rows


def _known(scales: Any, pool: Pool) -> _Known:
    products, sums = pool.Z @ pool.Z.T, pool.Z @ pool.rows
    return _Known(products, sums, pool.rows - pool.Z.T @ _solved(scales, products.copy(), sums))


def _solved(scales: Any, products: Array, sums: Array) -> Array:
    """Ridge estimate of loadings from products of columns, which are overwritten, and sums of rows; of one regression,
    or of several at once."""
    np.einsum("...kk->...k", products)[...] += scales.noise / scales.loading  # the diagonal
    return np.asarray(np.linalg.solve(products, sums))


class _Tries:
    """EM for new 0/1 columns and the loadings of all columns: from random directions, with decreasing noise.

    All tries at once: the first axis of every array is theirs.
    """

    def __init__(self, scales: Any, pool: Pool, known: _Known, size: int, rng: np.random.Generator):
        self.pool, self.known, self.scales = pool, known, scales
        kept, rest = len(pool.Z), known.rest
        self.patterns = np.indices((2,) * size).reshape(size, 2**size).T.astype(float)
        scatter = rest.T @ rest / len(rest)
        scatter = np.ldexp(scatter, -np.frexp(scatter.max(initial=0.0))[1])  # no unit is too large for what follows
        directions = rng.standard_normal((TRIES, size, rest.shape[1])) @ scatter @ scatter
        scores = rest @ directions.swapaxes(1, 2)
        self.inside = expit(2.0 * scores / np.maximum(scores.std(axis=1, keepdims=True), 1e-300))
        second = self.inside.swapaxes(1, 2) @ self.inside
        np.einsum("tkk->tk", second)[...] = self.inside.sum(axis=1)
        for step in range(FITTING):
            loadings = self._regress(second)
            self.loadings = loadings[:, kept:]
            hot = max(1.0, HOT * 0.75**step)
            noise, rest = hot * scales.noise, pool.rows - pool.Z.T @ loadings[:, :kept]
            log_chances, log_total = self._expect(rest, noise)
            chances = np.exp(log_chances)
            self.inside = chances.swapaxes(1, 2) @ self.patterns
            second = (self.patterns.T * chances.sum(axis=2)[:, None]) @ self.patterns
        # Log likelihoods with the noise of the last step.
        self.scores = log_total.sum(axis=1) - 0.5 * np.sum(rest**2, axis=(1, 2)) / noise

    def _regress(self, second: Array) -> Array:
        """Loadings of the pool's columns and of the new ones; second: expected products of the new columns."""
        Z, rows, inside, known = self.pool.Z, self.pool.rows, self.inside, self.known
        kept, size = len(Z), len(Z) + inside.shape[2]
        products, sums = np.empty((TRIES, size, size)), np.empty((TRIES, size, rows.shape[1]))
        products[:, :kept, :kept] = known.products
        products[:, :kept, kept:] = cross = Z @ inside
        products[:, kept:, :kept] = cross.swapaxes(1, 2)
        products[:, kept:, kept:] = second
        sums[:, :kept] = known.sums
        sums[:, kept:] = inside.swapaxes(1, 2) @ rows
        return _solved(self.scales, products, sums)

    def _expect(self, rest: Array, noise: float) -> tuple[Array, Array]:
        """(log probabilities of patterns, the log normaliser of each row)."""
        slopes, share = self.loadings / noise, self.inside.mean(axis=1)
        share = np.minimum(np.maximum(share, 1e-3), 1.0 - 1e-3)
        cost = np.log(share / (1.0 - share)) @ self.patterns.T + np.log1p(-share).sum(axis=1, keepdims=True)
        squares = slopes @ self.loadings.swapaxes(1, 2)
        cost = cost - 0.5 * np.sum((self.patterns @ squares) * self.patterns, axis=2)
        return normalised(slopes @ rest.swapaxes(1, 2), self.patterns, cost)


# ---- on a shard


def _fetched(model: Features, shard: FeatureShard, own: tuple[Array, Array]) -> tuple[Array, Array]:
    chosen, sources = own
    return shard.data[chosen], with_fixed(model.likelihood, shard.entries(sources, chosen))
