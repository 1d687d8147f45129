"""A measure of features that is not the library's needs nothing of it but the protocol: rounds are exact, fits run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.special import betaln, gammaln
from stable_beta import StableBeta

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "exactness"))

from feature_problems import SPACE
from feature_truth import SOME, FeatureRun, GaussianTruth, Law, Problem, check

from unbounded.instantiation import Ghosts
from unbounded.models.features.estimator import FeatureEstimator
from unbounded.models.features.hybrid import HybridFeatures
from unbounded.models.features.measure import FeatureMeasure


@dataclass(frozen=True)
class StableTruth(Law):
    """Rates of columns by an integral over weights; r is the discount."""

    @property
    def measure(self):
        return StableBeta(self.alpha, self.c, self.r)

    def log_rate(self, v):
        n, m = v.shape[1], v.sum(axis=1)
        scale = gammaln(1.0 + self.c) - gammaln(1.0 - self.r) - gammaln(self.c + self.r)
        return np.log(self.alpha) + scale + betaln(m - self.r, n - m + self.c + self.r)

    def total(self, n):
        c, r, i = self.c, self.r, np.arange(n)
        new = gammaln(1.0 + c) - gammaln(c + r) + gammaln(i + c + r) - gammaln(i + 1.0 + c)
        return self.alpha * np.exp(new).sum()


@pytest.mark.parametrize(
    "run",
    [
        FeatureRun(Ghosts(0)),
        FeatureRun(Ghosts(), 2, jumps=SOME),
        FeatureRun(Ghosts(1), 2, device="reference", rounds=30),
    ],
    ids=str,
)
def test_rounds_agree_with_enumeration(run):
    problem = Problem("stable-beta", StableTruth("bb", 0.8, 1.2, 0.4), GaussianTruth(SPACE[:, :2]))
    verdict = check(problem, run)
    assert verdict.passed, verdict


@dataclass(eq=False, repr=False, kw_only=True)
class StableFeatures(FeatureEstimator):
    discount: float = 0.3

    def _measure(self) -> FeatureMeasure:
        return StableBeta(*self._hyper_priors(), self.discount)


RNG = np.random.default_rng(5)
X = RNG.integers(0, 2, (40, 3)) @ (5.0 * np.repeat(np.eye(3), 2, axis=1)) + 0.3 * RNG.normal(size=(40, 6))
BRIEF = {"n_warmup": 10, "n_draws": 10, "n_shards": 2, "n_chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return StableFeatures(**BRIEF).fit(X)


def test_predictions(fitted):
    assert fitted.transform(X).shape == (40, fitted.n_atoms_)
    assert fitted.score_samples(X).mean() > fitted.score_samples(X + 50.0).mean()
    assert fitted.sample(8, random_state=0).shape == (8, 6)
    assert np.isfinite(fitted.to_arviz(X).log_likelihood["rows"]).all()


def test_a_run_resumes(fitted, tmp_path, monkeypatch):
    brief = BRIEF | {"checkpoint": tmp_path, "checkpoint_seconds": 0.0, "engine": "serial"}
    whole = HybridFeatures.global_step

    def fails(model, state, parallel):
        if state.round == 14:
            raise RuntimeError("the power is gone")
        return whole(model, state, parallel)

    with monkeypatch.context() as patch:
        patch.setattr(HybridFeatures, "global_step", fails)
        with pytest.raises(RuntimeError, match="power"):
            StableFeatures(**brief).fit(X)
    assert StableFeatures(**brief).fit(X).posterior_.equals(fitted.posterior_)
