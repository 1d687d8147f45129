"""The compiled contract of a feature likelihood: what the kernel asks of it, and the structures that it is asked with.

A *spec* is the finite part as compiled code takes it, a NamedTuple with at least `loadings` [shared, D]; a *tail* is
what the likelihood knows of a shard's private atoms. The implementation of an operation is chosen while compiling, by
the type of the spec (docs/features.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from unbounded.arrays import Array
from unbounded.compiled.jit import inline


class OldColumns(NamedTuple):
    """Where the columns of a round's Z come from."""

    Z: Array  # before the round
    sources: Array  # its column for each of those that are used, -1: none
    pending: bool  # whether they are still to be copied from there


class ShardRows(NamedTuple):
    """A shard's rows as compiled code takes them."""

    data: Array  # [n, D], read-only
    Z: Array  # [columns, n]
    used: int  # how many columns of Z come before the free slots
    first: int  # the number of its first row among all rows
    old: OldColumns


class Mobile(NamedTuple):
    """The columns that may move: the first ones of Z."""

    order: Array  # in which they are updated, random and independent of the state
    weights: Array


class Finite(NamedTuple):
    """The finite part, as one shard may use it."""

    spec: Any
    mobile: Mobile
    shared: int  # columns that all shards have: mobile, frozen and always-on ones


class Private(NamedTuple):
    """A shard's private atoms, one slot each; a slot without members is free."""

    tail: Any
    members: Array  # [slots]


class Sums(NamedTuple):
    """Statistics, added up block by block."""

    products: Array  # [columns, columns] or [columns, 0]
    sums: Array  # [columns, D]
    rest: Array  # [D]


class OneShard(NamedTuple):
    """One of several shards: its rows, their statistics, and the members of its private atoms in the end."""

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
    """What is random in one sweep over a block."""

    entry: Any  # key of the mobile entries
    visits: Any  # key of the visits
    born: Array  # [rows] new atoms that each row proposes


class Work(NamedTuple):
    """What a block writes besides Z."""

    z: Array  # flat: columns x rows, floats
    pull: Array  # flat: columns x rows
    scratch: Array  # flat, for intermediate results
    born: Array  # [sweeps x rows] proposed births
    busy: Array  # [rows] whether the row's mobile columns wait for its visit; last: whether any row's do
    ladder: Array
    slots: Array  # [4, slots] of a visit: private columns in their order, singles, their entries, and proposed atoms


@inline
def entry_number(slot):
    """Which of a visit's random numbers draws the entry of a private column."""
    return 3 * slot + 2


def mobile_waits(spec: Any) -> Any:
    """Whether the mobile columns of a row with private entries are updated in its visit."""


def reset(spec: Any, tail: Any) -> None:
    """Before the first row of a shard: forget private atoms of others, as far as `fill` would not."""


def fill(spec: Any, tail: Any, part: ShardRows, shared: int, work: Work) -> None:
    """Before the first block: what the shard's rows say of its private atoms."""


def prepare(spec: Any, tail: Any, rows: RowBlock, usable: int, work: Work) -> None:
    """Before the sweeps over a block: what the update of the first `usable` columns needs of its rows."""


def sweep_mobile(spec: Any, law: Any, tail: Any, rows: RowBlock, mobile: Mobile, key: Any, work: Work) -> None:
    """Update the mobile columns, in the given order, of the rows of a block that are not `work.busy`."""


def next_visit(spec: Any, law: Any, private: Private, rows: RowBlock, r: int, draws: SweepDraws, work: Work) -> Any:
    """The first row from r on whose visit may change something; r itself is never wrong."""


def begin_visit(spec: Any, private: Private, rows: RowBlock, r: int) -> None:
    """Take row r of the block out of what its private atoms know of the data."""


def visit_mobile(spec: Any, law: Any, tail: Any, rows: RowBlock, r: int, mobile: Mobile, key: Any, work: Work) -> None:
    """Update the mobile columns of the visited row, whose private entries matter to them."""


def log_change(spec: Any, tail: Any, r: int, column: int, step: float) -> Any:
    """Log likelihood of the visited row after its entry in a column changed by `step`, minus the present one."""


def apply(spec: Any, tail: Any, r: int, column: int, step: float) -> None:
    """Apply the same change to what the spec keeps of the visited row."""


def open_slot(spec: Any, tail: Any, slot: int, key: Any) -> None:
    """Make a slot a new atom without members."""


def end_visit(spec: Any, tail: Any, rows: RowBlock, r: int) -> None:
    """Add the visited row back to what its private atoms know of the data."""


def collect(spec: Any, tail: Any, rows: RowBlock, key: Any, sums: Sums, work: Work) -> None:
    """Add the block to the statistics."""
