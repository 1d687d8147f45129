"""Partially collapsed Gibbs sampling (Yerebakan and Dundar 2017), as the paper describes it. Not exact.

Weights and parameters of all existing clusters are drawn; every row then goes to one of them or to a new one, and the
rows that are new to the round are clustered among themselves by collapsed Gibbs. That is the paper's own rule, J = K,
with one shard whose rows may all make atoms, and it has the same bias. Repaired, the clusters to instantiate are chosen
by ghosts, which is exact. The original article was not at hand: this follows the paper's account of it.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import AsPublished, Ghosts, Rule
from unbounded.models.mixtures.model import Mixture


def mixture(
    measure: Any, likelihood: Any, rule: Rule, n_rows: int, n_shards: int, seed: int, n_rounds: int, sweeps: int,
    dtype: str, repaired: bool = False,
) -> Mixture:  # fmt: skip
    if not isinstance(repaired, bool):
        raise ValueError(f"repaired must be True or False, got {repaired!r}.")
    chosen: Rule = Ghosts() if repaired else AsPublished("cold")
    return Mixture(measure, likelihood, chosen, n_rows, 1, seed, n_rounds, sweeps, dtype)
