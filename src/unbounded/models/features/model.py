"""Feature models: the global step when every row has a count of every atom (docs/features.md, "A round").

The table of atoms after a round: first the columns that all shards share (mobile, then held, then always-on ones), then
each shard's private ones. A shard's Z has the same shared columns and its own private ones after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Engine, Gathered, Message, Summary
from unbounded.models.features import kernel
from unbounded.models.features.likelihood import FeatureBound, FeatureStatistics
from unbounded.models.features.measure import FeatureMeasure, Hyper
from unbounded.randomness import generator, key
from unbounded.rows import boundaries, rows_of
from unbounded.setup import Built

FREE_SLOTS = 4


class Table(NamedTuple):
    """Columns of Z with their statistics; `owner` is the only shard that uses one, or -1 when several or none do."""

    members: Array
    products: Array  # [K, K], or [K, 0] where the likelihood does not need it
    sums: Array
    owner: Array


@dataclass(frozen=True)
class FeatureState:
    round: int
    hyper: Hyper
    scales: Any
    table: Table
    rest: Array  # statistics that belong to no atom
    square: float
    entries: float  # log factors of the entries of Z
    n_shared: int  # always-on columns included, which come last
    n_private: Array  # [P]
    likelihood: FeatureBound

    @property
    def fixed(self) -> int:
        return self.likelihood.fixed

    def arrays(self) -> dict[str, Array]:
        numbers = {name: np.array(getattr(self, name)) for name in ("round", "square", "entries", "n_shared", "hyper")}
        return {
            **numbers,
            "scales": self.likelihood.pack(self.scales),
            "rest": self.rest,
            "n_private": self.n_private,
            **self.table._asdict(),
        }

    @property
    def occupied(self) -> Array:
        """Atoms in use, without always-on columns."""
        live = self.table.members > 0
        live[self.n_shared - self.fixed : self.n_shared] = False
        return np.flatnonzero(live)

    @property
    def always(self) -> Array:
        return np.arange(self.n_shared - self.fixed, self.n_shared)


class Broadcast(NamedTuple):
    """The finite part: what all shards need to know of the round."""

    round: int
    families: Sequence[Any]  # for shards that may move mobile columns, and for one that may move held ones as well
    weights: Array
    orders: Sequence[Array]
    n_mobile: int
    n_shared: int
    laws: Sequence[Any]  # closed, open
    scales: Any
    loadings: Array  # of all shared columns
    keys: tuple[Any, ...]  # of the round's random numbers


class Own(NamedTuple):
    sources: Array  # old column of each of the shard's columns, -1 where there is none
    lone: bool
    open: bool
    loadings: Array  # of the shard's private atoms


class FeatureShard:
    """Rows first .. first + n of the data, and their part of Z, a column of which is a row of `Z`."""

    def __init__(self, index: int, first: int, data: Array, dtype: Any, centre: Array, fill: Array):
        self.index, self.first = index, first
        self.holes = np.argwhere(np.isnan(data))
        if len(self.holes):
            data = data.copy()
            data[tuple(self.holes.T)] = fill[self.holes[:, 1]]
        self.data, self.centre = data, centre
        self.Z = np.zeros((0, len(data)), dtype)
        self.square = self._square()

    @property
    def frozen(self) -> Array:
        """The data as compiled code takes them: always read-only, so that it is compiled once."""
        view = self.data.view()
        view.flags.writeable = False
        return view

    def _square(self) -> float:
        return float(sum(np.sum((self.data[s : s + 4096] - self.centre) ** 2) for s in range(0, len(self.data), 4096)))

    def changed(self) -> None:
        self.square = self._square()

    def put(self, Z: Array) -> None:
        self.Z = Z.astype(self.Z.dtype)
        self.changed()

    def columns(self, sources: Array, size: int | None = None) -> Array:
        """[size, n]: these columns of Z, and zeros where the source is -1 or there is none."""
        Z = np.zeros((len(sources) if size is None else size, self.Z.shape[1]), self.Z.dtype)
        for column, source in enumerate(sources):
            if source >= 0:
                Z[column] = self.Z[source]
        return Z

    def arrays(self) -> dict[str, Array]:
        return {"Z": self.Z, "holes": self.data[tuple(self.holes.T)] if len(self.holes) else np.empty(0)}

    def restore(self, arrays: Arrays) -> None:
        if arrays["Z"].shape[1] != len(self.data):
            raise ValueError("another number of rows")
        self.Z = arrays["Z"].astype(self.Z.dtype)
        if len(self.holes):
            self.data[tuple(self.holes.T)] = arrays["holes"]
            self.changed()


@dataclass(frozen=True)
class Shards:
    """The recipe: rows cut into P contiguous shards; binary: entries of Z are 0 or 1."""

    X: Any
    likelihood: FeatureBound
    n_shards: int
    binary: bool = False

    @property
    def edges(self) -> Array:
        return boundaries(self.X.shape[0], self.n_shards)

    def __call__(self, p: int) -> FeatureShard:
        start, stop = self.edges[p : p + 2].tolist()
        columns = self.likelihood.columns
        fill = np.rint(columns.mean) if self.likelihood.counts else columns.mean
        centre = getattr(self.likelihood, "centre", np.zeros(columns.size))
        kind = np.uint8 if self.binary else np.int32
        return FeatureShard(p, start, rows_of(self.X, start, stop), kind, centre, fill)


@dataclass(frozen=True)
class Features(Built[FeatureMeasure, FeatureBound, int]):
    """What the hybrid sampler and its rivals share; each has a global step of its own."""

    lanes: int | None = None  # rows per block; None: what the cache holds

    @property
    def n_rows(self) -> int:
        return self.setup.extent

    def recipe(self, X: Any) -> Shards:
        return Shards(X, self.likelihood, self.n_shards, self.measure.binary)

    def begin(
        self, engine: Engine, Z: Array, hyper: Hyper | None = None, scales: Any = None, round_: int = 0
    ) -> FeatureState:
        """The state with this Z; empty columns are dropped."""
        Z = np.asarray(Z)
        Z = Z[:, (Z != 0).any(axis=0)]
        Z = np.concatenate([Z.T, np.ones((self.likelihood.fixed, len(Z)), Z.dtype)])
        engine.map(FeatureShard.put, np.split(Z, boundaries(self.n_rows, self.n_shards)[1:-1], axis=1))
        scales = self.likelihood.start() if scales is None else scales
        return self.count(engine, len(Z), hyper or self.measure.start(), scales, round_)

    def count(self, engine: Engine, n_shared: int, hyper: Hyper, scales: Any, round_: int) -> FeatureState:
        """The state of shards whose columns are all shared: a local step in which nothing moves."""
        loadings = self.likelihood.draw_prior(scales, n_shared, generator(self.seed, "count", round_))
        none = np.empty(0, np.int64)
        families = (self.likelihood.family(scales, loadings, 0, self.setup.dtype),)
        closed = self.measure.law(hyper, self.n_rows, open_=False)
        broadcast = Broadcast(
            round_, families, np.empty(0), (none,), 0, n_shared, (closed, closed), scales, loadings, self.keys(round_)
        )  # fmt: skip
        own = Own(np.arange(n_shared), False, False, np.empty((0, self.likelihood.columns.size)))
        gathered = engine.run(self._sweep, Message((broadcast, hyper), [own] * self.n_shards))
        return self.assemble(round_, hyper, scales, n_shared, gathered)

    def keys(self, round_: int) -> tuple[Any, ...]:
        return tuple(key(self.seed, purpose, round_) for purpose in ("entry", "tail", "birth", "split"))

    def jump(self, state: FeatureState, engine: Engine) -> FeatureState:
        return state

    def statistics(self, state: FeatureState, chosen: Array) -> FeatureStatistics:
        table = state.table
        products = table.products[np.ix_(chosen, chosen)] if self.likelihood.gram else table.products[chosen]
        return FeatureStatistics(
            table.members[chosen], products, table.sums[chosen], state.rest, state.square, self.n_rows
        )

    # ---- local step

    def local_step(self, shard: FeatureShard, shared: tuple[Broadcast, Hyper], own: Own) -> Summary:
        return self._sweep(shard, shared, own)

    def _sweep(self, shard: FeatureShard, shared: tuple[Broadcast, Hyper], own: Own) -> Summary:
        message, _ = shared
        n_shared, n_private = message.n_shared, len(own.sources) - message.n_shared
        shard.Z = shard.columns(own.sources, n_private + (FREE_SLOTS if own.open else 0) + n_shared)
        if len(shard.holes):
            loadings = np.concatenate([message.loadings, own.loadings])
            columns = shard.Z[: len(loadings)]
            impute_key = key(self.seed, "impute", message.round)
            self.likelihood.impute(shard.data, shard.holes, columns, loadings, message.scales, impute_key, shard.first)
            shard.changed()
        products, sums, rest, members = self._run(shard, message, own)
        if not members.all():  # forget empty slots
            kept: Any = slice(0, n_shared)
            if members.any():
                kept = np.concatenate([np.arange(n_shared), n_shared + np.flatnonzero(members)])
            shard.Z, sums = shard.Z[kept], sums[kept]
            products = products[kept][:, kept] if self.likelihood.gram else products[kept]
        return self.summary(shard, shard.Z, n_shared, products, sums, rest)

    def _run(self, shard: FeatureShard, message: Broadcast, own: Own) -> tuple[Array, Array, Array, Array]:
        law = message.laws[own.open]
        family, order = message.families[own.lone], message.orders[own.lone]
        usable, n_shared = len(order), message.n_shared
        data = shard.frozen
        n, d = data.shape
        lanes = self.lanes or kernel.lanes_for(n, d + 2 * len(shard.Z))
        dtype = family.scaled.dtype if self.likelihood.gram else np.dtype(float)
        rest = np.zeros(d)
        products = sums = np.zeros((0, 0))
        row = 0
        while True:
            columns = len(shard.Z)
            slots = columns - n_shared
            members = np.zeros(slots, np.int64)
            tail = self.likelihood.tail(message.scales, slots, lanes, family, own.loadings)
            if len(own.sources) > n_shared or row > 0:
                kernel.count(shard.Z, n_shared, members)
                self.likelihood.fill(family, tail, data, shard.Z, n_shared)
            work = kernel.workspace(columns, slots, self.setup.sweeps, lanes, dtype)
            products, sums = self._wider(products, columns), self._wider(sums, columns, d)
            row = kernel.sweep(
                law, family, tail, data, shard.Z, shard.first, row, usable, n_shared, members, order, message.weights,
                self.setup.sweeps, lanes, message.keys, work, products, sums, rest,
            )  # fmt: skip
            if row == n:
                return products, sums, rest, members
            own = own._replace(loadings=tail.loadings if self.likelihood.keeps_loadings else own.loadings)
            more = np.zeros((slots + 16, n), shard.Z.dtype)
            shard.Z = np.concatenate([shard.Z, more])

    def _wider(self, old: Array, rows: int, columns: int | None = None) -> Array:
        """Room for more atoms, with what was there."""
        wide = rows if columns is None else columns
        out = np.zeros((rows, wide if columns is not None or self.likelihood.gram else 0))
        out[: old.shape[0], : old.shape[1]] = old
        return out

    def summary(
        self, shard: FeatureShard, Z: Array, n_shared: int, products: Array, sums: Array, rest: Array
    ) -> Summary:
        """What a shard reports of a Z with these statistics."""
        members = np.zeros(len(Z), np.int64)
        kernel.count(Z, 0, members)
        sums = sums - members[:, None] * shard.centre
        there = (members[:n_shared] > 0).astype(np.int64)
        s, own = slice(0, n_shared), slice(n_shared, len(Z))
        gram = self.likelihood.gram
        entries = 0.0 if self.measure.binary else self.measure.log_entries(Z)
        shared = {
            "members": members[s], "products": products[s, s] if gram else products[s], "sums": sums[s],
            "rest": rest, "square": np.array(shard.square), "entries": np.array(entries),
            "shards": there, "owner": there * shard.index,
        }  # fmt: skip
        private = {
            "members": members[own], "cross": products[s, own] if gram else products[s],
            "products": products[own, own] if gram else products[own], "sums": sums[own],
        }  # fmt: skip
        return Summary(shared, private)

    # ---- gather

    def gather(self, state: FeatureState, message: Message, gathered: Gathered) -> FeatureState:
        broadcast, hyper = message.shared
        return self.assemble(state.round + 1, hyper, broadcast.scales, broadcast.n_shared, gathered)

    def assemble(self, round_: int, hyper: Hyper, scales: Any, n_shared: int, gathered: Gathered) -> FeatureState:
        shared, private = gathered.shared, gathered.private
        n_private = np.array([len(p["members"]) for p in private])
        owner = np.where(shared["shards"] == 1, shared["owner"], -1)
        total = n_shared + int(n_private.sum())
        products = np.zeros((total, total if self.likelihood.gram else 0))
        if self.likelihood.gram:
            products[:n_shared, :n_shared] = shared["products"]
            first = n_shared
            for part in private:
                last = first + len(part["members"])
                products[:n_shared, first:last] = part["cross"]
                products[first:last, :n_shared] = part["cross"].T
                products[first:last, first:last] = part["products"]
                first = last
        table = Table(
            np.concatenate([shared["members"], *(p["members"] for p in private)]),
            products,
            np.concatenate([shared["sums"], *(p["sums"] for p in private)]),
            np.concatenate([owner, np.repeat(np.arange(self.n_shards), n_private)]),
        )
        return FeatureState(
            round_, hyper, scales, table, shared["rest"], float(shared["square"]), float(shared["entries"]), n_shared,
            n_private, self.likelihood,
        )  # fmt: skip

    # ---- what a chain records

    def scalars(self, state: FeatureState) -> dict[str, float]:
        live = state.occupied
        members = state.table.members[live].astype(float)
        everything = self.statistics(state, np.concatenate([live, state.always]))
        log_joint = (
            self.measure.log_prior(state.hyper)
            + self.measure.log_prob(state.hyper, members, self.n_rows)
            + state.entries
            + self.likelihood.log_joint(state.scales, everything)
        )
        return {
            "n_features": len(live),
            **self.measure.scalars(state.hyper),
            **self.likelihood.scalars(state.scales),
            "log_joint": float(log_joint),
            "per_row": float(members.sum() / self.n_rows),
            "largest": float(members.max(initial=0.0) / self.n_rows),
        }

    def sources(self, state: FeatureState, p: int) -> Array:
        """Column of shard p's Z that holds each occupied atom, -1 where it has none."""
        live = state.occupied
        first = state.n_shared + int(state.n_private[:p].sum())
        local = np.where(live < state.n_shared, live, live - first + state.n_shared)
        local[(live >= state.n_shared) & ((live < first) | (live >= first + state.n_private[p]))] = -1
        return local

    def assignments(self, state: FeatureState, engine: Engine) -> Array:
        """[n, K]: Z of all rows, in the order of the occupied atoms of the table."""
        sources = [self.sources(state, p) for p in range(self.n_shards)]
        return np.concatenate([Z.T for Z in engine.map(FeatureShard.columns, sources)])

    def snapshot(self, state: FeatureState, engine: Engine) -> dict[str, Array]:
        """Z, and one draw of all loadings and scales given it."""
        Z = self.assignments(state, engine)
        everything = self.statistics(state, np.concatenate([state.occupied, state.always]))
        loadings, scales = self.likelihood.draw(state.scales, everything, generator(self.seed, "snapshot", state.round))
        return {
            "Z": Z.astype(np.uint8 if Z.max(initial=0) < 256 else np.int32),
            "members": everything.members,
            "loadings": loadings,
            "scales": self.likelihood.pack(scales),
            "hyper": np.array(state.hyper),
        }

    def restore(self, arrays: Arrays) -> FeatureState:
        hyper = Hyper(*(float(v) for v in arrays["hyper"]))
        table = Table(*(arrays[name] for name in Table._fields))
        return FeatureState(
            int(arrays["round"]), hyper, self.likelihood.unpack(arrays["scales"]), table, arrays["rest"],
            float(arrays["square"]), float(arrays["entries"]), int(arrays["n_shared"]), arrays["n_private"],
            self.likelihood,
        )  # fmt: skip
