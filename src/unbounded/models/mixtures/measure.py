"""The Pitman-Yor process, PY(alpha, sigma); sigma = 0 is the Dirichlet process (docs/sampler.md, "The measure").

Z is a partition; an atom's count m_k is its number of rows. alpha: concentration, sigma: discount.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from unbounded.arrays import Array
from unbounded.compiled.jit import jit
from unbounded.priors import Beta, Gamma, log_gamma_draws, slice_within


class Hyper(NamedTuple):
    alpha: float
    sigma: float


@dataclass(frozen=True)
class PitmanYor:
    """PY(concentration, discount): each a number (fixed) or a prior (sampled).

    A row joins an atom with m rows with weight m - discount and makes a new one with concentration + K * discount.
    """

    concentration: float | Gamma = field(default_factory=Gamma)
    discount: float | Beta = field(default_factory=Beta)

    def __post_init__(self) -> None:
        sigma = self.discount
        if not isinstance(sigma, Beta) and not (isinstance(sigma, Real) and 0 <= sigma < 1):
            raise ValueError(f"the discount must be in [0, 1) or a Beta prior, got {sigma!r}.")
        alpha = self.concentration
        floor = -1.0 if isinstance(sigma, Beta) else -sigma
        if not isinstance(alpha, Gamma) and not (isinstance(alpha, Real) and floor < alpha < math.inf):
            raise ValueError(
                f"the concentration must be above minus the discount or a Gamma prior, got {alpha!r} "
                f"with discount {sigma!r}."
            )

    def start(self) -> Hyper:
        """Prior means, as a place to start from."""
        alpha = self.concentration.mean if isinstance(self.concentration, Gamma) else float(self.concentration)
        sigma = self.discount.mean if isinstance(self.discount, Beta) else float(self.discount)
        return Hyper(alpha, max(sigma, 0.5 * (1.0 - alpha)) if alpha < 0 and sigma <= -alpha else sigma)

    def draw_prior(self, rng: np.random.Generator) -> Hyper:
        alpha = self.concentration.draw(rng) if isinstance(self.concentration, Gamma) else self.concentration
        sigma = self.discount.draw(rng) if isinstance(self.discount, Beta) else self.discount
        return Hyper(float(alpha), float(sigma))

    def log_prior(self, hyper: Hyper) -> float:
        value = 0.0
        if isinstance(self.concentration, Gamma):
            value += self.concentration.log_density(hyper.alpha)
        if isinstance(self.discount, Beta):
            value += self.discount.log_density(hyper.sigma)
        return value

    def log_prob(self, hyper: Hyper, counts: Array) -> float:
        """Log probability of a partition with these counts (the EPPF)."""
        alpha, sigma = hyper
        k, n = len(counts), counts.sum()
        tables = np.log(alpha + sigma * np.arange(1, k)).sum()
        seats = gammaln(counts - sigma).sum() - k * gammaln(1.0 - sigma)
        return float(tables + seats - gammaln(alpha + n) + gammaln(alpha + 1.0))

    def update(self, hyper: Hyper, counts: Array, rng: np.random.Generator) -> Hyper:
        """Move the sampled hyper-parameters given the partition, ghosts integrated out.

        alpha by auxiliary variables (Teh 2006); sigma by slice sampling, O(K) instead of O(n).
        """
        alpha, sigma = hyper
        k, n = len(counts), counts.sum()
        if isinstance(self.concentration, Gamma):
            old_tables = rng.random(k - 1) < alpha / (alpha + sigma * np.arange(1, k))
            log_x = math.log(rng.beta(alpha + 1.0, n - 1.0)) if n > 1 else 0.0
            # mutant: update shape
            shape, rate = self.concentration.shape + old_tables.sum(), self.concentration.rate - log_x
            alpha = max(float(rng.gamma(shape, 1.0 / rate)), 1e-300)
        if isinstance(self.discount, Beta):
            prior = self.discount
            low = max(0.0, -alpha)

            def log_density(s: float) -> float:
                inside = low < s < 1.0
                # mutant: log density result
                return self.log_prob(Hyper(alpha, s), counts) + prior.log_density(s) if inside else -math.inf

            sigma = slice_within(log_density, sigma, low, 1.0, rng)
        return Hyper(alpha, sigma)

    def ghosts(self, hyper: Hyper, counts: Array, total: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """(ghosts of each atom, ghosts of each atom that only ghosts hold), from their law given the partition."""
        alpha, sigma = hyper
        rest = alpha + sigma * len(counts)
        logs = log_gamma_draws(np.append(counts - sigma, rest), rng)  # mutant: ghosts logs
        shares = np.exp(logs - logs.max())
        drawn = rng.multinomial(total, shares / shares.sum())
        return drawn[:-1], _seat(rng.random(int(drawn[-1])), rest, sigma)  # mutant: ghosts result

    def log_weights(self, hyper: Hyper, held: Array, rng: np.random.Generator) -> Array:
        """Unnormalised log weights, S_k ~ Gamma(rows + ghosts - sigma, 1)."""
        return log_gamma_draws(held - hyper.sigma, rng)  # mutant: log weights result

    def birth(self, hyper: Hyper, n_atoms: int, rng: np.random.Generator) -> float:
        """Weight of a new atom beside weights S_k: alpha, or sigma V with V ~ Gamma(alpha / sigma + K, 1)."""
        if hyper.sigma == 0.0:
            return hyper.alpha  # mutant: birth result
        return hyper.sigma * float(rng.standard_gamma(hyper.alpha / hyper.sigma + n_atoms))  # mutant: birth result 2

    def normalised(self, hyper: Hyper, counts: Array, rng: np.random.Generator) -> tuple[Array, float, float]:
        """(log weights, rest mass, concentration of the rest) given the partition: Dirichlet, as the paper has it."""
        rest = hyper.alpha + hyper.sigma * len(counts)
        logs = log_gamma_draws(np.append(counts - hyper.sigma, rest), rng)
        logs -= np.logaddexp.reduce(logs)
        return logs[:-1], float(np.exp(logs[-1])), rest

    def log_predictive(self, hyper: Hyper, counts: Array) -> Array:
        """Log probabilities that the next row joins each atom, or (last) a new one."""
        weights = np.append(counts - hyper.sigma, hyper.alpha + hyper.sigma * len(counts))
        return np.log(weights) - math.log(hyper.alpha + counts.sum())

    def scalars(self, hyper: Hyper) -> dict[str, float]:
        return {"alpha": hyper.alpha} | ({} if self.discount == 0.0 else {"sigma": hyper.sigma})


@jit
def _seat(uniforms, concentration, discount):
    """Sizes of the tables at which customers sit down in a PY(concentration, discount) Chinese restaurant."""
    sizes = np.zeros(uniforms.size, np.int64)
    tables = 0
    for j in range(uniforms.size):
        aim = uniforms[j] * (concentration + j)
        chosen = tables
        for t in range(tables):
            aim -= sizes[t] - discount
            if aim < 0:
                chosen = t
                break
        if chosen == tables:
            tables += 1
        sizes[chosen] += 1
    return sizes[:tables]


def DirichletProcess(concentration: float | Gamma | None = None) -> PitmanYor:
    """DP(concentration): the Pitman-Yor process without discount."""
    return PitmanYor(Gamma() if concentration is None else concentration, 0.0)
