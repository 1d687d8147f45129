"""Features in words and pictures: for the summary of a fit, and for the report of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.family import Shown, WholeDraws
from unbounded.models.features.point_estimate import FeatureDraw, point_estimate
from unbounded.report import svg
from unbounded.report.parts import cell, charts, figure, help_, number, paragraph, row, scale, sizes, table, text
from unbounded.report.phrases import counted, interval, listed
from unbounded.report.svg import Frame, Range

if TYPE_CHECKING:
    from unbounded.models.features.estimator import FeatureEstimator

_TILES, _BARS, _COLUMNS = 60, 6, 60
NOISE = "sigma_x"  # the scalar of likelihoods with noise


def summary(estimator: FeatureEstimator) -> list[str]:
    usage, posterior = estimator.assignments_.mean(0, dtype=float), estimator.posterior_
    noise = [f"noise (posterior)    {_noise(posterior[NOISE].values)}"] if NOISE in posterior else []
    estimate = [f"features (estimate)  {counted(estimator.n_atoms_, estimator.n_above)}"]
    uses = [f"uses per row         {listed([f'{share:.3g}' for share in usage])}"]
    return [
        f"rows                 {len(estimator.assignments_):,}",
        *(estimate if estimator._has_estimate else []),
        f"features (posterior) {interval(posterior['n_features'])}",
        f"above 1% (posterior) {interval(posterior['above_1%'])}",
        *(uses if estimator._has_estimate else []),
        *noise,
    ]


def _noise(values: Array) -> str:
    """The posterior of the noise in words, whatever its order of magnitude."""
    low, high = np.quantile(values, [0.05, 0.95])
    return f"standard deviation {values.mean():.3g}, 90% interval {low:.3g} to {high:.3g}"


class _Features(NamedTuple):
    components: Array
    deviations: Array  # of the components, over draws
    usage: Array  # mean entry of a row
    present: Array  # the share of the draws that have each
    shape: tuple[int, int] | None  # of features as images
    names: Sequence[str] | None  # of columns

    @property
    def most(self) -> float:
        return float(np.abs(self.components).max(initial=0.0)) or 1.0


def show(run: WholeDraws, at_hand: Mapping[str, Any]) -> Shown:
    """Loadings and usage of the point estimate."""
    estimate = point_estimate([FeatureDraw.of(snapshot, scalars["log_joint"]) for snapshot, scalars in run.draws])
    shape: tuple[int, int] | None = at_hand.get("shape")
    fits = shape is not None and shape[0] * shape[1] == estimate.components.shape[1]
    columns = getattr(at_hand.get("X"), "columns", None)
    usage = estimate.assignments.mean(0, dtype=float)
    names = None if columns is None or len(columns) != estimate.components.shape[1] else [str(c) for c in columns]
    found = _Features(
        estimate.components, estimate.deviations, usage, estimate.shared, shape if fits else None, names
    )  # fmt: skip
    noise = np.array([scalars[NOISE] for _, scalars in run.draws if NOISE in scalars])
    words = [*_words(found), *([f"The noise has {_noise(noise)}."] if len(noise) else [])]
    return Shown(usage, _content(found), (), tuple(words), _picture(found))


def _words(found: _Features) -> list[str]:
    """The findings in words, with their uncertainty."""
    if not len(found.components):
        return ["No feature is in at least half of the whole draws."]
    said = [f"A row uses {found.usage.sum():.2f} of them on average, feature 0 most often ({found.usage[0]:.2f})."]
    relative = np.linalg.norm(found.deviations, axis=1) / np.maximum(np.linalg.norm(found.components, axis=1), 1e-300)
    least = int(relative.argmax())
    said.append(
        f"Loadings vary by {np.median(relative):.0%} of their size from draw to draw, most those of feature {least} "
        f"({relative[least]:.0%})."
    )
    return said


def _picture(found: _Features) -> str:
    if not len(found.components):
        return ""
    if found.shape is None:
        return _loadings(found) + scale(-found.most, found.most, "RdBu_r", "loading")
    tiles = [_tile(found, k) for k in range(min(len(found.components), _TILES))]
    said = "Each feature as an image, and under it how unsure it is (white: sure), the standard deviations over draws."
    scales = scale(-found.most, found.most, "RdBu_r", "loading")
    scales += scale(0.0, found.most, "Greys", "standard deviation")
    return f'{paragraph(said, quiet=True)}<div class="tiles">{"".join(tiles)}</div>{scales}'


_HELP = help_(
    "How to read this",
    "Draws have their features in any order: they were matched by what they contribute to the rows, and those are "
    "shown that at least half of the draws have. Bars are means over draws, whiskers two standard deviations either "
    "way. In draws: the share of the draws that have the feature.",
)


def _content(found: _Features) -> str:
    if not len(found.components):
        return paragraph("No feature is in at least half of the whole draws.")
    usage = figure(sizes(found.usage, "feature", "mean use per row"), "How much of each feature a row uses on average.")
    bars = (
        [] if found.components.shape[1] > _COLUMNS else [_bars(found, k) for k in range(min(len(found.usage), _BARS))]
    )
    return charts([usage, *bars]) + _table(found) + _HELP


def _table(found: _Features) -> str:
    names = found.names or [f"column {d}" for d in range(found.components.shape[1])]
    rows = []
    for k, loadings in enumerate(found.components[:_TILES]):
        order = np.argsort(-np.abs(loadings), kind="stable")[:4]
        said = "; ".join(f"{names[d]} {number(loadings[d], 3)} ± {number(found.deviations[k, d], 2)}" for d in order)
        rows.append(
            row(
                f"feature {k}", cell(f"{found.usage[k]:.3g}", "per row"), cell(f"{found.present[k]:.0%}", "in draws"),
                cell(text(said), "", "text wide"),
            )
        )  # fmt: skip
    return table(["feature", "per row", "in draws", "largest loadings"], rows, left=(0, 3))


def _tile(found: _Features, k: int) -> str:
    def image(values: Array, low: float, high: float, colours: str, alt: str) -> str:
        pixels = svg.coloured(values.reshape(found.shape or (1, -1)), low, high, colours)
        return f'<img src="{svg.png(pixels)}" alt="{alt}">'

    images = image(found.components[k], -found.most, found.most, "RdBu_r", f"Loadings of feature {k}")
    spread = f"Standard deviations of the loadings of feature {k}"
    images += image(found.deviations[k], 0.0, found.most, "Greys", spread)
    return figure(images, f"{k}: {found.usage[k]:.2g} per row").replace("<figure>", '<figure class="tile">')


def _bars(found: _Features, k: int) -> str:
    """Loadings of one feature with their uncertainty."""
    means, reach = found.components[k], 2.0 * found.deviations[k]
    D = len(means)
    frame = Frame(
        Range(-0.5, D - 0.5, "column", svg.ticks(-0.5, D - 0.5, 6, whole=True)),
        Range.around(np.concatenate([means - reach, means + reach, [0.0]]), f"feature {k}: loading"),
        190,
    )
    marks = [svg.bars(frame, np.arange(D + 1) - 0.5, means, zero=True)]
    marks.append(svg.whiskers(frame, np.arange(D), means - reach, means + reach))
    return figure(
        frame.chart(marks, f"Loadings of feature {k} on {D} columns, with two standard deviations either way.")
    )


def _loadings(found: _Features) -> str:
    """All features as rows of one picture."""
    K, D = found.components.shape
    frame = Frame(
        Range(-0.5, D - 0.5, "column", svg.ticks(-0.5, D - 0.5, 6, whole=True)),
        Range(K - 0.5, -0.5, "feature", svg.ticks(-0.5, K - 0.5, 6, whole=True)),
        int(np.clip(80 + 16 * K, 140, 420)),
    )
    drawing = svg.raster(frame, svg.coloured(found.components, -found.most, found.most, "RdBu_r"))
    return figure(frame.chart([drawing], f"Loadings of {K} features on {D} columns."), "Loadings of the features.")
