"""Groups: what their samplers share, and the hybrid one: a finite part instantiated, the rest collapsed.

A round is described in docs/topics.md ("A round"). Atoms are coded as in a mixture: those that all shards share first
(mobile, then frozen), then each shard's private ones. A group lives on one shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Parallel, Plan, Rule, Summary, in_this_thread
from unbounded.instantiation import Ghosts, Roles, as_published, classify, new_codes
from unbounded.likelihoods.base import Bound
from unbounded.models.groups.contents import content_of
from unbounded.models.groups.jump import DEFAULT_JUMPS, jump
from unbounded.models.groups.kernels import build_kernel
from unbounded.models.groups.measure import Seatings, TopTables, TopWeights, move_concentration
from unbounded.models.groups.measures import GroupMeasure
from unbounded.models.groups.shard import (
    Content,
    DishTable,
    Draw,
    GroupHyper,
    GroupKernel,
    GroupPart,
    GroupRecipe,
    GroupRound,
    GroupShard,
    GroupShare,
    cut,
    seat_rows,
    summarise,
)
from unbounded.models.labelled.labels import all_labels, smallest_type
from unbounded.models.labelled.packing import packed, unpacked
from unbounded.models.mixtures.jump import Jumps
from unbounded.priors import Gamma
from unbounded.randomness import RoundSeed
from unbounded.setup import Built
from unbounded.shares import above

FORMS = ("direct", "franchise")


@dataclass(frozen=True)
class GroupsState:
    round: int
    hyper: GroupHyper
    table: DishTable
    n_shared: int
    n_private: Array  # [P]
    sizes: Array | None = field(default=None, kw_only=True)  # how many groups have 0, 1, ... rows, where that changes

    def arrays(self) -> dict[str, Array]:
        scalars = {"round": np.array(self.round), "n_shared": np.array(self.n_shared), "hyper": self.hyper.array()}
        return {
            **scalars, "n_private": self.n_private, "counts": self.table.counts, "tables": self.table.tables,
            "owner": self.table.owner, **packed(self.table.statistics),
            **({} if self.sizes is None else {"sizes": self.sizes}),
        }  # fmt: skip

    @cached_property
    def occupied(self) -> Array:
        return np.flatnonzero(self.table.counts > 0)


@dataclass(frozen=True)
class Groups(Built[GroupMeasure, Bound, Array]):
    """What the hybrid sampler and its rivals share; each has a global step of its own."""

    form: str = "direct"

    @property
    def sizes(self) -> Array:
        """Of the groups."""
        return self.setup.extent

    @cached_property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def content(self) -> Content:
        return content_of(self.likelihood, self.setup.dtype)

    @cached_property
    def kernel(self) -> GroupKernel:
        return build_kernel(self.setup.device, self.content, self.form, self.setup.sweeps)

    def recipe(self, X: Any) -> GroupRecipe:
        repeats = self.content.repeats_after is not None
        return GroupRecipe(X, self.sizes, self.likelihood, self.n_shards, self.form, repeats)

    def start(self) -> GroupHyper:
        return GroupHyper(self.measure.start(), self.content.start())

    def begin(
        self, engine: Engine, assignments: Array, hyper: GroupHyper | None = None, seats: Array | None = None,
        round_: int = 0,
    ) -> GroupsState:  # fmt: skip
        """The state with these labels (any integers); without seats, each atom of a group has one table."""
        codes, inverse = np.unique(np.asarray(assignments), return_inverse=True)
        labels = inverse.astype(np.int32).ravel()
        engine.map(GroupShard.begin, self._cut(labels))
        return self.begin_from_shards(engine, len(codes), hyper, None if seats is None else self._cut(seats), round_)

    def _cut(self, rows: Array) -> list[Array]:
        """Values of all rows, split by shard."""
        return [rows[own[0] : own[-1]] for own in cut(self.sizes, self.n_shards)]

    def begin_from_shards(
        self, engine: Engine, n_atoms: int, hyper: GroupHyper | None = None, seats: Sequence[Array] | None = None,
        round_: int = 0,
    ) -> GroupsState:  # fmt: skip
        """State from labels already on the shards; labels 0..n_atoms-1 must all occur. seats: by shard."""
        tables = np.sum(engine.map(partial(seat_rows, n_atoms), seats), axis=0)
        return self.count(engine, tables, hyper or self.start(), round_)

    def count(self, engine: Engine, tables: Array, hyper: GroupHyper, round_: int) -> GroupsState:
        """The state of shards whose labels are all codes of shared atoms, given their numbers of tables."""
        own = [tables, *[np.zeros_like(tables)] * (self.n_shards - 1)]
        gathered = engine.run(self._recount, Message(len(tables), own))
        return self._assemble(round_, hyper, len(tables), gathered)

    def _recount(self, shard: GroupShard, n_shared: int, tables: Array) -> Summary:
        return summarise(self.content, shard, n_shared, self.kernel.totals(shard, n_shared), tables)

    def jump(self, state: GroupsState, engine: Engine) -> GroupsState:
        return state

    def draw(self, state: GroupsState) -> Draw:
        """What prediction needs of a state."""
        live, table, hyper = state.occupied, state.table, state.hyper
        masses = self.measure.expected_masses(hyper.measure, table.tables[live])
        return Draw(table.counts[live], table.tables[live], table.statistics[live], hyper, masses)

    # ---- global step

    def _move_hyper(self, state: GroupsState, tables: Array, seed: RoundSeed) -> GroupHyper:
        """Hyper-parameters given the tables of occupied atoms: the measure's, then the likelihood's own."""
        # mutant: global step hyper 2
        own = self.measure.update(state.hyper.measure, tables, self._rows_now(state), seed.rng("hyper"))
        counts = state.table.counts[state.occupied]
        content = self.content.update(state.hyper.content, counts, state.table.statistics, seed.rng("eta"))
        if isinstance(self.content.repeats_after, Gamma):
            fresh = Seatings(counts.sum(), self.sizes)  # mutant: repeats after
            after = move_concentration(self.content.repeats_after, content.after, fresh, seed.rng("repeats"))
            content = content._replace(after=after)
        return GroupHyper(own, content)

    def _rows_now(self, state: GroupsState) -> Array:
        """Sizes of the groups: of documents that repeat themselves, their fresh words, in any order."""
        # mutant: rows now
        return self.sizes if state.sizes is None else np.repeat(np.arange(len(state.sizes)), state.sizes)

    def _round(
        self, state: GroupsState, hyper: GroupHyper, roles: Roles, masses: Array, parallel: Parallel
    ) -> tuple[GroupRound, Any]:
        """The finite part of the round and, when holes are imputed, parameters of private atoms."""
        seed = RoundSeed(self.seed, state.round)
        drawn = self.content.instantiate(hyper.content, state.table, roles, masses, seed, parallel)
        shared, private = _split(drawn.parameters, len(masses))
        return GroupRound(state.round, hyper, self.kernel.finite(drawn.usable), len(masses), masses, shared), private

    # ---- local step

    def local_step(self, shard: GroupShard, shared: GroupRound, own: GroupShare) -> Summary:
        part, kernel = self._part(shared, own), self.kernel
        shard.relabel(own.codes)
        if shared.parameters is not None and own.parameters is not None:
            both = {name: np.concatenate([v, own.parameters[name]]) for name, v in shared.parameters.items()}
            self.likelihood.impute(shard.data, shard.holes, shard.labels, both, part.seed.key("impute"), shard.first)
        tail = kernel.sweep(shard, part, kernel.prepare(shard, part))
        return kernel.statistics(shard, part, tail)

    def _part(self, shared: GroupRound, own: GroupShare) -> GroupPart:
        return GroupPart(
            likelihood=self.content.at(shared.hyper.content),
            finite=shared.finite,
            usable=own.usable,
            n_shared=shared.n_shared,
            n_private=own.n_private,
            law=self.measure.law(shared.hyper.measure, shared.masses, own.urn),
            sticks=own.sticks,
            seed=RoundSeed(self.seed, shared.round),
        )

    # ---- gather

    def gather(self, state: GroupsState, message: Message, gathered: Gathered) -> GroupsState:
        sent: GroupRound = message.shared
        return self._assemble(state.round + 1, sent.hyper, sent.n_shared, gathered)

    def _assemble(self, round_: int, hyper: GroupHyper, n_shared: int, gathered: Gathered) -> GroupsState:
        shared, private = gathered.shared, gathered.private
        n_private = np.array([len(p["counts"]) for p in private])
        owner = np.where(shared["shards"] == 1, shared["owner"], -1)
        parts = {name: [shared[name], *(p[name] for p in private)] for name in ("counts", "tables", "statistics")}
        table = DishTable(
            np.concatenate(parts["counts"]),
            np.concatenate(parts["tables"]),
            self.content.stacked(parts["statistics"]),
            np.append(owner, np.repeat(np.arange(self.n_shards), n_private)),
        )
        return GroupsState(round_, hyper, table, n_shared, n_private, sizes=shared.get("sizes"))

    # ---- what a chain records

    def scalars(self, state: GroupsState) -> dict[str, float]:
        live = state.occupied
        counts = state.table.counts[live].astype(float)
        shares = counts / counts.sum()
        likelihood = self.content.at(state.hyper.content)  # mutant: topics eta
        return {
            "n_topics": len(counts),
            **above(shares),
            **self.measure.scalars(state.hyper.measure),
            **self.content.scalars(state.hyper.content),
            "n_tables": float(state.table.tables.sum()),
            "log_likelihood": likelihood.log_evidence(counts, state.table.statistics[live]),
            "entropy": float(-(shares * np.log(shares)).sum()),
            "largest": float(shares.max()),
        }

    def assignments(self, state: GroupsState, engine: Engine) -> Array:
        return all_labels(state, engine)

    def snapshot(self, state: GroupsState, engine: Engine) -> dict[str, Array]:
        live = state.occupied
        return {
            "labels": all_labels(state, engine, smallest_type(len(live) - 1)),
            "hyper": state.hyper.array(),
            "counts": state.table.counts[live],
            "tables": state.table.tables[live],
            **packed(state.table.statistics[live]),
        }

    def restore(self, arrays: Arrays) -> GroupsState:
        statistics = unpacked(arrays, self.likelihood.n_terms)
        return GroupsState(
            int(arrays["round"]),
            GroupHyper.of(self.measure, arrays["hyper"]),
            DishTable(arrays["counts"], arrays["tables"], statistics, arrays["owner"]),
            int(arrays["n_shared"]),
            arrays["n_private"],
            sizes=arrays.get("sizes"),
        )


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
            shares.append(GroupShare(codes, usable, len(mine), weights.urns[p], weights.sticks[p], own))
        return shares


def _split(parameters: Any, n_shared: int) -> tuple[Any, Any]:
    if parameters is None:
        return None, None
    first, rest = slice(n_shared), slice(n_shared, None)
    return tuple({name: value[part] for name, value in parameters.items()} for part in (first, rest))  # type: ignore
