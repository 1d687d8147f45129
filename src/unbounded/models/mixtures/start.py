"""Where a chain of labels starts (docs/sampler.md, "The start"). The start never affects exactness, only the wait.

The default grows clusters on a pilot of some thousand rows: from one cluster, by the chain's own cuts and merges, while
rows make no clusters of their own, and by greedy merges; then all rows join the pilot's clusters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from unbounded.arrays import Array, Data
from unbounded.contracts import Engine, Message, Plan
from unbounded.engines.local import Serial
from unbounded.family import Init, Notify, ignore_progress
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.kernels import kernel_for_few
from unbounded.models.mixtures.message import MixtureRound, MixtureShare
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.randomness import generator
from unbounded.round import advanced
from unbounded.rows import rows_of

NAMES = ("grown", "one", "prior")
FORMER_NAMES = ("kmeans++",)
PILOT_ROWS = 10_000
CYCLES, ROUNDS_PER_CYCLE = 3, (6, 16)  # where rows are few, and many
FEW_ROWS = 2_000


def begin(model: Mixture[Any], engine: Engine, X: Data, init: Init, notify: Notify = ignore_progress) -> MixtureState:
    """The first state of a chain: from a name, or from given labels."""
    check(init, model.n_rows)
    if not isinstance(init, str):
        return model.begin(engine, np.asarray(init))
    if init == "one":
        return model.begin(engine, np.zeros(model.n_rows, np.int64))
    if init == "prior":
        labels = model.measure.simulate(model.measure.start(), model.n_rows, generator(model.seed, "start"))
        return model.begin(engine, labels)
    hybrid = model if model.takes_pilots else HybridMixture(model.setup)
    state = _grown(hybrid, engine, X, notify)
    return state if hybrid is model else model.begin(engine, hybrid.assignments(state, engine), state.hyper)


def check(init: Any, n_rows: int) -> None:
    """Refuse a start that is neither a name nor labels."""
    if isinstance(init, str):
        if init in FORMER_NAMES:
            raise ValueError(f"init={init!r} is called 'grown' now; a run that began with it goes on with any start.")
        if init not in NAMES:
            raise ValueError(f"init must be one of {NAMES} or an array of labels, got {init!r}.")
        return
    labels = np.asarray(init)
    if labels.ndim == 0:
        raise ValueError(f"init must be one of {NAMES} or an array of labels, got {init!r}.")
    if labels.shape != (n_rows,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"init labels must be {n_rows} integers, got {labels.dtype} of shape {labels.shape}.")


def _grown(model: Mixture[Any], engine: Engine, X: Any, notify: Notify) -> MixtureState:
    rng = generator(model.seed, "start")
    labels, state = pilot(model, X, rng, notify)
    if len(labels) == model.n_rows:
        return model.begin(engine, labels, state.hyper)
    return extend(model, engine, state, rng)


@dataclass(frozen=True)
class Grown:
    """A rule for pilots: clusters come from cuts alone.

    Rows that are like no others would fill a pilot with clusters of one row each, and those take long in many columns.
    """

    exact: ClassVar[bool] = True

    def plan(self, round_: int, n_rounds: int, n_rows: int, n_shards: int, rng: np.random.Generator) -> Plan:
        return Plan(n_rows, np.zeros(n_shards, bool))

    def settled(self, n_rounds: int) -> int:
        return 0


def pilot(
    model: Mixture[Any], X: Any, rng: np.random.Generator, notify: Notify = ignore_progress
) -> tuple[Array, MixtureState]:
    """Clusters of some of the rows, or of all when they are few."""
    rows = np.sort(rng.choice(model.n_rows, min(model.n_rows, PILOT_ROWS), replace=False))
    setup = replace(model.setup, extent=len(rows), n_shards=1, sweeps=1, seed=int(rng.integers(2**62)))
    setup = replace(setup, device=kernel_for_few(setup.device))
    short = HybridMixture(setup, Grown(), Jumps(every=1, share=1.0))
    n_rounds = ROUNDS_PER_CYCLE[len(rows) >= FEW_ROWS]
    part = X[rows]
    few = Serial(short.recipe(part))
    try:
        (completed,) = few.map(LabelShard.completed)
        filled = part if completed is None else completed
        state = short.begin(few, np.zeros(len(rows), np.int64))
        for cycle in range(CYCLES):
            state = advanced(short, few, state, n_rounds, notify, cycle * n_rounds, CYCLES * n_rounds)
            labels = _merged(short, state, filled, short.assignments(state, few))
            state = short.begin(few, labels, state.hyper, state.round)
        return labels, state
    finally:
        few.close()


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


def _totals(model: Mixture[Any], X: Any, half: Array) -> Atoms:
    counts, statistics = model.kernel.totals(rows_of(X, 0, X.shape[0]), half, 2)
    return Atoms(counts.astype(float), statistics)


def extend(model: Mixture[Any], engine: Engine, pilot: MixtureState, rng: np.random.Generator) -> MixtureState:
    """All rows join the pilot's clusters, given parameters drawn from them."""
    counts = pilot.table.counts[pilot.occupied].astype(float)
    parameters = model.likelihood.draw(counts, pilot.table.statistics[pilot.occupied], rng)
    finite = model.finite(parameters, np.log(counts))
    k = len(counts)
    closed = model.measure.closed_tail(pilot.hyper)
    imputed = parameters if model.likelihood.imputed.size else None
    none = {name: value[:0] for name, value in parameters.items()} if model.likelihood.imputed.size else None
    shared = MixtureRound(0, pilot.hyper, finite, k, imputed)
    own = MixtureShare(np.zeros(1, np.int32), k, 0, closed, none)
    starter = replace(model, setup=replace(model.setup, seed=int(rng.integers(2**62)), sweeps=1))
    engine.run(starter.local_step, Message(shared, [own] * model.n_shards))
    return model.count(engine, k, pilot.hyper, 0)
