"""Clusters in words and pictures: for the summary of a fit, and for the report of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, is_sparse
from unbounded.contracts import Shown, WholeDraws
from unbounded.models.labelled import partition
from unbounded.models.labelled.losses import DEFAULT, Loss, similarity
from unbounded.models.mixtures.plots import plane
from unbounded.report import svg
from unbounded.report.parts import charts, figure, figure_with_legend, scale, sizes
from unbounded.report.svg import Frame, Range
from unbounded.report.words import counted, interval, listed
from unbounded.rows import fingerprint
from unbounded.sources import Source

if TYPE_CHECKING:
    from unbounded.models.mixtures.estimator import MixtureEstimator

_POINTS, _SIMILAR = 2500, 160
_SIMILARITY = "Posterior probability that two rows share a cluster, for some rows in the order of their clusters."


def summary(estimator: MixtureEstimator) -> list[str]:
    return [
        f"rows                 {len(estimator.labels_):,}",
        f"clusters (estimate)  {counted(estimator.n_clusters_, estimator.n_above)}",
        f"clusters (posterior) {interval(estimator.posterior_['n_clusters'])}",
        f"above 1% (posterior) {interval(estimator.posterior_['above_1%'])}",
        f"cluster sizes        {listed([f'{size:,}' for size in estimator.cluster_sizes_])}",
    ]


def show(run: WholeDraws, at_hand: Mapping[str, Any]) -> Shown:
    """Sizes and similarities of the point estimate, and its rows if they are given."""
    draws = [snapshot["labels"] for snapshot, _ in run.draws]
    kind, cost = at_hand.get("loss"), at_hand.get("merge_cost")
    loss = Loss(DEFAULT.kind if kind is None else kind, DEFAULT.merge_cost if cost is None else cost)
    labels = partition.point_estimate(draws, loss)
    amounts = np.bincount(labels)
    pictures = [
        figure(sizes(amounts, "cluster", "rows"), "Rows of each cluster of the point estimate, largest first."),
        figure(_similarity(similarity(draws, _some(labels))), _SIMILARITY),
    ]
    X = at_hand.get("X")
    notes = _why_not(X, labels, run.config)
    drawn = None if notes else _plane(_as_fitted(X), labels)
    if drawn is not None:
        pictures.insert(0, _scatter(drawn, amounts))
    content = charts(pictures) + scale(0.0, 1.0, "cividis", "probability of sharing a cluster")
    return Shown(amounts / amounts.sum(), content, notes)


def _some(labels: Array) -> Array:
    """Some rows in the order of their clusters."""
    some = np.linspace(0, len(labels) - 1, min(len(labels), _SIMILAR)).astype(int)
    return some[np.argsort(labels[some], kind="stable")]


def _why_not(X: Any, labels: Array, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Why the rows cannot be drawn; nothing if they can."""
    if X is None:
        return ("The data are not at hand, so the rows are not drawn.",)
    if is_sparse(X):
        return ("Sparse rows are not drawn.",)
    X = _as_fitted(X)
    if len(X) != len(labels) or fingerprint(X) != config.get("data"):
        return ("The data have changed since the fit, so the rows are not drawn.",)
    return ()


def _as_fitted(X: Any) -> Any:
    """Rows of any table in the form whose fingerprint a fit takes."""
    if isinstance(X, Source):
        return X
    rows = np.asarray(X)
    return np.ascontiguousarray(rows, np.float32 if rows.dtype == np.float32 else np.float64)


class _Plane(NamedTuple):
    """Some rows in two dimensions."""

    points: Array
    labels: Array
    names: Sequence[str]


def _plane(X: Any, labels: Array) -> _Plane | None:
    shown = np.linspace(0, len(labels) - 1, min(len(labels), _POINTS)).astype(int)
    rows = X[shown].astype(float)
    whole = np.isfinite(rows).all(1)
    if not whole.any():
        return None
    points, names = plane(rows[whole], None)
    if points.shape[1] == 1:
        points, names = np.column_stack([points[:, 0], shown[whole]]), [names[0], "row"]
    return _Plane(points, labels[shown[whole]], names)


def _scatter(drawn: _Plane, amounts: Array) -> str:
    x, y = drawn.points.T
    frame = Frame(Range.around(x, drawn.names[0]), Range.around(y, drawn.names[1]), 300)
    marks = [svg.points(frame, x[drawn.labels == k], y[drawn.labels == k], k) for k in range(len(amounts))]
    alt = f"{len(x):,} rows in two dimensions, coloured by {len(amounts)} clusters."
    names = [f"{k} ({size:,} rows)" for k, size in enumerate(amounts)]
    caption = f"{len(x):,} of {amounts.sum():,} rows, coloured by cluster."
    return figure_with_legend(frame.chart(marks, alt), caption, names, "points")


def _similarity(matrix: Array) -> str:
    n = len(matrix)
    name = "row, ordered by cluster"
    axis = Range(0, n, name, svg.ticks(0, n, 5, whole=True))
    frame = Frame(axis, axis, 340)
    pixels = svg.coloured(matrix[::-1], 0.0, 1.0, "cividis")
    return frame.chart([svg.raster(frame, pixels)], f"Heat map of co-clustering probabilities of {n} rows.")
