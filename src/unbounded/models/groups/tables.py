"""Tables as rows: what moves of whole atoms see of groups (docs/jumps.md, "Groups").

Given who sits with whom, tables are the rows of the top process: a mixture, in which the terms of a row are the sum of
the terms of all who sit there. The franchise knows its tables; direct assignment has integrated them out and draws
them, given labels and the top weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.groups.shard import Content, GroupShard, Tables, draw_tables
from unbounded.models.labelled.labels import Labelled


class Seating(NamedTuple):
    """How rows sit down that have no seats yet."""

    masses: Array  # gamma beta of every atom
    key: np.uint64


def seat(seating: Seating, shard: GroupShard) -> Array:
    """Rows sit down; how many tables each atom has."""
    if shard.seated:
        place = np.repeat(shard.offsets[:-1], np.diff(shard.offsets)) + shard.seats
        taken = np.bincount(place, minlength=len(place)) > 0
        shard.tables = Tables((np.cumsum(taken) - 1)[place].astype(np.int32), shard.dishes[taken])
    else:
        at, first = draw_seats(shard.labels, shard.offsets, seating.masses, shard.first, seating.key)
        shard.tables = Tables(at, shard.labels[first])
    return np.bincount(shard.tables.served, minlength=len(seating.masses))


def count_tables(seating: Seating, shard: GroupShard) -> Array:
    """How many tables each atom would have, and no more of them."""
    return draw_tables(shard.labels, shard.offsets, seating.masses, shard.first, seating.key)


@dataclass(frozen=True)
class TableShard(Labelled):
    """A shard of tables, as moves of mixtures see it."""

    index: int
    first: int  # the number of its first table among all tables
    data: Any
    labels: Array


def table_shard(content: Content, shard: GroupShard, first: int) -> TableShard:
    tables = shard.tables
    assert tables is not None, "rows sit down first"
    if tables.rows is None:
        tables.rows = content.table_rows(shard, tables.at, len(tables.served))
    return TableShard(shard.index, first, tables.rows, tables.served)


def serve(shard: GroupShard) -> None:
    """Every row gets the atom of its table, and tables are forgotten."""
    tables = shard.tables
    assert tables is not None, "rows sit down first"
    shard.put(tables.served[tables.at])
    if shard.seated:
        shard.seat(shard.seats)
    shard.tables = None


@jit
def by_table(at, tables):
    """(where each table begins, rows table after table)."""
    begins, order, place = np.zeros(tables + 1, np.int64), np.empty(at.size, np.int64), np.empty(tables, np.int64)
    for i in range(at.size):
        begins[at[i] + 1] += 1
    for t in range(tables):
        begins[t + 1] += begins[t]
        place[t] = begins[t]
    for i in range(at.size):
        order[place[at[i]]] = i
        place[at[i]] += 1
    return begins, order


@jit
def draw_seats(labels, offsets, masses, first, key):
    """Tables given labels and gamma beta: (that of every row, the first row of each).

    The j-th row of an atom in a group opens a table with probability gamma beta / (gamma beta + j); if it does not, it
    joins one of the j others, whoever it may be.
    """
    at, firsts = np.empty(labels.size, np.int32), np.empty(labels.size, np.int32)
    begin, met = np.zeros(masses.size, np.int64), np.zeros(masses.size, np.int64)
    order = np.empty(labels.size, np.int32)
    tables = 0
    for g in range(offsets.size - 1):
        for i in range(offsets[g], offsets[g + 1]):
            met[labels[i]] += 1
        place = offsets[g]
        for i in range(offsets[g], offsets[g + 1]):
            k = labels[i]
            if met[k] > 0:
                begin[k] = place
                place += met[k]
                met[k] = 0
        for i in range(offsets[g], offsets[g + 1]):
            k = labels[i]
            j = met[k]
            aim = uniform(key, first + i) * (masses[k] + j) - masses[k]  # mutant: draw seats open
            if j == 0 or aim < 0.0:
                at[i] = tables
                firsts[tables] = i
                tables += 1
            else:
                at[i] = at[order[begin[k] + min(np.int64(aim), j - 1)]]  # mutant: draw seats join
            order[begin[k] + j] = i
            met[k] += 1
        for i in range(offsets[g], offsets[g + 1]):
            met[labels[i]] = 0
    return at, firsts[:tables].copy()


# ---- what the rows of a table are together


@dataclass(frozen=True)
class Together:
    """The likelihood of tables, given that of their rows: the last term is how many these are."""

    rows: Bound

    @property
    def n_terms(self) -> int:
        return self.rows.n_terms + 1

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        return self.rows.log_marginal(statistics[:, -1], statistics[:, :-1])  # mutant: together counts

    def merge_gains(self, counts: Array, statistics: Array, i: Array, j: Array) -> Array:
        return self.rows.merge_gains(statistics[:, -1], statistics[:, :-1], i, j)

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        return self.rows.centre(np.maximum(statistics[:, -1], 0.0), statistics[:, :-1])

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        bias, eta = self.rows.natural(parameters)
        return np.zeros_like(bias), np.column_stack([eta, bias])

    def coarse(self) -> tuple[Together, Array]:
        coarse, which = self.rows.coarse()
        return Together(coarse), np.append(which, self.rows.n_terms)
