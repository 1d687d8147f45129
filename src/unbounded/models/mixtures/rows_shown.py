"""Rows of a fit that its report has at hand: in a plane, coloured by cluster, and what distinguishes each cluster.

Groups of rows are shown like this, too; there, clusters are topics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, is_sparse
from unbounded.categories import Categories, columns_of_strings, encoded
from unbounded.models.mixtures.describe import Mark, Plane, amounts_only, distinguishing, filled, projection
from unbounded.report import looks, svg
from unbounded.report.parts import cell, figure_with_legend, number, text
from unbounded.report.svg import Frame, Range
from unbounded.rows import fingerprint
from unbounded.sources import Source

_POINTS, _DESCRIBED = 2500, 20_000
_LEVELS = ("Categorical", "Bernoulli", "Product")  # likelihoods of which whole numbers may be names

MEANING = (
    "What distinguishes: the columns whose mean differs most from that of all rows, in standard deviations of the "
    "column (sd); of categories, the values that are there more often."
)


class ShownRows(NamedTuple):
    """As the fit had them, in the order of its labels."""

    X: Any
    names: Sequence[str]  # of the columns
    words: Categories  # what codes stand for, by column
    levels: bool  # whether whole numbers of few kinds may be categories


def rows_at_hand(X: Any, n_rows: int, config: Mapping[str, Any], order: Any = None) -> ShownRows | str:
    """The rows, or a sentence on why they cannot be shown. order: in which the fit has them, if not as given."""
    if X is None:
        return "The data are not at hand, so the rows are not drawn."
    if is_sparse(X):
        return "Sparse rows are not drawn."
    columns = getattr(X, "columns", None)
    words = {} if isinstance(X, Source) else encoded(X, columns_of_strings(X))[1]
    rows = _as_fitted(X)
    rows = rows if order is None or len(rows) != n_rows else rows[order]
    if len(rows) != n_rows or fingerprint(rows) != config.get("data"):
        return "The data have changed since the fit, so the rows are not drawn."
    names = [f"column {d}" for d in range(rows.shape[1])] if columns is None else [str(name) for name in columns]
    return ShownRows(rows, names, words, str(config["likelihood"].get("name")) in _LEVELS)


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


def marks(rows: ShownRows, labels: Array) -> list[list[Mark]]:
    """What distinguishes each cluster; of one none of whose rows is in the sample, nothing."""
    sample, own = _sample(rows.X, labels, _DESCRIBED)
    found = distinguishing(sample, own, rows.names, rows.levels, rows.words)
    return found + [[] for _ in range(int(labels.max()) + 1 - len(found))]


def mark_cell(found: Sequence[Mark]) -> str:
    """A cell of a table with what distinguishes a cluster."""
    return cell(text("; ".join(map(_said, found))), "", "text wide")


def _said(mark: Mark) -> str:
    if mark.level:
        return f"{mark.column} = {mark.level} in {mark.own:.0%} (of all rows {mark.overall:.0%})"
    side = "high" if mark.effect > 0 else "low"
    return f"{mark.column} {side}: {number(mark.own, 3)} ({mark.effect:+.1f} sd)"


def picture(rows: ShownRows, labels: Array, amounts: Array, atom: str = "cluster") -> str:
    """Some rows in two dimensions. amounts: the rows of each cluster."""
    sample, own = _sample(rows.X, labels, _POINTS)
    shown = amounts_only(sample, rows.words, rows.levels)
    names = [rows.names[j] for j in shown]
    return _scatter(projection(filled(sample, own)[:, shown], own, names), own, amounts, atom)


def _scatter(plane: Plane, labels: Array, amounts: Array, atom: str) -> str:
    """Clusters that touch differ in colour, and the larger ones have their number in their middle."""
    x, y = plane.points.T
    frame = Frame(Range.around(x, plane.axes[0]), Range.around(y, plane.axes[1]), 300)
    ranks = looks.apart(plane.points, labels, len(amounts))
    inside = [labels == k for k in range(len(amounts))]
    drawn = [svg.points(frame, x[own], y[own], rank) for own, rank in zip(inside, ranks, strict=True)]
    large = [k for k, own in enumerate(inside) if own.any() and amounts[k] >= 0.01 * amounts.sum()]
    middles = np.array([[np.median(x[inside[k]]), np.median(y[inside[k]])] for k in large]).reshape(-1, 2)
    drawn.append(svg.labels(frame, middles[:, 0], middles[:, 1], [str(k) for k in large]))
    alt = f"{len(x):,} rows in two dimensions, coloured by {len(amounts)} {atom}s."
    names = [f"{k} ({size:,} rows)" for k, size in enumerate(amounts)]
    caption = f"{len(x):,} of {amounts.sum():,} rows, coloured by {atom}. {plane.meaning}".rstrip()
    return figure_with_legend(frame.chart(drawn, alt), caption, names, "points", ranks)
