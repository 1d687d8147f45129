"""A measure that the library does not have, in one class: at most H atoms, whose shares are Dirichlet(a / H, ...).

As a law of partitions it is PY(a, -a / H), where nothing is left for new atoms once there are H. Births of different
shards are then not independent given the message, whatever weights are drawn: so atoms that nobody has are dealt to
open shards, each to any of P alike, before the local step. That is one more variable to condition on. An atom with rows
of one shard can only be of that shard, an empty one might have gone to any: to fill one weighs P times a / H.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from unbounded.models.mixtures.measure import TailLaw
from unbounded.priors import Gamma, slice_within
from unbounded.randomness import log_gamma_draws

Array = np.ndarray


class FiniteHyper(NamedTuple):
    concentration: float


@dataclass(frozen=True)
class FiniteDirichlet:
    n_components: int = 4
    concentration: float | Gamma = field(default_factory=Gamma)

    # ---- hyper-parameters

    def start(self) -> FiniteHyper:
        return FiniteHyper(self.concentration.mean if isinstance(self.concentration, Gamma) else self.concentration)

    def draw_prior(self, rng: np.random.Generator) -> FiniteHyper:
        return FiniteHyper(
            self.concentration.draw(rng) if isinstance(self.concentration, Gamma) else self.concentration
        )

    def log_prior(self, hyper: FiniteHyper) -> float:
        return self.concentration.log_density(*hyper) if isinstance(self.concentration, Gamma) else 0.0

    def update(self, hyper: FiniteHyper, counts: Array, extent: float, rng: np.random.Generator) -> FiniteHyper:
        """By slices of a / (1 + a)."""
        if not isinstance(self.concentration, Gamma):
            return hyper

        def log_density(share: float) -> float:
            if not 0.0 < share < 1.0:
                return -math.inf
            now = FiniteHyper(share / (1.0 - share))
            return self.log_prior(now) + self.log_prob(now, counts, extent) - 2.0 * math.log1p(-share)

        (a,) = hyper
        share = slice_within(log_density, a / (1.0 + a), 0.0, 1.0, rng)
        return FiniteHyper(share / (1.0 - share))

    def scalars(self, hyper: FiniteHyper) -> dict[str, float]:
        return hyper._asdict()

    def restore(self, values: Array) -> FiniteHyper:
        return FiniteHyper(float(values[0]))

    # ---- partitions

    def _urn(self, hyper: FiniteHyper, counts: Array) -> Array:
        each = hyper.concentration / self.n_components
        return np.append(counts + each, (self.n_components - len(counts)) * each)

    def log_prob(self, hyper: FiniteHyper, counts: Array, extent: float) -> float:
        (a,), k = hyper, len(counts)
        if k > self.n_components:
            return -math.inf
        ways = math.lgamma(self.n_components + 1) - math.lgamma(self.n_components - k + 1)
        each = a / self.n_components
        return float(ways + math.lgamma(a) - math.lgamma(a + extent) + (gammaln(counts + each) - gammaln(each)).sum())

    def log_predictive(self, hyper: FiniteHyper, counts: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(self._urn(hyper, counts)) - math.log(hyper.concentration + counts.sum())

    def log_shares(self, hyper: FiniteHyper, counts: Array, rng: np.random.Generator) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(rng.dirichlet(self._urn(hyper, counts)))

    def log_merge(self, hyper: FiniteHyper, first: Array, second: Array, n_atoms: int) -> Array:
        each = hyper.concentration / self.n_components
        ways = self.n_components - n_atoms + 1  # of the atom that is not needed any more
        seats = gammaln(first + second + each) - gammaln(first + each) - gammaln(second + each) + gammaln(each)
        return seats - math.log(ways) if ways > 0 else np.full(np.shape(seats), math.inf)

    def ghosts(
        self, hyper: FiniteHyper, counts: Array, extent: float, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        each, k = hyper.concentration / self.n_components, len(counts)
        sizes = np.append(counts, np.zeros(self.n_components - k))
        drawn = rng.multinomial(total, rng.dirichlet(sizes + each))
        return drawn[:k], drawn[k:][drawn[k:] > 0]

    def simulate(self, hyper: FiniteHyper, extent: int, rng: np.random.Generator) -> Array:
        shares = rng.dirichlet(np.full(self.n_components, hyper.concentration / self.n_components))
        return np.unique(rng.choice(self.n_components, extent, p=shares), return_inverse=True)[1]

    # ---- the finite part and its tails

    def log_weights(self, hyper: FiniteHyper, sizes: Array, rng: np.random.Generator) -> Array:
        return log_gamma_draws(sizes + hyper.concentration / self.n_components, rng)

    def tails(
        self, hyper: FiniteHyper, n_shared: int, n_private: Array, is_open: Array, rng: np.random.Generator
    ) -> list[TailLaw]:
        left, n_open = self.n_components - n_shared - int(n_private.sum()), int(is_open.sum())
        most = n_private + (rng.multinomial(left, is_open / n_open) if n_open else 0)
        each = hyper.concentration / self.n_components
        return [
            self._law(each, int(n), n_open) if makes_atoms else self.closed_tail(hyper)
            for n, makes_atoms in zip(most, is_open, strict=True)
        ]

    def _law(self, each: float, most: int, times: int = 1) -> TailLaw:
        """Of a tail with so many atoms at most; rounding must leave no births beside all of them."""
        return TailLaw(-each, math.nextafter(times * each * most, 0.0), -times * each)

    def closed_tail(self, hyper: FiniteHyper) -> TailLaw:
        return TailLaw(-hyper.concentration / self.n_components, 0.0)

    def published(
        self, hyper: FiniteHyper, counts: Array, rest: float, rng: np.random.Generator
    ) -> tuple[Array, TailLaw]:
        *sizes, new = self._urn(hyper, counts)
        if new == 0.0:
            return np.log(rng.dirichlet(sizes)), self.closed_tail(hyper)
        *shares, tail = rng.dirichlet([*sizes, new + rest])
        law = self._law(hyper.concentration / self.n_components, self.n_components - len(counts))
        return np.log(shares), law._replace(scale=float(tail), base=float(new), step=1.0)
