"""The compiled contract of a feature likelihood: the operations that the kernel calls, and their structures.

A *spec* is the finite part as compiled code takes it, a NamedTuple with at least `loadings` [shared, D]; a *tail* is
what the likelihood keeps about a shard's private atoms. The implementation of an operation is chosen while compiling,
by the type of the spec (docs/features.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from unbounded.arrays import Array
from unbounded.compiled.jit import inline


class OldColumns(NamedTuple):
    """Where the columns of a round's Z come from."""

    Z: Array  # before the round
    sources: Array  # the old column of each new one, -1: none
    pending: bool  # whether they are still to be copied


class ShardRows(NamedTuple):
    """A shard's rows as compiled code takes them."""

    data: Array  # [n, D], read-only
    Z: Array  # [columns, n]
    used: int  # how many columns of Z come before the free slots
    first: int  # the number of its first row among all rows
    old: OldColumns


class Mobile(NamedTuple):
    """The columns that may move: the first ones of Z."""

    order: Array  # of updates; random and independent of the state
    weights: Array


class Finite(NamedTuple):
    """The finite part, as far as a shard may use it."""

    spec: Any
    mobile: Mobile
    shared: int  # columns that all shards have: mobile, frozen and always-on ones


class Private(NamedTuple):
    """A shard's private atoms, one slot each; a slot without members is free."""

    tail: Any
    members: Array  # [slots]


class Sums(NamedTuple):
    """Statistics, accumulated block by block."""

    products: Array  # [columns, columns] or [columns, 0]
    sums: Array  # [columns, D] of the rows less their centre
    rest: Array  # [D]


class OneShard(NamedTuple):
    """One of several shards: its rows, their statistics, and the final members of its private atoms."""

    rows: ShardRows
    sums: Sums
    members: Array  # [slots]


class Keys(NamedTuple):
    """Keys of the random numbers in the local step of a round."""

    entry: Any
    tail: Any
    birth: Any
    split: Any
    impute: Any


class RowBlock(NamedTuple):
    """A block of rows, its part of Z in lanes."""

    data: Array  # of the whole shard
    start: int  # where the block begins in it
    z: Array  # [columns, rows], floats
    shared: int
    first: int  # the number of the block's first row among all rows, which keys its randomness


class SweepDraws(NamedTuple):
    """The random numbers of one sweep over a block."""

    entry: Any  # key of the mobile entries
    visits: Any  # key of the visits
    born: Array  # [rows] new atoms that each row proposes


class Work(NamedTuple):
    """Memory that a block writes besides Z."""

    z: Array  # flat: columns x rows, floats
    pull: Array  # flat: columns x rows
    scratch: Array  # flat, for intermediate results
    born: Array  # [sweeps x rows] proposed births
    busy: Array  # [rows] whether the row's mobile columns wait for its visit; last: whether any row's do
    ladder: Array
    slots: Array  # [4, slots] of a visit: private columns in random order, singles, their entries, proposed atoms


@inline
def entry_number(slot):
    """Which of a visit's random numbers draws the entry of a private column."""
    return 3 * slot + 2


def mobile_waits(spec: Any) -> Any:
    """Whether the mobile columns of a row with private entries are updated in its visit."""


def reset(spec: Any, tail: Any) -> None:
    """Before the first row of a shard: clear what the last shard has left in the tail and `fill` does not overwrite."""


def fill(spec: Any, tail: Any, part: ShardRows, shared: int, work: Work) -> None:
    """Before the first block: compute the tail from the shard's rows."""


def prepare(spec: Any, tail: Any, rows: RowBlock, usable: int, work: Work) -> None:
    """Before the sweeps over a block: prepare its rows for updates of the first `usable` columns."""


def sweep_mobile(spec: Any, law: Any, tail: Any, rows: RowBlock, mobile: Mobile, key: Any, work: Work) -> None:
    """Update the mobile columns, in the given order, of the rows of a block that are not `work.busy`."""


def next_visit(spec: Any, law: Any, private: Private, rows: RowBlock, r: int, draws: SweepDraws, work: Work) -> Any:
    """The first row from r on whose visit may change something; returning r is always correct."""


def begin_visit(spec: Any, private: Private, rows: RowBlock, r: int) -> None:
    """Remove row r of the block from the tail."""


def visit_mobile(spec: Any, law: Any, tail: Any, rows: RowBlock, r: int, mobile: Mobile, key: Any, work: Work) -> None:
    """Update the mobile columns of the visited row, given its private entries."""


def log_change(spec: Any, tail: Any, r: int, column: int, step: float) -> Any:
    """The change in log likelihood of the visited row if its entry in a column changes by `step`."""


def apply(spec: Any, tail: Any, r: int, column: int, step: float) -> None:
    """Make that change, in what the tail keeps about the visited row."""


def open_slot(spec: Any, tail: Any, slot: int, key: Any) -> None:
    """Put a new atom without members into a slot."""


def end_visit(spec: Any, tail: Any, rows: RowBlock, r: int) -> None:
    """Add the visited row to the tail again."""


def collect(spec: Any, tail: Any, rows: RowBlock, key: Any, sums: Sums, work: Work) -> None:
    """Add the block to the statistics."""
