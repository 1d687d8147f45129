"""Slice sampling of mixtures (Walker 2007; Kalli et al. 2011), distributed over shards (Ge et al. 2015). Exact.

Occupied atoms get unnormalised weights S_k ~ Gamma(m_k - sigma, 1), and every row a slice v_i uniform below the weight
of its atom. Of the infinitely many other atoms only those that weigh as much as the smallest slice matter, and they are
few. Then a row's label is drawn in proportion to its likelihood among the atoms with S_k >= v_i: rows are independent.
The smallest slice takes one more exchange with the shards, before the global step.

The original breaks the rest of the mass into sticks until less than the smallest slice is left. The atoms above it have
the same law when they are drawn as points of a Poisson process, which takes far fewer draws, mostly so with a discount.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message, Parallel, Summary, in_this_thread
from unbounded.instantiation import by_code
from unbounded.likelihoods.base import Parameters
from unbounded.models.labelled.labels import LabelShard, numbered
from unbounded.models.mixtures.measure import PitmanYor
from unbounded.models.mixtures.message import MixtureRound, MixtureShare
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.models.mixtures.rivals import instantiated
from unbounded.models.mixtures.rivals.kernel import SLICE_KERNELS, SliceKernel, SliceKeys
from unbounded.randomness import generator, key


@dataclass(frozen=True)
class Sliced(MixtureState):
    """A state on its way through a round: its hyper-parameters, and weights of occupied and new atoms."""

    weights: Array


@dataclass(frozen=True)
class Slice(Mixture[PitmanYor]):
    def __post_init__(self) -> None:
        if self.setup.sweeps != 1:
            raise ValueError(
                "the slice sampler takes sweeps_per_round=1: given slices and weights, labels are independent draws: "
                f"the last of {self.setup.sweeps} is no better than the first."
            )

    @property
    def exact(self) -> bool:
        return True

    def settled(self) -> int:
        return 0

    @cached_property
    def slices(self) -> SliceKernel:
        return SLICE_KERNELS[self.setup.device](self.likelihood, self.setup.dtype)

    def jump(self, state: MixtureState, engine: Engine) -> Sliced:
        """Hyper-parameters, weights and, with the shards' smallest slice, as many new atoms as that takes."""
        hyper, live = instantiated.update_hyper(self, state), state.occupied
        rng = generator(self.seed, "weights", state.round)
        weights = np.exp(self.measure.log_weights(hyper, state.table.counts[live].astype(float), rng))
        own = [weights[by_code(state, numbered(state), p)] for p in range(self.n_shards)]
        lowest = min(engine.map(partial(self.slices.smallest, slices=self._key(state.round)), own))
        rest = self.measure.rest_weights(hyper, len(live), lowest, rng)  # mutant: jump rest
        weights = np.concatenate([weights, rest])
        return Sliced(state.round, hyper, state.table, state.n_shared, state.n_private, weights)

    def _key(self, round_: int) -> np.uint64:
        return key(self.seed, "slice", round_)

    def global_step(self, state: Any, parallel: Parallel = in_this_thread) -> Message:
        law = self.measure.closed_tail(state.hyper)
        return instantiated.message(self, state, state.hyper, np.log(state.weights), law)

    def finite(self, parameters: Parameters, log_weights: Array) -> Any:
        return self.slices.finite(parameters, log_weights)

    def resample(self, shard: LabelShard, shared: MixtureRound, own: MixtureShare) -> Summary:
        keys = SliceKeys(self._key(shared.round), key(self.seed, "label", shared.round))
        self.slices.sweep(shard, shared.finite, keys)
        return self._summarise(shard, shared.n_shared, 0)
