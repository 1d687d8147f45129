"""Completely random measures for features: what they have in common (docs/features.md).

Z is a matrix of counts without empty columns; the count m_k of an atom is the sum of its column. alpha: mass, c:
concentration. Columns are independent, and p(Z | alpha, c) = alpha^K exp(-alpha g(c, n)) prod_k exp(atom(c, n, m_k)) up
to what hyper-parameters do not change: g is the expected number of atoms per unit of mass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.models.features.laws import new_count
from unbounded.priors import Gamma, slice_within


class FeatureHyper(NamedTuple):
    alpha: float
    c: float


@dataclass(frozen=True)
class FeatureMeasure(ABC):
    """What the three measures share.

    Parameters
    ----------
    mass : float or Gamma, default Gamma()
        alpha: how much atoms are used. A number fixes it; a `Gamma` prior is sampled.
    concentration : float or Gamma, default Gamma()
        c: how reluctantly rows share atoms. A number fixes it; a `Gamma` prior is sampled.
    """

    mass: float | Gamma = field(default_factory=Gamma)
    concentration: float | Gamma = field(default_factory=Gamma)
    binary: ClassVar[bool] = False  # entries are 0 or 1

    def __post_init__(self) -> None:
        for name in ("mass", "concentration"):
            value = getattr(self, name)
            if not isinstance(value, Gamma) and not (isinstance(value, Real) and 0 < float(value) < math.inf):
                raise ValueError(f"the {name} must be a positive number or a Gamma prior, got {value!r}.")

    # ---- what each of them defines

    @abstractmethod
    def expected(self, c: float, n: float) -> float:
        """g(c, n): the expected number of atoms that n rows use, per unit of mass."""

    @abstractmethod
    def log_atom(self, c: float, n: float, counts: Array) -> Array:
        """Log of the integral of a column's probability over the measure, per unit of mass, without `log_entries`."""

    @abstractmethod
    def log_entries(self, Z: Array) -> float:
        """Log of the factors of entries that do not depend on weights."""

    @abstractmethod
    def own_ghosts(self, hyper: FeatureHyper, counts: Array, n: int, total: int, rng: np.random.Generator) -> Array:
        """Ghosts of each atom given its count."""

    @abstractmethod
    def ghost_counts(self, hyper: FeatureHyper, n: int, total: int, size: int, rng: np.random.Generator) -> Array:
        """Ghosts of atoms that only ghosts use, given that each has at least one."""

    @abstractmethod
    def weight_shapes(self, hyper: FeatureHyper, amounts: Array, n: float) -> tuple[Array, Array]:
        """Parameters of the law of weights, for `draw_weights`; amounts: how often n rows and ghosts use each atom."""

    @abstractmethod
    def draw_weights(self, first: Array, second: Array, rng: np.random.Generator) -> Array:
        """Weights as kernels take them. The smaller the parameters, the broader their law."""

    @abstractmethod
    def log_weight_density(self, weights: Array, first: Array, second: Array) -> Array:
        """Log density of `draw_weights`."""

    @abstractmethod
    def law(self, hyper: FeatureHyper, n: float, open_: bool = True) -> Any:
        """The law of entries of private and new atoms; n: rows and ghosts."""

    @abstractmethod
    def later_entries(self, hyper: FeatureHyper, first: Array, i: Array, n: int, rng: np.random.Generator) -> Array:
        """[n, K]: columns of atoms that row i[k] was the first to use, with the entry first[k]."""

    # ---- shared

    def start(self) -> FeatureHyper:
        """Prior means, as a place to start from.

        Examples
        --------
        >>> hyper = process.start()
        >>> hyper
        FeatureHyper(alpha=1.0, c=1.0)
        """
        pair = (self.mass, self.concentration)
        return FeatureHyper(*(float(v.mean if isinstance(v, Gamma) else v) for v in pair))

    def draw_prior(self, rng: np.random.Generator) -> FeatureHyper:
        """Hyper-parameters from their priors.

        Examples
        --------
        >>> process.draw_prior(rng).alpha > 0.0
        True
        """
        pair = (self.mass, self.concentration)
        return FeatureHyper(*(float(v.draw(rng) if isinstance(v, Gamma) else v) for v in pair))

    def log_prior(self, hyper: FeatureHyper) -> float:
        """Log density of the hyper-parameters that are sampled.

        Examples
        --------
        >>> process.log_prior(hyper)  # both are Gamma(1, 1)
        -2.0
        """
        pairs = ((self.mass, hyper.alpha), (self.concentration, hyper.c))
        return sum(prior.log_density(value) for prior, value in pairs if isinstance(prior, Gamma))

    def log_prob(self, hyper: FeatureHyper, counts: Array, n: int) -> float:
        """Log p(Z) for columns in a given order, without `log_entries`.

        Examples
        --------
        >>> bool(np.isfinite(process.log_prob(hyper, np.array([3, 2]), 10)))  # two features of ten rows
        True
        """
        alpha, c = hyper
        atoms = float(self.log_atom(c, n, counts).sum())
        return len(counts) * math.log(alpha) - alpha * self.expected(c, n) + atoms

    def update(self, hyper: FeatureHyper, counts: Array, n: int, rng: np.random.Generator) -> FeatureHyper:
        """Update the sampled hyper-parameters given Z, ghosts integrated out: alpha is gamma; c by slice sampling.

        Examples
        --------
        >>> process.update(hyper, np.array([3, 2]), 10, rng).alpha > 0.0
        True
        """
        alpha, c = hyper
        if isinstance(self.concentration, Gamma):
            prior = self.concentration

            def log_density(u: float) -> float:  # of u = c / (1 + c)
                if not 0.0 < u < 1.0:
                    return -math.inf
                value = u / (1.0 - u)
                jacobian = -2.0 * math.log1p(-u)
                return self.log_prob(FeatureHyper(alpha, value), counts, n) + prior.log_density(value) + jacobian

            u = slice_within(log_density, c / (1.0 + c), 0.0, 1.0, rng)
            c = min(max(u / (1.0 - u), 1e-10), 1e10)
        if isinstance(self.mass, Gamma):
            shape, rate = self.mass.shape + len(counts), self.mass.rate + self.expected(c, n)
            alpha = max(float(rng.gamma(shape, 1.0 / rate)), 1e-300)
        return FeatureHyper(alpha, c)

    def ghosts(
        self, hyper: FeatureHyper, counts: Array, n: int, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """(ghosts of each atom, ghosts of each atom that only ghosts hold), from their law given Z.

        Examples
        --------
        >>> own, others = process.ghosts(hyper, np.array([3, 2]), 10, 10, rng)
        >>> len(own)
        2
        """
        more = hyper.alpha * (self.expected(hyper.c, n + total) - self.expected(hyper.c, n))
        size = int(rng.poisson(max(more, 0.0))) if total else 0
        own = self.own_ghosts(hyper, counts, n, total, rng)
        return own, self.ghost_counts(hyper, n, total, size, rng)

    def expected_atoms(self, hyper: FeatureHyper, n: int) -> float:
        """The expected number of atoms that n rows use."""
        return hyper.alpha * self.expected(hyper.c, n)

    def simulate(self, hyper: FeatureHyper, n: int, rng: np.random.Generator) -> Array:
        """Z from the prior: a Poisson number of atoms; for each, the first row that uses it, then all later rows.

        Examples
        --------
        >>> process.simulate(hyper, 20, rng).shape[0]
        20
        """
        ends = np.array([self.expected(hyper.c, i) for i in range(n + 1)])
        size = rng.poisson(hyper.alpha * ends[-1])
        i = np.searchsorted(ends, rng.random(size) * ends[-1], side="right").clip(1, n) - 1
        first = np.array([new_count(self.law(hyper, row + 1.0), rng.random()) for row in i], dtype=np.int64)
        return self.later_entries(hyper, first, i, n, rng)

    def log_weights(self, hyper: FeatureHyper, amounts: Array, n: float, rng: np.random.Generator) -> Array:
        """Weights of mobile atoms, as kernels take them; amounts: how often n rows and ghosts use each of them."""
        return self.draw_weights(*self.weight_shapes(hyper, amounts, n), rng)

    def restore(self, values: Array) -> FeatureHyper:
        """Hyper-parameters from an array of them."""
        return FeatureHyper(*(float(value) for value in values))

    def scalars(self, hyper: FeatureHyper) -> dict[str, float]:
        """The hyper-parameters that are sampled, by the names of the trace.

        Examples
        --------
        >>> process.scalars(hyper)
        {'alpha': 1.0, 'c': 1.0}
        """
        named = {"alpha": (self.mass, hyper.alpha), "c": (self.concentration, hyper.c)}
        return {name: value for name, (prior, value) in named.items() if isinstance(prior, Gamma)}


def draws_by_ratio(u: Array, first: float, ratio: Any) -> Array:
    """Draws of t = 1, 2, ... by inversion, with P(1) = first and P(t + 1) = ratio(t) P(t)."""
    out = np.ones(len(u), np.int64)
    p, t = first, 1
    left = u - p
    while (left >= 0).any() and p > 0:
        p *= ratio(t)
        t += 1
        out[left >= 0] = t
        left = left - p
    return out


def blank(first: Array, i: Array, n: int) -> Array:
    """[n, K]: the entry first[k] in row i[k], and zeros."""
    Z = np.zeros((n, len(first)), np.int64)
    Z[i, np.arange(len(first))] = first
    return Z
