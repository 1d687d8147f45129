"""Collapsed Gibbs sampling (Doshi-Velez and Ghahramani 2009), with a random order of a row's entries. Exact."""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import Ghosts, Rule
from unbounded.models.features.model import Features


def features(
    measure: Any, likelihood: Any, rule: Rule, n_rows: int, n_shards: int, seed: int, n_rounds: int, sweeps: int,
    dtype: str, jumps: bool = False,
) -> Features:  # fmt: skip
    return Features(measure, likelihood, Ghosts(0), n_rows, 1, seed, n_rounds, sweeps, dtype, jumps=jumps)
