"""Whole fits beside scikit-learn's BayesianGaussianMixture, one core each, in one run (make bench-peers).

Data: synthetic Gaussian mixtures with full covariances from `unbounded.datasets.gaussian_mixture`, 10% held out.
Time per sweep: CPU seconds of one sweep over all rows (everything a round does included) against one iteration, both
with the same number of components. Quality: held-out log density after at most the CPU time that scikit-learn took.
Ours is without jumps of whole clusters (docs/jumps.md).
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

import unbounded as ub
from unbounded import engines
from unbounded.columns import describe
from unbounded.datasets import GaussianMixtureData, gaussian_mixture
from unbounded.likelihoods import Gaussian
from unbounded.models.mixtures.hybrid import HybridMixture
from unbounded.models.mixtures.model import RowRecipe
from unbounded.round import rounds
from unbounded.setup import Setup

CASES = {  # rows, columns, true clusters, components, most iterations of scikit-learn
    "100k x 2": (100_000, 2, 20, 50, 100),
    "100k x 16": (100_000, 16, 20, 50, 60),
    "50k x 64": (50_000, 64, 30, 60, 30),
}


def peer(components: int, iterations: int, init: str = "kmeans") -> BayesianGaussianMixture:
    return BayesianGaussianMixture(
        n_components=components, max_iter=iterations, init_params=init, random_state=0,
        weight_concentration_prior_type="dirichlet_process",
    )  # fmt: skip


def cpu(function: object, *args: object) -> tuple[float, object]:
    began = time.process_time()
    result = function(*args)  # type: ignore[operator]
    return time.process_time() - began, result


def seconds_per_iteration(X: np.ndarray, components: int) -> float:
    few, many = (cpu(peer(components, n, "random").fit, X)[0] for n in (1, 4))
    return (many - few) / 3


def seconds_per_sweep(X: np.ndarray, components: int, turns: int = 8) -> tuple[float, float]:
    """CPU seconds of a round, from `components` clusters around random rows; and the mean number of atoms met."""
    rng = np.random.default_rng(0)
    centres = X[rng.choice(len(X), components, replace=False)]
    labels = np.argmin([((X - c) ** 2).sum(1) for c in centres], axis=0)
    likelihood = Gaussian().bind(describe(X))
    model = HybridMixture(Setup(ub.DirichletProcess(), likelihood, len(X), 8, 0), rule=ub.Ghosts(), jumps=None)
    engine = engines.build("serial", RowRecipe(X, likelihood, 8))
    chain = rounds(model, engine, model.begin(engine, labels))
    next(chain)
    times, atoms = [], []
    for _ in range(turns):
        seconds, state = cpu(next, chain)
        times.append(seconds)
        atoms.append(len(state.occupied))  # type: ignore[attr-defined]
    engine.close()
    return float(np.median(times)), float(np.mean(atoms))


def split(data: GaussianMixtureData) -> tuple[np.ndarray, np.ndarray]:
    n_train = len(data.X) * 9 // 10
    return data.X[:n_train], data.X[n_train:]


def fit_within(X: np.ndarray, budget: float) -> tuple[float, ub.DirichletProcessMixture]:
    """The longest fit of a few fixed lengths that stays within the CPU budget."""
    best = None
    for warmup, draws in ((10, 10), (100, 100), (250, 500)):
        model = ub.DirichletProcessMixture(
            n_chains=1, n_warmup=warmup, n_draws=draws, engine="serial", random_state=0, jumps=False
        )
        seconds, fitted = cpu(model.fit, X)
        if best is None or seconds <= budget:
            best = seconds, fitted
        if seconds * 4 > budget:
            break
    return best  # type: ignore[return-value]


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    chosen = [name for name in CASES if len(sys.argv) < 2 or name.startswith(sys.argv[1])]
    ub.DirichletProcessMixture(n_chains=1, n_warmup=2, n_draws=2, engine="serial", random_state=0).fit(
        np.eye(16)
    )  # compile
    for name in chosen:
        rows, columns, clusters, components, iterations = CASES[name]
        data = gaussian_mixture(rows, columns, clusters, seed=3)
        train, test = split(data)
        with threadpool_limits(1):
            theirs = seconds_per_iteration(train, components)
            ours, atoms = seconds_per_sweep(train, components)
            their_time, fitted = cpu(peer(components, iterations).fit, train)
            our_time, model = fit_within(train, their_time)
        their_score, our_score = fitted.score(test), model.score(test)  # type: ignore[attr-defined]
        print(f"{name}: true mixture {data.log_density(test).mean():.4f} nats per held-out row")
        print(f"  sweep     scikit-learn {theirs:.3f} s, ours {ours:.4f} s (K={components}, we met {atoms:.0f}): "
              f"{theirs / ours:.1f}x faster")  # fmt: skip
        print(f"  held out  scikit-learn {their_score:.4f} in {their_time:.0f} CPU s ({fitted.n_iter_} iterations), "
              f"ours {our_score:.4f} in {our_time:.0f} CPU s ({model.n_clusters_} clusters)", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
