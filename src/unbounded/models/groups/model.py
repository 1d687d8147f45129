"""The hierarchical Dirichlet process: its measure, and what its samplers share (docs/topics.md, "The model").

H ~ DP(alpha, D0) and, for every group, D_s ~ DP(gamma, H): groups share atoms, each in its own proportions. In
restaurant terms the rows of a group sit at tables, a table serves one dish (atom), and the tables of all groups are the
"rows" of the top process: what counts, weights and ghosts are for a mixture, they are here for table counts. The extent
of the data are the sizes of the groups. beta: the weights of atoms in H, the *top weights*.

Atoms are coded as in a mixture: those that all shards share first (mobile, then frozen), then each shard's private
ones. A group lives on one shard.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import gammaln

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Parallel, Summary
from unbounded.instantiation import Plan, Roles
from unbounded.likelihoods.base import Bound
from unbounded.models.groups.contents import content_of
from unbounded.models.groups.kernels import build_kernel
from unbounded.models.groups.shard import (
    Content,
    DishTable,
    Draw,
    GroupHyper,
    GroupKernel,
    GroupMeasure,
    GroupPart,
    GroupRecipe,
    GroupRound,
    GroupShard,
    GroupShare,
    Law,
    TopTables,
    TopWeights,
    cut,
    seat_rows,
    summarise,
)
from unbounded.models.labelled.labels import all_labels, smallest_type
from unbounded.models.labelled.packing import packed, unpacked
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.priors import Gamma, slice_within
from unbounded.randomness import RoundSeed, log_gamma_draws
from unbounded.setup import Built
from unbounded.shares import above

FORMS = ("direct", "franchise")


# ---- the measure


class HierarchicalHyper(NamedTuple):
    alpha: float  # concentration of the top process
    gamma: float  # concentration of the groups


@dataclass(frozen=True)
class HierarchicalMeasure:
    """Concentrations of the top process and of the groups: each a number (fixed) or a Gamma prior (sampled)."""

    concentration: float | Gamma = field(default_factory=Gamma)
    group_concentration: float | Gamma = field(default_factory=Gamma)

    described_as: ClassVar[str] = "HierarchicalDirichletProcess"
    hyper_type: ClassVar[Any] = HierarchicalHyper

    def __post_init__(self) -> None:
        for name in ("concentration", "group_concentration"):
            value = getattr(self, name)
            if not isinstance(value, Gamma) and not (isinstance(value, Real) and 0 < float(value) < math.inf):
                raise ValueError(f"the {name} must be positive or a Gamma prior, got {value!r}.")

    @cached_property
    def top(self) -> PitmanYor:
        """The process of the tables, as a mixture has one of its rows."""
        return PitmanYor(self.concentration, 0.0)

    def top_hyper(self, hyper: HierarchicalHyper) -> PartitionHyper:
        """Its hyper-parameters."""
        return PartitionHyper(hyper.alpha, 0.0)

    @property
    def _priors(self) -> tuple[float | Gamma, float | Gamma]:
        return self.concentration, self.group_concentration

    # ---- hyper-parameters

    def start(self) -> HierarchicalHyper:
        alpha, gamma = (prior.mean if isinstance(prior, Gamma) else float(prior) for prior in self._priors)
        return HierarchicalHyper(alpha, gamma)

    def draw_prior(self, rng: np.random.Generator) -> HierarchicalHyper:
        alpha, gamma = (prior.draw(rng) if isinstance(prior, Gamma) else float(prior) for prior in self._priors)
        return HierarchicalHyper(alpha, gamma)

    def log_prior(self, hyper: HierarchicalHyper) -> float:
        pairs = zip(self._priors, hyper, strict=True)
        return sum(prior.log_density(value) for prior, value in pairs if isinstance(prior, Gamma))

    def log_prob(self, hyper: HierarchicalHyper, counts: Array, extent: Array) -> float:
        """Log probability of tables with these dishes in groups of these sizes, but for who sits where."""
        top = self.top.log_prob(self.top_hyper(hyper), counts, float(counts.sum()))
        return top + sum(_Seatings(counts.sum(), extent).log_terms(hyper.gamma))

    def update(
        self, hyper: HierarchicalHyper, counts: Array, extent: Array, rng: np.random.Generator
    ) -> HierarchicalHyper:
        """Move alpha given the atoms' table counts, gamma given the number of tables in groups of these sizes."""
        alpha = self.top.update(self.top_hyper(hyper), counts, float(counts.sum()), rng).alpha
        gamma = hyper.gamma
        if isinstance(self.group_concentration, Gamma):
            # mutant: update gamma
            gamma = _group_concentration(self.group_concentration, gamma, _Seatings(counts.sum(), extent), rng)
        return HierarchicalHyper(alpha, gamma)

    def scalars(self, hyper: HierarchicalHyper) -> dict[str, float]:
        return {"alpha": hyper.alpha, "gamma": hyper.gamma}

    # ---- ghosts and weights

    def default_ghosts(self, extent: Array) -> int:
        """A fixed number in the range of the number of tables, which itself is part of the state."""
        return int(np.ceil(np.log1p(extent).sum()))

    def ghosts(
        self, hyper: HierarchicalHyper, counts: Array, extent: Array, total: int, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Ghost tables: of each atom, and of each atom that only ghosts hold."""
        return self.top.ghosts(self.top_hyper(hyper), counts, float(counts.sum()), total, rng)

    def weights(
        self, hyper: HierarchicalHyper, plan: Plan, tables: TopTables, seated: bool, rng: np.random.Generator
    ) -> TopWeights:
        """Top weights given tables; the tail of a shard whose rows are seated has one weight for all of its atoms."""
        shared, private, owner = tables
        shards = np.flatnonzero(plan.open)
        share = hyper.alpha / (1 if plan.published else len(shards))
        rest = np.full(1 if plan.published else len(shards), share)
        if seated:
            own = private.sum() if plan.published else np.bincount(owner, private, len(plan.open))[shards]
            rest += own  # mutant: weights rest
            private = private[:0]
        logs = _normalised(np.concatenate([shared, private, rest]), rng)
        logs, own, left = np.split(logs, [len(shared), len(shared) + len(private)])
        sticks = [np.append(own[owner == p] if len(own) else own, -np.inf) for p in range(len(plan.open))]
        for j, p in enumerate(shards):
            sticks[p][-1] = left[0 if plan.published else j]
        return TopWeights(share, hyper.gamma * np.exp(logs), sticks)  # mutant: weights result 2

    def sticks(self, hyper: HierarchicalHyper, tables: Array, rng: np.random.Generator) -> tuple[Array, float]:
        """(log beta of atoms with these tables and, last, of all others; the concentration of the latter)."""
        return _normalised(np.append(tables, hyper.alpha), rng), hyper.alpha

    def masses(self, hyper: HierarchicalHyper, beta: Array) -> Array:
        """gamma beta: what atoms with these top weights weigh in a group, apart from its rows."""
        return hyper.gamma * beta

    def expected_masses(self, hyper: HierarchicalHyper, tables: Array) -> Array:
        """The same in expectation, of atoms with these tables and (last) of all others."""
        return hyper.gamma * np.append(tables, hyper.alpha) / (tables.sum() + hyper.alpha)

    def log_cut(self, hyper: HierarchicalHyper, share: Array) -> Array:
        """Log prior density gained when an atom becomes two, with this share of its top weight and with the rest."""
        return math.log(hyper.alpha) - np.log(share) - np.log1p(-share)  # mutant: tokens beta

    def law(self, hyper: HierarchicalHyper, masses: Array, share: float) -> Law:
        return Law(masses, hyper.gamma, float(np.log(hyper.gamma)), hyper.alpha, share)

    # ---- predictions

    def unknown(self, hyper: HierarchicalHyper, mass: float) -> HierarchicalHyper:
        """Hyper-parameters of what groups have besides known atoms, which weighs `mass` in each of them."""
        return HierarchicalHyper(hyper.alpha, mass)

    def simulate(self, hyper: HierarchicalHyper, extent: Array, rng: np.random.Generator) -> Array:
        """Labels of all rows from the prior: a Chinese restaurant franchise, in which new tables choose dishes."""
        labels = []
        tables: list[int] = []  # of each atom
        for size in extent:
            heads: list[int] = []  # rows at each of the group's tables
            dishes: list[int] = []
            for _ in range(size):
                table = _pick([*heads, hyper.gamma], rng)
                if table == len(heads):
                    heads.append(0)
                    dishes.append(_pick([*tables, hyper.alpha], rng))
                    tables += [0] * (dishes[-1] == len(tables))
                    tables[dishes[-1]] += 1
                heads[table] += 1
                labels.append(dishes[table])
        return np.array(labels, np.int64)


def _normalised(shapes: Array, rng: np.random.Generator) -> Array:
    """Logs of a Dirichlet draw."""
    logs: Array = log_gamma_draws(shapes, rng)
    logs -= np.logaddexp.reduce(logs)
    return logs


def _pick(weights: list[float], rng: np.random.Generator) -> int:
    return int(np.searchsorted(np.cumsum(weights), rng.random() * sum(weights), side="right"))


class _Seatings:
    """The probability of a number of tables. Groups of one size weigh the same: the cost is by sizes, not by groups."""

    def __init__(self, n_tables: float, sizes: Array):
        times = np.bincount(sizes[sizes > 0])
        self.n_tables, self.rows = float(n_tables), np.flatnonzero(times)
        self.times = times[self.rows]

    def log_terms(self, gamma: float) -> tuple[float, float]:
        """Log probabilities of the tables, and of the groups."""
        groups = self.times @ (math.lgamma(gamma) - gammaln(gamma + self.rows))
        return self.n_tables * math.log(gamma), float(groups)


def _group_concentration(prior: Gamma, gamma: float, seatings: _Seatings, rng: np.random.Generator) -> float:
    """Slice move of u = gamma / (1 + gamma)."""

    def log_density(u: float) -> float:
        g = max(u, 1e-300) / (1.0 - u)
        tables, groups = seatings.log_terms(g)
        return prior.log_density(g) + tables + groups + 2.0 * math.log1p(g)  # mutant: log density result 3

    u = slice_within(log_density, gamma / (1.0 + gamma), 0.0, 1.0, rng)
    return max(u, 1e-300) / (1.0 - u)


# ---- what samplers share


@dataclass(frozen=True)
class GroupsState:
    round: int
    hyper: GroupHyper
    table: DishTable
    n_shared: int
    n_private: Array  # [P]
    sizes: Array | None = field(default=None, kw_only=True)  # how many groups have 0, 1, ... rows, where that changes

    def arrays(self) -> dict[str, Array]:
        scalars = {"round": np.array(self.round), "n_shared": np.array(self.n_shared), "hyper": self.hyper.array()}
        return {
            **scalars, "n_private": self.n_private, "counts": self.table.counts, "tables": self.table.tables,
            "owner": self.table.owner, **packed(self.table.statistics),
            **({} if self.sizes is None else {"sizes": self.sizes}),
        }  # fmt: skip

    @cached_property
    def occupied(self) -> Array:
        return np.flatnonzero(self.table.counts > 0)


@dataclass(frozen=True)
class Groups(Built[GroupMeasure, Bound, Array]):
    """What the hybrid sampler and its rivals share; each has a global step of its own."""

    form: str = "direct"

    @property
    def sizes(self) -> Array:
        """Of the groups."""
        return self.setup.extent

    @cached_property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def content(self) -> Content:
        return content_of(self.likelihood, self.setup.dtype)

    @cached_property
    def kernel(self) -> GroupKernel:
        return build_kernel(self.setup.device, self.content, self.form, self.setup.sweeps)

    def recipe(self, X: Any) -> GroupRecipe:
        repeats = self.content.repeats_after is not None
        return GroupRecipe(X, self.sizes, self.likelihood, self.n_shards, self.form, repeats)

    def start(self) -> GroupHyper:
        return GroupHyper(self.measure.start(), self.content.start())

    def begin(
        self, engine: Engine, assignments: Array, hyper: GroupHyper | None = None, seats: Array | None = None,
        round_: int = 0,
    ) -> GroupsState:  # fmt: skip
        """The state with these labels (any integers); without seats, each atom of a group has one table."""
        codes, inverse = np.unique(np.asarray(assignments), return_inverse=True)
        labels = inverse.astype(np.int32).ravel()
        engine.map(GroupShard.begin, self._cut(labels))
        return self.begin_from_shards(engine, len(codes), hyper, None if seats is None else self._cut(seats), round_)

    def _cut(self, rows: Array) -> list[Array]:
        """Values of all rows, split by shard."""
        return [rows[own[0] : own[-1]] for own in cut(self.sizes, self.n_shards)]

    def begin_from_shards(
        self, engine: Engine, n_atoms: int, hyper: GroupHyper | None = None, seats: Sequence[Array] | None = None,
        round_: int = 0,
    ) -> GroupsState:  # fmt: skip
        """State from labels already on the shards; labels 0..n_atoms-1 must all occur. seats: by shard."""
        tables = np.sum(engine.map(partial(seat_rows, n_atoms), seats), axis=0)
        return self.count(engine, tables, hyper or self.start(), round_)

    def count(self, engine: Engine, tables: Array, hyper: GroupHyper, round_: int) -> GroupsState:
        """The state of shards whose labels are all codes of shared atoms, given their numbers of tables."""
        own = [tables, *[np.zeros_like(tables)] * (self.n_shards - 1)]
        gathered = engine.run(self._recount, Message(len(tables), own))
        return self._assemble(round_, hyper, len(tables), gathered)

    def _recount(self, shard: GroupShard, n_shared: int, tables: Array) -> Summary:
        return summarise(self.content, shard, n_shared, self.kernel.totals(shard, n_shared), tables)

    def jump(self, state: GroupsState, engine: Engine) -> GroupsState:
        return state

    def draw(self, state: GroupsState) -> Draw:
        """What prediction needs of a state."""
        live, table, hyper = state.occupied, state.table, state.hyper
        masses = self.measure.expected_masses(hyper.measure, table.tables[live])
        return Draw(table.counts[live], table.tables[live], table.statistics[live], hyper, masses)

    # ---- global step

    def _move_hyper(self, state: GroupsState, tables: Array, seed: RoundSeed) -> GroupHyper:
        """Hyper-parameters given the tables of occupied atoms: the measure's, then the likelihood's own."""
        # mutant: global step hyper 2
        own = self.measure.update(state.hyper.measure, tables, self._rows_now(state), seed.rng("hyper"))
        counts = state.table.counts[state.occupied]
        content = self.content.update(state.hyper.content, counts, state.table.statistics, seed.rng("eta"))
        if isinstance(self.content.repeats_after, Gamma):
            fresh = _Seatings(counts.sum(), self.sizes)  # mutant: repeats after
            after = _group_concentration(self.content.repeats_after, content.after, fresh, seed.rng("repeats"))
            content = content._replace(after=after)
        return GroupHyper(own, content)

    def _rows_now(self, state: GroupsState) -> Array:
        """Sizes of the groups: of documents that repeat themselves, their fresh words, in any order."""
        # mutant: rows now
        return self.sizes if state.sizes is None else np.repeat(np.arange(len(state.sizes)), state.sizes)

    def _round(
        self, state: GroupsState, hyper: GroupHyper, roles: Roles, masses: Array, parallel: Parallel
    ) -> tuple[GroupRound, Any]:
        """The finite part of the round and, when holes are imputed, parameters of private atoms."""
        seed = RoundSeed(self.seed, state.round)
        drawn = self.content.instantiate(hyper.content, state.table, roles, masses, seed, parallel)
        shared, private = _split(drawn.parameters, len(masses))
        return GroupRound(state.round, hyper, self.kernel.finite(drawn.usable), len(masses), masses, shared), private

    # ---- local step

    def local_step(self, shard: GroupShard, shared: GroupRound, own: GroupShare) -> Summary:
        part, kernel = self._part(shared, own), self.kernel
        shard.relabel(own.codes)
        if shared.parameters is not None and own.parameters is not None:
            both = {name: np.concatenate([v, own.parameters[name]]) for name, v in shared.parameters.items()}
            self.likelihood.impute(shard.data, shard.holes, shard.labels, both, part.seed.key("impute"), shard.first)
        tail = kernel.sweep(shard, part, kernel.prepare(shard, part))
        return kernel.statistics(shard, part, tail)

    def _part(self, shared: GroupRound, own: GroupShare) -> GroupPart:
        return GroupPart(
            likelihood=self.content.at(shared.hyper.content),
            finite=shared.finite,
            usable=own.usable,
            n_shared=shared.n_shared,
            n_private=own.n_private,
            law=self.measure.law(shared.hyper.measure, shared.masses, own.share),
            sticks=own.sticks,
            seed=RoundSeed(self.seed, shared.round),
        )

    # ---- gather

    def gather(self, state: GroupsState, message: Message, gathered: Gathered) -> GroupsState:
        sent: GroupRound = message.shared
        return self._assemble(state.round + 1, sent.hyper, sent.n_shared, gathered)

    def _assemble(self, round_: int, hyper: GroupHyper, n_shared: int, gathered: Gathered) -> GroupsState:
        shared, private = gathered.shared, gathered.private
        n_private = np.array([len(p["counts"]) for p in private])
        owner = np.where(shared["shards"] == 1, shared["owner"], -1)
        parts = {name: [shared[name], *(p[name] for p in private)] for name in ("counts", "tables", "statistics")}
        table = DishTable(
            np.concatenate(parts["counts"]),
            np.concatenate(parts["tables"]),
            self.content.stacked(parts["statistics"]),
            np.append(owner, np.repeat(np.arange(self.n_shards), n_private)),
        )
        return GroupsState(round_, hyper, table, n_shared, n_private, sizes=shared.get("sizes"))

    # ---- what a chain records

    def scalars(self, state: GroupsState) -> dict[str, float]:
        live = state.occupied
        counts = state.table.counts[live].astype(float)
        shares = counts / counts.sum()
        likelihood = self.content.at(state.hyper.content)  # mutant: topics eta
        return {
            "n_topics": len(counts),
            **above(shares),
            **self.measure.scalars(state.hyper.measure),
            **self.content.scalars(state.hyper.content),
            "n_tables": float(state.table.tables.sum()),
            "log_likelihood": likelihood.log_evidence(counts, state.table.statistics[live]),
            "entropy": float(-(shares * np.log(shares)).sum()),
            "largest": float(shares.max()),
        }

    def assignments(self, state: GroupsState, engine: Engine) -> Array:
        return all_labels(state, engine)

    def snapshot(self, state: GroupsState, engine: Engine) -> dict[str, Array]:
        live = state.occupied
        return {
            "labels": all_labels(state, engine, smallest_type(len(live) - 1)),
            "hyper": state.hyper.array(),
            "counts": state.table.counts[live],
            "tables": state.table.tables[live],
            **packed(state.table.statistics[live]),
        }

    def restore(self, arrays: Arrays) -> GroupsState:
        statistics = unpacked(arrays, self.likelihood.n_terms)
        return GroupsState(
            int(arrays["round"]),
            GroupHyper.of(self.measure, arrays["hyper"]),
            DishTable(arrays["counts"], arrays["tables"], statistics, arrays["owner"]),
            int(arrays["n_shared"]),
            arrays["n_private"],
            sizes=arrays.get("sizes"),
        )


def _split(parameters: Any, n_shared: int) -> tuple[Any, Any]:
    if parameters is None:
        return None, None
    first, rest = slice(n_shared), slice(n_shared, None)
    return tuple({name: value[part] for name, value in parameters.items()} for part in (first, rest))  # type: ignore
