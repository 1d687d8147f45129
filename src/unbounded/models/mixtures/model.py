"""Mixtures: the global step when every row has one label (docs/sampler.md, "A round").

The table of atoms after a round: first the atoms that all shards share (mobile, then held), then each shard's private
ones. A shard codes a label as the shared index, or as n_shared + its own private index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Summary
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.labelled import kernel as labelled
from unbounded.models.labelled.atoms import finite_part
from unbounded.models.labelled.shard import LabelShard, all_labels
from unbounded.models.mixtures import kernel
from unbounded.models.mixtures.measure import Hyper, PitmanYor
from unbounded.randomness import key
from unbounded.rows import boundaries, rows_of
from unbounded.setup import Built


class Table(NamedTuple):
    """Atoms with their statistics; `owner` is the only shard with members, or -1 when several or none have some."""

    counts: Array
    statistics: Array
    owner: Array


@dataclass(frozen=True)
class MixtureState:
    round: int
    hyper: Hyper
    table: Table
    n_shared: int
    n_private: Array  # [P]

    def arrays(self) -> dict[str, Array]:
        scalars = {"round": np.array(self.round), "n_shared": np.array(self.n_shared), "hyper": np.array(self.hyper)}
        return {**scalars, "n_private": self.n_private, **self.table._asdict()}

    @property
    def occupied(self) -> Array:
        return np.flatnonzero(self.table.counts > 0)


class Broadcast(NamedTuple):
    """The finite part: what all shards need to know of the round."""

    round: int
    finite: Any  # parameters and weights of mobile (and stuck) atoms, as compiled code takes them
    n_mobile: int
    n_shared: int
    laws: Sequence[kernel.TailLaw]  # closed, open
    parameters: Parameters | None  # of every shared atom, when holes are imputed


class Own(NamedTuple):
    codes: Array  # new code of each of the shard's old codes
    usable: int
    n_private: int
    open: bool
    parameters: Parameters | None  # of the shard's private atoms, when holes are imputed


@dataclass(frozen=True)
class Shards:
    """The recipe: rows cut into P contiguous shards."""

    X: Any
    likelihood: Bound
    n_shards: int

    @property
    def edges(self) -> Array:
        return boundaries(self.X.shape[0], self.n_shards)

    def __call__(self, p: int) -> LabelShard:
        start, stop = self.edges[p : p + 2].tolist()
        shard = LabelShard(p, start, rows_of(self.X, start, stop), stop - start, self.likelihood.imputed)
        shard.fill(self.likelihood.columns.mean)
        return shard


@dataclass(frozen=True)
class Mixture(Built[PitmanYor, Bound, int]):
    """What the hybrid sampler and its rivals share; each has a global step of its own."""

    @property
    def n_rows(self) -> int:
        return self.setup.extent

    @cached_property
    def family(self) -> tuple[Any, ...]:
        return self.likelihood.family()

    def recipe(self, X: Any) -> Shards:
        return Shards(X, self.likelihood, self.n_shards)

    def begin(self, engine: Engine, labels: Array, hyper: Hyper | None = None, round_: int = 0) -> MixtureState:
        """The state with these labels (any integers)."""
        codes, labels = np.unique(np.asarray(labels), return_inverse=True)
        labels = labels.astype(np.int32).ravel()
        engine.map(LabelShard.put, np.split(labels, boundaries(self.n_rows, self.n_shards)[1:-1]))
        return self.count(engine, len(codes), hyper or self.measure.start(), round_)

    def count(self, engine: Engine, n_shared: int, hyper: Hyper, round_: int) -> MixtureState:
        """The state of shards whose labels are all codes of n_shared shared atoms."""
        gathered = engine.run(self._summarise, Message(n_shared, [0] * self.n_shards))
        return self._assemble(round_, hyper, n_shared, gathered)

    def jump(self, state: MixtureState, engine: Engine) -> MixtureState:
        return state

    def finite(self, parameters: Parameters, log_weights: Array) -> Any:
        return finite_part(self.likelihood, self.setup.dtype, parameters, log_weights)

    # ---- local step

    def local_step(self, shard: LabelShard, shared: tuple[Broadcast, Hyper], own: Own) -> Summary:
        message = shared[0]
        labelled.relabel(shard.labels, own.codes)
        if message.parameters is not None and own.parameters is not None:
            both = {name: np.concatenate([v, own.parameters[name]]) for name, v in message.parameters.items()}
            impute_key = key(self.seed, "impute", message.round)
            self.likelihood.impute(shard.data, shard.holes, shard.labels, both, impute_key, shard.first)
        n_private = self._sweep(shard, message, own)
        return self._summarise(shard, message.n_shared, n_private)

    def _sweep(self, shard: LabelShard, message: Broadcast, own: Own) -> int:
        """L sweeps; returns the number of private atoms, whose codes are made consecutive."""
        law = message.laws[own.open]
        family = self.family
        n_features = self.likelihood.n_features
        finite = message.finite
        dtype = (finite if isinstance(finite, np.ndarray) else finite[0]).dtype
        wide = n_features if isinstance(finite, np.ndarray) and not self.likelihood.sparse else 0
        lanes = labelled.lanes_for(len(shard.labels), wide, own.usable, dtype.itemsize)
        slots = own.n_private + (16 if own.open else 0)
        members = np.zeros(slots, np.int64)

        def room() -> tuple[Any, kernel.Scratch]:
            rows = 0 if self.likelihood.sparse else n_features
            work = kernel.scratch(rows, own.usable, len(members) + 1, lanes, dtype)
            tail = self.likelihood.tail(len(members) + 1, lanes)
            labelled.fill_tail(family, shard.data, shard.labels, message.n_shared, tail, members, work)
            return tail, work

        tail, work = room()
        for sweep in range(self.setup.sweeps):
            # mutant: sweep label key
            label_key, tail_key = (key(self.seed, name, message.round, sweep) for name in ("label", "tail"))
            row = 0
            while True:
                row = kernel.sweep(  # mutant: sweep row
                    family, shard.data, shard.labels, shard.first, row, finite, own.usable, message.n_shared, law, tail,
                    members, label_key, tail_key, work,
                )  # fmt: skip
                if row == len(shard.labels):
                    break
                members = np.zeros(2 * len(members) + 16, np.int64)
                tail, work = room()
        alive = members > 0
        codes = np.arange(message.n_shared + len(members), dtype=np.int32)
        codes[message.n_shared :] = message.n_shared + np.cumsum(alive) - 1
        if not alive[: alive.sum()].all():
            labelled.relabel(shard.labels, codes)
        return int(alive.sum())

    def _summarise(self, shard: LabelShard, n_shared: int, n_private: int) -> Summary:
        counts, sums = labelled.statistics(
            self.family, shard.data, shard.labels, n_shared + n_private, self.likelihood.n_features
        )
        there = (counts[:n_shared] > 0).astype(np.int64)
        shared = {
            "counts": counts[:n_shared],
            "statistics": sums[:n_shared],
            "shards": there,
            "owner": there * shard.index,
        }
        return Summary(shared, {"counts": counts[n_shared:], "statistics": sums[n_shared:]})

    # ---- gather

    def gather(self, state: MixtureState, message: Message, gathered: Gathered) -> MixtureState:
        broadcast, hyper = message.shared
        return self._assemble(state.round + 1, hyper, broadcast.n_shared, gathered)

    def _assemble(self, round_: int, hyper: Hyper, n_shared: int, gathered: Gathered) -> MixtureState:
        shared, private = gathered.shared, gathered.private
        n_private = np.array([len(p["counts"]) for p in private])
        owner = np.where(shared["shards"] == 1, shared["owner"], -1)
        table = Table(
            np.concatenate([shared["counts"], *(p["counts"] for p in private)]),
            np.concatenate([shared["statistics"], *(p["statistics"] for p in private)]),
            np.concatenate([owner, np.repeat(np.arange(self.n_shards), n_private)]),
        )
        return MixtureState(round_, hyper, table, n_shared, n_private)

    # ---- what a chain records

    def scalars(self, state: MixtureState) -> dict[str, float]:
        counts = state.table.counts[state.occupied].astype(float)
        statistics = state.table.statistics[state.occupied]
        shares = counts / counts.sum()
        log_joint = (
            self.measure.log_prior(state.hyper)
            + self.measure.log_prob(state.hyper, counts)
            + self.likelihood.log_evidence(counts, statistics)
        )
        return {
            "n_clusters": len(counts),
            **self.measure.scalars(state.hyper),
            "log_joint": float(log_joint),
            "entropy": float(-(shares * np.log(shares)).sum()),
            "largest": float(shares.max()),
        }

    def assignments(self, state: MixtureState, engine: Engine) -> Array:
        return all_labels(state, engine)

    def snapshot(self, state: MixtureState, engine: Engine) -> dict[str, Array]:
        labels = self.assignments(state, engine)
        small = np.uint8 if len(state.occupied) <= 256 else np.uint16 if len(state.occupied) <= 65536 else np.int32
        return {
            "labels": labels.astype(small),
            "counts": state.table.counts[state.occupied],
            "statistics": state.table.statistics[state.occupied],
            "hyper": np.array(state.hyper),
        }

    def restore(self, arrays: Arrays) -> MixtureState:
        return MixtureState(
            int(arrays["round"]),
            Hyper(*(float(v) for v in arrays["hyper"])),
            Table(arrays["counts"], arrays["statistics"], arrays["owner"]),
            int(arrays["n_shared"]),
            arrays["n_private"],
        )
