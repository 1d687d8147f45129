"""The hybrid sampler of groups: a finite part instantiated, the rest collapsed (docs/topics.md, "A round")."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from unbounded.contracts import Engine, Message, Parallel, in_this_thread
from unbounded.instantiation import Ghosts, Plan, Roles, Rule, as_published, classify, new_codes
from unbounded.models.groups.jump import DEFAULT_JUMPS, jump
from unbounded.models.groups.model import Groups, GroupsState
from unbounded.models.groups.shard import GroupShare, TopTables, TopWeights
from unbounded.models.mixtures.jump import Jumps
from unbounded.randomness import RoundSeed


@dataclass(frozen=True)
class HybridGroups(Groups):
    """rule: which atoms are instantiated in a round, and which shards may create some. jumps: moves of whole atoms."""

    rule: Rule = field(default_factory=Ghosts)
    jumps: Jumps | None = DEFAULT_JUMPS

    @property
    def exact(self) -> bool:
        return self.rule.exact

    @cached_property
    def n_ghosts(self) -> int:
        return self.measure.default_ghosts(self.sizes)

    def settled(self) -> int:
        return self.rule.settled(self.setup.n_rounds)

    def jump(self, state: GroupsState, engine: Engine) -> GroupsState:
        if self.jumps is None or not self.exact:
            return state
        turn, rest = divmod(state.round, self.jumps.every or self.content.jump_interval(self.form, self.n_rows))
        return jump(self, state, engine, self.jumps, turn) if rest == 0 else state  # mutant: jump due

    def global_step(self, state: GroupsState, parallel: Parallel = in_this_thread) -> Message:
        seed, live, table = RoundSeed(self.seed, state.round), state.occupied, state.table
        owner, tables = table.owner[live], table.tables[live].astype(float)
        hyper = self._move_hyper(state, tables, seed)
        plan = self.rule.plan(state.round, self.setup.n_rounds, self.n_ghosts, self.n_shards, seed.rng("plan"))
        if plan.published:
            ghosts, extra = as_published(tables, owner, plan).astype(np.int64), np.empty(0, np.int64)
        else:
            # mutant: global step ghosts 2
            ghosts, extra = self.measure.ghosts(hyper.measure, tables, self.sizes, plan.ghosts, seed.rng("ghosts"))
        mobile, frozen, private = classify(ghosts, owner, plan)  # mutant: global step mobile 3
        tables += 0 if plan.published else ghosts  # mutant: global step tables
        shared_tables = np.concatenate([tables[mobile], extra, tables[frozen]])
        top = TopTables(shared_tables, tables[private], owner[private])
        weights = self.measure.weights(hyper.measure, plan, top, self.form == "franchise", seed.rng("weights"))
        roles = Roles(live[mobile], live[frozen], live[private], len(extra), plan.lone >= 0)
        shared, parameters = self._round(state, hyper, roles, weights.masses, parallel)
        return Message(shared, self._shares(state, plan, roles, weights, parameters))

    def _shares(
        self, state: GroupsState, plan: Plan, roles: Roles, weights: TopWeights, parameters: Any
    ) -> list[GroupShare]:
        """What every shard needs of its own; parameters: of all private atoms, when holes are imputed."""
        shares = []
        for p, (mine, codes) in enumerate(new_codes(state, roles, state.table.owner[roles.private])):
            usable = roles.n_shared if plan.lone == p else roles.n_mobile  # mutant: global step n own 2
            own = None if parameters is None else {name: value[mine] for name, value in parameters.items()}
            shares.append(GroupShare(codes, usable, len(mine), weights.share, weights.sticks[p], own))
        return shares
