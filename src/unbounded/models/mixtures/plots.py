"""Figures of clusters, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unbounded.arrays import Array
from unbounded.report.phrases import without_math
from unbounded.report.plots import GREY, MAX_LEGEND, looks, new_figure
from unbounded.sources import Source

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def clusters(X: Any, labels: Array, names: Sequence[str] | None = None, max_rows: int = 20000) -> Figure:
    """The rows coloured by cluster: a histogram of one column, a scatter of two, or of two principal components.

    `names` are those of the columns. Of more than `max_rows` rows, evenly spaced ones are drawn; rows with missing
    entries are left out. The legend counts all rows.
    """
    X, labels = X if isinstance(X, Source) else np.asarray(X), np.asarray(labels)
    if len(X) != len(labels):
        raise ValueError(f"there are {len(labels)} labels for {len(X)} rows.")
    shown = np.linspace(0, len(X) - 1, min(len(X), max_rows)).astype(int)
    rows = X[shown].astype(float)
    rows = rows if rows.ndim == 2 else rows[:, None]
    complete = np.isfinite(rows).all(1)
    points, axis_names = plane(rows[complete], names)
    groups, sizes = labels[shown[complete]], _sizes(labels)
    figure = new_figure(8.0, 5.5)
    axes = figure.subplots()
    draw = _histograms if points.shape[1] == 1 else _scatter
    _size_legend(figure, sizes, draw(axes, points, groups, list(sizes)))
    axes.set_xlabel(without_math(axis_names[0]))
    axes.set_ylabel(without_math(axis_names[1]))
    _note_missing(axes, len(points), len(labels))
    return figure


def _sizes(labels: Array) -> dict[Any, int]:
    """Cluster -> number of rows, largest first: a cluster's look is its rank, the same in every figure."""
    values, counts = np.unique(labels, return_counts=True)
    order = np.lexsort((values, -counts))
    return {values[k]: int(counts[k]) for k in order}


def plane(X: Array, names: Sequence[str] | None) -> tuple[Array, list[str]]:
    """At most two coordinates of the rows, and what the axes are called."""
    if X.shape[1] > 2:
        return _principal(X)
    names = list(names or [f"column {d}" for d in range(X.shape[1])])
    return X, [*names, "rows per bin"][:2]


def _principal(X: Array) -> tuple[Array, list[str]]:
    """Scores on the first two principal components of the columns, each scaled to unit variance."""
    centred = X - X.mean(0) if len(X) else X
    scale = centred.std(0) if len(X) else np.ones(X.shape[1])
    centred = centred / np.where(scale > 0, scale, 1.0)
    variances, axes = np.linalg.eigh(centred.T @ centred)
    variances, axes = variances[::-1][:2] / max(variances.sum(), 1e-300), axes[:, ::-1][:, :2]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), [0, 1]])
    kinds = [f"principal component {k + 1} ({share:.0%} of variance)" for k, share in enumerate(variances)]
    return centred @ axes, kinds


def _scatter(axes: Axes, points: Array, labels: Array, order: Sequence[Any]) -> list[Artist]:
    """Large clusters first, so that small ones lie on top of them; many points are small and translucent."""
    from matplotlib.lines import Line2D

    area, alpha = np.clip(60_000 / max(len(points), 1), 8, 28), np.clip(2500 / max(len(points), 1), 0.4, 0.8)
    samples: list[Artist] = []
    for cluster, (colour, marker, _) in zip(order, looks(), strict=False):
        x, y = points[labels == cluster].T
        axes.scatter(x, y, s=area, c=colour, marker=marker, alpha=alpha, linewidths=0, rasterized=len(points) > 5000)
        samples.append(Line2D([], [], color=colour, marker=marker, linestyle=""))
    return samples


def _histograms(axes: Axes, points: Array, labels: Array, order: Sequence[Any]) -> list[Artist]:
    """Clusters stacked on common bins, so that the outline is the histogram of all rows."""
    from matplotlib.patches import Patch

    bins = np.histogram_bin_edges(points, 60)
    base = np.zeros(len(bins) - 1)
    samples: list[Artist] = []
    for cluster, (colour, _, hatch) in zip(order, looks(), strict=False):
        style: dict[str, Any] = {"facecolor": colour, "edgecolor": "white", "hatch": hatch, "linewidth": 0}
        top = base + np.histogram(points[labels == cluster], bins)[0]
        axes.stairs(top, bins, baseline=base, fill=True, **style)
        samples.append(Patch(**style))
        base = top
    axes.set_ylim(bottom=0)
    return samples


def _size_legend(figure: Figure, sizes: dict[Any, int], samples: list[Artist]) -> None:
    """A sample of each cluster's look with its size; past 20 clusters, dots."""
    from matplotlib.patches import Patch

    texts = [f"{cluster} ({size:,})" for cluster, size in sizes.items()]
    if len(texts) > MAX_LEGEND:
        texts, samples = [*texts[:MAX_LEGEND], "..."], [*samples[:MAX_LEGEND], Patch(visible=False)]
    figure.legend(samples, texts, title="cluster (rows)", loc="outside right upper", frameon=False)


def _note_missing(axes: Axes, shown: int, n_rows: int) -> None:
    if shown < n_rows:
        axes.set_title(f"{shown:,} of {n_rows:,} rows shown", fontsize="small", color=GREY, loc="right")


def similarity(matrix: Array, order: Array | None = None) -> Figure:
    """A heat map of co-clustering probabilities; `order` has a label for each row, by which rows are sorted."""
    matrix = np.asarray(matrix, float)
    figure = new_figure(6.6, 5.6)
    axes = figure.subplots()
    if order is not None:
        rank = np.argsort(order, kind="stable")
        matrix = matrix[np.ix_(rank, rank)]
        _boundaries(axes, np.asarray(order)[rank])
    image = axes.imshow(matrix, cmap="cividis", vmin=0, vmax=1, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="probability of sharing a cluster", shrink=0.85)
    axes.set_xlabel("row" if order is None else "row, ordered by cluster")
    axes.set_ylabel(axes.get_xlabel())
    axes.spines[:].set_visible(False)
    return figure


def _boundaries(axes: Axes, ordered: Array) -> None:
    """Thin lines between the clusters, while they are few enough to leave the picture visible."""
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 0.5
    for edge in edges if len(edges) < 40 else ():
        axes.axhline(edge, color="white", linewidth=0.6)
        axes.axvline(edge, color="white", linewidth=0.6)
