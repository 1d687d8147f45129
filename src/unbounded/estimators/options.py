"""The options that every estimator has, under the same names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from unbounded.chain.store import RunStore

_LEAST = {
    "n_shards": 1, "sweeps_per_round": 1, "n_warmup": 0, "n_draws": 1, "thin": 1, "n_chains": 1, "n_snapshots": 1,
}  # fmt: skip


@dataclass(eq=False, repr=False, kw_only=True)
class ChainOptions(BaseEstimator):
    """How chains run and where; a dataclass, so that scikit-learn finds every option in the constructor's signature."""

    n_shards: int = 8
    sweeps_per_round: int = 1
    n_warmup: int = 250
    n_draws: int = 500
    thin: int = 1
    n_chains: int = 1
    engine: str = "threads"
    n_workers: int | None = None
    sampler: str = "hybrid"
    instantiate: Any = "ghosts"
    n_snapshots: int = 32
    keep_assignments: bool = False
    checkpoint: Any = None
    random_state: Any = None
    progress: bool = False

    def check_options(self, n_rows: int) -> None:
        for name, low in _LEAST.items():
            value = getattr(self, name)
            if not isinstance(value, int | np.integer) or value < low:
                raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}.")
        if self.n_shards > n_rows:
            raise ValueError(f"n_shards={self.n_shards} is more than the {n_rows} rows; use at most one shard per row.")
        if self.sampler != "hybrid":
            raise ValueError(f"sampler must be 'hybrid', got {self.sampler!r}.")

    def seed(self) -> int:
        """The seed that the whole fit is a function of; without a number, a run directory goes on with its own."""
        if isinstance(self.random_state, int | np.integer):
            if not -(2**63) <= self.random_state < 2**63:
                raise ValueError(f"random_state must fit in 64 bits, got {self.random_state}.")
            return int(self.random_state)
        store = None if self.checkpoint is None else RunStore(self.checkpoint)
        if store and store.exists() and "seed" in store.config():
            return int(store.config()["seed"])
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def chain_settings(self) -> dict[str, Any]:
        """The options that the chain depends on; engine and workers are not among them."""
        return {name: int(getattr(self, name)) for name in (*_LEAST, "keep_assignments")}
