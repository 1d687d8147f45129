"""Collapsed Gibbs sampling (Doshi-Velez and Ghahramani 2009), with a random order of a row's entries. Exact.

Rows cannot be distributed: there is one shard.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import Ghosts
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.jump import Jumps
from unbounded.setup import Setup


def collapsed(setup: Setup[Any, Any, Any], jumps: Jumps | None = None) -> HybridFeatures:
    return HybridFeatures(setup, rule=Ghosts(0), jumps=jumps)
