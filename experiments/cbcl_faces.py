"""CBCL faces on 32 shards, 500 sweeps: features as images, and the log likelihood of hidden pixels.

A tenth of the pixels is hidden. Chains start from random features (examples/faces.py says why), and shards exchange
after every 5 sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments import data, figures
from experiments.chains import GHOSTS, WARM, Method, Plan, feature_trace
from experiments.common import Experiment, Finding, Request, Rows, Run, about, more, save_notes, save_rows, say
from unbounded.arrays import Array
from unbounded.models.features import plots
from unbounded.models.features.linear_gaussian import LinearGaussian

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    found = [chain(sizes, request, method) for method in METHODS]
    curves = {method.label: rows for method, (rows, _, _) in zip(METHODS, found, strict=True)}
    save_rows([{"method": label, **row} for label, rows in curves.items() for row in rows], request)
    alone = independent_pixels(X, _mask(X, request))
    save_notes(notes, request)
    save_rows([{"independent_pixels": alone}], request, "alone")
    save_rows(_images(*found[-1][1:]), request, "features")
    whole = locality(components(X, SHOWN))
    parts = {method.label: locality(loadings) for method, (_, loadings, _) in zip(METHODS, found, strict=True)}
    return _judge(curves, alone, parts, whole)


def chain(sizes: Sizes, request: Request, method: Method) -> tuple[Rows, Array, Array]:
    """(what was measured, loadings of the features in most use at the end, the shares of faces that have them)."""
    X, _ = data.faces(request, sizes.n_rows)
    Z = (np.random.default_rng([request.seed, 1]).random((len(X), sizes.start)) < 0.2).astype(int)
    plan = Plan(sizes.n_shards, sizes.n_rounds, SWEEPS, request.seed)
    model, state, rows = feature_trace(X, _mask(X, request), method, plan, Z, LIKELIHOOD)
    say(f"{method.label}: {rows[-1]['score']:.3f}, {rows[-1]['features']} features, {rows[-1]['wall_s']:.1f} s wall")
    return rows, *_most_used(model, state)


def _mask(X: Array, request: Request) -> Array:
    return np.random.default_rng(request.seed).random(X.shape) < 0.1


def _most_used(model: Any, state: Any) -> tuple[Array, Array]:
    everything = model.statistics(state, np.concatenate([state.occupied, state.always]))
    members = everything.members[: len(state.occupied)]
    order = np.argsort(-members)[:SHOWN]
    return model.likelihood.expected(state.scales, everything)[order], members[order] / model.n_rows


def components(X: Array, number: int) -> Array:
    """The first principal components: features of whole faces, to compare parts with."""
    return np.asarray(np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:number])


def locality(loadings: Array) -> Array:
    """Of each image: the least share of its pixels that has half of its squared loadings; a part of a face has few."""
    squares = -np.sort(-(loadings**2), axis=1)
    sums = np.cumsum(squares, axis=1)
    return np.asarray((sums < 0.5 * sums[:, -1:]).sum(axis=1) + 1) / loadings.shape[1]


def independent_pixels(X: Array, mask: Array) -> float:
    """Mean log density of the hidden pixels under a Gaussian for every pixel: what features must beat."""
    seen = np.where(mask, np.nan, X)
    mean, sd = np.nanmean(seen, axis=0), np.nanstd(seen, axis=0)
    logs = -0.5 * ((X - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2.0 * np.pi)
    return float(logs[mask].mean())


def _images(loadings: Array, shares: Array) -> Rows:
    """A row for each feature, its loadings to the thousandth: colours of a picture need no more."""
    columns = [f"pixel_{i}" for i in range(loadings.shape[1])]
    images = (zip(columns, np.round(loading, 3), strict=True) for loading in loadings)
    return [{"share": share, **dict(image)} for share, image in zip(shares, images, strict=True)]


def draw(run: Run) -> dict[str, Figure]:
    return {"figure": _draw_curves(run), "features": _draw_features(run)}


def _draw_curves(run: Run) -> Figure:
    curves, alone = run.table().set_index("method"), run.table("alone")["independent_pixels"][0]
    whole, grid = figures.figure(1, 3)
    for method in METHODS:
        rows = curves.loc[method.label]
        sweeps = rows["round"].to_numpy() * SWEEPS
        for axes, name in zip(grid[0, :2], ("score", "features"), strict=True):
            axes.plot(sweeps[1:], rows[name].to_numpy()[1:], label=method.label, **method.look)
        times = {clock: np.diff(rows[clock]) / np.diff(sweeps) for clock in figures.CLOCKS}
        figures.clocks(grid[0, 2], sweeps[1:], times, method.look, "sweep")
    for axes in grid[0]:
        axes.set_xlabel("iteration (sweep)")
    figures.clock_legend(grid[0, 2])
    grid[0, 0].axhline(alone, color=figures.GREY, linestyle=":", label="independent pixels")
    grid[0, 0].set_ylabel("held-out log likelihood\n(nats per pixel)")
    grid[0, 1].set_ylabel("number of features")
    grid[0, 1].locator_params(axis="y", integer=True)
    figures.legend(whole, grid[0, 0])
    return figures.noted(whole, run, figures.beyond_cores(run.sizes.n_shards, run))


def _draw_features(run: Run) -> Figure:
    """The features in most use at the end of the last chain, the one with ghosts."""
    table = run.table("features")
    shares, loadings = table["share"].to_numpy(), table.drop(columns="share").to_numpy()
    whole = plots.features(loadings, (data.SIDE, data.SIDE), shares)
    return figures.noted(
        whole, run, [f"the {len(shares)} features in most use, with the share of faces that have them"]
    )


def _judge(curves: dict[str, Rows], alone: float, parts: dict[str, Array], whole: Array) -> list[Finding]:
    findings = []
    for method in METHODS:
        local = parts[method.label]
        number = min(len(local), len(whole))
        finding = more(
            f"{method.label}: the features in most use are more local than principal components, as parts of faces are",
            whole[:number],
            local[:number],
        )
        evidence = (
            f"half of the squared loadings is in {100 * local.mean():.0f}% of the pixels, of components in "
            f"{100 * whole.mean():.0f}%; {finding.evidence}"
        )
        finding = Finding(finding.statement, finding.held, evidence)
        findings.append(about("facial features", finding) if method is WARM else finding)
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
    "2,429 faces of 19 x 19 pixels on 32 shards, 500 sweeps; a tenth of the pixels is hidden and scored; the start has "
    "random features; loadings have the fixed sd 0.1.",
    quick=Sizes(300, 20, 32, 8),
    small=Sizes(1_000, 60, 32, 40),
    full=Sizes(2_429, 100, 32, 100),
    run=run,
    draw=draw,
)
