"""The hierarchical Dirichlet process (docs/topics.md, "The model").

H ~ DP(alpha, D0) and, for every group, D_s ~ DP(gamma, H): groups share atoms, each in its own proportions. In
restaurant terms the rows of a group sit at tables, a table serves one dish (atom), and the tables of all groups are the
"rows" of the top process: what counts, weights and ghosts are for a mixture, they are here for table counts. The extent
of the data are the sizes of the groups. beta: the weights of atoms in H, the *top weights*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln

from unbounded.arrays import Array
from unbounded.instantiation import Plan
from unbounded.models.groups.shard import GroupHyper, Law
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.priors import Gamma, slice_within
from unbounded.randomness import log_gamma_draws


class TopTables(NamedTuple):
    """Tables, those of ghosts among them, of the atoms that all shards share, and of private ones with their shards."""

    shared: Array
    private: Array
    owner: Array


class TopWeights(NamedTuple):
    """A draw of the top weights beta."""

    share: float  # concentration of a shard's tail
    masses: Array  # gamma beta of shared atoms
    sticks: list[Array]  # of every shard: log beta of private atoms (direct assignment), and of the rest of its tail


@dataclass(frozen=True)
class HierarchicalMeasure:
    """Concentrations of the top process and of the groups: each a number (fixed) or a Gamma prior (sampled)."""

    concentration: float | Gamma = field(default_factory=Gamma)
    group_concentration: float | Gamma = field(default_factory=Gamma)

    described_as: ClassVar[str] = "HierarchicalDirichletProcess"  # in the description of a run

    def __post_init__(self) -> None:
        for name in ("concentration", "group_concentration"):
            value = getattr(self, name)
            if not isinstance(value, Gamma) and not (isinstance(value, Real) and 0 < float(value) < math.inf):
                raise ValueError(f"the {name} must be positive or a Gamma prior, got {value!r}.")

    @cached_property
    def top(self) -> PitmanYor:
        """The process of the tables, as a mixture has one of its rows."""
        return PitmanYor(self.concentration, 0.0)

    def top_hyper(self, hyper: GroupHyper) -> PartitionHyper:
        """Its hyper-parameters."""
        return PartitionHyper(hyper.alpha, 0.0)

    @property
    def _priors(self) -> tuple[float | Gamma, float | Gamma]:
        return self.concentration, self.group_concentration

    # ---- hyper-parameters

    def start(self) -> GroupHyper:
        alpha, gamma = (prior.mean if isinstance(prior, Gamma) else float(prior) for prior in self._priors)
        return GroupHyper(alpha, gamma)

    def draw_prior(self, rng: np.random.Generator) -> GroupHyper:
        alpha, gamma = (prior.draw(rng) if isinstance(prior, Gamma) else float(prior) for prior in self._priors)
        return GroupHyper(alpha, gamma)

    def log_prior(self, hyper: GroupHyper) -> float:
        pairs = zip(self._priors, hyper[:2], strict=True)
        return sum(prior.log_density(value) for prior, value in pairs if isinstance(prior, Gamma))

    def log_prob(self, hyper: GroupHyper, counts: Array, extent: Array) -> float:
        """Log probability of tables with these dishes in groups of these sizes, but for who sits where."""
        top = self.top.log_prob(self.top_hyper(hyper), counts, float(counts.sum()))
        return top + sum(_Seatings(counts.sum(), extent).log_terms(hyper.gamma))

    def update(self, hyper: GroupHyper, counts: Array, extent: Array, rng: np.random.Generator) -> GroupHyper:
        """Move alpha given the atoms' table counts, gamma given the number of tables in groups of these sizes."""
        alpha = self.top.update(self.top_hyper(hyper), counts, float(counts.sum()), rng).alpha
        gamma = hyper.gamma
        if isinstance(self.group_concentration, Gamma):
            # mutant: update gamma
            gamma = _group_concentration(self.group_concentration, gamma, _Seatings(counts.sum(), extent), rng)
        return hyper._replace(alpha=alpha, gamma=gamma)

    def scalars(self, hyper: GroupHyper) -> dict[str, float]:
        return {"alpha": hyper.alpha, "gamma": hyper.gamma}

    def restore(self, values: Array) -> GroupHyper:
        """Hyper-parameters from an array of them."""
        return GroupHyper.of(values)

    # ---- ghosts and weights

    def usual_ghosts(self, extent: Array) -> int:
        """A fixed number in the range of the number of tables, which itself is part of the state."""
        return int(np.ceil(np.log1p(extent).sum()))

    def ghosts(
        self, hyper: GroupHyper, counts: Array, extent: Array, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Ghost tables: of each atom, and of each atom that only ghosts hold."""
        return self.top.ghosts(self.top_hyper(hyper), counts, float(counts.sum()), total, rng)

    def weights(
        self, hyper: GroupHyper, plan: Plan, tables: TopTables, seated: bool, rng: np.random.Generator
    ) -> TopWeights:
        """Top weights given tables; the tail of a shard whose rows are seated has one weight for all of its atoms."""
        shared, private, owner = tables
        shards = np.flatnonzero(plan.open)
        share = hyper.alpha / (1 if plan.published else len(shards))
        rest = np.full(1 if plan.published else len(shards), share)
        if seated:
            own = private.sum() if plan.published else np.bincount(owner, private, len(plan.open))[shards]
            rest += own  # mutant: weights rest
            private = private[:0]
        logs = _normalised(np.concatenate([shared, private, rest]), rng)
        logs, own, left = np.split(logs, [len(shared), len(shared) + len(private)])
        sticks = [np.append(own[owner == p] if len(own) else own, -np.inf) for p in range(len(plan.open))]
        for j, p in enumerate(shards):
            sticks[p][-1] = left[0 if plan.published else j]
        return TopWeights(share, hyper.gamma * np.exp(logs), sticks)  # mutant: weights result 2

    def sticks(self, hyper: GroupHyper, tables: Array, rng: np.random.Generator) -> tuple[Array, float]:
        """(log beta of atoms with these tables and, last, of all others; the concentration of the latter)."""
        return _normalised(np.append(tables, hyper.alpha), rng), hyper.alpha

    def masses(self, hyper: GroupHyper, beta: Array) -> Array:
        """gamma beta: what atoms with these top weights weigh in a group, apart from its rows."""
        return hyper.gamma * beta

    def expected_masses(self, hyper: GroupHyper, tables: Array) -> Array:
        """The same in expectation, of atoms with these tables and (last) of all others."""
        return hyper.gamma * np.append(tables, hyper.alpha) / (tables.sum() + hyper.alpha)

    def log_cut(self, hyper: GroupHyper, share: Array) -> Array:
        """Log prior density gained when an atom becomes two, with this share of its top weight and with the rest."""
        return math.log(hyper.alpha) - np.log(share) - np.log1p(-share)  # mutant: tokens beta

    def law(self, hyper: GroupHyper, masses: Array, share: float) -> Law:
        return Law(masses, hyper.gamma, float(np.log(hyper.gamma)), hyper.alpha, share)

    # ---- predictions

    def unknown(self, hyper: GroupHyper, mass: float) -> GroupHyper:
        """Hyper-parameters of what groups have besides known atoms, which weighs `mass` in each of them."""
        return GroupHyper(hyper.alpha, mass)

    def simulate(self, hyper: GroupHyper, extent: Array, rng: np.random.Generator) -> Array:
        """Labels of all rows from the prior: a Chinese restaurant franchise, in which new tables choose dishes."""
        labels = []
        tables: list[int] = []  # of each atom
        for size in extent:
            heads: list[int] = []  # rows at each of the group's tables
            dishes: list[int] = []
            for _ in range(size):
                table = _pick([*heads, hyper.gamma], rng)
                if table == len(heads):
                    heads.append(0)
                    dishes.append(_pick([*tables, hyper.alpha], rng))
                    tables += [0] * (dishes[-1] == len(tables))
                    tables[dishes[-1]] += 1
                heads[table] += 1
                labels.append(dishes[table])
        return np.array(labels, np.int64)


def _normalised(shapes: Array, rng: np.random.Generator) -> Array:
    """Logs of a Dirichlet draw."""
    logs: Array = log_gamma_draws(shapes, rng)
    logs -= np.logaddexp.reduce(logs)
    return logs


def _pick(weights: list[float], rng: np.random.Generator) -> int:
    return int(np.searchsorted(np.cumsum(weights), rng.random() * sum(weights), side="right"))


class _Seatings:
    """The probability of so many tables; groups of one size weigh the same, so it costs by sizes, not by groups."""

    def __init__(self, n_tables: float, sizes: Array):
        times = np.bincount(sizes[sizes > 0])
        self.n_tables, self.rows = float(n_tables), np.flatnonzero(times)
        self.times = times[self.rows]

    def log_terms(self, gamma: float) -> tuple[float, float]:
        """Log probabilities of the tables, and of the groups."""
        groups = self.times @ (math.lgamma(gamma) - gammaln(gamma + self.rows))
        return self.n_tables * math.log(gamma), float(groups)


def _group_concentration(prior: Gamma, gamma: float, seatings: _Seatings, rng: np.random.Generator) -> float:
    """Slice move of u = gamma / (1 + gamma)."""

    def log_density(u: float) -> float:
        g = max(u, 1e-300) / (1.0 - u)
        tables, groups = seatings.log_terms(g)
        return prior.log_density(g) + tables + groups + 2.0 * math.log1p(g)  # mutant: log density result 3

    u = slice_within(log_density, gamma / (1.0 + gamma), 0.0, 1.0, rng)
    return max(u, 1e-300) / (1.0 - u)
