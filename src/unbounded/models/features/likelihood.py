"""What likelihoods of feature models share: a row is built from all the atoms it uses, so atoms are not independent.

A feature model explains row i by sum_k Z_ik theta_k, theta_k being atom k's *loadings*. Statistics are those of the
whole Z: the sum of each column (`members`), and what the likelihood needs besides (`products`, `sums`, `rest`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.columns import Columns


class FeatureStatistics(NamedTuple):
    """Of all occupied atoms, and after them the always-on columns, if any."""

    members: Array  # [K] sum of Z
    products: Array  # [K, K] Z'Z, or [K, 0] where it is not needed
    sums: Array  # [K, D]
    rest: Array  # [D] or empty: the part of the data that no atom explains
    square: float  # sum of squares of the data
    n_rows: int


class Loadings(NamedTuple):
    """The law of Gaussian loadings given Z: columns of the data are independent and have the same covariance."""

    mean: Array  # [K, D]
    covariance: Array  # [K, K]
    spread: float  # prior variance


class FeatureBound(ABC):
    """A feature likelihood with its prior, bound to columns."""

    columns: Columns
    centre: Array  # [D] subtracted from rows before all products and sums
    counts: ClassVar[bool] = False  # data are counts

    @cached_property
    def fixed(self) -> int:
        """Always-on columns of Z."""
        return 0

    @property
    @abstractmethod
    def gram(self) -> bool:
        """Whether Z'Z is among the statistics."""

    @property
    @abstractmethod
    def keeps_loadings(self) -> bool:
        """Whether the loadings of private atoms are kept, not integrated out."""

    @abstractmethod
    def start(self) -> Any:
        """Initial scales: a NamedTuple of the parameters that are sampled besides loadings."""

    @abstractmethod
    def pack(self, scales: Any) -> Array: ...

    @abstractmethod
    def unpack(self, values: Array) -> Any: ...

    @abstractmethod
    def draw_scales(self, rng: np.random.Generator) -> Any:
        """From the prior."""

    @abstractmethod
    def draw(self, scales: Any, statistics: FeatureStatistics, rng: np.random.Generator) -> tuple[Array, Any]:
        """(loadings of all atoms, scales) given Z and the data."""

    @abstractmethod
    def expected(self, scales: Any, statistics: FeatureStatistics) -> Array:
        """Posterior means of all loadings given Z and the data (or their parts)."""

    def posterior(self, scales: Any, statistics: FeatureStatistics) -> Loadings:
        """The law of all loadings given Z and the data, where they are Gaussian (`gram`)."""
        raise NotImplementedError

    @abstractmethod
    def draw_prior(self, scales: Any, size: int, rng: np.random.Generator) -> Array:
        """Loadings of atoms that no row uses."""

    @abstractmethod
    def spec(self, scales: Any, loadings: Array, usable: int, dtype: str) -> Any:
        """The finite part for compiled code: loadings of the shared atoms, the first `usable` of which are mobile."""

    @abstractmethod
    def precision(self, spec: Any) -> np.dtype[Any]:
        """The precision of the vectorised part."""

    @abstractmethod
    def tail(self, scales: Any, slots: int, lanes: int, spec: Any, private: Array) -> Any:
        """Memory for the private atoms; `private`: their loadings, where they are kept."""

    @abstractmethod
    def impute(self, data: Array, holes: Array, Z: Array, loadings: Array, scales: Any, key: Any, first: int) -> None:
        """Redraw the holes (row, column) of `data` given Z and all loadings."""

    @abstractmethod
    def log_joint(self, scales: Any, statistics: FeatureStatistics) -> float:
        """Log density of the data (or of their parts) and the scales given Z, loadings integrated out."""

    @abstractmethod
    def scalars(self, scales: Any) -> dict[str, float]: ...

    @abstractmethod
    def mean(self, Z: Array, loadings: Array, scales: Any) -> Array:
        """[n, D]: expectation of rows."""

    @abstractmethod
    def log_cells(self, X: Array, mean: Array, scales: Any) -> Array:
        """[n, D]: log density of every cell given its expectation."""

    @abstractmethod
    def gains(self, scales: Any, base: Array, added: Array) -> tuple[Array, Array, Array]:
        """(origin, slope, cost): with `added` to the mean `base`, log density gains (x - origin) . slope - cost."""

    @abstractmethod
    def tempered(self, scales: Any, loadings: Array, power: float) -> tuple[Any, Array, float]:
        """Scales, loadings, and a factor of the data under which the likelihood is the same raised to a power."""

    @abstractmethod
    def with_new(self, scales: Any, entries: Array, rng: np.random.Generator) -> Any:
        """Scales for a row with these entries of atoms that no other row uses. Their loadings are integrated out, or
        drawn where that is not possible."""

    @abstractmethod
    def simulate(self, Z: Array, scales: Any, rng: np.random.Generator, loadings: Array | None = None) -> Array:
        """Rows given Z; loadings from their prior unless given."""

    @abstractmethod
    def check(self, X: Array) -> None:
        """Refuse rows that the likelihood cannot have produced."""
