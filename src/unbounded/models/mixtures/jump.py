"""Moves of whole atoms: a cluster is cut in two, or two become one (docs/jumps.md).

How much of it is tried, and what cuts (cuts.py) and merges (merges.py) share: the table of atoms while they change it,
and passes over the rows of sets, each of which is one atom to be cut or two that are as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message, Summary
from unbounded.instantiation import by_code
from unbounded.likelihoods.base import Bound
from unbounded.models.labelled.halves import Cuts, Sides
from unbounded.models.labelled.labels import Atoms, LabelShard, numbered
from unbounded.models.mixtures.model import AtomTable, Mixture, MixtureState

EARLY = 16  # rounds that may have both cuts and moves of neighbours
LONG_SWEEP, MOST_ROUNDS = 2_600_000, 20  # cells of a sweep as long as the fixed cost of a jump; rounds at most


@dataclass(frozen=True)
class Jumps:
    """How much is tried in a round; it never depends on the labels.

    Parameters
    ----------
    every : int or None, default None
        Rounds from one to the next that have such moves; None: one, up to 20 where cells are few and rounds short, and
        at first two at most. After the first rounds, cuts and moves of neighbours take turns.
    anchors : int, default 64
        Cuts at most.
    share : float, default 0.2
        Of the rows, after which there are no more cuts.
    pool : int, default 1024
        Rows that launches see first.
    passes : int, default 8
        Over all rows of a set, at most, to find its halves.
    joined : float, default 0.05
        Chance that the C of a cut is two clusters: right ones are seldom worth a try.
    merges : int, default 10
        Pairs of clusters that may be merged.
    coin : float, default 0.03125
        Chance that a cluster is cut by a coin, and no pair merged.
    pairs : int, default 32
        Pairs of near rows, at most, whose clusters are cut, joined or cut anew.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(jumps=ub.Jumps(every=1, merges=20))
    """

    every: int | None = None
    anchors: int = 64
    share: float = 0.2
    pool: int = 1024
    passes: int = 8
    joined: float = 0.05
    merges: int = 10
    coin: float = 0.03125
    pairs: int = 32

    def __post_init__(self) -> None:
        for name, least in (("every", 1), ("anchors", 0), ("pool", 2), ("passes", 0), ("merges", 0), ("pairs", 0)):
            value = getattr(self, name)
            if not (isinstance(value, int | np.integer) and value >= least) and not (name == "every" and value is None):
                raise ValueError(f"Jumps: {name} must be an integer of at least {least}, got {value!r}.")
        for name in ("share", "joined", "coin"):
            value = getattr(self, name)
            if not (isinstance(value, int | float | np.floating) and value > 0.0 and (value < 1.0 or name == "share")):
                raise ValueError(f"Jumps: {name} must be between 0 and 1, got {value!r}.")

    def every_of(self, round_: int, n_rows: int, n_columns: int = 1) -> int:
        """Rounds from one jump to the next: by default more the shorter a sweep is, though not in proportion, since
        short rounds have costs of their own. A chain may start anywhere, so early gaps are two rounds at most;
        from the 32nd round they are four, and go on doubling up to their final length.

        Examples
        --------
        >>> ub.Jumps(every=3).every_of(500, n_rows=1_000)
        3
        >>> ub.Jumps().every_of(0, n_rows=100), ub.Jumps().every_of(10_000, n_rows=100) > 2
        (2, True)
        """
        if self.every is not None:
            return self.every
        every = round((LONG_SWEEP / (n_rows * max(1, n_columns))) ** (2 / 3))
        soon = max(2, 2 ** ((round_ + 1).bit_length() - 4))
        return max(1, min(MOST_ROUNDS, soon, every))

    def due(self, round_: int, n_rows: int, n_columns: int = 1) -> tuple[bool, bool]:
        """Whether there are cuts in a round, and moves of neighbours: in turn, or both in the first rounds.

        Examples
        --------
        >>> [ub.Jumps(every=2).due(r, n_rows=1_000) for r in (0, 1)]  # both in the first rounds
        [(False, False), (True, True)]
        """
        turn, rest = divmod(round_ + 1, self.every_of(round_, n_rows, n_columns))
        return rest == 0 and (round_ < EARLY or turn % 2 == 0), rest == 0 and (round_ < EARLY or turn % 2 == 1)


def check_jumps(jumps: object) -> None:
    """Refuse an option of an estimator that does not say how much is tried."""
    if not isinstance(jumps, bool | np.bool_ | Jumps | None):
        raise ValueError(f"jumps must be True, False, Jumps(...) or None, got {jumps!r}.")


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
        self.positions = [by_code(state, number, p) for p in range(model.n_shards)]  # by shard and code; or -1

    @property
    def alive(self) -> Array:
        return np.flatnonzero(self.counts > 0)

    def wholes(self, proposals: Sequence[Proposal]) -> Atoms:
        """Every set as one atom."""
        first = [proposal.atoms[0] for proposal in proposals]
        counts, statistics = self.counts[first], self.statistics[first]
        for m, proposal in enumerate(proposals):
            for b in proposal.atoms[1:]:
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

    def split(self, a: int, cut: int, halves: WeighedHalves, m: int = 0) -> None:
        """The m-th of some halves become atoms of their own: a, and the second half of a cut."""
        owners = halves.found.owners(m)
        for atom, half, owner in ((a, halves.stay, owners[0]), (self.size + cut, halves.away, owners[1])):
            self.counts[atom], self.statistics[atom], self.owner[atom] = half.counts[m], half.statistics[m], owner

    def merge(self, a: int, b: int) -> None:
        self.counts[a] += self.counts[b]
        self.statistics[a] += self.statistics[b]
        self.owner[a] = self.owner[a] if self.owner[a] == self.owner[b] else -1
        self.counts[b] = 0.0
        self.code[self.code == b] = a

    def apply(self, engine: Engine, cuts: Cuts | None = None, proposals: Sequence[Proposal] = ()) -> MixtureState:
        """Relabel the rows of all shards; from here on every atom is coded as a shared one."""
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
    """Repeat the pass and keep its halves: halves stored meanwhile would be state that no checkpoint has."""
    sides, codes = own
    if cuts is not None and (sides.fresh >= 0).any():
        model.kernel.halve(shard, cuts, sides)
    shard.relabel(codes)


# ---- a pass over rows


class Proposal(NamedTuple):
    """A set C: one atom to be cut, or two that are its halves, the first with the anchors; anew: two to be cut as one.

    partner: a row of the second half, or -1 where none is known.
    """

    anchors: tuple[int, ...]
    atoms: tuple[int, ...]
    partner: int = -1
    anew: bool = False


def cuts_of(proposals: Sequence[Proposal], odds: Array, halves: np.uint64 | None = None) -> Cuts:
    """Cuts of all sets: soft ones, or hard ones if there is a key to draw halves with."""
    anchors = np.array([proposal.anchors for proposal in proposals], np.int64)
    partners = np.array([proposal.partner for proposal in proposals], np.int64)
    return Cuts(odds, anchors, partners, np.uint64(0) if halves is None else halves, halves is None)


def _sides(positions: Array, proposals: Sequence[Proposal]) -> Sides:
    """Which of a shard's codes belong to which cut."""
    most = int(positions.max(initial=-1)) + 1
    cut, side = np.full(most + 1, -1), np.full(most + 1, -1)  # the last is that of codes without rows
    for m, proposal in enumerate(proposals):
        given = len(proposal.atoms) == 2 and not proposal.anew
        for half, atom in enumerate(proposal.atoms):
            if atom < most:
                cut[atom], side[atom] = m, half if given else -1
    return Sides(cut[positions], side[positions], np.full(len(proposals), -1))


class SummedHalves(NamedTuple):
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


def sum_halves(edit: Edit, engine: Engine, cuts: Cuts, proposals: Sequence[Proposal]) -> SummedHalves:
    """The halves of all sets after one pass over their rows, summed over shards."""
    own = [_sides(positions, proposals) for positions in edit.positions]
    return SummedHalves(**engine.run(partial(_halve_on, edit.model), Message(cuts, own)).shared)


class WeighedHalves(NamedTuple):
    """Halves of sets, and what their log marginals gain against those of the sets as one."""

    found: SummedHalves
    stay: Atoms
    away: Atoms
    gains: Array

    def log_odds(self, edit: Edit, m: int, n_whole: int) -> float:
        """Log posterior of two atoms against one, which is one of n_whole, less the log probability of the halves."""
        log_prior = edit.log_prior(float(self.stay.counts[m]), float(self.away.counts[m]), n_whole)
        return float(self.gains[m]) + log_prior - float(self.found.log_q[m])


def halves_of(edit: Edit, engine: Engine, cuts: Cuts, proposals: Sequence[Proposal]) -> WeighedHalves:
    """The same, and what their log marginals gain."""
    found = sum_halves(edit, engine, cuts, proposals)
    stay, away = found.halves(edit.wholes(proposals))
    return WeighedHalves(found, stay, away, edit.gains(stay, away))


def _halve_on(model: Mixture[Any], shard: LabelShard, cuts: Cuts, sides: Sides) -> Summary:
    totals, log_q, rows = model.kernel.halve(shard, cuts, sides)
    present = np.stack([rows - totals[:, -1] > 0, totals[:, -1] > 0]).astype(np.int64)
    return Summary({"totals": totals, "log_q": log_q, "shards": present, "owner": present * shard.index}, {})


def odds_of(likelihood: Bound, stay: Atoms, away: Atoms) -> Array:
    """[M, F + 1] log odds of the second half against the first, given (soft) statistics of both."""
    counts = np.maximum(np.concatenate([stay.counts, away.counts]), 0.0)
    bias, eta = likelihood.natural(likelihood.centre(counts, np.concatenate([stay.statistics, away.statistics])))
    bias = bias + np.log(counts + 0.5)
    m = len(stay.counts)
    return np.column_stack([eta[m:] - eta[:m], bias[m:] - bias[:m]])
