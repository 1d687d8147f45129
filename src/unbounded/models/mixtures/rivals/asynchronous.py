"""Asynchronous approximate collapsed Gibbs of mixtures (labelled/gossip.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Parallel, Summary, in_this_thread
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
)
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.models.mixtures.message import MixturePart
from unbounded.models.mixtures.model import AtomTable, Mixture, MixtureState
from unbounded.randomness import generator


@dataclass(frozen=True)
class GossipState(MixtureState):
    known: Known

    def arrays(self) -> dict[str, Array]:
        return super().arrays() | to_arrays(self.known)


@dataclass(frozen=True)
class AsynchronousMixture(Mixture[PitmanYor]):
    """The table of a state is the truth: the sum over shards of the rows of each atom, by its number."""

    @property
    def exact(self) -> bool:
        return self.n_shards == 1

    def settled(self) -> int:
        return 0

    def count(self, engine: Engine, n_shared: int, hyper: PartitionHyper, round_: int) -> GossipState:
        now = heard_of(engine.run(self._report, Message(n_shared, [0] * self.n_shards)))
        return self._state(round_, hyper, now, [now] * self.n_shards)

    def _state(self, round_: int, hyper: PartitionHyper, now: Sequence[Version], known: Known) -> GossipState:
        counts, statistics = summed(now)
        table = AtomTable(counts, statistics, np.full(len(counts), -1))
        return GossipState(round_, hyper, table, len(counts), np.zeros(self.n_shards, np.int64), known)

    def global_step(self, state: Any, parallel: Parallel = in_this_thread) -> Message:
        counts = state.table.counts[state.occupied].astype(float)
        hyper = self.measure.update(state.hyper, counts, self.n_rows, generator(self.seed, "hyper", state.round))
        return Message((state.round, hyper), [of_others(state.known, p) for p in range(self.n_shards)])

    def local_step(self, shard: LabelShard, shared: Any, own: Any) -> Summary:
        round_, hyper = shared
        if self.likelihood.imputed.size:
            impute(self, shard, self._version(shard, n_numbers(shard.labels)), own, round_)
        self._sweeps(shard, hyper, round_, own)
        return self._report(shard, n_numbers(shard.labels), 0)

    def _version(self, shard: LabelShard, size: int) -> Version:
        return Version(*self.kernel.totals(shard.data, shard.labels, size))

    def _report(self, shard: LabelShard, size: int, _: Any) -> Summary:
        return Summary({}, self._version(shard, size)._asdict())

    def _sweeps(self, shard: LabelShard, hyper: PartitionHyper, round_: int, others: Version) -> None:
        """L collapsed sweeps, in which the rows of other shards stay where they were last known to be."""
        law = self.measure.collapsed_tail(hyper)  # mutant: sweeps law
        none = self.likelihood.draw(np.zeros(0), np.zeros((0, self.likelihood.n_terms)), generator(0, "none"))
        keys = [self.keys(round_, sweep) for sweep in range(self.setup.sweeps)]
        n_known = max(n_numbers(shard.labels), len(others.counts))
        part = MixturePart(self.finite(none, np.zeros(0)), 0, 0, n_known, law, keys, Atoms(*others))
        self.kernel.sweep(shard, part, self.kernel.prepare(shard, part))

    def gather(self, state: Any, message: Message, gathered: Gathered) -> GossipState:
        now = heard_of(gathered)
        known = gossip(state.known, now, generator(self.seed, "gossip", state.round))
        return self._state(state.round + 1, message.shared[1], now, known)

    def restore(self, arrays: Arrays) -> GossipState:
        plain = super().restore(arrays)
        return GossipState(**vars(plain), known=from_arrays(arrays, self.likelihood.n_terms))
