"""Everything instantiated and a fixed number of empty atoms: the paper's "modified Algorithm 8". Not exact.

Weights ~ Dirichlet(m_1 .. m_K, alpha / U, .. alpha / U) with U empty atoms, whose parameters come from the prior; rows
are independent given them, on any number of shards. The truth has infinitely many empty atoms: the bias falls with U,
and so does the chance that a row finds one of them any good.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unbounded.contracts import Message, Parallel, in_this_thread
from unbounded.models.mixtures.measure import PitmanYor
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.models.mixtures.rivals import instantiated
from unbounded.randomness import generator


@dataclass(frozen=True)
class Uncollapsed(Mixture[PitmanYor]):
    """empty: U, how many empty atoms every round offers."""

    empty: int = 10

    def __post_init__(self) -> None:
        if not isinstance(self.empty, int | np.integer) or self.empty < 1:
            raise ValueError(f"empty must be an integer of at least 1, got {self.empty!r}.")

    @property
    def exact(self) -> bool:
        return False

    def settled(self) -> int:
        return 0

    def global_step(self, state: MixtureState, parallel: Parallel = in_this_thread) -> Message:
        hyper = instantiated.update_hyper(self, state)
        counts, rng = state.table.counts[state.occupied], generator(self.seed, "weights", state.round)
        weights = self.measure.padded_log_weights(hyper, counts, self.empty, rng)
        return instantiated.message(self, state, hyper, weights, self.measure.closed_tail(hyper))
