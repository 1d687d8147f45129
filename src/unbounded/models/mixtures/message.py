"""What travels in a round of a mixture, and what of it a kernel is given.

Labels are coded 0 .. usable-1 for atoms that the shard's rows may join and leave, up to n_shared-1 for *frozen* ones
(rows neither leave nor join them), and n_shared + slot for atoms that are private to the shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Kernel, Summary
from unbounded.likelihoods.base import Parameters
from unbounded.models.labelled.halves import Cuts, Halves, Sides
from unbounded.models.labelled.labels import Atoms, LabelShard
from unbounded.models.mixtures.measure import TailLaw


class MixtureRound(NamedTuple):
    """What all shards need to know of the round: above all, the finite part."""

    round: int
    hyper: Any
    finite: Any  # of the usable atoms, as the kernel wants it
    n_shared: int
    parameters: Parameters | None  # of every shared atom, when holes are imputed


class MixtureShare(NamedTuple):
    """What one shard needs to know of its own atoms."""

    codes: Array  # new code of each of the shard's old codes
    usable: int
    n_private: int
    law: TailLaw
    parameters: Parameters | None  # of the shard's private atoms, when holes are imputed


class SweepKeys(NamedTuple):
    """The random numbers of a sweep: which usable atom a row joins, and whether it leaves for the tail."""

    label: np.uint64
    tail: np.uint64


class MixturePart(NamedTuple):
    """What a kernel needs to move the labels of a shard."""

    finite: Any
    usable: int
    n_shared: int
    n_private: int
    law: TailLaw
    keys: Sequence[SweepKeys]  # of each sweep
    elsewhere: Atoms | None = None  # rows of other shards in the private atoms, which stay where they are


class LabelKernel(Kernel[LabelShard, MixturePart, Any, Atoms], Protocol):
    """A kernel of mixtures also has the type of its shards, prepares the finite part, and counts and cuts atoms."""

    shard: ClassVar[Any]  # the type of its shards

    def finite(self, parameters: Parameters, log_weights: Array) -> Any:
        """Weights and parameters of instantiated atoms, as `sweep` takes them."""

    def step(self, shard: LabelShard, part: MixturePart) -> Summary:
        """`prepare`, `sweep` and `statistics` at once."""

    def totals(self, data: Any, labels: Array, n_atoms: int) -> Atoms:
        """Counts and statistics of the atoms 0 .. n_atoms - 1 under these labels."""

    def count(self, shard: LabelShard, n_atoms: int) -> Atoms:
        """The same of a shard's rows, as they are labelled."""

    def halve(self, shard: LabelShard, cuts: Cuts, sides: Sides) -> Halves:
        """A pass over sets of rows that are cut in two."""
