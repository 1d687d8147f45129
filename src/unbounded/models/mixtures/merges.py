"""Merges of clusters (docs/jumps.md, "Merges").

The statistics of two atoms tell what they would be as one. A pair is proposed by how much it would gain; the reverse is
a cluster cut by a coin of unknown bias, which is nearly never accepted, and needed for balance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

from unbounded.arrays import Array
from unbounded.contracts import Engine
from unbounded.likelihoods.base import Bound
from unbounded.models.labelled.halves import Cuts
from unbounded.models.mixtures.jump import Edit, Jumps, Proposal, through_rows
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.randomness import generator, key

UNLIKELY, FAR = 1e-9, 1e-12  # weights of pairs of neighbours that gain nothing, and of others
NEIGHBOURS = 6


def merge_some(model: Mixture[Any], state: MixtureState, engine: Engine, jumps: Jumps) -> MixtureState:
    """The state after some pairs were merged, or clusters cut by a coin, one after another."""
    rng = generator(model.seed, "merges", state.round)
    edit, changed, pairs = Edit(model, state), False, None
    log_cut = math.log(jumps.coin) - math.log1p(-jumps.coin)
    for turn in range(jumps.merges):
        cut, u = rng.random() < jumps.coin, rng.random(3)
        if cut:
            state = edit.apply(engine) if changed else state
            after = _cut_by_coin(model, state, engine, turn, log_cut, u)
            if changed or after is not state:
                state, edit, changed, pairs = after, Edit(model, after), False, None
        elif len(edit.alive) > 1:
            pairs = pairs or Pairs(edit)
            a, b, log_chance, gain = pairs.draw(u[0])
            # mutant: merge decision
            if math.log(u[1]) < -_log_coin_ratio(edit, a, b, -gain, log_chance - log_cut):
                edit.merge(a, b)
                changed, pairs = True, None
    return edit.apply(engine) if changed else state


def _log_coin_ratio(edit: Edit, a: int, b: int, gain: float, log_odds: float) -> float:
    """Log ratio for a coin that cuts a cluster into a and b; log_odds: of a merge of this pair, against any cut."""
    m, n = float(edit.counts[a]), float(edit.counts[b])
    n_whole = len(edit.alive) - 1  # mutant: coin n whole
    # The bias of the coin is uniform, and either half may be the first.
    # mutant: coin log coin
    log_coin = math.log(2.0) + math.lgamma(m + 1) + math.lgamma(n + 1) - math.lgamma(m + n + 2) - math.log(n_whole)
    return gain + edit.log_prior(m, n, n_whole) + log_odds - log_coin


def _cut_by_coin(
    model: Mixture[Any], state: MixtureState, engine: Engine, turn: int, log_cut: float, u: Array
) -> MixtureState:
    """The state after a try to cut a cluster, each as likely as the others."""
    edit = Edit(model, state, 1)
    proposal = Proposal(-1, (int(u[0] * edit.size),))
    odds = np.zeros((1, model.likelihood.n_terms + 1))
    odds[0, -1] = math.log(u[2]) - math.log1p(-u[2])
    cuts = Cuts(odds, np.array([-1]), key(model.seed, "coin", state.round, turn), False)
    found = through_rows(edit, engine, cuts, [proposal])
    stay, away = found.halves(edit.wholes([proposal]))
    if stay.counts[0] == 0 or away.counts[0] == 0:
        return state
    gain = float(edit.gains(stay, away)[0])
    a, b = proposal.atoms[0], edit.size
    edit.split(a, 0, stay, away, found.owners(0))
    log_ratio = _log_coin_ratio(edit, a, b, gain, -log_cut)  # but for the chance of the pair, which is hard to find
    # mutant: coin decision
    if math.log(u[1]) < log_ratio and math.log(u[1]) < log_ratio + Pairs(edit).log_chance(a, b):
        return edit.apply(engine, cuts, [proposal])
    return state


class Pairs:
    """The chance of every pair of atoms to be chosen for a merge: pairs of neighbours by what they would gain, all
    others equally, hardly any."""

    def __init__(self, edit: Edit):
        self.likelihood, self.atoms = edit.model.likelihood, edit.alive
        self.counts, self.statistics = edit.counts[self.atoms], edit.statistics[self.atoms]
        k = len(self.counts)
        i, j = np.triu_indices(k, 1)
        if k > NEIGHBOURS + 1:
            coarse, which = edit.model.coarse
            near = np.zeros((k, k), bool)
            gap = _gaps(coarse, self.counts, self.statistics[:, which])
            near[np.arange(k)[:, None], np.argpartition(gap, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]] = True
            listed = (near | near.T)[i, j]
            i, j = i[listed], j[listed]
        self.first, self.second = i, j
        self.gains = self.likelihood.merge_gains(self.counts, self.statistics, i, j)
        self.weights = expit(self.gains) + UNLIKELY
        self.total = float(self.weights.sum() + FAR * (k * (k - 1) // 2 - len(i)))

    def draw(self, u: float) -> tuple[int, int, float, float]:
        """A pair, the log of its chance, and what its merge gains."""
        sums = np.cumsum(self.weights)
        aim = u * self.total
        q = int(np.searchsorted(sums, aim, side="right"))
        if q < len(sums):
            return self._pair(self.first[q], self.second[q], self.weights[q], self.gains[q])
        k = len(self.atoms)
        i, j = np.triu_indices(k, 1)
        rest = np.flatnonzero(~np.isin(i * k + j, self.first * k + self.second))
        if not len(rest):  # rounding
            return self._pair(self.first[-1], self.second[-1], self.weights[-1], self.gains[-1])
        q = rest[min(int((aim - sums[-1]) / FAR), len(rest) - 1)]
        gain = self.likelihood.merge_gains(self.counts, self.statistics, i[[q]], j[[q]])[0]
        return self._pair(i[q], j[q], FAR, gain)

    def _pair(self, i: int, j: int, weight: float, gain: float) -> tuple[int, int, float, float]:
        return int(self.atoms[i]), int(self.atoms[j]), math.log(weight / self.total), float(gain)

    def log_chance(self, a: int, b: int) -> float:
        i, j = np.sort(np.searchsorted(self.atoms, [a, b]))
        weight = self.weights[(self.first == i) & (self.second == j)]
        return math.log((weight[0] if len(weight) else FAR) / self.total)


def _gaps(likelihood: Bound, counts: Array, statistics: Array) -> Array:
    """[K, K]: log likelihood lost when the rows of two atoms change places; infinite for an atom with itself."""
    bias, eta = likelihood.natural(likelihood.centre(counts, statistics))
    score = statistics @ eta.T + counts[:, None] * bias
    lost = np.diagonal(score)[:, None] - score
    gap: Array = lost + lost.T
    np.fill_diagonal(gap, np.inf)
    return gap
