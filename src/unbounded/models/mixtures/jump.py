"""Moves of whole atoms: a cluster is cut in two, or two become one (docs/jumps.md).

**Cuts.** An anchor row i and a coin are drawn without looking at the labels. C is the cluster of i or, if the coin says
so, that cluster and the one of another random row. A *launch*, which sees C but not who in C is with whom, gives every
other row of C a probability p of leaving i. If C is one cluster, its halves are drawn from p; if it is two, they are
what they are; both ways the probability q of the halves is known, and with it the ratio of Metropolis and Hastings.
Cuts of disjoint sets go through the rows together: C is chosen with a probability s(C | Z), the move inside of C is
reversible with respect to the posterior times s, and does not change what was said about the sets chosen before.

**Merges.** The statistics of two atoms tell what they would be as one. A pair is proposed by how much it would gain;
the reverse is a cluster cut by a coin of unknown bias, which is nearly never accepted, and needed for balance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import entr, expit

from unbounded.arrays import Array, is_csr
from unbounded.contracts import Engine, Message, Summary
from unbounded.likelihoods.base import Bound
from unbounded.models.labelled import labels as labelled
from unbounded.models.labelled.halves import Cuts, Sides
from unbounded.models.labelled.labels import Atoms, LabelShard, numbered, recode
from unbounded.models.mixtures.model import AtomTable, Mixture, MixtureState
from unbounded.randomness import generator, key
from unbounded.rows import boundaries, some_rows

TRIES, STEPS = 2, 6  # of a launch
HOPELESS = (0.1, 0.03, 0.01)  # nats a row by which halves may look worse than one cluster, after each pass
SLACK = 30.0  # nats
UNLIKELY, FAR = 1e-9, 1e-12  # weights of pairs of neighbours that gain nothing, and of others
MANY_ROWS, MOST_ROUNDS = 20_000, 8
NEIGHBOURS = 6


@dataclass(frozen=True)
class Jumps:
    """How much is tried in a round; nothing of it depends on the labels.

    every: rounds from one to the next that have such moves; by default one, more where rows are few and rounds short.
    anchors: cuts at most. share: of the rows, after which there are no more of them. pool: rows that launches see
    first. passes: over all rows of a set, to find its halves. joined: chance that C is two clusters; those that are
    right are seldom worth a try. merges: pairs. coin: chance that a cluster is cut by a coin, and no pair merged.
    """

    every: int | None = None
    anchors: int = 64
    share: float = 0.2
    pool: int = 1024
    passes: int = 3
    joined: float = 0.05
    merges: int = 8
    coin: float = 0.0625

    def __post_init__(self) -> None:
        for name, least in (("every", 1), ("anchors", 0), ("pool", 2), ("passes", 0), ("merges", 0)):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value >= least) and not (name == "every" and value is None):
                raise ValueError(f"Jumps: {name} must be an integer of at least {least}, got {value!r}.")
        for name in ("share", "joined", "coin"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.floating) and value > 0.0 and (value < 1.0 or name == "share")):
                raise ValueError(f"Jumps: {name} must be between 0 and 1, got {value!r}.")

    def due(self, round_: int, n_rows: int) -> bool:
        every = max(1, min(MOST_ROUNDS, MANY_ROWS // n_rows)) if self.every is None else self.every
        return round_ % every == every - 1


def jump(model: Mixture[Any], state: MixtureState, engine: Engine, jumps: Jumps) -> MixtureState:
    """The state after some cuts and some merges."""
    if not jumps.due(state.round, model.n_rows):
        return state
    state = cut_some(model, state, engine, jumps)
    return merge_some(model, state, engine, jumps)


class Edit:
    """The occupied atoms of a state while moves change them: first those of the state, then second halves of cuts.

    An atom without rows is gone. `code` says where the rows of each of them are now.
    """

    def __init__(self, model: Mixture[Any], state: MixtureState, n_cuts: int = 0):
        self.model, self.state = model, state
        table, live = state.table, state.occupied
        self.size = len(live)  # of the state
        self.counts = np.append(table.counts[live], np.zeros(n_cuts))
        self.statistics = np.concatenate([table.statistics[live], np.zeros((n_cuts, table.statistics.shape[1]))])
        self.owner = np.append(table.owner[live], np.full(n_cuts, -1))
        self.code = np.arange(self.size + n_cuts)
        self._position = numbered(state)

    @property
    def alive(self) -> Array:
        return np.flatnonzero(self.counts > 0)

    def positions(self, p: int) -> Array:
        """The atom of each of shard p's codes, or -1."""
        return recode(self.state, self._position, p)

    def wholes(self, proposals: Sequence[Proposal]) -> Atoms:
        """What every set would be as one atom."""
        first = [atoms[0] for _, atoms in proposals]
        counts, statistics = self.counts[first], self.statistics[first]
        for m, (_, atoms) in enumerate(proposals):
            for b in atoms[1:]:
                counts[m] += self.counts[b]
                statistics[m] += self.statistics[b]
        return Atoms(counts, statistics)

    def gains(self, stay: Atoms, away: Atoms) -> Array:
        """Log marginals of halves against those of the sets as one."""
        m = len(stay.counts)
        parts = [np.concatenate([s, t, s + t]) for s, t in zip(stay, away, strict=True)]
        log_marginal = self.model.likelihood.log_marginal(*parts)
        return log_marginal[:m] + log_marginal[m : 2 * m] - log_marginal[2 * m :]

    def log_prior(self, stay: float, away: float, n_whole: int) -> float:
        """Log prior of halves with so many rows against that of one atom, which is one of n_whole."""
        return -float(self.model.measure.log_merge(self.state.hyper, np.float64(stay), np.float64(away), n_whole + 1))

    def split(self, a: int, cut: int, stay: Atoms, away: Atoms, owners: Array) -> None:
        """The halves of a cut of atom a become atoms of their own."""
        for atom, half, owner in ((a, stay, owners[0]), (self.size + cut, away, owners[1])):
            self.counts[atom], self.statistics[atom], self.owner[atom] = half.counts[cut], half.statistics[cut], owner

    def merge(self, a: int, b: int) -> None:
        self.counts[a] += self.counts[b]
        self.statistics[a] += self.statistics[b]
        self.owner[a] = self.owner[a] if self.owner[a] == self.owner[b] else -1
        self.counts[b] = 0.0
        self.code[self.code == b] = a

    def apply(self, engine: Engine, cuts: Cuts | None = None, proposals: Sequence[Proposal] = ()) -> MixtureState:
        """Tell the shards; from here on every atom is coded as a shared one."""
        alive = self.alive
        new = np.full(len(self.counts), -1, np.int32)
        new[alive] = np.arange(len(alive))
        codes = new[self.code]
        own = []
        for p in range(self.model.n_shards):
            positions = self.positions(p)
            fresh = np.where(codes[self.size :] >= 0, len(positions) + np.arange(len(proposals)), -1)
            mine = np.where(positions >= 0, codes[positions], -1)
            sides = _sides(positions, proposals)._replace(fresh=fresh)
            own.append((sides, np.append(mine, codes[self.size :]).astype(np.int32)))
        engine.map(partial(_apply, self.model, cuts), own)
        table = AtomTable(self.counts[alive].astype(np.int64), self.statistics[alive], self.owner[alive])
        none = np.zeros_like(self.state.n_private)
        return MixtureState(self.state.round, self.state.hyper, table, len(alive), none)


def _apply(model: Mixture[Any], cuts: Cuts | None, shard: LabelShard, own: tuple[Sides, Array]) -> None:
    """Cut once more, for good: halves kept aside would be state that no checkpoint knows."""
    sides, codes = own
    if cuts is not None and (sides.fresh >= 0).any():
        model.kernel.halve(shard, cuts, sides)
    labelled.relabel(shard.labels, codes)


# ---- a pass over rows


class Proposal(NamedTuple):
    """C: one atom to be cut, or two that are as they are, the first with the anchor."""

    anchor: int
    atoms: tuple[int, ...]


def _sides(positions: Array, proposals: Sequence[Proposal]) -> Sides:
    """Which of a shard's codes belong to which cut."""
    most = int(positions.max(initial=-1)) + 1
    cut, side = np.full(most + 1, -1), np.full(most + 1, -1)  # the last is that of codes without rows
    for m, (_, atoms) in enumerate(proposals):
        for half, atom in enumerate(atoms):
            if atom < most:
                cut[atom], side[atom] = m, half if len(atoms) == 2 else -1
    return Sides(cut[positions], side[positions], np.full(len(proposals), -1))


class Found(NamedTuple):
    """The sum of all shards' halves, and which shards have rows of each: how many shards and, if it is one, which."""

    totals: Array  # [M, F + 1]
    log_q: Array  # [M]
    shards: Array  # [2, M]
    owner: Array  # [2, M]

    def halves(self, wholes: Atoms) -> tuple[Atoms, Atoms]:
        """(first halves, second halves)."""
        n, away = self.totals[:, -1], self.totals[:, :-1]
        return Atoms(wholes.counts - n, wholes.statistics - away), Atoms(n, away)

    def owners(self, m: int) -> Array:
        return np.where(self.shards[:, m] == 1, self.owner[:, m], -1)


def _pass(edit: Edit, engine: Engine, cuts: Cuts, proposals: Sequence[Proposal]) -> Found:
    own = [_sides(edit.positions(p), proposals) for p in range(edit.model.n_shards)]
    return Found(**engine.run(partial(_found_on, edit.model), Message(cuts, own)).shared)


def _found_on(model: Mixture[Any], shard: LabelShard, cuts: Cuts, sides: Sides) -> Summary:
    totals, log_q, rows = model.kernel.halve(shard, cuts, sides)
    there = np.stack([rows - totals[:, -1] > 0, totals[:, -1] > 0]).astype(np.int64)
    return Summary({"totals": totals, "log_q": log_q, "shards": there, "owner": there * shard.index}, {})


# ---- cuts


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
    edges = boundaries(model.n_rows, model.n_shards)
    homes = [np.searchsorted(edges, rows, side="right") - 1 for rows in (pool, partners)]
    own = [
        (pool[homes[0] == p] - edges[p], partners[homes[1] == p] - edges[p], edit.positions(p))
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
    rows = some_rows(shard.data, pool, model.likelihood.columns.size)
    terms = rows if is_csr(rows) else model.coarse[0].terms(rows)
    return terms, positions[shard.labels[pool]], positions[shard.labels[partners]]


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
            proposals.append(Proposal(int(anchor), (int(a), int(b)) if join else (int(a),)))
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
    anchors = place[np.searchsorted(pool.rows, _anchors(proposals))]
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
            return np.asarray(terms.multiply(coefficients[self.sets]).sum(1)).ravel()
        return np.einsum("rf,rf->r", terms, coefficients[self.sets])


def _em(coarse: Bound, terms: Any, runs: Runs, anchors: Array, seeds: Array) -> tuple[Array, Array]:
    """(log odds, log evidence of the halves they lead to) for every set."""
    ones = np.ones(len(seeds))
    counts, total = np.diff(runs.starts).astype(float), runs.sums(terms, np.ones(len(runs.sets)))
    stay, away = Atoms(ones, _dense(terms[anchors])), Atoms(ones, _dense(terms[seeds]))
    p = odds = np.empty(0)
    for _ in range(STEPS):
        odds = _odds(coarse, stay, away)
        p = expit(runs.dot(terms, odds[:, :-1]) + odds[runs.sets, -1])
        away = Atoms(np.add.reduceat(p, runs.starts[:-1]), runs.sums(terms, p))
        stay = Atoms(counts - away.counts, total - away.statistics)
    entropy = np.add.reduceat(entr(p) + entr(1.0 - p), runs.starts[:-1])
    return odds, coarse.log_marginal(*away) + coarse.log_marginal(
        np.maximum(stay.counts, 0.0), stay.statistics
    ) + entropy


def _odds(likelihood: Bound, stay: Atoms, away: Atoms) -> Array:
    """[M, F + 1] log odds of the second half against the first, given (soft) statistics of both."""
    counts = np.maximum(np.concatenate([stay.counts, away.counts]), 0.0)
    bias, eta = likelihood.natural(likelihood.centre(counts, np.concatenate([stay.statistics, away.statistics])))
    bias = bias + np.log(counts + 0.5)
    m = len(stay.counts)
    return np.column_stack([eta[m:] - eta[:m], bias[m:] - bias[:m]])


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
        found = _pass(edit, engine, Cuts(odds[worth], _anchors(some), np.uint64(0), True), some)
        stay, away = found.halves(Atoms(whole.counts[worth], whole.statistics[worth]))
        gain = edit.gains(stay, away) - found.log_q
        # What K adds to the prior is left out: it is not the same before and after.
        gain -= measure.log_merge(edit.state.hyper, np.maximum(stay.counts, 1.0), np.maximum(away.counts, 1.0), 2)
        odds[worth] = _odds(edit.model.likelihood, stay, away)
        # mutant: cut worth
        worth = worth[gain > -HOPELESS[min(k, len(HOPELESS) - 1)] * whole.counts[worth] - SLACK]
    return odds, worth


def _anchors(proposals: Sequence[Proposal]) -> Array:
    return np.array([anchor for anchor, _ in proposals])


def _decide(
    edit: Edit, engine: Engine, proposals: Sequence[Proposal], odds: Array, log_joined: float, rng: np.random.Generator
) -> MixtureState:
    """Draw halves, or find the log probability of those there are, and accept or refuse one set after another."""
    model, state = edit.model, edit.state
    cuts = Cuts(odds, _anchors(proposals), key(model.seed, "halves", state.round), False)
    found = _pass(edit, engine, cuts, proposals)
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


# ---- merges


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
    found = _pass(edit, engine, cuts, [proposal])
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
        self.gains = _gains(self.likelihood, self.counts, self.statistics, i, j)
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
        gain = _gains(self.likelihood, self.counts, self.statistics, i[[q]], j[[q]])[0]
        return self._pair(i[q], j[q], FAR, gain)

    def _pair(self, i: int, j: int, weight: float, gain: float) -> tuple[int, int, float, float]:
        return int(self.atoms[i]), int(self.atoms[j]), math.log(weight / self.total), float(gain)

    def log_chance(self, a: int, b: int) -> float:
        i, j = np.sort(np.searchsorted(self.atoms, [a, b]))
        weight = self.weights[(self.first == i) & (self.second == j)]
        return math.log((weight[0] if len(weight) else FAR) / self.total)


def _gains(likelihood: Bound, counts: Array, statistics: Array, i: Array, j: Array) -> Array:
    """Log marginals gained by merging atoms i and j."""
    alone = likelihood.log_marginal(counts, statistics)
    return likelihood.log_marginal(counts[i] + counts[j], statistics[i] + statistics[j]) - alone[i] - alone[j]


def _gaps(likelihood: Bound, counts: Array, statistics: Array) -> Array:
    """[K, K]: log likelihood lost when the rows of two atoms change places; infinite for an atom with itself."""
    bias, eta = likelihood.natural(likelihood.centre(counts, statistics))
    score = statistics @ eta.T + counts[:, None] * bias
    lost = np.diagonal(score)[:, None] - score
    gap: Array = lost + lost.T
    np.fill_diagonal(gap, np.inf)
    return gap
