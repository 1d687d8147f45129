"""Features in words and pictures: for the summary of a fit, and for the report of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Shown, WholeDraws
from unbounded.models.features.point_estimate import FeatureDraw, point_estimate
from unbounded.report import svg
from unbounded.report.parts import charts, figure, paragraph, scale, sizes
from unbounded.report.svg import Frame, Range
from unbounded.report.words import counted, interval, listed

if TYPE_CHECKING:
    from unbounded.models.features.estimator import FeatureEstimator

_TILES = 60
NOISE = "sigma_x"  # the scalar of likelihoods that have some


def summary(estimator: FeatureEstimator) -> list[str]:
    usage, posterior = estimator.assignments_.mean(0, dtype=float), estimator.posterior_
    noise = [f"noise (posterior)    {_noise(posterior[NOISE].values)}"] if NOISE in posterior else []
    return [
        f"rows                 {len(estimator.assignments_):,}",
        f"features (estimate)  {counted(estimator.n_atoms_, estimator.n_above)}",
        f"features (posterior) {interval(posterior['n_features'])}",
        f"above 1% (posterior) {interval(posterior['above_1%'])}",
        f"uses per row         {listed([f'{share:.3g}' for share in usage])}",
        *noise,
    ]


def _noise(values: Array) -> str:
    """The posterior of a standard deviation, which may be of any size."""
    low, high = np.quantile(values, [0.05, 0.95])
    return f"standard deviation {values.mean():.4g}, 90% interval {low:.4g} to {high:.4g}"


class _Features(NamedTuple):
    components: Array
    usage: Array  # mean entry of a row
    shape: tuple[int, int] | None  # of features as images


def show(run: WholeDraws, at_hand: Mapping[str, Any]) -> Shown:
    """Loadings and usage of the point estimate."""
    estimate = point_estimate([FeatureDraw.of(snapshot, scalars["log_joint"]) for snapshot, scalars in run.draws])
    shape: tuple[int, int] | None = at_hand.get("shape")
    fits = shape is not None and shape[0] * shape[1] == estimate.components.shape[1]
    found = _Features(estimate.components, estimate.assignments.mean(0, dtype=float), shape if fits else None)
    noise = np.array([scalars[NOISE] for _, scalars in run.draws if NOISE in scalars])
    return Shown(found.usage, _content(found) + (paragraph(f"Noise: {_noise(noise)}.") if len(noise) else ""))


def _content(found: _Features) -> str:
    if not len(found.components):
        return paragraph("No feature is in at least half of the whole draws.")
    most = float(np.abs(found.components).max()) or 1.0
    usage = figure(sizes(found.usage, "feature", "mean use per row"), "How much of each feature a row uses on average.")
    tiles = [_tile(found, k, most) for k in range(min(len(found.components), _TILES))]
    pictures = f'<div class="tiles">{"".join(tiles)}</div>' if found.shape else charts([_loadings(found, most)])
    return pictures + scale(-most, most, "RdBu_r", "loading") + charts([usage])


def _tile(found: _Features, k: int, most: float) -> str:
    pixels = svg.coloured(found.components[k].reshape(found.shape or (1, -1)), -most, most, "RdBu_r")
    alt = f"Loadings of feature {k}"
    return figure(f'<img src="{svg.png(pixels)}" alt="{alt}">', f"{k}: {found.usage[k]:.2g} per row").replace(
        "<figure>", '<figure class="tile">'
    )


def _loadings(found: _Features, most: float) -> str:
    """All features as lines of one picture."""
    K, D = found.components.shape
    frame = Frame(
        Range(-0.5, D - 0.5, "column", svg.ticks(-0.5, D - 0.5, 6, whole=True)),
        Range(K - 0.5, -0.5, "feature", svg.ticks(-0.5, K - 0.5, 6, whole=True)),
        int(np.clip(80 + 16 * K, 140, 420)),
    )
    drawing = svg.raster(frame, svg.coloured(found.components, -most, most, "RdBu_r"))
    return figure(frame.chart([drawing], f"Loadings of {K} features on {D} columns."), "Loadings of the features.")
