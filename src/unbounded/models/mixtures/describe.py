"""What clusters are like: a projection of the rows that shows them, and the columns that distinguish each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array

_SHRINKAGE = 0.05  # of the covariance within clusters towards a multiple of the identity
_LEVELS = 12  # the most values of a column of levels
_NAMED = 3  # columns that are named for a cluster
_AXIS = 40  # letters that fit along an axis
_MINUS = "\N{MINUS SIGN}"


def filled(rows: Array, labels: Array) -> Array:
    """Rows with missing values replaced by the means of their cluster, or of the column."""
    out = rows.copy()
    holes = ~np.isfinite(out)
    if not holes.any():
        return out
    seen = np.where(holes, 0.0, out)
    column = seen.sum(0) / np.maximum((~holes).sum(0), 1)
    for k in np.unique(labels[holes.any(1)]):
        own = labels == k
        count = (~holes[own]).sum(0)
        means = np.where(count > 0, seen[own].sum(0) / np.maximum(count, 1), column)
        out[own] = np.where(holes[own], means, out[own])
    return out


class Plane(NamedTuple):
    """Rows in two dimensions: points [rows, 2], what the axes are called, and what they mean, in a sentence."""

    points: Array
    axes: tuple[str, str]
    meaning: str


def amounts_only(rows: Array, words: Collection[int], levels: bool) -> list[int]:
    """The columns to project: amounts, if there are two; a category would cut the rows into stripes.

    words: columns of categories. levels: so may whole numbers of few kinds be.
    """
    amounts = [j for j, values in enumerate(rows.T) if j not in words and not (levels and _are_levels(values))]
    return amounts if len(amounts) >= 2 else list(range(rows.shape[1]))


def _are_levels(values: Array) -> bool:
    kinds = np.unique(values[np.isfinite(values)])
    return 1 < len(kinds) <= _LEVELS and bool((kinds == np.rint(kinds)).all())


def projection(rows: Array, labels: Array, names: Sequence[str]) -> Plane:
    """Two coordinates that keep the clusters apart.

    Of more than two columns: the directions along which clusters differ most, in units of their spread (linear
    discriminants); where there are too few clusters for two of those, the first principal component of what is left.
    """
    if rows.shape[1] == 1:
        return Plane(np.column_stack([rows[:, 0], np.arange(len(rows))]), (names[0], "row"), "")
    if rows.shape[1] == 2:
        return Plane(rows, (names[0], names[1]), "")
    sd = rows.std(0)
    scaled = (rows - rows.mean(0)) / np.where(sd > 0, sd, 1.0)
    axes = _discriminants(scaled, labels)
    found = axes.shape[1]
    if found < 2:
        basis, _ = np.linalg.qr(axes) if axes.size else (np.zeros((rows.shape[1], 0)), None)
        rest = scaled - scaled @ basis @ basis.T
        _, _, right = np.linalg.svd(rest.T @ rest)
        axes = np.column_stack([axes, right[: 2 - found].T])
    first, second = (_heaviest(axis, names) for axis in axes.T)
    return Plane(scaled @ axes, (first, second), _MEANINGS[found])


_NAMES_OF_AXES = f"An axis is named by the columns with which it rises (+) or falls ({_MINUS}) most."
_MEANINGS = (
    f"Across and up: the directions in which the rows vary most (principal components). {_NAMES_OF_AXES}",
    "Across: the direction in which the two differ most, for their spread (linear discriminant); up: that in which "
    f"the rows vary most otherwise (principal component). {_NAMES_OF_AXES}",
    "Across and up: the directions in which they differ most, for their spread (linear discriminants). "
    f"{_NAMES_OF_AXES}",
)


def _discriminants(scaled: Array, labels: Array) -> Array:
    """[columns, at most 2]."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    kept = np.bincount(labels)[labels] > 2
    n_clusters = len(np.unique(labels[kept]))
    if n_clusters < 2:
        return np.zeros((scaled.shape[1], 0))
    number = min(2, n_clusters - 1)
    found = LinearDiscriminantAnalysis(solver="eigen", shrinkage=_SHRINKAGE, n_components=number)
    axes: Array = found.fit(scaled[kept], labels[kept]).scalings_[:, :number]
    return axes * np.where(axes[np.abs(axes).argmax(0), np.arange(number)] < 0, -1.0, 1.0)


def _heaviest(axis: Array, names: Sequence[str]) -> str:
    """The columns that a direction is mostly made of; one alone where the names of two are too long for an axis."""
    order = np.argsort(-np.abs(axis), kind="stable")[:2]
    one, *more = [f"{'+' if axis[j] > 0 else _MINUS} {names[j]}" for j in order]
    both = ", ".join([one, *more])
    return both if len(both) <= _AXIS else one if len(one) <= _AXIS else one[: _AXIS - 1] + "\N{HORIZONTAL ELLIPSIS}"


class Mark(NamedTuple):
    """A column in which a cluster is unlike the others."""

    column: str
    level: str  # which value it often has; "": a number
    own: float  # its mean, or the share of its rows with the level
    overall: float  # of all rows
    effect: float  # in standard deviations


def distinguishing(
    rows: Array, labels: Array, names: Sequence[str], levels: bool, words: Mapping[int, Any] | None = None
) -> list[list[Mark]]:
    """For every cluster the columns in which it differs most from all rows, the most telling first.

    levels: whole numbers of few kinds are categories rather than amounts. words: what the codes of a column stand for.
    """
    known = words or {}
    marks: list[list[Mark]] = [[] for _ in range(int(labels.max()) + 1)]
    for j, name in enumerate(names):
        seen = np.isfinite(rows[:, j])
        values, own = rows[seen, j], labels[seen]
        kinds, times = np.unique(values, return_counts=True)
        if j in known:
            often = kinds[np.sort(np.argsort(-times, kind="stable")[:_LEVELS])].astype(int)
            parts = [(str(known[j][code]), (values == code).astype(float)) for code in often]
        elif levels and _are_levels(values):
            parts = [(f"{kind:g}", (values == kind).astype(float)) for kind in kinds]
        else:
            parts = [("", values)]
        for level, part in parts:
            for k, mark in _marks(part, own, name, level).items():
                marks[k].append(mark)
    return [sorted(found, key=lambda mark: -abs(mark.effect))[:_NAMED] for found in marks]


def _marks(values: Array, labels: Array, name: str, level: str) -> dict[int, Mark]:
    sd = values.std() if len(values) else 0.0
    if not sd > 0:
        return {}
    sizes = np.bincount(labels)
    means = np.bincount(labels, values) / np.maximum(sizes, 1)
    overall = float(values.mean())
    return {
        int(k): Mark(name, level, float(means[k]), overall, float((means[k] - overall) / sd))
        for k in np.flatnonzero(sizes)
        if not level or means[k] > overall  # a rarer level says less than the one that is more common instead
    }
