"""Pieces of a fit in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unbounded.shares import ABOVE

if TYPE_CHECKING:
    import xarray

_SHOWN = 20


def interval(draws: xarray.DataArray) -> str:
    """The posterior of a number."""
    values = draws.values.ravel()
    low, high = np.quantile(values, [0.05, 0.95])
    return f"mean {values.mean():.2f}, 90% interval {low:.0f} to {high:.0f}"


def counted(number: int, n_above: Callable[[float], int]) -> str:
    """A number of atoms, and how many of them are more than a few rows."""
    large = [f"{n_above(least)} {name.replace('_', ' ')}" for name, least in ABOVE.items()]
    return f"{number}, of which {' and '.join(large)} of the rows"


def listed(words: Sequence[str]) -> str:
    """The first of many; past twenty, dots."""
    return ", ".join(words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")
