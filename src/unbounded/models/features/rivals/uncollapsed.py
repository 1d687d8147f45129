"""Features of a finite model: `size` atoms with weights b ~ Beta(alpha c / size, c), all instantiated. Not exact.

As size grows, the limit is the beta-Bernoulli process with mass alpha and concentration c. Weights and loadings of all
atoms, unused ones too, are drawn in the global step; rows of all shards then move in parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message, Parallel, in_this_thread
from unbounded.models.features.beta_bernoulli import BetaBernoulli, FiniteBetaBernoulli
from unbounded.models.features.measure import FeatureHyper
from unbounded.models.features.model import Features
from unbounded.models.features.operations import Mobile
from unbounded.models.features.state import FeatureShare, FeatureState
from unbounded.randomness import generator


@dataclass(frozen=True)
class FiniteFeatures(Features):
    size: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.measure, BetaBernoulli):  # no finite model with another limit is known
            raise ValueError("sampler 'uncollapsed' of features takes the beta-Bernoulli measure only.")
        if not isinstance(self.size, int | np.integer) or self.size < 1:
            raise ValueError(f"size must be an integer of at least 1, got {self.size!r}.")

    @property
    def finite_measure(self) -> FiniteBetaBernoulli:
        assert isinstance(self.measure, BetaBernoulli)
        return FiniteBetaBernoulli(self.measure, self.size)

    @property
    def exact(self) -> bool:
        return False

    def settled(self) -> int:
        return 0

    def begin(
        self, engine: Engine, Z: Array, hyper: FeatureHyper | None = None, scales: Any = None, round_: int = 0
    ) -> FeatureState:
        """The state with this Z, of which only the `size` most used columns are kept."""
        Z = np.asarray(Z)
        kept = np.sort(np.argsort(-(Z != 0).sum(axis=0), kind="stable")[: self.size])
        return super().begin(engine, Z[:, kept], hyper, scales, round_)

    def global_step(self, state: FeatureState, parallel: Parallel = in_this_thread) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)

        live, always = state.occupied, state.always
        unused = self.size - len(live)
        members = np.append(state.table.members[live], np.zeros(unused))
        hyper = self.finite_measure.update(state.hyper, members, self.n_rows, rng("hyper"))
        loadings, scales = self.likelihood.draw(state.scales, self.everything(state), rng("parameters"))
        new = self.likelihood.draw_prior(scales, unused, rng("new"))
        shared = np.concatenate([loadings[: len(live)], new, loadings[len(live) :]])
        weights = self.finite_measure.log_weights(hyper, members, self.n_rows, rng("weights"))
        mobile = Mobile(rng("order").permutation(self.size), weights)
        message = self.closed_round(state.round, mobile, scales, shared, hyper)
        sources = np.concatenate([live, np.full(unused, -1), always])
        return Message(message, [FeatureShare(sources, False, False, loadings[:0])] * self.n_shards)
