"""Priors of hyper-parameters, and a slice-sampling move that measures share."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln


@dataclass(frozen=True)
class Gamma:
    """Gamma prior with mean shape / rate.

    Parameters
    ----------
    shape : float, default 1.0
        Above 0: the larger, the closer draws are to the mean.
    rate : float, default 1.0
        Above 0.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.DirichletProcessMixture(concentration=ub.Gamma(2.0, 4.0))  # mean 1/2
    """

    shape: float = 1.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not (self.shape > 0 and self.rate > 0):
            raise ValueError(f"a gamma prior needs a positive shape and rate, got {self.shape} and {self.rate}.")

    @property
    def mean(self) -> float:
        """Its expectation.

        Examples
        --------
        >>> ub.Gamma(2.0, 4.0).mean
        0.5
        """
        return self.shape / self.rate

    def log_density(self, x: float) -> float:
        """The log of its density at x.

        Examples
        --------
        >>> ub.Gamma(1.0, 1.0).log_density(2.0)
        -2.0
        """
        power = self.shape * math.log(self.rate) - math.lgamma(self.shape)
        return power + (self.shape - 1.0) * math.log(x) - self.rate * x  # mutant: gamma density

    def draw(self, rng: np.random.Generator) -> float:
        """A number from it.

        Examples
        --------
        >>> import numpy as np
        >>> ub.Gamma(2.0, 4.0).draw(np.random.default_rng(0)) > 0.0
        True
        """
        return float(rng.gamma(self.shape, 1.0 / self.rate))


@dataclass(frozen=True)
class Beta:
    """Beta prior with mean a / (a + b).

    Parameters
    ----------
    a : float, default 1.0
        Above 0.
    b : float, default 1.0
        Above 0.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.PitmanYorMixture(discount=ub.Beta(1.0, 3.0))  # mean 1/4
    """

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        if not (self.a > 0 and self.b > 0):
            raise ValueError(f"a beta prior needs two positive numbers, got {self.a} and {self.b}.")

    @property
    def mean(self) -> float:
        """Its expectation.

        Examples
        --------
        >>> ub.Beta(1.0, 3.0).mean
        0.25
        """
        return self.a / (self.a + self.b)

    def log_density(self, x: float) -> float:
        """The log of its density at x.

        Examples
        --------
        >>> abs(ub.Beta(1.0, 1.0).log_density(0.3))  # flat
        0.0
        """
        return (self.a - 1.0) * math.log(x) + (self.b - 1.0) * math.log1p(-x) - float(betaln(self.a, self.b))

    def draw(self, rng: np.random.Generator) -> float:
        """A number from it.

        Examples
        --------
        >>> import numpy as np
        >>> 0.0 < ub.Beta(1.0, 3.0).draw(np.random.default_rng(0)) < 1.0
        True
        """
        return float(rng.beta(self.a, self.b))


def slice_within(
    log_density: Callable[[float], float], x: float, low: float, high: float, rng: np.random.Generator
) -> float:
    """One slice-sampling move on a bounded interval: shrink towards x until a point lies under the density."""
    level = log_density(x) + math.log(rng.random())  # mutant: slice level
    while True:
        y = low + (high - low) * rng.random()
        if log_density(y) >= level:
            return y
        low, high = (y, high) if y < x else (low, y)
        if high - low < 1e-15 * max(abs(x), 1e-300):
            return x


@dataclass(frozen=True)
class InverseGamma:
    """Inverse gamma prior of a variance: scale / Gamma(shape, 1).

    Parameters
    ----------
    shape : float, default 1.0
        Above 0: the larger, the surer.
    scale : float, default 1.0
        Above 0: the larger, the larger the variance.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.BetaBernoulliFeatures(ub.LinearGaussian(noise=ub.InverseGamma(3.0, 2.0)))
    """

    shape: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not (self.shape > 0 and self.scale > 0):
            raise ValueError(
                f"an inverse gamma prior needs a positive shape and scale, got {self.shape} and {self.scale}."
            )

    def log_density(self, x: float) -> float:
        """The log of its density at x.

        Examples
        --------
        >>> ub.InverseGamma(1.0, 2.0).log_density(1.0) > ub.InverseGamma(1.0, 2.0).log_density(9.0)
        True
        """
        power = self.shape * math.log(self.scale) - math.lgamma(self.shape)
        return power - (self.shape + 1.0) * math.log(x) - self.scale / x

    def draw(self, rng: np.random.Generator) -> float:
        """A number from it.

        Examples
        --------
        >>> import numpy as np
        >>> ub.InverseGamma(3.0, 2.0).draw(np.random.default_rng(0)) > 0.0
        True
        """
        return self.scale / max(float(rng.standard_gamma(self.shape)), 1e-300)

    def given(self, count: int, squares: float) -> InverseGamma:
        """After `count` normal numbers with mean zero and this variance, whose squares sum up to `squares`.

        Examples
        --------
        >>> ub.InverseGamma(1.0, 1.0).given(4, 6.0)
        InverseGamma(shape=3.0, scale=4.0)
        """
        return InverseGamma(self.shape + 0.5 * count, self.scale + 0.5 * squares)  # mutant: given squares
