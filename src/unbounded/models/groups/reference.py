"""Direct assignment in NumPy: slow and obvious, to compare other kernels with (device="reference").

One row after another, with everything computed afresh: log likelihoods from natural parameters, predictive densities as
ratios of marginals, statistics as sums of terms. It draws the numbers that every kernel draws, and lists the atoms
that a row may join in the same order, so that labels are the same but for ties within rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unbounded.arrays import Array, is_csr
from unbounded.contracts import Summary
from unbounded.models.groups.measure import Law, Urn, log_left
from unbounded.models.groups.shard import Content, GroupPart, GroupShard, summarise, without_empty
from unbounded.models.labelled.labels import Atoms
from unbounded.randomness import uniforms


class Drawn(NamedTuple):
    """What is random when a row moves: what chooses its atom, and the key of its stick, should the atom be new."""

    u: float
    stick: np.uint64
    row: int  # its number among all rows


@dataclass
class ReferenceTail:
    """Private atoms, as many as needed: rows, statistics, log beta; `rest`: log beta of what is left of the tail."""

    counts: Array
    statistics: Array
    sticks: Array
    rest: float
    terms: Array = field(repr=False)  # of the shard's rows

    def leave(self, slot: int, i: int) -> bool:
        """Row i leaves the atom; whether it was the last."""
        self.counts[slot] -= 1
        self.statistics[slot] -= self.terms[i]
        if self.counts[slot] > 0:
            return False
        self.rest = float(np.logaddexp(self.rest, self.sticks[slot]))
        return True

    def join(self, slot: int, i: int) -> None:
        self.counts[slot] += 1
        self.statistics[slot] += self.terms[i]

    def free(self) -> int:
        """The first atom without rows; one more where there is none."""
        if self.counts.all():
            self.counts, self.sticks = np.append(self.counts, 0), np.append(self.sticks, -np.inf)
            self.statistics = np.vstack([self.statistics, np.zeros(self.terms.shape[1])])
        return int(np.argmin(self.counts > 0))

    def open_slot(self, slot: int, urn: Urn, drawn: Drawn) -> None:
        """A new atom takes its part of what is left."""
        left = log_left(urn, np.count_nonzero(self.counts), drawn.stick, drawn.row)
        self.statistics[slot] = 0.0
        self.sticks[slot] = self.rest + math.log(-math.expm1(left))
        self.rest += left


@dataclass
class GroupView:
    """A group while its rows move: rows of each code, and its usable atoms as a list in which words look for them."""

    counts: dict[int, int]
    listed: list[int]

    def drop(self, code: int) -> None:
        """A row leaves; the last atom of the list takes the place of one that is left by all."""
        self.counts[code] -= 1
        if self.counts[code] == 0 and code in self.listed:
            self.listed[self.listed.index(code)] = self.listed[-1]
            self.listed.pop()

    def add(self, code: int, usable: int) -> None:
        self.counts[code] = self.counts.get(code, 0) + 1
        if code < usable and code not in self.listed:
            self.listed.append(code)


@dataclass(frozen=True)
class ReferenceDirect:
    """by_group: whether the rows of the group come first, atom by atom, and then beta, as it is quick for words.

    Everything is in double precision, whatever the setup says.
    """

    content: Content
    sweeps: int
    by_group: bool = False

    def finite(self, drawn: Any) -> tuple[Array, Array]:
        """(bias [K], natural parameters [K, F])."""
        return natural(self.content, drawn)

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        counts, statistics = dense_totals(self.content, shard, n_atoms)
        return Atoms(counts, self.content.from_dense(statistics))

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return self.content.likelihood.log_predictive(*atoms, X)

    def sticks(self, tail: ReferenceTail) -> Array:
        return np.append(tail.sticks, tail.rest)

    def prepare(self, shard: GroupShard, part: GroupPart) -> ReferenceTail:
        counts, statistics = dense_totals(self.content, shard, part.n_shared + part.n_private)
        counts, statistics = counts[part.n_shared :], statistics[part.n_shared :]
        if part.elsewhere is not None:
            known = len(part.elsewhere.counts)
            counts[:known] += part.elsewhere.counts
            statistics[:known] += part.elsewhere.statistics
        sticks, rest = part.sticks[:-1].copy(), float(part.sticks[-1])
        return ReferenceTail(counts, np.asarray(statistics, float), sticks, rest, terms_of(self.content, shard.data))

    def sweep(self, shard: GroupShard, part: GroupPart, tail: ReferenceTail) -> ReferenceTail:
        bias, eta = part.finite
        logits = (bias + tail.terms @ eta.T)[:, : part.usable]
        rows = shard.first + np.arange(len(shard.labels))
        for s in range(self.sweeps):
            u, stick = uniforms(part.seed.key("label", s), rows), part.seed.key("stick", s)
            for begin, end in pairwise(shard.offsets.tolist()):
                codes = shard.labels[begin:end].tolist()
                listed = [code for code in dict.fromkeys(codes) if code < part.usable]
                group = GroupView({code: codes.count(code) for code in codes}, listed)
                for i in range(begin, end):
                    if not part.usable <= shard.labels[i] < part.n_shared:  # frozen
                        shard.labels[i] = self._move(
                            int(shard.labels[i]), i, part, tail, group, logits[i], Drawn(u[i], stick, rows[i])
                        )
        return tail

    def _move(
        self, old: int, i: int, part: GroupPart, tail: ReferenceTail, group: GroupView, logits: Array,
        drawn: Drawn,
    ) -> int:  # fmt: skip
        """A new code of row i."""
        group.drop(old)
        emptied = old >= part.n_shared and tail.leave(old - part.n_shared, i)
        slot = old - part.n_shared if emptied and not self.by_group else tail.free()
        codes, weights = self._weigh(old, i, part, tail, group, logits)
        sums = np.cumsum(weights)
        new = codes[int(np.searchsorted(sums, drawn.u * sums[-1], side="right"))]
        if new == part.n_shared + len(tail.counts):
            new = part.n_shared + slot
            tail.open_slot(slot, part.law.urn, drawn)
        if new >= part.n_shared:
            tail.join(new - part.n_shared, i)
        group.add(new, part.usable)
        return new

    def _weigh(
        self, old: int, i: int, part: GroupPart, tail: ReferenceTail, group: GroupView, logits: Array
    ) -> tuple[list[int], Array]:
        """(codes, their weights) of all that row i may join, in order; the last is a new atom."""
        log_p = log_predictive(part.likelihood, tail.counts, tail.statistics, tail.terms[i : i + 1])
        best = max(logits.max(initial=-np.inf), log_p.max())
        mobile = np.exp(logits - best)
        usable = list(range(part.usable))
        rows = np.array([group.counts.get(k, 0) for k in usable], float)
        masses = part.law.masses[: part.usable]
        if self.by_group:
            first = ([old] if old < part.usable else []) + [k for k in group.listed if k != old]
            codes, weights = first + usable, np.append((rows * mobile)[first], masses * mobile)
        else:
            codes, weights = usable, (rows + masses) * mobile
        private = _private_weights(
            part.law, tail, [group.counts.get(part.n_shared + j, 0) for j in range(len(log_p) - 1)]
        )
        codes = codes + [part.n_shared + slot for slot in range(len(log_p))]
        return codes, np.append(weights, private * np.exp(log_p - best))

    def statistics(self, shard: GroupShard, part: GroupPart, tail: ReferenceTail) -> Summary:
        """What the shard reports; from here on the codes of its private atoms are consecutive."""
        shard.labels[:] = without_empty(part.n_shared, tail.counts)[shard.labels]
        masses = part.law.with_private(tail.sticks[tail.counts > 0])
        tables = np.zeros(len(masses), np.int64)
        u = uniforms(part.seed.key("tables"), shard.first + np.arange(len(shard.labels)))
        for begin, end in pairwise(shard.offsets.tolist()):
            for i in range(begin, end):
                k = shard.labels[i]
                before = np.count_nonzero(shard.labels[begin:i] == k)
                tables[k] += before == 0 or u[i] * (masses[k] + before) < masses[k]
        return summarise(self.content, shard, part.n_shared, self.totals(shard, len(masses)), tables)


# ---- shared with the franchise (reference_franchise.py)


def terms_of(content: Content, data: Any) -> Array:
    """[n, F]: of a shard's rows."""
    likelihood = content.likelihood
    if not is_csr(data):
        return np.asarray(likelihood.terms(data))
    shape = len(data.indptr) - 1, likelihood.columns.size
    rows: Any = sparse.csr_matrix((data.values, data.indices, data.indptr), shape)
    return np.asarray(likelihood.terms(rows))


def dense_totals(content: Content, shard: GroupShard, n_atoms: int) -> tuple[Array, Array]:
    members = shard.labels[None, :] == np.arange(n_atoms)[:, None]
    return members.sum(1), members @ terms_of(content, shard.data)


def natural(content: Content, drawn: Any) -> tuple[Array, Array]:
    """(bias [K], natural parameters [K, F])."""
    bias, eta = content.likelihood.natural(content.parameters(drawn))
    return bias, eta


def log_predictive(likelihood: Any, counts: Array, statistics: Array, rows: Array) -> Array:
    """Log predictives of rows with these terms, together, under every atom and (last) a new one."""
    counts, statistics = np.append(counts, 0.0), np.vstack([statistics, np.zeros(statistics.shape[1])])
    together = likelihood.log_marginal(counts + len(rows), statistics + rows.sum(0))
    value: Array = together - likelihood.log_marginal(counts, statistics)
    return value


def _private_weights(law: Law, tail: ReferenceTail, rows: list[int]) -> Array:
    """gamma beta plus the group's rows of every private atom, and (last) the weight of a new one."""
    own = np.where(tail.counts > 0, np.array(rows, float) + law.gamma * np.exp(tail.sticks), 0.0)
    return np.append(own, law.gamma * math.exp(tail.rest) * law.urn.birth / law.urn.share)
