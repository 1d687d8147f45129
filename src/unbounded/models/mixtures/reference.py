"""The local step of mixtures in NumPy: slow and obvious, to compare other kernels with (device="reference").

One row after another, with everything computed afresh: log likelihoods from natural parameters, predictive densities as
ratios of marginals, statistics as sums of terms. It draws the numbers that every kernel draws, so that labels are
the same but for ties within rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from unbounded.arrays import Array, is_csr
from unbounded.contracts import Summary
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.labelled.halves import Cuts, Halves, Sides, halve_few
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures.measure import TailLaw
from unbounded.models.mixtures.message import MixturePart, SweepKeys
from unbounded.randomness import uniforms


@dataclass
class ReferenceTail:
    """Numbers of rows and statistics of private atoms, as long as they need to be; an atom without rows is free."""

    counts: Array
    statistics: Array
    terms: Array = field(repr=False)  # of the shard's rows

    def move(self, slot: int, i: int, sign: int) -> None:
        """Row i joins (sign = 1) or leaves (sign = -1) the atom."""
        self.counts[slot] += sign
        self.statistics[slot] += sign * self.terms[i]

    def free(self) -> int:
        """The first atom without rows; one more where there is none."""
        if self.counts.all():
            self.counts = np.append(self.counts, 0)
            self.statistics = np.concatenate([self.statistics, np.zeros((1, self.statistics.shape[1]))])
        return int(np.argmin(self.counts > 0))


@dataclass(frozen=True)
class ReferenceLabels:
    """Everything is in double precision, whatever the setup says."""

    likelihood: Bound
    dtype: str = "float64"

    shard: ClassVar = LabelShard

    def finite(self, parameters: Parameters, log_weights: Array) -> tuple[Array, Array]:
        """(log weight plus bias [K], natural parameters [K, F])."""
        bias, eta = self.likelihood.natural(parameters)
        return log_weights + bias, eta

    def totals(self, data: Any, labels: Array, n_atoms: int) -> Atoms:
        terms = self._terms(data)
        members = labels[None, :] == np.arange(n_atoms)[:, None]
        return Atoms(members.sum(1), members @ terms)

    def count(self, shard: LabelShard, n_atoms: int) -> Atoms:
        return self.totals(shard.data, shard.labels, n_atoms)

    def halve(self, shard: LabelShard, cuts: Cuts, sides: Sides) -> Halves:
        terms = self._terms(shard.data)
        return halve_few(terms.__getitem__, shard.labels, shard.first, cuts, sides)

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        log_p, likelihood = self.likelihood.log_predictive(*atoms, X), self.likelihood
        if likelihood.imputed.size and not is_csr(X):
            holes = np.isnan(X[:, likelihood.columns.index]).any(axis=1)
            log_p[:, holes] = likelihood.log_predictive_missing(*atoms, X[holes])
        return log_p

    def step(self, shard: LabelShard, part: MixturePart) -> Summary:
        return self.statistics(shard, part, self.sweep(shard, part, self.prepare(shard, part)))

    def prepare(self, shard: LabelShard, part: MixturePart) -> ReferenceTail:
        terms = self._terms(shard.data)
        mine = np.where(shard.labels >= part.n_shared, shard.labels - part.n_shared, -1)
        counts, statistics = self.totals(shard.data, mine, part.n_private)
        if part.elsewhere is not None:
            known = len(part.elsewhere.counts)
            counts[:known] += part.elsewhere.counts
            statistics[:known] += part.elsewhere.statistics
        return ReferenceTail(counts, statistics, terms)

    def sweep(self, shard: LabelShard, part: MixturePart, tail: ReferenceTail) -> ReferenceTail:
        bias, eta = part.finite
        logits = (bias + tail.terms @ eta.T)[:, : part.usable]
        for keys in part.keys:
            self._sweep(shard, part, tail, logits, keys)
        return tail

    def statistics(self, shard: LabelShard, part: MixturePart, tail: ReferenceTail) -> Summary:
        """What the shard reports; from here on the codes of its private atoms are consecutive."""
        alive = tail.counts > 0
        codes = np.append(np.arange(part.n_shared), part.n_shared + np.cumsum(alive) - 1)
        shard.labels[:] = codes[shard.labels]
        return shard.summary(part.n_shared, self.totals(shard.data, shard.labels, part.n_shared + alive.sum()))

    def _sweep(self, shard: LabelShard, part: MixturePart, tail: ReferenceTail, logits: Array, keys: SweepKeys) -> None:
        rows = shard.first + np.arange(len(shard.labels))
        label_uniforms, tail_uniforms = uniforms(keys.label, rows), uniforms(keys.tail, rows)
        for i, code in enumerate(shard.labels.tolist()):
            if part.usable <= code < part.n_shared:  # frozen
                continue
            old = code - part.n_shared
            if old >= 0:
                tail.move(old, i, -1)
            new = old if old >= 0 and tail.counts[old] == 0 else tail.free()
            log_usable = np.logaddexp.reduce(logits[i], initial=-np.inf)
            weights = np.append(log_usable, self._log_weights(part.law, tail, i))
            chosen = _drawn(weights, tail_uniforms[i]) - 1
            if chosen < 0:
                shard.labels[i] = _drawn(logits[i], label_uniforms[i])
                continue
            slot = new if chosen == len(tail.counts) else chosen
            tail.move(slot, i, 1)
            shard.labels[i] = part.n_shared + slot

    def _log_weights(self, law: TailLaw, tail: ReferenceTail, i: int) -> Array:
        """Log weights of row i at every private atom and (last) a new one, likelihood included."""
        counts, statistics = np.append(tail.counts, 0), np.vstack([tail.statistics, np.zeros(tail.terms.shape[1])])
        n_atoms = np.count_nonzero(counts)
        sizes = np.where(counts > 0, counts - law.discount, 0.0)
        sizes[-1] = max(law.birth + law.extra * n_atoms, 0.0)
        both = np.append(counts, counts + 1.0), np.vstack([statistics, statistics + tail.terms[i]])
        without, joined = self.likelihood.log_marginal(*both).reshape(2, -1)
        log_p = joined - without
        with np.errstate(divide="ignore"):
            log_weights: Array = np.log(sizes * law.scale / (law.base + law.step * counts.sum())) + log_p
        return log_weights

    def _terms(self, data: Any) -> Array:
        """[n, F]: of a shard's rows."""
        if not is_csr(data):
            return self.likelihood.terms(data)
        shape = len(data.indptr) - 1, self.likelihood.columns.size
        rows: Any = sparse.csr_matrix((data.values, data.indices, data.indptr), shape)
        return self.likelihood.terms(rows)


def _drawn(log_weights: Array, u: float) -> int:
    """The inverse of the distribution function at u."""
    sums = np.cumsum(np.exp(log_weights - log_weights.max()))
    return int(np.searchsorted(sums, u * sums[-1]))
