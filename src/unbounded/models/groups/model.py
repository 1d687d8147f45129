"""Grouped rows: the round of the hierarchical Dirichlet process (docs/topics.md, "A round").

Atoms are coded as in a mixture: those that all shards share first (mobile, then frozen), then each shard's private
ones. What a row is to a mixture, a table is to the top process: ghosts are ghost tables, and an atom's weight comes
from its tables. A group lives on one shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Spread, Summary
from unbounded.likelihoods.base import Bound
from unbounded.models.groups.content import Content
from unbounded.models.groups.contents import content_of
from unbounded.models.groups.kernel import summarise
from unbounded.models.groups.kernels import build_kernel
from unbounded.models.groups.measure import GroupHyper, HierarchicalMeasure
from unbounded.models.groups.message import (
    ChosenAtoms,
    DishTable,
    GroupKernel,
    GroupPart,
    GroupRound,
    GroupShare,
    RoundSeed,
)
from unbounded.models.groups.shard import GroupShard, GroupShards, cut
from unbounded.models.labelled.labels import all_labels
from unbounded.models.labelled.packing import packed, unpacked
from unbounded.setup import Built

FORMS = ("direct", "franchise")


@dataclass(frozen=True)
class GroupsState:
    round: int
    hyper: GroupHyper
    table: DishTable
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


@dataclass(frozen=True)
class Groups(Built[HierarchicalMeasure, Bound, Array]):
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
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        at = labels if seats is None else seats
        width = int(at.max()) + 1
        pairs, where, at = np.unique(group * width + at, return_index=True, return_inverse=True)
        tables = np.bincount(labels[where], minlength=len(codes))
        at = at - np.searchsorted(pairs, np.arange(len(self.sizes)) * width)[group]
        rows = [slice(own[0], own[-1]) for own in cut(self.sizes, self.n_shards)]
        engine.map(GroupShard.put, [labels[own] for own in rows])
        if self.form == "franchise":
            engine.map(GroupShard.seat, [at[own] for own in rows])
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

    # ---- global step

    def _move_hyper(self, state: GroupsState, tables: Array, seed: RoundSeed) -> GroupHyper:
        """Hyper-parameters given the tables of occupied atoms: the measure's, then the likelihood's own."""
        # mutant: global step hyper 2
        hyper = self.measure.update(state.hyper, tables, self.sizes, seed.rng("hyper"))
        counts = state.table.counts[state.occupied]
        return self.content.update(hyper, counts, state.table.statistics, seed.rng("eta"))

    def _round(
        self, state: GroupsState, hyper: GroupHyper, chosen: ChosenAtoms, masses: Array, spread: Spread
    ) -> tuple[GroupRound, Any]:
        """The finite part of the round and, when holes are imputed, parameters of private atoms."""
        seed = RoundSeed(self.seed, state.round)
        drawn = self.content.instantiate(hyper, state.table, chosen, masses, seed, spread)
        shared, private = _split(drawn.parameters, len(masses))
        return GroupRound(state.round, hyper, self.kernel.finite(drawn.usable), len(masses), masses, shared), private

    # ---- local step

    def local_step(self, shard: GroupShard, shared: GroupRound, own: GroupShare) -> Summary:
        part, kernel = self._part(shared, own), self.kernel
        shard.recode(own.codes)
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
        return {
            "n_topics": len(counts),
            **self.measure.scalars(state.hyper),
            **self.content.scalars(state.hyper),
            "n_tables": float(state.table.tables.sum()),
            "log_likelihood": self.content.at(state.hyper).log_evidence(counts, state.table.statistics[live]),
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
