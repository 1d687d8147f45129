"""What clusters are like: a projection of the rows that shows them, and the columns that distinguish each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array

_SHRINKAGE = 0.05  # of the covariance within clusters towards a multiple of the identity
_LEVELS = 12  # the most values of a column of levels
_NAMED = 3  # columns that are named for a cluster


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


def projection(rows: Array, labels: Array, names: Sequence[str]) -> tuple[Array, list[str]]:
    """Two coordinates that keep the clusters apart, and what the axes are called.

    Of more than two columns: the directions along which clusters differ most, in units of their spread (linear
    discriminants); where there are too few clusters for two of those, the first principal component of what is left.
    """
    if rows.shape[1] == 1:
        return np.column_stack([rows[:, 0], np.arange(len(rows))]), [names[0], "row"]
    if rows.shape[1] == 2:
        return rows, list(names)
    sd = rows.std(0)
    scaled = (rows - rows.mean(0)) / np.where(sd > 0, sd, 1.0)
    axes, kinds = _discriminants(scaled, labels)
    if axes.shape[1] < 2:
        basis, _ = np.linalg.qr(axes) if axes.size else (np.zeros((rows.shape[1], 0)), None)
        rest = scaled - scaled @ basis @ basis.T
        _, _, right = np.linalg.svd(rest.T @ rest)
        axes = np.column_stack([axes, right[: 2 - axes.shape[1]].T])
        kinds += ["principal component"] * (2 - len(kinds))
    return scaled @ axes, [f"{kind}: {_heaviest(axis, names)}" for kind, axis in zip(kinds, axes.T, strict=True)]


def _discriminants(scaled: Array, labels: Array) -> tuple[Array, list[str]]:
    """[columns, at most 2]."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    kept = np.bincount(labels)[labels] > 2
    n_clusters = len(np.unique(labels[kept]))
    if n_clusters < 2:
        return np.zeros((scaled.shape[1], 0)), []
    number = min(2, n_clusters - 1)
    found = LinearDiscriminantAnalysis(solver="eigen", shrinkage=_SHRINKAGE, n_components=number)
    axes = found.fit(scaled[kept], labels[kept]).scalings_[:, :number]
    axes = axes * np.where(axes[np.abs(axes).argmax(0), np.arange(number)] < 0, -1.0, 1.0)
    return axes, [f"discriminant {j + 1}" for j in range(number)]


def _heaviest(axis: Array, names: Sequence[str]) -> str:
    """The columns that a direction is mostly made of."""
    order = np.argsort(-np.abs(axis), kind="stable")[:2]
    return ", ".join(f"{'+' if axis[j] > 0 else '-'} {_short(names[j])}" for j in order)


def _short(name: str, most: int = 14) -> str:
    return name if len(name) <= most else name[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


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
        elif levels and 1 < len(kinds) <= _LEVELS and (kinds == np.rint(kinds)).all():
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
