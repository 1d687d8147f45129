"""Where a chain of labels starts (docs/sampler.md, "The start"). The start never affects exactness, only the wait.

The default grows clusters on a pilot of a few thousand rows: k-means++-like seeds, many of them, then rounds of the
sampler itself and greedy merges by the model's own marginal likelihood; then all rows join the pilot's clusters.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message
from unbounded.engines.local import Serial
from unbounded.likelihoods.base import Bound
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.message import MixtureRound, MixtureShare
from unbounded.models.mixtures.model import Mixture, MixtureState, RowShards
from unbounded.randomness import generator
from unbounded.round import rounds
from unbounded.rows import rows_of

NAMES = ("kmeans++", "one", "prior")
PILOT_ROWS, PILOT_ROWS_PER_FEATURE = 25_000, 25
SEED_ROWS = 2_000
SEED_CELLS = 10_000_000
MOST_SEEDS = 64
CYCLES, ROUNDS_PER_CYCLE = 6, 8


def begin(model: Mixture[Any], engine: Engine, X: Any, init: Any) -> MixtureState:
    """The first state of a chain: from a name, or from given labels."""
    check(init, model.n_rows)
    if not isinstance(init, str):
        return model.begin(engine, np.asarray(init))
    if init == "one":
        return model.begin(engine, np.zeros(model.n_rows, np.int64))
    if init == "prior":
        labels = model.measure.simulate(model.measure.start(), model.n_rows, generator(model.seed, "start"))
        return model.begin(engine, labels)
    hybrid = model if isinstance(model, HybridMixture) else HybridMixture(model.setup)
    state = _grown(hybrid, engine, X)
    return state if hybrid is model else model.begin(engine, hybrid.assignments(state, engine), state.hyper)


def check(init: Any, n_rows: int) -> None:
    """Refuse a start that is neither a name nor labels."""
    if isinstance(init, str):
        if init not in NAMES:
            raise ValueError(f"init must be one of {NAMES} or an array of labels, got {init!r}.")
        return
    labels = np.asarray(init)
    if labels.shape != (n_rows,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"init labels must be {n_rows} integers, got {labels.dtype} of shape {labels.shape}.")


def _grown(model: Mixture[Any], engine: Engine, X: Any) -> MixtureState:
    rng = generator(model.seed, "start")
    labels, state = pilot(model, X, rng)
    if len(labels) == model.n_rows:
        return model.begin(engine, labels, state.hyper)
    return extend(model, engine, state, rng)


def pilot(model: Mixture[Any], X: Any, rng: np.random.Generator) -> tuple[Array, MixtureState]:
    """Clusters of some of the rows, or of all when they are few."""
    most = max(PILOT_ROWS, PILOT_ROWS_PER_FEATURE * (0 if model.likelihood.sparse else model.likelihood.n_terms))
    rows = np.sort(rng.choice(model.n_rows, min(model.n_rows, most), replace=False))
    setup = replace(model.setup, extent=len(rows), n_shards=1, sweeps=1, seed=int(rng.integers(2**62)))
    short = HybridMixture(setup, jumps=None)
    part = X[rows]
    few = Serial(RowShards(part, model.likelihood, 1))
    try:
        (completed,) = few.map(LabelShard.completed)
        filled = part if completed is None else completed
        state = short.begin(few, _seed_labels(model, filled, rng))
        for _ in range(CYCLES):
            state = next(islice(rounds(short, few, state), ROUNDS_PER_CYCLE - 1, None))
            labels = _merged(short, state, filled, short.assignments(state, few))
            labels = _split(short, state.hyper, filled, labels, rng)
            state = short.begin(few, labels, state.hyper, state.round)
        state = next(islice(rounds(short, few, state), ROUNDS_PER_CYCLE - 1, None))
        labels = _merged(short, state, filled, short.assignments(state, few))
        return labels, short.begin(few, labels, state.hyper, state.round)
    finally:
        few.close()


def _seed_labels(model: Mixture[Any], X: Any, rng: np.random.Generator) -> Array:
    """k-means++ with the likelihood's own distance: how much better a row explains itself than a seed."""
    likelihood, predictive = model.likelihood, model.kernel.predictive
    most = max(20, min(SEED_ROWS, SEED_CELLS // likelihood.n_terms))
    chosen = np.sort(rng.choice(X.shape[0], min(X.shape[0], most), replace=False))
    few = X[chosen]
    terms = likelihood.terms(few)
    itself = _own_predictive(likelihood, terms)
    n_seeds = min(MOST_SEEDS, max(1, len(chosen) // 5))
    seeds = [int(rng.integers(len(chosen)))]
    best = predictive(Atoms(np.ones(1), terms[seeds]), few)[0]
    while len(seeds) < n_seeds:
        gap = np.maximum(itself - best, 0.0)
        if not gap.sum() > 0:
            break
        seeds.append(int(rng.choice(len(gap), p=gap / gap.sum())))
        best = np.maximum(best, predictive(Atoms(np.ones(1), terms[seeds[-1:]]), few)[0])
    return predictive(Atoms(np.ones(len(seeds)), terms[seeds]), X).argmax(0)


def _own_predictive(likelihood: Bound, terms: Array) -> Array:
    """Log predictive of each row given a copy of itself."""
    ones = np.ones(len(terms))
    return likelihood.log_marginal(2 * ones, 2 * terms) - likelihood.log_marginal(ones, terms)


def _merged(model: Mixture[Any], state: MixtureState, X: Any, labels: Array) -> Array:
    """Labels after merging, greedily, every pair of clusters that the model prefers as one."""
    atoms = Atoms(state.table.counts[state.occupied].astype(float), state.table.statistics[state.occupied].copy())
    counts, statistics = atoms
    k, labels = len(counts), labels.copy()
    separate = model.likelihood.log_marginal(counts, statistics)
    gains = np.full((k, k), -np.inf)
    for i in range(k - 1):
        gains[i, i + 1 :] = _gains(model, state.hyper, atoms, separate, i, np.arange(i + 1, k))
    while gains.max() > 0:
        i, j = (int(v) for v in np.unravel_index(gains.argmax(), gains.shape))
        rows = np.flatnonzero((labels == i) | (labels == j))
        if gains[i, j] < _freedom(model, X[rows], (labels[rows] == j).astype(np.int32)):
            gains[i, j] = -np.inf
            continue
        counts[i] += counts[j]
        statistics[i] += statistics[j]
        separate[i] = model.likelihood.log_marginal(counts[[i]], statistics[[i]])[0]
        labels[labels == j] = i
        counts[j] = 0.0
        gains[j] = gains[:, j] = gains[i] = gains[:, i] = -np.inf
        others = np.flatnonzero((counts > 0) & (np.arange(k) != i))
        if len(others):
            gains[i, others] = _gains(model, state.hyper, atoms, separate, i, others)
    return labels


def _freedom(model: Mixture[Any], X: Any, half: Array) -> float:
    """Minus the log probability of the rows' halves given the two clusters.

    Two overlapping clusters can be labelled in many ways that are all as good; one cluster in one way only. A fair
    comparison sums over them, which is what this adds in favour of two (as a split-merge proposal does).
    """
    atoms = _totals(model, X, half)
    logs = model.kernel.predictive(atoms, X) + np.log(atoms.counts)[:, None]
    return float((np.logaddexp(logs[0], logs[1]) - np.where(half == 1, logs[1], logs[0])).sum())


def _gains(model: Mixture[Any], hyper: Any, atoms: Atoms, separate: Array, i: int, others: Array) -> Array:
    """Log posterior gained by merging cluster i with each of the others; separate: their own log marginals."""
    counts, statistics = atoms
    together = model.likelihood.log_marginal(counts[i] + counts[others], statistics[i] + statistics[others])
    prior = model.measure.log_merge(hyper, counts[i], counts[others], len(counts))
    return together - separate[others] - separate[i] + prior


def _split(model: Mixture[Any], hyper: Any, X: Any, labels: Array, rng: np.random.Generator) -> Array:
    """Labels after cutting in two every cluster that the model prefers as two (two random tries each)."""
    labels = labels.copy()
    for k in np.unique(labels):
        rows = np.flatnonzero(labels == k)
        for _ in range(2):
            half = _halves(model, X[rows], rng) if len(rows) >= 4 else None
            if half is not None and _gain_of_split(model, hyper, X[rows], half) > 0:
                labels[rows[half == 1]] = labels.max() + 1
                break
    return labels


def _halves(model: Mixture[Any], X: Any, rng: np.random.Generator, steps: int = 10) -> Array | None:
    """Two clusters grown from two random rows by alternating assignment and statistics; None when one dies out."""
    seeds = rng.choice(X.shape[0], 2, replace=False)
    atoms = Atoms(np.ones(2), model.likelihood.terms(X[seeds]))
    half = np.zeros(X.shape[0], np.int32)
    for _ in range(steps):
        score = model.kernel.predictive(atoms, X) + np.log(atoms.counts)[:, None]
        half = (score[1] > score[0]).astype(np.int32)
        atoms = _totals(model, X, half)
        if atoms.counts.min() < 1:
            return None
    return half


def _totals(model: Mixture[Any], X: Any, half: Array) -> Atoms:
    counts, statistics = model.kernel.totals(rows_of(X, 0, X.shape[0]), half, 2)
    return Atoms(counts.astype(float), statistics)


def _gain_of_split(model: Mixture[Any], hyper: Any, X: Any, half: Array) -> float:
    atoms = _totals(model, X, half)
    separate = model.likelihood.log_marginal(*atoms)
    return _freedom(model, X, half) - float(_gains(model, hyper, atoms, separate, 0, np.array([1]))[0])


def extend(model: Mixture[Any], engine: Engine, pilot: MixtureState, rng: np.random.Generator) -> MixtureState:
    """All rows join the pilot's clusters, given parameters drawn from them."""
    counts = pilot.table.counts[pilot.occupied].astype(float)
    parameters = model.likelihood.draw(counts, pilot.table.statistics[pilot.occupied], rng)
    finite = model.finite(parameters, np.log(counts))
    k = len(counts)
    closed = model.measure.closed_tail(pilot.hyper)
    imputed = parameters if model.likelihood.imputes else None
    none = {name: value[:0] for name, value in parameters.items()} if model.likelihood.imputes else None
    shared = MixtureRound(0, pilot.hyper, finite, k, (closed, closed), imputed)
    own = MixtureShare(np.zeros(1, np.int32), k, 0, False, none)
    starter = replace(model, setup=replace(model.setup, seed=int(rng.integers(2**62)), sweeps=1))
    engine.run(starter.local_step, Message(shared, [own] * model.n_shards))
    return model.count(engine, k, pilot.hyper, 0)
