"""Feature models, in which every row has a count of every atom: what the hybrid sampler and its rivals share.

A round is described in docs/features.md ("A round"); its data structures are in state.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unbounded.arrays import Array, Arrays, packed_entries
from unbounded.contracts import BatchStep, Engine, Gathered, Message, Pairs, Summaries, Summary
from unbounded.disk import allocate
from unbounded.models.features.kernels import FeatureKernel, build_kernel
from unbounded.models.features.likelihood import FeatureBound, FeatureStatistics
from unbounded.models.features.measure import FeatureHyper, FeatureMeasure
from unbounded.models.features.operations import Finite, Keys, Mobile
from unbounded.models.features.state import (
    ColumnTable,
    FeaturePart,
    FeatureRecipe,
    FeatureRound,
    FeatureShard,
    FeatureState,
    all_shared,
    upper_triangle,
)
from unbounded.randomness import generator, key
from unbounded.rows import boundaries
from unbounded.setup import Built
from unbounded.shares import above

Steps = Callable[[Pairs, Any], Iterator[Summary | Summaries]]


@dataclass(frozen=True)
class Features(Built[FeatureMeasure, FeatureBound, int]):
    """What the hybrid sampler and its rivals share; each has a global step of its own."""

    @cached_property
    def kernel(self) -> FeatureKernel:
        return build_kernel(self.setup)

    @cached_property
    def n_rows(self) -> int:
        return self.setup.extent

    def recipe(self, X: Any) -> FeatureRecipe:
        return FeatureRecipe(X, self.likelihood, self.n_shards, self.measure.binary, self.kernel.shard)

    def begin(
        self, engine: Engine, Z: Array, hyper: FeatureHyper | None = None, scales: Any = None, round_: int = 0
    ) -> FeatureState:
        """The state with this Z; empty columns are dropped."""
        Z = np.asarray(Z)
        Z = Z[:, (Z != 0).any(axis=0)]
        Z = np.concatenate([Z.T, np.ones((self.likelihood.fixed, len(Z)), Z.dtype)])
        engine.map(FeatureShard.put, np.split(Z, boundaries(self.n_rows, self.n_shards)[1:-1], axis=1))
        scales = self.likelihood.start() if scales is None else scales
        return self.count(engine, len(Z), hyper or self.measure.start(), scales, round_)

    def count(self, engine: Engine, n_shared: int, hyper: FeatureHyper, scales: Any, round_: int) -> FeatureState:
        """The state of shards whose columns are all shared: a local step in which nothing moves."""
        loadings = self.likelihood.draw_prior(scales, n_shared, generator(self.seed, "count", round_))
        none = Mobile(np.empty(0, np.int64), np.empty(0))
        still = self.closed_round(round_, none, scales, loadings, hyper)
        gathered = engine.run(self.local_step, Message(still, [all_shared(loadings)] * self.n_shards))
        return self.assemble(round_, hyper, scales, gathered)

    def keys(self, round_: int) -> Keys:
        return Keys(*[key(self.seed, purpose, round_) for purpose in Keys._fields])

    def closed_round(
        self, round_: int, mobile: Mobile, scales: Any, loadings: Array, hyper: FeatureHyper
    ) -> FeatureRound:
        """A round without private atoms and without births: all columns are shared, and the first ones are mobile."""
        finite = self.finite(mobile, scales, loadings)
        closed = self.measure.law(hyper, self.n_rows, open_=False)
        return FeatureRound(round_, (finite,), (closed, closed), scales, loadings, hyper, self.keys(round_))

    def finite(self, mobile: Mobile, scales: Any, loadings: Array) -> Finite:
        """The finite part; loadings: of all shared columns, mobile ones first.

        Counts are always computed in double precision: the error of single precision grows with them without bound.
        """
        dtype = self.setup.dtype if self.measure.binary else "float64"  # mutant: precision of counts
        spec = self.likelihood.spec(scales, loadings, len(mobile.order), dtype)
        return Finite(spec, mobile, len(loadings))

    def jump(self, state: FeatureState, engine: Engine) -> FeatureState:
        return state

    def statistics(self, state: FeatureState, chosen: Array) -> FeatureStatistics:
        table = state.table
        products = table.products[np.ix_(chosen, chosen)] if self.likelihood.gram else table.products[chosen]
        return FeatureStatistics(
            table.members[chosen], products, table.sums[chosen], table.rest, table.square, self.n_rows
        )

    def everything(self, state: FeatureState) -> FeatureStatistics:
        """Statistics of all occupied atoms, then of the always-on columns."""
        return self.statistics(state, np.concatenate([state.occupied, state.always]))

    # ---- local step

    @property
    def local_step(self) -> BatchStep:
        return self.together(self.steps)

    def together(self, steps: Steps) -> BatchStep:
        """A step on one shard after another, or on all of a worker's, as the kernel prefers."""
        return BatchStep(steps, self.kernel.whole)

    def steps(self, pairs: Pairs, shared: FeatureRound) -> Iterator[Summary | Summaries]:
        return self.kernel.steps((shard, FeaturePart(shared, own)) for shard, own in pairs)

    # ---- gather

    def gather(self, state: FeatureState, message: Message, gathered: Gathered) -> FeatureState:
        done: FeatureRound = message.shared
        return self.assemble(state.round + 1, done.hyper, done.scales, gathered)

    def assemble(self, round_: int, hyper: FeatureHyper, scales: Any, gathered: Gathered) -> FeatureState:
        """The state after shards have reported on their Z."""
        shared, private = gathered.shared, gathered.private
        n_private = np.array([len(p["members"]) for p in private])
        private = [part for part in private if len(part["members"])]
        owner = np.where(shared["shards"] == 1, shared["owner"], -1)
        table = ColumnTable(
            np.concatenate([shared["members"], *(p["members"] for p in private)]),
            self._products(shared, private),
            np.concatenate([shared["sums"], *(p["sums"] for p in private)]),
            np.concatenate([owner, np.repeat(np.arange(self.n_shards), n_private)]),
            shared["rest"],
            float(shared["square"]),
            float(shared["entries"]),
        )
        return FeatureState(round_, hyper, scales, table, len(owner), n_private, self.likelihood)

    def _products(self, shared: Arrays, private: Sequence[Arrays]) -> Array:
        """Z'Z of all columns; private columns of two shards never meet."""
        n_shared = len(shared["members"])
        total = n_shared + sum(len(part["members"]) for part in private)
        products = np.zeros((total, total if self.likelihood.gram else 0))
        if self.likelihood.gram:
            upper = upper_triangle(n_shared)
            products[upper] = shared["products"]
            products[upper[::-1]] = shared["products"]
            first = n_shared
            for part in private:
                last = first + len(part["members"])
                products[:n_shared, first:last] = part["cross"]
                products[first:last, :n_shared] = part["cross"].T
                products[first:last, first:last] = part["products"]
                first = last
        return products

    # ---- what a chain records

    def scalars(self, state: FeatureState) -> dict[str, float]:
        live = state.occupied
        members = state.table.members[live].astype(float)
        everything = self.everything(state)
        # mutant: features log joint
        log_joint = (
            self.measure.log_prior(state.hyper)
            + self.measure.log_prob(state.hyper, members, self.n_rows)
            + state.table.entries
            + self.likelihood.log_joint(state.scales, everything)
        )
        return {
            "n_features": len(live),
            **above(members / self.n_rows),
            **self.measure.scalars(state.hyper),
            **self.likelihood.scalars(state.scales),
            "log_joint": float(log_joint),
            "per_row": float(members.sum() / self.n_rows),
            "largest": float(members.max(initial=0.0) / self.n_rows),
        }

    def assignments(self, state: FeatureState, engine: Engine) -> Array:
        """[n, K]: Z of all rows, in the order of the occupied atoms of the table."""
        parts = engine.map(FeatureShard.columns, state.sources())
        return np.concatenate(parts, axis=1, out=allocate((len(state.occupied), self.n_rows), parts[0].dtype)).T

    def snapshot(self, state: FeatureState, engine: Engine) -> dict[str, Array]:
        """Z, and one draw of all loadings and scales given it."""
        Z = self.assignments(state, engine)
        everything = self.everything(state)
        loadings, scales = self.likelihood.draw(state.scales, everything, generator(self.seed, "snapshot", state.round))
        return {
            **packed_entries(Z),
            "members": everything.members,
            "loadings": loadings,
            "scales": self.likelihood.pack(scales),
            "hyper": np.array(state.hyper),
        }

    def restore(self, arrays: Arrays) -> FeatureState:
        hyper = self.measure.restore(arrays["hyper"])
        members, products, sums, owner, rest = (arrays[n] for n in ("members", "products", "sums", "owner", "rest"))
        square, entries = float(arrays["square"]), float(arrays["entries"])
        table = ColumnTable(members, products, sums, owner, rest, square, entries)
        scales = self.likelihood.unpack(arrays["scales"])
        n_shared, n_private = int(arrays["n_shared"]), arrays["n_private"]
        return FeatureState(int(arrays["round"]), hyper, scales, table, n_shared, n_private, self.likelihood)
