"""Feature models: the chain is a function of (data, model, seed, P, L), with holes, however it was run or stopped."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from unbounded import BetaBernoulliFeatures, BetaNegativeBinomialFeatures, GammaPoissonFeatures
from unbounded.models.features.model import Features

N, P, WARMUP, DRAWS = 60, 4, 2, 6
rng = np.random.default_rng(5)
Z = rng.random((N, 3)) < 0.4
LOADINGS = np.array([[2.0, 2.0, 0.0, 0.0], [0.0, 2.0, 2.0, 0.0], [0.0, -1.0, 0.0, 3.0]])
REAL = Z @ LOADINGS + 0.4 * rng.normal(size=(N, 4))
COUNTS = rng.poisson(0.3 + Z @ np.abs(LOADINGS)).astype(float)
HOLES, HIDDEN = rng.random((2, N, 4)) < 0.08
DATA = {"linear_gaussian": np.where(HOLES, np.nan, REAL), "poisson_factors": np.where(HOLES, np.nan, COUNTS)}
MODELS = [BetaBernoulliFeatures, GammaPoissonFeatures, BetaNegativeBinomialFeatures]
CASES = [(model, likelihood) for model in MODELS for likelihood in DATA]
WAYS = [("threads", 1), ("threads", 2), ("threads", 4)]
NAMES = [f"{model.__name__}-{likelihood}" for model, likelihood in CASES]
START = np.column_stack([np.arange(N) % 2, np.arange(N) == 7, np.arange(N) // 20 == 1]).astype(
    int
)  # shared and private
every_case = pytest.mark.parametrize(("model", "likelihood"), CASES, ids=NAMES)


def fitted(model, likelihood, **options):
    settings = {
        "n_shards": P, "n_chains": 1, "n_warmup": WARMUP, "n_draws": DRAWS, "sweeps_per_round": 2, "n_snapshots": 3,
        "engine": "serial", "init": START, "random_state": 3, "keep_assignments": True,
    }  # fmt: skip
    return model(likelihood, **settings | options).fit(DATA[likelihood], holdout=HIDDEN)


def everything(fit):
    """All that a fit has to say, bit for bit."""
    snapshots = [{name: value.tobytes() for name, value in snap.items()} for snap in fit._snapshots]
    estimates = [fit.components_.tobytes(), fit.assignments_.tobytes(), fit.intercept_.tobytes()]
    return fit.posterior_.to_dict(), estimates, snapshots


@every_case
def test_engines_and_workers_change_no_bit(model, likelihood):
    first = fitted(model, likelihood)
    draws = first.posterior_["assignments"].values[0]
    assert (draws[1:] != draws[:-1]).any(), "the chain must move, or the test says nothing"
    for engine, workers in WAYS:
        assert everything(fitted(model, likelihood, engine=engine, n_workers=workers)) == everything(first)


@every_case
def test_interrupted_and_resumed_at_a_random_round(model, likelihood, tmp_path, monkeypatch):
    whole = everything(fitted(model, likelihood))
    when = int(np.random.default_rng(CASES.index((model, likelihood))).integers(WARMUP + 1, WARMUP + DRAWS))
    gather = Features.gather

    def watched(self, state, *args):
        new = gather(self, state, *args)
        if new.round == when:
            os.kill(os.getpid(), signal.SIGINT)
        return new

    with monkeypatch.context() as patch:
        patch.setattr(Features, "gather", watched)
        part = fitted(model, likelihood, checkpoint=tmp_path)
    assert part.interrupted_
    assert part.posterior_.sizes["draw"] == when - WARMUP
    again = fitted(model, likelihood, checkpoint=tmp_path, engine="threads", n_workers=2)
    assert not again.interrupted_
    assert everything(again) == whole


def test_seeds_change_the_chain():
    first, other = (everything(fitted(*CASES[0], random_state=seed)) for seed in (3, 4))
    assert first != other


def test_the_default_start_changes_no_bit_either():
    first, other = (
        everything(fitted(*CASES[0], init="grown", engine=engine, n_chains=2)) for engine in ("serial", "threads")
    )
    assert first == other


def test_predictions_are_reproducible():
    """Twice the same model, the same rows: the same answers, sampled ones too."""
    models = [fitted(GammaPoissonFeatures, "linear_gaussian") for _ in range(2)]
    first, other = (
        (m.transform(REAL).tobytes(), m.score_samples(REAL).tobytes(), m.impute(DATA["linear_gaussian"]).tobytes())
        for m in models
    )
    assert first == other
