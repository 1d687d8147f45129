"""Data with well-known answers, read from the evaluation folder; skipped where it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import unbounded as ub

FOLDER = Path(os.environ.get("UNBOUNDED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not FOLDER.is_dir(), reason=f"no evaluation data (set UNBOUNDED_DATA; looked for {FOLDER.name})"
    ),
]


def _classic(name: str) -> np.ndarray:
    with np.load(FOLDER / "classic_1d" / "classic.npz") as file:
        values = file[name]
    return values[:, None] if values.ndim == 1 else values


def _quantile_of_clusters(model: ub.DirichletProcessMixture, *shares: float) -> list[float]:
    return [float(q) for q in np.quantile(model.posterior_["n_clusters"].values, shares)]


def test_galaxy():
    """82 velocities in 1,000 km/s (Roeder 1990).

    Escobar and West (1995), with a Dirichlet process mixture of normals and a Gamma(2, 4) prior of the concentration,
    and Richardson and Green (1997), with a finite mixture, both find a number of components spread over 3 to 10; Wade
    and Ghahramani (2018) estimate three clusters by the variation of information: 7 slow, 3 fast, and 72 between them.
    """
    model = ub.DirichletProcessMixture(
        concentration=ub.Gamma(2.0, 4.0), n_shards=4, n_warmup=300, n_draws=2000, n_chains=2, random_state=0
    ).fit(_classic("galaxy"))
    low, median, high = _quantile_of_clusters(model, 0.025, 0.5, 0.975)
    assert low >= 3
    assert 3 <= median <= 8
    assert high <= 12
    assert sorted(np.bincount(model.labels_)) == [3, 7, 72]
    assert model.summary().loc["n_clusters", "r_hat"] < 1.1
    valley = model.score_samples([[13.0], [29.0]])
    hill = model.score_samples([[9.7], [20.0], [23.0], [33.0]])
    assert hill.min() > valley.max() + 0.3, "the density has hills near 10, 20 to 23 and 33, with valleys between"


def test_old_faithful():
    """272 eruptions: short ones after short waits (97) and long ones after long waits (175)."""
    model = ub.DirichletProcessMixture(n_shards=4, n_warmup=300, n_draws=1500, random_state=0).fit(_classic("faithful"))
    sizes = sorted(np.bincount(model.labels_), reverse=True)
    assert abs(sizes[0] - 175) <= 4
    assert abs(sizes[1] - 97) <= 4
    assert sum(sizes[2:]) <= 6
    assert _quantile_of_clusters(model, 0.5)[0] <= 4


def test_cifar_held_out_score_rises():
    """50,000 images in 16 principal components: 100 sweeps from one cluster, scored on rows of the test set."""
    train = np.load(FOLDER / "cifar100" / "train_pca64.npy")[:, :16]
    test = np.load(FOLDER / "cifar100" / "test_pca64.npy")[:1000, :16]
    model = ub.DirichletProcessMixture(n_warmup=0, n_draws=100, init="one", random_state=0)
    score = model.fit(train, holdout=test).posterior_["holdout"].values[0]
    assert score[-10:].mean() > score[0] + 1.0
    assert score[-10:].mean() > score[40:50].mean() > score[10:20].mean()
