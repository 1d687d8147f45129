"""Collapsed Gibbs sampling: no ghosts and one shard, so that nothing is instantiated. Exact, and sequential.

Mixtures: Neal (2000), Algorithm 3. Features: Doshi-Velez and Ghahramani (2009), with a random order of the entries of
a row. Groups: Teh et al. (2006), both forms. Rows cannot be shared out: whatever n_shards says, there is one.
"""

from __future__ import annotations

from typing import Any

from unbounded.instantiation import Ghosts, Rule
from unbounded.samplers.features import Features
from unbounded.samplers.hierarchical import Hierarchical
from unbounded.samplers.mixture import Mixture


def mixture(
    measure: Any, likelihood: Any, rule: Rule, n_rows: int, n_shards: int, seed: int, n_rounds: int, sweeps: int,
    dtype: str,
) -> Mixture:  # fmt: skip
    return Mixture(measure, likelihood, Ghosts(0), n_rows, 1, seed, n_rounds, sweeps, dtype)


def features(
    measure: Any, likelihood: Any, rule: Rule, n_rows: int, n_shards: int, seed: int, n_rounds: int, sweeps: int,
    dtype: str, jumps: bool = False,
) -> Features:  # fmt: skip
    return Features(measure, likelihood, Ghosts(0), n_rows, 1, seed, n_rounds, sweeps, dtype, jumps=jumps)


def hierarchical(
    measure: Any, likelihood: Any, rule: Rule, sizes: Any, n_shards: int, seed: int, n_rounds: int, sweeps: int,
    dtype: str, form: str = "direct",
) -> Hierarchical:  # fmt: skip
    return Hierarchical(measure, likelihood, Ghosts(0), sizes, 1, seed, n_rounds, sweeps, dtype, form)
