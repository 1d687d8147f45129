"""Sets of rows cut in two: the passes over rows that moves of whole atoms are made of (docs/jumps.md).

A *cut* gives every row of a set C the probability p of going to the second half: its log odds are linear in the row's
terms. Several cuts of disjoint sets go through the rows together. A pass either adds up what p says of every row
(soft), or halves that are drawn from p or given by the labels (hard), with the log probability of those halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.compiled.lanes import lane_exp, lane_log
from unbounded.likelihoods.operations import Block, contrast, weigh
from unbounded.models.labelled.labels import LabelRows
from unbounded.randomness import uniforms
from unbounded.rows import Csr

CHUNK = 8192
CELLS = 2**15  # terms of a block of rows, which should stay in cache
MOST_LANES = 256
FEW = 2**14  # terms of a shard, up to which nothing is compiled for a pass: a first fit of small data is short


class Cuts(NamedTuple):
    """M cuts, as all shards know them."""

    odds: Array  # [M, F + 1]: log odds of the second half are odds . (terms, 1)
    anchors: Array  # [M, A] rows that are in the first half whatever p says, or -1
    partners: Array  # [M] the row that is in the second half whatever p says, or -1
    key: np.uint64
    soft: bool


class Sides(NamedTuple):
    """Which rows of a shard are cut, by the codes of their labels."""

    cut: Array  # [codes] the cut that the atom belongs to, or -1
    side: Array  # [codes] 0 or 1: the half that the atom is; -1: to be drawn
    fresh: Array  # [M] the code that rows of the second half get; -1: labels stay as they are


class Halves(NamedTuple):
    """What a pass adds up."""

    totals: Array  # [M, F + 1]: statistics of the second half and, last, its number of rows
    log_q: Array  # [M]: log probability of the halves; soft: its mean over halves drawn from p
    rows: Array  # [M]: rows of the set on this shard


class Lanes(NamedTuple):
    """A block of rows of one cut, with their numbers, terms (the last is 1), log odds and log probabilities."""

    rows: Array
    numbers: Array
    terms: Array
    odds: Array
    logs: Array
    sums: Array


def halve(specs: Any, rows: LabelRows, cuts: Cuts, sides: Sides, by_products: bool = False) -> Halves:
    """One pass over the rows of a shard; by_products: whether the likelihood cuts without writing terms."""
    n_cuts, width = cuts.odds.shape
    out = Halves(np.zeros((n_cuts, width)), np.zeros(n_cuts), np.zeros(n_cuts, np.int64))
    if isinstance(rows.data, Csr):
        _halve_sparse(rows, cuts, sides, out)
        return out
    size = MOST_LANES if by_products else max(8, min(MOST_LANES, CELLS // width // 8 * 8))
    terms = np.zeros((width, 0 if by_products else size))
    terms[-1] = 1.0
    lanes = Lanes(
        np.zeros((size, rows.data.shape[1])),
        np.zeros(size, np.int64),
        terms,
        np.zeros(size),
        np.empty(size),
        np.empty(width),
    )
    _halve_dense(specs, rows, cuts, sides, lanes, out)
    return out


def halve_few(terms_of: Callable[[Array], Array], labels: Array, first: int, cuts: Cuts, sides: Sides) -> Halves:
    """The same, all rows of the sets at once and without anything compiled; terms_of: [rows, F] of some rows."""
    inside = np.flatnonzero(sides.cut[labels] >= 0)
    cut, side, rows = sides.cut[labels[inside]], sides.side[labels[inside]], first + inside
    terms = np.column_stack([terms_of(inside), np.ones(len(rows))])
    members = cut[None, :] == np.arange(len(cuts.anchors))[:, None]
    log_odds = np.einsum("rf,rf->r", terms, cuts.odds[cut])
    small = np.exp(-np.abs(log_odds))
    away = np.minimum(log_odds, 0.0) - np.log1p(small)  # log p; the other one is log (1 - p)
    stay, p = away - log_odds, np.where(log_odds > 0.0, 1.0, small) / (1.0 + small)
    share = p if cuts.soft else np.where(side >= 0, side, uniforms(cuts.key, rows) < p)
    log_q = share * away + (1.0 - share) * stay
    anchored = (rows[:, None] == cuts.anchors[cut]).any(1)
    goes = rows == cuts.partners[cut]
    share, log_q = np.where(anchored, 0.0, np.where(goes, 1.0, share)), np.where(anchored | goes, 0.0, log_q)
    moved = (share == 1.0) & (sides.fresh[cut] >= 0)
    labels[inside[moved]] = sides.fresh[cut[moved]]
    return Halves(members @ (share[:, None] * terms), members @ log_q, members.sum(1))


@jit
def _choice(odds, row, code, m, cuts, sides, out):
    """The share of a row that goes to the second half; adds to log q."""
    for k in range(cuts.anchors.shape[1]):
        if row == cuts.anchors[m, k]:  # mutant: choice anchor
            return 0.0
    if row == cuts.partners[m]:  # mutant: choice partner
        return 1.0
    small = math.exp(-abs(odds))
    away = min(odds, 0.0) - math.log1p(small)  # log p; the other one is log (1 - p)
    stay = away - odds
    p = (1.0 if odds > 0.0 else small) / (1.0 + small)
    if cuts.soft:
        out.log_q[m] += p * away + (1.0 - p) * (stay if stay > -745.0 else 0.0)
        return p
    side = sides.side[code]
    if side < 0:
        side = 1 if uniform(cuts.key, row) < p else 0
    out.log_q[m] += away if side == 1 else stay  # mutant: choice log q
    return np.float64(side)


@jit
def _halve_dense(specs, rows, cuts, sides, lanes, out):
    labels = rows.labels
    n_cuts = out.log_q.size
    ends = np.empty(n_cuts + 1, np.int64)
    order = np.empty(min(CHUNK, labels.size), np.int64)
    for start in range(0, labels.size, CHUNK):
        size = min(CHUNK, labels.size - start)
        for m in range(n_cuts + 1):
            ends[m] = 0
        for i in range(start, start + size):
            ends[sides.cut[labels[i]] + 1] += 1
        ends[0] = 0  # rows of no cut
        for m in range(n_cuts):
            out.rows[m] += ends[m + 1]
            ends[m + 1] += ends[m]
        for i in range(start, start + size):
            m = sides.cut[labels[i]]
            if m >= 0:
                order[ends[m]] = i
                ends[m] += 1
        begin = 0
        for m in range(n_cuts):
            while begin < ends[m]:
                count = min(ends[m] - begin, lanes.odds.size)
                for r in range(count):
                    lanes.numbers[r] = order[begin + r]
                _halve_block(specs, rows, cuts, sides, lanes, count, m, out)
                begin += count


@jit
def _halve_block(specs, rows, cuts, sides, lanes, count, m, out):
    """The first `count` rows of the lanes, all of cut m."""
    data, labels, first = rows.data, rows.labels, rows.first
    for r in range(count):
        for j in range(data.shape[1]):
            lanes.rows[r, j] = data[lanes.numbers[r], j]
    block = Block(lanes.rows, 0, count, lanes.terms)
    contrast(specs, block, cuts.odds[m], lanes.odds)
    if cuts.soft:
        _soften(lanes, count, first, m, cuts, out)
    else:
        for r in range(count):
            i = lanes.numbers[r]
            lanes.odds[r] = _choice(lanes.odds[r], first + i, labels[i], m, cuts, sides, out)
            if sides.fresh[m] >= 0 and lanes.odds[r] == 1.0:
                labels[i] = sides.fresh[m]
    for r in range(count):
        out.totals[m, lanes.sums.size - 1] += lanes.odds[r]
    for r in range(count, lanes.odds.size):
        lanes.odds[r] = 0.0
    weigh(specs, block, lanes.odds, lanes.sums)
    for f in range(lanes.sums.size - 1):
        out.totals[m, f] += lanes.sums[f]


@jit
def _soften(lanes, count, first, m, cuts, out):
    """Log odds of a block become probabilities; adds to log q. The same as `_choice`, for many rows at once."""
    for r in range(count):
        odds = lanes.odds[r]
        small = lane_exp(-abs(odds))
        p = (1.0 if odds > 0.0 else small) / (1.0 + small)
        lanes.logs[r] = p * odds - max(odds, 0.0) - lane_log(1.0 + small)
        lanes.odds[r] = p
    for r in range(count):
        row = first + lanes.numbers[r]
        for k in range(cuts.anchors.shape[1]):
            if row == cuts.anchors[m, k]:
                lanes.odds[r] = lanes.logs[r] = 0.0
        if row == cuts.partners[m]:
            lanes.odds[r], lanes.logs[r] = 1.0, 0.0
        out.log_q[m] += lanes.logs[r]


@jit
def _halve_sparse(rows, cuts, sides, out):
    data, labels, first = rows.data, rows.labels, rows.first
    width = cuts.odds.shape[1] - 1
    for i in range(labels.size):
        m = sides.cut[labels[i]]
        if m < 0:
            continue
        out.rows[m] += 1
        odds = cuts.odds[m, width]
        for j in range(data.indptr[i], data.indptr[i + 1]):
            odds += data.values[j] * cuts.odds[m, data.indices[j]]
        share = _choice(odds, first + i, labels[i], m, cuts, sides, out)
        if sides.fresh[m] >= 0 and share == 1.0:
            labels[i] = sides.fresh[m]
        out.totals[m, width] += share
        if share > 0.0:
            for j in range(data.indptr[i], data.indptr[i + 1]):
                out.totals[m, data.indices[j]] += share * data.values[j]
