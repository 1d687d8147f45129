"""The local step of samplers that instantiate every occupied atom: the slice sampler and Neal's Algorithm 8.

Both take log likelihoods of a block of rows under all atoms at once (`operations.logits`), without weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.likelihoods.operations import Block, largest, logits
from unbounded.models.labelled.labels import LabelShard
from unbounded.models.mixtures.kernel import CompiledLabels, LabelRows, choose, draw_mobile, scratch

# ---- slices


class SliceKeys(NamedTuple):
    slice: np.uint64
    label: np.uint64


@dataclass(frozen=True)
class SliceKernel:
    """Labels above slices. dtype: of likelihoods, as for `CompiledLabels`, to which these are what they share."""

    likelihood: Bound
    dtype: str = "float64"

    @cached_property
    def labels(self) -> CompiledLabels:
        return CompiledLabels(self.likelihood, self.dtype)

    def finite(self, parameters: Parameters, log_weights: Array) -> tuple[Any, Array]:
        """(What `logits` takes, without weights; the weights.)"""
        # mutant: finite result
        return self.labels.finite(parameters, np.zeros(len(log_weights))), np.exp(log_weights)

    def smallest(self, shard: LabelShard, weights: Array, slices: np.uint64) -> float:
        return float(_smallest(shard.labels, weights, slices, shard.first))

    def sweep(self, shard: LabelShard, part: tuple[Any, Array], keys: SliceKeys) -> None:
        finite, weights = part
        work = self.labels.scratch(len(shard.labels), finite, len(weights), 1)
        _draw_above(self.labels.spec, LabelRows(shard.data, shard.labels, shard.first), finite, weights, keys, work)


SLICE_KERNELS: Mapping[str, Callable[[Bound, str], SliceKernel]] = {"cpu": SliceKernel}


@jit
def _smallest(labels, weights, slices, first):
    """The smallest slice of a shard; a row's slice is uniform below the weight of its atom."""
    value = np.inf
    for i in range(labels.size):
        value = min(value, uniform(slices, first + i) * weights[labels[i]])
    return value


@jit
def _draw_above(specs, rows, finite, weights, keys, work):
    """Draw every row's label in proportion to its likelihood, among the atoms that weigh as much as its slice."""
    values, level = work.logits, work.cap
    labels, first = rows.labels, rows.first
    n = labels.size
    lanes = level.size
    for start in range(0, n, lanes):
        size = min(lanes, n - start)
        logits(finite, specs, Block(rows.data, start, size, work.terms), values, work.top)
        for r in range(lanes):
            level[r] = uniform(keys.slice, first + start + r) * weights[labels[start + r]] if r < size else 0.0
        for k in range(values.shape[0]):
            for r in range(lanes):
                if weights[k] < level[r]:
                    values[k, r] = -np.inf
        largest(values, work.top)
        draw_mobile(work, keys.label, first + start)
        for r in range(size):
            labels[start + r] = np.int32(work.choice[r])


# ---- Algorithm 8


class Candidates(NamedTuple):
    """Atoms that rows choose from: slot s has members[s] rows and the parameters at column[s] of the finite part.

    After the columns of slots, `auxiliary` fresh atoms for each row of the block have theirs.
    """

    members: Any
    column: Any
    auxiliary: int
    law: Any


@dataclass(frozen=True)
class Algorithm8Kernel:
    likelihood: Bound

    @cached_property
    def spec(self) -> tuple[Any, ...]:
        return self.likelihood.spec()

    def finite(self, parameters: Parameters, log_weights: Array) -> Array:
        """[K, F + 1]: natural parameters, the bias last; atoms come and go, so that one row of it is one atom."""
        bias, eta = self.likelihood.natural(parameters)
        return np.concatenate([eta, (bias + log_weights)[:, None]], axis=1)

    def pick(self, shard: LabelShard, rows: range, atoms: Array, candidates: Candidates, label_key: np.uint64) -> None:
        """The rows of a block choose; members and columns of the candidates change in place."""
        sparse = self.likelihood.columns.sparse
        slots = len(candidates.members) + candidates.auxiliary
        work = scratch(0 if sparse else self.likelihood.n_terms, len(atoms), slots, rows.step, np.float64)
        finite = np.ascontiguousarray(atoms.T) if sparse else atoms
        block = Block(shard.data, rows.start, rows.stop - rows.start, work.terms)
        _pick(self.spec, block, shard.labels, finite, candidates, label_key, work)


ALGORITHM8_KERNELS: Mapping[str, Callable[[Bound], Algorithm8Kernel]] = {"cpu": Algorithm8Kernel}


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
def _pick(specs, block, labels, finite, candidates, key, work):
    """Algorithm 8 on the rows of a block, one after another.

    A row that makes an atom puts it in an empty slot, of which there is at least one for each row.
    """
    values, weights, start = work.logits, work.weights, block.start
    members, column, auxiliary, law = candidates
    slots = members.size
    logits(finite, specs, block, values, work.top)
    for r in range(block.size):
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
        chosen = choose(weights, uniform(key, start + r) * total)
        if chosen >= slots:
            if not (alone and chosen == slots):
                column[free] = fresh + chosen - slots
            chosen = free
        members[chosen] += 1
        labels[start + r] = chosen
