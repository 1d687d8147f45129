"""Collapsed Gibbs sampling (Neal 2000, Algorithm 3): no ghosts and one shard. Exact, and sequential."""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import Ghosts, Rule
from unbounded.models.mixtures.model import Mixture


def mixture(
    measure: Any, likelihood: Any, rule: Rule, n_rows: int, n_shards: int, seed: int, n_rounds: int, sweeps: int,
    dtype: str,
) -> Mixture:  # fmt: skip
    return Mixture(measure, likelihood, Ghosts(0), n_rows, 1, seed, n_rounds, sweeps, dtype)
