"""Clusters in words and pictures: for the summary of a fit, and for the report of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, is_sparse
from unbounded.categories import columns_of_strings, encoded
from unbounded.family import Shown, WholeDraws
from unbounded.models.labelled import partition
from unbounded.models.labelled.losses import DEFAULT, Loss, similarity, uncertainty
from unbounded.models.mixtures.describe import Mark, distinguishing, filled, projection
from unbounded.report import looks, svg
from unbounded.report.parts import (
    cell,
    charts,
    figure,
    figure_with_legend,
    help_,
    number,
    paragraph,
    row,
    scale,
    sizes,
    subsection,
    table,
    text,
)  # fmt: skip
from unbounded.report.phrases import counted, interval, listed
from unbounded.report.svg import Frame, Range
from unbounded.rows import fingerprint
from unbounded.sources import Source

if TYPE_CHECKING:
    from unbounded.models.mixtures.estimator import MixtureEstimator

_POINTS, _SIMILAR, _DESCRIBED, _LISTED = 2500, 160, 20_000, 40
_LEVELS = ("Categorical", "Bernoulli", "Product")  # likelihoods of which whole numbers may be names
_ONE_SMALL = "One cluster has less than 1% of the rows."
_SIMILARITY = "Posterior probability that two rows share a cluster, for some rows in the order of their clusters."


def summary(estimator: MixtureEstimator) -> list[str]:
    estimate = [f"clusters (estimate)  {counted(estimator.n_clusters_, estimator.n_above)}"]
    sizes = [f"cluster sizes        {listed([f'{size:,}' for size in estimator.cluster_sizes_])}"]
    return [
        f"rows                 {len(estimator.labels_):,}",
        *(estimate if estimator._has_estimate else []),
        f"clusters (posterior) {interval(estimator.posterior_['n_clusters'])}",
        f"above 1% (posterior) {interval(estimator.posterior_['above_1%'])}",
        *(sizes if estimator._has_estimate else []),
    ]


class _Found(NamedTuple):
    labels: Array
    amounts: Array  # rows of each cluster
    sure: Array  # of each cluster: one less the mean uncertainty of its rows
    marks: list[list[Mark]]  # what distinguishes each; empty where the rows are not at hand


def show(run: WholeDraws, at_hand: Mapping[str, Any]) -> Shown:
    """The rows if they are given, sizes and similarities of the point estimate, and what distinguishes clusters."""
    draws = [snapshot["labels"] for snapshot, _ in run.draws]
    kind, cost = at_hand.get("loss"), at_hand.get("merge_cost")
    loss = Loss(DEFAULT.kind if kind is None else kind, DEFAULT.merge_cost if cost is None else cost)
    labels = partition.point_estimate(draws, loss)
    amounts = np.bincount(labels)
    sure = np.bincount(labels, 1.0 - uncertainty(labels, draws)) / amounts
    X, names = at_hand.get("X"), _names(at_hand)
    notes = _why_not(X, labels, run.config)
    marks = [] if notes else _marks(X, labels, names, run.config)
    found = _Found(labels, amounts, sure, marks)
    heat = figure(_similarity(similarity(draws, _some(labels))), _SIMILARITY)
    bars = figure(sizes(amounts, "cluster", "rows"), "Rows of each cluster of the point estimate, largest first.")
    drawn = None if notes else _plane(_as_fitted(X), labels, names)
    colours = scale(0.0, 1.0, "cividis", "probability of sharing a cluster")
    picture = heat if drawn is None else _scatter(drawn, amounts)
    content = charts([bars] if drawn is None else [heat, bars]) + colours + _table(found) + _HELP
    return Shown(amounts / amounts.sum(), content, notes, _words(found), picture)


def _names(at_hand: Mapping[str, Any]) -> list[str] | None:
    """Of the columns, as they came with the rows."""
    columns = getattr(at_hand.get("X"), "columns", None)
    return None if columns is None else [str(name) for name in columns]


def _words(found: _Found) -> tuple[str, ...]:
    """What was found, and how sure that is."""
    largest, n = int(found.amounts[0]), int(found.amounts.sum())
    small = int((found.amounts < 0.01 * n).sum())
    sentences = [f"The largest cluster has {largest:,} of {n:,} rows ({largest / n:.0%})."]
    if small:
        sentences.append(f"{small} clusters have less than 1% of the rows each." if small > 1 else _ONE_SMALL)
    if len(found.amounts) == 1:
        return (sentences[0],)
    overall = float((found.sure * found.amounts).sum() / n)
    sentences.append(f"In an average draw, {overall:.0%} of a row's company is the same as in this clustering.")
    least = int(found.sure.argmin())
    if found.sure[least] < 0.9:
        sentences.append(f"Least sure is cluster {least}, with {found.sure[least]:.0%}.")
    return tuple(sentences)


_HELP = help_(
    "How to read this",
    "The clustering is the one that differs least, on average, from all draws. How sure: of all rows that are with a "
    "row of this cluster here or in a draw, the share that are with it in both. What distinguishes a cluster: the "
    "columns whose mean differs most from that of all rows, in standard deviations of the column (sd); of "
    "categories, the values that it has more often.",
)


def _table(found: _Found) -> str:
    total = int(found.amounts.sum())
    heads = ["cluster", "rows", "share", "how sure", *(["what distinguishes it"] if found.marks else [])]
    rows = [
        row(
            str(k), cell(f"{size:,}", "rows"), cell(f"{size / total:.1%}", "share"),
            cell(f"{found.sure[k]:.0%}", "sure"),
            *([cell(text("; ".join(map(_mark, found.marks[k]))), "", "text wide")] if found.marks else []),
        )
        for k, size in enumerate(found.amounts[:_LISTED])
    ]  # fmt: skip
    rest = len(found.amounts) - _LISTED
    more = paragraph(f"{rest} smaller clusters are not listed.", quiet=True) if rest > 0 else ""
    return subsection("Clusters one by one", table(heads, rows, left=(0, 4)), more)


def _mark(mark: Mark) -> str:
    if mark.level:
        return f"{mark.column} = {mark.level} in {mark.own:.0%} (of all rows {mark.usual:.0%})"
    side = "high" if mark.effect > 0 else "low"
    return f"{mark.column} {side}: {number(mark.own, 3)} ({mark.effect:+.1f} sd)"


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
    words = columns_of_strings(X)
    rows = np.asarray(encoded(X, words)[0] if words else X)
    return np.ascontiguousarray(rows, np.float32 if rows.dtype == np.float32 else np.float64)


def _sample(X: Any, labels: Array, most: int) -> tuple[Array, Array]:
    """Evenly spaced rows with their labels, in memory."""
    shown = np.linspace(0, len(labels) - 1, min(len(labels), most)).astype(int)
    return X[shown].astype(float), labels[shown]


def _marks(X: Any, labels: Array, names: Sequence[str] | None, config: Mapping[str, Any]) -> list[list[Mark]]:
    rows, own = _sample(_as_fitted(X), labels, _DESCRIBED)
    levels = str(config["likelihood"].get("name")) in _LEVELS
    words = {} if isinstance(X, Source) else encoded(X, columns_of_strings(X))[1]
    marks = distinguishing(rows, own, _column_names(rows, names), levels, words)
    return marks + [[] for _ in range(int(labels.max()) + 1 - len(marks))]  # clusters of which no row is there


def _column_names(rows: Array, names: Sequence[str] | None) -> list[str]:
    return [f"column {d}" for d in range(rows.shape[1])] if names is None else list(names)


class _Plane(NamedTuple):
    """Some rows in two dimensions."""

    points: Array
    labels: Array
    names: Sequence[str]


def _plane(X: Any, labels: Array, names: Sequence[str] | None) -> _Plane:
    rows, own = _sample(X, labels, _POINTS)
    points, axes = projection(filled(rows, own), own, _column_names(rows, names))
    return _Plane(points, own, axes)


def _scatter(drawn: _Plane, amounts: Array) -> str:
    """Clusters that touch differ in colour, and the larger ones have their number in their middle."""
    x, y = drawn.points.T
    frame = Frame(Range.around(x, drawn.names[0]), Range.around(y, drawn.names[1]), 300)
    ranks = looks.apart(drawn.points, drawn.labels, len(amounts))
    inside = [drawn.labels == k for k in range(len(amounts))]
    marks = [svg.points(frame, x[own], y[own], rank) for own, rank in zip(inside, ranks, strict=True)]
    marks += [
        svg.label(frame, float(np.median(x[own])), float(np.median(y[own])), str(k))
        for k, own in enumerate(inside) if own.any() and amounts[k] >= 0.01 * amounts.sum()
    ]  # fmt: skip
    alt = f"{len(x):,} rows in two dimensions, coloured by {len(amounts)} clusters."
    names = [f"{k} ({size:,} rows)" for k, size in enumerate(amounts)]
    caption = f"{len(x):,} of {amounts.sum():,} rows, coloured by cluster."
    return figure_with_legend(frame.chart(marks, alt), caption, names, "points", ranks)


def _similarity(matrix: Array) -> str:
    n = len(matrix)
    name = "row, ordered by cluster"
    axis = Range(0, n, name, svg.ticks(0, n, 5, whole=True))
    frame = Frame(axis, axis, 340)
    pixels = svg.coloured(matrix[::-1], 0.0, 1.0, "cividis")
    return frame.chart([svg.raster(frame, pixels)], f"Heat map of co-clustering probabilities of {n} rows.")
