"""A measure of groups that the library does not have, in one class: the top process has H atoms, and no more.

beta ~ Dirichlet(a / H, ...). Tables are then the rows of a finite mixture (finite_dirichlet.py), and again atoms that
nobody has are dealt to open shards before the local step. A tail that was dealt m of them, beside k private atoms, is
an urn with the discount -a / H: what is left there weighs m a / H, and nothing once m atoms were born.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from finite_dirichlet import FiniteDirichlet, FiniteHyper
from scipy.special import gammaln

from unbounded.instantiation import Plan
from unbounded.models.groups.measure import HierarchicalMeasure, Law, TopTables, TopWeights, Urn
from unbounded.priors import Gamma
from unbounded.randomness import log_gamma_draws

Array = np.ndarray


class FiniteGroupsHyper(NamedTuple):
    concentration: float
    group_concentration: float
    n_components: float  # all that there are; fewer, where some are known


@dataclass(frozen=True)
class FiniteGroups:
    n_components: int = 8
    concentration: float | Gamma = field(default_factory=Gamma)
    group_concentration: float | Gamma = field(default_factory=Gamma)

    described_as: ClassVar[str] = "FiniteGroups"
    hyper_type: ClassVar[Any] = FiniteGroupsHyper

    @property
    def top(self) -> FiniteDirichlet:
        return FiniteDirichlet(self.n_components, self.concentration)

    def top_hyper(self, hyper: FiniteGroupsHyper) -> FiniteHyper:
        return FiniteHyper(hyper.concentration)

    @property
    def _groups(self) -> HierarchicalMeasure:
        """What the library's measure says of groups, given tables."""
        return HierarchicalMeasure(1.0, self.group_concentration)

    # ---- hyper-parameters

    def _hyper(self, top: FiniteHyper, group: float) -> FiniteGroupsHyper:
        return FiniteGroupsHyper(top.concentration, group, float(self.n_components))

    def start(self) -> FiniteGroupsHyper:
        return self._hyper(self.top.start(), self._groups.start().gamma)

    def draw_prior(self, rng: np.random.Generator) -> FiniteGroupsHyper:
        return self._hyper(self.top.draw_prior(rng), self._groups.draw_prior(rng).gamma)

    def log_prior(self, hyper: FiniteGroupsHyper) -> float:
        groups = self._groups.start()._replace(gamma=hyper.group_concentration)
        return self.top.log_prior(self.top_hyper(hyper)) + self._groups.log_prior(groups)

    def log_prob(self, hyper: FiniteGroupsHyper, counts: Array, extent: Array) -> float:
        groups = self._groups.start()._replace(gamma=hyper.group_concentration)
        alone = np.array([counts.sum()])  # all tables serve one dish, which is certain
        of_groups = self._groups.log_prob(groups, alone, extent) - self._groups.top.log_prob(
            self._groups.top_hyper(groups), alone, float(counts.sum())
        )
        return self.top.log_prob(self.top_hyper(hyper), counts, float(counts.sum())) + of_groups

    def update(
        self, hyper: FiniteGroupsHyper, counts: Array, extent: Array, rng: np.random.Generator
    ) -> FiniteGroupsHyper:
        groups = self._groups.start()._replace(gamma=hyper.group_concentration)
        top = self.top.update(self.top_hyper(hyper), counts, float(counts.sum()), rng)
        return self._hyper(top, self._groups.update(groups, counts, extent, rng).gamma)

    def scalars(self, hyper: FiniteGroupsHyper) -> dict[str, float]:
        return {"alpha": hyper.concentration, "gamma": hyper.group_concentration}

    # ---- ghosts and weights

    def default_ghosts(self, extent: Array) -> int:
        return int(np.ceil(np.log1p(extent).sum()))

    def ghosts(
        self, hyper: FiniteGroupsHyper, counts: Array, extent: Array, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        return self.top.ghosts(self.top_hyper(hyper), counts, float(counts.sum()), total, rng)

    def weights(
        self, hyper: FiniteGroupsHyper, plan: Plan, tables: TopTables, seated: bool, rng: np.random.Generator
    ) -> TopWeights:
        (shared, private, owner), each, n_shards = tables, self._each(hyper), len(plan.open)
        left = self.n_components - len(shared) - len(private)
        if plan.published:  # all that is not shared is one tail, which the open shards all have
            owner, empty = np.zeros(len(private), np.int64), np.array([left])
        else:
            empty = rng.multinomial(left, plan.open / plan.open.sum())
        own = np.bincount(owner, minlength=len(empty))
        rest = each * empty
        if seated:
            rest = rest + np.bincount(owner, private + each, len(empty))
            private = private[:0]
        logs = self._normalised(np.concatenate([shared + each, private + each, rest]), rng)
        beta, mine, rest = np.split(logs, [len(shared), len(shared) + len(private)])
        times = 1.0 if plan.published else float(plan.open.sum())
        urns, sticks = [], []
        for p in range(n_shards):
            tail = 0 if plan.published else p
            urns.append(self._urn(hyper, int(own[tail] + empty[tail]), times))
            known = mine[tables.owner == p] if len(mine) else mine
            sticks.append(np.append(known, rest[tail] if plan.open[p] else -np.inf))
        return TopWeights(self.masses(hyper, np.exp(beta)), urns, sticks)

    def _each(self, hyper: FiniteGroupsHyper) -> float:
        return hyper.concentration / self.n_components

    def _urn(self, hyper: FiniteGroupsHyper, most: int, times: float = 1.0) -> Urn:
        """A tail with so many atoms at most; rounding must leave nothing beside all of them."""
        share = math.nextafter(most * self._each(hyper), 0.0) if most else self._each(hyper)
        return Urn(share, times * share, -self._each(hyper))

    def _normalised(self, shapes: Array, rng: np.random.Generator) -> Array:
        logs = np.where(shapes > 0.0, log_gamma_draws(np.maximum(shapes, 1e-9), rng), -np.inf)
        return logs - np.logaddexp.reduce(logs)

    def _shapes(self, hyper: FiniteGroupsHyper, tables: Array) -> Array:
        return np.append(tables + self._each(hyper), (self.n_components - len(tables)) * self._each(hyper))

    def sticks(self, hyper: FiniteGroupsHyper, tables: Array, rng: np.random.Generator) -> tuple[Array, Urn]:
        return self._normalised(self._shapes(hyper, tables), rng), self._urn(hyper, self.n_components)

    def masses(self, hyper: FiniteGroupsHyper, beta: Array) -> Array:
        return hyper.group_concentration * beta

    def expected_masses(self, hyper: FiniteGroupsHyper, tables: Array) -> Array:
        shapes = self._shapes(hyper, tables)
        return hyper.group_concentration * shapes / shapes.sum()

    def log_cut(self, hyper: FiniteGroupsHyper, share: Any, whole: float, rest: float, n_atoms: int) -> Any:
        each, left = self._each(hyper), self.n_components - n_atoms
        if left < 2:  # nothing would be left; what is left stays as it is
            return np.full(np.shape(share), np.nan)
        ways = math.log(left) + gammaln(left * each) - gammaln((left - 1) * each) - gammaln(each)
        return ways + (each - 1.0) * (np.log(share) + np.log1p(-share)) + each * (math.log(whole) - math.log(rest))

    def law(self, hyper: FiniteGroupsHyper, masses: Array, urn: Urn) -> Law:
        return Law(masses, hyper.group_concentration, math.log(hyper.group_concentration), urn)

    # ---- predictions

    def unknown(self, hyper: FiniteGroupsHyper, n_known: int, mass: float) -> FiniteGroupsHyper:
        left = hyper.n_components - n_known
        return FiniteGroupsHyper(max(left, 1) * self._each(hyper), mass, max(left, 1.0))

    def simulate(self, hyper: FiniteGroupsHyper, extent: Array, rng: np.random.Generator) -> Array:
        beta = rng.dirichlet(np.full(int(hyper.n_components), hyper.concentration / hyper.n_components))
        shares = [rng.dirichlet(np.maximum(hyper.group_concentration * beta, 1e-300)) for _ in extent]
        labels = [rng.choice(len(beta), size, p=share) for size, share in zip(extent, shares, strict=True)]
        return np.unique(np.concatenate(labels), return_inverse=True)[1]
