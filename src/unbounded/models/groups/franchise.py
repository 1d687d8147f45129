"""The franchise: rows move between the tables of their group, then whole tables change their dish.

A dish is an atom. Table j of group g has position offsets[g] + j in `heads` and `dishes`; dishes are coded as labels
are (shard.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import inline, jit
from unbounded.contracts import Summary
from unbounded.likelihoods.operations import Block, clear, evaluate, logits, refresh, update, write_terms
from unbounded.models.groups.measure import birth_mass
from unbounded.models.groups.rows import (
    FREE,
    LOOK_AHEAD,
    Finite,
    Group,
    Scratch,
    collapsed,
    free_slot,
    group_of,
    likelihoods,
    n_occupied,
    scratch_for,
)
from unbounded.models.groups.shard import Content, GroupPart, GroupShard, summarise, without_empty
from unbounded.models.labelled.labels import Atoms
from unbounded.models.labelled.predictive import log_predictive


class Seating(NamedTuple):
    """Who sits where on a shard; row i is row first + i of all data."""

    data: Any
    seats: Any  # table of each row, within its group
    dishes: Any
    heads: Any  # rows at each table
    offsets: Any
    first: int


class DishTail(NamedTuple):
    """Private dishes: their collapsed state, rows and tables; log_rest: log beta of all of the shard's tail."""

    collapsed: Any
    members: Any
    tables: Any
    log_rest: float


class FranchiseKeys(NamedTuple):
    seat: Any
    dish: Any


@jit
def count_heads(seats, offsets):
    """Rows at every table; table j of group g has position offsets[g] + j."""
    heads = np.zeros(seats.size, np.int64)
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            heads[offsets[g] + seats[i]] += 1
    return heads


@jit
def count_tables(dishes, heads, codes):
    """The number of tables of every code."""
    tables = np.zeros(codes, np.int64)
    for t in range(heads.size):
        if heads[t] > 0:
            tables[dishes[t]] += 1
    return tables


@jit
def dishes_to_labels(seats, dishes, offsets, labels):
    """Every row gets the dish of its table."""
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            labels[i] = dishes[offsets[g] + seats[i]]


# ---- the kernel


class TableTail(NamedTuple):
    tail: DishTail
    work: Scratch


@dataclass(frozen=True)
class CompiledFranchise:
    """The franchise; blocks have about as many lanes as groups have rows."""

    content: Content
    sweeps: int

    def finite(self, drawn: Any) -> Any:
        return self.content.log_finite(drawn)

    def prepare(self, shard: GroupShard, part: GroupPart) -> TableTail:
        return self._tail(shard, part, part.n_private + FREE)

    def _tail(self, shard: GroupShard, part: GroupPart, slots: int) -> TableTail:
        work = scratch_for(part, slots, len(shard.labels) // max(len(shard.offsets) - 1, 1))
        heads = count_heads(shard.seats, shard.offsets)
        tables = count_tables(shard.dishes, heads, part.n_shared + slots)[part.n_shared :]
        return TableTail(DishTail(*collapsed(self.content, shard, part, slots, work), tables, part.sticks[-1]), work)

    def sweep(self, shard: GroupShard, part: GroupPart, tail: TableTail) -> TableTail:
        heads = count_heads(shard.seats, shard.offsets)
        seating = Seating(shard.data, shard.seats, shard.dishes, heads, shard.offsets, shard.first)
        finite, spec = Finite(part.finite, part.usable, part.n_shared, part.law), part.likelihood.spec()
        for s in range(self.sweeps):
            keys = FranchiseKeys(part.seed.key("seat", s), part.seed.key("dish", s))
            cursor = np.zeros(2, np.int64)
            while not reseat(spec, seating, cursor, finite, tail.tail, keys, tail.work):
                dishes_to_labels(shard.seats, shard.dishes, shard.offsets, shard.labels)
                tail = self._tail(shard, part, 2 * len(tail.tail.members))
            dishes_to_labels(shard.seats, shard.dishes, shard.offsets, shard.labels)
        return tail

    def statistics(self, shard: GroupShard, part: GroupPart, tail: TableTail) -> Summary:
        shard.relabel(without_empty(part.n_shared, tail.tail.members))
        n_private = np.count_nonzero(tail.tail.members)
        heads = count_heads(shard.seats, shard.offsets)
        tables = count_tables(shard.dishes, heads, part.n_shared + n_private)
        return summarise(self.content, shard, part.n_shared, self.totals(shard, len(tables)), tables)

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        return self.content.count(shard, n_atoms)

    def sticks(self, tail: TableTail) -> Array:
        return np.array([tail.tail.log_rest])

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return log_predictive(self.content.likelihood, *atoms, X)


# ---- the sweep


@jit
def reseat(specs, seating, cursor, finite, tail, keys, work):
    """Rows move between tables, then tables between dishes, group by group; False where a free slot was missing.

    cursor: (row, phase) to go on from.
    """
    lanes, offsets = work.top.size, seating.offsets
    row, phase = cursor[0], cursor[1]
    for g in range(group_of(offsets, row), offsets.size - 1):
        group = Group(offsets[g], offsets[g + 1])
        if phase == 0:
            for start in range(max(row, group.begin), group.end, lanes):
                block = Block(seating.data, start, min(lanes, group.end - start), work.terms)
                likelihoods(finite.atoms, specs, block, work)
                stopped = _seat_block(specs, block, seating, group, finite, tail, keys.seat, work)
                if stopped >= 0:
                    cursor[0], cursor[1] = stopped, 0
                    return False
            row = group.begin
        stopped = _change_dishes(specs, seating, group, row, finite, tail, keys.dish, work)
        if stopped >= 0:
            cursor[0], cursor[1] = stopped, 1
            return False
        phase = 0
        row = group.end
    return True


@inline
def _n_tables(tail):
    total = 0
    for slot in range(tail.tables.size):
        total += tail.tables[slot]
    return total


@jit
def _log_new_table(law, tail, slot):
    """Log weight of a new table with a private dish, or (slot = slots) a new one."""
    if slot < tail.tables.size:
        mass = tail.tables[slot] - law.urn.discount
    else:
        mass = birth_mass(law.urn, n_occupied(tail.members))  # mutant: dish weights mass
    if mass <= 0.0:  # there are as many atoms as there may be
        return -np.inf
    return tail.log_rest + math.log(mass / (_n_tables(tail) + law.urn.share))


# ---- rows


class Scaled(NamedTuple):
    """Weights of row r of the block are relative to exp(best): those under mobile atoms, to their own best, by `by`."""

    r: int
    best: float
    by: float


@jit
def _seat_block(specs, block, seating, group, finite, tail, key, work):
    """Gibbs moves of rows over tables and new ones; returns the row for whose new dish a slot was missing, or -1."""
    seats, dishes, heads, members = seating.seats, seating.dishes, seating.heads, tail.members
    shared = finite.shared
    for r in range(block.size):
        i = block.start + r
        table = group.begin + seats[i]
        dish = dishes[table]
        if finite.usable <= dish < shared:
            continue
        free = free_slot(members)
        if free < 0 and (dish < shared or members[dish - shared] > 1):
            return i
        heads[table] -= 1
        if dish >= shared:
            tail.tables[dish - shared] -= heads[table] == 0
            _row_joins(specs, block, r, tail, dish - shared, -1, work)
            if members[dish - shared] == 0:
                free = dish - shared
        row = _scaled(specs, block, r, finite.usable, tail, work)
        aim = uniform(key, seating.first + i) * _total(seating, group, row, finite, tail, work)
        table, aim = _pick_table(seating, group, row, finite, aim, work)
        if aim >= 0.0:
            dish = _pick_dish(row, finite, aim, work)
            if dish == shared + members.size:
                dish = shared + free
                clear(specs, tail.collapsed, free)
            table = group.begin
            while heads[table] > 0:
                table += 1
            dishes[table] = dish
            if dish >= shared:
                tail.tables[dish - shared] += 1
        heads[table] += 1
        seats[i] = table - group.begin
        if dishes[table] >= shared:
            _row_joins(specs, block, r, tail, dishes[table] - shared, 1, work)
    return -1


@inline
def _row_joins(specs, block, r, tail, slot, sign, work):
    """Add a row to a private dish, or remove it."""
    tail.members[slot] += sign
    update(specs, tail.collapsed, slot, block, r, sign)
    work.fresh[slot] = 0


@jit
def _scaled(specs, block, r, usable, tail, work):
    """Bring the row's log predictives under private dishes and a new one up to date, and scale by the largest."""
    columns, fresh = work.columns, work.fresh
    slots = tail.members.size
    best = np.float64(work.top[r]) if usable > 0 else -np.inf
    for slot in range(slots + 1):
        if slot == slots or tail.members[slot] > 0:
            if fresh[slot] <= r:
                last = block.size if slot == slots else min(block.size, r + LOOK_AHEAD)
                refresh(specs, tail.collapsed, slot, block, r, last, columns, fresh)
            best = max(best, columns[slot, r])
    return Scaled(r, best, math.exp(np.float64(work.top[r]) - best) if usable > 0 else 0.0)


@jit
def _total(seating, group, row, finite, tail, work):
    """Weight of all tables, and of new ones: with private dishes, whose weights are kept, and with mobile ones."""
    slots, law, weights = tail.members.size, finite.law, work.weights
    total = 0.0
    for slot in range(slots + 1):
        weights[slot] = 0.0
        if tail.log_rest > -np.inf and (slot == slots or tail.members[slot] > 0):
            log_weight = law.log_gamma + _log_new_table(law, tail, slot)
            weights[slot] = math.exp(log_weight + work.columns[slot, row.r] - row.best)
        total += weights[slot]
    for t in range(group.begin, group.end):
        total += _at_table(seating, t, row, finite, work)
    for k in range(finite.usable):
        total += law.masses[k] * work.plain[row.r, k] * row.by
    return total


@inline
def _at_table(seating, t, row, finite, work):
    """Weight of an existing table for the row."""
    weight = 0.0
    if seating.heads[t] > 0:
        dish = seating.dishes[t]
        if dish < finite.usable:
            weight = seating.heads[t] * work.plain[row.r, dish] * row.by
        elif dish >= finite.shared:
            # mutant: at table weight
            weight = seating.heads[t] * math.exp(work.columns[dish - finite.shared, row.r] - row.best)
    return weight


@jit
def _pick_table(seating, group, row, finite, aim, work):
    """(the table at `aim`, what is left of aim: not below 0 if it was beyond all tables)."""
    last = -1
    for t in range(group.begin, group.end):
        weight = _at_table(seating, t, row, finite, work)
        if weight > 0.0:
            last = t
            aim -= weight
            if aim < 0.0:
                break
    return last, aim


@jit
def _pick_dish(row, finite, aim, work):
    """The dish of a new table; shared + slots is a new one."""
    dish = -1
    for k in range(finite.usable):
        weight = finite.law.masses[k] * work.plain[row.r, k] * row.by
        if weight > 0.0:
            dish = k
            aim -= weight
            if aim < 0.0:
                break
    if aim >= 0.0:
        for slot in range(work.weights.size):
            if work.weights[slot] > 0.0:
                dish = finite.shared + slot
                aim -= work.weights[slot]
                if aim < 0.0:
                    break
    return dish


# ---- tables


@jit
def _change_dishes(specs, seating, group, row, finite, tail, key, work):
    """Gibbs moves of the dishes of a group's tables, in the order of their first rows, from those at `row` on.

    Returns the row at which a free slot was missing, or -1.
    """
    seats, dishes, members, shared = seating.seats, seating.dishes, tail.members, finite.shared
    together = _tables_under_atoms(specs, seating, group, finite, work)
    done = np.zeros(together.shape[0], np.bool_)
    for i in range(group.begin, row):
        done[seats[i]] = True
    for i in range(row, group.end):
        t = seats[i]
        dish = dishes[group.begin + t]
        if done[t] or finite.usable <= dish < shared:
            continue
        done[t] = True
        free = free_slot(members)
        if free < 0 and (dish < shared or tail.tables[dish - shared] > 1):
            return i
        if dish >= shared:
            tail.tables[dish - shared] -= 1  # mutant: change dishes served
            _table_joins(specs, seating, group.end, i, tail, dish - shared, -1, work.single)
            if members[dish - shared] == 0:
                free = dish - shared
        _weigh_new_tables(specs, seating, group.end, i, finite.law, tail, free, work)
        aim = uniform(key, seating.first + i) * _exponentiate(together[t], finite.law, work.weights)
        for k in range(finite.usable):
            if aim >= 0.0 and together[t, k] > 0.0:
                dish = k
                aim -= together[t, k]
        for slot in range(work.weights.size):
            if aim >= 0.0 and work.weights[slot] > 0.0:
                dish = shared + slot
                aim -= work.weights[slot]
        if dish == shared + members.size:
            dish = shared + free
            clear(specs, tail.collapsed, free)
        dishes[group.begin + t] = dish
        if dish >= shared:
            tail.tables[dish - shared] += 1
            _table_joins(specs, seating, group.end, i, tail, dish - shared, 1, work.single)
    return -1


@jit
def _tables_under_atoms(specs, seating, group, finite, work):
    """[tables, usable]: log likelihoods of all rows of each table under the mobile atoms."""
    seats, lanes = seating.seats, work.top.size
    tables = 0
    for i in range(group.begin, group.end):
        tables = max(tables, seats[i] + 1)
    together = np.zeros((tables, finite.usable))
    for start in range(group.begin, group.end if finite.usable > 0 else group.begin, lanes):
        block = Block(seating.data, start, min(lanes, group.end - start), work.terms)
        logits(finite.atoms, specs, block, work.logits, work.top)
        for r in range(block.size):
            for k in range(finite.usable):
                together[seats[start + r], k] += work.logits[k, r]
    return together


@jit
def _weigh_new_tables(specs, seating, end, i, law, tail, free, work):
    """Log weights of the table of row i, its first one, under private dishes and (last) a new one."""
    weights, members = work.weights, tail.members
    slots = members.size
    for slot in range(slots + 1):
        weights[slot] = -np.inf
        if tail.log_rest > -np.inf and (slot == slots or members[slot] > 0):
            weights[slot] = _log_new_table(law, tail, slot)
            place = slot
            if slot == slots:
                place = free
                clear(specs, tail.collapsed, free)
            weights[slot] += _table_joins(specs, seating, end, i, tail, place, 1, work.single)
            _table_joins(specs, seating, end, i, tail, place, -1, work.single)


@jit
def _exponentiate(mobile, law, private):
    """Log weights become weights, those of mobile atoms times beta; returns their sum."""
    best = -np.inf
    for k in range(mobile.size):
        mobile[k] += math.log(law.masses[k]) - law.log_gamma
        best = max(best, mobile[k])
    for slot in range(private.size):
        best = max(best, private[slot])
    total = 0.0
    for k in range(mobile.size):
        mobile[k] = math.exp(mobile[k] - best)
        total += mobile[k]
    for slot in range(private.size):
        private[slot] = math.exp(private[slot] - best)
        total += private[slot]
    return total


@jit
def _table_joins(specs, seating, end, i, tail, slot, sign, single):
    """Add (or remove) all rows at the table of row i, the first of them; log predictive of those added."""
    value = np.zeros(1)
    seats = seating.seats
    for q in range(i, end):
        if seats[q] == seats[i]:
            block = Block(seating.data, q, 1, single)
            write_terms(specs, block)
            if sign > 0:
                evaluate(specs, tail.collapsed, slot, block, 0, 1, value)
            update(specs, tail.collapsed, slot, block, 0, sign)
            tail.members[slot] += sign
    return value[0]
