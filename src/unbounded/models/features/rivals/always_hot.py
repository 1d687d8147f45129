"""Features on all shards at once with every atom instantiated (in the spirit of Doshi-Velez et al. 2009). Not exact.

Every shard creates atoms at the full rate while others do the same, and atoms of a round before are mobile, all of
them: the published rule of the paper with all shards always open.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import AsPublished, Rule
from unbounded.models.features.model import Features


def features(
    measure: Any, likelihood: Any, rule: Rule, n_rows: int, n_shards: int, seed: int, n_rounds: int, sweeps: int,
    dtype: str, jumps: bool = False,
) -> Features:  # fmt: skip
    """Without jumps, whatever the estimator says: they belong to the hybrid sampler."""
    hot = AsPublished("hot")
    return Features(measure, likelihood, hot, n_rows, n_shards, seed, n_rounds, sweeps, dtype, jumps=False)
