"""Neal (2000), Algorithm 8: parameters instantiated, counts collapsed, rows one after another. Exact.

Each row chooses among the atoms of the other rows, with weights m_k - sigma, and `auxiliary` ones of no row, with
(alpha + K sigma) / auxiliary each: fresh from the prior, but a row that was alone brings its own atom as one of them.
It needs no predictive density, at the price of a wait: a new atom comes from the prior. Rows cannot be distributed:
there is one shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Message, Parallel, Summary, in_this_thread
from unbounded.likelihoods.base import Parameters
from unbounded.models.labelled.labels import LabelShard
from unbounded.models.mixtures.measure import PitmanYor
from unbounded.models.mixtures.message import MixtureRound, MixtureShare
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.models.mixtures.rivals import instantiated
from unbounded.models.mixtures.rivals.kernel import ALGORITHM8_KERNELS, Algorithm8Kernel, Candidates
from unbounded.randomness import generator, key

BLOCK = 40  # rows whose fresh atoms are drawn, and likelihoods computed, at once


@dataclass(frozen=True)
class Algorithm8(Mixture[PitmanYor]):
    auxiliary: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.auxiliary, int | np.integer) or self.auxiliary < 1:
            raise ValueError(f"auxiliary must be an integer of at least 1, got {self.auxiliary!r}.")

    @property
    def exact(self) -> bool:
        return True

    def settled(self) -> int:
        return 0

    @cached_property
    def picker(self) -> Algorithm8Kernel:
        return ALGORITHM8_KERNELS[self.setup.device](self.likelihood)

    def global_step(self, state: MixtureState, parallel: Parallel = in_this_thread) -> Message:
        hyper = instantiated.update_hyper(self, state)
        law = self.measure.collapsed_tail(hyper)
        return instantiated.message(self, state, hyper, np.zeros(len(state.occupied)), law)

    def finite(self, parameters: Parameters, log_weights: Array) -> Array:
        return self.picker.finite(parameters, log_weights)

    def resample(self, shard: LabelShard, shared: MixtureRound, own: MixtureShare) -> Summary:
        atoms = np.array(shared.finite)
        members = np.bincount(shard.labels, minlength=len(atoms))
        for sweep in range(self.setup.sweeps):
            label_key = key(self.seed, "label", shared.round, sweep)
            for start in range(0, len(shard.labels), BLOCK):
                rows = range(start, min(start + BLOCK, len(shard.labels)), BLOCK)
                size = rows.stop - start
                lacking = max(0, size - int(np.count_nonzero(members == 0)))
                members = np.append(members, np.zeros(lacking, np.int64))
                atoms = np.concatenate([atoms, np.zeros((lacking, atoms.shape[1]))])
                both = np.concatenate([atoms, self._fresh(size * self.auxiliary, shared.round, sweep, start)])
                candidates = Candidates(members, np.arange(len(atoms)), self.auxiliary, own.law)
                self.picker.pick(shard, rows, both, candidates, label_key)
                atoms = both[candidates.column]
        n_private = max(0, int(np.flatnonzero(members)[-1]) + 1 - shared.n_shared)
        return self._summarise(shard, shared.n_shared, n_private)

    def _fresh(self, n: int, *where: int) -> Array:
        """Atoms from the prior."""
        rng = generator(self.seed, "auxiliary", *where)
        parameters = self.likelihood.draw(np.zeros(n), np.zeros((n, self.likelihood.n_terms)), rng)
        return self.finite(parameters, np.zeros(n))
