"""Features on all shards at once with every atom instantiated. Not exact.

This is how the paper replicates the sampler of Doshi-Velez et al. (2009), approximately, as it says. All shards create
atoms at the full rate at the same time, and all atoms of the round before are mobile: the published rule of the paper
with all shards always open.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import AsPublished
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.setup import Setup


def always_hot(setup: Setup[Any, Any, Any]) -> HybridFeatures:
    """Without jumps, which belong to the hybrid sampler."""
    return HybridFeatures(setup, rule=AsPublished("hot"), jumps=None)
