"""100 points from two Gaussians at -5 and +5 in every coordinate, in more and more dimensions: who finds the two?

All chains start from one cluster. The prior is that of the data: centres N(0, 5^2), variances near 1. An uncollapsed
sampler must draw a new cluster's centre from the prior before it sees a point, which in many dimensions never fits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments import figures
from experiments.chains import COLLAPSED, GHOSTS, PUBLISHED, UNCOLLAPSED, Method, Plan, mixture, trace
from experiments.common import Experiment, Finding, Request, Rows, more, no_worse, save_rows, say
from unbounded.arrays import Array
from unbounded.likelihoods import DiagonalGaussian

N_ROWS = 100
METHODS = (COLLAPSED, UNCOLLAPSED, PUBLISHED, GHOSTS)
LIKELIHOOD = DiagonalGaussian(mean=0.0, kappa=0.04, shape=5.0, scale=5.0)


@dataclass(frozen=True)
class Sizes:
    dimensions: tuple[int, ...]
    seeds: int
    n_rounds: int


def two_gaussians(dimension: int, seed: int) -> tuple[Array, Array]:
    """Rows and their true labels."""
    rng = np.random.default_rng([seed, dimension])
    labels = rng.permutation(np.arange(N_ROWS) % 2)
    return np.where(labels == 1, 5.0, -5.0)[:, None] + rng.standard_normal((N_ROWS, dimension)), labels


def pairwise_f1(labels: Array, truth: Array) -> float:
    """Harmonic mean of precision and recall of the pairs of rows that are together."""
    upper = np.triu_indices(len(truth), 1)
    said, true = ((v[:, None] == v[None, :])[upper] for v in (labels, truth))
    return float(2.0 * (said & true).sum() / max(1, said.sum() + true.sum()))


def f1_trace(method: Method, dimension: int, seed: int, n_rounds: int) -> Rows:
    X, truth = two_gaussians(dimension, seed)
    model = mixture(X, method, Plan(1, n_rounds, seed=seed), LIKELIHOOD, concentration=1.0)
    rows = trace(
        model, X, "one", n_rounds,
        lambda state, engine: {
            "f1": pairwise_f1(model.assignments(state, engine), truth), "clusters": len(state.occupied),
        },
    )  # fmt: skip
    return [{"method": method.label, "dimension": dimension, "seed": seed, **row} for row in rows]


def run(sizes: Sizes, request: Request) -> list[Finding]:
    methods = list(METHODS)
    rows: Rows = []
    for dimension in sizes.dimensions:
        for method in methods:
            for seed in range(request.seed, request.seed + sizes.seeds):
                rows += f1_trace(method, dimension, seed, sizes.n_rounds)
        say(f"{dimension} dimensions done")
    save_rows(rows, request)
    table = _table(rows, methods, sizes)
    _draw(table, methods, sizes, request)
    return _judge(table, methods, sizes)


def _table(rows: Rows, methods: list[Method], sizes: Sizes) -> dict[tuple[str, int], Array]:
    """(method, dimension) -> F1 [seeds, rounds + 1]."""
    values = np.array([row["f1"] for row in rows])
    shape = (len(sizes.dimensions), len(methods), sizes.seeds, sizes.n_rounds + 1)
    blocks = values.reshape(shape)
    return {
        (method.label, dimension): blocks[d, m]
        for d, dimension in enumerate(sizes.dimensions)
        for m, method in enumerate(methods)
    }


def _draw(table: dict[tuple[str, int], Array], methods: list[Method], sizes: Sizes, request: Request) -> None:
    whole, grid = figures.figure(1, len(sizes.dimensions), width=2.9, sharey=True)
    for axes, dimension in zip(grid[0], sizes.dimensions, strict=True):
        for method in methods:
            runs = table[method.label, dimension]
            figures.band(axes, np.arange(runs.shape[1]), runs, method.look, method.label)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(0, sizes.n_rounds)
        axes.set_title(f"{dimension} dimensions", fontsize="medium")
        axes.set_xlabel("iteration (sweep)")
        axes.set_ylim(0.5, 1.02)
    grid[0, 0].set_ylabel("pairwise F1")
    figures.legend(whole, grid[0, 0])
    notes = [f"{N_ROWS} points, one processor, mean over {sizes.seeds} seeds with its standard error"]
    figures.finish(whole, request, notes=notes)


def _judge(table: dict[tuple[str, int], Array], methods: list[Method], sizes: Sizes) -> list[Finding]:
    """By the mean F1 over all iterations: it is low when a chain is late, and lower when it never arrives."""
    mean = {key: runs.mean(axis=1) for key, runs in table.items()}
    findings = []
    for dimension in sizes.dimensions[1:]:
        for hybrid in (PUBLISHED, GHOSTS):
            words, this = f"in {dimension} dimensions {hybrid.label}", mean[hybrid.label, dimension]
            statement = f"{words} has the F1 of the collapsed sampler"
            findings.append(no_worse(statement, this, mean[COLLAPSED.label, dimension], 0.05))
            if UNCOLLAPSED in methods:
                statement = f"{words} is above the uncollapsed sampler"
                findings.append(more(statement, this, mean[UNCOLLAPSED.label, dimension]))
    return findings


EXPERIMENT = Experiment(
    "synthetic-f1",
    "As dimensions grow, the uncollapsed sampler fails to find the two clusters; the hybrid does as well as the "
    "collapsed one.",
    quick=Sizes((2, 50), 3, 40),
    full=Sizes((1, 10, 100, 1000), 10, 200),
    run=run,
)
