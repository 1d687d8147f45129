"""Colours and marks of the groups of a scatter plot: groups that touch have different colours."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from unbounded.arrays import Array
from unbounded.report.svg import N_COLOURS, N_MARKS

_NEIGHBOURS = 8
_ALIKE = {  # how alike some colours are
    (0, 4): 0.5, (1, 5): 0.5, (1, 6): 0.4, (3, 5): 0.2, (2, 6): 0.2, (0, 7): 0.4, (3, 7): 0.3, (5, 8): 0.4, (1, 8): 0.3,
    (6, 8): 0.3, (4, 9): 0.2, (8, 9): 0.2,
}  # fmt: skip
_SWEEPS = 50


def contacts(points: Array, groups: Array, n_groups: int) -> Array:
    """[n_groups, n_groups]: how many of the nearest points of one group belong to another."""
    found = np.zeros((n_groups, n_groups))
    if len(points) < 2:
        return found
    spread = np.ptp(points, axis=0)
    tree = cKDTree(points / np.where(spread > 0, spread, 1.0))
    near = np.asarray(tree.query(tree.data, k=min(_NEIGHBOURS + 1, len(points)))[1])
    for column in near.T[1:]:
        np.add.at(found, (groups, groups[column]), 1.0)
    np.fill_diagonal(found, 0.0)
    return found + found.T


def apart(points: Array, groups: Array, n_groups: int) -> list[int]:
    """The rank (svg.look) of every group's look: each has its own, and groups that touch have other colours; so have
    all of them where there are colours enough.

    Colours are improved one after another until none can be; where the groups do not touch, near ones repel a little.
    """
    touch = contacts(points, groups, n_groups)
    touch /= max(touch.max(), 1.0)
    weights = np.where(touch > 0, 1.0 + touch, 0.0) + 0.01 * _nearness(points, groups, n_groups)
    penalty = np.eye(N_COLOURS)
    for (a, b), value in _ALIKE.items():
        penalty[a, b] = penalty[b, a] = value
    colours = np.arange(n_groups) % N_COLOURS
    most = 1 if n_groups <= N_COLOURS else max(N_MARKS, -(-n_groups // N_COLOURS))  # groups of one colour
    for _ in range(_SWEEPS):
        before = colours.copy()
        for group in np.argsort(-weights.sum(1), kind="stable"):
            others = np.arange(n_groups) != group
            used = np.bincount(colours[others], minlength=N_COLOURS)
            full = 10.0 * (used >= most)
            costs = (penalty[:, colours[others]] * weights[group, others]).sum(1) + 0.01 * used + full
            colours[group] = int(costs.argmin())
        if (colours == before).all():
            break
    turns = np.zeros(N_COLOURS, int)
    ranks = []
    for colour in colours:
        ranks.append(int(turns[colour]) * N_COLOURS + int(colour))
        turns[colour] += 1
    return ranks


def _nearness(points: Array, groups: Array, n_groups: int) -> Array:
    """Between 0, far away, and 1; 0 for groups without points."""
    spread = np.ptp(points, axis=0) if len(points) else np.ones(2)
    sums = np.zeros((n_groups, points.shape[1]))
    np.add.at(sums, groups, points)
    sizes = np.bincount(groups, minlength=n_groups)
    centres = sums / np.maximum(sizes, 1)[:, None] / np.where(spread > 0, spread, 1.0)
    gaps = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    near: Array = np.exp(-4.0 * gaps) * (sizes > 0)[:, None] * (sizes > 0)
    np.fill_diagonal(near, 0.0)
    return near
