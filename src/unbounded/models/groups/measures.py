"""Measures of groups. A new one is one file and one line here."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Measure
from unbounded.instantiation import Plan
from unbounded.models.groups.measure import HierarchicalMeasure, TopTables, TopWeights
from unbounded.models.groups.shard import GroupHyper, Law
from unbounded.models.mixtures.measures import PartitionMeasure


class GroupMeasure(Measure[GroupHyper, Array], Protocol):
    """A measure for every group, over one that they share; counts are those of tables, extents the sizes of groups."""

    @property
    def top(self) -> PartitionMeasure:
        """The process of the tables, as a mixture has one of its rows: moves of whole atoms ask it."""

    def top_hyper(self, hyper: GroupHyper) -> Any:
        """Its hyper-parameters."""

    def restore(self, values: Array) -> GroupHyper:
        """Hyper-parameters from an array of them."""

    def usual_ghosts(self, extent: Array) -> int:
        """How many ghost tables there are unless the rule says so."""

    def weights(
        self, hyper: GroupHyper, plan: Plan, tables: TopTables, seated: bool, rng: np.random.Generator
    ) -> TopWeights:
        """Top weights given tables; seated: the tail of a shard has one weight for all of its atoms."""

    def sticks(self, hyper: GroupHyper, tables: Array, rng: np.random.Generator) -> tuple[Array, float]:
        """(log top weights of atoms with these tables and, last, of all others; the concentration of the latter)."""

    def masses(self, hyper: GroupHyper, beta: Array) -> Array:
        """What atoms with these top weights weigh in a group, apart from its rows."""

    def expected_masses(self, hyper: GroupHyper, tables: Array) -> Array:
        """The same in expectation, of atoms with these tables and (last) of all others."""

    def log_cut(self, hyper: GroupHyper, share: Array) -> Array:
        """Log prior density gained when an atom becomes two, with this share of its top weight and with the rest."""

    def law(self, hyper: GroupHyper, masses: Array, share: float) -> Law:
        """What a shard knows of the top process in a round."""

    def unknown(self, hyper: GroupHyper, mass: float) -> GroupHyper:
        """Hyper-parameters of what groups have besides known atoms, which weighs `mass` in each: for `simulate`."""


MEASURES: tuple[type[GroupMeasure], ...] = (HierarchicalMeasure,)
