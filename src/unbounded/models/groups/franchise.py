"""The local step of the franchise: rows move between the tables of their group, then whole tables change their dish.

Table j of group g has position offsets[g] + j in `heads` and `dishes`; dishes are coded as labels are (tables.py).
"""

from __future__ import annotations

import math

import numpy as np

from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import inline, jit
from unbounded.likelihoods.operations import Block, clear, evaluate, featurise, logits, refresh, update
from unbounded.models.groups.direct import LOOK_AHEAD, free_slot, group_of, likelihoods


@jit
def count_heads(seats, offsets):
    """Customers of every table; table j of group g has position offsets[g] + j."""
    heads = np.zeros(seats.size, np.int64)
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            heads[offsets[g] + seats[i]] += 1
    return heads


@jit
def relabel_tables(dishes, heads, codes):
    for t in range(heads.size):
        if heads[t] > 0:
            dishes[t] = codes[dishes[t]]


@jit
def count_dishes(dishes, heads, codes):
    """Tables of every code."""
    tables = np.zeros(codes, np.int64)
    for t in range(heads.size):
        if heads[t] > 0:
            tables[dishes[t]] += 1
    return tables


@jit
def eaten(seats, dishes, offsets, labels):
    """The dish of every row."""
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            labels[i] = dishes[offsets[g] + seats[i]]


@jit
def serve(
    families, data, seats, dishes, heads, offsets, first, cursor, finite, usable, shared, masses, log_rest, tail,
    members, served, seat_key, dish_key, work,
):  # fmt: skip
    """Rows move between tables, then tables between dishes, group by group; False where a free slot was missing.

    cursor: (row, phase) to go on from. served: tables of private dishes. log_rest: log mass of the shard's tail.
    """
    lanes = work.top.size
    row, phase = cursor[0], cursor[1]
    for g in range(group_of(offsets, row), offsets.size - 1):
        begin, end = offsets[g], offsets[g + 1]
        if phase == 0:
            for start in range(max(row, begin), end, lanes):
                size = min(lanes, end - start)
                likelihoods(finite, families, data, start, size, work)
                for r in range(size):
                    if not _seat(
                        families, data, seats, dishes, heads, begin, end, start, r, size, usable, shared, masses,
                        log_rest, tail, members, served, uniform(seat_key, first + start + r), work,
                    ):  # fmt: skip
                        cursor[0], cursor[1] = start + r, 0
                        return False
            row = begin
        stopped = _change_dishes(
            families, data, seats, dishes, heads, begin, end, row, first, finite, usable, shared, masses, log_rest,
            tail, members, served, dish_key, work,
        )  # fmt: skip
        if stopped >= 0:
            cursor[0], cursor[1] = stopped, 1
            return False
        phase = 0
        row = end
    return True


@inline
def _tables_of(served):
    total = 0
    for slot in range(served.size):
        total += served[slot]
    return total


@jit
def _dish_weights(masses, log_rest, served, slot):
    """Log weight of a new table with a private dish, or (slot = slots) a new one."""
    mass = np.float64(served[slot]) if slot < served.size else masses.alpha  # mutant: dish weights mass
    return log_rest + math.log(mass / (_tables_of(served) + masses.share))


@jit
def _seat(
    families, data, seats, dishes, heads, begin, end, start, r, size, usable, shared, masses, log_rest, tail, members,
    served, u, work,
):  # fmt: skip
    """Gibbs move of one row over tables and new tables; False if there is no slot for a new dish."""
    i = start + r
    slots = members.size
    weights, columns, fresh = work.weights, work.columns, work.fresh
    table = begin + seats[i]
    dish = dishes[table]
    if usable <= dish < shared:
        return True
    free = free_slot(members)
    if free < 0 and (dish < shared or members[dish - shared] > 1):
        return False
    heads[table] -= 1
    if dish >= shared:
        old = dish - shared
        members[old] -= 1
        update(families, tail, old, Block(data, start, size, work.features), r, -1)
        fresh[old] = 0
        served[old] -= heads[table] == 0
        if members[old] == 0:
            free = old
    best = np.float64(work.top[r]) if usable > 0 else -np.inf
    for slot in range(slots + 1):
        if slot == slots or members[slot] > 0:
            if fresh[slot] <= r:
                last = size if slot == slots else min(size, r + LOOK_AHEAD)
                refresh(families, tail, slot, Block(data, start, size, work.features), r, last, columns, fresh)
            best = max(best, columns[slot, r])
    scale = math.exp(np.float64(work.top[r]) - best) if usable > 0 else 0.0
    total = 0.0
    for slot in range(slots + 1):
        weights[slot] = 0.0
        if log_rest > -np.inf and (slot == slots or members[slot] > 0):
            log_weight = masses.log_gamma + _dish_weights(masses, log_rest, served, slot)
            weights[slot] = math.exp(log_weight + columns[slot, r] - best)
        total += weights[slot]
    for t in range(begin, end):
        total += _at_table(heads, dishes, t, r, usable, shared, columns, best, scale, work)
    for k in range(usable):
        total += masses.shared[k] * work.plain[r, k] * scale
    aim = u * total
    last = -1
    for t in range(begin, end):
        weight = _at_table(heads, dishes, t, r, usable, shared, columns, best, scale, work)
        if weight > 0.0:
            last = t
            aim -= weight
            if aim < 0.0:
                break
    if aim >= 0.0:
        dish = -1
        for k in range(usable):
            weight = masses.shared[k] * work.plain[r, k] * scale
            if weight > 0.0:
                dish = k
                aim -= weight
                if aim < 0.0:
                    break
        if aim >= 0.0:
            for slot in range(slots + 1):
                if weights[slot] > 0.0:
                    dish = shared + slot
                    aim -= weights[slot]
                    if aim < 0.0:
                        break
        last = begin
        while heads[last] > 0:
            last += 1
        if dish == shared + slots:
            dish = shared + free
            clear(families, tail, free)
        dishes[last] = dish
        if dish >= shared:
            served[dish - shared] += 1
    heads[last] += 1
    seats[i] = last - begin
    joined = dishes[last] - shared
    if joined >= 0:
        members[joined] += 1
        update(families, tail, joined, Block(data, start, size, work.features), r, 1)
        fresh[joined] = 0
    return True


@inline
def _at_table(heads, dishes, t, r, usable, shared, columns, best, scale, work):
    """Weight of an existing table for row r."""
    weight = 0.0
    if heads[t] > 0:
        dish = dishes[t]
        if dish < usable:
            weight = heads[t] * work.plain[r, dish] * scale
        elif dish >= shared:
            weight = heads[t] * math.exp(columns[dish - shared, r] - best)  # mutant: at table weight
    return weight


@jit
def _change_dishes(
    families, data, seats, dishes, heads, begin, end, row, first, finite, usable, shared, masses, log_rest, tail,
    members, served, key, work,
):  # fmt: skip
    """Gibbs moves of the dishes of a group's tables, in the order of their first customers, from those at `row` on.

    Returns the row at which a free slot was missing, or -1.
    """
    slots = members.size
    lanes = work.top.size
    weights, single = work.weights, work.single
    tables = 0
    for i in range(begin, end):
        tables = max(tables, seats[i] + 1)
    together = np.zeros((tables, usable))
    for start in range(begin, end if usable > 0 else begin, lanes):
        size = min(lanes, end - start)
        logits(finite, families, Block(data, start, size, work.features), work.logits, work.top)
        for r in range(size):
            for k in range(usable):
                together[seats[start + r], k] += work.logits[k, r]
    done = np.zeros(tables, np.bool_)
    for i in range(begin, row):
        done[seats[i]] = True
    for i in range(row, end):
        t = seats[i]
        dish = dishes[begin + t]
        if done[t] or usable <= dish < shared:
            continue
        done[t] = True
        free = free_slot(members)
        if free < 0 and (dish < shared or served[dish - shared] > 1):
            return i
        if dish >= shared:
            served[dish - shared] -= 1  # mutant: change dishes served
            _table_joins(families, data, seats, begin, end, i, tail, members, dish - shared, -1, single)
            if members[dish - shared] == 0:
                free = dish - shared
        best = -np.inf
        for k in range(usable):
            together[t, k] += math.log(masses.shared[k]) - masses.log_gamma
            best = max(best, together[t, k])
        for slot in range(slots + 1):
            weights[slot] = -np.inf
            if log_rest > -np.inf and (slot == slots or members[slot] > 0):
                weights[slot] = _dish_weights(masses, log_rest, served, slot)
                place = slot
                if slot == slots:
                    place = free
                    clear(families, tail, free)
                weights[slot] += _table_joins(families, data, seats, begin, end, i, tail, members, place, 1, single)
                _table_joins(families, data, seats, begin, end, i, tail, members, place, -1, single)
                best = max(best, weights[slot])
        total = 0.0
        for k in range(usable):
            together[t, k] = math.exp(together[t, k] - best)
            total += together[t, k]
        for slot in range(slots + 1):
            weights[slot] = math.exp(weights[slot] - best)
            total += weights[slot]
        aim = uniform(key, first + i) * total
        for k in range(usable):
            if aim >= 0.0 and together[t, k] > 0.0:
                dish = k
                aim -= together[t, k]
        for slot in range(slots + 1):
            if aim >= 0.0 and weights[slot] > 0.0:
                dish = shared + slot
                aim -= weights[slot]
        if dish == shared + slots:
            dish = shared + free
            clear(families, tail, free)
        dishes[begin + t] = dish
        if dish >= shared:
            served[dish - shared] += 1
            _table_joins(families, data, seats, begin, end, i, tail, members, dish - shared, 1, single)
    return -1


@jit
def _table_joins(families, data, seats, begin, end, i, tail, members, slot, sign, single):
    """Add (or remove) all customers at the table of row i, the first of them; log predictive of those added."""
    value = np.zeros(1)
    for q in range(i, end):
        if seats[q] == seats[i]:
            block = Block(data, q, 1, single)
            featurise(families, block)
            if sign > 0:
                evaluate(families, tail, slot, block, 0, 1, value)
            update(families, tail, slot, block, 0, sign)
            members[slot] += sign
    return value[0]
