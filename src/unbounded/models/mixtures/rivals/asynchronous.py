"""Asynchronous approximate collapsed Gibbs of mixtures (labelled/gossip.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Spread, Summary, alone
from unbounded.models.labelled import kernel as labelled
from unbounded.models.labelled.gossip import (
    FREE_SLOTS,
    Known,
    Version,
    filed,
    gossip,
    heard_of,
    impute,
    n_numbers,
    of_others,
    summed,
    unfiled,
)
from unbounded.models.labelled.shard import LabelShard
from unbounded.models.mixtures import kernel
from unbounded.models.mixtures.measure import Hyper
from unbounded.models.mixtures.model import Mixture, MixtureState, Table
from unbounded.randomness import generator, key

# ---- mixtures


@dataclass(frozen=True)
class GossipState(MixtureState):
    known: Known

    def arrays(self) -> dict[str, Array]:
        return super().arrays() | filed(self.known)


@dataclass(frozen=True)
class AsynchronousMixture(Mixture):
    """The table holds what is true: the sum of what shards have, by number."""

    @property
    def exact(self) -> bool:
        return self.n_shards == 1

    def settled(self) -> int:
        return 0

    def count(self, engine: Engine, n_shared: int, hyper: Hyper, round_: int) -> GossipState:
        now = heard_of(engine.run(self._report, Message(n_shared, [0] * self.n_shards)))
        return self._state(round_, hyper, now, [now] * self.n_shards)

    def _state(self, round_: int, hyper: Hyper, now: Sequence[Version], known: Known) -> GossipState:
        counts, statistics = summed(now)
        table = Table(counts, statistics, np.full(len(counts), -1))
        return GossipState(round_, hyper, table, len(counts), np.zeros(self.n_shards, np.int64), known)

    def global_step(self, state: Any, spread: Spread = alone) -> Message:
        counts = state.table.counts[state.occupied].astype(float)
        hyper = self.measure.update(state.hyper, counts, generator(self.seed, "hyper", state.round))
        return Message((state.round, hyper), [of_others(state.known, p) for p in range(self.n_shards)])

    def local_step(self, shard: LabelShard, shared: Any, own: Any) -> Summary:
        round_, hyper = shared
        if self.likelihood.imputes:
            impute(self, shard, self._own(shard, n_numbers(shard.labels)), own, round_)
        self._sweeps(shard, hyper, round_, own)
        return self._report(shard, n_numbers(shard.labels), 0)

    def _own(self, shard: LabelShard, size: int) -> Version:
        n_features = self.likelihood.n_features
        return Version(*labelled.statistics(self.family, shard.data, shard.labels, size, n_features))

    def _report(self, shard: LabelShard, size: int, _: Any) -> Summary:
        return Summary({}, self._own(shard, size)._asdict())

    def _sweeps(self, shard: LabelShard, hyper: Hyper, round_: int, others: Version) -> None:
        """L collapsed sweeps; the rows of others stay where they were."""
        law = kernel.TailLaw(hyper.sigma, hyper.alpha, hyper.sigma)  # mutant: sweeps law
        none = self.likelihood.draw(np.zeros(0), np.zeros((0, self.likelihood.n_features)), generator(0, "none"))
        finite = self.finite(none, np.zeros(0))
        dtype = (finite if isinstance(finite, np.ndarray) else finite[0]).dtype
        slots = max(n_numbers(shard.labels), len(others.counts)) + FREE_SLOTS
        tail, members, work = self._room(shard, others, slots, dtype)
        for sweep in range(self.setup.sweeps):
            label_key, tail_key = (key(self.seed, name, round_, sweep) for name in ("label", "tail"))
            row = 0
            while True:
                row = kernel.sweep(
                    self.family, shard.data, shard.labels, shard.first, row, finite, 0, 0, law, tail, members,
                    label_key, tail_key, work,
                )  # fmt: skip
                if row == len(shard.labels):
                    break
                slots *= 2
                tail, members, work = self._room(shard, others, slots, dtype)

    def _room(self, shard: LabelShard, others: Version, slots: int, dtype: Any) -> tuple[Any, Array, kernel.Scratch]:
        """(collapsed state, rows, scratch) of the atoms that the shard knows, the last slot being a new one."""
        features = 0 if self.likelihood.sparse else self.likelihood.n_features
        lanes = labelled.lanes_for(len(shard.labels), features, 0, dtype.itemsize)
        counts, statistics = summed([self._own(shard, slots + 1), others])
        tail = self.likelihood.pack(counts.astype(float), statistics, lanes)  # mutant: room tail
        return tail, counts[:-1].copy(), kernel.scratch(features, 0, slots + 1, lanes, dtype)

    def gather(self, state: Any, message: Message, gathered: Gathered) -> GossipState:
        now = heard_of(gathered)
        known = gossip(state.known, now, generator(self.seed, "gossip", state.round))
        return self._state(state.round + 1, message.shared[1], now, known)

    def restore(self, arrays: Arrays) -> GossipState:
        plain = super().restore(arrays)
        return GossipState(**vars(plain), known=unfiled(arrays, self.likelihood.n_features))
