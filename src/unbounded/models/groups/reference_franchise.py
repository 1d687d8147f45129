"""The franchise in NumPy: slow and obvious, to compare other kernels with (device="reference").

Everything about tables is counted afresh from seats and dishes. It draws the numbers that every kernel draws, and lists
tables and dishes in the same order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Summary
from unbounded.models.groups.reference import dense_totals, log_predictive, natural, terms_of
from unbounded.models.groups.shard import Content, GroupPart, GroupShard, summarise, without_empty
from unbounded.models.labelled.labels import Atoms
from unbounded.randomness import uniforms


@dataclass
class SeatedTail:
    """Private dishes, as many as needed: their rows and statistics."""

    counts: Array
    statistics: Array
    terms: Array = field(repr=False)  # of the shard's rows

    def move(self, slot: int, rows: Array, sign: int) -> None:
        """Rows join (sign = 1) or leave (sign = -1) the dish."""
        self.counts[slot] += sign * len(rows)
        self.statistics[slot] += sign * self.terms[rows].sum(0)
        if self.counts[slot] == 0:
            self.statistics[slot] = 0.0

    def free(self) -> int:
        """The first dish without rows; one more where there is none."""
        if self.counts.all():
            self.counts = np.append(self.counts, 0)
            self.statistics = np.vstack([self.statistics, np.zeros(self.terms.shape[1])])
        return int(np.argmin(self.counts > 0))

    def log_predictive(self, likelihood: Any, rows: Array) -> Array:
        """Log predictives of some rows together, under every private dish and (last) a new one."""
        return log_predictive(likelihood, self.counts, self.statistics, self.terms[rows])


@dataclass(frozen=True)
class ReferenceFranchise:
    """Everything is in double precision, whatever the setup says."""

    content: Content
    sweeps: int

    def finite(self, drawn: Any) -> tuple[Array, Array]:
        return natural(self.content, drawn)

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        counts, statistics = dense_totals(self.content, shard, n_atoms)
        return Atoms(counts, self.content.from_dense(statistics))

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return self.content.likelihood.log_predictive(*atoms, X)

    def sticks(self, tail: SeatedTail) -> Array:
        return np.empty(0)

    def prepare(self, shard: GroupShard, part: GroupPart) -> SeatedTail:
        counts, statistics = dense_totals(self.content, shard, part.n_shared + part.n_private)
        terms = terms_of(self.content, shard.data)
        return SeatedTail(counts[part.n_shared :], np.asarray(statistics[part.n_shared :], float), terms)

    def sweep(self, shard: GroupShard, part: GroupPart, tail: SeatedTail) -> SeatedTail:
        bias, eta = part.finite
        logits = (bias + tail.terms @ eta.T)[:, : part.usable]
        rows = shard.first + np.arange(len(shard.labels))
        for s in range(self.sweeps):
            seat, dish = (uniforms(part.seed.key(name, s), rows) for name in ("seat", "dish"))
            for begin, end in pairwise(shard.offsets.tolist()):
                for i in range(begin, end):
                    self._reseat(shard, part, tail, slice(begin, end), i, logits[i], seat[i])
                changed: set[int] = set()
                for i in range(begin, end):
                    table = int(shard.seats[i])
                    if table not in changed:
                        changed.add(table)
                        at = begin + np.flatnonzero(shard.seats[begin:end] == table)
                        self._change_dish(shard, part, tail, at, logits[at].sum(0), dish[i])
        return tail

    def _reseat(
        self, shard: GroupShard, part: GroupPart, tail: SeatedTail, group: slice, i: int, logits: Array, u: float
    ) -> None:
        """Row i moves to a table of its group, or to a new one."""
        code, n_shared = int(shard.labels[i]), part.n_shared
        if part.usable <= code < n_shared:  # frozen
            return
        seats, labels = shard.seats[group].copy(), shard.labels[group]
        seats[i - group.start] = -1
        shard.labels[i] = -1
        slot = self._leave(tail, code - n_shared, np.array([i]))
        log_p = tail.log_predictive(part.likelihood, np.array([i]))
        best = max(logits.max(initial=-np.inf), log_p.max())
        mobile, private = np.exp(logits - best), np.exp(log_p - best)
        likelihoods = np.concatenate([mobile, np.zeros(n_shared - part.usable), private])
        heads = np.array([np.count_nonzero(seats == t) for t in range(len(seats))])
        there, tables = heads > 0, np.zeros(len(heads))
        tables[there] = heads[there] * likelihoods[shard.dishes[group][there]]
        private *= part.law.gamma * self._dishes(shard, part, tail)
        new = np.append(part.law.masses[: part.usable] * mobile, private)
        chosen = _pick(np.append(tables, new), u)
        if chosen >= len(tables):
            code = chosen - len(tables) + (n_shared - part.usable) * (chosen - len(tables) >= part.usable)
            chosen = int(np.argmin(heads > 0))
            shard.dishes[group.start + chosen] = n_shared + slot if code == n_shared + len(tail.counts) else code
        shard.seats[i], labels[i - group.start] = chosen, shard.dishes[group.start + chosen]
        if shard.labels[i] >= n_shared:
            tail.move(shard.labels[i] - n_shared, np.array([i]), 1)

    def _leave(self, tail: SeatedTail, slot: int, rows: Array) -> int:
        """Rows leave their dish, if it is private; returns the slot that a new dish takes."""
        if slot < 0:
            return tail.free()
        tail.move(slot, rows, -1)
        return slot if tail.counts[slot] == 0 else tail.free()

    def _dishes(self, shard: GroupShard, part: GroupPart, tail: SeatedTail) -> Array:
        """beta of private dishes and (last) of a new one: by tables, that of the rows that move left out."""
        there = shard.labels >= part.n_shared
        group = np.repeat(np.arange(len(shard.offsets) - 1), np.diff(shard.offsets))
        pairs = np.unique(np.stack([group, shard.seats, shard.labels])[:, there], axis=1)
        tables = np.bincount(pairs[2] - part.n_shared, minlength=len(tail.counts))
        urn, n_atoms = part.law.urn, np.count_nonzero(tables)
        new = urn.birth + n_atoms * urn.discount * (urn.birth / urn.share)
        beta = np.append(np.where(tables > 0, tables - urn.discount, 0.0), max(new, 0.0)) / (tables.sum() + urn.share)
        return beta * math.exp(part.sticks[-1])

    def _change_dish(
        self, shard: GroupShard, part: GroupPart, tail: SeatedTail, rows: Array, logits: Array, u: float
    ) -> None:
        """All rows of a table change their dish together."""
        code, n_shared = int(shard.labels[rows[0]]), part.n_shared
        if part.usable <= code < n_shared:
            return
        shard.labels[rows] = -1
        slot = self._leave(tail, code - n_shared, rows)
        log_p = tail.log_predictive(part.likelihood, rows)
        best = max(logits.max(initial=-np.inf), log_p.max())
        mobile = np.exp(logits - best) * part.law.masses[: part.usable] / part.law.gamma
        chosen = _pick(np.append(mobile, np.exp(log_p - best) * self._dishes(shard, part, tail)), u)
        code = chosen if chosen < part.usable else n_shared + chosen - part.usable
        code = n_shared + slot if code == n_shared + len(tail.counts) else code
        shard.labels[rows] = code
        group = shard.offsets[np.searchsorted(shard.offsets, rows[0], side="right") - 1]
        shard.dishes[group + shard.seats[rows[0]]] = code
        if code >= n_shared:
            tail.move(code - n_shared, rows, 1)

    def statistics(self, shard: GroupShard, part: GroupPart, tail: SeatedTail) -> Summary:
        """What the shard reports; from here on the codes of its private dishes are consecutive."""
        shard.relabel(without_empty(part.n_shared, tail.counts))
        n_atoms = part.n_shared + int(np.count_nonzero(tail.counts))
        group = np.repeat(np.arange(len(shard.offsets) - 1), np.diff(shard.offsets))
        pairs = np.unique(np.stack([group, shard.seats, shard.labels]), axis=1)
        tables = np.bincount(pairs[2], minlength=n_atoms)
        return summarise(self.content, shard, part.n_shared, self.totals(shard, n_atoms), tables)


def _pick(weights: Array, u: float) -> int:
    """The inverse of the distribution function at u."""
    sums = np.cumsum(weights)
    return int(np.searchsorted(sums, u * sums[-1], side="right"))
