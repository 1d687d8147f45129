"""100 points from two Gaussians at -5 and +5 in every coordinate, in more and more dimensions: who finds the two?

All chains start from one cluster. The prior is that of the data: centres N(0, 5^2), variances near 1. An uncollapsed
sampler must draw a new cluster's centre from the prior before it sees a point, which in many dimensions never fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments import figures
from experiments.chains import COLLAPSED, GHOSTS, JUMPING, PUBLISHED, UNCOLLAPSED, Method, Plan, mixture, trace
from experiments.common import Experiment, Finding, Request, Rows, Run, about, more, no_worse, save_rows, spread
from unbounded.arrays import Array
from unbounded.likelihoods import DiagonalGaussian

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_ROWS = 100
METHODS = (COLLAPSED, UNCOLLAPSED, PUBLISHED, GHOSTS, JUMPING)
MARGIN = 0.05  # of F1: what counts as comparable; chosen after a first look
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
    seeds = range(request.seed, request.seed + sizes.seeds)
    tasks = [(method, d, seed, sizes.n_rounds) for d in sizes.dimensions for method in METHODS for seed in seeds]
    rows = [row for rows in spread(f1_trace, tasks, request.jobs) for row in rows]
    save_rows(rows, request)
    return _judge({key: runs.mean(axis=1) for key, runs in _table(rows, sizes).items()}, sizes)


def _table(rows: Rows, sizes: Sizes) -> dict[tuple[str, int], Array]:
    """(method, dimension) -> F1 [seeds, rounds + 1]."""
    values = np.array([row["f1"] for row in rows])
    blocks = values.reshape(len(sizes.dimensions), len(METHODS), sizes.seeds, sizes.n_rounds + 1)
    return {
        (method.label, dimension): blocks[d, m]
        for d, dimension in enumerate(sizes.dimensions)
        for m, method in enumerate(METHODS)
    }


def draw(run: Run) -> dict[str, Figure]:
    sizes, curves = run.sizes, run.table().pivot(index=["dimension", "method", "seed"], columns="round", values="f1")
    whole, grid = figures.figure(1, len(sizes.dimensions), width=2.9, sharey=True)
    for axes, dimension in zip(grid[0], sizes.dimensions, strict=True):
        for method in METHODS:
            runs = curves.loc[dimension, method.label]
            figures.band(axes, runs.columns, runs.to_numpy(), method.look, method.label)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(0, sizes.n_rounds)
        axes.set_title(_dimensions(dimension), fontsize="medium")
        axes.set_xlabel("iteration (sweep)")
        axes.set_ylim(0.5, 1.02)
    grid[0, 0].set_ylabel("pairwise F1")
    figures.legend(whole, grid[0, 0])
    notes = [f"{N_ROWS} points, one processor, mean over {sizes.seeds} seeds with its standard error"]
    return {"figure": figures.noted(whole, run, notes)}


def _judge(mean: dict[tuple[str, int], Array], sizes: Sizes) -> list[Finding]:
    """By the mean F1 over all iterations [seeds]: it is low when a chain is late, and lower when it never arrives."""
    low, *high = sizes.dimensions

    def of(method: Method, dimension: int) -> Array:
        return mean[method.label, dimension]

    findings = []
    for method in (UNCOLLAPSED, PUBLISHED):
        words = f"in {_dimensions(low)} {method.label} has the F1 of the collapsed sampler"
        findings.append(about("low dimensions", no_worse(words, of(method, low), of(COLLAPSED, low), MARGIN)))
    for d in high:
        fallen = [of(method, low) - of(method, d) for method in (UNCOLLAPSED, COLLAPSED)]
        words = f"from {low} to {_dimensions(d)} the uncollapsed sampler falls by more than the collapsed one"
        findings.append(about("low dimensions", more(words, *fallen)))
    for d in high:
        for other, words in ((COLLAPSED, "below the collapsed"), (UNCOLLAPSED, "above the uncollapsed")):
            pair = (of(PUBLISHED, d), of(other, d)) if other is UNCOLLAPSED else (of(other, d), of(PUBLISHED, d))
            words = f"in {_dimensions(d)} {PUBLISHED.label} is {words} sampler"
            findings.append(about("high dimensions", more(words, *pair)))
    for d in high:
        for method in (GHOSTS, JUMPING):
            words = f"in {_dimensions(d)} {method.label} has the F1 of the collapsed sampler or more"
            findings.append(no_worse(words, of(method, d), of(COLLAPSED, d), MARGIN))
    return findings


def _dimensions(number: int) -> str:
    return f"{number:,} dimension{'s' if number > 1 else ''}"


EXPERIMENT = Experiment(
    "synthetic-f1",
    "100 points, half of them around -5 and half around +5 in every coordinate; one processor, from one cluster.",
    quick=Sizes((2, 50), 3, 40),
    small=Sizes((1, 10, 100), 10, 100),
    full=Sizes((1, 10, 100, 1000), 10, 200),
    run=run,
    draw=draw,
)
