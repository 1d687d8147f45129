"""New rows of groups, and how likely rows are, given a draw: top weights, shares of groups and parameters are drawn.

Given labels and tables, beta ~ Dirichlet(tables, alpha), pi_g ~ Dirichlet(n_g + gamma beta), and atoms have their own
posteriors: all of them are independent, but for pi_g given beta. A group without rows is a new one (docs/topics.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from unbounded.arrays import Array
from unbounded.models.groups.contents import content_of
from unbounded.models.groups.measures import GroupMeasure
from unbounded.models.groups.shard import Draw, group_blocks
from unbounded.models.groups.words import repeats
from unbounded.randomness import log_gamma_draws

_BLOCK = 2**14
_SMALLEST = 1e-300  # of a shape: its weight is zero, without a warning


class Members(NamedTuple):
    """Groups of rows: how many each has, and the atoms of those that a draw has placed, group after group."""

    sizes: Array
    labels: Array | None = None  # None: all groups are new

    def blocks(self, n_atoms: int) -> Iterator[tuple[slice, slice, Array]]:
        """(groups, their rows, [groups, K] rows of each atom), some groups at a time."""
        offsets = np.append(0, np.cumsum(self.sizes))
        for first, last in group_blocks(self.sizes, _BLOCK):
            rows, counts = slice(offsets[first], offsets[last]), np.zeros((last - first, n_atoms))
            if self.labels is not None:
                group = np.repeat(np.arange(last - first), self.sizes[first:last])
                np.add.at(counts, (group, self.labels[rows]), 1.0)
            yield slice(first, last), rows, counts


def new_groups(measure: GroupMeasure, likelihood: Any, draw: Draw, sizes: Array, rng: np.random.Generator) -> Any:
    """Rows of new groups of these sizes; documents may repeat themselves."""
    after = draw.hyper.content.after
    if after == math.inf:
        return new_rows(measure, likelihood, draw, Members(sizes), rng)
    fresh, which = repeats.drawn(sizes, after, rng)
    return new_rows(measure, likelihood, draw, Members(fresh), rng)[which]


def new_rows(measure: GroupMeasure, likelihood: Any, draw: Draw, groups: Members, rng: np.random.Generator) -> Any:
    """As many new rows as each group has, in the groups as a draw knows them; new atoms are the same in all groups."""
    masses = _masses(measure, draw, rng)
    n_atoms, labels, rest = len(draw.counts), [], []
    for own, _, counts in groups.blocks(n_atoms):
        times = rng.multinomial(groups.sizes[own], np.exp(_log_shares(masses, counts, rng)))
        drawn = np.repeat(np.tile(np.arange(n_atoms + 1), len(times)), times.ravel())
        group = np.repeat(np.arange(len(times)), groups.sizes[own])
        labels.append(drawn[np.lexsort([rng.random(len(drawn)), group])])  # mutant: order of new rows
        rest.append(times[:, -1])
    atoms = np.concatenate(labels)
    unknown = measure.unknown(draw.hyper.measure, n_atoms, max(float(masses[-1]), _SMALLEST))
    atoms[atoms == n_atoms] += measure.simulate(unknown, np.concatenate(rest), rng)  # mutant: rows of new atoms
    bound = content_of(likelihood).at(draw.hyper.content)
    extra = max(0, int(atoms.max(initial=-1)) + 1 - n_atoms)
    return bound.simulate(bound.draw(*_with_new(draw, extra), rng), atoms, rng)


def log_likelihood(
    measure: GroupMeasure, likelihood: Any, draw: Draw, groups: Members, X: Any, rng: np.random.Generator
) -> Array:
    """[n]: log densities of the rows that a draw was made of, their atoms summed out; a new atom is integrated out."""
    masses, content, out = _masses(measure, draw, rng), content_of(likelihood), np.empty(int(groups.sizes.sum()))
    parameters = content.at(draw.hyper.content).draw(draw.counts.astype(float), draw.statistics, rng)
    for own, where, counts in groups.blocks(len(draw.counts)):
        shares = np.repeat(_log_shares(masses, counts, rng), groups.sizes[own], axis=0)
        out[where] = logsumexp(content.log_densities(draw, parameters, X[where]) + shares, axis=1)
    return out


def _masses(measure: GroupMeasure, draw: Draw, rng: np.random.Generator) -> Array:
    """gamma beta of atoms and, last, of all others."""
    return measure.masses(draw.hyper.measure, np.exp(measure.sticks(draw.hyper.measure, draw.tables, rng)[0]))


def _log_shares(masses: Array, counts: Array, rng: np.random.Generator) -> Array:
    """[groups, K + 1]: a draw of every group's shares given its rows of each atom."""
    shapes = np.column_stack([counts, np.zeros(len(counts))]) + masses  # mutant: shares of groups
    logs = log_gamma_draws(np.maximum(shapes, _SMALLEST), rng)
    value: Array = logs - logsumexp(logs, axis=1, keepdims=True)
    return value


def _with_new(draw: Draw, extra: int) -> tuple[Array, Any]:
    """Counts and statistics, with so many empty atoms after the others."""
    counts, width = np.append(draw.counts.astype(float), np.zeros(extra)), draw.statistics.shape[1]
    if isinstance(draw.statistics, np.ndarray):
        return counts, np.concatenate([draw.statistics, np.zeros((extra, width))])
    empty: Any = sparse.csr_matrix((extra, width))
    return counts, sparse.vstack([draw.statistics, empty], format="csr")
