"""Asynchronous approximate collapsed Gibbs of groups (labelled/gossip.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Parallel, Summary, in_this_thread
from unbounded.instantiation import Roles
from unbounded.models.groups.measure import Urn
from unbounded.models.groups.model import Groups, GroupsState
from unbounded.models.groups.shard import (
    DishTable,
    GroupHyper,
    GroupRound,
    GroupShard,
    GroupShare,
    draw_tables,
)
from unbounded.models.labelled.gossip import (
    Known,
    Version,
    from_arrays,
    gossip,
    heard_of,
    impute,
    n_numbers,
    of_others,
    summed,
    to_arrays,
    widened,
)
from unbounded.models.labelled.labels import Atoms
from unbounded.randomness import RoundSeed, generator

NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class GossipGroupState(GroupsState):
    known: Known

    def arrays(self) -> dict[str, Array]:
        return super().arrays() | to_arrays(self.known)


class GossipShare(NamedTuple):
    """What a shard knows: all atoms are private."""

    share: GroupShare
    others: Version


@dataclass(frozen=True)
class AsynchronousGroups(Groups):
    """Direct assignment; a shard takes atoms that it has not heard of for new ones."""

    def __post_init__(self) -> None:
        if self.form != "direct":
            raise ValueError(f"sampler 'asynchronous' has form='direct' only, got {self.form!r}.")
        if self.content.repeats_after is not None:
            raise ValueError("sampler 'asynchronous' takes no documents that repeat themselves (repeats_after).")

    @property
    def exact(self) -> bool:
        return self.n_shards == 1

    def settled(self) -> int:
        return 0

    def count(self, engine: Engine, tables: Array, hyper: GroupHyper, round_: int) -> GossipGroupState:
        own = [tables, *[np.zeros_like(tables)] * (self.n_shards - 1)]
        gathered = engine.run(self._report, Message(len(tables), own))
        return self._state(round_, hyper, gathered, [heard_of(gathered)] * self.n_shards)

    def _report(self, shard: GroupShard, size: int, tables: Array) -> Summary:
        return Summary({}, self._own(shard, size)._asdict() | {"tables": tables[:size]})

    def _own(self, shard: GroupShard, size: int) -> Version:
        counts, statistics = self.kernel.totals(shard, size)
        return Version(counts, self.content.stacked([statistics]))

    def _state(self, round_: int, hyper: GroupHyper, gathered: Gathered, known: Known) -> GossipGroupState:
        counts, statistics = summed(heard_of(gathered))
        tables = sum(widened(part["tables"], len(counts)) for part in gathered.private)
        table = DishTable(counts, tables, statistics, np.full(len(counts), -1))
        return GossipGroupState(round_, hyper, table, len(counts), np.zeros(self.n_shards, np.int64), known)

    def global_step(self, state: Any, parallel: Parallel = in_this_thread) -> Message:
        seed, live, table = RoundSeed(self.seed, state.round), state.occupied, state.table
        tables = table.tables[live].astype(float)
        hyper = self._move_hyper(state, tables, seed)
        logs, urn = self.measure.sticks(hyper.measure, tables, seed.rng("weights"))  # mutant: global step logs
        sticks = np.full(len(table.counts), -np.inf)
        sticks[live] = logs[:-1]
        nothing = Roles(NONE, NONE, NONE, 0, lone=False)
        shared, _ = self._round(state, hyper, nothing, np.empty(0), parallel)
        views = [self._view(state, p, sticks, logs[-1], urn) for p in range(self.n_shards)]
        return Message(shared._replace(parameters=None), views)

    def _view(self, state: GossipGroupState, p: int, sticks: Array, rest: float, urn: Urn) -> GossipShare:
        others = of_others(state.known, p)
        counts = summed([state.known[p][p], others]).counts
        size = max(len(sticks), len(counts))
        there = widened(counts, size) > 0
        sticks = np.append(sticks, np.full(size - len(sticks), -np.inf))
        unheard = np.logaddexp.reduce(sticks[~there], initial=rest)
        known = np.append(np.where(there, sticks, -np.inf), unheard)
        return GossipShare(GroupShare(NONE, 0, size, urn, known, None), others)

    def local_step(self, shard: GroupShard, shared: GroupRound, own: Any) -> Summary:
        if self.likelihood.imputed.size:
            impute(self, shard, self._own(shard, n_numbers(shard.labels)), own.others, shared.round)
        part = self._part(shared, own.share)._replace(elsewhere=Atoms(*own.others))
        tail = self.kernel.sweep(shard, part, self.kernel.prepare(shard, part))
        masses = part.law.with_private(self.kernel.sticks(tail)[:-1])
        tables = draw_tables(shard, masses, part.seed.key("tables"))
        return self._report(shard, n_numbers(shard.labels), tables)

    def gather(self, state: Any, message: Message, gathered: Gathered) -> GossipGroupState:
        known = gossip(state.known, heard_of(gathered), generator(self.seed, "gossip", state.round))
        return self._state(state.round + 1, message.shared.hyper, gathered, known)

    def restore(self, arrays: Arrays) -> GossipGroupState:
        plain = super().restore(arrays)
        return GossipGroupState(**vars(plain), known=from_arrays(arrays, self.likelihood.n_terms))
