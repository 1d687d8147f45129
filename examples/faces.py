"""Faces as sums of features: hide a tenth of the pixels, fit, and guess them; PCA guesses the same ones.

    python examples/faces.py faces.npy --picture faces.png

faces.npy: n x 19 x 19 or n x 361 grey levels, such as the CBCL faces. A few minutes for 2,429 faces.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigh

import unbounded as ub
from unbounded.models.features import plots

SIDE = 19


def load(path: Path) -> np.ndarray:
    """One face in a row, grey levels in [0, 1]."""
    faces = np.load(path).astype(float).reshape(-1, SIDE * SIDE)
    return faces / (255.0 if faces.max() > 1.0 else 1.0)


def features(start: int, n_rows: int, seed: int, **options: Any) -> ub.BetaBernoulliFeatures:
    """The model and where its chain starts.

    The start is random, with many features that a fifth of the faces have: features of real images have no clear edge,
    and the chain is slow to add any. The sd of loadings is half of a pixel's. Were it sampled, it would shrink, and
    round after round more of the faces that are fitted badly would have a feature to themselves.
    """
    Z = np.random.default_rng([seed, 1]).random((n_rows, start)) < 0.2
    likelihood = ub.LinearGaussian(loading=0.1, intercept=True)
    return ub.BetaBernoulliFeatures(likelihood, init=Z.astype(int), random_state=seed, **options)


def pca_impute(hidden: np.ndarray, number: int, rounds: int = 300) -> np.ndarray:
    """Iterative PCA: fill the holes with the column means, then with what the components say, until nothing changes."""
    holes = np.isnan(hidden)
    filled = np.where(holes, np.nanmean(hidden, 0), hidden)
    last = filled.shape[1] - 1
    for _ in range(rounds):
        mean = filled.mean(0)
        centred = filled - mean
        axes = eigh(centred.T @ centred, subset_by_index=[last - number + 1, last])[1]
        change = (centred @ axes @ axes.T + mean - filled)[holes]
        filled[holes] += 1.8 * change  # steps below 2 end where EM ends, only sooner
        if np.sqrt(np.mean(change**2)) < 3e-5:
            break
    return filled


def rmse(guess: np.ndarray, truth: np.ndarray, mask: np.ndarray) -> float:
    return float(np.sqrt(np.mean((guess - truth)[mask] ** 2)))


def picture(model: ub.BetaBernoulliFeatures, X: np.ndarray, hidden: np.ndarray, guess: np.ndarray, path: Path) -> None:
    """The features in most use, and faces: as they are, with holes, and with the holes filled."""
    usage = model.assignments_.mean(0)
    plots.features(model.components_[:40], (SIDE, SIDE), usage[:40]).savefig(path, dpi=60)
    from matplotlib.figure import Figure

    shown = np.linspace(0, len(X) - 1, 12).astype(int)
    figure = Figure(figsize=(9.0, 2.6), layout="constrained")
    grid = figure.subplots(3, len(shown))
    for line, (name, images) in zip(grid, {"face": X, "seen": hidden, "filled": guess}.items(), strict=True):
        line[0].set_ylabel(name)
        for axes, image in zip(line, images[shown], strict=True):
            axes.imshow(image.reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=1)
            axes.set_facecolor("#D55E00")  # shows through the holes
            axes.set_xticks([])
            axes.set_yticks([])
    figure.savefig(path.with_stem(path.stem + "-filled"), dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("faces", type=Path)
    parser.add_argument("--picture", type=Path, default=Path("faces.png"))
    parser.add_argument("--hide", type=float, default=0.1, help="share of the cells")
    parser.add_argument("--start", type=int, default=200, help="features that the chain starts with")
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    X = load(args.faces)
    mask = np.random.default_rng(args.seed).random(X.shape) < args.hide
    hidden = np.where(mask, np.nan, X)

    began = time.perf_counter()
    model = features(
        args.start, len(X), args.seed, n_warmup=args.warmup, n_draws=100, n_snapshots=16, progress=True
    ).fit(X, holdout=mask)  # fmt: skip
    seconds = time.perf_counter() - began
    guess = model.impute(hidden)
    number = int(np.median(model.posterior_["n_features"]))
    print(f"{len(X):,} faces, {mask.sum():,} cells hidden; fitted in {seconds:.0f} s")
    print(f"features                {number} ({model.assignments_.sum(1).mean():.1f} in a face)")
    print(f"held-out log density    {float(model.posterior_['holdout'].mean()):.4f} per cell")
    print(f"log joint density       {float(model.posterior_['log_joint'].mean()):,.0f}")
    print(f"RMSE, features          {rmse(guess, X, mask):.4f}")
    print(f"RMSE, column means      {rmse(np.broadcast_to(np.nanmean(hidden, 0), X.shape), X, mask):.4f}")

    fits = (k for k in sorted({20, 50, 80, 100, 120, 140, 160, number}) if k <= X.shape[1])
    errors = {k: rmse(pca_impute(hidden, k), X, mask) for k in fits}
    for k, error in errors.items():
        print(f"RMSE, PCA with {k:<8} {error:.4f}{'  <- as many as features' if k == number else ''}")
    best = min(errors, key=lambda k: errors[k])
    print(f"PCA's best number       {best} ({errors[best]:.4f})")
    picture(model, X, hidden, guess, args.picture)
    print(f"pictures                {args.picture}, {args.picture.with_stem(args.picture.stem + '-filled')}")


if __name__ == "__main__":
    main()
