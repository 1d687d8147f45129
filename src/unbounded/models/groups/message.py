"""What travels in a round of groups, and what a kernel is given of it.

Labels are coded 0 .. usable-1 for atoms that the shard's rows may join and leave, up to n_shared-1 for *frozen* ones
(nobody leaves, nobody joins), and n_shared + slot for atoms that are private to the shard.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Kernel
from unbounded.likelihoods.base import Parameters
from unbounded.models.groups.measure import GroupHyper, Law
from unbounded.models.groups.shard import GroupShard
from unbounded.models.labelled.labels import Atoms
from unbounded.randomness import generator, key


class RoundSeed(NamedTuple):
    """All randomness of a round, by purpose."""

    seed: int
    round: int

    def rng(self, purpose: str) -> np.random.Generator:
        return generator(self.seed, purpose, self.round)

    def key(self, purpose: str, *words: int) -> np.uint64:
        return key(self.seed, purpose, self.round, *words)


class DishTable(NamedTuple):
    """Atoms: rows, tables and statistics; `owner` is the only shard with rows, or -1 when several or none have some."""

    counts: Array
    tables: Array
    statistics: Any  # [K, terms], of words a CSR matrix
    owner: Array


class ChosenAtoms(NamedTuple):
    """Which atoms of the table a round instantiates, by their place in it; ghost-only ones stand behind the mobile."""

    mobile: Array
    frozen: Array
    private: Array
    n_extra: int
    lone: bool  # whether there is a shard that may use frozen atoms, too


class GroupRound(NamedTuple):
    """What all shards need to know of the round."""

    round: int
    hyper: GroupHyper
    finite: Any  # as the kernel wants it
    n_shared: int
    masses: Array  # gamma beta of shared atoms
    parameters: Parameters | None  # of every shared atom, when holes are imputed


class GroupShare(NamedTuple):
    """What one shard needs to know of its own."""

    codes: Array  # new code of each of the shard's old codes
    usable: int
    n_private: int
    share: float  # the concentration of the shard's tail
    sticks: Array  # log beta of its private atoms (direct assignment), and of the rest of its tail
    parameters: Parameters | None


class GroupPart(NamedTuple):
    """What a kernel needs to move the labels of a shard."""

    likelihood: Any  # with its own hyper-parameter, if it has one
    finite: Any
    usable: int
    n_shared: int
    n_private: int
    law: Law
    sticks: Array
    seed: RoundSeed
    elsewhere: Atoms | None = None  # rows of other shards in the private atoms, which stay where they are


class GroupKernel(Kernel[GroupShard, GroupPart, Any, Atoms], Protocol):
    """A kernel of groups says besides how the finite part travels, and counts any labels."""

    def finite(self, drawn: Any) -> Any:
        """The atoms that a round instantiates, as `sweep` takes them."""

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        """Counts and statistics of the atoms 0 .. n_atoms - 1 on a shard, as they travel."""

    def sticks(self, tail: Any) -> Array:
        """Log beta of the slots for private atoms and, last, of the rest of the shard's tail."""


def with_room(sticks: Array, slots: int) -> Array:
    """More slots before the last entry, the rest of the tail."""
    return np.concatenate([sticks[:-1], np.full(slots, -np.inf), sticks[-1:]])


def without_empty(n_shared: int, members: Array) -> Array:
    """Codes that leave out private atoms without rows, -1."""
    codes = np.arange(n_shared + len(members), dtype=np.int32)
    codes[n_shared:] = np.where(members > 0, n_shared - 1 + np.cumsum(members > 0), -1)
    return codes
