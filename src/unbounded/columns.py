"""Summaries of columns: all that a likelihood may see before a fit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from unbounded.arrays import Array, is_sparse
from unbounded.rows import row_blocks

FARTHEST = 1e-6  # the least scale, as a share of the distance of the farthest row: sums have sixteen digits
QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
SAMPLE, CELLS = 10_000, 2**21  # evenly spaced rows, or cells if less, that show how wide most of a column is
FEW, LEAST = 0.05, 2  # rows that may be far: a share of them, or, where these are fewer than a tenth, a number
FAR = 4.0  # a standard deviation so many times as large as all other rows are wide is the distance of far rows
WIDE, SOME = 50.0, 10  # a standard deviation so many times as wide as the middle half of so many rows is warned of
NEAR = 1e-9  # of the largest value: where a column is narrower, the rounding of its mean would show
EQUAL, COARSE = 4.0, 64.0  # standard deviations in steps between numbers: of constant columns, and of few digits


@dataclass(frozen=True)
class Columns:
    """A summary of each column: all that a likelihood may know of the data before it sees rows."""

    index: Array
    n_rows: int
    mean: Array
    centre: Array  # the mean, and
    sd: Array  # the standard deviation; of most rows, where a few far ones would decide them
    low: Array
    high: Array
    holes: Array
    whole: Array  # every observed value is an integer
    sparse: bool = False

    @cached_property
    def size(self) -> int:
        return len(self.index)

    @cached_property
    def missing(self) -> bool:
        return bool(self.holes.any())

    @cached_property
    def largest(self) -> Array:
        """The largest absolute values."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @cached_property
    def constant(self) -> Array:
        """Whether all values are equal, to rounding."""
        least = np.maximum(EQUAL * np.finfo(float).eps * self.largest, 1e-300)
        return (self.low == self.high) | ~(self.sd > least)  # mutant: constant

    def spread(self) -> Array:
        """Standard deviations, with 1 for constant columns."""
        return np.where(self.constant, 1.0, self.sd)

    def take(self, chosen: Array) -> Columns:
        fields = {
            f: getattr(self, f)[chosen] for f in ("index", "mean", "centre", "sd", "low", "high", "holes", "whole")
        }
        return replace(self, **fields)


def describe(X: Any) -> Columns:
    """Column means, standard deviations, ranges and holes of an array, CSR or a source, block by block.

    Blocks depend on the shape alone: a source gives the same bits as its rows in memory. Infinite values show in the
    ranges, and are refused when a likelihood is bound.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        return _describe_sparse(X) if is_sparse(X) else _describe_dense(X)


def _describe_sparse(X: Any) -> Columns:
    """Values are added one by one in the order of rows, so that blocks do not matter at all."""
    n, d = X.shape
    total, square, low, high = np.zeros(d), np.zeros(d), np.full(d, np.inf), np.full(d, -np.inf)
    stored, holes, whole = np.zeros(d, np.int64), np.zeros(d, np.int64), np.ones(d, bool)
    for rows in row_blocks(X):
        part = X[rows]
        column, value = part.indices, part.data.astype(np.float64)
        np.add.at(total, column, value)
        np.add.at(square, column, value**2)
        np.minimum.at(low, column, value)
        np.maximum.at(high, column, value)
        stored += np.bincount(column, minlength=d)
        holes += np.bincount(column[np.isnan(value)], minlength=d)
        whole[column[value != np.rint(value)]] = False
    zeros = stored < n
    low[zeros], high[zeros] = np.minimum(low[zeros], 0.0), np.maximum(high[zeros], 0.0)
    mean = total / n
    sd = np.sqrt(np.maximum(square / n - mean**2, 0.0))
    return Columns(np.arange(d), n, mean, mean, sd, low, high, holes, whole, sparse=True)


def _describe_dense(X: Any) -> Columns:
    n, d = X.shape
    seen, total, some, step = np.zeros(d), np.zeros(d), [], n // min(SAMPLE, CELLS // d + 100) + 1
    low, high, whole = np.full(d, np.inf), np.full(d, -np.inf), np.ones(d, bool)
    for rows in row_blocks(X):
        x = np.asarray(X[rows], dtype=np.float64)
        added, count, least, most = x.sum(0), len(x), x.min(0, initial=np.inf), x.max(0, initial=-np.inf)
        filled = x
        if np.isnan(added).any():  # holes are rare, and looking for them takes longer than all the rest
            there = ~np.isnan(x)
            filled = np.where(there, x, 0.0)
            added, count = filled.sum(0), there.sum(0)
            least, most = np.where(there, x, np.inf).min(0), np.where(there, x, -np.inf).max(0)
        seen += count
        total += added
        low, high = np.minimum(low, least), np.maximum(high, most)
        if whole.any():
            whole[whole] = (filled[:, whole] == np.rint(filled[:, whole])).all(0)
        some.append(x[-rows.start % step :: step].copy())
    mean = total / np.maximum(seen, 1)
    reach = np.maximum(high - mean, mean - low)
    near = high - low < NEAR * np.maximum(np.abs(low), np.abs(high))
    mean, sd = _moments(X, mean, np.maximum(seen, 1), reach, near)
    columns = Columns(np.arange(d), n, mean, mean, sd, low, high, (n - seen).astype(np.int64), whole)
    _warn_of_few_digits(columns, X.dtype)
    centre, sd = _of_most(mean, sd, np.concatenate(some), reach)
    return replace(columns, centre=centre, sd=sd)


def _moments(X: Any, mean: Array, seen: Array, reach: Array, near: Array) -> tuple[Array, Array]:
    """(means, standard deviations), the first without their rounding error where columns are narrow."""
    unit = np.where((reach > 0) & np.isfinite(reach), reach, 1.0)  # squares of very large or small gaps would be lost
    square, off = np.zeros(len(mean)), np.zeros(len(mean))
    for rows in row_blocks(X):
        gap = (np.asarray(X[rows], dtype=np.float64) - mean) / unit
        added = (gap**2).sum(0)
        square += np.where(np.isnan(gap), 0.0, gap**2).sum(0) if np.isnan(added).any() else added
        if near.any():
            off[near] += np.nansum(gap[:, near], axis=0)
    off /= seen
    sd = unit * np.sqrt(np.maximum(square / seen - off**2, 0.0))  # mutant: column sd
    return np.where(near, mean + unit * off, mean), sd  # mutant: column mean


def _warn_of_few_digits(columns: Columns, dtype: Any) -> None:
    """Numbers far from zero are far apart: little may be left of what differs between rows."""
    step = np.finfo(dtype if dtype.kind == "f" else float).eps * columns.largest
    coarse = (columns.low < columns.high) & np.isfinite(step) & ~(columns.sd > COARSE * step)
    if coarse.any():
        column = int(np.flatnonzero(coarse)[0])
        warnings.warn(
            f"column {column} is so far from zero that few digits are left of its differences (standard deviation "
            f"{columns.sd[column]:.2g}, values up to {columns.largest[column]:.2g}"
            f"{', so that it counts as constant' if columns.constant[column] else ''}); subtract a number near its "
            "mean from it where it still has all its digits.",
            stacklevel=2,
        )


def _of_most(mean: Array, sd: Array, sample: Array, reach: Array) -> tuple[Array, Array]:
    """Means and standard deviations that a few far rows do not decide.

    The middle 95% of a column are about four standard deviations wide, and two at least if nothing is far away. Where
    they are narrower than one, most of it is the distance of a few rows; a median and a quarter of the width stand for
    it then. (To a prior as wide as the distance of one row, all the others would be one atom.) The same holds where
    all but 5% of the rows, or but two, whatever side these are on, are narrower than a quarter of a standard deviation.
    Columns with less than 5% other than one value keep theirs.
    """
    low, lower, middle, upper, high = _quantiles(sample)
    width, half = high - low, upper - lower
    far = (width > 0) & (sd > width) & np.isfinite(reach)  # mutant: far rows
    for c in np.flatnonzero((half > 0) & (sd > FAR * half) & np.isfinite(reach)):
        rest = _width_of_most(sample[:, c])
        if (width[c] if far[c] else sd[c]) > FAR * rest:  # mutant: few far rows
            width[c], far[c] = rest, True
    if len(sample) >= SOME:
        _warn_of_wide_columns(sd, np.where(far | ~np.isfinite(reach), np.inf, half))
    least = FARTHEST * reach
    if (far & (width / 4 < least)).any():
        column = int(np.flatnonzero(far & (width / 4 < least))[0])
        warnings.warn(
            f"column {column} has values more than {1 / FARTHEST:,.0f} times as far out as most of its rows, among "
            "which differences are lost; remove them, or set them to NaN.", stacklevel=2,
        )  # fmt: skip
    return np.where(far, middle, mean), np.where(far, np.maximum(width / 4, least), sd)


def _width_of_most(values: Array) -> float:
    """The width of the narrowest interval with all values but a few; infinite if there are too few to leave any out."""
    ordered = np.sort(values[~np.isnan(values)])
    n = len(ordered)
    few = max(int(FEW * n), min(LEAST, (n - 1) // 10))  # a tenth of the rows is never far
    return float((ordered[n - 1 - few :] - ordered[: few + 1]).min()) if few > 0 else np.inf


def _warn_of_wide_columns(sd: Array, half: Array) -> None:
    """More rows are far away than may be left out, or they belong there: nobody but the user knows."""
    wide = (half > 0) & (sd > WIDE * half)  # mutant: wide said
    if wide.any():
        column = int(np.flatnonzero(wide)[0])
        warnings.warn(
            f"the standard deviation of column {column} is {sd[column] / half[column]:,.0f} times as large as the "
            "width of its middle half: default priors follow it, and may be too wide to tell most rows apart; remove "
            "rows that are far away by mistake, or set the scale of the prior.", stacklevel=2,
        )  # fmt: skip


def _quantiles(sample: Array) -> Array:
    """The quantiles QUANTILES of every column without its holes; zeros where nothing is left."""
    found = np.quantile(np.nan_to_num(sample), QUANTILES, axis=0)
    for column in np.flatnonzero(np.isnan(sample).any(0)):
        seen = sample[~np.isnan(sample[:, column]), column]
        found[:, column] = np.quantile(seen, QUANTILES) if len(seen) else 0.0
    return found
