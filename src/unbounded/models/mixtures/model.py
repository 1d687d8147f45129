"""Mixtures: the global step when every row has one label (docs/sampler.md, "A round").

The table of atoms after a round: first the atoms that all shards share (mobile, then held), then each shard's private
ones. A shard codes a label as the shared index, or as n_shared + its own private index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Spread, Summary, alone
from unbounded.instantiation import Plan, Rule, classify
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.models.labelled import kernel as labelled
from unbounded.models.labelled.atoms import draw_parameters, finite_part
from unbounded.models.labelled.shard import LabelShard, all_labels, recode
from unbounded.models.mixtures import kernel
from unbounded.models.mixtures.measure import Hyper, PitmanYor
from unbounded.randomness import generator, key
from unbounded.rows import boundaries, rows_of


class Table(NamedTuple):
    """Atoms with their statistics; `owner` is the only shard with members, or -1 when several or none have some."""

    counts: Array
    statistics: Array
    owner: Array


@dataclass(frozen=True)
class MixtureState:
    round: int
    hyper: Hyper
    table: Table
    n_shared: int
    n_private: Array  # [P]

    def arrays(self) -> dict[str, Array]:
        scalars = {"round": np.array(self.round), "n_shared": np.array(self.n_shared), "hyper": np.array(self.hyper)}
        return {**scalars, "n_private": self.n_private, **self.table._asdict()}

    @property
    def occupied(self) -> Array:
        return np.flatnonzero(self.table.counts > 0)


class Broadcast(NamedTuple):
    """The finite part: what all shards need to know of the round."""

    round: int
    finite: Any  # parameters and weights of mobile (and stuck) atoms, as compiled code takes them
    n_mobile: int
    n_shared: int
    laws: Sequence[kernel.TailLaw]  # closed, open
    parameters: Parameters | None  # of every shared atom, when holes are imputed


class Own(NamedTuple):
    codes: Array  # new code of each of the shard's old codes
    usable: int
    n_private: int
    open: bool
    parameters: Parameters | None  # of the shard's private atoms, when holes are imputed


@dataclass(frozen=True)
class Shards:
    """The recipe: rows cut into P contiguous shards."""

    X: Any
    likelihood: Bound
    n_shards: int

    @property
    def edges(self) -> Array:
        return boundaries(self.X.shape[0], self.n_shards)

    def __call__(self, p: int) -> LabelShard:
        start, stop = self.edges[p : p + 2].tolist()
        shard = LabelShard(p, start, rows_of(self.X, start, stop), stop - start, self.likelihood.imputed)
        shard.fill(self.likelihood.columns.mean)
        return shard


@dataclass(frozen=True)
class Mixture:
    """A measure, a likelihood and an instantiation rule; everything random is keyed by the seed."""

    measure: PitmanYor
    likelihood: Bound
    rule: Rule
    n_rows: int
    n_shards: int
    seed: int
    n_rounds: int = 1000
    sweeps: int = 1
    dtype: str = "float64"

    @property
    def exact(self) -> bool:
        return self.rule.exact

    @cached_property
    def family(self) -> tuple[Any, ...]:
        return self.likelihood.family()

    def settled(self) -> int:
        return self.rule.settled(self.n_rounds)

    def recipe(self, X: Any) -> Shards:
        return Shards(X, self.likelihood, self.n_shards)

    def begin(self, engine: Engine, labels: Array, hyper: Hyper | None = None, round_: int = 0) -> MixtureState:
        """The state with these labels (any integers)."""
        codes, labels = np.unique(np.asarray(labels), return_inverse=True)
        labels = labels.astype(np.int32).ravel()
        engine.map(LabelShard.put, np.split(labels, boundaries(self.n_rows, self.n_shards)[1:-1]))
        return self.count(engine, len(codes), hyper or self.measure.start(), round_)

    def count(self, engine: Engine, n_shared: int, hyper: Hyper, round_: int) -> MixtureState:
        """The state of shards whose labels are all codes of n_shared shared atoms."""
        gathered = engine.run(self._summarise, Message(n_shared, [0] * self.n_shards))
        return self._assemble(round_, hyper, n_shared, gathered)

    def jump(self, state: MixtureState, engine: Engine) -> MixtureState:
        return state

    # ---- global step

    def global_step(self, state: MixtureState, spread: Spread = alone) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)

        live = state.occupied
        counts = state.table.counts[live].astype(float)
        statistics = state.table.statistics[live]
        owner = state.table.owner[live]
        hyper = self.measure.update(state.hyper, counts, rng("hyper"))
        plan = self.rule.plan(state.round, self.n_rounds, self.n_rows, self.n_shards, rng("plan"))
        if plan.published:
            ghosts, extra = np.ones(len(live), np.int64), np.empty(0, np.int64)
        else:
            ghosts, extra = self.measure.ghosts(hyper, counts, plan.ghosts, rng("ghosts"))
        mobile, held, private = classify(ghosts, owner, plan)
        shared = np.concatenate([mobile, held])
        n_mobile, n_shared = len(mobile) + len(extra), len(shared) + len(extra)

        usable = shared if plan.lone >= 0 else mobile
        weights, laws = self._weights(hyper, counts, ghosts, extra, usable, len(mobile), plan, rng("weights"))
        drawn = np.concatenate([shared, private]) if self.likelihood.imputes else usable
        parameters = draw_parameters(
            self.likelihood, counts[drawn], statistics[drawn], len(extra), len(mobile), rng("parameters")
        )
        n_usable = len(usable) + len(extra)
        finite = self.finite({name: value[:n_usable] for name, value in parameters.items()}, weights)

        broadcast = Broadcast(
            state.round, finite, n_mobile, n_shared, laws,
            {name: value[:n_shared] for name, value in parameters.items()} if self.likelihood.imputes else None,
        )  # fmt: skip
        new_code = np.full(len(live), -1)
        new_code[mobile] = np.arange(len(mobile))
        new_code[held] = n_mobile + np.arange(len(held))
        own = []
        for p in range(self.n_shards):
            mine = private[owner[private] == p]
            code = new_code.copy()
            code[mine] = n_shared + np.arange(len(mine))
            parts = None
            if self.likelihood.imputes:
                where = n_shared + np.flatnonzero(owner[private] == p)
                parts = {name: value[where] for name, value in parameters.items()}
            is_open = bool(plan.open[p])
            n_own = n_shared if plan.lone == p else n_mobile
            own.append(Own(recode(state, live, code, p), n_own, len(mine), is_open, parts))
        return Message((broadcast, hyper), own)

    def _weights(
        self, hyper: Hyper, counts: Array, ghosts: Array, extra: Array, usable: Array, n_mobile: int, plan: Plan,
        rng: np.random.Generator,
    ) -> tuple[Array, Sequence[kernel.TailLaw]]:  # fmt: skip
        """Log weights of the usable atoms (mobile, ghost-only, stuck) and the law of a closed and an open tail."""
        closed = kernel.TailLaw(hyper.sigma, 0.0)
        if plan.published:
            weights, rest, total = self.measure.normalised(hyper, counts, rng)
            return weights, (closed, kernel.TailLaw(hyper.sigma, total, hyper.sigma, rest, total, 1.0))
        held = (counts + ghosts)[usable]
        held = np.concatenate([held[:n_mobile], extra, held[n_mobile:]])
        weights = self.measure.log_weights(hyper, held, rng)
        birth = self.measure.birth(hyper, len(counts) + len(extra), rng)
        return weights, (closed, kernel.TailLaw(hyper.sigma, birth))

    def finite(self, parameters: Parameters, log_weights: Array) -> Any:
        return finite_part(self.likelihood, self.dtype, parameters, log_weights)

    # ---- local step

    def local_step(self, shard: LabelShard, shared: tuple[Broadcast, Hyper], own: Own) -> Summary:
        message = shared[0]
        labelled.relabel(shard.labels, own.codes)
        if message.parameters is not None and own.parameters is not None:
            both = {name: np.concatenate([v, own.parameters[name]]) for name, v in message.parameters.items()}
            impute_key = key(self.seed, "impute", message.round)
            self.likelihood.impute(shard.data, shard.holes, shard.labels, both, impute_key, shard.first)
        n_private = self._sweep(shard, message, own)
        return self._summarise(shard, message.n_shared, n_private)

    def _sweep(self, shard: LabelShard, message: Broadcast, own: Own) -> int:
        """L sweeps; returns the number of private atoms, whose codes are made consecutive."""
        law = message.laws[own.open]
        family = self.family
        n_features = self.likelihood.n_features
        finite = message.finite
        dtype = (finite if isinstance(finite, np.ndarray) else finite[0]).dtype
        wide = n_features if isinstance(finite, np.ndarray) and not self.likelihood.sparse else 0
        lanes = labelled.lanes_for(len(shard.labels), wide, own.usable, dtype.itemsize)
        slots = own.n_private + (16 if own.open else 0)
        members = np.zeros(slots, np.int64)

        def room() -> tuple[Any, kernel.Scratch]:
            rows = 0 if self.likelihood.sparse else n_features
            work = kernel.scratch(rows, own.usable, len(members) + 1, lanes, dtype)
            tail = self.likelihood.tail(len(members) + 1, lanes)
            labelled.fill_tail(family, shard.data, shard.labels, message.n_shared, tail, members, work)
            return tail, work

        tail, work = room()
        for sweep in range(self.sweeps):
            label_key, tail_key = (key(self.seed, name, message.round, sweep) for name in ("label", "tail"))
            row = 0
            while True:
                row = kernel.sweep(
                    family, shard.data, shard.labels, shard.first, row, finite, own.usable, message.n_shared, law, tail,
                    members, label_key, tail_key, work,
                )  # fmt: skip
                if row == len(shard.labels):
                    break
                members = np.zeros(2 * len(members) + 16, np.int64)
                tail, work = room()
        alive = members > 0
        codes = np.arange(message.n_shared + len(members), dtype=np.int32)
        codes[message.n_shared :] = message.n_shared + np.cumsum(alive) - 1
        if not alive[: alive.sum()].all():
            labelled.relabel(shard.labels, codes)
        return int(alive.sum())

    def _summarise(self, shard: LabelShard, n_shared: int, n_private: int) -> Summary:
        counts, sums = labelled.statistics(
            self.family, shard.data, shard.labels, n_shared + n_private, self.likelihood.n_features
        )
        there = (counts[:n_shared] > 0).astype(np.int64)
        shared = {
            "counts": counts[:n_shared],
            "statistics": sums[:n_shared],
            "shards": there,
            "owner": there * shard.index,
        }
        return Summary(shared, {"counts": counts[n_shared:], "statistics": sums[n_shared:]})

    # ---- gather

    def gather(self, state: MixtureState, message: Message, gathered: Gathered) -> MixtureState:
        broadcast, hyper = message.shared
        return self._assemble(state.round + 1, hyper, broadcast.n_shared, gathered)

    def _assemble(self, round_: int, hyper: Hyper, n_shared: int, gathered: Gathered) -> MixtureState:
        shared, private = gathered.shared, gathered.private
        n_private = np.array([len(p["counts"]) for p in private])
        owner = np.where(shared["shards"] == 1, shared["owner"], -1)
        table = Table(
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
        log_joint = (
            self.measure.log_prior(state.hyper)
            + self.measure.log_prob(state.hyper, counts)
            + self.likelihood.log_evidence(counts, statistics)
        )
        return {
            "n_clusters": len(counts),
            **self.measure.scalars(state.hyper),
            "log_joint": float(log_joint),
            "entropy": float(-(shares * np.log(shares)).sum()),
            "largest": float(shares.max()),
        }

    def assignments(self, state: MixtureState, engine: Engine) -> Array:
        return all_labels(state, engine)

    def snapshot(self, state: MixtureState, engine: Engine) -> dict[str, Array]:
        labels = self.assignments(state, engine)
        small = np.uint8 if len(state.occupied) <= 256 else np.uint16 if len(state.occupied) <= 65536 else np.int32
        return {
            "labels": labels.astype(small),
            "counts": state.table.counts[state.occupied],
            "statistics": state.table.statistics[state.occupied],
            "hyper": np.array(state.hyper),
        }

    def restore(self, arrays: Arrays) -> MixtureState:
        return MixtureState(
            int(arrays["round"]),
            Hyper(*(float(v) for v in arrays["hyper"])),
            Table(arrays["counts"], arrays["statistics"], arrays["owner"]),
            int(arrays["n_shared"]),
            arrays["n_private"],
        )

    def reseeded(self, seed: int) -> Mixture:
        return replace(self, seed=seed)
