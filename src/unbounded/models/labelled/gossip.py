"""Asynchronous approximate collapsed Gibbs (Smyth, Welling and Asuncion 2009): shards gossip instead of meeting.

A shard sweeps its rows by collapsed Gibbs as if the others were what it last heard of them, then tells one of them,
drawn at random, what it has. Atoms have numbers: a new one takes the lowest that its shard does not know to be in use,
and equal numbers are the same atom. Rows that move elsewhere meanwhile are not seen: approximate with two shards or
more, and with one shard collapsed Gibbs, exact.

Here a round is L sweeps of every shard and one message of each. Concentrations and, of groups, the weights of atoms are
drawn between rounds from what is true. What shard p has heard of shard q is kept until p hears of it again: up to P^2
tables of the atoms that a shard has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Gathered
from unbounded.models.labelled.labels import LabelShard
from unbounded.models.labelled.packing import packed, unpacked
from unbounded.randomness import generator, key

FREE_SLOTS = 16


class Version(NamedTuple):
    """Rows and statistics of each atom of a shard, by its number, as they were at some time."""

    counts: Array
    statistics: Any


Known = Sequence[Sequence[Version]]  # [p][q]: what shard p has heard of shard q


def widened(rows: Any, size: int) -> Any:
    """A table with empty atoms appended, so that it has `size` of them."""
    if rows.shape[0] >= size:
        return rows
    missing = (size - rows.shape[0], *rows.shape[1:])
    kind: Any = sparse.csr_matrix if sparse.issparse(rows) else np.zeros
    return stacked([rows, kind(missing, dtype=rows.dtype)])


def summed(versions: Sequence[Version]) -> Version:
    """The rows of some shards together, atom by atom."""
    size = max(len(version.counts) for version in versions)
    total = Version(*(widened(rows, size) for rows in versions[0]))
    for version in versions[1:]:
        total = Version(*(a + widened(b, size) for a, b in zip(total, version, strict=True)))
    return total


def of_others(known: Known, p: int) -> Version:
    """What shard p believes the other shards have."""
    nothing = Version(*(rows[:0] for rows in known[p][p]))
    return summed([version for q, version in enumerate(known[p]) if q != p] or [nothing])  # mutant: of others result


def gossip(known: Known, now: Sequence[Version], rng: np.random.Generator) -> Known:
    """Every shard tells another one what it has now."""
    n_shards = len(now)
    heard = [list(row) for row in known]
    for q, version in enumerate(now):
        heard[q][q] = version
        if n_shards > 1:
            heard[(q + 1 + int(rng.integers(n_shards - 1))) % n_shards][q] = version
    return heard


def stacked(parts: list[Any]) -> Any:
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def to_arrays(known: Known) -> dict[str, Array]:
    """What is known, as a checkpoint keeps it."""
    versions = [version for row in known for version in row]
    arrays = packed(stacked([version.statistics for version in versions]))
    arrays |= {"counts": np.concatenate([version.counts for version in versions])}
    return {f"known_{name}": value for name, value in arrays.items()} | {
        "known_sizes": np.array([[len(version.counts) for version in row] for row in known])
    }


def from_arrays(arrays: Arrays, n_terms: int) -> Known:
    """What is known, from the arrays of a checkpoint."""
    own = {name.removeprefix("known_"): value for name, value in arrays.items() if name.startswith("known_")}
    statistics, ends = unpacked(own, n_terms), np.cumsum(own["sizes"])
    pieces = [slice(end - size, end) for end, size in zip(ends, own["sizes"].ravel(), strict=True)]
    versions = [Version(own["counts"][piece], statistics[piece]) for piece in pieces]
    n_shards = len(own["sizes"])
    return [versions[p * n_shards : (p + 1) * n_shards] for p in range(n_shards)]


def heard_of(gathered: Gathered) -> list[Version]:
    return [Version(part["counts"], part["statistics"]) for part in gathered.private]


def n_numbers(labels: Array) -> int:
    return int(labels.max(initial=-1)) + 1


def impute(model: Any, shard: LabelShard, own: Version, others: Version, round_: int) -> None:
    """Redraw the holes of a shard given parameters of what it knows of its atoms."""
    counts, statistics = summed([own, others])
    parameters = model.likelihood.draw(
        counts.astype(float), statistics, generator(model.seed, "parameters", round_, shard.index)
    )
    impute_key = key(model.seed, "impute", round_)
    model.likelihood.impute(shard.data, shard.holes, shard.labels, parameters, impute_key, shard.first)
