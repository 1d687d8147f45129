"""Numbers of atoms with more than a few rows, which single outlying rows do not change."""

from __future__ import annotations

from unbounded.arrays import Array

ABOVE = {"above_0.1%": 0.001, "above_1%": 0.01}  # scalars of every trace: atoms with more than this share of all rows


def above(shares: Array) -> dict[str, float]:
    """The scalars of ABOVE; shares: of each atom."""
    return {name: float((shares > least).sum()) for name, least in ABOVE.items()}  # mutant: above
