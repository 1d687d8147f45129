"""Moves of whole atoms: a cluster is cut in two, or two become one (docs/jumps.md).

How much of it is tried, and what cuts (cuts.py) and merges (merges.py) share: the table of atoms while they change it,
and passes over the rows of sets, each of which is one atom to be cut or two that are as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message, Summary
from unbounded.likelihoods.base import Bound
from unbounded.models.labelled.halves import Cuts, Sides
from unbounded.models.labelled.labels import Atoms, LabelShard, numbered, recode
from unbounded.models.mixtures.model import AtomTable, Mixture, MixtureState

EARLY = 64  # rounds
LONG_SWEEP, MOST_ROUNDS = 3_600_000, 32  # cells of a sweep that is long beside what a jump takes anyway; rounds


@dataclass(frozen=True)
class Jumps:
    """How much is tried in a round; nothing of it depends on the labels.

    every: rounds from one to the next that have such moves; by default one, up to 32 where cells are few and rounds
    short.
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
    merges: int = 10
    coin: float = 0.03125

    def __post_init__(self) -> None:
        for name, least in (("every", 1), ("anchors", 0), ("pool", 2), ("passes", 0), ("merges", 0)):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value >= least) and not (name == "every" and value is None):
                raise ValueError(f"Jumps: {name} must be an integer of at least {least}, got {value!r}.")
        for name in ("share", "joined", "coin"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.floating) and value > 0.0 and (value < 1.0 or name == "share")):
                raise ValueError(f"Jumps: {name} must be between 0 and 1, got {value!r}.")

    def due(self, round_: int, n_rows: int, n_columns: int = 1) -> bool:
        """By default by the square root of a sweep's length, since short rounds have costs of their own, too; and in
        every second of the first rounds, which may have come from anywhere."""
        every = self.every
        if every is None:
            every = max(1, min(MOST_ROUNDS, round(math.sqrt(LONG_SWEEP / (n_rows * (2 + n_columns))))))
            every = min(every, 2) if round_ < EARLY else every
        return round_ % every == every - 1


def chosen_jumps(jumps: bool | Jumps, usual: Jumps, able: bool) -> Jumps | None:
    """What the user of an estimator asks for; able: whether the sampler that was chosen has such moves."""
    if not isinstance(jumps, bool | np.bool_ | Jumps):
        raise ValueError(f"jumps must be True, False or Jumps(...), got {jumps!r}.")
    if isinstance(jumps, Jumps) and not able:
        raise ValueError("jumps=Jumps(...) belongs to sampler='hybrid' with an exact rule: others have no jumps.")
    return jumps if isinstance(jumps, Jumps) else usual if jumps else None


class Edit:
    """The occupied atoms of a state while moves change them: first those of the state, then second halves of cuts.

    An atom without rows is gone. `code` says where the rows of each of them are now.
    """

    def __init__(self, model: Mixture[Any], state: MixtureState, n_cuts: int = 0):
        self.model, self.state = model, state
        table, live = state.table, state.occupied
        self.size = len(live)  # of the state
        self.counts = np.append(table.counts[live], np.zeros(n_cuts))
        self.statistics = np.zeros((self.size + n_cuts, table.statistics.shape[1]))
        self.statistics[: self.size] = table.statistics if self.size == len(table.counts) else table.statistics[live]
        self.owner = np.append(table.owner[live], np.full(n_cuts, -1))
        self.code = np.arange(self.size + n_cuts)
        number = numbered(state)
        self.positions = [recode(state, number, p) for p in range(model.n_shards)]  # by shard and code; or -1

    @property
    def alive(self) -> Array:
        return np.flatnonzero(self.counts > 0)

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
            positions = self.positions[p]
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
    shard.relabel(codes)


# ---- a pass over rows


class Proposal(NamedTuple):
    """C: one atom to be cut, or two that are as they are, the first with the anchors."""

    anchors: tuple[int, ...]
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


def through_rows(edit: Edit, engine: Engine, cuts: Cuts, proposals: Sequence[Proposal]) -> Found:
    """One pass over the rows of all sets."""
    own = [_sides(positions, proposals) for positions in edit.positions]
    return Found(**engine.run(partial(_found_on, edit.model), Message(cuts, own)).shared)


def _found_on(model: Mixture[Any], shard: LabelShard, cuts: Cuts, sides: Sides) -> Summary:
    totals, log_q, rows = model.kernel.halve(shard, cuts, sides)
    there = np.stack([rows - totals[:, -1] > 0, totals[:, -1] > 0]).astype(np.int64)
    return Summary({"totals": totals, "log_q": log_q, "shards": there, "owner": there * shard.index}, {})


def odds_of(likelihood: Bound, stay: Atoms, away: Atoms) -> Array:
    """[M, F + 1] log odds of the second half against the first, given (soft) statistics of both."""
    counts = np.maximum(np.concatenate([stay.counts, away.counts]), 0.0)
    bias, eta = likelihood.natural(likelihood.centre(counts, np.concatenate([stay.statistics, away.statistics])))
    bias = bias + np.log(counts + 0.5)
    m = len(stay.counts)
    return np.column_stack([eta[m:] - eta[:m], bias[m:] - bias[:m]])
