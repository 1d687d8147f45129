"""Collapsed Gibbs sampling (Teh et al. 2006), both forms: no ghosts and one shard. Exact, and sequential.

Rows cannot be distributed: there is one shard.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import Ghosts
from unbounded.models.groups.model import HybridGroups
from unbounded.setup import Setup


def collapsed(setup: Setup[Any, Any, Any], form: str = "direct") -> HybridGroups:
    return HybridGroups(setup, form, Ghosts(0), jumps=None)
