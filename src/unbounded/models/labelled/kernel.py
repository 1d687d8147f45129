"""Compiled pieces that every kernel of labels shares: codes, tails, statistics, predictive densities."""

from __future__ import annotations

import numpy as np

from unbounded.compiled.jit import jit
from unbounded.likelihoods.operations import Block, accumulate, clear, evaluate, update, write_terms


def lanes_for(rows: int, terms: int, atoms: int, itemsize: int) -> int:
    """Rows per block: the block fits in the second-level cache, and blocks divide the rows evenly."""
    most = max(64, min(424, int(2**20 / (itemsize * (terms + 2 * atoms + 8)))))
    blocks = max(1, -(-rows // most))
    lanes = -(-max(1, -(-rows // blocks)) // 8) * 8
    # Rows of a block that start at multiples of 512 bytes compete for the same few places of the first-level cache.
    return lanes + 8 if lanes % 64 == 0 else lanes


@jit
def fill_tail(families, data, labels, shared, tail, members, work):
    """Rebuild the collapsed state of the private atoms from the shard's own rows."""
    for slot in range(members.size + 1):
        clear(families, tail, slot)
    lanes = work.terms.shape[1]
    if members.size == 0:
        return
    members[:] = 0
    for start in range(0, labels.size, lanes):
        size = min(lanes, labels.size - start)
        any_private = False
        for r in range(size):
            any_private |= labels[start + r] >= shared
        if not any_private:
            continue
        block = Block(data, start, size, work.terms)
        write_terms(families, block)
        for r in range(size):
            slot = labels[start + r] - shared
            if slot >= 0:
                members[slot] += 1
                update(families, tail, slot, block, r, 1)


@jit
def relabel(labels, codes):
    """labels[i] = codes[labels[i]]; nothing is read where all codes stay (those below 0 have no rows)."""
    changed = False
    for k in range(codes.size):
        changed |= codes[k] != k and codes[k] >= 0
    if not changed:
        return
    for i in range(labels.size):
        labels[i] = codes[labels[i]]


@jit
def statistics(families, data, labels, atoms, terms):
    """Counts and statistics of every atom of the shard: counting sort by chunks, then one product per atom."""
    chunk = 8192
    counts = np.zeros(atoms, np.int64)
    sums = np.zeros((atoms, terms))
    ends = np.empty(atoms + 1, np.int64)
    order = np.empty(min(chunk, labels.size), np.int64)
    for start in range(0, labels.size, chunk):
        size = min(chunk, labels.size - start)
        ends[:] = 0
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
                accumulate(families, data, order[begin : ends[k]], sums[k])  # mutant: statistics accumulate
            begin = ends[k]
    return counts, sums


@jit
def predictive(families, tail, slots, block, out):
    """out[k, r]: log predictive of the block's rows under each of the packed atoms (for prediction and scores)."""
    write_terms(families, block)
    for k in range(slots):
        column = out[k]
        for r in range(block.size):
            column[r] = 0.0
        evaluate(families, tail, k, block, 0, block.size, column)
