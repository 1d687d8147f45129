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
from unbounded.priors import Beta, Gamma, slice_within
from unbounded.randomness import log_gamma_draws

MOST_ATOMS = 2**20


class PartitionHyper(NamedTuple):
    alpha: float
    sigma: float


class TailLaw(NamedTuple):
    """Weights in the tail of a shard with `rows` rows in `atoms` private atoms (the moving row left out).

    An atom with m rows weighs c (m - discount), a new one c (birth + extra * atoms); c = scale / (base + step * rows).
    Ghosts: scale = base = 1, step = extra = 0. As published: the Dirichlet rest mass shared out among the tail.
    """

    discount: float
    birth: float
    extra: float = 0.0
    scale: float = 1.0
    base: float = 1.0
    step: float = 0.0

    @property
    def makes_atoms(self) -> bool:
        return self.birth > 0.0 or self.extra > 0.0


@dataclass(frozen=True)
class PitmanYor:
    """PY(concentration, discount): each a number (fixed) or a prior (sampled).

    A row joins an atom with m rows with weight m - discount and makes a new one with concentration + K * discount.

    Parameters
    ----------
    concentration : float or Gamma, default Gamma()
        Above minus the discount.
    discount : float in [0, 1) or Beta, default Beta()
        0 is the Dirichlet process.

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> process, rng = ub.PitmanYor(1.0, 0.3), np.random.default_rng(0)
    >>> process.simulate(process.draw_prior(rng), 100, rng).shape[0]  # Z of 100 rows
    100
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

    def start(self) -> PartitionHyper:
        """Prior means, as a place to start from.

        Examples
        --------
        >>> hyper = process.start()
        >>> hyper
        PartitionHyper(alpha=1.0, sigma=0.3)
        """
        alpha = self.concentration.mean if isinstance(self.concentration, Gamma) else float(self.concentration)
        sigma = self.discount.mean if isinstance(self.discount, Beta) else float(self.discount)
        return PartitionHyper(alpha, max(sigma, 0.5 * (1.0 - alpha)) if alpha < 0 and sigma <= -alpha else sigma)

    def draw_prior(self, rng: np.random.Generator) -> PartitionHyper:
        """Hyper-parameters from their priors.

        Examples
        --------
        >>> ub.PitmanYor(ub.Gamma(), 0.3).draw_prior(rng).sigma
        0.3
        """
        alpha = self.concentration.draw(rng) if isinstance(self.concentration, Gamma) else self.concentration
        sigma = self.discount.draw(rng) if isinstance(self.discount, Beta) else self.discount
        return PartitionHyper(float(alpha), float(sigma))

    def log_prior(self, hyper: PartitionHyper) -> float:
        """Log density of the hyper-parameters that are sampled.

        Examples
        --------
        >>> process.log_prior(hyper)  # both are fixed
        0.0
        """
        value = 0.0
        if isinstance(self.concentration, Gamma):
            value += self.concentration.log_density(hyper.alpha)
        if isinstance(self.discount, Beta):
            value += self.discount.log_density(hyper.sigma)
        return value

    def log_prob(self, hyper: PartitionHyper, counts: Array, extent: float) -> float:
        """Log probability of a partition of `extent` rows with these counts (the EPPF).

        Examples
        --------
        >>> together, apart = (process.log_prob(hyper, np.array(sizes), 2) for sizes in ([2], [1, 1]))
        >>> bool(np.isclose(np.exp(together) + np.exp(apart), 1.0))  # all that two rows can do
        True
        """
        alpha, sigma = hyper
        k, n = len(counts), extent
        tables = np.log(alpha + sigma * np.arange(1, k)).sum()
        seats = gammaln(counts - sigma).sum() - k * gammaln(1.0 - sigma)
        return float(tables + seats - gammaln(alpha + n) + gammaln(alpha + 1.0))

    def update(self, hyper: PartitionHyper, counts: Array, extent: float, rng: np.random.Generator) -> PartitionHyper:
        """Move the sampled hyper-parameters given the partition, ghosts integrated out.

        alpha by auxiliary variables (Teh 2006); sigma by slice sampling, O(K) instead of O(n).

        Examples
        --------
        >>> ub.PitmanYor(ub.Gamma(), 0.3).update(hyper, np.array([60, 40]), 100, rng).sigma
        0.3
        """
        alpha, sigma = hyper
        k, n = len(counts), extent
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
                return (
                    self.log_prob(PartitionHyper(alpha, s), counts, n) + prior.log_density(s) if inside else -math.inf
                )

            sigma = slice_within(log_density, sigma, low, 1.0, rng)
        return PartitionHyper(alpha, sigma)

    def ghosts(
        self, hyper: PartitionHyper, counts: Array, extent: float, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """(ghosts of each atom, ghosts of each atom that only ghosts hold), from their law given the partition.

        Examples
        --------
        >>> own, others = process.ghosts(hyper, np.array([60, 40]), 100, 50, rng)
        >>> int(own.sum() + others.sum())
        50
        """
        alpha, sigma = hyper
        rest = alpha + sigma * len(counts)
        logs = log_gamma_draws(np.append(counts - sigma, rest), rng)  # mutant: ghosts logs
        shares = np.exp(logs - logs.max())
        drawn = rng.multinomial(total, shares / shares.sum())
        return drawn[:-1], _seat(rng.random(int(drawn[-1])), rest, sigma)  # mutant: ghosts result

    def simulate(self, hyper: PartitionHyper, extent: int, rng: np.random.Generator) -> Array:
        """Labels of `extent` rows from the prior, one row after another: a new atom, or that of an earlier row.

        Examples
        --------
        >>> process.simulate(hyper, 5, rng)[0]  # labels count from 0
        np.int64(0)
        """
        alpha, sigma = hyper
        labels, sizes = [0], [1]
        for i, u in enumerate(rng.random(extent - 1).tolist(), 1):
            if u * (alpha + i) < alpha + sigma * len(sizes):
                labels.append(len(sizes))
                sizes.append(1)
                continue
            while True:  # all earlier rows alike, and the smaller the atom, the less it is taken: by size - sigma
                k = labels[int(i * rng.random())]
                if rng.random() * sizes[k] >= sigma:  # mutant: simulate size
                    break
            labels.append(k)
            sizes[k] += 1
        return np.array(labels[:extent], np.int64)

    def urn(self, hyper: PartitionHyper, counts: Array) -> Array:
        """Weights with which the next row joins each atom, or (last) a new one."""
        return np.append(counts - hyper.sigma, hyper.alpha + hyper.sigma * len(counts))

    def log_predictive(self, hyper: PartitionHyper, counts: Array) -> Array:
        """The weights of `urn` as log probabilities."""
        return np.log(self.urn(hyper, counts)) - math.log(hyper.alpha + counts.sum())

    def log_shares(self, hyper: PartitionHyper, counts: Array, rng: np.random.Generator) -> Array:
        """Log shares of the whole mass that atoms and (last) all others have, given the partition: Dirichlet."""
        mass = rng.standard_gamma(self.urn(hyper, counts))
        shares: Array = np.log(np.maximum(mass, 1e-300) / mass.sum())
        return shares

    def log_merge(self, hyper: PartitionHyper, first: Array, second: Array, n_atoms: int) -> Array:
        """Log prior gained when two of n_atoms atoms, with so many rows each, become one."""
        seats = gammaln(first + second - hyper.sigma) - gammaln(second - hyper.sigma) - gammaln(first - hyper.sigma)
        table = math.log(hyper.alpha + hyper.sigma * max(1, n_atoms - 1)) - math.lgamma(1.0 - hyper.sigma)
        value: Array = seats - table
        return value

    def scalars(self, hyper: PartitionHyper) -> dict[str, float]:
        """The hyper-parameters that are sampled or informative, under their names in the trace.

        Examples
        --------
        >>> process.scalars(hyper)
        {'alpha': 1.0, 'sigma': 0.3}
        """
        return {"alpha": hyper.alpha} | ({} if self.discount == 0.0 else {"sigma": hyper.sigma})

    def restore(self, values: Array) -> PartitionHyper:
        """Hyper-parameters from an array of them."""
        return PartitionHyper(*(float(value) for value in values))

    # ---- the finite part and the laws of tails beside it

    def log_weights(self, hyper: PartitionHyper, sizes: Array, rng: np.random.Generator) -> Array:
        """Unnormalised log weights, S_k ~ Gamma(rows + ghosts - sigma, 1)."""
        return log_gamma_draws(sizes - hyper.sigma, rng)  # mutant: log weights result

    def birth(self, hyper: PartitionHyper, n_atoms: int, rng: np.random.Generator) -> float:
        """Weight of a new atom beside weights S_k: alpha, or sigma V with V ~ Gamma(alpha / sigma + K, 1)."""
        if hyper.sigma == 0.0:
            return hyper.alpha  # mutant: birth result
        return hyper.sigma * float(rng.standard_gamma(hyper.alpha / hyper.sigma + n_atoms))  # mutant: birth result 2

    def tails(
        self, hyper: PartitionHyper, n_shared: int, n_private: Array, is_open: Array, rng: np.random.Generator
    ) -> list[TailLaw]:
        """The law of every shard's tail: all open ones have the same."""
        birth, closed = self.birth(hyper, n_shared + int(n_private.sum()), rng), self.closed_tail(hyper)
        return [TailLaw(hyper.sigma, birth) if makes_atoms else closed for makes_atoms in is_open]

    def closed_tail(self, hyper: PartitionHyper) -> TailLaw:
        """Rows move among private atoms and make none."""
        return TailLaw(hyper.sigma, 0.0)

    def collapsed_tail(self, hyper: PartitionHyper, n_parts: int = 1) -> TailLaw:
        """All atoms are in the tail; of n_parts tails with their own rows, each has its part of the concentration."""
        return TailLaw(hyper.sigma, hyper.alpha / n_parts, hyper.sigma)

    def published(
        self, hyper: PartitionHyper, counts: Array, rest: float, rng: np.random.Generator
    ) -> tuple[Array, TailLaw]:
        """(normalised log weights of instantiated atoms, the law of an open tail) as the paper has it: Dirichlet.

        rest: the number of rows of all other atoms, n less the paper's n tilde.
        """
        new = hyper.alpha + hyper.sigma * len(counts)
        logs = log_gamma_draws(np.append(counts - hyper.sigma, new + rest), rng)  # mutant: published rest
        logs -= np.logaddexp.reduce(logs)
        return logs[:-1], TailLaw(hyper.sigma, new, hyper.sigma, float(np.exp(logs[-1])), new, 1.0)

    # ---- for rivals

    def padded_log_weights(self, hyper: PartitionHyper, counts: Array, n_empty: int, rng: np.random.Generator) -> Array:
        """Log weights of atoms and of n_empty empty ones behind them, which stand for all others (sigma = 0)."""
        return log_gamma_draws(np.append(counts, np.full(n_empty, hyper.alpha / n_empty)), rng)

    def rest_weights(self, hyper: PartitionHyper, n_atoms: int, lowest: float, rng: np.random.Generator) -> Array:
        """Weights of atoms without rows, beside n_atoms with some, that are at least `lowest`.

        Points of a Poisson process with intensity c s^(-1 - sigma) e^(-s): below 1 without the exponential, above 1
        without the power, and then thinned.
        """
        sigma, low = hyper.sigma, min(lowest, 1.0)
        c = self.birth(hyper, n_atoms, rng) / math.gamma(1.0 - sigma)  # mutant: rest weights c
        with np.errstate(divide="ignore"):
            span = float(np.float64(low) ** -sigma - 1.0 if sigma > 0 else -np.log(low))
        mean = c * (span / sigma if sigma > 0 else span)
        if not mean < MOST_ATOMS:
            raise RuntimeError(
                f"the slice sampler needs about {mean:.1e} atoms in a round, with alpha = {hyper.alpha:.3g} and sigma "
                f"= {sigma:.3g}: it is not made for large discounts; use another sampler."
            )
        u = rng.random(rng.poisson(mean))
        light = (1.0 + u * span) ** (-1.0 / sigma) if sigma > 0 else np.exp(-u * span)
        light = light[rng.random(len(light)) < np.exp(-light)]
        heavy = 1.0 + rng.standard_exponential(rng.poisson(c * math.exp(-1.0)))
        heavy = heavy[rng.random(len(heavy)) < heavy ** (-1.0 - sigma)]
        both = np.concatenate([light, heavy])
        return both[both >= lowest]

    @property
    def divides(self) -> bool:
        """Whether it is a mixture of P processes with a part of the concentration each."""
        return isinstance(self.concentration, Gamma) or self.concentration > 0

    def deal(self, hyper: PartitionHyper, n_atoms: int, n_parts: int, rng: np.random.Generator) -> Array:
        """One of n_parts processes for each atom: uniform, or by an urn that returns sigma for each atom given out.

        The urn is exchangeable: the order of the atoms does not matter.
        """
        weights = np.full(n_parts, hyper.alpha / n_parts)
        homes = np.empty(n_atoms, np.int64)
        for k, u in enumerate(rng.random(n_atoms)):
            sums = np.cumsum(weights)
            homes[k] = min(int(np.searchsorted(sums, u * sums[-1], side="right")), n_parts - 1)
            weights[homes[k]] += hyper.sigma  # mutant: deal weights
        return homes

    def log_halves(self, hyper: PartitionHyper, counts: Array) -> Array:
        """[K]: log probability of two halves [K, 2] of an atom: Dirichlet-multinomial with alpha / 2 for each."""
        half = 0.5 * hyper.alpha
        constant = math.lgamma(hyper.alpha) - 2.0 * math.lgamma(half)
        value: Array = constant - gammaln(counts.sum(1) + hyper.alpha) + gammaln(counts + half).sum(1)
        return value

    def half_log_weights(self, hyper: PartitionHyper, counts: Array, rng: np.random.Generator) -> Array:
        """Unnormalised log weights of halves with so many rows."""
        return log_gamma_draws(counts + hyper.alpha / 2, rng)


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
    """DP(concentration): the Pitman-Yor process without discount.

    Parameters
    ----------
    concentration : float, Gamma or None, default None
        A number fixes it; a `Gamma` prior is sampled; None is Gamma(1, 1).

    Examples
    --------
    >>> import numpy as np
    >>> import unbounded as ub
    >>> process, rng = ub.DirichletProcess(), np.random.default_rng(0)
    >>> process.simulate(process.draw_prior(rng), 100, rng).shape[0]  # Z of 100 rows
    100
    """
    return PitmanYor(Gamma() if concentration is None else concentration, 0.0)
