"""Neal (2000), Algorithm 8: parameters instantiated, counts collapsed, rows one after another. Exact.

Each row chooses among the atoms of the other rows, with weights m_k - sigma, and `auxiliary` ones of no row, with
(alpha + K sigma) / auxiliary each: fresh from the prior, but a row that was alone brings its own atom as one of them.
It needs no predictive density, at the price of a wait: a new atom comes from the prior. Rows cannot be shared out:
whatever n_shards says, there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Message, Spread, alone
from unbounded.likelihoods.base import Parameters
from unbounded.models.labelled.shard import LabelShard
from unbounded.models.mixtures.kernel import TailLaw, scratch
from unbounded.models.mixtures.model import Broadcast, Mixture, MixtureState, Own
from unbounded.models.mixtures.rivals import instantiated, kernel
from unbounded.randomness import generator, key
from unbounded.setup import Setup

BLOCK = 40  # rows whose fresh atoms are drawn, and likelihoods computed, at once


@dataclass(frozen=True)
class Algorithm8(Mixture):
    auxiliary: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.auxiliary, int | np.integer) or self.auxiliary < 1:
            raise ValueError(f"auxiliary must be an integer of at least 1, got {self.auxiliary!r}.")

    @property
    def exact(self) -> bool:
        return True

    def settled(self) -> int:
        return 0

    def global_step(self, state: MixtureState, spread: Spread = alone) -> Message:
        hyper = instantiated.update_hyper(self, state)
        law = TailLaw(hyper.sigma, hyper.alpha, hyper.sigma)
        return instantiated.message(self, state, hyper, np.zeros(len(state.occupied)), law)

    def finite(self, parameters: Parameters, log_weights: Array) -> Array:
        """[K, F + 1]: natural parameters, the bias last; atoms come and go, so that one row of it is one atom."""
        bias, eta = self.likelihood.natural(parameters)
        return np.concatenate([eta, (bias + log_weights)[:, None]], axis=1)

    def _sweep(self, shard: LabelShard, message: Broadcast, own: Own) -> int:
        atoms, law = np.array(message.finite), message.laws[0]
        members = np.bincount(shard.labels, minlength=len(atoms))
        for sweep in range(self.setup.sweeps):
            for start in range(0, len(shard.labels), BLOCK):
                size = min(BLOCK, len(shard.labels) - start)
                lacking = max(0, size - int(np.count_nonzero(members == 0)))
                members = np.append(members, np.zeros(lacking, np.int64))
                atoms = np.concatenate([atoms, np.zeros((lacking, atoms.shape[1]))])
                fresh = self._fresh(size * self.auxiliary, message.round, sweep, start)
                label_key = key(self.seed, "label", message.round, sweep)
                self._block(shard, start, size, atoms, fresh, law, members, label_key)
        return max(0, int(np.flatnonzero(members)[-1]) + 1 - message.n_shared)

    def _fresh(self, n: int, *where: int) -> Array:
        """Atoms from the prior."""
        rng = generator(self.seed, "auxiliary", *where)
        parameters = self.likelihood.draw(np.zeros(n), np.zeros((n, self.likelihood.n_features)), rng)
        return self.finite(parameters, np.zeros(n))

    def _block(
        self, shard: LabelShard, start: int, size: int, atoms: Array, fresh: Array, law: TailLaw, members: Array,
        label_key: np.uint64,
    ) -> None:  # fmt: skip
        """The block's rows choose; atoms and members change in place."""
        both = np.concatenate([atoms, fresh])
        column = np.arange(len(atoms))
        sparse = self.likelihood.sparse
        rows = 0 if sparse else self.likelihood.n_features
        work = scratch(rows, len(both), len(atoms) + self.auxiliary, BLOCK, np.float64)
        kernel.pick(
            self.family, shard.data, shard.labels, start, size, np.ascontiguousarray(both.T) if sparse else both,
            self.auxiliary, law, members, column, label_key, work,
        )  # fmt: skip
        atoms[:] = both[column]


def algorithm8(setup: Setup[Any, Any, Any], auxiliary: int = 3) -> Algorithm8:
    return Algorithm8(setup.on_one_shard(), auxiliary)
