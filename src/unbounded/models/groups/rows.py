"""Grouped rows that have a label each and no seat: what they are to the model, and direct assignment (docs/topics.md).

One of two exact forms of the same chain. This one integrates the seating out, and `draw_tables` recovers the numbers of
tables; the other one (franchise.py) keeps seats. Labels are coded as shard.py says.

Likelihoods of a block of rows under the mobile atoms are computed at once; the draws go row by row, since each changes
the weights of its group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import inline, jit
from unbounded.compiled.lanes import lane_exp
from unbounded.contracts import Parallel, Summary
from unbounded.instantiation import Roles
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.likelihoods.operations import Block, clear, logits, refresh, update
from unbounded.models.groups.measure import Law, log_left
from unbounded.models.groups.shard import (
    Content,
    ContentHyper,
    DishTable,
    Draw,
    GroupPart,
    GroupShard,
    Instantiated,
    Predictives,
    report_direct,
    with_more_slots,
)
from unbounded.models.groups.tables import RowsOfTables
from unbounded.models.labelled import labels as labelled
from unbounded.models.labelled.gossip import Version, summed
from unbounded.models.labelled.labels import Atoms, draw_parameters, finite_part
from unbounded.models.labelled.predictive import log_densities, log_predictive, with_new
from unbounded.randomness import RoundSeed
from unbounded.rows import Csr

FREE = 16  # slots for new private atoms of a shard, to begin with
LOOK_AHEAD = 16
MANY = 180_000  # rows, below which sweeps are short compared with the fixed cost of a jump


@dataclass(frozen=True)
class RowContent:
    """Rows of any likelihood of a mixture."""

    likelihood: Bound
    dtype: str = "float64"

    bound: ClassVar[type] = Bound
    by_tokens: ClassVar[bool] = False
    repeats_after: ClassVar[None] = None

    def at(self, hyper: ContentHyper) -> Bound:
        return self.likelihood

    def start(self) -> ContentHyper:
        return ContentHyper()

    def update(self, hyper: ContentHyper, counts: Array, statistics: Any, rng: np.random.Generator) -> ContentHyper:
        return hyper

    def scalars(self, hyper: ContentHyper) -> dict[str, float]:
        return {}

    def kernel(self, form: str) -> str:
        return form

    def instantiate(
        self, hyper: ContentHyper, table: DishTable, roles: Roles, masses: Array, seed: RoundSeed, parallel: Parallel
    ) -> Instantiated:
        imputes = self.likelihood.imputed.size > 0
        drawn = np.concatenate([roles.mobile, roles.frozen, roles.private]) if imputes else roles.usable
        counts = table.counts[drawn].astype(float)
        parameters = draw_parameters(
            self.likelihood, counts, table.statistics[drawn], roles.n_extra, len(roles.mobile),
            seed.rng("parameters"), parallel,
        )  # fmt: skip
        n_usable = len(roles.usable) + roles.n_extra
        first = {name: value[:n_usable] for name, value in parameters.items()}
        return Instantiated(first, parameters if imputes else None)

    def parameters(self, usable: Parameters) -> Parameters:
        return usable

    def log_finite(self, usable: Parameters) -> Any:
        n_usable = len(next(iter(usable.values())))
        return finite_part(self.likelihood, self.dtype, usable, np.zeros(n_usable))

    def count(self, shard: GroupShard, n_atoms: int) -> Atoms:
        spec, n_terms = self.likelihood.spec(), self.likelihood.n_terms
        return Atoms(*labelled.statistics(spec, shard.data, shard.labels, n_atoms, n_terms))

    def table_rows(self, shard: GroupShard, at: Array, n_tables: int) -> Csr:
        spec, n_terms = self.likelihood.spec(), self.likelihood.n_terms
        counts, sums = labelled.statistics(spec, shard.data, at, n_tables, n_terms)
        values = np.column_stack([sums, counts]).ravel()
        ends = np.arange(n_tables + 1) * (n_terms + 1)
        return Csr(ends, np.tile(np.arange(n_terms + 1), n_tables), values)

    def of_tables(self, hyper: ContentHyper) -> RowsOfTables:
        return RowsOfTables(self.likelihood)

    def sums(self, counts: Array, statistics: Array) -> Array:
        return np.column_stack([statistics, counts])

    def parts(self, sums: Array) -> tuple[Array, Array]:
        return sums[:, -1].astype(np.int64), sums[:, :-1].copy()

    def jump_interval(self, form: str, n_rows: int) -> int:
        return int(np.clip(math.sqrt(MANY / n_rows), 1, 8))

    def from_dense(self, statistics: Array) -> Array:
        return statistics

    def cut(self, statistics: Array, n_atoms: int) -> tuple[Array, Array]:
        return statistics[:n_atoms], statistics[n_atoms:]

    def stacked(self, parts: list[Array]) -> Array:
        return np.concatenate(parts)

    def predictives(self, draw: Draw, X: Any) -> Predictives:
        likelihood = self.likelihood
        counts, statistics = with_new(draw.counts.astype(float), draw.statistics)
        if not likelihood.columns.sparse and np.isnan(X).any():
            likelihood, statistics = likelihood.with_holes(counts, statistics)
        logs = log_predictive(likelihood, counts, statistics, X)
        top = logs.max(axis=0)
        table = np.ascontiguousarray(np.exp(logs - top).T)
        return Predictives(table, np.arange(X.shape[0]), top + likelihood.log_base(X))

    def log_densities(self, draw: Draw, parameters: Parameters, X: Any) -> Array:
        return log_densities(self.likelihood, parameters, X)


# ---- the kernel


class GroupRows(NamedTuple):
    """The rows of a shard: group g is rows offsets[g] .. offsets[g + 1], and row i is row first + i of all data."""

    data: Any
    labels: Any
    offsets: Any
    first: int


class Group(NamedTuple):
    """Where the rows of a group begin and end."""

    begin: int
    end: int


class Finite(NamedTuple):
    """The finite part: rows may use the first `usable` of the `shared` atoms."""

    atoms: Any  # what `logits` takes
    usable: int
    shared: int
    law: Law


class Tail(NamedTuple):
    """Private atoms: their collapsed state, rows, and log beta; the last stick is what is left of the shard's tail."""

    collapsed: Any
    members: Any  # [slots]
    sticks: Any  # [slots + 1]


class SweepKeys(NamedTuple):
    label: Any
    stick: Any


class Scratch(NamedTuple):
    terms: Any
    logits: Any
    top: Any
    plain: Any  # [lanes, atoms]: likelihoods of the rows, each row relative to its best mobile atom
    columns: Any  # [slots + 1, lanes]: log predictives under private atoms and (last) a new one
    fresh: Any
    weights: Any
    counts: Any  # rows of the current group by code
    single: Any  # terms of one row


class RowTail(NamedTuple):
    tail: Tail
    work: Scratch


@dataclass(frozen=True)
class CompiledDirect:
    """Rows in blocks of lanes. The tail has slots for private atoms, and doubles when it runs out of them."""

    content: Content
    sweeps: int

    def finite(self, drawn: Any) -> Any:
        return self.content.log_finite(drawn)

    def prepare(self, shard: GroupShard, part: GroupPart) -> RowTail:
        return self._tail(shard, part, with_more_slots(part.sticks, FREE))

    def _tail(self, shard: GroupShard, part: GroupPart, sticks: Array) -> RowTail:
        slots = len(sticks) - 1
        work = scratch_for(part, slots, len(shard.labels))
        return RowTail(Tail(*collapsed(self.content, shard, part, slots, work), sticks), work)

    def sweep(self, shard: GroupShard, part: GroupPart, tail: RowTail) -> RowTail:
        rows = GroupRows(shard.data, shard.labels, shard.offsets, shard.first)
        finite, spec = Finite(part.finite, part.usable, part.n_shared, part.law), part.likelihood.spec()
        for s in range(self.sweeps):
            keys = SweepKeys(part.seed.key("label", s), part.seed.key("stick", s))
            row = assign(spec, rows, 0, finite, tail.tail, keys, tail.work)
            while row < len(shard.labels):
                sticks = tail.tail.sticks
                tail = self._tail(shard, part, with_more_slots(sticks, len(sticks) - 1))
                row = assign(spec, rows, row, finite, tail.tail, keys, tail.work)
        return tail

    def statistics(self, shard: GroupShard, part: GroupPart, tail: RowTail) -> Summary:
        return report_direct(self.content, shard, part, tail.tail.members, tail.tail.sticks)

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        return self.content.count(shard, n_atoms)

    def sticks(self, tail: RowTail) -> Array:
        return tail.tail.sticks

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return log_predictive(self.content.likelihood, *atoms, X)


def scratch_for(part: GroupPart, slots: int, typical: int) -> Scratch:
    """Scratch memory for blocks of rows; typical: how many rows are usually consecutive."""
    dense = isinstance(part.finite, np.ndarray)
    dtype = (part.finite if dense else part.finite[0]).dtype
    terms = 0 if part.likelihood.columns.sparse else part.likelihood.n_terms
    lanes = labelled.lanes_for(typical, terms if dense else 0, 2 * part.usable, dtype.itemsize)
    return scratch(terms, part.usable, part.n_shared, slots, lanes, dtype)


def collapsed(content: Content, shard: GroupShard, part: GroupPart, slots: int, work: Scratch) -> tuple[Any, Array]:
    """(collapsed state, numbers of rows) of the private atoms, according to the labels."""
    if part.elsewhere is not None:
        return with_rows_elsewhere(content, shard, part, slots, work.top.size)
    members = np.zeros(slots, np.int64)
    labels = shard.labels[: 0 if slots == FREE else None]  # no private atom yet
    tail = part.likelihood.tail(slots + 1, work.top.size)
    labelled.fill_tail(part.likelihood.spec(), shard.data, labels, part.n_shared, tail, members, work.terms)
    return tail, members


def with_rows_elsewhere(
    content: Content, shard: GroupShard, part: GroupPart, slots: int, lanes: int
) -> tuple[Any, Array]:
    """`collapsed` when all atoms are private and other shards have rows of them, too."""
    own, others = content.count(shard, slots + 1), Version(*part.elsewhere or ())
    counts, statistics = summed([Version(own.counts, content.stacked([own.statistics])), others])
    return part.likelihood.pack(counts.astype(float), statistics, lanes), counts[:-1].copy()


def scratch(terms: int, atoms: int, shared: int, slots: int, lanes: int, dtype: Any) -> Scratch:
    rows, single = np.empty((terms + 1, lanes), dtype), np.empty((terms + 1, 1))
    rows[-1] = single[-1] = 1.0
    return Scratch(
        terms=rows,
        logits=np.empty((atoms, lanes), dtype),
        top=np.empty(lanes, dtype),
        plain=np.empty((lanes, atoms), dtype),
        columns=np.empty((slots + 1, lanes)),
        fresh=np.zeros(slots + 1, np.int64),
        weights=np.empty(slots + 1),
        counts=np.zeros(shared + slots, np.int64),
        single=single,
    )


@jit
def likelihoods(atoms, specs, block, work):
    """Likelihoods of a block under mobile atoms; the columns of private ones become out of date."""
    logits(atoms, specs, block, work.logits, work.top)
    for k in range(work.logits.shape[0]):
        for r in range(block.size):
            work.plain[r, k] = lane_exp(work.logits[k, r] - work.top[r])
    for slot in range(work.fresh.size):
        work.fresh[slot] = 0


@inline
def free_slot(members):
    for slot in range(members.size):
        if members[slot] == 0:
            return slot
    return -1


@inline
def n_occupied(members):
    """Private atoms that have rows."""
    total = 0
    for slot in range(members.size):
        total += members[slot] > 0
    return total


@inline
def group_of(offsets, row):
    """The group of a row."""
    low, high = 0, offsets.size
    while low < high:
        middle = (low + high) // 2
        if offsets[middle] <= row:
            low = middle + 1
        else:
            high = middle
    return low - 1


@inline
def log_sum(a, b):
    high = max(a, b)
    return high if high == -np.inf else high + math.log(math.exp(a - high) + math.exp(b - high))


# ---- the sweep


@jit
def assign(specs, rows, begin, finite, tail, keys, work):
    """One sweep over the rows begin .. n of a shard; returns n, or the row at which a free slot was missing."""
    labels, offsets, members = rows.labels, rows.offsets, tail.members
    n, lanes, shared, first = labels.size, work.top.size, finite.shared, rows.first
    stop = 0
    for start in range(begin, n, lanes):
        block = Block(rows.data, start, min(lanes, n - start), work.terms)
        likelihoods(finite.atoms, specs, block, work)
        for r in range(block.size):
            i = start + r
            if i >= stop:
                stop = _count_group(labels, offsets, group_of(offsets, i), work.counts)
            z = labels[i]
            if finite.usable <= z < shared:  # mutant: assign condition
                continue
            free = free_slot(members)
            if free < 0 and (z < shared or members[z - shared] > 1):
                return i
            if z >= shared:
                free = _leave(specs, block, r, z - shared, free, tail, work.fresh)
            work.counts[z] -= 1  # mutant: move counts
            z = _draw(specs, block, r, uniform(keys.label, first + i), finite, tail, work)
            if z == shared + members.size:
                z = shared + free
                clear(specs, tail.collapsed, free)
                break_stick(finite.law.urn, tail.sticks, free, n_occupied(members), keys.stick, first + i)
            if z >= shared:
                members[z - shared] += 1
                update(specs, tail.collapsed, z - shared, block, r, 1)
                work.fresh[z - shared] = 0
            labels[i] = z
            work.counts[z] += 1
    return n


@jit
def _count_group(labels, offsets, g, counts):
    """Count the rows of a group by code; returns where the group ends."""
    counts[:] = 0
    for q in range(offsets[g], offsets[g + 1]):
        counts[labels[q]] += 1
    return offsets[g + 1]


@jit
def _leave(specs, block, r, slot, free, tail, fresh):
    """A row leaves a private atom; returns a free slot, which is this one if that was its last row."""
    members, sticks = tail.members, tail.sticks
    members[slot] -= 1
    update(specs, tail.collapsed, slot, block, r, -1)
    fresh[slot] = 0
    if members[slot] > 0:
        return free
    sticks[members.size] = log_sum(sticks[members.size], sticks[slot])  # mutant: move sticks
    return slot


@jit
def _draw(specs, block, r, u, finite, tail, work):
    """A label from its conditional, the row's group's counts and beta given; shared + slots is a new atom."""
    usable, masses = finite.usable, finite.law.masses
    counts, weights = work.counts, work.weights
    slots = tail.members.size
    best = _weigh_private(specs, block, r, finite, tail, work)
    scale = math.exp(np.float64(work.top[r]) - best) if usable > 0 else 0.0
    mobile = 0.0
    for k in range(usable):
        mobile += (counts[k] + masses[k]) * work.plain[r, k]
    total = mobile * scale
    for slot in range(slots + 1):
        weights[slot] = math.exp(weights[slot] - best)
        total += weights[slot]
    aim = u * total
    chosen = -1
    if aim < mobile * scale:
        aim /= scale
        for k in range(usable):
            weight = (counts[k] + masses[k]) * work.plain[r, k]
            if weight > 0.0:
                chosen = k
                aim -= weight
                if aim < 0.0:
                    break
        return chosen
    aim -= mobile * scale
    for slot in range(slots + 1):
        if weights[slot] > 0.0:
            chosen = slot
            aim -= weights[slot]
            if aim < 0.0:
                break
    return finite.shared + chosen


@jit
def _weigh_private(specs, block, r, finite, tail, work):
    """Log weights of private atoms and (last) of a new one; returns the largest of all, mobile atoms among them."""
    weights, columns, fresh, sticks, law = work.weights, work.columns, work.fresh, tail.sticks, finite.law
    slots = tail.members.size
    best = np.float64(work.top[r]) if finite.usable > 0 else -np.inf
    for slot in range(slots + 1):
        weights[slot] = -np.inf
        if slot == slots or tail.members[slot] > 0:
            if slot == slots and sticks[slots] == -np.inf:
                continue
            if fresh[slot] <= r:
                end = block.size if slot == slots else min(block.size, r + LOOK_AHEAD)
                refresh(specs, tail.collapsed, slot, block, r, end, columns, fresh)
            log_beta = law.log_gamma + sticks[slot]
            if slot == slots:
                log_beta += math.log(law.urn.birth / law.urn.share)  # mutant: move log beta
            elif work.counts[finite.shared + slot] > 0:
                log_beta = math.log(work.counts[finite.shared + slot] + math.exp(log_beta))
            weights[slot] = columns[slot, r] + log_beta
            best = max(best, weights[slot])
    return best


@inline
def break_stick(urn, sticks, slot, n_atoms, key, row):
    """A new atom takes its part of what is left of the tail, beside so many atoms."""
    left = log_left(urn, n_atoms, key, row)
    rest = sticks[sticks.size - 1]
    sticks[slot] = rest + math.log(-math.expm1(left))
    sticks[sticks.size - 1] = rest + left  # mutant: break stick sticks
