"""Measures of groups. A new one is one file and one line here; `GroupMeasure` is what is asked of it."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Measure, Plan
from unbounded.models.groups.measure import HierarchicalMeasure, Law, TopTables, TopWeights, Urn
from unbounded.models.mixtures.measures import PartitionMeasure


class GroupMeasure(Measure[Any, Array], Protocol):
    """A measure for every group, over one that they share; counts are those of tables, extents the sizes of groups."""

    described_as: ClassVar[str]  # in the description of a run
    hyper_type: ClassVar[Any]  # of its hyper-parameters: a named tuple of numbers

    @property
    def top(self) -> PartitionMeasure:
        """The process of the tables, as a mixture has one of its rows: moves of whole atoms ask it."""

    def top_hyper(self, hyper: Any) -> Any:
        """Its hyper-parameters."""

    def default_ghosts(self, extent: Array) -> int:
        """The number of ghost tables unless the rule sets one."""

    def weights(self, hyper: Any, plan: Plan, tables: TopTables, seated: bool, rng: np.random.Generator) -> TopWeights:
        """Top weights given tables; seated: the tail of a shard has one weight for all of its atoms."""

    def sticks(self, hyper: Any, tables: Array, rng: np.random.Generator) -> tuple[Array, Urn]:
        """(log top weights of atoms with these tables and, last, of all others; all of them as one tail)."""

    def masses(self, hyper: Any, beta: Array) -> Array:
        """What atoms with these top weights weigh in a group, apart from its rows."""

    def expected_masses(self, hyper: Any, tables: Array) -> Array:
        """The same in expectation, of atoms with these tables and (last) of all others."""

    def log_cut(self, hyper: Any, share: Any, whole: float, rest: float, n_atoms: int) -> Any:
        """Log prior density gained when one of n_atoms atoms becomes two.

        `whole` is its top weight, of which one half has this share; `rest`, that of all other atoms to come, stays as
        it is. Where that is impossible, not a number: such atoms are neither cut nor joined.
        """

    def law(self, hyper: Any, masses: Array, urn: Urn) -> Law:
        """What a shard knows of the measure in a round."""

    def unknown(self, hyper: Any, n_known: int, mass: float) -> Any:
        """Hyper-parameters of what groups have besides n_known atoms, which weighs `mass` in each: for `simulate`."""


MEASURES: tuple[type[GroupMeasure], ...] = (HierarchicalMeasure,)


def described(name: str) -> type[GroupMeasure]:
    """The measure that has this name in the description of a run."""
    return next(kind for kind in MEASURES if kind.described_as == name)
