"""Asynchronous approximate collapsed Gibbs (Smyth, Welling and Asuncion 2009): shards gossip instead of meeting.

A shard sweeps its rows by collapsed Gibbs as if the others were what it last heard of them, then tells one of them,
drawn at random, what it has. Atoms have numbers: a new one takes the lowest that its shard does not know to be in use,
and equal numbers are the same atom. Rows that move elsewhere meanwhile are not seen: approximate with two shards or
more, and with one shard collapsed Gibbs, exact.

Here a round is L sweeps of every shard and one message of each. Concentrations and, of groups, the weights of atoms are
drawn between rounds from what is true. What shard p has heard of shard q is kept until p hears of it again: up to P^2
tables of the atoms that a shard has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unbounded.contracts import Array, Arrays, Engine, Gathered, Message, Spread, Summary, alone
from unbounded.kernels import labels as kernel
from unbounded.kernels import tables as table_kernel
from unbounded.kernels.words import WordTable, matrix
from unbounded.likelihoods.tokens import BoundTokens
from unbounded.measures.hierarchical import Hyper as GroupHyper
from unbounded.measures.pitman_yor import Hyper
from unbounded.measures.priors import log_gamma_draws
from unbounded.randomness import generator, key
from unbounded.samplers import hierarchical
from unbounded.samplers.groups import GroupShard
from unbounded.samplers.hierarchical import Hierarchical, HierarchicalState, packed, unpacked
from unbounded.samplers.mixture import LabelShard, Mixture, MixtureState, Table, draw_parameters, finite_part

FREE_SLOTS = 16


class Version(NamedTuple):
    """Rows and statistics of each atom of a shard, by its number, as they were at some time."""

    counts: Array
    statistics: Any


Known = Sequence[Sequence[Version]]  # [p][q]: what shard p has heard of shard q


def widened(rows: Any, size: int) -> Any:
    """A table with empty atoms at its end."""
    if rows.shape[0] >= size:
        return rows
    missing = (size - rows.shape[0], *rows.shape[1:])
    kind: Any = sparse.csr_matrix if sparse.issparse(rows) else np.zeros
    return stacked([rows, kind(missing, dtype=rows.dtype)])


def summed(versions: Sequence[Version]) -> Version:
    """All rows of some shards, atom by atom."""
    size = max(len(version.counts) for version in versions)
    total = Version(*(widened(rows, size) for rows in versions[0]))
    for version in versions[1:]:
        total = Version(*(a + widened(b, size) for a, b in zip(total, version, strict=True)))
    return total


def of_others(known: Known, p: int) -> Version:
    """What shard p believes of all others."""
    nothing = Version(*(rows[:0] for rows in known[p][p]))
    return summed([version for q, version in enumerate(known[p]) if q != p] or [nothing])


def gossip(known: Known, now: Sequence[Version], rng: np.random.Generator) -> Known:
    """Every shard tells another one what it has now."""
    n_shards = len(now)
    heard = [list(row) for row in known]
    for q, version in enumerate(now):
        heard[q][q] = version
        if n_shards > 1:
            heard[(q + 1 + int(rng.integers(n_shards - 1))) % n_shards][q] = version
    return heard


def stacked(parts: list[Any]) -> Any:
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def filed(known: Known) -> dict[str, Array]:
    versions = [version for row in known for version in row]
    arrays = packed(stacked([version.statistics for version in versions]))
    arrays |= {"counts": np.concatenate([version.counts for version in versions])}
    return {f"known_{name}": value for name, value in arrays.items()} | {
        "known_sizes": np.array([[len(version.counts) for version in row] for row in known])
    }


def unfiled(arrays: Arrays, n_features: int) -> Known:
    own = {name.removeprefix("known_"): value for name, value in arrays.items() if name.startswith("known_")}
    statistics, ends = unpacked(own, n_features), np.cumsum(own["sizes"])
    pieces = [slice(end - size, end) for end, size in zip(ends, own["sizes"].ravel(), strict=True)]
    versions = [Version(own["counts"][piece], statistics[piece]) for piece in pieces]
    n_shards = len(own["sizes"])
    return [versions[p * n_shards : (p + 1) * n_shards] for p in range(n_shards)]


def heard_of(gathered: Gathered) -> list[Version]:
    return [Version(part["counts"], part["statistics"]) for part in gathered.private]


def n_numbers(labels: Array) -> int:
    return int(labels.max(initial=-1)) + 1


def impute(model: Any, shard: LabelShard, own: Version, others: Version, round_: int) -> None:
    """Redraw the holes of a shard given parameters of what it knows of its atoms."""
    counts, statistics = summed([own, others])
    parameters = model.likelihood.draw(
        counts.astype(float), statistics, generator(model.seed, "parameters", round_, shard.index)
    )
    impute_key = key(model.seed, "impute", round_)
    model.likelihood.impute(shard.data, shard.holes, shard.labels, parameters, impute_key, shard.first)


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
        return Version(*kernel.statistics(self.family, shard.data, shard.labels, size, n_features))

    def _report(self, shard: LabelShard, size: int, _: Any) -> Summary:
        return Summary({}, self._own(shard, size)._asdict())

    def _sweeps(self, shard: LabelShard, hyper: Hyper, round_: int, others: Version) -> None:
        """L collapsed sweeps; the rows of others stay where they were."""
        law = kernel.TailLaw(hyper.sigma, hyper.alpha, hyper.sigma)
        none = self.likelihood.draw(np.zeros(0), np.zeros((0, self.likelihood.n_features)), generator(0, "none"))
        finite = self.finite(none, np.zeros(0))
        dtype = (finite if isinstance(finite, np.ndarray) else finite[0]).dtype
        slots = max(n_numbers(shard.labels), len(others.counts)) + FREE_SLOTS
        tail, members, work = self._room(shard, others, slots, dtype)
        for sweep in range(self.sweeps):
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
        lanes = kernel.lanes_for(len(shard.labels), features, 0, dtype.itemsize)
        counts, statistics = summed([self._own(shard, slots + 1), others])
        tail = self.likelihood.pack(counts.astype(float), statistics, lanes)
        return tail, counts[:-1].copy(), kernel.scratch(features, 0, slots + 1, lanes, dtype)

    def gather(self, state: Any, message: Message, gathered: Gathered) -> GossipState:
        now = heard_of(gathered)
        known = gossip(state.known, now, generator(self.seed, "gossip", state.round))
        return self._state(state.round + 1, message.shared[1], now, known)

    def restore(self, arrays: Arrays) -> GossipState:
        plain = super().restore(arrays)
        return GossipState(**vars(plain), known=unfiled(arrays, self.likelihood.n_features))


# ---- groups


@dataclass(frozen=True)
class GossipGroupState(HierarchicalState):
    known: Known

    def arrays(self) -> dict[str, Array]:
        return super().arrays() | filed(self.known)


class View(NamedTuple):
    """What a shard of groups knows; names are those of the hybrid sampler, all atoms being private."""

    usable: int
    n_private: int
    share: float
    sticks: Array
    others: Version


@dataclass(frozen=True)
class AsynchronousGroups(Hierarchical):
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
        logs = log_gamma_draws(np.append(tables, hyper.alpha), rng("weights"))
        logs -= np.logaddexp.reduce(logs)
        sticks = np.full(len(table.counts), -np.inf)
        sticks[live] = logs[:-1]
        none = np.empty(0, np.int64)
        if isinstance(self.likelihood, BoundTokens):
            finite = self._topics(hyper, table.statistics, none, np.empty(0), 0, state.round, spread)
        else:
            nothing = draw_parameters(self.likelihood, np.zeros(0), table.statistics[:0], 0, 0, rng("parameters"))
            finite = finite_part(self.likelihood, self.dtype, nothing, np.zeros(0))
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
        return GossipGroupState(**vars(plain), known=unfiled(arrays, self.likelihood.n_features))
