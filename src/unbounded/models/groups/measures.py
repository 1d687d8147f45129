"""Measures of groups. A new one is one file and one line here."""

from __future__ import annotations

from unbounded.models.groups.model import HierarchicalMeasure
from unbounded.models.groups.shard import GroupMeasure

MEASURES: tuple[type[GroupMeasure], ...] = (HierarchicalMeasure,)


def described(name: str) -> type[GroupMeasure]:
    """The measure that has this name in the description of a run."""
    return next(kind for kind in MEASURES if kind.described_as == name)
