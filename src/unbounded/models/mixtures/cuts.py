"""Cuts of clusters, many at once (docs/jumps.md, "Cuts").

An anchor row i and a coin are drawn without looking at the labels. C is the cluster of i or, if the coin says so, that
cluster and the one of another random row. A *launch*, which sees C but not who in C is with whom, gives every other row
of C a probability p of leaving i. If C is one cluster, its halves are drawn from p; if it is two, they are what they
are; both ways the probability q of the halves is known, and with it the ratio of Metropolis and Hastings. Cuts of
disjoint sets go through the rows together: C is chosen with a probability s(C | Z), the move inside of C is reversible
with respect to the posterior times s, and does not change what was said about the sets chosen before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import entr, expit

from unbounded.arrays import Array, is_csr
from unbounded.contracts import Engine
from unbounded.likelihoods.base import Bound
from unbounded.models.labelled.halves import Cuts
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures.jump import Edit, Jumps, Proposal, odds_of, through_rows
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.randomness import generator, key
from unbounded.rows import some_rows

TRIES, STEPS = 2, 6  # of a launch
HOPELESS = (0.03, 0.005, 0.0)  # nats a row by which halves may look worse than one cluster, after each pass
SLACK = 20.0  # nats


class Pool(NamedTuple):
    """Random rows at the driver: numbers, terms of the coarse likelihood, and the sets they belong to (-1: none)."""

    rows: Array
    terms: Any
    sets: Array


def cut_some(model: Mixture[Any], state: MixtureState, engine: Engine, jumps: Jumps) -> MixtureState:
    """The state after cuts of disjoint sets of rows, and cuts that were undone."""
    rng = generator(model.seed, "cuts", state.round)
    n = model.n_rows
    pool = np.arange(n) if n <= jumps.pool else np.unique(rng.integers(0, n, jumps.pool))
    partners = rng.integers(0, n, jumps.anchors)
    chosen = rng.permutation(len(pool))[: jumps.anchors]
    joined = rng.random(jumps.anchors) < jumps.joined
    edit = Edit(model, state)
    terms, atoms, others = _look(edit, engine, pool, partners)
    first = zip(pool[chosen], atoms[chosen], others, joined, strict=False)
    proposals = _disjoint(edit.counts, list(first), jumps.share * n)
    if not proposals:
        return state
    sets = np.full(edit.size, -1)
    for m, (_, members) in enumerate(proposals):
        sets[list(members)] = m  # mutant: cut sets
    odds = _launch(model, Pool(pool, terms, sets[atoms]), proposals, rng)
    odds, worth = _refine(edit, engine, proposals, odds, jumps.passes)
    if not len(worth):
        return state
    log_joined = math.log(jumps.joined) - math.log1p(-jumps.joined)
    return _decide(
        Edit(model, state, len(worth)), engine, [proposals[m] for m in worth.tolist()], odds[worth], log_joined, rng
    )


def _look(edit: Edit, engine: Engine, pool: Array, partners: Array) -> tuple[Any, Array, Array]:
    """(coarse terms of the pool's rows, their atoms, atoms of the partners)."""
    model = edit.model
    edges = model.edges
    homes = [np.searchsorted(edges, rows, side="right") - 1 for rows in (pool, partners)]
    own = [
        (pool[homes[0] == p] - edges[p], partners[homes[1] == p] - edges[p], edit.positions[p])
        for p in range(model.n_shards)
    ]
    parts = engine.map(partial(_look_at, model), own)
    others = np.empty(len(partners), np.int64)
    for p, part in enumerate(parts):
        others[homes[1] == p] = part[2]
    stack = sparse.vstack if is_csr(parts[0][0]) else np.concatenate
    return stack([part[0] for part in parts]), np.concatenate([part[1] for part in parts]), others


def _look_at(model: Mixture[Any], shard: LabelShard, own: tuple[Array, Array, Array]) -> tuple[Any, Array, Array]:
    pool, partners, positions = own
    rows = some_rows(shard.data, pool, model.likelihood.n_terms)
    coarse, which = model.coarse
    terms = rows[:, which] if is_csr(rows) else coarse.terms(rows)
    return terms, positions[shard.labels_of(pool)], positions[shard.labels_of(partners)]


def _disjoint(counts: Array, drawn: Sequence[tuple[int, int, int, bool]], most: float) -> list[Proposal]:
    """Sets in the order of (anchor, its atom, another row's atom, whether both are C).

    A set that meets one before it is left out. There are no more after `most` rows: sizes of sets stay as well.
    """
    taken = np.zeros(len(counts), bool)
    proposals: list[Proposal] = []
    for anchor, a, b, join in drawn:
        if taken[a] or (join and taken[b]):
            continue
        taken[[a, b] if join else [a]] = True  # mutant: cut taken
        if not join or a != b:
            proposals.append(Proposal((int(anchor),), (int(a), int(b)) if join else (int(a),)))
        if counts[taken].sum() >= most:
            break
    return proposals


def _launch(model: Mixture[Any], pool: Pool, proposals: Sequence[Proposal], rng: np.random.Generator) -> Array:
    """[M, F + 1]: log odds of leaving the anchor, by EM from two rows of the pool with the coarse likelihood.

    From the anchor and each of some other rows; what looks best is taken.
    """
    coarse, which = model.coarse
    m, order = len(proposals), np.flatnonzero(pool.sets >= 0)
    order = order[np.argsort(pool.sets[order], kind="stable")]
    starts = np.searchsorted(pool.sets[order], np.arange(m + 1))
    others = np.maximum(np.diff(starts) - 1, 1)
    place = np.full(len(pool.sets), -1)
    place[order] = np.arange(len(order))
    anchors = place[np.searchsorted(pool.rows, _anchors(proposals)[:, 0])]
    seeds = starts[:-1] + (rng.random((TRIES, m)) * others).astype(np.int64)
    seeds += (seeds >= anchors) & (np.diff(starts) > 1)
    # Every try as if it had sets of its own.
    shift = len(order) * np.arange(TRIES)[:, None]
    runs = Runs.of(np.append((starts[:-1] + shift).ravel(), TRIES * len(order)))
    terms = _repeated(pool.terms[order], TRIES)
    odds, gains = _em(coarse, terms, runs, (anchors + shift).ravel(), (seeds + shift).ravel())
    best = gains.reshape(TRIES, m).argmax(0) * m + np.arange(m)
    wide = np.zeros((m, model.likelihood.n_terms + 1))
    wide[:, np.append(which, -1)] = odds[best]
    return wide


class Runs(NamedTuple):
    """Rows of one set after another."""

    starts: Array
    sets: Array  # of every row

    @staticmethod
    def of(edges: Array) -> Runs:
        return Runs(edges, np.repeat(np.arange(len(edges) - 1), np.diff(edges)))

    def sums(self, terms: Any, weights: Array) -> Array:
        """Weighted sums over the rows of each set."""
        if is_csr(terms):
            by_set = sparse.csr_matrix((weights, np.arange(len(weights)), self.starts))
            return np.asarray((by_set @ terms).todense())
        return np.add.reduceat(terms * weights[:, None], self.starts[:-1], axis=0)

    def dot(self, terms: Any, coefficients: Array) -> Array:
        """Of every row, with the coefficients of its set."""
        if is_csr(terms):
            cells = terms.data * coefficients[np.repeat(self.sets, np.diff(terms.indptr)), terms.indices]
            return np.bincount(np.repeat(np.arange(terms.shape[0]), np.diff(terms.indptr)), cells, terms.shape[0])
        return np.einsum("rf,rf->r", terms, coefficients[self.sets])


def _em(coarse: Bound, terms: Any, runs: Runs, anchors: Array, seeds: Array) -> tuple[Array, Array]:
    """(log odds, log evidence of the halves they lead to) for every set."""
    ones = np.ones(len(seeds))
    counts, total = np.diff(runs.starts).astype(float), runs.sums(terms, np.ones(len(runs.sets)))
    stay, away = Atoms(ones, _dense(terms[anchors])), Atoms(ones, _dense(terms[seeds]))
    p = odds = np.empty(0)
    for _ in range(STEPS):
        odds = odds_of(coarse, stay, away)
        p = expit(runs.dot(terms, odds[:, :-1]) + odds[runs.sets, -1])
        away = Atoms(np.add.reduceat(p, runs.starts[:-1]), runs.sums(terms, p))
        stay = Atoms(counts - away.counts, total - away.statistics)
    entropy = np.add.reduceat(entr(p) + entr(1.0 - p), runs.starts[:-1])
    return odds, coarse.log_marginal(*away) + coarse.log_marginal(
        np.maximum(stay.counts, 0.0), stay.statistics
    ) + entropy


def _repeated(terms: Any, times: int) -> Any:
    return sparse.vstack([terms] * times, format="csr") if is_csr(terms) else np.tile(terms, (times, 1))


def _dense(terms: Any) -> Array:
    return np.asarray(terms.todense()) if is_csr(terms) else terms


def _refine(edit: Edit, engine: Engine, proposals: Sequence[Proposal], odds: Array, passes: int) -> tuple[Array, Array]:
    """EM over all rows of every set: (log odds, the sets whose halves may be worth it)."""
    measure = edit.model.measure
    whole = edit.wholes(proposals)
    worth = np.flatnonzero(whole.counts > 1)
    for k in range(passes):
        if not len(worth):
            break
        some = [proposals[m] for m in worth.tolist()]
        found = through_rows(edit, engine, Cuts(odds[worth], _anchors(some), np.uint64(0), True), some)
        stay, away = found.halves(Atoms(whole.counts[worth], whole.statistics[worth]))
        gain = edit.gains(stay, away) - found.log_q
        # What K adds to the prior is left out: it is not the same before and after.
        gain -= measure.log_merge(edit.state.hyper, np.maximum(stay.counts, 1.0), np.maximum(away.counts, 1.0), 2)
        odds[worth] = odds_of(edit.model.likelihood, stay, away)
        # mutant: cut worth
        worth = worth[gain > -HOPELESS[min(k, len(HOPELESS) - 1)] * whole.counts[worth] - SLACK]
    return odds, worth


def _anchors(proposals: Sequence[Proposal]) -> Array:
    """[M, 1]"""
    return np.array([anchors for anchors, _ in proposals])


def _decide(
    edit: Edit, engine: Engine, proposals: Sequence[Proposal], odds: Array, log_joined: float, rng: np.random.Generator
) -> MixtureState:
    """Draw halves, or find the log probability of those there are, and accept or refuse one set after another."""
    model, state = edit.model, edit.state
    cuts = Cuts(odds, _anchors(proposals), key(model.seed, "halves", state.round), False)
    found = through_rows(edit, engine, cuts, proposals)
    stay, away = found.halves(edit.wholes(proposals))
    gains = edit.gains(stay, away)
    changed = False
    for m, (_, atoms) in enumerate(proposals):
        log_u, n_away = math.log(rng.random()), float(away.counts[m])
        if n_away == 0.0:
            continue
        splits = len(atoms) == 1
        n_whole = len(edit.alive) - (0 if splits else 1)  # mutant: cut n whole
        log_ratio = gains[m] + edit.log_prior(float(stay.counts[m]), n_away, n_whole) - found.log_q[m]
        log_ratio += log_joined + math.log(n_away / model.n_rows)  # mutant: cut choice
        if log_u < (log_ratio if splits else -log_ratio):  # mutant: cut decision
            changed = True
            if splits:
                edit.split(atoms[0], m, stay, away, found.owners(m))
            else:
                edit.merge(*atoms)
    return edit.apply(engine, cuts, proposals) if changed else state
