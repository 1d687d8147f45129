"""A sampler to copy: a whole model in NumPy, small enough to be read at once. It keeps everything of contracts.Model.

Rows are normal with variance one around the mean of their atom; K atoms have symmetric Dirichlet weights and normal
means. Given weights and means (the message), labels are independent, so that shards draw them wherever they are; given
labels, counts and sums (what shards report) are all that the global step needs.

A sampler of an existing model is less work: derive from its base (Mixture, Groups, Features), write `global_step`, and
list it in the folder's samplers.py. Either way it stays out of the lists until enumeration has cleared it
(tests/test_skeletons.py does that here), Geweke's test agrees, and a mutant of it has died.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Parallel, Summary, in_this_thread
from unbounded.randomness import generator
from unbounded.rows import boundaries

# ---- shards: the data and their part of Z


class RowShard:
    """Some rows with their labels. `arrays` is what a checkpoint keeps: with the recipe, it is all there is."""

    def __init__(self, index: int, x: Array):
        self.index, self.x, self.labels = index, x, np.zeros(len(x), np.int64)

    def arrays(self) -> dict[str, Array]:
        return {"labels": self.labels}

    def restore(self, arrays: Arrays) -> None:
        self.labels[:] = arrays["labels"]

    def put(self, labels: Array) -> None:
        self.labels[:] = labels

    def get(self) -> Array:
        return self.labels


@dataclass(frozen=True)
class RowRecipe:
    """The recipe: it pickles, and a worker calls it for its own shards only."""

    x: Array
    n_shards: int

    @property
    def edges(self) -> Array:
        return boundaries(len(self.x), self.n_shards)

    def __call__(self, p: int) -> RowShard:
        start, stop = self.edges[p : p + 2].tolist()
        return RowShard(p, self.x[start:stop])


# ---- what travels, and what a round leaves


class Atoms(NamedTuple):
    """The message for everybody."""

    round: int
    log_weights: Array
    means: Array


@dataclass(frozen=True)
class AtomState:
    """Counts and sums of rows of each atom."""

    round: int
    counts: Array
    sums: Array

    def arrays(self) -> dict[str, Array]:
        return {"round": np.array(self.round), "counts": self.counts, "sums": self.sums}


# ---- the model


@dataclass(frozen=True)
class FiniteMixture:
    """n_atoms: K; mass: alpha, of weights ~ Dirichlet(alpha / K, ..); spread: the means' standard deviation."""

    n_rows: int
    n_shards: int
    seed: int
    n_atoms: int = 3
    mass: float = 1.0
    spread: float = 3.0

    @property
    def exact(self) -> bool:
        return True

    def settled(self) -> int:
        return 0

    def reseeded(self, seed: int) -> Self:
        return replace(self, seed=seed)

    def recipe(self, X: Array) -> RowRecipe:
        return RowRecipe(X, self.n_shards)

    def begin(self, engine: Engine, assignments: Array) -> AtomState:
        engine.map(RowShard.put, np.split(np.asarray(assignments), boundaries(self.n_rows, self.n_shards)[1:-1]))
        gathered = engine.run(self.report, Message(None, [None] * self.n_shards))
        return AtomState(0, gathered.shared["counts"], gathered.shared["sums"])

    def jump(self, state: AtomState, engine: Engine) -> AtomState:
        """Moves of whole atoms, for which rows must be asked: this sampler has none."""
        return state

    def global_step(self, state: AtomState, parallel: Parallel = in_this_thread) -> Message:
        """Each purpose has randomness of its own, from the seed and the round: nothing is carried along."""
        shares = generator(self.seed, "weights", state.round).gamma(state.counts + self.mass / self.n_atoms)
        variance = 1.0 / (state.counts + self.spread**-2)
        noise = generator(self.seed, "parameters", state.round).normal(size=self.n_atoms)
        atoms = Atoms(state.round, np.log(shares), state.sums * variance + np.sqrt(variance) * noise)
        return Message(atoms, [None] * self.n_shards)

    def local_step(self, shard: RowShard, shared: Atoms, own: None) -> Summary:
        """Labels by Gumbel's trick; the shard's number is part of the key, or all shards would draw the same."""
        noise = generator(self.seed, "label", shared.round, shard.index).gumbel(size=(len(shard.x), self.n_atoms))
        score = shared.log_weights - 0.5 * (shard.x[:, None] - shared.means) ** 2
        shard.labels[:] = np.argmax(score + noise, axis=1)
        return self.report(shard, shared, own)

    def report(self, shard: RowShard, shared: object, own: None) -> Summary:
        """What adds up over shards; nothing here is private to one."""
        counts = np.bincount(shard.labels, minlength=self.n_atoms)
        sums = np.bincount(shard.labels, shard.x, minlength=self.n_atoms)
        return Summary({"counts": counts, "sums": sums}, {})

    def gather(self, state: AtomState, message: Message, gathered: Gathered) -> AtomState:
        return AtomState(state.round + 1, gathered.shared["counts"], gathered.shared["sums"])

    # ---- what a chain records

    def scalars(self, state: AtomState) -> dict[str, float]:
        """Whatever the labels of atoms are."""
        return {"n_clusters": float((state.counts > 0).sum()), "largest": float(state.counts.max() / self.n_rows)}

    def assignments(self, state: AtomState, engine: Engine) -> Array:
        return np.concatenate(engine.map(RowShard.get))

    def snapshot(self, state: AtomState, engine: Engine) -> dict[str, Array]:
        return {"labels": self.assignments(state, engine), "counts": state.counts, "sums": state.sums}

    def restore(self, arrays: Mapping[str, Array]) -> AtomState:
        return AtomState(int(arrays["round"]), arrays["counts"], arrays["sums"])
