"""Partially collapsed Gibbs sampling (Yerebakan and Dundar 2017), as the paper describes it. Not exact.

Weights and parameters of all existing clusters are drawn; every row then goes to one of them or to a new one, and the
rows that are new to the round are clustered among themselves by collapsed Gibbs. That is the paper's own rule, J = K,
with one shard whose rows may all make atoms, and it has the same bias. Repaired, the clusters to instantiate are chosen
by ghosts, which is exact. The original article was not at hand: this follows the paper's account of it.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import AsPublished, Ghosts
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.setup import Setup


def partially_collapsed(setup: Setup[Any, Any, Any], repaired: bool = False) -> HybridMixture:
    if not isinstance(repaired, bool):
        raise ValueError(f"repaired must be True or False, got {repaired!r}.")
    return HybridMixture(setup, Ghosts() if repaired else AsPublished("cold"), None)
