"""Launches: how rows of a set of rows might be cut in two, found without a look at who is with whom (docs/jumps.md).

A random pool of rows comes to the driver. A few steps of EM over those of the set give a first guess, and some over
all rows of the set, on the shards, the log odds of a cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import entr, expit

from unbounded.arrays import Array, is_csr
from unbounded.contracts import Engine
from unbounded.likelihoods.base import Bound
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures.jump import Edit, Proposal, cuts_of, odds_of, sum_halves
from unbounded.models.mixtures.model import Mixture
from unbounded.rows import some_rows

TRIES, STEPS = 2, 6  # of a launch
TINY = 1e-9
SHARP = 2.0  # the least standard deviation of the first log odds
HOPELESS = 0.1  # nats a row by which halves may be worse than one cluster after the first pass
AHEAD = 5.0  # passes, over which halves that go on improving as they do must become worth a try
DONE = 2.0  # nats: a pass that gains less is the last
SLACK = 20.0  # nats


class Pool(NamedTuple):
    """Random rows at the driver: their numbers, terms of the coarse likelihood, and atoms."""

    rows: Array
    terms: Any
    atoms: Array


def draw_pool(n_rows: int, most: int, rng: np.random.Generator) -> Array:
    """Numbers of random rows, in order; all of them where they are few."""
    return np.arange(n_rows) if n_rows <= most else np.unique(rng.integers(0, n_rows, most))


def fetch(edit: Edit, engine: Engine, rows: Array, others: Array) -> tuple[Pool, Array]:
    """(the pool of these rows, atoms of others)."""
    model = edit.model
    edges = model.edges
    homes = [np.searchsorted(edges, numbers, side="right") - 1 for numbers in (rows, others)]
    own = [
        (rows[homes[0] == p] - edges[p], others[homes[1] == p] - edges[p], edit.positions[p])
        for p in range(model.n_shards)
    ]
    parts = engine.map(partial(_fetched, model), own)
    atoms = np.empty(len(others), np.int64)
    for p, part in enumerate(parts):
        atoms[homes[1] == p] = part[2]
    stack = sparse.vstack if is_csr(parts[0][0]) else np.concatenate
    return Pool(rows, stack([part[0] for part in parts]), np.concatenate([part[1] for part in parts])), atoms


def _fetched(model: Mixture[Any], shard: LabelShard, own: tuple[Array, Array, Array]) -> tuple[Any, Array, Array]:
    pool, others, positions = own
    rows = some_rows(shard.data, pool, model.likelihood.n_terms)
    coarse, which = model.coarse
    terms = rows[:, which] if is_csr(rows) else coarse.terms(rows)
    return terms, positions[shard.labels_of(pool)], positions[shard.labels_of(others)]


class Launched(NamedTuple):
    """Sets whose halves may be worth a try, and their log odds."""

    proposals: list[Proposal]
    odds: Array


def launch(
    edit: Edit, engine: Engine, pool: Pool, proposals: Sequence[Proposal], passes: int, rng: np.random.Generator
) -> Launched:
    """Log odds for every set, as a function of the set and of fresh randomness: not of its halves."""
    sets = np.full(edit.size, -1)
    for m, proposal in enumerate(proposals):
        sets[list(proposal.atoms)] = m  # mutant: cut sets
    whole = edit.wholes(proposals)
    odds = _first_guess(edit.model, pool._replace(atoms=sets[pool.atoms]), proposals, whole.counts, rng)
    worth = _refine(edit, engine, proposals, odds, passes)
    return Launched([proposals[m] for m in worth.tolist()], odds[worth])


def _first_guess(
    model: Mixture[Any], pool: Pool, proposals: Sequence[Proposal], sizes: Array, rng: np.random.Generator
) -> Array:
    """[M, F + 1]: log odds of leaving the anchor, by EM from two rows of the pool with the coarse likelihood.

    From the anchor and each of some other rows; what looks best is taken. The pool has sets in the place of atoms.
    """
    coarse, which = model.coarse
    m, order = len(proposals), np.flatnonzero(pool.atoms >= 0)
    order = order[np.argsort(pool.atoms[order], kind="stable")]
    starts = np.searchsorted(pool.atoms[order], np.arange(m + 1))
    others = np.maximum(np.diff(starts) - 1, 1)
    place = np.full(len(pool.atoms) + 1, -1)
    place[order] = np.arange(len(order))
    anchors = place[np.searchsorted(pool.rows, [proposal.anchors[0] for proposal in proposals])]
    seeds = starts[:-1] + (rng.random((TRIES, m)) * others).astype(np.int64)
    seeds += (seeds >= anchors) & (np.diff(starts) > 1)
    partners = np.array([proposal.partner for proposal in proposals])
    seeds[0] = np.where(partners >= 0, place[np.searchsorted(pool.rows, partners)], seeds[0])
    # Every try as if it had sets of its own.
    shift = len(order) * np.arange(TRIES)[:, None]
    runs = Runs.of(np.append((starts[:-1] + shift).ravel(), TRIES * len(order)))
    terms = _repeated(pool.terms[order], TRIES)
    odds, gains = _em(coarse, terms, runs, ((anchors + shift).ravel(), (seeds + shift).ravel()), np.tile(sizes, TRIES))
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


def _em(coarse: Bound, terms: Any, runs: Runs, seeds: tuple[Array, Array], sizes: Array) -> tuple[Array, Array]:
    """(log odds, log evidence of the halves they lead to) for every set, from two of its rows.

    Rows of the pool stand for all rows of their set. What a few of them say would be little beside a prior that is as
    wide as all the data, and the halves of a small cluster would soon be alike.
    """
    each = sizes / np.diff(runs.starts)
    total = each[:, None] * runs.sums(terms, np.ones(len(runs.sets)))
    stay, away = (Atoms(np.ones(len(rows)), _dense(terms[rows])) for rows in seeds)
    p = odds = np.empty(0)
    for step in range(STEPS):
        odds = odds_of(coarse, stay, away)
        log_odds = runs.dot(terms, odds[:, :-1]) + odds[runs.sets, -1]
        if step == 0:
            log_odds *= _sharpening(runs, log_odds)[runs.sets]
        p = expit(log_odds)
        away = Atoms(each * np.add.reduceat(p, runs.starts[:-1]), each[:, None] * runs.sums(terms, p))
        stay = Atoms(sizes - away.counts, total - away.statistics)
    entropy = each * np.add.reduceat(entr(p) + entr(1.0 - p), runs.starts[:-1])
    return odds, coarse.log_marginal(*away) + coarse.log_marginal(
        np.maximum(stay.counts, 0.0), stay.statistics
    ) + entropy


def _sharpening(runs: Runs, log_odds: Array) -> Array:
    """Factor that sharpens log odds estimated from only two rows."""
    counts = np.diff(runs.starts)
    mean = np.add.reduceat(log_odds, runs.starts[:-1]) / counts
    spread = np.sqrt(np.add.reduceat((log_odds - mean[runs.sets]) ** 2, runs.starts[:-1]) / counts)
    return np.maximum(1.0, SHARP / np.maximum(spread, TINY))


def _repeated(terms: Any, times: int) -> Any:
    return sparse.vstack([terms] * times, format="csr") if is_csr(terms) else np.tile(terms, (times, 1))


def _dense(terms: Any) -> Array:
    return np.asarray(terms.todense()) if is_csr(terms) else terms


def _refine(edit: Edit, engine: Engine, proposals: Sequence[Proposal], odds: Array, passes: int) -> Array:
    """Improve log odds by EM over all rows of every set; returns the sets whose halves may be worth a try."""
    whole = edit.wholes(proposals)
    worth = whole.counts > 1
    going, last = worth.copy(), np.full(len(worth), -np.inf)
    for k in range(passes):
        now = np.flatnonzero(going)
        if not len(now):
            break
        some = [proposals[m] for m in now.tolist()]
        found = sum_halves(edit, engine, cuts_of(some, odds[now]), some)
        stay, away = found.halves(Atoms(whole.counts[now], whole.statistics[now]))
        odds[now] = odds_of(edit.model.likelihood, stay, away)
        gain = edit.gains(stay, away) - found.log_q
        # What K adds to the prior is left out: it is not the same before and after.
        gain -= edit.model.measure.log_merge(
            edit.state.hyper, np.maximum(stay.counts, 1.0), np.maximum(away.counts, 1.0), 2
        )
        step = np.maximum(gain - last[now], 0.0) if k else HOPELESS / AHEAD * whole.counts[now]
        worth[now] = gain + AHEAD * step > -SLACK  # mutant: cut worth
        going[now] = worth[now] & ((step > DONE) | (k == 0))
        last[now] = gain
    return np.flatnonzero(worth)
