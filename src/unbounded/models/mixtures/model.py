"""Mixtures: what their samplers share when every row has one label (docs/sampler.md, "A round").

The table of atoms after a round: first the atoms that all shards share (mobile, then frozen), then each shard's private
ones. A shard codes a label as the shared index, or as n_shared + its own private index.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Summary
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.labelled.labels import LabelShard, all_labels, smallest_type
from unbounded.models.mixtures.kernels import build_kernel
from unbounded.models.mixtures.measures import PartitionMeasure
from unbounded.models.mixtures.message import (
    LabelKernel,
    MixturePart,
    MixtureRound,
    MixtureShare,
    SweepKeys,
)
from unbounded.randomness import key
from unbounded.rows import boundaries, rows_of
from unbounded.setup import Built
from unbounded.shares import above

MeasureT = TypeVar("MeasureT", bound=PartitionMeasure)


class AtomTable(NamedTuple):
    """Atoms with their statistics; `owner` is the only shard with members, or -1 when several or none have some."""

    counts: Array
    statistics: Array
    owner: Array


@dataclass(frozen=True)
class MixtureState:
    round: int
    hyper: Any  # of the measure's own type
    table: AtomTable
    n_shared: int
    n_private: Array  # [P]

    def arrays(self) -> dict[str, Array]:
        scalars = {"round": np.array(self.round), "n_shared": np.array(self.n_shared), "hyper": np.array(self.hyper)}
        return {**scalars, "n_private": self.n_private, **self.table._asdict()}

    @cached_property
    def occupied(self) -> Array:
        return (self.table.counts > 0).nonzero()[0]


@dataclass(frozen=True)
class RowRecipe:
    """The recipe: rows cut into P contiguous shards."""

    X: Any
    likelihood: Bound
    n_shards: int
    kind: type[LabelShard] = LabelShard

    @property
    def edges(self) -> Array:
        return boundaries(self.X.shape[0], self.n_shards)

    def __call__(self, p: int) -> LabelShard:
        start, stop = self.edges[p : p + 2].tolist()
        shard = self.kind(p, start, rows_of(self.X, start, stop), stop - start, self.likelihood.imputed)
        shard.fill(self.likelihood.columns.mean)
        return shard


@dataclass(frozen=True)
class Mixture(Built[MeasureT, Bound, int], Generic[MeasureT]):
    """What the hybrid sampler and its rivals share; each has a global step of its own."""

    takes_pilots: ClassVar[bool] = False  # whether its shards let all rows join the clusters of a pilot (start.py)

    @property
    def n_rows(self) -> int:
        return self.setup.extent

    @property
    def edges(self) -> Array:
        """Shard p holds rows edges[p] .. edges[p + 1]."""
        return boundaries(self.n_rows, self.n_shards)

    @cached_property
    def kernel(self) -> LabelKernel:
        return build_kernel(self.setup.device, self.likelihood, self.setup.dtype)

    @cached_property
    def coarse(self) -> tuple[Bound, Array]:
        """The coarse likelihood, for first guesses (`Bound.coarse`)."""
        return self.likelihood.coarse()

    def recipe(self, X: Any) -> RowRecipe:
        return RowRecipe(X, self.likelihood, self.n_shards, self.kernel.shard)

    def begin(self, engine: Engine, labels: Array, hyper: Any = None, round_: int = 0) -> MixtureState:
        """The state with these labels (any integers)."""
        codes, labels = np.unique(np.asarray(labels), return_inverse=True)
        labels = labels.astype(np.int32).ravel()
        engine.map(LabelShard.put, np.split(labels, self.edges[1:-1]))
        return self.count(engine, len(codes), hyper or self.measure.start(), round_)

    def count(self, engine: Engine, n_shared: int, hyper: Any, round_: int) -> MixtureState:
        """The state of shards whose labels are all codes of n_shared shared atoms."""
        gathered = engine.run(self._summarise, Message(n_shared, [0] * self.n_shards))
        return self._assemble(round_, hyper, n_shared, gathered)

    def jump(self, state: MixtureState, engine: Engine) -> MixtureState:
        return state

    def finite(self, parameters: Parameters, log_weights: Array) -> Any:
        """The finite part, as the local step takes it."""
        return self.kernel.finite(parameters, log_weights)

    # ---- local step

    def local_step(self, shard: LabelShard, shared: MixtureRound, own: MixtureShare) -> Summary:
        shard.relabel(own.codes)
        if shared.parameters is not None and own.parameters is not None:
            both = {name: np.concatenate([v, own.parameters[name]]) for name, v in shared.parameters.items()}
            self.impute(shard, shard.labels, both, shared.round)
        return self.resample(shard, shared, own)

    def impute(self, shard: LabelShard, labels: Array, parameters: Parameters, round_: int) -> None:
        """Redraw the shard's holes given parameters of the atoms of these labels."""
        impute_key = key(self.seed, "impute", round_)
        self.likelihood.impute(shard.data, shard.holes, labels, parameters, impute_key, shard.first)

    def resample(self, shard: LabelShard, shared: MixtureRound, own: MixtureShare) -> Summary:
        """L sweeps over the shard's labels, and its report."""
        keys = [self.keys(shared.round, sweep) for sweep in range(self.setup.sweeps)]
        return self.kernel.step(
            shard, MixturePart(shared.finite, own.usable, shared.n_shared, own.n_private, own.law, keys)
        )

    def keys(self, round_: int, sweep: int) -> SweepKeys:
        # mutant: sweep keys
        return SweepKeys(*(key(self.seed, name, round_, sweep) for name in ("label", "tail")))

    def _summarise(self, shard: LabelShard, n_shared: int, n_private: int) -> Summary:
        return shard.summary(n_shared, self.kernel.count(shard, n_shared + n_private))

    # ---- gather

    def gather(self, state: MixtureState, message: Message, gathered: Gathered) -> MixtureState:
        return self._assemble(state.round + 1, message.shared.hyper, message.shared.n_shared, gathered)

    def _assemble(self, round_: int, hyper: Any, n_shared: int, gathered: Gathered) -> MixtureState:
        shared, private = gathered.shared, gathered.private
        n_private = np.array([len(p["counts"]) for p in private])
        owner = np.where(shared["shards"] == 1, shared["owner"], -1)
        table = AtomTable(
            np.concatenate([shared["counts"], *(p["counts"] for p in private)]),
            np.concatenate([shared["statistics"], *(p["statistics"] for p in private)]),
            np.concatenate([owner, np.repeat(np.arange(self.n_shards), n_private)]),
        )
        return MixtureState(round_, hyper, table, n_shared, n_private)

    # ---- what a chain records

    def scalars(self, state: MixtureState) -> dict[str, float]:
        counts = state.table.counts[state.occupied].astype(float)
        statistics = state.table.statistics[state.occupied]
        shares = counts / counts.sum()
        # mutant: log joint
        log_joint = (
            self.measure.log_prior(state.hyper)
            + self.measure.log_prob(state.hyper, counts, self.n_rows)
            + self.likelihood.log_evidence(counts, statistics)
        )
        return {
            "n_clusters": len(counts),
            **above(shares),
            **self.measure.scalars(state.hyper),
            "log_joint": float(log_joint),
            "entropy": float(-(shares * np.log(shares)).sum()),
            "largest": float(shares.max()),
        }

    def assignments(self, state: MixtureState, engine: Engine, dtype: Any = np.int32) -> Array:
        return all_labels(state, engine, dtype)

    def snapshot(self, state: MixtureState, engine: Engine) -> dict[str, Array]:
        return {
            "labels": self.assignments(state, engine, smallest_type(len(state.occupied) - 1)),
            "counts": state.table.counts[state.occupied],
            "statistics": state.table.statistics[state.occupied],
            "hyper": np.array(state.hyper),
        }

    def restore(self, arrays: Arrays) -> MixtureState:
        return MixtureState(
            int(arrays["round"]),
            self.measure.restore(arrays["hyper"]),
            AtomTable(arrays["counts"], arrays["statistics"], arrays["owner"]),
            int(arrays["n_shared"]),
            arrays["n_private"],
        )
