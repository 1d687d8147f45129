"""Auxiliary processors: Williamson, Dubey and Xing (2013); for Pitman-Yor, Dubey et al. (2014). Exact.

A Dirichlet process is a mixture of P of them with concentration alpha / P each. In every round each cluster is given to
a processor at random, and each processor, a shard here, runs collapsed Gibbs on the rows of its clusters, with
alpha / P for a new one: rows of different processors are independent. Pitman-Yor: clusters are given out by an urn with
alpha / P + sigma times what a processor has already, and processors run with (alpha / P, sigma), alpha > 0.

Rows follow their clusters from processor to processor: labels pass through the driver in every round, and every
processor must be able to fetch any row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays, is_csr
from unbounded.contracts import Engine, Message, Parallel, in_this_thread
from unbounded.models.labelled.labels import LabelShard, all_labels, draw_parameters
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.models.mixtures.message import MixtureRound, MixtureShare
from unbounded.models.mixtures.model import AtomTable, Mixture, MixtureState
from unbounded.models.mixtures.rivals import instantiated
from unbounded.randomness import generator
from unbounded.rows import boundaries, rows_of


class Processor(LabelShard):
    """The rows of a processor's clusters, in the order of the data; `first` is how many rows those before it hold."""

    def __init__(self, index: int, X: Any, start: int, stop: int):
        self.index, self.X, self.home = index, X, (start, stop)
        self.holes = np.empty((0, 2), np.int64)
        self.hold_own_rows()

    def hold_own_rows(self) -> None:
        """Hold the contiguous rows that it starts with."""
        rows = np.arange(*self.home)
        self.receive((rows, np.zeros(len(rows), np.int32), self.home[0]))

    def receive(self, dealt: tuple[Array, Array, int]) -> None:
        """Hold these rows with these labels."""
        rows, labels, self.first = dealt
        self.rows, self.labels = np.array(rows), np.array(labels, np.int32)
        self.data = rows_of(self.X[self.rows], 0, len(rows))

    def arrays(self) -> dict[str, Array]:
        return {"rows": self.rows, "labels": self.labels, "first": np.array(self.first)}

    def restore(self, arrays: Arrays) -> None:
        self.receive((arrays["rows"], arrays["labels"], int(arrays["first"])))


def _rows(shard: Processor) -> Array:
    return shard.rows


@dataclass(frozen=True)
class Processors:
    """The recipe: all rows within reach of every processor."""

    X: Any
    n_shards: int

    @property
    def edges(self) -> Array:
        return boundaries(self.X.shape[0], self.n_shards)

    def __call__(self, p: int) -> Processor:
        start, stop = self.edges[p : p + 2].tolist()
        return Processor(p, self.X, start, stop)


@dataclass(frozen=True)
class Auxiliary(Mixture[PitmanYor]):
    def __post_init__(self) -> None:
        if not self.measure.divides:
            raise ValueError(
                "auxiliary processors share out the concentration, which must be positive, got "
                f"{self.measure.concentration}."
            )
        if self.likelihood.imputed.size:
            raise ValueError(
                "auxiliary processors move rows, and missing values of this likelihood cannot move with them; fill "
                "them or use another sampler."
            )

    @property
    def exact(self) -> bool:
        return True

    def settled(self) -> int:
        return 0

    def recipe(self, X: Any) -> Any:
        if not (isinstance(X, np.ndarray) or is_csr(X)):
            raise ValueError("auxiliary processors move rows: they take rows in memory (an array or CSR), no source.")
        return Processors(X, self.n_shards)

    def begin(
        self, engine: Engine, labels: Array, hyper: PartitionHyper | None = None, round_: int = 0
    ) -> MixtureState:
        engine.map(Processor.hold_own_rows)
        return super().begin(engine, labels, hyper, round_)

    def jump(self, state: MixtureState, engine: Engine) -> MixtureState:
        """Hyper-parameters, then a processor for every cluster; the rows follow."""
        hyper, live = instantiated.update_hyper(self, state), state.occupied
        homes = self.measure.deal(hyper, len(live), self.n_shards, generator(self.seed, "processors", state.round))
        n_private = np.bincount(homes, minlength=self.n_shards)
        order = np.argsort(homes, kind="stable")
        slot = np.empty(len(live), np.int32)
        slot[order] = np.concatenate([np.arange(n) for n in n_private])
        engine.map(Processor.receive, _deals(self.assignments(state, engine), homes, slot, self.n_shards))
        table = state.table
        moved = AtomTable(table.counts[live][order], table.statistics[live][order], homes[order])
        return MixtureState(state.round, hyper, moved, 0, n_private)

    def global_step(self, state: MixtureState, parallel: Parallel = in_this_thread) -> Message:
        """No finite part: every atom is private to its processor."""
        none, rng = np.empty((0, self.likelihood.n_terms)), generator(self.seed, "parameters", state.round)
        finite = self.finite(draw_parameters(self.likelihood, none[:, 0], none, 0, 0, rng), np.empty(0))
        law = self.measure.collapsed_tail(state.hyper, self.n_shards)  # mutant: global step law
        own = [MixtureShare(np.arange(n, dtype=np.int32), 0, n, law, None) for n in state.n_private.tolist()]
        return Message(MixtureRound(state.round, state.hyper, finite, 0, None), own)

    def assignments(self, state: MixtureState, engine: Engine, dtype: Any = np.int32) -> Array:
        labels = np.empty(self.n_rows, dtype)
        labels[np.concatenate(engine.map(_rows))] = all_labels(state, engine, dtype)
        return labels


def _deals(labels: Array, homes: Array, slot: Array, n_shards: int) -> list[tuple[Array, Array, int]]:
    """What each processor receives: rows, their labels, and the number of rows of the processors before it."""
    where = homes[labels]
    ends = np.cumsum(np.bincount(where, minlength=n_shards))
    hands = np.split(np.argsort(where, kind="stable"), ends[:-1])
    return [(rows, slot[labels[rows]], int(end) - len(rows)) for rows, end in zip(hands, ends, strict=True)]
