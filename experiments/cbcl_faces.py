"""CBCL faces on 32 shards, 500 sweeps: features as images, and the log likelihood of hidden pixels.

A tenth of the pixels is hidden. Chains start from random features (examples/faces.py says why), and shards exchange
after every 5 sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import data, figures
from experiments.chains import GHOSTS, WARM, Plan, feature_trace
from experiments.common import Experiment, Finding, Request, Rows, save_rows, say
from unbounded.arrays import Array
from unbounded.models.features import plots
from unbounded.models.features.linear_gaussian import LinearGaussian

METHODS = (WARM, GHOSTS)
LIKELIHOOD = LinearGaussian(loading=0.1, intercept=True)
SWEEPS, SHOWN = 5, 40


@dataclass(frozen=True)
class Sizes:
    n_rows: int
    start: int
    n_shards: int
    n_rounds: int


def run(sizes: Sizes, request: Request) -> list[Finding]:
    X, notes = data.faces(request, sizes.n_rows)
    mask = np.random.default_rng(request.seed).random(X.shape) < 0.1
    Z = (np.random.default_rng([request.seed, 1]).random((len(X), sizes.start)) < 0.2).astype(int)
    plan, curves = Plan(sizes.n_shards, sizes.n_rounds, SWEEPS, request.seed), {}
    for method in METHODS:
        model, state, curves[method.label] = feature_trace(X, mask, method, plan, Z, LIKELIHOOD)
        last = curves[method.label][-1]
        say(f"{method.label}: {last['score']:.3f}, {last['features']} features, {last['wall_s']:.1f} s wall")
    save_rows([{"method": label, **row} for label, rows in curves.items() for row in rows], request)
    alone = independent_pixels(X, mask)
    _draw(curves, alone, sizes, request, notes)
    _draw_features(model, state, request, notes)
    return _judge(curves, alone)


def independent_pixels(X: Array, mask: Array) -> float:
    """Mean log density of the hidden pixels under a Gaussian for every pixel: what features must beat."""
    seen = np.where(mask, np.nan, X)
    mean, sd = np.nanmean(seen, axis=0), np.nanstd(seen, axis=0)
    logs = -0.5 * ((X - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2.0 * np.pi)
    return float(logs[mask].mean())


def _draw(curves: dict[str, Rows], alone: float, sizes: Sizes, request: Request, notes: list[str]) -> None:
    whole, grid = figures.figure(1, 3)
    for method in METHODS:
        rows = curves[method.label]
        sweeps = np.array([row["round"] for row in rows]) * SWEEPS
        for axes, name in zip(grid[0, :2], ("score", "features"), strict=True):
            axes.plot(sweeps[1:], [row[name] for row in rows[1:]], label=method.label, **method.look)
        times = {clock: np.diff([row[clock] for row in rows]) / SWEEPS for clock in figures.CLOCKS}
        figures.clocks(grid[0, 2], sweeps[1:], times, method.look, "sweep")
    for axes in grid[0]:
        axes.set_xlabel("iteration (sweep)")
    figures.clock_legend(grid[0, 2])
    grid[0, 0].axhline(alone, color=figures.GREY, linestyle=":", label="independent pixels")
    grid[0, 0].set_ylabel("held-out log likelihood\n(nats per pixel)")
    grid[0, 1].set_ylabel("number of features")
    grid[0, 1].locator_params(axis="y", integer=True)
    figures.legend(whole, grid[0, 0])
    figures.finish(whole, request, notes=[*notes, *figures.beyond_cores(sizes.n_shards)])


def _draw_features(model: Any, state: Any, request: Request, notes: list[str]) -> None:
    """The features in most use at the end of the last chain, the one with ghosts."""
    everything = model.statistics(state, np.concatenate([state.occupied, state.always]))
    members = everything.members[: len(state.occupied)]
    order = np.argsort(-members)[:SHOWN]
    loadings = model.likelihood.expected(state.scales, everything)[order]
    whole = plots.features(loadings, (data.SIDE, data.SIDE), members[order] / model.n_rows)
    notes = [*notes, f"the {len(order)} features in most use, with the share of faces that have them"]
    figures.finish(whole, request, name="features", notes=notes)


def _judge(curves: dict[str, Rows], alone: float) -> list[Finding]:
    findings = []
    for method in METHODS:
        scores = np.array([row["score"] for row in curves[method.label]])
        quarter = len(scores) // 4
        late, before = scores[-quarter:].mean(), scores[-2 * quarter : -quarter].mean()
        findings += [
            Finding(
                f"{method.label}: hidden pixels are likelier than under independent pixels", bool(late > alone),
                f"{late:.3f} and {alone:.3f} nats per pixel, {curves[method.label][-1]['features']} features",
            ),
            Finding(
                f"{method.label}: the score has settled (the number of features need not have)",
                bool(abs(late - before) < 0.01),
                f"{before:.4f} in the third quarter, {late:.4f} in the last",
            ),
        ]  # fmt: skip
    return findings


EXPERIMENT = Experiment(
    "cbcl-faces",
    "On 32 processors the hybrid sampler fits real images in 500 iterations: features that look like parts of faces, "
    "and a test log likelihood that rises and settles.",
    quick=Sizes(300, 20, 32, 8),
    full=Sizes(2_429, 100, 32, 100),
    run=run,
)
