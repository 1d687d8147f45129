"""Asynchronous approximate collapsed Gibbs of groups (labelled/gossip.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Spread, Summary, alone
from unbounded.models.groups import direct as table_kernel
from unbounded.models.groups import model as hierarchical
from unbounded.models.groups.measure import Hyper as GroupHyper
from unbounded.models.groups.model import Groups, GroupsState
from unbounded.models.groups.shard import GroupShard
from unbounded.models.groups.words.counts import WordTable, matrix
from unbounded.models.groups.words.likelihood import BoundTokens
from unbounded.models.labelled.atoms import draw_parameters, finite_part
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
from unbounded.priors import log_gamma_draws
from unbounded.randomness import generator, key

# ---- groups


@dataclass(frozen=True)
class GossipGroupState(GroupsState):
    known: Known

    def arrays(self) -> dict[str, Array]:
        return super().arrays() | to_arrays(self.known)


class View(NamedTuple):
    """What a shard of groups knows; names are those of the hybrid sampler, all atoms being private."""

    usable: int
    n_private: int
    share: float
    sticks: Array
    others: Version


@dataclass(frozen=True)
class AsynchronousGroups(Groups):
    """Direct assignment; the weights of atoms that a shard has not heard of are to it those of new ones."""

    def __post_init__(self) -> None:
        if self.form != "direct":
            raise ValueError(f"sampler 'asynchronous' has form='direct' only, got {self.form!r}.")

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
        counts, sums = self._statistics(shard, size)
        return Version(counts, matrix([sums], self.likelihood.n_features) if isinstance(sums, WordTable) else sums)

    def _state(self, round_: int, hyper: GroupHyper, gathered: Gathered, known: Known) -> GossipGroupState:
        counts, statistics = summed(heard_of(gathered))
        tables = sum(widened(part["tables"], len(counts)) for part in gathered.private)
        table = hierarchical.Table(counts, tables, statistics, np.full(len(counts), -1))
        return GossipGroupState(round_, hyper, table, len(counts), np.zeros(self.n_shards, np.int64), known)

    def global_step(self, state: Any, spread: Spread = alone) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)

        live, table = state.occupied, state.table
        tables = table.tables[live].astype(float)
        hyper = self.measure.update(state.hyper, tables, self.sizes[self.sizes > 0], rng("hyper"))
        if isinstance(self.likelihood, BoundTokens):
            eta = self.likelihood.update(hyper.eta, table.counts[live], table.statistics[live], rng("eta"))
            hyper = hyper._replace(eta=eta)
        logs = log_gamma_draws(np.append(tables, hyper.alpha), rng("weights"))  # mutant: global step logs
        logs -= np.logaddexp.reduce(logs)
        sticks = np.full(len(table.counts), -np.inf)
        sticks[live] = logs[:-1]
        none = np.empty(0, np.int64)
        if isinstance(self.likelihood, BoundTokens):
            finite = self._topics(hyper, table.statistics, none, np.empty(0), 0, state.round, spread)
        else:
            nothing = draw_parameters(self.likelihood, np.zeros(0), table.statistics[:0], 0, 0, rng("parameters"))
            finite = finite_part(self.likelihood, self.setup.dtype, nothing, np.zeros(0))
        broadcast = hierarchical.Broadcast(state.round, hyper, finite, 0, 0, np.empty(0), None)
        return Message(broadcast, [self._view(state, p, sticks, logs[-1], hyper) for p in range(self.n_shards)])

    def _view(self, state: GossipGroupState, p: int, sticks: Array, rest: float, hyper: GroupHyper) -> View:
        others = of_others(state.known, p)
        counts = summed([state.known[p][p], others]).counts
        size = max(len(sticks), len(counts))
        there = widened(counts, size) > 0
        sticks = np.append(sticks, np.full(size - len(sticks), -np.inf))
        unheard = np.logaddexp.reduce(sticks[~there], initial=rest)
        return View(0, size, hyper.alpha, np.append(np.where(there, sticks, -np.inf), unheard), others)

    def local_step(self, shard: GroupShard, shared: Any, own: Any) -> Summary:
        if self.likelihood.imputes:
            impute(self, shard, self._own(shard, n_numbers(shard.labels)), own.others, shared.round)
        _, sticks = self._sweeps(shard, shared, own)
        masses = shared.hyper.gamma * np.exp(sticks[:-1])
        table_key = key(self.seed, "tables", shared.round)
        tables = table_kernel.draw_tables(shard.labels, shard.offsets, masses, shard.first, table_key)
        return self._report(shard, n_numbers(shard.labels), tables)

    def _room(self, shard: GroupShard, shared: Any, own: Any, slots: int, typical: int) -> tuple[Any, ...]:
        """The same with the rows of others, as far as the shard has heard of them."""
        work = self._work(shared, own, slots, typical)
        counts, statistics = summed([self._own(shard, slots + 1), own.others])
        tail = self.at(shared.hyper).pack(counts.astype(float), statistics, work.top.size)
        return tail, counts[:-1].copy(), work

    def gather(self, state: Any, message: Message, gathered: Gathered) -> GossipGroupState:
        known = gossip(state.known, heard_of(gathered), generator(self.seed, "gossip", state.round))
        return self._state(state.round + 1, message.shared.hyper, gathered, known)

    def restore(self, arrays: Arrays) -> GossipGroupState:
        plain = super().restore(arrays)
        return GossipGroupState(**vars(plain), known=from_arrays(arrays, self.likelihood.n_features))
