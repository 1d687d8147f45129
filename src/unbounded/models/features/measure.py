"""Completely random measures for features: beta-Bernoulli, gamma-Poisson, beta-negative-binomial (docs/features.md).

Z is a matrix of counts without empty columns; an atom's `members` m_k is the sum of its column. alpha: mass, c:
concentration. Columns are independent, and p(Z | alpha, c) = alpha^K exp(-alpha g(c, n)) prod_k exp(atom(c, n, m_k)) up
to what hyper-parameters do not change: g is the expected number of atoms per unit of mass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, digamma, gammaln

from unbounded.arrays import Array
from unbounded.models.features.kernel import BernoulliLaw, NegativeBinomialLaw, PoissonLaw, new_count
from unbounded.priors import Gamma, log_gamma_draws, slice_within


class Hyper(NamedTuple):
    alpha: float
    c: float


@dataclass(frozen=True)
class FeatureMeasure(ABC):
    """What the three have in common; each is a number (fixed) or a Gamma prior (sampled).

    mass: alpha, the expected number of atoms of a row's first kind; concentration: c.
    """

    mass: float | Gamma = field(default_factory=Gamma)
    concentration: float | Gamma = field(default_factory=Gamma)
    binary = False

    def __post_init__(self) -> None:
        for name in ("mass", "concentration"):
            value = getattr(self, name)
            if not isinstance(value, Gamma) and not (isinstance(value, Real) and 0 < float(value) < math.inf):
                raise ValueError(f"the {name} must be a positive number or a Gamma prior, got {value!r}.")

    # ---- what each of them says

    @abstractmethod
    def expected(self, c: float, n: float) -> float:
        """g(c, n): the expected number of atoms that n rows use, per unit of mass."""

    @abstractmethod
    def log_atom(self, c: float, n: float, members: Array) -> Array:
        """Log of the integral of a column's probability over the measure, per unit of mass, without `log_entries`."""

    @abstractmethod
    def log_entries(self, Z: Array) -> float:
        """Log of the factors that entries contribute whatever the weights are."""

    @abstractmethod
    def held_ghosts(self, hyper: Hyper, members: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        """Ghosts of each atom given its members."""

    @abstractmethod
    def ghost_counts(self, hyper: Hyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        """Ghosts of atoms that only ghosts hold, given that they have some."""

    @abstractmethod
    def log_weights(self, hyper: Hyper, held: Array, n: float, rng: np.random.Generator) -> Array:
        """Weights of mobile atoms with so many members and ghosts among n rows and ghosts, as kernels take them."""

    @abstractmethod
    def law(self, hyper: Hyper, n: float, open_: bool = True) -> Any:
        """Entries of private and new atoms, n counting rows and ghosts."""

    @abstractmethod
    def later_entries(self, hyper: Hyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        """[n, K]: columns of atoms that row i[k] was the first to use, with the entry first[k]."""

    # ---- shared

    def start(self) -> Hyper:
        """Prior means, as a place to start from."""
        return Hyper(
            *(float(v.mean if isinstance(v, Gamma) else v) for v in (self.mass, self.concentration))
        )  # fmt: skip

    def draw_prior(self, rng: np.random.Generator) -> Hyper:
        return Hyper(*(float(v.draw(rng) if isinstance(v, Gamma) else v) for v in (self.mass, self.concentration)))

    def log_prior(self, hyper: Hyper) -> float:
        pairs = ((self.mass, hyper.alpha), (self.concentration, hyper.c))
        return sum(prior.log_density(value) for prior, value in pairs if isinstance(prior, Gamma))

    def log_prob(self, hyper: Hyper, members: Array, n: int) -> float:
        """Log p(Z) for columns in a given order, without `log_entries`."""
        alpha, c = hyper
        atoms = float(self.log_atom(c, n, members).sum())
        return len(members) * math.log(alpha) - alpha * self.expected(c, n) + atoms

    def update(self, hyper: Hyper, members: Array, n: int, rng: np.random.Generator) -> Hyper:
        """Move the sampled hyper-parameters given Z, ghosts integrated out: alpha is gamma; c by slice sampling."""
        alpha, c = hyper
        if isinstance(self.concentration, Gamma):
            prior = self.concentration

            def log_density(u: float) -> float:  # of u = c / (1 + c)
                if not 0.0 < u < 1.0:
                    return -math.inf
                value = u / (1.0 - u)
                jacobian = -2.0 * math.log1p(-u)
                return self.log_prob(Hyper(alpha, value), members, n) + prior.log_density(value) + jacobian

            u = slice_within(log_density, c / (1.0 + c), 0.0, 1.0, rng)
            c = min(max(u / (1.0 - u), 1e-10), 1e10)
        if isinstance(self.mass, Gamma):
            shape, rate = self.mass.shape + len(members), self.mass.rate + self.expected(c, n)
            alpha = max(float(rng.gamma(shape, 1.0 / rate)), 1e-300)
        return Hyper(alpha, c)

    def ghosts(self, hyper: Hyper, members: Array, n: int, total: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """(ghosts of each atom, ghosts of each atom that only ghosts hold), from their law given Z."""
        more = hyper.alpha * (self.expected(hyper.c, n + total) - self.expected(hyper.c, n))
        size = int(rng.poisson(max(more, 0.0))) if total else 0
        held = self.held_ghosts(hyper, members, n, total, rng)
        return held, self.ghost_counts(hyper, n, total, size, rng)

    def simulate(self, hyper: Hyper, n: int, rng: np.random.Generator) -> Array:
        """Z from the prior: Poisson many atoms, each with the first row that uses it, then the rows after that one."""
        ends = np.array([self.expected(hyper.c, i) for i in range(n + 1)])
        size = rng.poisson(hyper.alpha * ends[-1])
        i = np.searchsorted(ends, rng.random(size) * ends[-1], side="right").clip(1, n) - 1
        first = np.array([new_count(self.law(hyper, row + 1.0), rng.random()) for row in i], dtype=np.int64)
        return self.later_entries(hyper, first, i, n, rng)

    def scalars(self, hyper: Hyper) -> dict[str, float]:
        named = {"alpha": (self.mass, hyper.alpha), "c": (self.concentration, hyper.c)}
        return {name: value for name, (prior, value) in named.items() if isinstance(prior, Gamma)}


def _by_ratio(u: Array, first: float, ratio: Any) -> Array:
    """Draws of t = 1, 2, ... by their distribution function, with P(1) = first and P(t + 1) = ratio(t) P(t)."""
    out = np.ones(len(u), np.int64)
    p, t = first, 1
    left = u - p
    while (left >= 0).any() and p > 0:
        p *= ratio(t)
        t += 1
        out[left >= 0] = t
        left = left - p
    return out


def _blank(first: Array, i: Array, n: int) -> Array:
    Z = np.zeros((n, len(first)), np.int64)
    Z[i, np.arange(len(first))] = first
    return Z


@dataclass(frozen=True)
class BetaBernoulli(FeatureMeasure):
    """Beta-Bernoulli process (Indian buffet with two parameters): a row uses an atom or not."""

    binary = True

    def expected(self, c: float, n: float) -> float:
        return float(c * (digamma(c + n) - digamma(c)))

    def log_atom(self, c: float, n: float, members: Array) -> Array:
        value: Array = math.log(c) + betaln(members, n - members + c)
        return value

    def log_entries(self, Z: Array) -> float:
        return 0.0

    def held_ghosts(self, hyper: Hyper, members: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        return rng.binomial(total, rng.beta(members, n - members + hyper.c))

    def ghost_counts(self, hyper: Hyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        if size == 0:
            return np.empty(0, np.int64)
        everyone, c = n + total, hyper.c
        first = total / (everyone - 1.0 + c) / (digamma(c + everyone) - digamma(c + n))

        def ratio(t: int) -> float:
            return (total - t) * t / ((t + 1.0) * (everyone - t - 1.0 + c))

        return _by_ratio(rng.random(size), first, ratio)

    def log_weights(self, hyper: Hyper, held: Array, n: float, rng: np.random.Generator) -> Array:
        """Log odds of Beta(held, n - held + c) draws."""
        value: Array = log_gamma_draws(held, rng) - log_gamma_draws(n - held + hyper.c, rng)
        return value

    def law(self, hyper: Hyper, n: float, open_: bool = True) -> BernoulliLaw:
        rate = hyper.alpha * hyper.c / (hyper.c + n - 1.0)  # mutant: law rate
        return BernoulliLaw(hyper.c, float(n), rate if open_ else 0.0, 1.0)

    def later_entries(self, hyper: Hyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        weights = rng.beta(first, hyper.c + i)
        Z = (rng.random((n, len(first))) < weights) & (np.arange(n)[:, None] > i)
        return Z + _blank(first, i, n)


@dataclass(frozen=True)
class GammaPoisson(FeatureMeasure):
    """Gamma-Poisson process (Titsias 2008): a row uses an atom 0, 1, 2, ... times."""

    def expected(self, c: float, n: float) -> float:
        return math.log1p(n / c)

    def log_atom(self, c: float, n: float, members: Array) -> Array:
        value: Array = gammaln(members) - members * math.log(c + n)
        return value

    def log_entries(self, Z: Array) -> float:
        return -float(gammaln(Z + 1.0).sum())

    def held_ghosts(self, hyper: Hyper, members: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        return rng.poisson(total * rng.gamma(members, 1.0 / (hyper.c + n)))

    def ghost_counts(self, hyper: Hyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        return rng.logseries(total / (hyper.c + n + total), size) if size else np.empty(0, np.int64)

    def log_weights(self, hyper: Hyper, held: Array, n: float, rng: np.random.Generator) -> Array:
        value: Array = log_gamma_draws(held, rng) - math.log(hyper.c + n)
        return value

    def law(self, hyper: Hyper, n: float, open_: bool = True) -> PoissonLaw:
        step = -math.log1p(-1.0 / (hyper.c + n))  # log((c + n) / (c + n - 1))
        first = 1.0 / (hyper.c + n) / step
        return PoissonLaw(hyper.c, float(n), hyper.alpha * step if open_ else 0.0, first)

    def later_entries(self, hyper: Hyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        means = rng.gamma(first, 1.0 / (hyper.c + i + 1.0))
        Z = rng.poisson(means, (n, len(first))) * (np.arange(n)[:, None] > i)
        return Z + _blank(first, i, n)


@dataclass(frozen=True)
class BetaNegativeBinomial(FeatureMeasure):
    """Beta-negative-binomial process: counts with more spread than Poisson; failures: r."""

    failures: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.failures, Real) and 0 < float(self.failures) < math.inf):
            raise ValueError(f"failures must be a positive number, got {self.failures!r}.")

    def expected(self, c: float, n: float) -> float:
        return float(c * (digamma(c + n * self.failures) - digamma(c)))

    def log_atom(self, c: float, n: float, members: Array) -> Array:
        value: Array = math.log(c) + betaln(members, c + n * self.failures)
        return value

    def log_entries(self, Z: Array) -> float:
        r = self.failures
        return float((gammaln(r + Z) - gammaln(r) - gammaln(Z + 1.0)).sum())

    def held_ghosts(self, hyper: Hyper, members: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        mu = rng.beta(members, hyper.c + n * self.failures)
        mean = rng.gamma(total * self.failures, mu / np.maximum(1.0 - mu, 1e-12)) if total else np.zeros(len(members))
        return rng.poisson(np.minimum(mean, 1e15))

    def ghost_counts(self, hyper: Hyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        if size == 0:
            return np.empty(0, np.int64)
        all_r, own_r = (n + total) * self.failures, total * self.failures
        c = hyper.c
        # p(1) = T r B(1, c + N r) over the whole mass, which is the difference of digammas.
        first = own_r / (c + all_r) / (digamma(c + all_r) - digamma(c + n * self.failures))

        def ratio(t: int) -> float:
            return (own_r + t) * t / ((t + 1.0) * (t + c + all_r))

        return _by_ratio(rng.random(size), first, ratio)

    def log_weights(self, hyper: Hyper, held: Array, n: float, rng: np.random.Generator) -> Array:
        x = log_gamma_draws(held, rng)
        y = log_gamma_draws(np.full(len(held), hyper.c + n * self.failures), rng)
        value: Array = x - np.logaddexp(x, y)
        return value

    def law(self, hyper: Hyper, n: float, open_: bool = True) -> NegativeBinomialLaw:
        r, c = self.failures, hyper.c
        step = float(digamma(c + n * r) - digamma(c + (n - 1.0) * r))
        first = r / (c + n * r) / step
        return NegativeBinomialLaw(c, float(n), hyper.alpha * c * step if open_ else 0.0, first, r)

    def later_entries(self, hyper: Hyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        mu = rng.beta(first, hyper.c + (i + 1.0) * self.failures)
        Z = rng.negative_binomial(self.failures, np.maximum(1.0 - mu, 1e-12), (n, len(first)))
        return Z * (np.arange(n)[:, None] > i) + _blank(first, i, n)
