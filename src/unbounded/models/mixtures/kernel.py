"""The local step of mixtures on a CPU: compiled sweeps over blocks of rows, with rows in SIMD lanes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Summary
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.labelled import labels as labelled
from unbounded.models.labelled.labels import Atoms, LabelShard, finite_part
from unbounded.models.labelled.predictive import log_predictive
from unbounded.models.mixtures.message import MixturePart, summarise
from unbounded.models.mixtures.sweep import Rows, Scope, Scratch, Tail, scratch, sweep

FREE_SLOTS = 16


@dataclass(frozen=True)
class CompiledLabels:
    """dtype: the precision of the finite part; rounds that would lose accuracy in float32 run in float64."""

    likelihood: Bound
    dtype: str = "float64"

    @cached_property
    def family(self) -> tuple[Any, ...]:
        return self.likelihood.family()

    def finite(self, parameters: Parameters, log_weights: Array) -> Any:
        return finite_part(self.likelihood, self.dtype, parameters, log_weights)

    def totals(self, data: Any, labels: Array, n_atoms: int) -> Atoms:
        return Atoms(*labelled.statistics(self.family, data, labels, n_atoms, self.likelihood.n_terms))

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return log_predictive(self.likelihood, *atoms, X)

    # ---- a sweep

    def prepare(self, shard: LabelShard, part: MixturePart) -> Tail:
        return self._tail(shard, part, part.n_private + (FREE_SLOTS if part.law.makes_atoms else 0))

    def sweep(self, shard: LabelShard, part: MixturePart, tail: Tail) -> Tail:
        rows = Rows(shard.data, shard.labels, shard.first)  # mutant: sweep rows
        scope = Scope(part.usable, part.n_shared, part.law)
        for keys in part.keys:
            row = 0
            while (row := sweep(self.family, rows, part.finite, scope, tail, keys, row)) < len(shard.labels):
                tail = self._tail(shard, part, 2 * len(tail.members) + FREE_SLOTS)
        return tail

    def statistics(self, shard: LabelShard, part: MixturePart, tail: Tail) -> Summary:
        """What the shard reports; from here on the codes of its private atoms are consecutive."""
        alive = tail.members > 0
        n_private = int(alive.sum())
        if not alive[:n_private].all():
            codes = np.arange(part.n_shared + len(alive), dtype=np.int32)
            codes[part.n_shared :] = part.n_shared + np.cumsum(alive) - 1
            labelled.relabel(shard.labels, codes)
        return summarise(shard, part.n_shared, self.totals(shard.data, shard.labels, part.n_shared + n_private))

    def scratch(self, n_rows: int, finite: Any, atoms: int, slots: int) -> Scratch:
        """Room for blocks of so many rows that they stay in cache."""
        plain = isinstance(finite, np.ndarray)  # one matrix of natural parameters, and not what is faster
        dtype = (finite if plain else finite[0]).dtype
        terms = 0 if self.likelihood.sparse else self.likelihood.n_terms
        lanes = labelled.lanes_for(n_rows, terms if plain else 0, atoms, dtype.itemsize)
        return scratch(terms, atoms, slots, lanes, dtype)

    def _tail(self, shard: LabelShard, part: MixturePart, slots: int) -> Tail:
        """The private atoms of the shard as its labels have them, and empty ones; the last slot is a new atom."""
        work = self.scratch(len(shard.labels), part.finite, part.usable, slots + 1)
        lanes = len(work.top)
        if part.elsewhere is not None:
            counts, statistics = self._with_elsewhere(shard, part.elsewhere, slots + 1)
            state = self.likelihood.pack(counts.astype(float), statistics, lanes)  # mutant: tail state
            return Tail(state, counts[:-1].copy(), work)
        tail = Tail(self.likelihood.tail(slots + 1, lanes), np.zeros(slots, np.int64), work)
        labelled.fill_tail(self.family, shard.data, shard.labels, part.n_shared, *tail)
        return tail

    def _with_elsewhere(self, shard: LabelShard, elsewhere: Atoms, slots: int) -> Atoms:
        mine, n = self.totals(shard.data, shard.labels, slots), len(elsewhere.counts)
        mine.counts[:n] += elsewhere.counts
        mine.statistics[:n] += elsewhere.statistics
        return mine
