"""The local step of samplers that instantiate every occupied atom: the slice sampler and Neal's Algorithm 8.

Both take log likelihoods of a block of rows under all atoms at once (`operations.logits`), without weights.
"""

from __future__ import annotations

import math

import numpy as np

from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.likelihoods.operations import Block, largest, logits
from unbounded.models.mixtures.kernel import draw_mobile


@jit
def least(labels, weights, slices, first):
    """The smallest slice of a shard; a row's slice is uniform below the weight of its atom."""
    value = np.inf
    for i in range(labels.size):
        value = min(value, uniform(slices, first + i) * weights[labels[i]])
    return value


@jit
def draw_above(families, data, labels, first, finite, weights, slices, key, work):
    """Draw every row's label in proportion to its likelihood, among the atoms that weigh as much as its slice."""
    values, level = work.logits, work.cap
    n = labels.size
    lanes = level.size
    for start in range(0, n, lanes):
        size = min(lanes, n - start)
        logits(finite, families, Block(data, start, size, work.features), values, work.top)
        for r in range(lanes):
            level[r] = uniform(slices, first + start + r) * weights[labels[start + r]] if r < size else 0.0
        for k in range(values.shape[0]):
            for r in range(lanes):
                if weights[k] < level[r]:
                    values[k, r] = -np.inf
        largest(values, work.top)
        draw_mobile(work, key, first + start)
        for r in range(size):
            labels[start + r] = np.int32(work.choice[r])


@jit
def _exponentiate(weights):
    """Turn log weights into weights relative to the largest one; returns their sum."""
    best = -np.inf
    for c in range(weights.size):
        best = max(best, weights[c])
    total = 0.0
    for c in range(weights.size):
        weights[c] = math.exp(weights[c] - best)
        total += weights[c]
    return total


@jit
def _choose(weights, aim):
    chosen = -1
    for c in range(weights.size):
        if weights[c] > 0.0:
            chosen = c
            aim -= weights[c]
            if aim < 0.0:
                break
    return chosen


@jit
def pick(families, data, labels, start, size, finite, auxiliary, law, members, column, key, work):
    """Algorithm 8 on rows start .. start + size, one after another.

    Atom s has members[s] rows; its parameters, like those of `auxiliary` fresh atoms for each row of the block, are
    columns of `finite`: column[s], and after all of those the fresh ones. A row that makes an atom puts it in an empty
    place, of which there is at least one for each row.
    """
    values, weights = work.logits, work.weights
    slots = members.size
    logits(finite, families, Block(data, start, size, work.features), values, work.top)
    for r in range(size):
        old = labels[start + r]
        members[old] -= 1  # mutant: pick members
        alone = members[old] == 0
        fresh = slots + r * auxiliary
        atoms = 0
        free = old
        for s in range(slots):
            weights[s] = -np.inf
            if members[s] > 0:
                atoms += 1
                weights[s] = math.log(members[s] - law.discount) + values[column[s], r]
            elif not alone:
                free = s
        share = math.log((law.birth + law.extra * atoms) / auxiliary)  # mutant: pick share
        for j in range(auxiliary):
            weights[slots + j] = share + values[fresh + j, r]
        if alone:  # its own atom is the first of those without other rows
            weights[slots] = share + values[column[old], r]  # mutant: pick weights
        total = _exponentiate(weights)
        chosen = _choose(weights, uniform(key, start + r) * total)
        if chosen >= slots:
            if not (alone and chosen == slots):
                column[free] = fresh + chosen - slots
            chosen = free
        members[chosen] += 1
        labels[start + r] = chosen
