"""Point estimates of a partition from posterior draws: the least expected loss that a search finds (losses.py).

The expected loss of a partition over S draws is a sum over the cells of S contingency tables, so that moving rows from
one cluster to another changes two columns of them, and its accounting is exact. From several starts the search sweeps
over the rows, merges clusters, and cuts clusters as single draws do, until nothing helps. No estimate has more clusters
than half of the draws: rows that could be anywhere would otherwise make clusters of their own, hundreds of them.
All but the sweep is NumPy, since whatever is compiled delays the first fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.jit import jit
from unbounded.models.labelled.losses import Loss, check_loss, checked, expected_loss, pairs
from unbounded.randomness import generator

_MAX_CELLS = 2**25  # of all contingency tables together; above it the estimate is the best of the draws
_BLOCK = 2**15  # labels of a block
_MAX_SWEEPS = 50
_WORK = 1e9  # cells of all descents, some seconds; bounds the search when there are very many rows
_SCREEN_WORK = 2.0**28  # labels of the search for the best draws; bounds how many draws are candidates
_PART = 0.05  # of a cluster, at least, that a cut moves; half of it at most
_FEW = 2e4  # cells, below which Python finishes a sweep before it would be compiled
_STARTS = 4  # from nothing; and as many from draws


# ---- items


@dataclass(frozen=True)
class _Items:
    """Items: rows that no draw separates, taken together with a weight; heavy ones first.

    Nothing is lost by moving them together. The expected loss as a function of how many, k, of them are in a cluster of
    size N is a S phi(N + k) - 2 sum_s phi(m_s + k) with m_s <= N and a < 2: it is concave for both losses, so that an
    optimal partition never splits an item.
    """

    draws: Sequence[Array]
    of_row: Array  # [n] the item of each row
    rows: Array  # [G] the first row of each item
    weights: Array  # [G]
    n_clusters: Array  # [S] of each draw

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def most(self) -> int:
        """Clusters that an estimate may have: the median of the draws."""
        return int(np.ceil(np.median(self.n_clusters)))

    @property
    def work(self) -> float:
        """Labels that a sweep looks at, for every cluster."""
        return len(self) * (len(self.draws) + 1.0)

    @property
    def n_codes(self) -> int:
        """Rows of the tables: the sizes of the clusters, then the clusters of every draw."""
        return 1 + int(self.n_clusters.sum())

    def labels(self, draw: int) -> Array:
        """Labels of the items in a draw; clusters in the order of their first items, whatever the draw called them."""
        return _renumbered(self.draws[draw][self.rows])

    def codes(self, chosen: Array | slice) -> Array:
        """[items, 1 + S] the rows of the tables that items count in."""
        first = np.concatenate([[0], 1 + np.cumsum(self.n_clusters) - self.n_clusters])
        rows = self.rows[chosen]
        codes = np.stack([np.zeros(len(rows), np.int64), *(draw[rows] for draw in self.draws)], 1) + first
        return codes.astype(np.int32)

    def blocks(self) -> Iterator[slice]:
        """Items a block at a time, so that large draws are never copied as a whole."""
        step = max(_BLOCK // (1 + len(self.draws)), 256)
        return (slice(start, min(start + step, len(self))) for start in range(0, len(self), step))


def _renumbered(labels: Array) -> Array:
    """Labels 0, 1, ... in the order in which they first occur."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def _items(draws: Sequence[Array]) -> _Items:
    of_row = np.zeros(len(draws[0]), np.int64)
    for draw in draws:
        of_row = pairs(of_row, draw)
    weights, first = np.bincount(of_row), np.empty(int(of_row.max()) + 1, np.int64)
    first[of_row[::-1]] = np.arange(len(of_row))[::-1]
    order = np.lexsort((first, -weights))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    n_clusters = np.array([int(draw.max()) + 1 for draw in draws])
    return _Items(draws, rank[of_row], first[order], weights[order].astype(float), n_clusters)


# ---- tables


class _Search:
    """A partition of the items, with its contingency tables with all draws, stacked: [R, C], a column for each cluster.

    The first row of the tables has the cluster sizes. The expected loss is, up to a constant and a factor that all
    partitions share, the sum of phi over the tables with weights a S for the first row and -2 for the others.
    """

    def __init__(self, items: _Items, loss: Loss):
        self.items, self.loss = items, loss
        self.labels = np.full(len(items), -1)  # not placed yet
        self.factors = np.full((items.n_codes, 1), -2.0)
        self.factors[0] = loss.merge_cost * len(items.draws)  # mutant: size factor
        self.put(self.labels)
        rounding = 1e-12 * len(items.draws) * loss.spread(items.weights.sum(keepdims=True))
        self.tolerance = rounding if loss.kind == "vi" else 1e-6  # what a move must gain, so that a descent ends

    @classmethod
    def of(cls, items: _Items, loss: Loss, labels: Array) -> _Search:
        made = cls(items, loss)
        made.put(labels)
        return made

    def put(self, labels: Array) -> None:
        """Another partition in place of this one, with columns for as many clusters as it may have."""
        self.labels = labels if labels[0] < 0 else _renumbered(labels)
        n_clusters = int(self.labels.max()) + 1
        self.counts = np.zeros((len(self.factors), max(n_clusters, self.items.most)))
        if n_clusters:
            self.counts[:, :n_clusters] = self.tally(slice(None), self.labels)
        self.steps = self.factors * self.loss.rise(self.counts, 1.0)

    @property
    def n_used(self) -> int:
        """Columns up to the last one that is not empty."""
        return int(np.flatnonzero(self.counts[0]).max(initial=-1)) + 1

    def tally(self, chosen: Array | slice, labels: Array) -> Array:
        """Tables of some of the items, with labels 0, 1, ... of their own."""
        width, weights = int(labels.max()) + 1, self.items.weights[chosen]
        counts = np.zeros((self.items.n_codes, width))
        counts[0] = np.bincount(labels, weights, width)
        rows, row = self.items.rows[chosen], 1
        for draw, size in zip(self.items.draws, self.items.n_clusters.tolist(), strict=True):
            cells = draw[rows].astype(np.int64) * width + labels
            counts[row : row + size] = np.bincount(cells, weights, size * width).reshape(size, width)
            row += size
        return counts

    @property
    def total(self) -> float:
        """The expected loss, up to a constant and a factor."""
        return float((self.factors * self.loss.phi(self.counts)).sum())

    # ---- moves

    def sweep(self) -> int:
        """Place every item in turn where it costs least; the number that moved."""
        moved, width = 0, min(self.n_used + 1, self.counts.shape[1])
        for block in self.items.blocks():
            here, width = self._place(self.items.codes(block), self.items.weights[block], self.labels[block], width)
            moved += here
        return moved

    def begin(self, chosen: Array) -> None:
        """Place items that are nowhere yet, one after another."""
        labels = self.labels[chosen]
        self._place(self.items.codes(chosen), self.items.weights[chosen], labels, 1)
        self.labels[chosen] = labels

    def _place(self, codes: Array, weights: Array, labels: Array, width: int) -> tuple[int, int]:
        place = _place if codes.size * width > _FEW else _place.py_func  # compiling would take longer
        loss = self.loss.kind == "vi", self.tolerance
        moved, width = place((self.counts, self.steps, self.factors), codes, weights, labels, width, loss)
        return int(moved), int(width)

    def merge(self) -> int:
        """Move every cluster as a whole, in turn, into another one if that helps; how many are gone."""
        return sum(self._relocate(own, self.counts[:, own].copy(), self.labels == own) for own in range(self.n_used))

    def cut(self, draw: int) -> int:
        """Move parts of clusters that a draw has apart, each as a whole, elsewhere or into a new one, if that helps."""
        first = 1 + int(self.items.n_clusters[:draw].sum())
        sizes = self.counts[first : first + self.items.n_clusters[draw]]
        shares = sizes / np.maximum(sizes.sum(0), 1.0)
        names = self.items.draws[draw][self.items.rows]
        moved = 0
        for part, own in np.argwhere((shares >= _PART) & (shares <= 0.5)).tolist():
            inside = np.flatnonzero((self.labels == own) & (names == part))
            if len(inside):
                moved += self._relocate(own, self.tally(inside, np.zeros(len(inside), np.int64))[:, 0], inside)
        return moved

    def _relocate(self, own: int, times: Array, inside: Array) -> bool:
        """Move some items of a cluster, which the tables count so many times, together to where they cost least."""
        rows = np.flatnonzero(times)
        counts, added, factors = self.counts[rows, : self.n_used + 1], times[rows, None], self.factors[rows, 0]
        costs = factors @ (self.loss.phi(counts + added) - self.loss.phi(counts))
        stay = self.loss.phi(counts[:, own]) - self.loss.phi(counts[:, own] - added[:, 0])
        costs[own] = factors @ stay - self.tolerance
        best = int(costs.argmin())
        if best == own or not len(rows):
            return False
        self.counts[:, own] -= times
        self.counts[:, best] += times
        self.steps[:, [own, best]] = self.factors * self.loss.rise(self.counts[:, [own, best]], 1.0)
        self.labels[inside] = best
        return True


@jit
def _place(
    tables: tuple[Array, ...], codes: Array, weights: Array, labels: Array, width: int, loss: tuple[bool, float]
) -> tuple[int, int]:
    """Take each item out of its column (-1: it is in none) and put it where it costs least.

    An empty column stands for a new cluster. Returns how many moved, and the columns now in use and one more.
    """
    counts, steps, factors = tables
    vi, tolerance = loss
    costs = np.empty(counts.shape[1])
    moved = 0
    for i in range(len(codes)):
        own, w = labels[i], weights[i]
        home = 0.0
        costs[:width] = 0.0
        for r in codes[i]:
            if own >= 0:
                home += factors[r, 0] * _rise(counts[r, own] - w, w, vi)
            for c in range(width):  # items of weight one, the most by far, need no logarithm
                costs[c] += steps[r, c] if w == 1.0 else factors[r, 0] * _rise(counts[r, c], w, vi)
        if own >= 0:
            costs[own] = home - tolerance  # what a move must gain, so that a descent ends
        best = int(np.argmin(costs[:width]))
        if best == own:
            continue
        for r in codes[i]:
            if own >= 0:
                counts[r, own] -= w
                steps[r, own] = factors[r, 0] * _rise(counts[r, own], 1.0, vi)
            counts[r, best] += w
            steps[r, best] = factors[r, 0] * _rise(counts[r, best], 1.0, vi)
        labels[i] = best
        moved += 1
        width = max(width, min(best + 2, len(costs)))
    return moved, width


@jit
def _rise(x: float, w: float, vi: bool) -> float:
    """How much phi gains when w is added to x."""
    if not vi:
        return (2.0 * x + w) * w
    return (x + w) * math.log(x + w) - (x * math.log(x) if x > 0.0 else 0.0)


# ---- search


def _descend(search: _Search, work: float) -> float:
    """Sweep and merge until nothing moves or the work that is allowed is used up; returns how much of it is left."""
    for _ in range(_MAX_SWEEPS):
        moved = search.sweep()
        moved += search.merge()  # mutant: merges
        search.put(search.labels)
        work -= search.items.work * search.n_used
        if not moved or work < 0:
            break
    return work


def _cuts(search: _Search, work: float) -> None:
    """Cuts as single draws make them, each followed by a descent, until no draw has one that helps."""
    draw, failed = 0, 0
    while failed < len(search.items.draws) and work > 0:
        work, failed = work - 4.0 * search.items.work, failed + 1
        if search.cut(draw):  # mutant: cuts
            work, failed = _descend(search, work), 0
        draw = (draw + 1) % len(search.items.draws)


def _from_nothing(items: _Items, loss: Loss, index: int) -> _Search:
    """Items in a random order, each put where it costs least at the time."""
    search = _Search(items, loss)
    search.begin(generator(index, "partition").permutation(len(items)))
    return search


def _ranked(items: _Items, loss: Loss) -> list[int]:
    """Draws (all of them, or evenly spaced ones when that would take too long), the best first."""
    n_draws = len(items.draws)
    most = int(np.clip(_SCREEN_WORK / (n_draws * len(items)), min(8, n_draws), n_draws))
    spaced = np.unique(np.linspace(0, n_draws - 1, most).round().astype(int))
    candidates = spaced[items.n_clusters[spaced] <= items.most].tolist() or [int(items.n_clusters.argmin())]
    return sorted(candidates, key=lambda s: _Search.of(items, loss, items.labels(s)).total)


def _searched(items: _Items, loss: Loss) -> Array:
    """The best that descents from draws and from nothing come to, with cuts at the end."""
    ranked = _ranked(items, loss)
    few = int(np.clip(_WORK / (20.0 * items.work * items.n_clusters.max()), 1, _STARTS))
    starts = [_Search.of(items, loss, items.labels(s)) for s in ranked[:few]]
    starts += [_from_nothing(items, loss, index) for index in range(few)] * (few > 1)
    for search in starts:
        _descend(search, _WORK / (2 * len(starts)))
    best = min(starts, key=lambda search: search.total)
    _cuts(best, _WORK / 2)
    return best.labels


def _by_size(labels: Array) -> Array:
    """Labels 0 .. C-1 by decreasing size; clusters of one size in the order of their first rows."""
    labels = _renumbered(labels)
    rank = np.empty(int(labels.max()) + 1, np.int64)
    rank[np.argsort(-np.bincount(labels), kind="stable")] = np.arange(len(rank))
    return rank[labels]


def _best_draw(draws: Sequence[Array], loss: Loss) -> Array:
    some = np.unique(np.linspace(0, len(draws) - 1, 8).round().astype(int))
    return draws[min(some, key=lambda s: expected_loss(draws[s], draws, loss))]


def improved(labels: Array, draws: Sequence[Array], loss: Loss = Loss()) -> Array:
    """A partition that is at least as good, reached from this one by sweeps, merges and cuts."""
    items = _items(checked(draws))
    search = _Search.of(items, loss, np.asarray(labels)[items.rows])
    _cuts(search, _descend(search, _WORK))
    return _by_size(search.labels[items.of_row])


def point_estimate(draws: Sequence[Array], loss: Loss = Loss()) -> Array:
    """The partition of least posterior expected loss that the search finds; deterministic.

    `draws` are label vectors (0 .. K_s-1). Labels are ordered by decreasing cluster size.
    """
    check_loss(loss)
    draws = checked(draws)
    if len(draws) == 1:
        return _by_size(draws[0])
    items = _items(draws)
    if items.n_codes * int(items.n_clusters.max()) > _MAX_CELLS:
        return _by_size(_best_draw(draws, loss))
    return _by_size(_searched(items, loss)[items.of_row])
