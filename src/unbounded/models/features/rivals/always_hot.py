"""Features on all shards at once with every atom instantiated. Not exact.

By this the paper replicates the sampler of Doshi-Velez et al. (2009), approximately, as it says. Every shard creates
atoms at the full rate while others do the same, and atoms of a round before are mobile, all of them: the published rule
of the paper with all shards always open.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import AsPublished
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.setup import Setup


def always_hot(setup: Setup[Any, Any, Any]) -> HybridFeatures:
    """Without jumps, which belong to the hybrid sampler."""
    return HybridFeatures(setup, rule=AsPublished("hot"), jumps=None)
