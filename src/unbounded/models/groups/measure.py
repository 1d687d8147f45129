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
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln

from unbounded.arrays import Array
from unbounded.compiled.draws import log_beta, stream, uniform
from unbounded.compiled.jit import inline, jit
from unbounded.contracts import Plan
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.priors import Gamma, slice_within
from unbounded.randomness import log_gamma_draws


class Urn(NamedTuple):
    """The tail of a shard: its private atoms, and what is left for new ones.

    Of (tables + share), an atom with t tables has t - discount; the concentration of what is left beside k atoms is
    share + k discount. For a new atom what is left counts birth / share times: it might be born on any open shard.
    """

    share: float  # the concentration of the tail without any atom
    birth: float
    discount: float = 0.0


class Law(NamedTuple):
    """What a shard knows of the measure. Apart from its rows, an atom weighs gamma times its top weight in a group."""

    masses: Any  # [n_shared]: gamma beta_k of shared atoms
    gamma: float
    log_gamma: float
    urn: Urn

    def with_private(self, log_weights: Array) -> Array:
        """gamma beta of shared atoms and of private ones, whose log beta are given."""
        return np.append(self.masses, self.gamma * np.exp(log_weights))


@inline
def birth_mass(urn, n_atoms):
    """What a new atom has of (tables + share), beside so many others."""
    return urn.birth + n_atoms * urn.discount * (urn.birth / urn.share)  # mutant: birth mass


@jit
def log_left(urn, n_atoms, key, counter):
    """Log share of what was left of the tail that is left after one more atom has come to so many others."""
    if urn.discount == 0.0:  # mutant: left of a tail
        return math.log(uniform(key, counter)) / urn.share
    concentration = urn.share + (n_atoms + 1) * urn.discount
    if concentration <= 0.0:  # there can be no other
        return -np.inf
    return log_beta(concentration, 1.0 - urn.discount, stream(key, counter))


class TopTables(NamedTuple):
    """Tables, those of ghosts among them, of the atoms that all shards share, and of private ones with their shards."""

    shared: Array
    private: Array
    owner: Array


class TopWeights(NamedTuple):
    """A draw of the top weights beta."""

    masses: Array  # gamma beta of shared atoms
    urns: list[Urn]  # the tail of every shard
    sticks: list[Array]  # of every shard: log beta of private atoms (direct assignment), and of the rest of its tail


class HierarchicalHyper(NamedTuple):
    alpha: float  # concentration of the top process
    gamma: float  # concentration of the groups


@dataclass(frozen=True)
class HierarchicalMeasure:
    """Concentrations of the top process and of the groups: each a number (fixed) or a Gamma prior (sampled)."""

    concentration: float | Gamma = field(default_factory=Gamma)
    group_concentration: float | Gamma = field(default_factory=Gamma)

    described_as: ClassVar[str] = "HierarchicalDirichletProcess"
    hyper_type: ClassVar[Any] = HierarchicalHyper

    def __post_init__(self) -> None:
        for name in ("concentration", "group_concentration"):
            value = getattr(self, name)
            if not isinstance(value, Gamma) and not (isinstance(value, Real) and 0 < float(value) < math.inf):
                raise ValueError(f"the {name} must be positive or a Gamma prior, got {value!r}.")

    @cached_property
    def top(self) -> PitmanYor:
        """The process of the tables, as a mixture has one of its rows."""
        return PitmanYor(self.concentration, 0.0)

    def top_hyper(self, hyper: HierarchicalHyper) -> PartitionHyper:
        """Its hyper-parameters."""
        return PartitionHyper(hyper.alpha, 0.0)

    @property
    def _priors(self) -> tuple[float | Gamma, float | Gamma]:
        return self.concentration, self.group_concentration

    # ---- hyper-parameters

    def start(self) -> HierarchicalHyper:
        alpha, gamma = (prior.mean if isinstance(prior, Gamma) else float(prior) for prior in self._priors)
        return HierarchicalHyper(alpha, gamma)

    def draw_prior(self, rng: np.random.Generator) -> HierarchicalHyper:
        alpha, gamma = (prior.draw(rng) if isinstance(prior, Gamma) else float(prior) for prior in self._priors)
        return HierarchicalHyper(alpha, gamma)

    def log_prior(self, hyper: HierarchicalHyper) -> float:
        pairs = zip(self._priors, hyper, strict=True)
        return sum(prior.log_density(value) for prior, value in pairs if isinstance(prior, Gamma))

    def log_prob(self, hyper: HierarchicalHyper, counts: Array, extent: Array) -> float:
        """Log probability of tables with these dishes in groups of these sizes, but for who sits where."""
        top = self.top.log_prob(self.top_hyper(hyper), counts, float(counts.sum()))
        return top + sum(Seatings(counts.sum(), extent).log_terms(hyper.gamma))

    def update(
        self, hyper: HierarchicalHyper, counts: Array, extent: Array, rng: np.random.Generator
    ) -> HierarchicalHyper:
        """Move alpha given the atoms' table counts, gamma given the number of tables in groups of these sizes."""
        alpha = self.top.update(self.top_hyper(hyper), counts, float(counts.sum()), rng).alpha
        gamma = hyper.gamma
        if isinstance(self.group_concentration, Gamma):
            # mutant: update gamma
            gamma = move_concentration(self.group_concentration, gamma, Seatings(counts.sum(), extent), rng)
        return HierarchicalHyper(alpha, gamma)

    def scalars(self, hyper: HierarchicalHyper) -> dict[str, float]:
        return {"alpha": hyper.alpha, "gamma": hyper.gamma}

    # ---- ghosts and weights

    def default_ghosts(self, extent: Array) -> int:
        """A fixed number in the range of the number of tables, which itself is part of the state."""
        return int(np.ceil(np.log1p(extent).sum()))

    def ghosts(
        self, hyper: HierarchicalHyper, counts: Array, extent: Array, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Ghost tables: of each atom, and of each atom that only ghosts hold."""
        return self.top.ghosts(self.top_hyper(hyper), counts, float(counts.sum()), total, rng)

    def weights(
        self, hyper: HierarchicalHyper, plan: Plan, tables: TopTables, seated: bool, rng: np.random.Generator
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
        urns = [Urn(share, hyper.alpha)] * len(plan.open)
        return TopWeights(hyper.gamma * np.exp(logs), urns, sticks)  # mutant: weights result 2

    def sticks(self, hyper: HierarchicalHyper, tables: Array, rng: np.random.Generator) -> tuple[Array, Urn]:
        """(log beta of atoms with these tables and, last, of all others; all of them as one tail)."""
        return _normalised(np.append(tables, hyper.alpha), rng), Urn(hyper.alpha, hyper.alpha)

    def masses(self, hyper: HierarchicalHyper, beta: Array) -> Array:
        """gamma beta: what atoms with these top weights weigh in a group, apart from its rows."""
        return hyper.gamma * beta

    def expected_masses(self, hyper: HierarchicalHyper, tables: Array) -> Array:
        """The same in expectation, of atoms with these tables and (last) of all others."""
        return hyper.gamma * np.append(tables, hyper.alpha) / (tables.sum() + hyper.alpha)

    def log_cut(self, hyper: HierarchicalHyper, share: Any, whole: float, rest: float, n_atoms: int) -> Any:
        """Log prior density gained when an atom becomes two, which have this share of its top weight and the rest."""
        return math.log(hyper.alpha) - np.log(share) - np.log1p(-share)  # mutant: tokens beta

    def law(self, hyper: HierarchicalHyper, masses: Array, urn: Urn) -> Law:
        return Law(masses, hyper.gamma, float(np.log(hyper.gamma)), urn)

    # ---- predictions

    def unknown(self, hyper: HierarchicalHyper, n_known: int, mass: float) -> HierarchicalHyper:
        """Hyper-parameters of what groups have besides so many known atoms, which weighs `mass` in each of them."""
        return HierarchicalHyper(hyper.alpha, mass)

    def simulate(self, hyper: HierarchicalHyper, extent: Array, rng: np.random.Generator) -> Array:
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


class Seatings:
    """The probability of a number of tables. Groups of one size weigh the same: the cost is by sizes, not by groups."""

    def __init__(self, n_tables: float, sizes: Array):
        times = np.bincount(sizes[sizes > 0])
        self.n_tables, self.rows = float(n_tables), np.flatnonzero(times)
        self.times = times[self.rows]

    def log_terms(self, gamma: float) -> tuple[float, float]:
        """Log probabilities of the tables, and of the groups."""
        groups = self.times @ (math.lgamma(gamma) - gammaln(gamma + self.rows))
        return self.n_tables * math.log(gamma), float(groups)


def move_concentration(prior: Gamma, gamma: float, seatings: Seatings, rng: np.random.Generator) -> float:
    """The concentration of groups, given their tables: a slice move of u = gamma / (1 + gamma)."""

    def log_density(u: float) -> float:
        g = max(u, 1e-300) / (1.0 - u)
        tables, groups = seatings.log_terms(g)
        return prior.log_density(g) + tables + groups + 2.0 * math.log1p(g)  # mutant: log density result 3

    u = slice_within(log_density, gamma / (1.0 + gamma), 0.0, 1.0, rng)
    return max(u, 1e-300) / (1.0 - u)
