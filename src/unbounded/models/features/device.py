"""The local step of 0/1 features with linear Gaussian factors on a GPU (docs/gpu.md): the chain of the CPU.

All shards of a worker are swept at once, all L sweeps in one launch. While a shard has no private atom and no row
proposes one that could be accepted, its sweeps are updates of mobile columns and nothing else: these are the device's,
with the random numbers of the CPU. The device tells which shards had a proposal that the host has to look at; these,
and shards with private atoms, are the host's: the CPU's own kernel takes their rows from where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from unbounded.arrays import Array, Arrays
from unbounded.contracts import Pairs, Summaries, Summary
from unbounded.gpu.chunks import gathered
from unbounded.gpu.device import torch_device
from unbounded.models.features.column_moves import Flip, Launches, Proposal
from unbounded.models.features.gpu import bits, folds, patterns
from unbounded.models.features.kernel import CompiledFeatures
from unbounded.models.features.linear_gaussian import BoundLinearGaussian
from unbounded.models.features.pool import DevicePool, PooledShard
from unbounded.models.features.state import (
    PATTERN,
    FeaturePart,
    FeatureRound,
    FeatureSetup,
    FeatureShard,
    FeatureTask,
    upper_triangle,
)
from unbounded.randomness import stream


class _Sent(NamedTuple):
    """Arrays that travel as one."""

    kind: Any
    parts: tuple[Array, ...]

    def on(self, device: Any) -> list[Any]:
        """The same on the device, where each begins at a multiple of 128 bytes."""
        sizes = [-(-part.size // 32) * 32 for part in self.parts]
        flat, ends = np.zeros(sum(sizes), self.kind), np.cumsum(sizes)
        for part, end, size in zip(self.parts, ends, sizes, strict=True):
            flat[end - size : end - size + part.size] = part.ravel()
        there = torch.from_numpy(flat).to(device)
        return [
            there[end - size : end - size + part.size].view(part.shape)
            for part, end, size in zip(self.parts, ends.tolist(), sizes, strict=True)
        ]


@dataclass(frozen=True)
class DeviceFeatures:
    setup: FeatureSetup

    shard: ClassVar[type[FeatureShard]] = PooledShard
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.setup.likelihood, BoundLinearGaussian) or not self.setup.measure.binary:
            raise ValueError(
                "device='cuda' takes features of zeros and ones with linear Gaussian factors; "
                "others run on device='cpu'."
            )

    @cached_property
    def host(self) -> CompiledFeatures:
        return CompiledFeatures(self.setup)

    @cached_property
    def place(self) -> Any:
        return torch_device(self.setup.device)

    # ---- one shard

    def prepare(self, shard: Any, part: FeatureTask) -> None:
        """The host builds private atoms where there are any."""

    def sweep(self, shard: Any, part: FeatureTask, tail: None) -> Any:
        return self.together([shard], part.round, [part.part])

    def statistics(self, shard: Any, part: FeatureTask, tail: Any) -> Summary:
        return Summary({name: value[0] for name, value in tail.shared.items()}, tail.private[0])

    def predictive(self, atoms: FeatureTask, X: Any) -> Array:
        return self.host.predictive(atoms, X)

    # ---- all shards of a worker

    def steps(self, tasks: Iterator[tuple[Any, FeatureTask]]) -> Iterator[Summaries]:
        if taken := list(tasks):
            shards, parts = zip(*taken, strict=True)
            yield self.together(shards, parts[0].round, [task.part for task in parts])

    def together(self, shards: Sequence[PooledShard], shared: FeatureRound, own: Sequence[FeaturePart]) -> Summaries:
        """The local step on all shards."""
        pool, n_shared = self.pool(shards), len(shared.loadings)
        away = np.array(
            [
                part.lone or len(part.sources) > n_shared or shard.size > bits.MOST_COLUMNS or len(shard.holes) > 0
                for shard, part in zip(shards, own, strict=True)
            ]
        ) | (n_shared > bits.MOST_COLUMNS)
        for shard in (shard for shard, is_away in zip(shards, away, strict=True) if not is_away):
            shard.place()
        proposed, total = self._on_device(pool, shared, own, away) if not away.all() else (away, None)
        hosts = np.flatnonzero(away | proposed).tolist()  # mutant: device host shards
        before = [shards[p].Z for p in hosts]
        pool.swap()
        stacked = self._stacked(pool, n_shared, total)
        empty = _nothing(n_shared, pool.rows.width)
        private: list[Arrays] = [empty] * len(shards)
        for shard, is_here in zip(shards, ~(away | proposed), strict=True):
            if is_here:
                shard.moved(n_shared)
        for p, Z in zip(hosts, before, strict=True):
            shards[p].Z = Z
            summary = self._on_host(shards[p], FeatureTask(shared, own[p]))
            private[p] = summary.private
            for name, value in summary.shared.items():
                stacked[name][p] = value
        return Summaries(stacked, private)

    def find(self, pairs: Pairs, launches: Launches) -> Iterator[Summary | Summaries]:
        return _with_fallback(self._find, self.host.find, pairs, launches)

    def apply(self, pairs: Pairs, launches: Launches) -> Iterator[Summary | Summaries]:
        return _with_fallback(self._apply, self.host.apply, pairs, launches)

    def fold(self, pairs: Pairs, proposal: Proposal, keep: bool = False) -> Iterator[Summary | Summaries]:
        return _with_fallback(self._fold, self.host.fold, pairs, proposal, keep)

    def flip(self, pairs: Pairs, flip: Flip) -> Iterator[Summary | Summaries]:
        return _with_fallback(self._flip, self.host.flip, pairs, flip)

    # ---- jumps on the device; None: it has no room for the columns

    def _find(self, shards: Sequence[PooledShard], own: Sequence[Array], launches: Launches) -> Summaries | None:
        drawn = self._drawn(shards, own, launches)
        if drawn is None:
            return None
        every, log_q = drawn
        size, fixed = every["members"].shape[1], self.setup.likelihood.fixed
        new = np.arange(size - fixed - len(launches.new.slopes), size - fixed)
        others = np.setdiff1d(np.arange(size), new)
        rows, columns = upper_triangle(size)
        products = np.zeros((len(shards), size, size))
        products[:, rows, columns] = products[:, columns, rows] = every["products"]
        return Summaries({
            "members": every["members"][:, new], "products": products[:, new[:, None], new],
            "cross": products[:, others[:, None], new], "sums": every["sums"][:, new], "log_q": log_q,
            "entries": np.zeros((len(shards), 2)),
        }, [{}] * len(shards))  # fmt: skip

    def _apply(self, shards: Sequence[PooledShard], own: Sequence[Array], launches: Launches) -> Summaries | None:
        drawn = self._drawn(shards, own, launches)
        if drawn is None:
            return None
        return self._kept(self.pool(shards), drawn[0])

    def _fold(
        self, shards: Sequence[PooledShard], own: Sequence[Array], proposal: Proposal, keep: bool
    ) -> Summaries | None:
        pool, fixed, sources = self.pool(shards), self.setup.likelihood.fixed, np.array(own).reshape(len(own), -1)
        size = sources.shape[1] + (1 if proposal.folded < 0 else -1) + fixed
        if not self._placed(shards, size):
            return None
        counts = [sources.shape[1], proposal.folded, len(proposal.chosen), fixed, PATTERN]
        key = np.array([proposal.key]).view(np.int64)
        parts = (np.array(counts), sources, proposal.chosen, key, pool.offsets, np.zeros(1, np.int64))
        sizes, there, chosen, key, offsets, none = _Sent(np.int64, parts).on(self.place)
        (coins,) = _Sent(np.float64, (proposal.coins,)).on(self.place)
        how = folds.Fold(sizes, chosen, coins, key, offsets)
        said = folds.fold(pool.rows, folds.Taken(sizes, there, none), how, len(shards), bits.ROWS)
        stacked = self._counted(pool, size)
        report = self._kept(pool, stacked) if keep else Summaries(stacked, [_nothing(size, pool.rows.width)] * len(own))
        return Summaries({**report.shared, "coins": said.cpu().numpy().astype(float)}, report.private)

    def _flip(self, shards: Sequence[PooledShard], own: Sequence[Array], flip: Flip) -> Summaries | None:
        pool, stay = self.pool(shards), np.arange(len(flip.flipped)) != flip.gone
        always = np.full((len(own), int(flip.new) + self.setup.likelihood.fixed), patterns.ALWAYS)
        sources = np.concatenate([np.array(own).reshape(len(own), -1)[:, stay], always], axis=1)
        if not self._placed(shards, sources.shape[1]):
            return None
        bits_flipped = sum(1 << place for place in np.flatnonzero(flip.flipped[stay]).tolist())
        parts = (np.array([sources.shape[1]]), sources, np.array([bits_flipped]))
        folds.arrange(pool.rows, folds.Taken(*_Sent(np.int64, parts).on(self.place)), bits.ROWS)
        return self._kept(pool, self._counted(pool, sources.shape[1]))

    def _placed(self, shards: Sequence[PooledShard], size: int) -> bool:
        """Whether the device can work with so many columns; if so, it has the current Z from here on."""
        if max(size, *(shard.size for shard in shards)) > bits.MOST_COLUMNS or any(len(s.holes) for s in shards):
            return False
        for shard in shards:
            shard.place()
        return True

    def _counted(self, pool: DevicePool, n_columns: int) -> dict[str, Array]:
        """What shards would report of the other half of the pool."""
        return self._stacked(pool, n_columns, pool.landed(bits.sums(pool.rows, pool.chunks, pool.units, n_columns)))

    def _kept(self, pool: DevicePool, stacked: dict[str, Array]) -> Summaries:
        """What is in the other half of the pool, for good; all columns are shared."""
        n_columns = stacked["members"].shape[1]
        pool.swap()
        for shard in pool.shards:
            shard.moved(n_columns)
        return Summaries(stacked, [_nothing(n_columns, pool.rows.width)] * len(pool.shards))

    def _drawn(
        self, shards: Sequence[PooledShard], own: Sequence[Array], launches: Launches
    ) -> tuple[dict[str, Array], Array] | None:
        """Columns of a launch drawn anew on the device, and log probabilities of what goes and comes, by shard.

        None: the host has to do it. What is drawn is in the other half of the pool.
        """
        pool, fixed = self.pool(shards), self.setup.likelihood.fixed
        sources = np.array(own).reshape(len(own), -1)
        always = np.full((len(own), fixed), patterns.ALWAYS)
        stay = np.concatenate([np.delete(sources, launches.gone, axis=1), always], axis=1)
        n_columns = stay.shape[1] + len(launches.new.slopes)
        if not self._placed(shards, n_columns):
            return None
        change, old, new = self._launched(pool, launches, stay, sources[:, launches.gone], fixed)
        log_q = gathered(patterns.draw(pool.rows, change, old, new, bits.ROWS), pool.blocks)
        return self._counted(pool, n_columns), log_q.cpu().numpy()

    def _launched(
        self, pool: DevicePool, launches: Launches, stay: Array, gone: Array, fixed: int
    ) -> tuple[patterns.Replacement, patterns.Odds, patterns.Odds]:
        both = launches.old, launches.new
        counts = [stay.shape[1], fixed, *(len(odds.slopes) for odds in both), *(len(odds.cost) for odds in both)]
        key = np.array([launches.key]).view(np.int64)
        parts = _Sent(np.int64, (np.array(counts), stay, gone, key, pool.offsets)).on(self.place)
        laws = []
        for odds in both:
            wide = max(2, 1 << (len(odds.slopes) - 1).bit_length()) if len(odds.slopes) else 2
            arrays = (_wider(part, wide) for part in (odds.slopes.T, odds.pull, odds.patterns))
            laws.append(patterns.Odds(*_Sent(np.float64, (*arrays, odds.cost)).on(self.place)))
        return patterns.Replacement(*parts), laws[0], laws[1]

    def pool(self, shards: Sequence[PooledShard]) -> DevicePool:
        """The pool of the shards, made when they are first used."""
        pool = shards[0].pool
        if pool is None or len(pool.shards) != len(shards) or any(shard.pool is not pool for shard in shards):
            for shard in shards:
                shard.current()
            pool = DevicePool(shards, self.place)
        return pool

    def _on_host(self, shard: Any, task: FeatureTask) -> Summary:
        return self.host.statistics(shard, task, self.host.sweep(shard, task, self.host.prepare(shard, task)))

    def _on_device(
        self, pool: DevicePool, shared: FeatureRound, own: Sequence[FeaturePart], away: Array
    ) -> tuple[Array, Array]:
        """(shards with a birth that the host has to look at, sums of all shards)."""
        proposed = torch.zeros(len(own), dtype=torch.int64, device=self.place)
        columns, births = self._sent(pool, shared, own, away)
        bits.sweep(pool.rows, columns, births._replace(proposed=proposed))
        total = bits.sums(pool.rows, pool.chunks, pool.units, len(shared.loadings))
        return proposed.cpu().numpy() > 0, pool.landed(total)

    def _sent(
        self, pool: DevicePool, shared: FeatureRound, own: Sequence[FeaturePart], away: Array
    ) -> tuple[bits.MobileColumns, bits.Births]:
        """The finite part and the round's randomness, in three parcels."""
        mobile, spec, scales = shared.finite[0].mobile, shared.finite[0].spec, shared.scales
        usable, n_shared, sweeps = len(mobile.order), len(shared.loadings), self.setup.sweeps
        wide = bits.padded(usable)
        scaled, gram, odds = np.zeros((pool.rows.width, wide)), np.zeros((n_shared, wide)), np.zeros(wide)
        scaled[:, :usable] = shared.loadings[:usable].T / scales.noise
        gram[:, :usable] = spec.gram.T
        odds[:usable] = mobile.weights[:usable] - 0.5 * spec.norms[:usable] / scales.noise
        kinds = {id(part.sources): part.sources for part in own}  # most shards have the same
        which = {name: i for i, name in enumerate(kinds)}
        table = np.array([s if len(s) == n_shared else np.full(n_shared, -1) for s in kinds.values()])
        sources = table.reshape(len(kinds), n_shared)[[which[id(part.sources)] for part in own]]
        keys = [[stream(k, s) for k in (shared.keys.entry, shared.keys.tail, shared.keys.birth)] for s in range(sweeps)]
        law = shared.laws[1]
        rates = np.where([part.open for part in own], law.rate, 0.0)
        numbers = np.array([law.first, scales.noise, scales.noise + scales.loading, bits.SLACK])
        whole = np.array(keys).view(np.int64), np.array([usable, n_shared, sweeps]), sources, mobile.order
        sent, sizes, sources, order, offsets, gone = _Sent(
            np.int64, (*whole, pool.offsets, away.astype(np.int64))
        ).on(self.place)  # fmt: skip
        precision = self.setup.likelihood.precision(spec)
        scaled, gram, odds = _Sent(precision, (scaled, gram, odds)).on(self.place)
        exact = (shared.loadings, np.exp(-rates), np.exp(-rates) * (1.0 + rates), numbers)
        loadings, none, single, numbers = _Sent(np.float64, exact).on(self.place)
        columns = bits.MobileColumns(sizes, sources, order, scaled, gram, odds, loadings)
        return columns, bits.Births(sent, offsets, none, single, numbers, gone, None)

    def _stacked(self, pool: DevicePool, n_shared: int, total: Array | None) -> dict[str, Array]:
        """What shards report of the columns that all share, by shard."""
        shards, width, wide = pool.shards, pool.rows.width, bits.padded(n_shared)
        if total is None:
            total = np.zeros((len(shards), (width + wide) * wide))
        sums = total[:, : width * wide].reshape(-1, width, wide)[:, :, :n_shared].transpose(0, 2, 1)
        products = total[:, width * wide :].reshape(-1, wide, wide)
        members = np.diagonal(products, axis1=1, axis2=2)[:, :n_shared].astype(np.int64)
        upper = upper_triangle(n_shared)
        there = (members > 0).astype(np.int64)
        return {
            "members": members, "products": products[:, upper[0], upper[1]], "sums": sums.copy(),
            "rest": np.zeros((len(shards), width)), "square": np.array([shard.square for shard in shards]),
            "entries": np.zeros(len(shards)), "shards": there,
            "owner": there * np.array([shard.index for shard in shards])[:, None],
        }  # fmt: skip


def _with_fallback(
    on_device: Callable[..., Summaries | None], on_host: Callable[..., Iterator[Summary]], pairs: Pairs, *told: Any
) -> Iterator[Summary | Summaries]:
    """What the shards of a worker report of a jump: from the device, or from the host where the device has no room."""
    if taken := list(pairs):
        shards, own = zip(*taken, strict=True)
        report = on_device(shards, own, *told)
        yield from on_host(iter(taken), *told) if report is None else [report]


def _wider(values: Array, width: int) -> Array:
    """The same with columns of zeros at the end."""
    return np.pad(values, ((0, 0), (0, width - values.shape[1])))


def _nothing(n_shared: int, width: int) -> Arrays:
    """What a shard reports of its private atoms where it has none."""
    return {
        "members": np.zeros(0, np.int64), "cross": np.zeros((n_shared, 0)), "products": np.zeros((0, 0)),
        "sums": np.zeros((0, width)),
    }  # fmt: skip
