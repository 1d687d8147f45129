"""Kernels of groups on the CPU, compiled: direct assignment of rows, and the franchise (words: words/kernel.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Summary
from unbounded.models.groups import direct, franchise
from unbounded.models.groups.content import Content
from unbounded.models.groups.direct import Finite, Rows, Scratch, SweepKeys, Tail
from unbounded.models.groups.franchise import DishTail, FranchiseKeys, Seating
from unbounded.models.groups.message import GroupPart, with_room, without_empty
from unbounded.models.groups.shard import GroupShard
from unbounded.models.labelled import labels as labelled
from unbounded.models.labelled.gossip import Version, summed
from unbounded.models.labelled.labels import Atoms
from unbounded.models.labelled.predictive import log_predictive

FREE = 16  # slots for new private atoms of a shard, to begin with


class RowTail(NamedTuple):
    tail: Tail
    work: Scratch


class TableTail(NamedTuple):
    tail: DishTail
    work: Scratch


@dataclass(frozen=True)
class DirectRows:
    """Rows in blocks of lanes; the tail has slots for private atoms, twice as many whenever one is missing."""

    content: Content
    sweeps: int

    def finite(self, drawn: Any) -> Any:
        return self.content.log_finite(drawn)

    def prepare(self, shard: GroupShard, part: GroupPart) -> RowTail:
        return self._tail(shard, part, with_room(part.sticks, FREE))

    def _tail(self, shard: GroupShard, part: GroupPart, sticks: Array) -> RowTail:
        slots = len(sticks) - 1
        work = scratch_for(part, slots, len(shard.labels))
        return RowTail(Tail(*collapsed(self.content, shard, part, slots, work), sticks), work)

    def sweep(self, shard: GroupShard, part: GroupPart, tail: RowTail) -> RowTail:
        rows = Rows(shard.data, shard.labels, shard.offsets, shard.first)
        finite, family = Finite(part.finite, part.usable, part.n_shared, part.law), part.likelihood.family()
        for s in range(self.sweeps):
            keys = SweepKeys(part.seed.key("label", s), part.seed.key("stick", s))
            row = direct.assign(family, rows, 0, finite, tail.tail, keys, tail.work)
            while row < len(shard.labels):
                sticks = tail.tail.sticks
                tail = self._tail(shard, part, with_room(sticks, len(sticks) - 1))
                row = direct.assign(family, rows, row, finite, tail.tail, keys, tail.work)
        return tail

    def statistics(self, shard: GroupShard, part: GroupPart, tail: RowTail) -> Summary:
        return report_direct(self.content, shard, part, tail.tail)

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        return self.content.count(shard, n_atoms)

    def sticks(self, tail: RowTail) -> Array:
        return tail.tail.sticks

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return log_predictive(self.content.likelihood, *atoms, X)


@dataclass(frozen=True)
class SeatedRows:
    """The franchise: as many lanes as a group has rows."""

    content: Content
    sweeps: int

    def finite(self, drawn: Any) -> Any:
        return self.content.log_finite(drawn)

    def prepare(self, shard: GroupShard, part: GroupPart) -> TableTail:
        return self._tail(shard, part, part.n_private + FREE)

    def _tail(self, shard: GroupShard, part: GroupPart, slots: int) -> TableTail:
        work = scratch_for(part, slots, len(shard.labels) // max(len(shard.offsets) - 1, 1))
        heads = franchise.count_heads(shard.seats, shard.offsets)
        tables = franchise.count_tables(shard.dishes, heads, part.n_shared + slots)[part.n_shared :]
        return TableTail(DishTail(*collapsed(self.content, shard, part, slots, work), tables, part.sticks[-1]), work)

    def sweep(self, shard: GroupShard, part: GroupPart, tail: TableTail) -> TableTail:
        heads = franchise.count_heads(shard.seats, shard.offsets)
        seating = Seating(shard.data, shard.seats, shard.dishes, heads, shard.offsets, shard.first)
        finite, family = Finite(part.finite, part.usable, part.n_shared, part.law), part.likelihood.family()
        for s in range(self.sweeps):
            keys = FranchiseKeys(part.seed.key("seat", s), part.seed.key("dish", s))
            cursor = np.zeros(2, np.int64)
            while not franchise.reseat(family, seating, cursor, finite, tail.tail, keys, tail.work):
                franchise.dishes_to_labels(shard.seats, shard.dishes, shard.offsets, shard.labels)
                tail = self._tail(shard, part, 2 * len(tail.tail.members))
            franchise.dishes_to_labels(shard.seats, shard.dishes, shard.offsets, shard.labels)
        return tail

    def statistics(self, shard: GroupShard, part: GroupPart, tail: TableTail) -> Summary:
        shard.recode(without_empty(part.n_shared, tail.tail.members))
        n_private = np.count_nonzero(tail.tail.members)
        heads = franchise.count_heads(shard.seats, shard.offsets)
        tables = franchise.count_tables(shard.dishes, heads, part.n_shared + n_private)
        return summarise(self.content, shard, part.n_shared, self.totals(shard, len(tables)), tables)

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        return self.content.count(shard, n_atoms)

    def sticks(self, tail: TableTail) -> Array:
        return np.array([tail.tail.log_rest])

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return log_predictive(self.content.likelihood, *atoms, X)


# ---- what kernels share


def scratch_for(part: GroupPart, slots: int, typical: int) -> Scratch:
    """Room for a block of rows, of which there are typically so many in a row."""
    dense = isinstance(part.finite, np.ndarray)
    dtype = (part.finite if dense else part.finite[0]).dtype
    terms = 0 if part.likelihood.sparse else part.likelihood.n_terms
    lanes = labelled.lanes_for(typical, terms if dense else 0, 2 * part.usable, dtype.itemsize)
    return direct.scratch(terms, part.usable, part.n_shared, slots, lanes, dtype)


def collapsed(content: Content, shard: GroupShard, part: GroupPart, slots: int, work: Scratch) -> tuple[Any, Array]:
    """(collapsed state, rows) of the private atoms that labels say."""
    if part.elsewhere is not None:
        return with_rows_elsewhere(content, shard, part, slots, work.top.size)
    members = np.zeros(slots, np.int64)
    labels = shard.labels[: 0 if slots == FREE else None]  # no private atom yet
    tail = part.likelihood.tail(slots + 1, work.top.size)
    labelled.fill_tail(part.likelihood.family(), shard.data, labels, part.n_shared, tail, members, work)
    return tail, members


def with_rows_elsewhere(
    content: Content, shard: GroupShard, part: GroupPart, slots: int, lanes: int
) -> tuple[Any, Array]:
    """The same where all atoms are private, with the rows that other shards have of them."""
    own, others = content.count(shard, slots + 1), Version(*part.elsewhere or ())
    counts, statistics = summed([Version(own.counts, content.stacked([own.statistics])), others])
    return part.likelihood.pack(counts.astype(float), statistics, lanes), counts[:-1].copy()


def report_direct(content: Content, shard: GroupShard, part: GroupPart, tail: Tail) -> Summary:
    """A shard's report; from here on the codes of its private atoms are consecutive."""
    alive = np.flatnonzero(tail.members)
    if len(alive) > 0:
        shard.recode(without_empty(part.n_shared, tail.members))
    masses = part.law.with_private(tail.sticks[alive])  # mutant: assign masses
    tables = direct.draw_tables(shard.labels, shard.offsets, masses, shard.first, part.seed.key("tables"))
    return summarise(content, shard, part.n_shared, content.count(shard, len(masses)), tables)


def summarise(content: Content, shard: GroupShard, n_shared: int, atoms: Atoms, tables: Array) -> Summary:
    """`owner` adds up to the number of the only shard that has rows of an atom, if it is one."""
    counts, (common, private) = atoms.counts, content.cut(atoms.statistics, n_shared)
    there = (counts[:n_shared] > 0).astype(np.int64)
    shared = {
        "counts": counts[:n_shared], "tables": tables[:n_shared], "statistics": common, "shards": there,
        "owner": there * shard.index,
    }  # fmt: skip
    return Summary(shared, {"counts": counts[n_shared:], "tables": tables[n_shared:], "statistics": private})
