"""Measures of groups. A new one is one file and one line here."""

from __future__ import annotations

from unbounded.arrays import Array
from unbounded.contracts import Measure
from unbounded.models.groups.model import HierarchicalMeasure
from unbounded.models.groups.shard import GroupHyper

MEASURES: tuple[type[Measure[GroupHyper, Array]], ...] = (HierarchicalMeasure,)
