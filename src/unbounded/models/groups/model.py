"""Grouped rows: the global step of the hierarchical Dirichlet process (docs/topics.md, "A round").

Atoms are coded as in a mixture: those that all shards share first (mobile, then held), then each shard's private ones.
What a row is to a mixture, a table is to the top process: ghosts are ghost tables, and an atom's weight comes from its
tables. A group lives on one shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Spread, Summary
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.groups import direct as kernel
from unbounded.models.groups import franchise
from unbounded.models.groups.measure import HierarchicalDirichletProcess, Hyper
from unbounded.models.groups.shard import GroupShard, Shards, cut
from unbounded.models.groups.words import alias
from unbounded.models.groups.words import counts as words
from unbounded.models.groups.words import sweep as token_kernel
from unbounded.models.groups.words.counts import WordTable
from unbounded.models.groups.words.likelihood import BoundTokens, LogTopics
from unbounded.models.groups.words.topics import Topics
from unbounded.models.labelled import kernel as labelled
from unbounded.models.labelled.shard import all_labels
from unbounded.randomness import key
from unbounded.setup import Built

FORMS = ("direct", "franchise")
FREE = 16  # slots for new private atoms of a shard, to begin with


class Table(NamedTuple):
    """Atoms: rows, tables and statistics; `owner` is the only shard with rows, or -1 when several or none have some."""

    counts: Array
    tables: Array
    statistics: Any  # [K, features], of words a CSR matrix
    owner: Array


@dataclass(frozen=True)
class GroupsState:
    round: int
    hyper: Hyper
    table: Table
    n_shared: int
    n_private: Array  # [P]

    def arrays(self) -> dict[str, Array]:
        scalars = {"round": np.array(self.round), "n_shared": np.array(self.n_shared), "hyper": np.array(self.hyper)}
        return {
            **scalars, "n_private": self.n_private, "counts": self.table.counts, "tables": self.table.tables,
            "owner": self.table.owner, **packed(self.table.statistics),
        }  # fmt: skip

    @property
    def occupied(self) -> Array:
        return np.flatnonzero(self.table.counts > 0)


class Broadcast(NamedTuple):
    """The finite part: what all shards need to know of the round."""

    round: int
    hyper: Hyper
    finite: Any
    n_mobile: int
    n_shared: int
    masses: Array  # gamma beta of shared atoms
    parameters: Parameters | None  # of every shared atom, when holes are imputed


class Own(NamedTuple):
    codes: Array  # new code of each of the shard's old codes
    usable: int
    n_private: int
    share: float  # the concentration of the shard's tail
    sticks: Array  # log beta of its private atoms (direct assignment), and of the rest of its tail
    parameters: Parameters | None


@dataclass(frozen=True)
class Groups(Built[HierarchicalDirichletProcess, Bound, Array]):
    """What the hybrid sampler and its rivals share; each has a global step of its own."""

    form: str = "direct"

    @property
    def sizes(self) -> Array:
        """Of the groups."""
        return self.setup.extent

    @cached_property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    def recipe(self, X: Any) -> Shards:
        return Shards(X, self.sizes, self.likelihood, self.n_shards, self.form)

    def begin(
        self, engine: Engine, labels: Array, hyper: Hyper | None = None, seats: Array | None = None, round_: int = 0
    ) -> GroupsState:
        """The state with these labels (any integers); one table for each atom of a group where no seats are given."""
        codes, labels = np.unique(np.asarray(labels), return_inverse=True)
        labels = labels.astype(np.int32).ravel()
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        seats = labels if seats is None else seats
        width = int(seats.max()) + 1
        pairs, where, seats = np.unique(group * width + seats, return_index=True, return_inverse=True)
        tables = np.bincount(labels[where], minlength=len(codes))
        seats = seats - np.searchsorted(pairs, np.arange(len(self.sizes)) * width)[group]
        rows = [slice(own[0], own[-1]) for own in cut(self.sizes, self.n_shards)]
        engine.map(GroupShard.put, [labels[own] for own in rows])
        if self.form == "franchise":
            engine.map(GroupShard.sit, [seats[own] for own in rows])
        return self.count(engine, tables, hyper or self.start(), round_)

    def start(self) -> Hyper:
        return self.measure.start()._replace(eta=getattr(self.likelihood, "eta", 0.0))

    def at(self, hyper: Hyper) -> Any:
        """The likelihood with its own hyper-parameter, if it has one."""
        return self.likelihood.at(hyper.eta) if isinstance(self.likelihood, BoundTokens) else self.likelihood

    def count(self, engine: Engine, tables: Array, hyper: Hyper, round_: int) -> GroupsState:
        """The state of shards whose labels are all codes of shared atoms with these numbers of tables."""
        own = [tables, *[np.zeros_like(tables)] * (self.n_shards - 1)]
        gathered = engine.run(self._recount, Message(len(tables), own))
        return self._assemble(round_, hyper, len(tables), gathered)

    def _recount(self, shard: GroupShard, n_shared: int, tables: Array) -> Summary:
        return self._summarise(shard, n_shared, 0, tables)

    def jump(self, state: GroupsState, engine: Engine) -> GroupsState:
        return state

    # ---- global step

    def _topics(
        self, hyper: Hyper, statistics: Any, usable: Array, masses: Array, n_mobile: int, round_: int, spread: Spread
    ) -> Any:
        """What compiled code needs of topics; usable: their rows of the statistics, -1 of ghost-only ones."""
        phi_key, dtype = key(self.seed, "phi", round_), np.dtype(self.setup.dtype)
        topics = self.at(hyper).topics(statistics, usable, masses, n_mobile, phi_key, dtype, spread)
        return LogTopics(np.log(topics.phi)) if self.form == "franchise" else topics

    # ---- local step

    def local_step(self, shard: GroupShard, shared: Broadcast, own: Own) -> Summary:
        labelled.relabel(shard.labels, own.codes)
        if shared.parameters is not None and own.parameters is not None:
            both = {name: np.concatenate([v, own.parameters[name]]) for name, v in shared.parameters.items()}
            impute_key = key(self.seed, "impute", shared.round)
            self.likelihood.impute(shard.data, shard.holes, shard.labels, both, impute_key, shard.first)
        move = self._serve if shard.seated else self._assign
        n_private, tables = move(shard, shared, own)
        return self._summarise(shard, shared.n_shared, n_private, tables)

    def _room(self, shard: GroupShard, shared: Broadcast, own: Own, slots: int, typical: int) -> tuple[Any, ...]:
        """(tail, rows of each slot, scratch) with the private atoms that labels say."""
        members = np.zeros(slots, np.int64)
        labels = shard.labels[: 0 if slots == FREE else None]  # no private atom yet
        if isinstance(shared.finite, Topics):
            tail = self.likelihood.tail(slots + 1, 0)
            token_kernel.seat(shard.data, labels, shared.n_shared, tail[0], members)
            return tail, members, None
        likelihood, work = self.at(shared.hyper), self._work(shared, own, slots, typical)
        tail = likelihood.tail(slots + 1, work.top.size)
        labelled.fill_tail(likelihood.family(), shard.data, labels, shared.n_shared, tail, members, work)
        return tail, members, work

    def _work(self, shared: Broadcast, own: Any, slots: int, typical: int) -> kernel.Scratch:
        dtype = (shared.finite if isinstance(shared.finite, np.ndarray) else shared.finite[0]).dtype
        features = 0 if self.likelihood.sparse else self.likelihood.n_features
        wide = features if isinstance(shared.finite, np.ndarray) else 0
        lanes = labelled.lanes_for(typical, wide, 2 * own.usable, dtype.itemsize)
        return kernel.scratch(features, own.usable, shared.n_shared, slots, lanes, dtype)

    def _masses(self, shared: Broadcast, own: Own) -> kernel.Masses:
        return kernel.Masses(shared.masses, float(np.log(shared.hyper.gamma)), shared.hyper.alpha, own.share)

    def _keys(self, round_: int, sweep: int, *names: str) -> list[np.uint64]:
        return [key(self.seed, name, round_, sweep) for name in names]

    def _assign(self, shard: GroupShard, shared: Broadcast, own: Own) -> tuple[int, Array]:
        """L sweeps of direct assignment; (number of private atoms, tables of every code)."""
        members, sticks = self._sweeps(shard, shared, own)
        alive = np.flatnonzero(members)
        if len(alive) > 0:
            labelled.relabel(shard.labels, _compact(shared.n_shared, members))
        masses = np.append(shared.masses, shared.hyper.gamma * np.exp(sticks[alive]))  # mutant: assign masses
        table_key = key(self.seed, "tables", shared.round)
        return len(alive), kernel.draw_tables(shard.labels, shard.offsets, masses, shard.first, table_key)

    def _sweeps(self, shard: GroupShard, shared: Broadcast, own: Any) -> tuple[Array, Array]:
        """The sweeps themselves; (rows, log weights) of private slots, and of the rest of the tail."""
        n_shared, slots = shared.n_shared, own.n_private + FREE
        tail, members, work = self._room(shard, shared, own, slots, len(shard.labels))
        sticks = _with_room(own.sticks, FREE)
        of_words = isinstance(shared.finite, Topics)
        aliases = self._aliases(shard, shared.finite, own.usable) if of_words else None
        for sweep in range(self.setup.sweeps):
            label_key, stick_key = self._keys(shared.round, sweep, "label", "stick")
            row = 0
            while True:
                if of_words:
                    row = token_kernel.sweep(  # mutant: sweeps row
                        shard.data, shard.labels, shard.offsets, shard.first, row, shared.finite, aliases, own.usable,
                        n_shared, self._masses(shared, own), shared.hyper.eta, tail[0], members, sticks, label_key,
                        stick_key,
                    )  # fmt: skip
                else:
                    row = kernel.assign(
                        self.likelihood.family(), shard.data, shard.labels, shard.offsets, shard.first, row,
                        shared.finite, own.usable, n_shared, self._masses(shared, own), tail, members, sticks,
                        label_key, stick_key, work,
                    )  # fmt: skip
                if row == len(shard.labels):
                    break
                sticks = _with_room(sticks, slots)
                slots *= 2
                tail, members, work = self._room(shard, shared, own, slots, len(shard.labels))
        return members, sticks

    def _aliases(self, shard: GroupShard, topics: Topics, usable: int) -> alias.Aliases:
        """None for few topics, or where held atoms are not usable: the last chunk has some of them."""
        n = topics.parts.shape[1]
        n *= n >= alias.FEW and usable == topics.phi.shape[1]
        return alias.build(topics.parts, n, shard.frequency, -(-alias.WORTH * n // self.setup.sweeps))

    def _serve(self, shard: GroupShard, shared: Broadcast, own: Own) -> tuple[int, Array]:
        """L sweeps of the franchise; (number of private atoms, tables of every code)."""
        n_shared, slots = shared.n_shared, own.n_private + FREE
        typical = len(shard.labels) // max(len(shard.offsets) - 1, 1)
        family = self.at(shared.hyper).family()
        heads = franchise.count_heads(shard.seats, shard.offsets)
        franchise.relabel_tables(shard.dishes, heads, own.codes)
        tail, members, work = self._room(shard, shared, own, slots, typical)
        for sweep in range(self.setup.sweeps):
            seat_key, dish_key = self._keys(shared.round, sweep, "seat", "dish")
            cursor = np.zeros(2, np.int64)
            while True:
                served = franchise.count_dishes(shard.dishes, heads, n_shared + slots)[n_shared:]
                done = franchise.serve(
                    family, shard.data, shard.seats, shard.dishes, heads, shard.offsets, shard.first,
                    cursor, shared.finite, own.usable, n_shared, self._masses(shared, own), own.sticks[-1], tail,
                    members, served, seat_key, dish_key, work,
                )  # fmt: skip
                franchise.eaten(shard.seats, shard.dishes, shard.offsets, shard.labels)
                if done:
                    break
                slots *= 2
                tail, members, work = self._room(shard, shared, own, slots, typical)
        codes = _compact(n_shared, members)
        franchise.relabel_tables(shard.dishes, heads, codes)
        labelled.relabel(shard.labels, codes)
        n_private = int((members > 0).sum())
        return n_private, franchise.count_dishes(shard.dishes, heads, n_shared + n_private)

    def _summarise(self, shard: GroupShard, n_shared: int, n_private: int, tables: Array) -> Summary:
        counts, sums = self._statistics(shard, n_shared + n_private)
        parts: Any = sums.cut(n_shared) if isinstance(sums, WordTable) else (sums[:n_shared], sums[n_shared:])
        there = (counts[:n_shared] > 0).astype(np.int64)
        shared = {
            "counts": counts[:n_shared], "tables": tables[:n_shared], "statistics": parts[0], "shards": there,
            "owner": there * shard.index,
        }  # fmt: skip
        private = {"counts": counts[n_shared:], "tables": tables[n_shared:], "statistics": parts[1]}
        return Summary(shared, private)

    def _statistics(self, shard: GroupShard, atoms: int) -> tuple[Array, Any]:
        n_features = self.likelihood.n_features
        if shard.by_word is not None:
            return words.count(shard.data, shard.labels, shard.by_word, n_features, atoms)
        return labelled.statistics(self.likelihood.family(), shard.data, shard.labels, atoms, n_features)

    # ---- gather

    def gather(self, state: GroupsState, message: Message, gathered: Gathered) -> GroupsState:
        broadcast = message.shared
        return self._assemble(state.round + 1, broadcast.hyper, broadcast.n_shared, gathered)

    def _assemble(self, round_: int, hyper: Hyper, n_shared: int, gathered: Gathered) -> GroupsState:
        shared, private = gathered.shared, gathered.private
        n_private = np.array([len(p["counts"]) for p in private])
        owner = np.where(shared["shards"] == 1, shared["owner"], -1)
        counts, tables, statistics = (
            self._stacked([shared[name], *(p[name] for p in private)]) for name in ("counts", "tables", "statistics")
        )
        owner = np.append(owner, np.repeat(np.arange(self.n_shards), n_private))
        return GroupsState(round_, hyper, Table(counts, tables, statistics, owner), n_shared, n_private)

    def _stacked(self, parts: list[Any]) -> Any:
        of_words = isinstance(parts[0], WordTable)
        return words.matrix(parts, self.likelihood.n_features) if of_words else np.concatenate(parts)

    # ---- what a chain records

    def scalars(self, state: GroupsState) -> dict[str, float]:
        live = state.occupied
        counts = state.table.counts[live].astype(float)
        shares = counts / counts.sum()
        return {
            "n_topics": len(counts),
            **self.measure.scalars(state.hyper),
            **({"eta": state.hyper.eta} if isinstance(self.likelihood, BoundTokens) else {}),
            "n_tables": float(state.table.tables.sum()),
            "log_likelihood": self.at(state.hyper).log_evidence(counts, state.table.statistics[live]),
            "entropy": float(-(shares * np.log(shares)).sum()),
            "largest": float(shares.max()),
        }

    def assignments(self, state: GroupsState, engine: Engine) -> Array:
        return all_labels(state, engine)

    def snapshot(self, state: GroupsState, engine: Engine) -> dict[str, Array]:
        live = state.occupied
        small = np.uint8 if len(live) <= 256 else np.uint16 if len(live) <= 65536 else np.int32
        return {
            "labels": self.assignments(state, engine).astype(small),
            "hyper": np.array(state.hyper),
            "counts": state.table.counts[live],
            "tables": state.table.tables[live],
            **packed(state.table.statistics[live]),
        }

    def restore(self, arrays: Arrays) -> GroupsState:
        statistics = unpacked(arrays, self.likelihood.n_features)
        return GroupsState(
            int(arrays["round"]),
            Hyper(*(float(v) for v in arrays["hyper"])),
            Table(arrays["counts"], arrays["tables"], statistics, arrays["owner"]),
            int(arrays["n_shared"]),
            arrays["n_private"],
        )


def _among(parameters: Parameters | None, chosen: Any) -> Any:
    return None if parameters is None else {name: value[chosen] for name, value in parameters.items()}


def packed(statistics: Any) -> dict[str, Array]:
    """Statistics of atoms as plain arrays, also when they are sparse."""
    if not sparse.issparse(statistics):
        return {"statistics": statistics}
    return {name: getattr(statistics, name) for name in ("indptr", "indices", "data")}


def unpacked(arrays: Arrays, n_features: int) -> Any:
    if "indptr" not in arrays:
        return arrays["statistics"]
    parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
    return sparse.csr_matrix(parts, (len(arrays["counts"]), n_features))


def _with_room(sticks: Array, slots: int) -> Array:
    """More slots before the last entry, the rest of the tail."""
    return np.concatenate([sticks[:-1], np.full(slots, -np.inf), sticks[-1:]])


def _compact(n_shared: int, members: Array) -> Array:
    """Codes that leave out private atoms without rows, -1."""
    codes = np.arange(n_shared + len(members), dtype=np.int32)
    codes[n_shared:] = np.where(members > 0, n_shared - 1 + np.cumsum(members > 0), -1)
    return codes
