"""Groups: what their samplers share when every row of every group has one label (docs/topics.md, "A round").

Atoms are coded as in a mixture: those that all shards share first (mobile, then frozen), then each shard's private
ones. A group lives on one shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Parallel, Summary
from unbounded.instantiation import Places
from unbounded.likelihoods.base import Bound
from unbounded.models.groups.contents import content_of
from unbounded.models.groups.kernels import build_kernel
from unbounded.models.groups.measures import GroupMeasure
from unbounded.models.groups.shard import (
    Content,
    DishTable,
    Draw,
    GroupHyper,
    GroupKernel,
    GroupPart,
    GroupRound,
    GroupShard,
    GroupShards,
    GroupShare,
    cut,
    seat_rows,
    summarise,
)
from unbounded.models.labelled.labels import all_labels, few_bytes
from unbounded.models.labelled.packing import packed, unpacked
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

    def arrays(self) -> dict[str, Array]:
        scalars = {"round": np.array(self.round), "n_shared": np.array(self.n_shared), "hyper": self.hyper.array()}
        return {
            **scalars, "n_private": self.n_private, "counts": self.table.counts, "tables": self.table.tables,
            "owner": self.table.owner, **packed(self.table.statistics),
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

    def recipe(self, X: Any) -> GroupShards:
        return GroupShards(X, self.sizes, self.likelihood, self.n_shards, self.form)

    def start(self) -> GroupHyper:
        return self.content.begin(self.measure.start())

    def begin(
        self, engine: Engine, assignments: Array, hyper: GroupHyper | None = None, seats: Array | None = None,
        round_: int = 0,
    ) -> GroupsState:  # fmt: skip
        """The state with these labels (any integers); one table for each atom of a group where no seats are given."""
        codes, inverse = np.unique(np.asarray(assignments), return_inverse=True)
        labels = inverse.astype(np.int32).ravel()
        engine.map(GroupShard.put, self._cut(labels))
        return self.begin_there(engine, len(codes), hyper, None if seats is None else self._cut(seats), round_)

    def _cut(self, rows: Array) -> list[Array]:
        """By shards."""
        return [rows[own[0] : own[-1]] for own in cut(self.sizes, self.n_shards)]

    def begin_there(
        self, engine: Engine, n_atoms: int, hyper: GroupHyper | None = None, seats: Sequence[Array] | None = None,
        round_: int = 0,
    ) -> GroupsState:  # fmt: skip
        """The state of shards that have their labels, of which 0 .. n_atoms - 1 all occur; seats: by shard."""
        tables = np.sum(engine.map(partial(seat_rows, n_atoms), seats), axis=0)
        return self.count(engine, tables, hyper or self.start(), round_)

    def count(self, engine: Engine, tables: Array, hyper: GroupHyper, round_: int) -> GroupsState:
        """The state of shards whose labels are all codes of shared atoms with these numbers of tables."""
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
        masses = self.measure.expected_masses(hyper, table.tables[live])
        return Draw(table.counts[live], table.tables[live], table.statistics[live], hyper, masses)

    # ---- global step

    def _move_hyper(self, state: GroupsState, tables: Array, seed: RoundSeed) -> GroupHyper:
        """Hyper-parameters given the tables of occupied atoms: the measure's, then the likelihood's own."""
        # mutant: global step hyper 2
        hyper = self.measure.update(state.hyper, tables, self.sizes, seed.rng("hyper"))
        counts = state.table.counts[state.occupied]
        return self.content.update(hyper, counts, state.table.statistics, seed.rng("eta"))

    def _round(
        self, state: GroupsState, hyper: GroupHyper, chosen: Places, masses: Array, parallel: Parallel
    ) -> tuple[GroupRound, Any]:
        """The finite part of the round and, when holes are imputed, parameters of private atoms."""
        seed = RoundSeed(self.seed, state.round)
        drawn = self.content.instantiate(hyper, state.table, chosen, masses, seed, parallel)
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
            likelihood=self.content.at(shared.hyper),
            finite=shared.finite,
            usable=own.usable,
            n_shared=shared.n_shared,
            n_private=own.n_private,
            law=self.measure.law(shared.hyper, shared.masses, own.share),
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
        return GroupsState(round_, hyper, table, n_shared, n_private)

    # ---- what a chain records

    def scalars(self, state: GroupsState) -> dict[str, float]:
        live = state.occupied
        counts = state.table.counts[live].astype(float)
        shares = counts / counts.sum()
        evidence = self.content.at(state.hyper).log_evidence(counts, state.table.statistics[live])  # mutant: topics eta
        return {
            "n_topics": len(counts),
            **above(shares),
            **self.measure.scalars(state.hyper),
            **self.content.scalars(state.hyper),
            "n_tables": float(state.table.tables.sum()),
            "log_likelihood": evidence,
            "entropy": float(-(shares * np.log(shares)).sum()),
            "largest": float(shares.max()),
        }

    def assignments(self, state: GroupsState, engine: Engine) -> Array:
        return all_labels(state, engine)

    def snapshot(self, state: GroupsState, engine: Engine) -> dict[str, Array]:
        live = state.occupied
        return {
            "labels": all_labels(state, engine, few_bytes(len(live) - 1)),
            "hyper": state.hyper.array(),
            "counts": state.table.counts[live],
            "tables": state.table.tables[live],
            **packed(state.table.statistics[live]),
        }

    def restore(self, arrays: Arrays) -> GroupsState:
        statistics = unpacked(arrays, self.likelihood.n_terms)
        return GroupsState(
            int(arrays["round"]),
            self.measure.restore(arrays["hyper"]),
            DishTable(arrays["counts"], arrays["tables"], statistics, arrays["owner"]),
            int(arrays["n_shared"]),
            arrays["n_private"],
        )


def _split(parameters: Any, n_shared: int) -> tuple[Any, Any]:
    if parameters is None:
        return None, None
    first, rest = slice(n_shared), slice(n_shared, None)
    return tuple({name: value[part] for name, value in parameters.items()} for part in (first, rest))  # type: ignore
