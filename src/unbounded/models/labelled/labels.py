"""Rows with one label each: their atoms, a shard of them, and the compiled pieces that kernels of labels share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.compiled.jit import jit
from unbounded.contracts import Engine, Parallel, Summary, in_this_thread
from unbounded.disk import allocate
from unbounded.instantiation import by_code, relabel
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.likelihoods.operations import Block, accumulate, clear, update, write_terms

FLOAT32_TOLERANCE = 0.02  # nats; above it a round falls back to double precision
CHUNK = 8192  # rows that are sorted by their labels at a time


class Atoms(NamedTuple):
    """Numbers of rows [K] and statistics [K, F]."""

    counts: Array
    statistics: Array


def draw_parameters(
    likelihood: Bound, counts: Array, statistics: Array, n_extra: int, position: int, rng: np.random.Generator,
    parallel: Parallel = in_this_thread,
) -> Parameters:  # fmt: skip
    """Parameters of atoms given their rows; n_extra ghost-only atoms, from the prior, stand at `position`."""
    if n_extra:
        counts = np.concatenate([counts[:position], np.zeros(n_extra), counts[position:]])
        none = np.zeros((n_extra, statistics.shape[1]))
        statistics = np.concatenate([statistics[:position], none, statistics[position:]])
    return likelihood.draw_in_parallel(counts, statistics, rng, parallel)


def finite_part(likelihood: Bound, dtype: str, parameters: Parameters, log_weights: Array) -> Any:
    """Weights and parameters in the form that compiled code takes."""
    # mutant: float32 safe
    safe = dtype == "float32" and likelihood.float32_error(parameters) < FLOAT32_TOLERANCE
    eta = linear_part(likelihood, np.float32 if safe else np.float64, parameters, log_weights)
    return likelihood.finite(eta, parameters, log_weights)


def linear_part(likelihood: Bound, dtype: Any, parameters: Parameters, log_weights: Array) -> Array:
    """Natural parameters of atoms, with bias and log weight in the last column (row, when sparse)."""
    bias, eta = likelihood.natural(parameters)
    eta = np.concatenate([eta, (bias + log_weights)[:, None]], axis=1)
    return np.ascontiguousarray(eta.T if likelihood.columns.sparse else eta, dtype)


# ---- a shard and the codes of its labels


class LabelRows(NamedTuple):
    """A shard's rows, their labels, which moves change, and the number of the first row in the whole data."""

    data: Any
    labels: Any
    first: int


class Labelled:
    """Rows with one label each, as moves of whole atoms see them."""

    labels: Array

    def relabel(self, codes: Array) -> None:
        """Translate labels to new codes."""
        relabel(self.labels, codes)

    def labels_of(self, rows: Array) -> Array:
        """Labels of some rows."""
        return self.labels[rows]

    def members(self, codes: Array) -> Array:
        """Rows with one of these labels."""
        return np.flatnonzero(np.isin(self.labels, codes))


class LabelShard(Labelled):
    """Rows first .. first + n of the data, and their labels."""

    def __init__(self, index: int, first: int, data: Any, n_rows: int, imputed: Array):
        self.index, self.first = index, first
        self.labels = np.zeros(n_rows, np.int32)
        self.holes = np.empty((0, 2), np.int64)
        if len(imputed):
            rows, which = np.nonzero(np.isnan(data[:, imputed]))
            self.holes = np.stack([rows, imputed[which]], axis=1)
            data = data.copy() if len(self.holes) else data
        self.data = data

    def fill(self, column_means: Array) -> None:
        if len(self.holes):
            rows, columns = self.holes.T
            self.data[rows, columns] = column_means[columns]

    def put(self, labels: Array) -> None:
        self.labels[:] = labels

    def coded(self, codes: Array) -> Array:
        """Labels translated to other codes."""
        return codes[self.labels]

    def summary(self, n_shared: int, atoms: Atoms) -> Summary:
        """The shard's report. `owner` sums to the shard index when exactly one shard has the atom."""
        counts, statistics = atoms
        present = (counts[:n_shared] > 0).astype(np.int64)
        shared = {
            "counts": counts[:n_shared],
            "statistics": statistics[:n_shared],
            "shards": present,
            "owner": present * self.index,
        }
        return Summary(shared, {"counts": counts[n_shared:], "statistics": statistics[n_shared:]})

    def completed(self) -> Any:
        """The rows with their holes filled in, if there are any."""
        return self.data if len(self.holes) else None

    def arrays(self) -> dict[str, Array]:
        return {
            "labels": packed_labels(self.labels),
            "holes": self.data[tuple(self.holes.T)] if len(self.holes) else np.empty(0),
        }

    def restore(self, arrays: Arrays) -> None:
        self.labels[:] = arrays["labels"]
        if len(self.holes):
            self.data[tuple(self.holes.T)] = arrays["holes"]


def numbered(state: Any) -> Array:
    """0 .. K-1 for the occupied atoms of the table, -1 for the others."""
    number = np.full(len(state.table.counts), -1, np.int32)
    number[state.occupied] = np.arange(len(state.occupied))
    return number


def all_labels(state: Any, engine: Engine, dtype: Any = np.int32) -> Array:
    """Labels 0 .. K-1 of all rows, in the order of the occupied atoms of the table."""
    number = numbered(state).astype(dtype)
    codes = [by_code(state, number, p) for p in range(len(state.n_private))]
    parts = engine.map(_coded, codes)
    return np.concatenate(parts, out=allocate((sum(map(len, parts)),), dtype))


def _coded(shard: LabelShard, codes: Array) -> Array:
    return shard.coded(codes)


def n_labelled(arrays: Arrays) -> int:
    """The number of rows of a snapshot."""
    return len(arrays["labels"])


def smallest_type(largest: int) -> Any:
    """The smallest type that the largest label fits in."""
    return np.uint8 if largest < 256 else np.uint16 if largest < 65536 else np.int32


def packed_labels(labels: Array) -> Array:
    """Labels in as few bytes as they need, to be kept or sent."""
    return labels.astype(smallest_type(int(labels.max(initial=0))))


# ---- compiled: tails, codes, statistics


def lanes_for(rows: int, terms: int, atoms: int, itemsize: int) -> int:
    """Rows per block: the block fits in the second-level cache, and blocks divide the rows evenly."""
    most = max(64, min(424, int(2**20 / (itemsize * (terms + 2 * atoms + 8)))))
    blocks = max(1, -(-rows // most))
    lanes = -(-max(1, -(-rows // blocks)) // 8) * 8
    # Rows of a block that start at multiples of 512 bytes compete for the same few places of the first-level cache.
    return lanes + 8 if lanes % 64 == 0 else lanes


@jit
def fill_tail(specs, data, labels, shared, tail, members, terms):
    """Rebuild the collapsed state of the private atoms from the shard's rows; terms: memory for those of a block."""
    for slot in range(members.size + 1):
        clear(specs, tail, slot)
    lanes = terms.shape[1]
    if members.size == 0:
        return
    for slot in range(members.size):
        members[slot] = 0
    for start in range(0, labels.size, lanes):
        size = min(lanes, labels.size - start)
        any_private = False
        for r in range(size):
            any_private |= labels[start + r] >= shared
        if not any_private:
            continue
        block = Block(data, start, size, terms)
        write_terms(specs, block)
        for r in range(size):
            slot = labels[start + r] - shared
            if slot >= 0:
                members[slot] += 1
                update(specs, tail, slot, block, r, 1)


class Totals(NamedTuple):
    """Counts and statistics of atoms, and the scratch memory that their sums need."""

    counts: Any
    statistics: Any
    ends: Any
    order: Any


def totals_of(atoms: int, terms: int, n_rows: int) -> Totals:
    counts, sums = np.zeros(atoms, np.int64), np.zeros((atoms, terms))
    return Totals(counts, sums, np.empty(atoms + 1, np.int64), np.empty(min(CHUNK, n_rows), np.int64))


def statistics(specs: Any, data: Any, labels: Array, atoms: int, terms: int) -> Atoms:
    """Counts and statistics of every atom of the shard."""
    totals = totals_of(atoms, terms, len(labels))
    add_up(specs, data, labels, atoms, totals)
    return Atoms(totals.counts, totals.statistics)


@jit
def add_up(specs, data, labels, atoms, totals):
    """Add up the rows of every atom, from zero: counting sort by chunks, then one product per atom."""
    counts, sums, ends, order = totals
    for start in range(0, labels.size, CHUNK):
        size = min(CHUNK, labels.size - start)
        for k in range(atoms + 1):
            ends[k] = 0
        for r in range(size):
            ends[labels[start + r] + 1] += 1
        for k in range(atoms):
            counts[k] += ends[k + 1]
            ends[k + 1] += ends[k]
        for r in range(size):
            k = labels[start + r]
            order[ends[k]] = start + r
            ends[k] += 1
        begin = 0
        for k in range(atoms):
            if ends[k] > begin:
                accumulate(specs, data, order[begin : ends[k]], sums[k])  # mutant: statistics accumulate
            begin = ends[k]
