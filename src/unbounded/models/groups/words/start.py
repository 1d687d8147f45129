"""Where a chain of words starts (docs/topics.md, "The start").

A pilot of documents gets random topics, more than it can need; rounds of the sampler and greedy merges leave those that
the words support; then all documents join them. Or it gets few of them, and the chain has to find the others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from unbounded.arrays import Array
from unbounded.contracts import Engine
from unbounded.engines.local import Serial
from unbounded.family import Notify, ignore_progress
from unbounded.models.groups.model import Groups, GroupsState, HybridGroups
from unbounded.models.groups.predictive import Gibbs, Newcomers, gibbs, predictives
from unbounded.models.groups.shard import GroupShard
from unbounded.models.groups.words.documents import Words
from unbounded.priors import Gamma
from unbounded.randomness import generator, key
from unbounded.round import advanced

PILOT_TOKENS = 200_000
MOST_TOPICS = 200
FEWER = 3  # times fewer topics, for a start from few
PILOT_ROUNDS = (100, 30, 30, 20)  # before each round of merges
NEIGHBOURS = 5
SHARP = 0.05
EXTENDING_SWEEPS = 3


def grown(
    model: Groups, engine: Engine, words: Any, few: bool = False, notify: Notify = ignore_progress
) -> GroupsState:
    """The state in which all documents have joined the topics of a pilot; few: fewer topics than there should be."""
    rng = generator(model.seed, "start")
    order = rng.permutation(len(model.sizes))
    enough = np.searchsorted(np.cumsum(model.sizes[order]), PILOT_TOKENS) + 1
    groups = np.sort(order[:enough])
    part, sizes = _of_groups(words, model.sizes, groups), model.sizes[groups]
    sharp = _sharp(model.likelihood)
    setup = replace(
        model.setup, likelihood=sharp, extent=sizes, n_shards=1, sweeps=1,
        seed=int(rng.integers(2**62)),
    )  # fmt: skip
    pilot = HybridGroups(setup, model.form, jumps=None)
    labels, state = _grown(pilot, part, few, rng, notify)
    fixed: Any = model.likelihood
    content = state.hyper.content._replace(after=fixed.after)
    hyper = state.hyper._replace(content=content if isinstance(sharp.prior, Gamma) else content._replace(eta=fixed.eta))
    if enough >= len(model.sizes):
        return model.begin(engine, labels, hyper)
    draw = pilot.draw(state)
    table, _, _ = predictives(model.likelihood, draw, part[:0])
    join = partial(_join, table, draw.masses, key(pilot.seed, "extend"), model.n_rows)
    used = np.unique(np.concatenate(engine.map(join)))
    codes = np.full(len(draw.counts), -1, np.int32)
    codes[used] = np.arange(len(used))
    engine.map(GroupShard.relabel, [codes] * model.n_shards)
    return model.begin_from_shards(engine, len(used), hyper)


def _grown(
    pilot: HybridGroups, part: Array, few: bool, rng: np.random.Generator, notify: Notify
) -> tuple[Array, GroupsState]:
    """Labels of the pilot, and the state with them."""
    engine = Serial(pilot.recipe(part))
    try:
        most = MOST_TOPICS // FEWER if few else MOST_TOPICS
        n_topics = int(np.clip(np.sqrt(len(part)) / (3 * FEWER if few else 3), 2, most))
        state = pilot.begin(engine, rng.integers(n_topics, size=len(part)))
        cycles = PILOT_ROUNDS[: 1 if few else None]
        for cycle, n_rounds in enumerate(cycles):
            state = advanced(pilot, engine, state, n_rounds, notify, sum(cycles[:cycle]), sum(cycles))
            labels = _merged(pilot, state, pilot.assignments(state, engine))
            state = pilot.begin(engine, labels, state.hyper, round_=state.round)
    finally:
        engine.close()
    return labels, state


def _of_groups(words: Any, sizes: Array, groups: Array) -> Array:
    """The words of some documents, in memory."""
    if isinstance(words, Words):
        return words.of(groups)
    chosen = np.zeros(len(sizes), bool)
    chosen[groups] = True
    part: Array = words[np.repeat(chosen, sizes)]
    return part


def _join(table: Array, masses: Array, extend_key: np.uint64, n_rows: int, shard: GroupShard) -> Array:
    """Let a shard's words join the pilot's topics; returns the topics in use. Labels stay on the shard."""
    sizes = np.diff(shard.offsets)
    new = Newcomers(table, shard.data, sizes, shard.first, n_rows)
    labels = gibbs(new, masses, Gibbs(EXTENDING_SWEEPS, 1, extend_key))[0]
    shard.put(np.minimum(labels, len(masses) - 2))  # the last one is that of no topic
    return np.unique(shard.labels)


def _sharp(likelihood: Any) -> Any:
    """The pilot's likelihood: with a large fixed eta random topics hardly diverge, and merges would leave only one; and
    the same of documents that repeat themselves."""
    eta, once = min(likelihood.eta, SHARP), replace(likelihood, repeats_after=None, after=math.inf)
    return once if isinstance(likelihood.prior, Gamma) else replace(once, prior=eta, eta=eta)


def _merged(model: Groups, state: GroupsState, labels: Array) -> Array:
    """Labels after greedy merges of atoms with similar words, as long as the model's own score rises."""
    live = state.occupied
    statistics, tables = sparse.csr_matrix(state.table.statistics[live]), state.table.tables[live].astype(float)
    group = np.repeat(np.arange(len(model.sizes)), model.sizes)
    uses = np.zeros((len(model.sizes), len(live)))
    np.add.at(uses, (group, labels), 1.0)
    masses = model.measure.expected_masses(state.hyper.measure, tables)[:-1]
    target = np.arange(len(live))
    while True:
        pairs, gains = _gains(model, state, statistics, uses, masses)
        used: set[int] = set()
        for a, b in pairs[np.argsort(-gains)][: np.count_nonzero(gains > 0)]:
            if not used & {a, b}:
                used |= {a, b}
                target[target == b] = a
                uses[:, a] += uses[:, b]
                masses[a] += masses[b]
                uses[:, b] = 0.0
        if not used:
            return target[labels]
        join = sparse.csr_matrix((np.ones(len(live)), (target, np.arange(len(live)))), shape=(len(live),) * 2)
        statistics = join @ sparse.csr_matrix(state.table.statistics[live])


def _gains(model: Groups, state: GroupsState, statistics: Any, uses: Array, masses: Array) -> tuple[Array, Array]:
    """Pairs of atoms with similar words, and what a merge adds to the log probability of words and groups."""
    likelihood = model.content.at(state.hyper.content)
    counts = np.asarray(statistics.sum(1)).ravel()
    lengths = np.sqrt(np.asarray(statistics.multiply(statistics).sum(1)).ravel())
    unit = sparse.diags(1.0 / np.maximum(lengths, 1e-300)) @ statistics
    likeness = np.triu((unit @ unit.T).toarray(), 1)
    near = np.argsort(-likeness, axis=1)[:, :NEIGHBOURS]
    pairs = np.stack([np.repeat(np.arange(len(counts)), near.shape[1]), near.ravel()], axis=1)
    pairs = pairs[likeness[tuple(pairs.T)] > 0]
    a, b = pairs.T
    alone = likelihood.log_marginal(counts, statistics)
    gains = likelihood.log_marginal(counts[a] + counts[b], statistics[a] + statistics[b]) - alone[a] - alone[b]

    def log_groups(n: Array, mass: Array) -> Array:
        return (gammaln(n + mass) - gammaln(mass)).sum(0)

    own = log_groups(uses, np.maximum(masses, 1e-300))
    for j, (x, y) in enumerate(pairs):
        gains[j] += log_groups(uses[:, x] + uses[:, y], masses[x] + masses[y]) - own[x] - own[y]
    return pairs, gains
