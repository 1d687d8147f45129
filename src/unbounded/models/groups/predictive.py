"""New groups given a draw: their proportions of the draw's atoms, by Gibbs sampling with everything else fixed.

Given a draw, an atom's predictive of a row is collapsed (its parameters are averaged over), and the top weights are
their means given the table counts. Column K is all that is not among the K atoms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.likelihoods.base import Bound
from unbounded.models.groups.contents import content_of
from unbounded.models.groups.shard import Draw, Predictives
from unbounded.models.groups.words.reseat import Given, NewDocuments, fold_in_repeating, log_completed

__all__ = ["Draw", "Newcomers", "completion", "fold_in", "fold_in_given", "gibbs", "predictives"]


class Newcomers(NamedTuple):
    """New rows, group after group. Row i has likelihoods table[index[i]]; of `total` rows it is number first + i."""

    table: Any
    index: Any
    sizes: Any
    first: int = 0
    total: int | None = None  # all rows have random numbers of their own; by default these are all


class Gibbs(NamedTuple):
    """How many sweeps there are, and how many of the last ones are kept."""

    sweeps: int
    keep: int
    key: np.uint64


def predictives(likelihood: Bound, draw: Draw, X: Any) -> Predictives:
    return content_of(likelihood).predictives(draw, X)


def fold_in(
    likelihood: Bound, draw: Draw, X: Any, sizes: Array, sweeps: int, key: np.uint64, keep: int = 1
) -> tuple[Array, Array]:
    """(labels [n], shares [groups, K + 1]): a Gibbs draw of new rows' atoms, and the mean of their groups' shares.

    Shares are posterior means given the labels, averaged over the last `keep` sweeps.
    """
    table, index, _ = predictives(likelihood, draw, X)
    new, after = Newcomers(table, index, sizes), draw.hyper.content.after
    return fold_in_given(new, draw.masses, after, Gibbs(sweeps, keep, key))


def fold_in_given(new: Newcomers, masses: Array, after: float, how: Gibbs) -> tuple[Array, Array]:
    """`fold_in` given likelihoods, gamma beta and how soon documents repeat themselves."""
    if after == math.inf:
        return gibbs(new, masses, how)
    labels, _ = gibbs(new, masses, Gibbs(1, 1, how.key))
    documents = NewDocuments(new.index, new.sizes, labels)
    return fold_in_repeating(documents, Given(new.table, masses, after), *how)


def gibbs(new: Newcomers, masses: Array, how: Gibbs) -> tuple[Array, Array]:
    """`fold_in_given` where nobody repeats anything."""
    offsets = np.concatenate([[0], np.cumsum(new.sizes)]).astype(np.int64)
    labels = np.zeros(len(new.index), np.int32)
    shares = np.zeros((len(new.sizes), new.table.shape[1]))
    total = len(new.index) if new.total is None else new.total
    _join(new._replace(sizes=offsets, total=total), masses, how, labels, shares)
    return labels, shares


@jit
def _join(new, masses, how, labels, shares):
    """Gibbs sweeps over the labels of new rows, everything but them fixed; `sizes` says where groups begin and end.

    Rows join one after another in the first sweep. shares[g] is the mean over the sweeps that are kept of
    (n_gk + masses_k) / (n_g + gamma).
    """
    offsets = new.sizes
    atoms = masses.size
    counts = np.zeros(atoms)
    running = np.empty(atoms)
    gamma = masses.sum()
    for g in range(offsets.size - 1):
        counts[:] = masses
        rows = offsets[g + 1] - offsets[g]
        for sweep in range(how.sweeps):
            for i in range(offsets[g], offsets[g + 1]):
                if sweep > 0:
                    counts[labels[i]] -= 1.0
                row = new.table[new.index[i]]
                total = 0.0
                for k in range(atoms):
                    total += counts[k] * row[k]
                    running[k] = total
                aim = uniform(how.key, sweep * new.total + new.first + i) * total
                k = np.searchsorted(running, aim, side="right")
                labels[i] = min(k, atoms - 1)
                counts[labels[i]] += 1.0
            if sweep >= how.sweeps - how.keep:
                for k in range(atoms):
                    shares[g, k] += counts[k] / (how.keep * (rows + gamma))  # mutant: fold in shares


def completion(
    likelihood: Bound, draw: Draw, seen: tuple[Any, Array], rest: tuple[Any, Array], sweeps: int, key: np.uint64
) -> Array:
    """[n]: the log probability of each row of `rest` given the rows `seen` of its group, both (rows, group sizes).

    The shares of a group come from the rows seen, by Gibbs sampling; every row of the rest is then scored alone, with a
    distribution that sums to one over all values it might have. Where documents repeat themselves, it may be a repeat.
    """
    _, shares = fold_in(likelihood, draw, seen[0], seen[1], sweeps, key, keep=max(1, sweeps // 2))
    table, index, scale = predictives(likelihood, draw, rest[0])
    group, after = np.repeat(np.arange(len(rest[1])), rest[1]), draw.hyper.content.after
    logs = np.log(np.einsum("ik,ik->i", table[index], shares[group])) + scale
    return logs if after == math.inf else log_completed(logs, (index, group), seen, after)
