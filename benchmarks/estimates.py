"""Which loss gives the point estimate of a mixture that is nearest to the truth (docs/estimates.md).

Gaussian clusters whose centres are drawn with several spreads, from apart to well inside each other, are fitted once;
then `labels_` is computed from the same draws under every loss. Printed are the adjusted Rand index with the true
labels and the number of clusters, all of them and those above 1% of the rows, as means over seeds; beside them
scikit-learn's variational mixture with twice the true number of clusters, and the true parameters' best guess of each
row, which no method can beat by more than luck.

    python benchmarks/estimates.py [--seeds 3] [--rows 4000] [--only "16 columns"] [-j 1]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture

from unbounded import DirichletProcessMixture
from unbounded.models.labelled.losses import Loss
from unbounded.models.labelled.partition import point_estimate

K = 20
LOSSES = [
    *(Loss("vi", a) for a in (0.75, 1.0, 1.25, 1.5)),
    *(Loss("binder", a) for a in (0.75, 1.0, 1.25)),
]


class Case(NamedTuple):
    columns: int
    spread: float  # of the centres, in standard deviations of a cluster

    @property
    def name(self) -> str:
        return f"{self.columns} columns, spread {self.spread:g}"


CASES = (Case(2, 8.0), Case(2, 5.0), Case(2, 3.0), Case(8, 3.0), Case(8, 1.5), Case(16, 1.2))


def data(case: Case, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, their clusters, and the most probable cluster of each by the true parameters."""
    rng = np.random.default_rng([seed, case.columns, int(10 * case.spread)])
    weights = rng.dirichlet(np.full(K, 3.0))
    centres = case.spread * rng.normal(size=(K, case.columns))
    labels = rng.choice(K, n, p=weights)
    X = centres[labels] + rng.normal(size=(n, case.columns))
    squares = ((X[:, None, :] - centres) ** 2).sum(2)
    return X, labels, (np.log(weights) - 0.5 * squares).argmax(1)


def estimates(case: Case, n: int, seed: int) -> Iterator[tuple[str, float, int, int]]:
    X, truth, guess = data(case, n, seed)
    warnings.simplefilter("ignore")
    model = DirichletProcessMixture("diagonal_gaussian", random_state=seed, n_workers=1).fit(X)
    draws = [snap["labels"] for snap in model._snapshots]
    found = {f"{loss.kind} {loss.merge_cost:g}": point_estimate(draws, loss) for loss in LOSSES}
    peer = BayesianGaussianMixture(n_components=2 * K, covariance_type="diag", max_iter=300, random_state=seed).fit(X)
    for name, labels in {**found, "variational": peer.predict(X), "true parameters": guess}.items():
        sizes = np.bincount(labels)
        yield name, adjusted_rand_score(truth, labels), int((sizes > 0).sum()), int((sizes > 0.01 * n).sum())
    drawn = [float(np.mean([adjusted_rand_score(truth, draw) for draw in draws]))]
    counts = model.posterior_["n_clusters"].values
    yield "a draw", drawn[0], int(np.median(counts)), int(np.median([(np.bincount(d) > 0.01 * n).sum() for d in draws]))


def row(task: tuple[Case, int, int]) -> list[tuple[str, float, int, int]]:
    return list(estimates(*task))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--only", default="", help="cases with this in their names")
    parser.add_argument("-j", type=int, default=1)
    asked = parser.parse_args()
    cases = [case for case in CASES if asked.only in case.name]
    tasks = [(case, asked.rows, seed) for case in cases for seed in range(asked.seeds)]
    with ProcessPoolExecutor(asked.j) as pool:
        rows: list[Any] = list(pool.map(row, tasks))
    for i, case in enumerate(cases):
        own = np.array([[line[1:] for line in one] for one in rows[i * asked.seeds : (i + 1) * asked.seeds]])
        print(f"\n{case.name}: {K} clusters, {asked.rows} rows, {asked.seeds} seeds")
        for (name, *_), (index, clusters, large) in zip(rows[i * asked.seeds], own.mean(0), strict=True):
            print(f"  {name:16s} ARI {index:.3f}   clusters {clusters:5.1f}   above 1% {large:5.1f}", flush=True)


if __name__ == "__main__":
    main()
