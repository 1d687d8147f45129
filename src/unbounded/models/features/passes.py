"""Compiled passes over the rows of a shard, for jumps; column_moves.py does the same in NumPy where rows are few."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import stream, uniform
from unbounded.compiled.jit import inline, jit
from unbounded.compiled.lanes import lane_exp, lane_log
from unbounded.compiled.products import multiply

ALWAYS = -2
FEW_CELLS = 2**14  # size of a shard's data up to which NumPy does this: nothing is compiled for so little
CHUNK, LANES = 4096, 256  # rows of one matrix product, and rows whose patterns are weighed at once


class PassRows(NamedTuple):
    """A shard's rows, and which columns of its Z a pass is about."""

    data: Array  # [n, D], read-only
    centre: Array  # [D] subtracted before all products and sums, read-only
    Z: Array  # [columns, n]
    stay: Array  # columns that are kept; -1: zeros, ALWAYS: ones
    gone: Array  # columns to remove; -1: zeros
    first: int  # number of the first row


class PackedOdds(NamedTuple):
    """`column_moves.Odds`, as compiled code takes them."""

    slopes: Array
    pull: Array
    patterns: Array
    cost: Array


class EntryLimits(NamedTuple):
    """Number of values enumerated per entry of removed and of new columns; `more`: log probability of one more.

    An entry at the limit, the largest enumerated value, exceeds it by a geometric number; `more` is 0 where entries
    are 0 or 1.
    """

    old: int
    new: int
    more: float


class Scratch(NamedTuple):
    """Memory for a chunk of rows."""

    block: Array  # flat: rows x D
    others: Array  # flat: columns that stay x rows
    linear: Array  # flat: columns of a launch x rows
    entries: Array  # flat: new columns x rows
    values: Array  # [patterns, lanes]
    top: Array  # [lanes]
    total: Array  # [lanes]
    product: Array  # flat


class DrawnColumns(NamedTuple):
    """New columns, log probabilities of the removed and the new entries, and statistics of the new ones."""

    drawn: Array  # [k, n]
    log_q: Array  # [2]
    products: Array  # [k, k]
    cross: Array  # [stay, k]
    sums: Array  # [k, D]


def draw_columns(given: PassRows, old: PackedOdds, new: PackedOdds, key: Any, limits: EntryLimits) -> DrawnColumns:
    """Draw the entries of new columns."""
    (n, d), stay, k = given.data.shape, len(given.stay), len(new.slopes)
    rows, both = min(CHUNK, n), max(k, len(old.slopes))
    most = max(len(old.cost), len(new.cost))
    scratch = Scratch(
        np.empty(rows * d), np.empty(stay * rows), np.empty(both * rows), np.empty(k * rows),
        np.empty((most, LANES)), np.empty(LANES), np.empty(LANES), np.empty(max(both * rows, stay * k, k * k, k * d)),
    )  # fmt: skip
    found = DrawnColumns(
        np.empty((k, n), given.Z.dtype), np.zeros(2), np.zeros((k, k)), np.zeros((stay, k)), np.zeros((k, d))
    )
    draw_rows(given, old, new, key, limits, scratch, found)
    return found


def pass_rows(shard: Any, stay: Array, gone: Array) -> PassRows:
    """The rows of a shard, always with the same types, so that passes are compiled once."""
    return PassRows(
        read_only(shard.data), read_only(shard.centre), np.ascontiguousarray(shard.Z), stay, gone, shard.first
    )


def read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def packed_odds(odds: Any) -> PackedOdds:
    """Odds with the types and the layout that compiled code takes."""
    return PackedOdds(*(np.ascontiguousarray(part, float) for part in odds))


def statistics(Z: Array, data: Array, centre: Array) -> tuple[Array, Array]:
    """Z Z' and Z (data - centre), for the columns of Z [columns, n]."""
    (size, n), d = Z.shape, data.shape[1]
    rows = min(CHUNK, n)
    products, sums = np.zeros((size, size)), np.zeros((size, d))
    scratch = np.empty(rows * d), np.empty(size * rows), np.empty(max(size * size, size * d))
    add_up(np.ascontiguousarray(Z), read_only(data), read_only(centre), scratch, products, sums)
    return products, sums


def few_statistics(Z: Array, data: Array, centre: Array) -> tuple[Array, Array]:
    """The same in NumPy."""
    products, sums = np.zeros((len(Z), len(Z))), np.zeros((len(Z), data.shape[1]))
    for start in range(0, len(data), CHUNK):
        part = Z[:, start : start + CHUNK].astype(float)
        products += part @ part.T
        sums += part @ (data[start : start + CHUNK] - centre)
    return products, sums


# ---- compiled


@jit
def add_up(Z, data, centre, scratch, products, sums):
    n, d, size = data.shape[0], data.shape[1], Z.shape[0]
    for start in range(0, n, CHUNK):
        rows = min(CHUNK, n - start)
        block, z = scratch[0][: rows * d].reshape(rows, d), scratch[1][: size * rows].reshape(size, rows)
        _load(data, centre, start, block)
        for k in range(size):
            for r in range(rows):
                z[k, r] = Z[k, start + r]
        _add_product(z, z.T, scratch[2], products)
        _add_product(z, block, scratch[2], sums)


@jit
def draw_rows(given, old, new, key, limits, scratch, found):
    data, centre, Z, stay, gone, first = given
    n, d, k = data.shape[0], data.shape[1], new.slopes.shape[0]
    for start in range(0, n, CHUNK):
        rows = min(CHUNK, n - start)
        block, others = scratch.block[: rows * d].reshape(rows, d), scratch.others[: stay.size * rows]
        others, entries = others.reshape(stay.size, rows), scratch.entries[: k * rows].reshape(k, rows)
        _load(data, centre, start, block)
        for j in range(stay.size):
            for r in range(rows):
                others[j, r] = 1.0 if stay[j] == ALWAYS else 0.0  # mutant: pass always
            for r in range(rows if stay[j] >= 0 else 0):
                others[j, r] = Z[stay[j], start + r]
        _linear(old, block, others, scratch)
        _log_old(old, Z, gone, start, rows, limits, scratch, found.log_q)
        _linear(new, block, others, scratch)
        _draw_new(new, key, first, start, entries, scratch, found)
        if limits.more < 0.0:
            _draw_more(key, first, start, limits, entries, found)
        _add_product(entries, entries.T, scratch.product, found.products)
        _add_product(others, entries.T, scratch.product, found.cross)
        _add_product(entries, block, scratch.product, found.sums)


@inline
def _load(data, centre, start, block):
    for r in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[r, j] = data[start + r, j] - centre[j]


@jit
def _add_product(a, b, flat, out):
    multiply(a, b, flat)
    size = out.shape[1]
    for k in range(out.shape[0]):
        for j in range(size):
            out[k, j] += flat[k * size + j]


@jit
def _linear(odds, block, others, scratch):
    """linear[k, r]: log odds of an entry of column k in row r, given the columns that are kept."""
    k, rows = odds.slopes.shape[0], block.shape[0]
    linear = scratch.linear[: k * rows].reshape(k, rows)
    multiply(odds.slopes, block.T, scratch.product)
    for c in range(k):
        for r in range(rows):
            linear[c, r] = scratch.product[c * rows + r]
        for j in range(others.shape[0]):
            pull = odds.pull[j, c]
            for r in range(rows):
                linear[c, r] -= pull * others[j, r]  # mutant: pass pull


@jit
def _weigh(odds, rows, begin, size, scratch):
    """values: log weights of the patterns of some rows; top: the largest; total: the sum over the largest."""
    values, top, total, k = scratch.values, scratch.top, scratch.total, odds.slopes.shape[0]
    for p in range(odds.cost.size):
        for r in range(size):
            values[p, r] = odds.cost[p]
        for c in range(k):
            times = odds.patterns[p, c]
            if times > 0.0:
                for r in range(size):
                    values[p, r] += times * scratch.linear[c * rows + begin + r]
        for r in range(size):
            top[r] = values[p, r] if p == 0 else max(top[r], values[p, r])
    for r in range(size):
        total[r] = 0.0
    for p in range(odds.cost.size):
        for r in range(size):
            total[r] += lane_exp(values[p, r] - top[r])


@jit
def _log_old(odds, Z, gone, start, rows, limits, scratch, log_q):
    """Add the log probability of the removed entries."""
    base, more = limits.old, limits.more
    for begin in range(0, rows, LANES):
        size = min(LANES, rows - begin)
        _weigh(odds, rows, begin, size, scratch)
        for r in range(size):
            pattern = 0
            for c in range(gone.size):
                z = 0
                if gone[c] >= 0:
                    z = int(Z[gone[c], start + begin + r])
                if z >= base - 1 and more < 0.0:
                    log_q[0] += (z - base + 1) * more + math.log1p(-math.exp(more))  # mutant: pass old beyond
                    z = base - 1
                pattern = pattern * base + z  # mutant: pass pattern
            log_q[0] += scratch.values[pattern, r] - scratch.top[r] - lane_log(scratch.total[r])


@jit
def _draw_more(key, first, start, limits, entries, found):
    """Add a geometric excess to entries at the truncation limit."""
    base, more = limits.new, limits.more
    one, chance = math.log1p(-math.exp(more)), math.exp(more)
    for c in range(entries.shape[0]):
        own = stream(key, c)
        for r in range(entries.shape[1]):
            if entries[c, r] == base - 1:
                u, beyond = uniform(own, first + start + r), 0
                if u < chance:
                    beyond = int(math.log(u) / more)
                found.log_q[1] += beyond * more + one  # mutant: pass new beyond
                entries[c, r] += beyond
                found.drawn[c, start + r] = int(entries[c, r])


@jit
def _draw_new(odds, key, first, start, entries, scratch, found):
    rows, patterns = entries.shape[1], odds.cost.size
    values, top, total = scratch.values, scratch.top, scratch.total
    for begin in range(0, rows, LANES):
        size = min(LANES, rows - begin)
        _weigh(odds, rows, begin, size, scratch)
        for r in range(size):
            # mutant: pass numbers
            aim, running, chosen = uniform(key, first + start + begin + r) * total[r], 0.0, 0
            while chosen < patterns - 1:
                running += lane_exp(values[chosen, r] - top[r])
                if running >= aim:
                    break
                chosen += 1
            found.log_q[1] += values[chosen, r] - top[r] - lane_log(total[r])  # mutant: pass log q
            for c in range(entries.shape[0]):
                entries[c, begin + r] = odds.patterns[chosen, c]
                found.drawn[c, start + begin + r] = int(odds.patterns[chosen, c])
