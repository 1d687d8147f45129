"""Point estimates of a partition from posterior draws, under the variation of information or Binder's loss.

Both losses are spreads of cluster sizes, minus twice the spread of the contingency table of the two partitions:

    loss(c, d) = sum_c phi(n_c) + sum_d phi(n_d) - 2 sum_cd phi(n_cd),   phi(x) = x log x  or  x^2,

over n for the variation of information (in nats) and over n^2 for Binder's loss. The expected loss of a partition over
S draws is therefore a sum over the cells of S contingency tables, and moving rows from one cluster to another changes
two columns of them: the search below is greedy, and its accounting exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from unbounded.arrays import Array
from unbounded.compiled.draws import mix
from unbounded.compiled.jit import inline, jit
from unbounded.compiled.lanes import lane_log

LOSSES = ("vi", "binder")

_MAX_CELLS = 2**25  # of all contingency tables together; above it the estimate is the best of the draws
_KEPT = 2**24  # labels of items that may be kept as one matrix rather than gathered anew, a block at a time
_BLOCK = 2**16  # labels of a block
_MAX_SWEEPS = 100
_SWEEP_WORK = 1e10  # cells of a descent, about 20 seconds; bounds the sweeps when there are very many rows
_SCREEN_WORK = 2.0**30  # cells of the search for the best draw; bounds how many draws are candidates
_SMALL_WORK = 5e7  # cells of a sweep up to which several starts are tried


# ---- losses


def distance(a: Array, b: Array, loss: str = "vi") -> float:
    """The loss between two partitions, given by any labels."""
    return expected_loss(a, [_compact(b)], loss)


def expected_loss(labels: Array, draws: Sequence[Array], loss: str = "vi") -> float:
    """The mean loss between one partition and each of the draws, in time O(n S) whatever the numbers of clusters."""
    _check_loss(loss)
    draws, own = _checked(draws), _compact(labels)
    if len(own) != len(draws[0]):
        raise ValueError(f"there are {len(own)} labels, but the draws have {len(draws[0])} rows.")
    n, spread = len(own), _spread(np.bincount(own), loss)
    total = sum(spread + _spread(np.bincount(d), loss) - 2 * _spread(_overlap(own, d), loss) for d in draws)
    return max(total / len(draws), 0.0) / (n if loss == "vi" else n**2)


def similarity(draws: Sequence[Array], rows: Array) -> Array:
    """The posterior probability that two of the chosen rows share a cluster, for all pairs of them."""
    together = np.zeros((len(rows), len(rows)))
    for draw in draws:
        labels = np.asarray(draw)[rows]
        together += labels[:, None] == labels[None, :]
    return together / len(draws)


def _spread(counts: Array, loss: str) -> float:
    counts = counts.astype(float)
    return float((xlogy(counts, counts) if loss == "vi" else counts**2).sum())


def _overlap(a: Array, b: Array) -> Array:
    """The cells of the contingency table that are not empty."""
    joint = a.copy()
    _split(joint, b)
    return np.bincount(joint)


def _compact(labels: Array) -> Array:
    return np.unique(np.asarray(labels).ravel(), return_inverse=True)[1].astype(np.int64)


def _close_gaps(labels: Array) -> Array:
    """The same as `_compact` for labels that are counts from zero, without sorting."""
    return (np.cumsum(np.bincount(labels) > 0) - 1)[labels]


def _check_loss(loss: str) -> None:
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, not {loss!r}.")


def _checked(draws: Sequence[Array]) -> list[Array]:
    """The draws as arrays; what the tables rely on is checked here, once."""
    draws = [np.asarray(draw) for draw in draws]
    n = draws[0].size if draws else 0
    if not n:
        raise ValueError("there are no draws to summarise, or they have no rows.")
    if any(draw.shape != (n,) or draw.dtype.kind not in "iu" for draw in draws):
        raise ValueError("every draw must be a vector of integer labels, one for each row.")
    if any(draw.min() < 0 or draw.max() >= n for draw in draws):
        raise ValueError("the labels of a draw must be 0 .. K-1, with K at most the number of rows.")
    return draws


# ---- items


def _split(groups: Array, labels: Array) -> int:
    """Split the groups (0 .. G-1, in place) by a further label; returns the new number of groups."""
    n_labels = int(labels.max()) + 1
    most = min(len(groups), (int(groups.max()) + 1) * n_labels)
    slots = np.full((1 << int(2 * most - 1).bit_length(), 2), -1, np.int64)
    found = 0
    for start in range(0, len(labels), _BLOCK):
        block = slice(start, start + _BLOCK)
        found = _hash_pairs(groups[block], labels[block].astype(np.int64), n_labels, slots, found)
    return int(found)


@jit
def _hash_pairs(groups: Array, labels: Array, n_labels: int, slots: Array, found: int) -> int:
    """Number the pairs (group, label) by first occurrence, through a table of slots (pair, number) that never fills."""
    mask = np.uint64(len(slots) - 1)
    for i in range(len(groups)):
        pair = groups[i] * n_labels + labels[i]
        slot = mix(np.uint64(pair)) & mask
        while slots[slot, 0] != pair and slots[slot, 0] >= 0:
            slot = (slot + np.uint64(1)) & mask
        if slots[slot, 0] < 0:
            slots[slot, 0], slots[slot, 1] = pair, found
            found += 1
        groups[i] = slots[slot, 1]
    return found


@dataclass(frozen=True)
class _Items:
    """The rows that no draw separates, as one item with a weight.

    Nothing is lost by moving them together. The expected loss as a function of how many, k, of them are in a cluster of
    size N is S phi(N + k) - 2 sum_s phi(m_s + k) with m_s <= N: it is concave for both losses, so that an optimal
    partition never splits an item.
    """

    draws: Sequence[Array]
    of_row: Array  # [n] the item of each row
    rows: Array  # [G] the first row of each item
    weights: Array  # [G]
    n_clusters: Array  # [S] of each draw

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_codes(self) -> int:
        """Rows of the tables: the sizes of the clusters, then the clusters of every draw."""
        return 1 + int(self.n_clusters.sum())

    def labels(self, draw: int) -> Array:
        return self.draws[draw][self.rows].astype(np.int64)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Items and the table rows they count in, block by block, so that large draws are never copied as a whole."""
        return iter(self._kept) if len(self) * len(self.draws) <= _KEPT else self._gathered()

    @cached_property
    def _kept(self) -> list[tuple[slice, Array]]:
        return list(self._gathered())

    def _gathered(self) -> Iterator[tuple[slice, Array]]:
        first = 1 + np.cumsum(self.n_clusters) - self.n_clusters
        step = max(_BLOCK // (1 + len(self.draws)), 1024)
        for start in range(0, len(self), step):
            block = slice(start, min(start + step, len(self)))
            codes = np.zeros((block.stop - start, 1 + len(self.draws)), np.int32)
            for s, draw in enumerate(self.draws):
                codes[:, s + 1] = draw[self.rows[block]]
            codes[:, 1:] += first.astype(np.int32)
            yield block, codes


def _sizes_and_firsts(labels: Array, size: int) -> tuple[Array, Array]:
    """How many rows each label has, and the first of them; in blocks, since there may be very many rows."""
    sizes, first = np.zeros(size, np.int64), np.full(size, len(labels))
    for start in reversed(range(0, len(labels), _BLOCK)):
        block = labels[start : start + _BLOCK]
        np.add.at(sizes, block, 1)
        first[block[::-1]] = np.arange(start, start + len(block))[::-1]
    return sizes, first


def _items(draws: Sequence[Array]) -> _Items:
    of_row = np.zeros(len(draws[0]), np.int64)
    n_items = 0
    for draw in draws:
        n_items = _split(of_row, draw)
    weights, rows = _sizes_and_firsts(of_row, n_items)
    return _Items(draws, of_row, rows, weights.astype(float), np.array([int(draw.max()) + 1 for draw in draws]))


# ---- tables


class _Tables(NamedTuple):
    """Contingency tables of a partition (columns) with all draws, stacked; the first row has the cluster sizes.

    The expected loss is, up to a constant and a factor, S times the sum of phi over the first row less twice the sum
    over the others.
    """

    counts: Array  # [R, C]
    steps: Array  # [R, C] phi(counts + 1) - phi(counts): items of weight one, the most by far, need no logarithm
    n_draws: float
    vi: bool
    tolerance: float  # what a move must gain, above rounding, so that a descent ends; Binder's loss is in integers


@inline
def _phi(x: float, vi: bool) -> float:
    return x * lane_log(max(x, 1.0)) if vi else x * x


@inline
def _rise(x: float, w: float, vi: bool) -> float:
    return _phi(x + w, vi) - _phi(x, vi)


@jit
def _tally(codes: Array, weights: Array, labels: Array, counts: Array) -> None:
    for i in range(len(codes)):
        for k in range(codes.shape[1]):
            counts[codes[i, k], labels[i]] += weights[i]


@jit
def _all_steps(counts: Array, vi: bool) -> Array:
    steps = np.empty_like(counts)
    for r in range(len(counts)):
        for c in range(counts.shape[1]):
            steps[r, c] = _rise(counts[r, c], 1.0, vi)
    return steps


def _counts(items: _Items, labels: Array, n_columns: int) -> Array:
    counts = np.zeros((items.n_codes, n_columns))
    for block, codes in items.blocks():
        _tally(codes, items.weights[block], labels[block], counts)
    return counts


def _tables(items: _Items, labels: Array, loss: str, n_columns: int) -> _Tables:
    counts = _counts(items, labels, n_columns)
    vi, n_draws = loss == "vi", float(len(items.draws))
    rounding = 1e-13 * n_draws * _spread(items.weights.sum(keepdims=True), loss)
    return _Tables(counts, _all_steps(counts, vi), n_draws, vi, rounding if vi else 0.5)


def _total(items: _Items, labels: Array, loss: str) -> float:
    """The expected loss, up to a constant and a factor that all partitions share."""
    counts = _counts(items, labels, int(labels.max()) + 1)
    return len(items.draws) * _spread(counts[0], loss) - 2 * _spread(counts[1:], loss)


# ---- search


class _Item(NamedTuple):
    """What moves as one: how much it counts in which rows of the tables."""

    rows: Array
    weights: Array


@jit
def _costs(tables: _Tables, item: _Item, own: int, out: Array) -> None:
    """out[c]: the rise of the expected loss when an item is added to column c, or put back into its own."""
    counts, steps, n_draws, vi, _ = tables
    home = 0.0
    for c in range(len(out)):
        out[c] = 0.0
    for k in range(len(item.rows)):
        r, w = item.rows[k], item.weights[k]
        factor = n_draws if r == 0 else -2.0
        home += factor * _rise(counts[r, own] - w, w, vi)
        if w == 1.0:
            for c in range(len(out)):
                out[c] += factor * steps[r, c]
        else:
            for c in range(len(out)):
                out[c] += factor * _rise(counts[r, c], w, vi)
    out[own] = home


@jit
def _place(tables: _Tables, item: _Item, own: int, costs: Array) -> int:
    """Move an item to its best column and return that; an empty column stands for a new cluster."""
    _costs(tables, item, own, costs)
    best = 0
    for c in range(len(costs)):
        best = c if costs[c] < costs[best] else best
    if costs[best] > costs[own] - tables.tolerance:
        return own
    for k in range(len(item.rows)):
        r = item.rows[k]
        tables.counts[r, own] -= item.weights[k]
        tables.counts[r, best] += item.weights[k]
        tables.steps[r, own] = _rise(tables.counts[r, own], 1.0, tables.vi)
        tables.steps[r, best] = _rise(tables.counts[r, best], 1.0, tables.vi)
    return best


@jit
def _sweep(tables: _Tables, codes: Array, weights: Array, labels: Array, width: int) -> tuple[int, int]:
    """Place every item of a block in turn; returns the number that moved, and the columns now in use and one more."""
    costs = np.empty(tables.counts.shape[1])
    held = np.empty(codes.shape[1])
    moved = 0
    for i in range(len(codes)):
        for k in range(len(held)):
            held[k] = weights[i]
        best = _place(tables, _Item(codes[i], held), labels[i], costs[:width])
        if best != labels[i]:
            labels[i] = best
            moved += 1
            width = min(max(width, best + 2), len(costs))
    return moved, width


@jit
def _merge(tables: _Tables, target: Array) -> int:
    """Place every whole cluster in turn, as if it were an item; `target` follows where columns go."""
    costs = np.empty(len(target))
    rows, weights = np.empty(len(tables.counts), np.int32), np.empty(len(tables.counts))
    merged = 0
    for own in range(len(target)):
        size = 0
        for r in range(len(tables.counts)):
            if tables.counts[r, own] != 0.0:
                rows[size], weights[size] = r, tables.counts[r, own]
                size += 1
        best = _place(tables, _Item(rows[:size], weights[:size]), own, costs)
        if best != own:
            for c in range(len(target)):
                target[c] = best if target[c] == own else target[c]
            merged += 1
    return merged


def _swept(items: _Items, labels: Array, loss: str) -> tuple[Array, int]:
    """One greedy sweep over all items, then merges. Room for new clusters is bounded, and grows from sweep to sweep."""
    n_clusters = int(labels.max()) + 1
    room = min(n_clusters + max(16, n_clusters // 2), len(items) + 1)
    n_columns = max(min(room, _MAX_CELLS // items.n_codes), n_clusters)
    tables, labels = _tables(items, labels, loss, n_columns), labels.copy()
    moved, width = 0, min(n_clusters + 1, n_columns)
    for block, codes in items.blocks():
        here, width = _sweep(tables, codes, items.weights[block], labels[block], width)
        moved += here
    target = np.arange(width)
    moved += _merge(tables, target)
    return _close_gaps(target[labels]), moved


def _descend(items: _Items, labels: Array, loss: str, work: float) -> Array:
    """Sweeps until nothing moves, or until the work that may be done is done (but at least one)."""
    moved = 1
    for sweep in range(_MAX_SWEEPS):
        work -= _work(items, int(labels.max()) + 1)
        if not moved or (sweep and work < 0):
            break
        labels, moved = _swept(items, labels, loss)
    return labels


def _work(items: _Items, n_clusters: int) -> float:
    """The cells that a sweep and its merges look at, at most."""
    entries = len(items) * len(items.draws)
    return float(entries + min(entries, items.n_codes * n_clusters)) * n_clusters


def _candidates(n_draws: int, n_items: int) -> list[int]:
    """The draws to compare with all draws: all of them, or evenly spaced ones when that would take too long."""
    most = int(np.clip(_SCREEN_WORK / max(n_draws * n_items, 1), min(8, n_draws), n_draws))
    return [int(s) for s in np.linspace(0, n_draws - 1, most).round()]


def _starts(items: _Items, loss: str) -> list[Array]:
    """The best draw and, where sweeps are cheap, the runners-up, one cluster, and every item alone."""
    candidates = _candidates(len(items.draws), len(items))
    ranked = sorted(candidates, key=lambda s: _total(items, items.labels(s), loss))
    cheap = len(items) * len(items.draws)
    if cheap * int(items.n_clusters.max()) > _SMALL_WORK:
        return [_close_gaps(items.labels(ranked[0]))]
    starts = [_close_gaps(items.labels(s)) for s in ranked[:3]] + [np.zeros(len(items), np.int64)]
    alone = cheap * len(items) <= _SMALL_WORK and items.n_codes * len(items) <= _MAX_CELLS
    return starts + [np.arange(len(items))] * alone


def _by_size(labels: Array) -> Array:
    """Labels 0 .. C-1 by decreasing size; clusters of one size in the order of their first rows."""
    sizes, first = _sizes_and_firsts(labels, int(labels.max()) + 1)
    rank = np.empty(len(sizes), np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(len(sizes))
    out = np.empty(len(labels), np.int64)
    for start in range(0, len(labels), _BLOCK):
        out[start : start + _BLOCK] = rank[labels[start : start + _BLOCK]]
    return out


def _best_draw(draws: Sequence[Array], loss: str) -> Array:
    candidates = _candidates(len(draws), 16 * len(draws[0]))
    return draws[min(candidates, key=lambda s: expected_loss(draws[s], draws, loss))]


def point_estimate(draws: Sequence[Array], loss: str = "vi") -> Array:
    """The partition of least posterior expected loss that a greedy search finds; deterministic.

    `draws` are label vectors (0 .. K_s-1); `loss` is "vi" or "binder". Labels are ordered by decreasing cluster size.
    """
    _check_loss(loss)
    draws = _checked(draws)
    if len(draws) == 1:
        return _by_size(draws[0])
    items = _items(draws)
    if items.n_codes * int(items.n_clusters.max()) > _MAX_CELLS:
        return _by_size(_best_draw(draws, loss))
    starts = _starts(items, loss)
    ends = [_descend(items, start, loss, _SWEEP_WORK / len(starts)) for start in starts]
    best = min(ends, key=lambda labels: _total(items, labels, loss))
    return _by_size(best[items.of_row])
