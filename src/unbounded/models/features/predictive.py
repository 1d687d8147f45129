"""Predictions of a draw of a feature model, for new rows and for cells that were hidden from the fit.

A draw has its atoms' loadings, the scales, and the members of each atom among the n training rows, from which weights
are drawn. A new row's entries z are then independent a priori, and its posterior p(z | x) is
- summed over all 2^K patterns where entries are 0 or 1 and atoms are few;
- otherwise sampled, by the chain's own sweep with all atoms mobile and without births. The likelihood is raised to a
  power that grows from 0, where the sweep is a draw from the prior, to 1, and annealed importance sampling (Neal 2001)
  estimates p(x) on the way: unbiased, whatever the number of steps.
Missing values do not count. In the sweeps they are redrawn first, at the same power: entries of a row with many missing
values hardly change once these are imputed, and should start from the prior.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit, logsumexp

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine
from unbounded.models.features.laws import new_count
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.measure import FeatureHyper, FeatureMeasure
from unbounded.models.features.model import Features
from unbounded.models.features.operations import Mobile
from unbounded.models.features.state import FeaturePart, FeatureShard, FeatureState, all_shared
from unbounded.randomness import generator
from unbounded.rows import boundaries
from unbounded.setup import Setup

MOST_SUMMED = 10  # atoms up to which all patterns are summed
STEPS, SWEEPS_PER_STEP = 30, 3  # powers of the annealing, and sweeps at each of them
SWEEPS = 10  # draws of a row's entries after the annealing
_NOTHING = 1e-12  # a power at which the likelihood has no effect
_CELLS = 2**16
_ROWS = 256
_PATTERN_CELLS = 2**21


@dataclass(frozen=True)
class Draw:
    """A snapshot, ready for predictions; the last `fixed` loadings are those of always-on columns."""

    measure: FeatureMeasure
    likelihood: FeatureBound
    hyper: FeatureHyper
    weights: Array
    loadings: Array
    scales: Any
    n_rows: int
    seed: int
    device: str = "cpu"

    @property
    def size(self) -> int:
        return len(self.weights)

    @property
    def summed(self) -> bool:
        return self.measure.binary and self.size <= MOST_SUMMED

    @property
    def base(self) -> Array:
        """[D]: expectation of a row that uses no atom."""
        value: Array = self.likelihood.mean(np.zeros((1, self.size)), self.loadings, self.scales)[0]
        return value

    @property
    def new_law(self) -> Any:
        """The law of atoms that no training row uses."""
        return self.measure.law(self.hyper, self.n_rows + 1.0)

    def log_rows(self, X: Array, Z: Array) -> Array:
        """[n]: log density of the observed cells given Z [n, K]."""
        cells = self.likelihood.log_cells(X, self.likelihood.mean(Z, self.loadings, self.scales), self.scales)
        value: Array = np.where(np.isnan(X), 0.0, cells).sum(1)
        return value


def draw_of(measure: FeatureMeasure, likelihood: FeatureBound, snap: Arrays, n_rows: int, seed: int) -> Draw:
    """The draw of a snapshot, with weights of its atoms given their members.

    Arrays are copied: those of an unpickled estimator may be read-only, for which kernels would be compiled anew.
    """
    snap = {name: np.array(value) for name, value in snap.items()}
    hyper = measure.restore(snap["hyper"])
    members = snap["members"][: len(snap["members"]) - likelihood.fixed].astype(float)
    weights = measure.log_weights(hyper, members, n_rows, generator(seed, "predictive weights"))
    scales = likelihood.unpack(snap["scales"])
    return Draw(measure, likelihood, hyper, weights, snap["loadings"], scales, n_rows, seed)


# ---- entries of new rows


class Entries(NamedTuple):
    """Posterior means given a draw: of the entries, and of the expectation of every missing cell."""

    Z: Array  # [n, K]
    holes: Array  # in the order of np.argwhere(np.isnan(X))


def explain(draw: Draw, X: Array, first: int = 0) -> Entries:
    """Posterior mean of the entries of new rows; first: the number of the first row, which keys its randomness."""
    Z = _summed_mean(draw, X) if draw.summed else _sampled_mean(draw, X, first)
    rows, columns = np.nonzero(np.isnan(X))
    return Entries(Z, cell_means(draw.base, draw.loadings[: draw.size], Z.T, rows, columns))


def _sampled_mean(draw: Draw, X: Array, first: int) -> Array:
    powers = np.concatenate([_ladder(STEPS // 3)[:-1], np.ones(SWEEPS)])
    states = list(_annealed(draw, X, first, powers, "transform"))[-SWEEPS:]
    value: Array = np.mean(states, axis=0)
    return value


def cell_means(base: Array, loadings: Array, Z: Array, rows: Array, columns: Array) -> Array:
    """Expectations of single cells; Z: [K, n]."""
    out = np.empty(len(rows))
    for s in range(0, len(rows), _CELLS):
        part = slice(s, s + _CELLS)
        out[part] = base[columns[part]] + np.einsum("kc,kc->c", Z[:, rows[part]], loadings[:, columns[part]])
    return out


# ---- all patterns


def _patterns(draw: Draw) -> tuple[Array, Array]:
    """[2^K, K] and their log probabilities."""
    patterns = (np.arange(2**draw.size)[:, None] >> np.arange(draw.size)) & 1
    return patterns, patterns @ log_expit(draw.weights) + (1 - patterns) @ log_expit(-draw.weights)


def _log_joint(draw: Draw, X: Array) -> Iterator[tuple[slice, Array, Array]]:
    """(rows, patterns, log p(x, pattern)) by blocks of rows: two matrix products each."""
    patterns, prior = _patterns(draw)
    base = draw.base
    origin, slope, cost = draw.likelihood.gains(draw.scales, base, patterns @ draw.loadings[: draw.size])
    size = max(1, _PATTERN_CELLS // len(patterns))
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        seen = ~np.isnan(X[rows])
        x = np.where(seen, X[rows], base)
        alone = np.where(seen, draw.likelihood.log_cells(x, base, draw.scales), 0.0).sum(1)
        logs = np.where(seen, x - origin, 0.0) @ slope.T - seen.astype(float) @ cost.T
        yield rows, patterns, logs + alone[:, None] + prior  # mutant: patterns prior


def _summed_mean(draw: Draw, X: Array) -> Array:
    out = np.empty((len(X), draw.size))
    for rows, patterns, logs in _log_joint(draw, X):
        out[rows] = np.exp(logs - logsumexp(logs, axis=1, keepdims=True)) @ patterns
    return out


# ---- sweeps


def _ladder(steps: int) -> Array:
    """Powers from almost 0 to 1, closest to each other near 0."""
    value: Array = np.maximum((np.arange(steps + 1) / steps) ** 4, _NOTHING)
    return value


def _annealed(draw: Draw, X: Array, first: int, powers: Array, purpose: str) -> Iterator[Array]:
    """Z [n, K] after the sweeps at each of the powers."""
    rng = generator(draw.seed, purpose, first)
    seed = int(rng.integers(2**62))
    setup = Setup(draw.measure, draw.likelihood, draw.n_rows, 1, seed, sweeps=SWEEPS_PER_STEP, device=draw.device)
    model = Features(setup)
    shard = model.recipe(X)(0)
    shard.Z = np.zeros((len(draw.loadings), len(X)), shard.Z.dtype)
    shard.Z[draw.size :] = 1
    rows = shard.data
    for step, power in enumerate(powers):
        scales, loadings, factor = draw.likelihood.tempered(draw.scales, draw.loadings, float(power))
        shard.data = rows if factor == 1.0 else rows * factor
        mobile = Mobile(rng.permutation(draw.size), draw.weights)
        part = FeaturePart(model.closed_round(step, mobile, scales, loadings, draw.hyper), all_shared(loadings))
        yield model.kernel.predictive(part, shard)


# ---- densities


def log_density(draw: Draw, X: Array, first: int = 0) -> Array:
    """[n]: log p(x | draw), with atoms that only the new row would use.

    That a row has no such atoms, and that it has some, are two cases of known probability. In the second, their number
    is drawn; their loadings are integrated out where the likelihood can do that, and drawn where it cannot.
    """
    none = -draw.new_law.rate  # mutant: new atoms
    with_new = _with_new_atoms(draw, generator(draw.seed, "new atoms", first))
    cases = (none, draw), (math.log(-math.expm1(none)) if none < 0.0 else -math.inf, with_new)
    value: Array = logsumexp([log_p + _log_known(case, X, first) for log_p, case in cases], axis=0)
    return value


def _with_new_atoms(draw: Draw, rng: np.random.Generator) -> Draw:
    """The draw for a row that uses at least one atom of its own."""
    law = draw.new_law
    entries = np.array([new_count(law, u) for u in rng.random(_at_least_one(law.rate, rng))], dtype=float)
    return replace(draw, scales=draw.likelihood.with_new(draw.scales, entries, rng))


def _at_least_one(rate: float, rng: np.random.Generator) -> int:
    """A Poisson number given that it is not zero, by inversion."""
    u, count = rng.random() * -math.expm1(-rate), 1
    p = rate * math.exp(-rate)
    while u > p and count < 1000:
        u, count = u - p, count + 1
        p *= rate / count
    return count


def _log_known(draw: Draw, X: Array, first: int) -> Array:
    """[n]: log p(x | draw) of rows without atoms of their own."""
    if draw.summed:
        return np.concatenate([logsumexp(logs, axis=1) for _, _, logs in _log_joint(draw, X)])
    powers, total = _ladder(STEPS), np.zeros(len(X))
    states = _annealed(draw, X, first, powers[:-1], "density")
    for power, following, Z in zip(np.append(0.0, powers[1:-1]), powers[1:], states, strict=True):
        total += (following - power) * draw.log_rows(X, Z)  # mutant: annealed step
    return total


# ---- new rows


def simulate(draw: Draw, n: int, rng: np.random.Generator) -> Array:
    """New rows: entries from the weights, atoms of their own from the prior."""
    nothing = np.full((n, draw.loadings.shape[1]), np.nan)
    seeded = replace(draw, seed=int(rng.integers(2**62)))
    Z = next(_annealed(seeded, nothing, 0, np.array([_NOTHING]), "simulate"))
    parts = [_with_own(draw, Z[s : s + _ROWS], rng) for s in range(0, n, _ROWS)]
    return np.concatenate(parts)


def _with_own(draw: Draw, Z: Array, rng: np.random.Generator) -> Array:
    """Rows with these entries and atoms of their own. Each of these is another column: hence small blocks of rows."""
    law, likelihood = draw.new_law, draw.likelihood
    users = np.repeat(np.arange(len(Z)), rng.poisson(law.rate, len(Z)))
    own = np.zeros((len(Z), len(users)))
    own[users, np.arange(len(users))] = [new_count(law, u) for u in rng.random(len(users))]
    known, always = np.split(draw.loadings, [draw.size])
    loadings = np.concatenate([known, likelihood.draw_prior(draw.scales, len(users), rng), always])
    return likelihood.simulate(np.concatenate([Z, own], axis=1), draw.scales, rng, loadings)


# ---- cells that were hidden from training


class Cells(NamedTuple):
    """Cells of the training rows, sorted by row, and their values."""

    rows: Array
    columns: Array
    values: Array


def held_out(model: Features, state: FeatureState, engine: Engine, cells: Cells) -> float:
    """Mean log density of hidden cells given Z and one draw of loadings and scales, shard by shard."""
    likelihood, live = model.likelihood, state.occupied
    loadings, scales = likelihood.draw(
        state.scales, model.everything(state), generator(model.seed, "holdout", state.round)
    )
    base = likelihood.mean(np.zeros((1, len(live))), loadings, scales)[0]
    score = partial(_score, likelihood=likelihood, base=base, loadings=loadings[: len(live)], scales=scales)
    cuts = np.searchsorted(cells.rows, boundaries(model.n_rows, model.n_shards))
    own = [
        (Cells(*(part[start:stop] for part in cells)), sources)
        for (start, stop), sources in zip(pairwise(cuts), state.sources(), strict=True)
    ]
    return sum(engine.map(score, own)) / len(cells.rows)


def _score(
    shard: FeatureShard, own: tuple[Cells, Array], likelihood: FeatureBound, base: Array, loadings: Array, scales: Any
) -> float:
    """Sum of the log densities of a shard's hidden cells."""
    cells, sources = own
    Z, known, total = shard.current()[sources[sources >= 0]], loadings[sources >= 0], 0.0
    for s in range(0, len(cells.rows), _CELLS):
        rows, columns, values = (part[s : s + _CELLS] for part in cells)
        mean = cell_means(base, known, Z, rows - shard.first, columns)
        total += float(likelihood.log_cells(values, mean, scales).sum())
    return total
