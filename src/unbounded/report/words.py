"""Pieces of a fit in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray

_SHOWN = 20


def interval(draws: xarray.DataArray) -> str:
    """The posterior of a number."""
    values = draws.values.ravel()
    low, high = np.quantile(values, [0.05, 0.95])
    return f"mean {values.mean():.2f}, 90% interval {low:.0f} to {high:.0f}"


def listed(words: Sequence[str]) -> str:
    """The first of many; past twenty, dots."""
    return ", ".join(words[:_SHOWN]) + (", ..." if len(words) > _SHOWN else "")
