"""The hybrid sampler of grouped rows: shared atoms instantiated, the tail of every shard collapsed (docs/topics.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Message, Spread, alone
from unbounded.instantiation import Ghosts, Plan, Rule, classify
from unbounded.likelihoods.base import Parameters
from unbounded.models.groups.measure import Hyper
from unbounded.models.groups.model import Broadcast, Groups, GroupsState, Own, Table, _among
from unbounded.models.groups.words.likelihood import BoundTokens
from unbounded.models.labelled.atoms import draw_parameters, finite_part
from unbounded.models.labelled.shard import recode
from unbounded.priors import log_gamma_draws
from unbounded.randomness import generator


@dataclass(frozen=True)
class HybridGroups(Groups):
    """rule: which atoms are instantiated in a round, and which shards may create some."""

    rule: Rule = field(default_factory=Ghosts)

    @property
    def exact(self) -> bool:
        return self.rule.exact

    @cached_property
    def n_ghosts(self) -> int:
        """A fixed number in the range of the number of tables, which itself is part of the state."""
        return int(np.ceil(np.log1p(self.sizes).sum()))

    def settled(self) -> int:
        return self.rule.settled(self.setup.n_rounds)

    def global_step(self, state: GroupsState, spread: Spread = alone) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)

        live, table = state.occupied, state.table
        counts, owner, tables = table.counts[live], table.owner[live], table.tables[live].astype(float)
        # mutant: global step hyper 2
        hyper = self.measure.update(state.hyper, tables, self.sizes[self.sizes > 0], rng("hyper"))
        if isinstance(self.likelihood, BoundTokens):
            eta = self.likelihood.update(hyper.eta, counts, table.statistics, rng("eta"))
            hyper = hyper._replace(eta=eta)
        plan = self.rule.plan(state.round, self.setup.n_rounds, self.n_ghosts, self.n_shards, rng("plan"))
        if plan.published:
            ghosts, extra = np.ones(len(live), np.int64), np.empty(0, np.int64)
        else:
            # mutant: global step ghosts 2
            ghosts, extra = self.measure.ghosts(hyper, tables, plan.ghosts, rng("ghosts"))
        mobile, held, private = classify(ghosts, owner, plan)  # mutant: global step mobile 3
        shared = np.concatenate([mobile, held])
        n_mobile, n_shared = len(mobile) + len(extra), len(shared) + len(extra)
        tables += 0 if plan.published else ghosts  # mutant: global step tables
        held_tables = np.concatenate([tables[mobile], extra, tables[held]])
        share, masses, sticks = self._weights(hyper, plan, held_tables, tables[private], owner[private], rng("weights"))
        atoms, parameters = (live[mobile], live[held], live[private]), None
        if isinstance(self.likelihood, BoundTokens):
            # mutant: global step usable
            usable = np.concatenate([atoms[0], np.full(len(extra), -1), atoms[1] if plan.lone >= 0 else live[:0]])
            finite = self._topics(hyper, table.statistics, usable, masses, n_mobile, state.round, spread)
        else:
            finite, parameters = self._finite(table, *atoms, len(extra), plan, rng("parameters"))
        broadcast = Broadcast(
            state.round, hyper, finite, n_mobile, n_shared, masses, _among(parameters, slice(n_shared))
        )
        new_code = np.full(len(live), -1)
        new_code[mobile] = np.arange(len(mobile))
        new_code[held] = n_mobile + np.arange(len(held))
        own = []
        for p in range(self.n_shards):
            mine = np.flatnonzero(owner[private] == p)
            code = new_code.copy()
            code[private[mine]] = n_shared + np.arange(len(mine))
            n_own = n_shared if plan.lone == p else n_mobile  # mutant: global step n own 2
            parts = _among(parameters, n_shared + mine)
            own.append(Own(recode(state, live, code, p), n_own, len(mine), share, sticks[p], parts))
        return Message(broadcast, own)

    def _weights(
        self, hyper: Hyper, plan: Plan, shared: Array, private: Array, owner: Array, rng: np.random.Generator
    ) -> tuple[float, Array, list[Array]]:
        """(concentration of a shard's tail, gamma beta of shared atoms, every shard's log weights of its tail)."""
        shards = np.flatnonzero(plan.open)
        share = hyper.alpha / (1 if plan.published else len(shards))
        rest = np.full(1 if plan.published else len(shards), share)
        if self.form == "franchise" and not plan.published:  # which has no private atoms
            rest += np.bincount(owner, private, self.n_shards)[shards]  # mutant: weights rest
            private = private[:0]
        logs = log_gamma_draws(np.concatenate([shared, private, rest]), rng)
        logs -= np.logaddexp.reduce(logs)
        logs, own, left = np.split(logs, [len(shared), len(shared) + len(private)])
        sticks = [np.append(own[owner == p] if len(own) else own, -np.inf) for p in range(self.n_shards)]
        for j, p in enumerate(shards):
            sticks[p][-1] = left[0 if plan.published else j]
        return share, hyper.gamma * np.exp(logs), sticks  # mutant: weights result 2

    def _finite(
        self, table: Table, mobile: Array, held: Array, private: Array, n_extra: int, plan: Plan,
        rng: np.random.Generator,
    ) -> tuple[Any, Parameters | None]:  # fmt: skip
        """The same of other atoms and, when holes are imputed, parameters of all atoms."""
        imputes = self.likelihood.imputes
        usable = np.concatenate([mobile, held]) if plan.lone >= 0 else mobile
        drawn = np.concatenate([mobile, held, private]) if imputes else usable
        counts = table.counts[drawn].astype(float)
        parameters = draw_parameters(self.likelihood, counts, table.statistics[drawn], n_extra, len(mobile), rng)
        n_usable = len(usable) + n_extra
        finite = finite_part(self.likelihood, self.setup.dtype, _among(parameters, slice(n_usable)), np.zeros(n_usable))
        return finite, parameters if imputes else None
