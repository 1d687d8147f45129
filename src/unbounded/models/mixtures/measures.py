"""Measures of mixtures. A new one is one file and one line here.

`PartitionMeasure` is what the hybrid sampler and the start ask for; some rivals ask PitmanYor for more (measure.py).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Measure
from unbounded.models.mixtures.measure import PitmanYor, TailLaw


class PartitionMeasure(Measure[Any, int], Protocol):
    """A law of partitions; `hyper` is whatever the measure's own `start` and `update` return."""

    def log_predictive(self, hyper: Any, counts: Array) -> Array:
        """Log probabilities that the next row joins each atom, or (last) a new one."""

    def log_merge(self, hyper: Any, first: Array, second: Array, n_atoms: int) -> Array:
        """Log prior gained when two of n_atoms atoms, with so many rows each, become one."""

    def restore(self, values: Array) -> Any:
        """Hyper-parameters from an array of them."""

    def log_weights(self, hyper: Any, sizes: Array, rng: np.random.Generator) -> Array:
        """Unnormalised log weights of instantiated atoms with so many rows and ghosts."""

    def open_tail(self, hyper: Any, n_shared: int, n_private: int, rng: np.random.Generator) -> TailLaw:
        """The law of the tail of a shard that may make atoms, beside such weights."""

    def closed_tail(self, hyper: Any) -> TailLaw:
        """The same of one that makes none."""

    def published(self, hyper: Any, counts: Array, rest: float, rng: np.random.Generator) -> tuple[Array, TailLaw]:
        """(normalised log weights of all atoms, the law of an open tail) as the paper has it."""


MEASURES: tuple[type[PartitionMeasure], ...] = (PitmanYor,)
