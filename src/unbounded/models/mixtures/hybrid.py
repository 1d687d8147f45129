"""The hybrid sampler of mixtures: a finite part instantiated, the rest collapsed (docs/sampler.md, "A round")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Engine, Message, Parallel, in_this_thread
from unbounded.instantiation import Ghosts, Plan, Roles, Rule, as_published, classify, new_codes
from unbounded.likelihoods.base import Parameters
from unbounded.models.labelled.labels import draw_parameters
from unbounded.models.mixtures.cuts import cut_some
from unbounded.models.mixtures.jump import Jumps
from unbounded.models.mixtures.measure import TailLaw
from unbounded.models.mixtures.measures import PartitionMeasure
from unbounded.models.mixtures.merges import merge_some
from unbounded.models.mixtures.message import MixtureRound, MixtureShare
from unbounded.models.mixtures.model import Mixture, MixtureState
from unbounded.models.mixtures.neighbours import move_neighbours
from unbounded.randomness import generator


class GhostCounts(NamedTuple):
    """Ghosts of each occupied atom, and of each atom that only they hold."""

    own: Array
    extra: Array


@dataclass(frozen=True)
class HybridMixture(Mixture[PartitionMeasure]):
    """rule: which atoms are instantiated in a round, and which shards may create some. jumps: moves of whole atoms."""

    rule: Rule = field(default_factory=Ghosts)
    jumps: Jumps | None = field(default_factory=Jumps)

    takes_pilots: ClassVar[bool] = True

    @property
    def exact(self) -> bool:
        return self.rule.exact

    def settled(self) -> int:
        return self.rule.settled(self.setup.n_rounds)

    def jump(self, state: MixtureState, engine: Engine) -> MixtureState:
        """The state after some cuts, moves of neighbours and merges."""
        if self.jumps is None or not self.exact:
            return state
        cuts, neighbours = self.jumps.due(state.round, self.n_rows, self.likelihood.columns.size)
        state = cut_some(self, state, engine, self.jumps) if cuts else state
        state = move_neighbours(self, state, engine, self.jumps) if neighbours else state
        return merge_some(self, state, engine, self.jumps) if cuts or neighbours else state

    def global_step(self, state: MixtureState, parallel: Parallel = in_this_thread) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)  # mutant: rng result

        live = state.occupied
        counts, statistics = state.table.counts[live].astype(float), state.table.statistics[live]
        hyper = self.measure.update(state.hyper, counts, self.n_rows, rng("hyper"))  # mutant: global step hyper
        plan = self.rule.plan(state.round, self.setup.n_rounds, self.n_rows, self.n_shards, rng("plan"))
        owner = state.table.owner[live]
        roles, ghosts = self._roles(hyper, counts, owner, plan, rng("ghosts"))
        weights, laws = self._weights(hyper, counts, owner, roles, ghosts, plan, rng("weights"))
        imputes = self.likelihood.imputed.size > 0
        drawn = np.concatenate([roles.mobile, roles.frozen, roles.private]) if imputes else roles.usable
        parameters = draw_parameters(  # mutant: global step parameters
            self.likelihood, counts[drawn], statistics[drawn], roles.n_extra, len(roles.mobile), rng("parameters"),
            parallel,
        )  # fmt: skip
        finite = self.finite(_first(parameters, len(roles.usable) + roles.n_extra), weights)
        shared = _first(parameters, roles.n_shared) if imputes else None
        return Message(
            MixtureRound(state.round, hyper, finite, roles.n_shared, shared),
            self._shares(state, roles, plan, laws, parameters if imputes else None),
        )

    def _roles(
        self, hyper: Any, counts: Array, owner: Array, plan: Plan, rng: np.random.Generator
    ) -> tuple[Roles, GhostCounts]:
        """Of the occupied atoms, by position."""
        if plan.published:
            ghosts, extra = as_published(counts, owner, plan).astype(np.int64), np.empty(0, np.int64)
        else:
            # mutant: roles ghosts
            ghosts, extra = self.measure.ghosts(hyper, counts, self.n_rows, plan.ghosts, rng)
        mobile, frozen, private = classify(ghosts, owner, plan)  # mutant: roles mobile
        return Roles(mobile, frozen, private, len(extra), plan.lone >= 0), GhostCounts(ghosts, extra)

    def _weights(
        self, hyper: Any, counts: Array, owner: Array, roles: Roles, ghosts: GhostCounts, plan: Plan,
        rng: np.random.Generator,
    ) -> tuple[Array, Sequence[TailLaw]]:  # fmt: skip
        """Log weights of usable atoms, ghost-only ones among them, and the law of every shard's tail."""
        if plan.published:
            weights, law = self.measure.published(hyper, counts[roles.mobile], counts[roles.private].sum(), rng)
            closed = self.measure.closed_tail(hyper)
            return weights, [law if makes_atoms else closed for makes_atoms in plan.open]
        sizes = (counts + ghosts.own)[roles.usable]  # mutant: weights sizes
        n_mobile = len(roles.mobile)
        sizes = np.concatenate([sizes[:n_mobile], ghosts.extra, sizes[n_mobile:]])
        weights = self.measure.log_weights(hyper, sizes, rng)
        n_private = np.bincount(owner[roles.private], minlength=self.n_shards)
        laws = self.measure.tails(hyper, roles.n_shared, n_private, plan.open, rng)  # mutant: weights law
        return weights, laws  # mutant: weights result

    def _shares(
        self, state: MixtureState, roles: Roles, plan: Plan, laws: Sequence[TailLaw], parameters: Parameters | None
    ) -> list[MixtureShare]:
        """Every shard's codes, what it may do and, when holes are imputed, parameters of its private atoms."""
        placed, shares = roles.among(state.occupied), []
        for p, (mine, codes) in enumerate(new_codes(state, placed, state.table.owner[placed.private])):
            own = None
            if parameters is not None:
                own = {name: value[roles.n_shared + mine] for name, value in parameters.items()}
            usable = roles.n_shared if plan.lone == p else roles.n_mobile  # mutant: shares usable
            shares.append(MixtureShare(codes, usable, len(mine), laws[p], own))
        return shares


def _first(parameters: Parameters, n: int) -> Parameters:
    return {name: value[:n] for name, value in parameters.items()}
