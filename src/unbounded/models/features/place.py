"""Where a chain of jumps is between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unbounded.arrays import Array
from unbounded.models.features.likelihood import FeatureStatistics, Loadings
from unbounded.models.features.model import Features
from unbounded.models.features.state import FeatureState


@dataclass(frozen=True)
class Place:
    """Where a chain of jumps is: the statistics of occupied atoms and, after them, of always-on columns."""

    model: Features
    state: FeatureState
    statistics: FeatureStatistics
    entries: float  # log factors of the entries of Z

    @property
    def size(self) -> int:
        return len(self.statistics.members) - self.state.fixed

    def without(self, gone: Array) -> Array:
        """Columns that stay, always-on ones included."""
        return np.setdiff1d(np.arange(len(self.statistics.members)), gone)

    @cached_property
    def loadings(self) -> Loadings:
        """Their law given Z."""
        return self.model.likelihood.posterior(self.state.scales, self.statistics)

    @cached_property
    def log_target(self) -> float:
        """Log density with loadings and weights integrated out."""
        model, state = self.model, self.state
        prior = model.measure.log_prob(state.hyper, self.statistics.members[: self.size].astype(float), model.n_rows)
        return float(prior + self.entries + model.likelihood.log_joint(state.scales, self.statistics))


def place(model: Features, state: FeatureState) -> Place:
    return Place(model, state, model.everything(state), state.table.entries)
