"""Collapsed Gibbs sampling (Teh et al. 2006), both forms: no ghosts and one shard. Exact, and sequential."""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import Ghosts, Rule
from unbounded.models.groups.model import Hierarchical


def hierarchical(
    measure: Any, likelihood: Any, rule: Rule, sizes: Any, n_shards: int, seed: int, n_rounds: int, sweeps: int,
    dtype: str, form: str = "direct",
) -> Hierarchical:  # fmt: skip
    return Hierarchical(measure, likelihood, Ghosts(0), sizes, 1, seed, n_rounds, sweeps, dtype, form)
