"""Slice sampling of mixtures (Walker 2007; Kalli et al. 2011), distributed over shards (Ge et al. 2015). Exact.

Occupied atoms get unnormalised weights S_k ~ Gamma(m_k - sigma, 1), and every row a slice v_i uniform below the weight
of its atom. Of the infinitely many other atoms only those that weigh as much as the smallest slice matter, and they are
few. Then a row's label is drawn in proportion to its likelihood among the atoms with S_k >= v_i: rows are independent.
The smallest slice takes one more exchange with the shards, before the global step.

The original breaks the rest of the mass into sticks until less than the smallest slice is left. The atoms above it have
the same law when they are drawn as points of a Poisson process, which takes far fewer draws, mostly so with a discount.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message, Spread, alone
from unbounded.likelihoods.base import Parameters
from unbounded.models.labelled.kernel import lanes_for
from unbounded.models.labelled.shard import LabelShard, recode
from unbounded.models.mixtures.kernel import TailLaw, scratch
from unbounded.models.mixtures.measure import Hyper, PitmanYor
from unbounded.models.mixtures.model import Broadcast, Mixture, MixtureState, Own
from unbounded.models.mixtures.rivals import instantiated, kernel
from unbounded.randomness import generator, key

MOST_ATOMS = 2**20


@dataclass(frozen=True)
class Sliced(MixtureState):
    """A state on its way through a round: its hyper-parameters, and weights of occupied and new atoms."""

    weights: Array


@dataclass(frozen=True)
class Slice(Mixture):
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

    def jump(self, state: MixtureState, engine: Engine) -> Sliced:
        """Hyper-parameters, weights and, with the shards' smallest slice, as many new atoms as that takes."""
        hyper, live = instantiated.update_hyper(self, state), state.occupied
        rng = generator(self.seed, "weights", state.round)
        weights = np.exp(self.measure.log_weights(hyper, state.table.counts[live].astype(float), rng))
        own = [weights[recode(state, live, np.arange(len(live)), p)] for p in range(self.n_shards)]
        lowest = min(engine.map(partial(_least, slices=self._slices(state.round)), own))
        weights = np.concatenate([weights, others(self.measure, hyper, len(live), lowest, rng)])  # mutant: jump weights
        return Sliced(state.round, hyper, state.table, state.n_shared, state.n_private, weights)

    def _slices(self, round_: int) -> np.uint64:
        return key(self.seed, "slice", round_)

    def global_step(self, state: Any, spread: Spread = alone) -> Message:
        return instantiated.message(self, state, state.hyper, np.log(state.weights), TailLaw(state.hyper.sigma, 0.0))

    def finite(self, parameters: Parameters, log_weights: Array) -> Any:
        """(What `logits` takes, without weights; the weights.)"""
        return super().finite(parameters, np.zeros(len(log_weights))), np.exp(log_weights)  # mutant: finite result

    def _sweep(self, shard: LabelShard, message: Broadcast, own: Own) -> int:
        finite, weights = message.finite
        dtype = (finite if isinstance(finite, np.ndarray) else finite[0]).dtype
        rows = 0 if self.likelihood.sparse else self.likelihood.n_features
        work = scratch(rows, len(weights), 1, lanes_for(len(shard.labels), rows, len(weights), dtype.itemsize), dtype)
        kernel.draw_above(
            self.family, shard.data, shard.labels, shard.first, finite, weights, self._slices(message.round),
            key(self.seed, "label", message.round), work,
        )  # fmt: skip
        return 0


def _least(shard: LabelShard, weights: Array, slices: np.uint64) -> float:
    return float(kernel.least(shard.labels, weights, slices, shard.first))


def others(measure: PitmanYor, hyper: Hyper, n_atoms: int, lowest: float, rng: np.random.Generator) -> Array:
    """Weights of atoms without rows, beside n_atoms with some, that are at least `lowest`.

    Points of a Poisson process with intensity c s^(-1 - sigma) e^(-s): below 1 without the exponential, above 1 without
    the power, and then thinned.
    """
    sigma, low = hyper.sigma, min(lowest, 1.0)
    c = measure.birth(hyper, n_atoms, rng) / math.gamma(1.0 - sigma)  # mutant: others c
    with np.errstate(divide="ignore"):
        span = float(np.float64(low) ** -sigma - 1.0 if sigma > 0 else -np.log(low))
    mean = c * (span / sigma if sigma > 0 else span)
    if not mean < MOST_ATOMS:
        raise RuntimeError(
            f"the slice sampler needs about {mean:.1e} atoms in a round, with alpha = {hyper.alpha:.3g} and sigma = "
            f"{sigma:.3g}: a large discount is no case for it, use another sampler."
        )
    u = rng.random(rng.poisson(mean))
    light = (1.0 + u * span) ** (-1.0 / sigma) if sigma > 0 else np.exp(-u * span)
    light = light[rng.random(len(light)) < np.exp(-light)]
    heavy = 1.0 + rng.standard_exponential(rng.poisson(c * math.exp(-1.0)))
    heavy = heavy[rng.random(len(heavy)) < heavy ** (-1.0 - sigma)]
    both = np.concatenate([light, heavy])
    return both[both >= lowest]
