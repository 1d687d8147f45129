"""The hierarchical Dirichlet process (docs/topics.md): groups share atoms, each in its own proportions.

H ~ DP(alpha, D0) and, for every group, D_s ~ DP(gamma, H). In restaurant terms the rows of a group sit at tables, a
table serves one dish (atom), and the tables of all groups are the "rows" of the top process: what counts, weights and
ghosts are for a mixture, they are here for table counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from unbounded.arrays import Array
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.priors import Gamma, slice_within


class Hyper(NamedTuple):
    alpha: float
    gamma: float
    eta: float = 0.0  # concentration of the topics over words, where the likelihood has one


@dataclass(frozen=True)
class HierarchicalDirichletProcess:
    """Concentrations of the top process and of the groups: each a number (fixed) or a Gamma prior (sampled)."""

    concentration: float | Gamma = field(default_factory=Gamma)
    group_concentration: float | Gamma = field(default_factory=Gamma)

    def __post_init__(self) -> None:
        for name in ("concentration", "group_concentration"):
            value = getattr(self, name)
            if not isinstance(value, Gamma) and not (isinstance(value, Real) and 0 < float(value) < math.inf):
                raise ValueError(f"the {name} must be positive or a Gamma prior, got {value!r}.")

    @cached_property
    def top(self) -> PitmanYor:
        return PitmanYor(self.concentration, 0.0)

    @property
    def _priors(self) -> tuple[float | Gamma, float | Gamma]:
        return self.concentration, self.group_concentration

    def start(self) -> Hyper:
        return Hyper(*(prior.mean if isinstance(prior, Gamma) else float(prior) for prior in self._priors))

    def draw_prior(self, rng: np.random.Generator) -> Hyper:
        return Hyper(*(prior.draw(rng) if isinstance(prior, Gamma) else float(prior) for prior in self._priors))

    def log_prior(self, hyper: Hyper) -> float:
        pairs = zip(self._priors, hyper, strict=False)
        return sum(prior.log_density(value) for prior, value in pairs if isinstance(prior, Gamma))

    def update(self, hyper: Hyper, tables: Array, sizes: Array, rng: np.random.Generator) -> Hyper:
        """Move alpha given the atoms' table counts, gamma given the number of tables in groups of these sizes."""
        alpha = self.top.update(PartitionHyper(hyper.alpha, 0.0), tables, float(tables.sum()), rng).alpha
        gamma = hyper.gamma
        if isinstance(self.group_concentration, Gamma):
            # mutant: update gamma
            gamma = _group_concentration(self.group_concentration, gamma, float(tables.sum()), sizes, rng)
        return hyper._replace(alpha=alpha, gamma=gamma)

    def ghosts(self, hyper: Hyper, tables: Array, total: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Ghost tables: of each atom, and of each atom that only ghosts hold."""
        return self.top.ghosts(PartitionHyper(hyper.alpha, 0.0), tables, float(tables.sum()), total, rng)

    def scalars(self, hyper: Hyper) -> dict[str, float]:
        return {"alpha": hyper.alpha, "gamma": hyper.gamma}


def _group_concentration(prior: Gamma, gamma: float, n_tables: float, sizes: Array, rng: np.random.Generator) -> float:
    """Slice move of u = gamma / (1 + gamma); groups of one size weigh the same, so it costs by sizes, not by groups."""
    times = np.bincount(sizes)
    rows = np.flatnonzero(times)
    times = times[rows]

    def log_density(u: float) -> float:
        g = max(u, 1e-300) / (1.0 - u)
        seatings = times @ (math.lgamma(g) - gammaln(g + rows))
        # mutant: log density result 3
        return prior.log_density(g) + n_tables * math.log(g) + float(seatings) + 2.0 * math.log1p(g)

    u = slice_within(log_density, gamma / (1.0 + gamma), 0.0, 1.0, rng)
    return max(u, 1e-300) / (1.0 - u)
