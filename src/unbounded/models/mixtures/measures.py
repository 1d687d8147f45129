"""Measures of mixtures. A new one is one file and one line here.

`PartitionMeasure` is what the hybrid sampler and the start ask for; some rivals ask PitmanYor for more (measure.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Measure
from unbounded.models.mixtures.measure import PitmanYor, TailLaw


class PartitionMeasure(Measure[Any, int], Protocol):
    """A law of partitions; `hyper` is whatever the measure's own `start` and `update` return."""

    def log_predictive(self, hyper: Any, counts: Array) -> Array:
        """Log probabilities that the next row joins each atom, or (last) a new one."""

    def log_shares(self, hyper: Any, counts: Array, rng: np.random.Generator) -> Array:
        """Log shares of the whole mass that atoms and (last) all others have, from their law given the partition."""

    def log_merge(self, hyper: Any, first: Array, second: Array, n_atoms: int) -> Array:
        """Log prior gained when two of n_atoms atoms, with so many rows each, become one."""

    def restore(self, values: Array) -> Any:
        """Hyper-parameters from an array of them."""

    def log_weights(self, hyper: Any, sizes: Array, rng: np.random.Generator) -> Array:
        """Unnormalised log weights of instantiated atoms with so many rows and ghosts."""

    def tails(
        self, hyper: Any, n_shared: int, n_private: Array, is_open: Array, rng: np.random.Generator
    ) -> Sequence[TailLaw]:
        """The law of every shard's tail beside such weights, of n_shared atoms, ghost-only ones among them.

        n_private: of each shard. Only open shards make atoms. Laws stay as they are for the round: a measure that has
        so many atoms and no more deals those that are left to the shards.
        """

    def closed_tail(self, hyper: Any) -> TailLaw:
        """The law of a tail that makes no atoms."""

    def published(self, hyper: Any, counts: Array, rest: float, rng: np.random.Generator) -> tuple[Array, TailLaw]:
        """(normalised log weights of all atoms, the law of an open tail) as the paper has it."""


MEASURES: tuple[type[PartitionMeasure], ...] = (PitmanYor,)
