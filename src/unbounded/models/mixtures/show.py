"""Clusters in words and pictures: for the summary of a fit, and for the report of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.family import Shown, WholeDraws
from unbounded.models.labelled import partition
from unbounded.models.labelled.losses import DEFAULT, Loss, similarity, uncertainty
from unbounded.models.mixtures import rows_shown
from unbounded.models.mixtures.describe import Mark
from unbounded.report import svg
from unbounded.report.parts import cell, charts, figure, help_, paragraph, row, scale, sizes, subsection, table
from unbounded.report.phrases import counted, interval, listed
from unbounded.report.svg import Frame, Range

if TYPE_CHECKING:
    from unbounded.models.mixtures.estimator import MixtureEstimator

_SIMILAR, _LISTED = 160, 40
_HIGH = 340  # of two charts side by side
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
    heat = figure(_similarity(similarity(draws, _some(labels))), _SIMILARITY, scale(0.0, 1.0, "cividis", "probability"))
    bars = figure(sizes(amounts, "cluster", "rows", _HIGH), "Rows of each cluster of the best summary, largest first.")
    rows = rows_shown.rows_at_hand(at_hand.get("X"), len(labels), run.config)
    notes: tuple[str, ...] = ()
    if isinstance(rows, str):
        found, picture, notes, figures = _Found(labels, amounts, sure, []), heat, (rows,), [bars]
    else:
        found, figures = _Found(labels, amounts, sure, rows_shown.marks(rows, labels)), [heat, bars]
        picture = rows_shown.picture(rows, labels, amounts)
    content = charts(figures) + _table(found) + _HELP
    return Shown(amounts / amounts.sum(), content, notes, _words(found), picture)


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
    least = int(found.sure.argmin())
    sentences.append(
        f"How sure is this? On average, {overall:.0%} of a row's company, the rows of its cluster, is the same here "
        "and in a draw."
    )
    if found.sure[least] < 0.9:
        sentences.append(
            f"Least sure is cluster {least}: for its rows that is {found.sure[least]:.0%}. Draws often cut it, or join "
            "it with others."
        )
    return tuple(sentences)


_HELP = help_(
    "How to read this",
    "The clustering is the one that differs least, on average, from all draws: their best summary. How sure: of all "
    "rows that are with a row of this cluster here or in a draw, the share that are with it in both. "
    f"{rows_shown.MEANING}",
)


def _table(found: _Found) -> str:
    total = int(found.amounts.sum())
    heads = ["cluster", "rows", "share", "how sure", *(["what distinguishes it"] if found.marks else [])]
    rows = [
        row(
            str(k), cell(f"{size:,}", "rows"), cell(f"{size / total:.1%}", "share"),
            cell(f"{found.sure[k]:.0%}", "sure"),
            *([rows_shown.mark_cell(found.marks[k])] if found.marks else []),
        )
        for k, size in enumerate(found.amounts[:_LISTED])
    ]  # fmt: skip
    rest = len(found.amounts) - _LISTED
    more = paragraph(f"{rest} smaller clusters are not listed.", quiet=True) if rest > 0 else ""
    return subsection("Clusters one by one", table(heads, rows, left=(0, 4)), more)


def _some(labels: Array) -> Array:
    """Some rows in the order of their clusters."""
    some = np.linspace(0, len(labels) - 1, min(len(labels), _SIMILAR)).astype(int)
    return some[np.argsort(labels[some], kind="stable")]


def _similarity(matrix: Array) -> str:
    n = len(matrix)
    name = "row, ordered by cluster"
    axis = Range(0, n, name, svg.ticks(0, n, 5, whole=True))
    frame = Frame(axis, axis, _HIGH)
    pixels = svg.coloured(matrix[::-1], 0.0, 1.0, "cividis")
    return frame.chart([svg.raster(frame, pixels)], f"Heat map of co-clustering probabilities of {n} rows.")
