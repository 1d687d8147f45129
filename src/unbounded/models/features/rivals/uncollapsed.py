"""Features of a finite model: `size` atoms with weights b ~ Beta(alpha c / size, c), all instantiated. Not exact.

As size grows, a column with m entries among n rows has the rate alpha c B(m, n - m + c): the limit is the
beta-Bernoulli process with mass alpha and concentration c (Griffiths and Ghahramani 2011; with c, Ghahramani et al.
2007). Weights and loadings of all atoms, unused ones too, are drawn in the global step; rows of all shards then move in
parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message, Spread, alone
from unbounded.models.features.measure import BetaBernoulli, Hyper
from unbounded.models.features.model import Broadcast, Features, FeatureState, Own
from unbounded.priors import Gamma, log_gamma_draws, slice_within
from unbounded.randomness import generator


@dataclass(frozen=True)
class FiniteFeatures(Features):
    size: int = 20

    def __post_init__(self) -> None:
        if not isinstance(self.measure, BetaBernoulli):
            raise ValueError("sampler 'uncollapsed' of features takes the beta-Bernoulli measure only.")
        if not isinstance(self.size, int | np.integer) or self.size < 1:
            raise ValueError(f"size must be an integer of at least 1, got {self.size!r}.")

    @property
    def exact(self) -> bool:
        return False

    def settled(self) -> int:
        return 0

    def begin(
        self, engine: Engine, Z: Array, hyper: Hyper | None = None, scales: Any = None, round_: int = 0
    ) -> FeatureState:
        """The state with this Z; of more columns than there are atoms, the most used ones stay."""
        Z = np.asarray(Z)
        kept = np.sort(np.argsort(-(Z != 0).sum(axis=0), kind="stable")[: self.size])
        return super().begin(engine, Z[:, kept], hyper, scales, round_)

    def global_step(self, state: FeatureState, spread: Spread = alone) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)

        live, always = state.occupied, state.always
        unused = self.size - len(live)
        members = np.append(state.table.members[live], np.zeros(unused))
        hyper = self._update(state.hyper, members, rng("hyper"))
        everything = self.statistics(state, np.concatenate([live, always]))
        loadings, scales = self.likelihood.draw(state.scales, everything, rng("parameters"))
        new = self.likelihood.draw_prior(scales, unused, rng("new"))
        shared = np.concatenate([loadings[: len(live)], new, loadings[len(live) :]])
        closed = self.measure.law(hyper, self.n_rows, open_=False)
        broadcast = Broadcast(
            state.round, (self.likelihood.family(scales, shared, self.size, self.setup.dtype),),
            self._log_odds(hyper, members, rng("weights")), (rng("order").permutation(self.size),), self.size,
            len(shared), (closed, closed), scales, shared, self.keys(state.round),
        )  # fmt: skip
        sources = np.concatenate([live, np.full(unused, -1), always])
        own = Own(sources, False, False, loadings[:0])
        return Message((broadcast, hyper), [own] * self.n_shards)

    def _log_odds(self, hyper: Hyper, members: Array, rng: np.random.Generator) -> Array:
        a = hyper.alpha * hyper.c / self.size
        value: Array = log_gamma_draws(a + members, rng) - log_gamma_draws(self.n_rows - members + hyper.c, rng)
        return value

    def _update(self, hyper: Hyper, members: Array, rng: np.random.Generator) -> Hyper:
        """Move sampled hyper-parameters given Z, one after the other, by slices of u = x / (1 + x)."""
        for name, prior in (("c", self.measure.concentration), ("alpha", self.measure.mass)):
            if isinstance(prior, Gamma):
                now = hyper._asdict()

                def log_density(u: float, now: Any = now, name: str = name, prior: Gamma = prior) -> float:
                    if not 0.0 < u < 1.0:
                        return -np.inf
                    x = u / (1.0 - u)
                    return self._log_prob(Hyper(**now | {name: x}), members) + prior.log_density(x) - 2 * np.log1p(-u)

                u = slice_within(log_density, now[name] / (1.0 + now[name]), 0.0, 1.0, rng)
                hyper = hyper._replace(**{name: min(max(u / (1.0 - u), 1e-10), 1e10)})
        return hyper

    def _log_prob(self, hyper: Hyper, members: Array) -> float:
        """Log p(Z) of all columns of the finite model, weights integrated out."""
        a = hyper.alpha * hyper.c / self.size
        return float((betaln(a + members, self.n_rows - members + hyper.c) - betaln(a, hyper.c)).sum())
