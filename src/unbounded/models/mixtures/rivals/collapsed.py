"""Collapsed Gibbs sampling (Neal 2000, Algorithm 3): no ghosts and one shard. Exact, and sequential.

Rows cannot be distributed: there is one shard.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import Ghosts
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.setup import Setup


def collapsed(setup: Setup[Any, Any, Any]) -> HybridMixture:
    return HybridMixture(setup, Ghosts(0), None)
