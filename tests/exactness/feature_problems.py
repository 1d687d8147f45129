"""Tiny data sets, likelihoods and measures for the exactness tests of feature models. Nothing hangs on defaults."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from feature_truth import GaussianTruth, Law, PoissonTruth, Problem

from unbounded.priors import Gamma

LAWS = {
    "bb-1": Law("bb", 0.9, 1.0),
    "bb-2": Law("bb", 0.7, 2.0),
    "gp-1": Law("gp", 0.8, 1.0),
    "gp-2": Law("gp", 0.9, 2.0),
    "bnb-1": Law("bnb", 0.5, 1.0, 0.6),
    "bnb-2": Law("bnb", 0.35, 2.0, 1.3),
    # Three rows: large counts must be rarer, or there are too many states.
    "gp-5": Law("gp", 1.2, 5.0),
    "bnb-6": Law("bnb", 0.4, 6.0, 0.6),
}

NAN = float("nan")
SPACE = np.array([[1.25, -0.45, 0.7, 0.9], [1.0, 0.6, -0.9, 1.2], [-0.35, 0.8, 1.4, -0.55]])
COUNTS = np.array([[2, 0, 1], [1, 3, 0], [0, 1, 1.0]])


def holed(X: np.ndarray, *holes: tuple[int, int]) -> np.ndarray:
    out = X.copy()
    for hole in holes:
        out[hole] = NAN
    return out


# name: (rows, likelihood given rows)
CASES: dict[str, tuple[np.ndarray, Any]] = {
    "gaussian-3": (SPACE[:, :3], GaussianTruth),
    "gaussian-2": (SPACE[:, :2], GaussianTruth),
    "gaussian-1": (SPACE[:, :1], GaussianTruth),
    "gaussian-holes": (holed(SPACE, (0, 1), (1, 2)), GaussianTruth),
    "gaussian-intercept": (SPACE[:, :3], lambda X: GaussianTruth(X, intercept=0.7)),
    "gaussian-holes-intercept": (holed(SPACE, (1, 0)), lambda X: GaussianTruth(X, intercept=0.7)),
    "gaussian-centred": (holed(SPACE + 3.0, (0, 2)), lambda X: GaussianTruth(X, intercept=2.5)),
    "sharp": (1.8 * SPACE[:, :3], lambda X: GaussianTruth(X, 0.4, 1.5)),
    "poisson": (COUNTS[:, :2], PoissonTruth),
    "poisson-holes": (holed(COUNTS, (0, 1)), PoissonTruth),
    "poisson-background": (COUNTS[:, :2], lambda X: PoissonTruth(X, background=Gamma(1.2, 2.0))),
    "poisson-holes-background": (holed(COUNTS, (1, 0)), lambda X: PoissonTruth(X, background=Gamma(1.2, 2.0))),
    "flat": (np.full((3, 1), NAN), GaussianTruth),
}


@lru_cache(None)
def problem(case: str, law: str, n: int = 2) -> Problem:
    """The first n rows of a case under a measure."""
    X, likelihood = CASES[case]
    return Problem(f"{case}-{law}-{n}", LAWS[law], likelihood(X[:n]))
