"""Sub-cluster splits (Chang and Fisher 2013; distributed: Dinari et al. 2019), Dirichlet process only. Not exact.

Every cluster has two halves with weights and parameters of their own. A round draws all parameters, then clusters and
halves of all rows in parallel; no row opens a cluster. Before a round a cluster may split into its halves, with the
ratio of posteriors, and two clusters may merge into halves of one, with the ratio that takes the halves for a
Dirichlet-multinomial draw. New halves are drawn by coins and get `wait` rounds to find a cut before a split is tried.

As described: clusters that lose all rows are dropped, which alone does not leave the posterior invariant, and the
ratio of splits ignores how the halves came about. Random splits, the reverse of merges, toss a coin of beta bias for
every row of a cluster; the distributed program of Dinari et al. leaves them out, and so does random=False. A label is
coded as 2 cluster + half; since parameters are drawn once, so are labels, whatever L.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array, Arrays, is_csr
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.contracts import Engine, Gathered, Message, Parallel, Summary, in_this_thread
from unbounded.likelihoods.base import Parameters
from unbounded.models.labelled.labels import LabelShard
from unbounded.models.mixtures.measure import PartitionHyper, PitmanYor
from unbounded.models.mixtures.message import MixturePart, SweepKeys
from unbounded.models.mixtures.model import AtomTable, Mixture, MixtureState
from unbounded.randomness import generator, key, uniforms
from unbounded.rows import Csr


@dataclass(frozen=True)
class HalvesState(MixtureState):
    """Clusters, as in any mixture, and their halves 2k and 2k + 1; age: rounds since the halves were coins."""

    half_counts: Array
    half_statistics: Array
    age: Array

    def arrays(self) -> dict[str, Array]:
        halves = {name: getattr(self, name) for name in ("half_counts", "half_statistics", "age")}
        return super().arrays() | halves


class Recoding(NamedTuple):
    """Of every old code: the new cluster, and its half, or -1 where a coin decides."""

    cluster: Array
    half: Array


class Toss(NamedTuple):
    """A coin for every row, with the bias of its cluster."""

    bias: Array
    key: np.uint64

    def of(self, shard: LabelShard) -> Array:
        return np.asarray(uniforms(self.key, _places(shard)) < self.bias[shard.labels // 2])


def _places(shard: LabelShard) -> Array:
    return np.arange(shard.first, shard.first + len(shard.labels), dtype=np.uint64)


class HalvesRound(NamedTuple):
    round: int
    hyper: PartitionHyper
    finite: Any
    halves: list[Any]  # of each cluster, a finite part with two atoms
    parameters: Parameters | None  # of clusters, when holes are imputed


@jit
def _recode(labels, cluster, half, first, coin_key):
    for i in range(labels.size):
        code = labels[i]
        coin = uniform(coin_key, first + i) < 0.5
        labels[i] = 2 * cluster[code] + (half[code] if half[code] >= 0 else np.int64(coin))


def log_split_ratio(
    measure: PitmanYor, hyper: PartitionHyper, counts: Array, log_marginals: Array, together: Array
) -> Array:
    """[K]: log of the posterior of two halves [K, 2] over that of one cluster."""
    prior = measure.log_merge(hyper, counts[:, 0], counts[:, 1], 2)
    value: Array = log_marginals.sum(1) - together - prior
    return value


def log_merge_ratio(
    measure: PitmanYor, hyper: PartitionHyper, counts: Array, log_marginals: Array, together: Array
) -> Array:
    """[K]: that of a merge, which has the probability of the halves in it."""
    return measure.log_halves(hyper, counts) - log_split_ratio(measure, hyper, counts, log_marginals, together)


def chosen_rows(data: Any, rows: Array) -> Any:
    """Some rows of a shard's data."""
    if not is_csr(data):
        return data[rows]
    sizes = np.diff(data.indptr)[rows]
    ends = np.append(0, np.cumsum(sizes))
    where = np.repeat(data.indptr[rows] - ends[:-1], sizes) + np.arange(ends[-1])
    return Csr(ends, data.indices[where], data.values[where])


@dataclass(frozen=True)
class Subcluster(Mixture[PitmanYor]):
    wait: int = 5  # rounds before new halves may part
    random: bool = True  # whether random splits are tried

    def __post_init__(self) -> None:
        if not isinstance(self.random, bool):
            raise ValueError(f"random must be True or False, got {self.random!r}.")
        if not isinstance(self.wait, int | np.integer) or self.wait < 0:
            raise ValueError(f"wait must be an integer of at least 0, got {self.wait!r}.")

    @property
    def exact(self) -> bool:
        return False

    def settled(self) -> int:
        return 0

    # ---- states

    def count(self, engine: Engine, n_shared: int, hyper: PartitionHyper, round_: int) -> HalvesState:
        coins = Recoding(np.arange(n_shared), np.full(n_shared, -1))
        coin_key = key(self.seed, "first coin", round_)
        return self._recoded(engine, coins, np.zeros(n_shared, np.int64), hyper, round_, coin_key)

    def _recoded(
        self, engine: Engine, codes: Recoding, age: Array, hyper: PartitionHyper, round_: int, coin_key: np.uint64
    ) -> HalvesState:
        gathered = engine.run(self._recode_shard, Message((codes, len(age), coin_key), [0] * self.n_shards))
        return self._state(round_, hyper, gathered, age)

    def _recode_shard(self, shard: LabelShard, shared: Any, _: Any) -> Summary:
        codes, n_clusters, coin_key = shared
        _recode(shard.labels, codes.cluster, codes.half, shard.first, coin_key)
        return self._report(shard, n_clusters)

    def _report(self, shard: LabelShard, n_clusters: int) -> Summary:
        return Summary(self.kernel.totals(shard.data, shard.labels, 2 * n_clusters)._asdict(), {})

    def _state(self, round_: int, hyper: PartitionHyper, gathered: Gathered, age: Array) -> HalvesState:
        counts, statistics = gathered.shared["counts"], gathered.shared["statistics"]
        n = len(age)
        table = AtomTable(counts.reshape(n, 2).sum(1), statistics.reshape(n, 2, -1).sum(1), np.full(n, -1))
        none = np.zeros(self.n_shards, np.int64)
        return HalvesState(round_, hyper, table, n, none, counts, statistics, age)

    # ---- splits and merges

    def jump(self, state: Any, engine: Engine) -> HalvesState:
        """Sub-cluster splits and merges, then random splits."""
        state = self._rearranged(state, engine)
        return self._split_at_random(state, engine) if self.random else state

    def _split_at_random(self, state: HalvesState, engine: Engine) -> HalvesState:
        """Try to split every cluster that is old enough in two parts that coins make, which merges can undo."""
        rng = generator(self.seed, "random split", state.round)
        weights = self.measure.half_log_weights(state.hyper, np.zeros(2 * state.n_shared), rng).reshape(-1, 2)
        bias = 1.0 / (1.0 + np.exp(weights[:, 0] - weights[:, 1]))
        toss = Toss(bias, key(self.seed, "toss", state.round))
        found = engine.run(self._tossed, Message(toss, [0] * self.n_shards)).shared
        counts = found["counts"].reshape(-1, 2).astype(float)
        able = np.flatnonzero((counts > 0).all(1) & (state.age >= self.wait))
        parts = self.likelihood.log_marginal(counts.ravel(), found["statistics"]).reshape(-1, 2)
        whole = self.likelihood.log_marginal(counts.sum(1), state.table.statistics)
        ratio = -log_merge_ratio(self.measure, state.hyper, counts[able], parts[able], whole[able])
        chosen = able[np.log(rng.random(len(able))) < ratio]
        if not len(chosen):
            return state
        part = np.full(state.n_shared, -1)
        part[chosen] = state.n_shared + np.arange(len(chosen))
        age = np.concatenate([np.where(part >= 0, 0, state.age), np.zeros(len(chosen), state.age.dtype)])
        coins = key(self.seed, "coin of parts", state.round)
        gathered = engine.run(self._parted, Message((toss, part, coins), [0] * self.n_shards))
        return self._state(state.round, state.hyper, gathered, age)

    def _tossed(self, shard: LabelShard, toss: Toss, _: Any) -> Summary:
        """Statistics of what coins make of every cluster; labels stay."""
        labels = (2 * (shard.labels // 2) + toss.of(shard)).astype(np.int32)
        return Summary(self.kernel.totals(shard.data, labels, 2 * len(toss.bias))._asdict(), {})

    def _parted(self, shard: LabelShard, shared: tuple[Toss, Array, np.uint64], _: Any) -> Summary:
        """The tossed rows of clusters that split go to the new ones; both parts get new halves by coins."""
        toss, part, coins = shared
        cluster = shard.labels // 2
        splits, gone = part[cluster] >= 0, toss.of(shard)
        half = np.where(splits, uniforms(coins, _places(shard)) < 0.5, shard.labels % 2)
        shard.labels[:] = 2 * np.where(splits & gone, part[cluster], cluster) + half
        return self._report(shard, len(part) + int((part >= 0).sum()))

    def _rearranged(self, state: HalvesState, engine: Engine) -> HalvesState:
        """Drop empty clusters, split, merge, and toss coins again for halves of which one is empty."""
        splits, partner, coins = self._chosen(state)
        cluster, half = np.full(2 * state.n_shared, -1), np.tile([0, 1], state.n_shared)
        age: list[int] = []
        for k in state.occupied:
            if splits[k]:
                cluster[2 * k : 2 * k + 2], half[2 * k : 2 * k + 2] = [len(age), len(age) + 1], -1
                age += [0, 0]
            elif partner[k] < 0 or partner[k] > k:
                cluster[2 * k : 2 * k + 2] = len(age)
                if partner[k] > k:
                    other = slice(2 * partner[k], 2 * partner[k] + 2)
                    cluster[other], half[2 * k : 2 * k + 2], half[other] = len(age), 0, 1
                elif coins[k]:
                    half[2 * k : 2 * k + 2] = -1
                age.append(0 if coins[k] or partner[k] > k else int(state.age[k]))
        if len(age) == state.n_shared and (half >= 0).all():
            return state
        coin_key = key(self.seed, "coin", state.round)
        return self._recoded(engine, Recoding(cluster, half), np.array(age), state.hyper, state.round, coin_key)

    def _chosen(self, state: HalvesState) -> tuple[Array, Array, Array]:
        """(clusters that split, the one that each merges with or -1, clusters whose halves are tossed again)."""
        rng = generator(self.seed, "split", state.round)
        counts = state.half_counts.reshape(-1, 2).astype(float)
        halves = self.likelihood.log_marginal(counts.ravel(), state.half_statistics).reshape(-1, 2)
        alone = self.likelihood.log_marginal(counts.sum(1), state.table.statistics)
        ripe = (state.age >= self.wait) & (counts.sum(1) > 0)
        whole = (counts > 0).all(1)
        ratio = np.full(len(counts), -np.inf)
        able = ripe & whole
        ratio[able] = log_split_ratio(self.measure, state.hyper, counts[able], halves[able], alone[able])
        splits = np.log(rng.random(len(counts))) < ratio
        partner = self._merges(state, np.flatnonzero(ripe & ~splits), counts.sum(1), alone, rng)
        return splits, partner, (counts.sum(1) > 1) & ~whole

    def _merges(self, state: HalvesState, able: Array, counts: Array, alone: Array, rng: np.random.Generator) -> Array:
        """Pairs are tried in random order, a cluster merges once."""
        partner = np.full(len(counts), -1)
        for a in rng.permutation(able):
            others = rng.permutation(able[(partner[able] < 0) & (able != a)])
            if partner[a] >= 0 or not len(others):
                continue
            statistics = state.table.statistics[a] + state.table.statistics[others]
            together = self.likelihood.log_marginal(counts[a] + counts[others], statistics)
            pairs = np.stack([np.full(len(others), a), others], axis=1)
            ratio = log_merge_ratio(self.measure, state.hyper, counts[pairs], alone[pairs], together)
            good = np.flatnonzero(np.log(rng.random(len(others))) < ratio)
            if len(good):
                partner[a], partner[others[good[0]]] = others[good[0]], a
        return partner

    # ---- restricted Gibbs

    def global_step(self, state: Any, parallel: Parallel = in_this_thread) -> Message:
        def rng(purpose: str) -> np.random.Generator:
            return generator(self.seed, purpose, state.round)

        counts, halves = state.table.counts.astype(float), state.half_counts.astype(float)
        hyper = self.measure.update(state.hyper, counts, self.n_rows, rng("hyper"))
        parameters = self.likelihood.draw(counts, state.table.statistics, rng("parameters"))
        parts = self.likelihood.draw(halves, state.half_statistics, rng("halves"))
        weights = self.measure.log_weights(hyper, counts, rng("weights"))
        shares = self.measure.half_log_weights(hyper, halves, rng("shares"))
        pairs = [slice(2 * k, 2 * k + 2) for k in range(len(counts))]
        finite = [self.finite({name: v[pair] for name, v in parts.items()}, shares[pair]) for pair in pairs]
        kept = parameters if self.likelihood.imputed.size else None
        return Message(
            HalvesRound(state.round, hyper, self.finite(parameters, weights), finite, kept), [0] * self.n_shards
        )

    def local_step(self, shard: LabelShard, shared: Any, own: Any) -> Summary:
        n_clusters = len(shared.halves)
        if shared.parameters is not None:
            self.impute(shard, shard.labels // 2, shared.parameters, shared.round)
        law = self.measure.closed_tail(shared.hyper)

        def atoms_of(data: Any, n: int, finite: Any, atoms: int, purpose: int) -> Array:
            """A draw of every row's atom: a sweep without a tail."""
            label_key = key(self.seed, "label", shared.round, purpose)
            part = MixturePart(finite, atoms, atoms, 0, law, [SweepKeys(label_key, label_key)])
            rows = LabelShard(shard.index, shard.first, data, n, np.empty(0, np.int64))
            self.kernel.sweep(rows, part, self.kernel.prepare(rows, part))
            return rows.labels

        cluster = atoms_of(shard.data, len(shard.labels), shared.finite, n_clusters, -1)
        order = np.argsort(cluster, kind="stable")
        ends = np.searchsorted(cluster[order], np.arange(n_clusters + 1))
        for k in range(n_clusters):
            rows = order[ends[k] : ends[k + 1]]
            if len(rows):
                shard.labels[rows] = 2 * k + atoms_of(chosen_rows(shard.data, rows), len(rows), shared.halves[k], 2, k)
        return self._report(shard, n_clusters)

    def gather(self, state: Any, message: Message, gathered: Gathered) -> HalvesState:
        return self._state(state.round + 1, message.shared.hyper, gathered, state.age + 1)

    # ---- what a chain records

    def assignments(self, state: Any, engine: Engine, dtype: Any = np.int32) -> Array:
        position = np.full(state.n_shared, -1, np.int32)
        position[state.occupied] = np.arange(len(state.occupied))
        codes = np.repeat(position, 2).astype(dtype)
        return np.concatenate(engine.map(LabelShard.coded, [codes] * self.n_shards))

    def restore(self, arrays: Arrays) -> HalvesState:
        plain = super().restore(arrays)
        halves = (arrays[name] for name in ("half_counts", "half_statistics", "age"))
        return HalvesState(*vars(plain).values(), *halves)
