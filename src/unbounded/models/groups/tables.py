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


class SeatingLaw(NamedTuple):
    """How to seat rows that have no seats yet."""

    masses: Array  # gamma beta of every atom
    key: np.uint64


def seat(seating: SeatingLaw, shard: GroupShard) -> Array:
    """Seat the rows; returns the number of tables of each atom."""
    if shard.seated:
        place = np.repeat(shard.offsets[:-1], np.diff(shard.offsets)) + shard.seats
        taken = np.bincount(place, minlength=len(place)) > 0
        shard.tables = Tables((np.cumsum(taken) - 1)[place].astype(np.int32), shard.dishes[taken])
    else:
        seats = Seats.of(len(shard.labels), len(seating.masses))
        n_tables = draw_seats(shard.labels, shard.offsets, seating.masses, shard.first, seating.key, seats)
        shard.tables = Tables(seats.at, shard.labels[seats.firsts[:n_tables]])
    return np.bincount(shard.tables.served, minlength=len(seating.masses))


def draw_table_counts(seating: SeatingLaw, shard: GroupShard) -> Array:
    """The number of tables that each atom would have, without seating anyone."""
    return draw_tables(shard, seating.masses, seating.key)


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
    """Give every row the atom of its table, and forget the tables."""
    tables = shard.tables
    assert tables is not None, "rows sit down first"
    shard.put(tables.served[tables.at])
    if shard.seated:
        shard.seat(shard.seats)
    shard.tables = None


def by_table(at: Array, n_tables: int) -> tuple[Array, Array]:
    """(where each table begins, rows table after table)."""
    begins = np.append(0, np.cumsum(np.bincount(at, minlength=n_tables)))
    order = np.empty(len(at), np.int64)
    _put_in_order(at, begins[:-1].copy(), order)
    return begins, order


@jit
def _put_in_order(at, place, order):
    """place: where the next row of each table goes."""
    for i in range(at.size):
        order[place[at[i]]] = i
        place[at[i]] += 1


class Seats(NamedTuple):
    """What `draw_seats` returns, and its scratch memory."""

    at: Array  # the table of every row
    firsts: Array  # the first row of every table
    order: Array  # rows of a group, atom after atom
    begin: Array  # where those of each atom begin
    met: Array  # how many of each atom have come

    @classmethod
    def of(cls, n_rows: int, n_atoms: int) -> Seats:
        at, firsts, order = (np.empty(n_rows, np.int32) for _ in range(3))
        return cls(at, firsts, order, np.zeros(n_atoms, np.int64), np.zeros(n_atoms, np.int64))


@jit
def draw_seats(labels, offsets, masses, first, key, seats):
    """Tables given labels and gamma beta; returns how many there are.

    The j-th row of an atom in a group opens a table with probability gamma beta / (gamma beta + j); if it does not, it
    joins one of the j others at random.
    """
    at, firsts, order, begin, met = seats
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
    return tables


# ---- the likelihood of tables


@dataclass(frozen=True)
class RowsOfTables:
    """The likelihood of tables, given that of their rows; the last term is the number of rows."""

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

    def coarse(self) -> tuple[RowsOfTables, Array]:
        coarse, which = self.rows.coarse()
        return RowsOfTables(coarse), np.append(which, self.rows.n_terms)
