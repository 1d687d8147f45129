"""A small fit that uses everything a checkpoint must keep, and ways to disturb it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unbounded import PitmanYorMixture
from unbounded.models.mixtures.model import Mixture

WARMUP, DRAWS, THIN, CHAINS = 3, 8, 2, 2
ROUNDS = WARMUP + DRAWS * THIN


def rows(seed: int = 4) -> np.ndarray:
    """Three clusters in the plane with a few holes, which are part of the chain's state."""
    rng = np.random.default_rng(seed)
    X = np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 7.0]])[rng.integers(0, 3, 90)] + rng.normal(size=(90, 2))
    X[rng.random(X.shape) < 0.08] = np.nan
    return X


def model(checkpoint: Any = None, **options: Any) -> PitmanYorMixture:
    settings: dict[str, Any] = {
        "n_shards": 3, "n_warmup": WARMUP, "n_draws": DRAWS, "thin": THIN, "n_chains": CHAINS, "n_snapshots": 8,
        "n_workers": 1, "init": "one", "random_state": 9, "keep_assignments": True,
    }  # fmt: skip
    return PitmanYorMixture(checkpoint=checkpoint, **settings | options)


def everything(fitted: Any) -> tuple[Any, ...]:
    """All that a fit has to say, bit for bit."""
    snapshots = [{name: value.tobytes() for name, value in snap.items()} for snap in fitted._snapshots]
    return fitted.posterior_.to_dict(), fitted.labels_.tobytes(), snapshots, fitted.predict_proba(rows(5)).tobytes()


def at_round(monkeypatch: Any, when: int, action: Callable[[], None]) -> None:
    """Do something once, as the when-th round (counted over all chains) ends."""
    gather, count = Mixture.gather, [0]

    def watched(self: Any, *args: Any) -> Any:
        state = gather(self, *args)
        count[0] += 1
        if count[0] == when:
            action()
        return state

    monkeypatch.setattr(Mixture, "gather", watched)


def stopped(path: Any, when: int) -> Any:
    """The run directory of a fit in which Ctrl-C was pressed in the when-th round."""
    with pytest.MonkeyPatch.context() as patch:
        at_round(patch, when, press_ctrl_c)
        assert model(path).fit(rows()).interrupted_
    return path


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def cut_the_power() -> None:
    raise RuntimeError("the power is gone")
