"""Merges of clusters, one after another (docs/jumps.md, "Merges").

The statistics of two atoms tell what they would be as one. A pair is proposed by how much it would gain. The reverse is
a cluster, each as likely as the others, that is cut: by a coin of unknown bias, for halves that are alike, or by a few
of its rows, the *seeds*, for a half that is a small corner of the cluster. Such cuts are nearly never accepted, and
needed for balance.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, is_csr
from unbounded.contracts import Engine
from unbounded.models.labelled.halves import Cuts
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures.jump import (
    Edit,
    Jumps,
    Proposal,
    WeighedHalves,
    cuts_of,
    halves_of,
    odds_of,
    sum_halves,
)
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.models.mixtures.pairs import Pairs
from unbounded.randomness import generator, key
from unbounded.rows import some_rows

SEEDS = (*24 * (0,), 4, 8, 16, 32)  # of a cut, all equally likely; 0: a coin instead
STEPS = 2  # of EM from seeds


def merge_some(model: Mixture[Any], state: MixtureState, engine: Engine, jumps: Jumps) -> MixtureState:
    """The state after some pairs were merged, or clusters cut."""
    rng = generator(model.seed, "merges", state.round)
    pending = PendingMerges(model, state, engine)
    log_cut = math.log(jumps.coin) - math.log1p(-jumps.coin)
    for number in range(jumps.merges):
        seeds = SEEDS[int(rng.random() * len(SEEDS))]
        attempt = Attempt(number, log_cut, rng.random() < jumps.coin, seeds, rng.random(3))
        if attempt.cuts:
            _cut(pending, attempt)
        elif len(pending.edit.alive) > 1:
            _merge(pending, attempt)
    return pending.relabelled()


class Attempt(NamedTuple):
    """What is drawn for one merge or cut before looking at the state."""

    number: int
    log_cut: float  # log odds of cuts
    cuts: bool
    seeds: int  # 0: a coin
    u: Array


class PendingMerges:
    """A state while pairs are merged: rows are relabelled only when they are next needed."""

    def __init__(self, model: Mixture[Any], state: MixtureState, engine: Engine):
        self.model, self.engine = model, engine
        self._begin(state)

    def _begin(self, state: MixtureState) -> None:
        self._state, self._changed = state, False
        self.edit = Edit(self.model, state, 1)
        self._pairs: Pairs | None = None

    @property
    def pairs(self) -> Pairs:
        self._pairs = self._pairs or Pairs(self.edit)
        return self._pairs

    def merge(self, a: int, b: int) -> None:
        self.edit.merge(a, b)
        self._changed, self._pairs = True, None

    def relabelled(self) -> MixtureState:
        """The state, its rows relabelled."""
        if self._changed:
            self._begin(self.edit.apply(self.engine))
        return self._state

    def decide(self, accepted: bool, cuts: Cuts, proposal: Proposal) -> None:
        """The cut that was entered into the table is made or forgotten."""
        if accepted:
            self._begin(self.edit.apply(self.engine, cuts, [proposal]))
        else:
            self.edit = Edit(self.model, self._state, 1)


def _merge(pending: PendingMerges, attempt: Attempt) -> None:
    """Try to merge a pair."""
    edit = pending.edit
    a, b, log_chance, gain = pending.pairs.draw(attempt.u[0], attempt.seeds > 0)
    # mutant: seeds of the smaller
    if attempt.seeds and attempt.u[2] * (edit.counts[a] + edit.counts[b]) < edit.counts[a]:
        a, b = b, a
    log_u = math.log(attempt.u[1])
    log_split = _log_split_probability(attempt.seeds, edit.counts[a], edit.counts[b])
    log_ratio = -_log_ratio(edit, a, b, -gain, log_chance - attempt.log_cut) + log_split  # mutant: merge ratio
    if log_u < log_ratio and attempt.seeds:  # as far as can be known without the rows
        chosen = np.searchsorted(edit.alive, [a, b])
        pending.relabelled()
        a, b = pending.edit.alive[chosen].tolist()
        log_ratio += _by_seeds(pending, attempt, (a, b)).halves.found.log_q[0]  # mutant: merge seeds
    if log_u < log_ratio:
        pending.merge(a, b)


def _cut(pending: PendingMerges, attempt: Attempt) -> None:
    """Try to cut a cluster, each as likely as the others."""
    pending.relabelled()
    edit = pending.edit
    atoms = (int(attempt.u[0] * edit.size),)
    if edit.counts[atoms[0]] <= attempt.seeds:
        return
    cuts, proposal, halves = _by_seeds(pending, attempt, atoms) if attempt.seeds else _by_coin(pending, attempt, atoms)
    if halves.stay.counts[0] == 0 or halves.away.counts[0] == 0:
        return
    gain = float(halves.gains[0])
    a, b = atoms[0], edit.size
    edit.split(a, 0, halves)
    log_split = _log_split_probability(attempt.seeds, edit.counts[a], edit.counts[b])
    if attempt.seeds:
        log_split += float(halves.found.log_q[0])  # mutant: cut by seeds
    log_u = math.log(attempt.u[1])
    log_ratio = _log_ratio(edit, a, b, gain, -attempt.log_cut) - log_split
    accepted = log_u < log_ratio  # but for the chance of the pair, which is hard to find
    accepted = accepted and log_u < log_ratio + Pairs(edit).log_chance(a, b, attempt.seeds > 0)  # mutant: cut pair
    pending.decide(accepted, cuts, proposal)


def _log_ratio(edit: Edit, a: int, b: int, gain: float, log_odds: float) -> float:
    """Log ratio for a cut of a cluster into a and b, apart from the probability of the split.

    log_odds: of a merge of this pair, against any cut.
    """
    n_whole = len(edit.alive) - 1  # mutant: coin n whole
    log_prior = edit.log_prior(float(edit.counts[a]), float(edit.counts[b]), n_whole)
    return gain + log_prior + log_odds + math.log(n_whole)  # mutant: coin choice


def _log_split_probability(seeds: int, m: float, n: float) -> float:
    """Log probability of a split into these m and n rows, against that of the same choices in the reverse merge.

    The bias of a coin is uniform, and either half may be the first. Seeds are drawn from all rows, or from the first
    half, which is first as often as the other one is large; what they say of the other rows is left out here.
    """
    if not seeds:
        # mutant: coin log coin
        return math.log(2.0) + math.lgamma(m + 1) + math.lgamma(n + 1) - math.lgamma(m + n + 2)
    if m < seeds:
        return -math.inf
    log_order = math.log(n / (m + n))  # mutant: seeds log order
    return _log_subsets(m, seeds) - _log_subsets(m + n, seeds) - log_order  # mutant: seeds log split


def _log_subsets(n: float, size: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(size + 1) - math.lgamma(n - size + 1)


# ---- ways to cut


class CutProposal(NamedTuple):
    """A cut of one set, and the halves that it makes."""

    cuts: Cuts
    proposal: Proposal
    halves: WeighedHalves


def _by_coin(pending: PendingMerges, attempt: Attempt, atoms: tuple[int, ...]) -> CutProposal:
    model, bias = pending.model, float(attempt.u[2])
    odds = np.zeros((1, model.likelihood.n_terms + 1))
    odds[0, -1] = math.log(bias) - math.log1p(-bias)
    proposal = Proposal((), atoms)
    cuts = cuts_of([proposal], odds, _halves_key(pending, attempt))
    return CutProposal(cuts, proposal, halves_of(pending.edit, pending.engine, cuts, [proposal]))


def _by_seeds(pending: PendingMerges, attempt: Attempt, atoms: tuple[int, ...]) -> CutProposal:
    """Cut by how much rows are like the seeds, which were drawn from the first of the atoms, and how much like others.

    A few steps of EM over all rows come first. All of it is a function of the seeds and of the set: not of its halves.
    """
    edit, engine, likelihood = pending.edit, pending.engine, pending.model.likelihood
    rows, terms = _seeds(pending, attempt, atoms[0])
    proposal = Proposal(tuple(rows.tolist()), atoms)
    whole = edit.wholes([proposal])
    first = Atoms(np.array([float(attempt.seeds)]), terms.sum(0)[None])
    halves = first, Atoms(whole.counts - first.counts, whole.statistics - first.statistics)  # mutant: seeds rest
    for _ in range(STEPS):
        soft = cuts_of([proposal], odds_of(likelihood, *halves))
        halves = sum_halves(edit, engine, soft, [proposal]).halves(whole)
    cuts = cuts_of([proposal], odds_of(likelihood, *halves), _halves_key(pending, attempt))
    return CutProposal(cuts, proposal, halves_of(edit, engine, cuts, [proposal]))


def _halves_key(pending: PendingMerges, attempt: Attempt) -> np.uint64:
    return key(pending.model.seed, "cut", pending.edit.state.round, attempt.number)


def _seeds(pending: PendingMerges, attempt: Attempt, atom: int) -> tuple[Array, Array]:
    """(numbers, terms) of random rows of an atom.

    Every shard shuffles some of its own; how many come from each of them is drawn from how many each has.
    """
    model, round_ = pending.model, pending.edit.state.round
    codes = [np.flatnonzero(positions == atom) for positions in pending.edit.positions]
    parts = pending.engine.map(partial(_seeds_on, model, (round_, attempt.number), attempt.seeds), codes)
    rng = generator(model.seed, "seeds of shards", round_, attempt.number)
    sizes = rng.multivariate_hypergeometric([size for size, _, _ in parts], attempt.seeds)
    taken = [(rows[:k], terms[:k]) for (_, rows, terms), k in zip(parts, sizes.tolist(), strict=True)]
    return np.concatenate([rows for rows, _ in taken]), np.concatenate([terms for _, terms in taken])


def _seeds_on(
    model: Mixture[Any], when: tuple[int, int], most: int, shard: LabelShard, codes: Array
) -> tuple[int, Array, Array]:
    """(rows of the atom on this shard, numbers and terms of some of them in random order)."""
    rows = shard.members(codes)
    rng = generator(model.seed, "seeds", *when, shard.index)
    chosen = rng.choice(rows, min(most, len(rows)), replace=False)
    found = some_rows(shard.data, chosen, model.likelihood.n_terms)
    terms = found.toarray() if is_csr(found) else model.likelihood.terms(found)
    return len(rows), shard.first + chosen, terms
