"""The local step of 0/1 features with linear Gaussian factors on a GPU (docs/gpu.md): the chain of the CPU.

All shards of a worker are swept in one launch, all L sweeps of them. While a shard has no private atom and none of its
rows proposes one that could be accepted, its sweeps only update mobile columns: this is what the device does, with the
random numbers of the CPU. The device reports which shards had a proposal that it could not refuse; these, and shards
with private atoms, are swept on the host, where the CPU's own kernel starts from the Z that the shard had before.
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
from unbounded.models.features.resident import DeviceMemory, ResidentShard
from unbounded.models.features.state import (
    PATTERN,
    FeaturePart,
    FeatureRound,
    FeatureSetup,
    FeatureShard,
    FeatureShare,
    upper_triangle,
)
from unbounded.randomness import stream


class _Transfer(NamedTuple):
    """Arrays that are copied to the device as one."""

    dtype: Any
    arrays: tuple[Array, ...]

    def to(self, device: Any) -> list[Any]:
        """The arrays as tensors, each of which begins at a multiple of 128 bytes."""
        sizes = [-(-array.size // 32) * 32 for array in self.arrays]
        flat, ends = np.zeros(sum(sizes), self.dtype), np.cumsum(sizes)
        for array, end, size in zip(self.arrays, ends, sizes, strict=True):
            flat[end - size : end - size + array.size] = array.ravel()
        copied = torch.from_numpy(flat).to(device)
        return [
            copied[end - size : end - size + array.size].view(array.shape)
            for array, end, size in zip(self.arrays, ends.tolist(), sizes, strict=True)
        ]


@dataclass(frozen=True)
class DeviceFeatures:
    setup: FeatureSetup

    shard: ClassVar[type[FeatureShard]] = ResidentShard
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
    def device(self) -> Any:
        return torch_device(self.setup.device)

    # ---- one shard

    def prepare(self, shard: Any, part: FeaturePart) -> None:
        """Nothing: the host sweeps shards with private atoms, and prepares them then."""

    def sweep(self, shard: Any, part: FeaturePart, tail: None) -> Any:
        return self.local_step([shard], part.round, [part.share])

    def statistics(self, shard: Any, part: FeaturePart, tail: Any) -> Summary:
        return Summary({name: value[0] for name, value in tail.shared.items()}, tail.private[0])

    def predictive(self, atoms: FeaturePart, X: Any) -> Array:
        return self.host.predictive(atoms, X)

    # ---- all shards of a worker

    def steps(self, pairs: Iterator[tuple[Any, FeaturePart]]) -> Iterator[Summaries]:
        if taken := list(pairs):
            shards, parts = zip(*taken, strict=True)
            yield self.local_step(shards, parts[0].round, [part.share for part in parts])

    def local_step(
        self, shards: Sequence[ResidentShard], shared: FeatureRound, own: Sequence[FeatureShare]
    ) -> Summaries:
        """The local step of all shards, on the device or on the host."""
        memory, n_shared = self.memory_of(shards), len(shared.loadings)
        away = np.array(
            [
                share.lone or len(share.sources) > n_shared or shard.size > bits.MOST_COLUMNS or len(shard.holes) > 0
                for shard, share in zip(shards, own, strict=True)
            ]
        ) | (n_shared > bits.MOST_COLUMNS)
        for shard in (shard for shard, is_away in zip(shards, away, strict=True) if not is_away):
            shard.upload()
        proposed, total = self._swept(memory, shared, own, away) if not away.all() else (away, None)
        hosts = np.flatnonzero(away | proposed).tolist()  # mutant: device host shards
        before = [shards[p].Z for p in hosts]
        memory.swap()
        stacked = self._stacked(memory, n_shared, total)
        empty = _no_private_atoms(n_shared, memory.rows.width)
        private: list[Arrays] = [empty] * len(shards)
        for shard, is_here in zip(shards, ~(away | proposed), strict=True):
            if is_here:
                shard.written(n_shared)
        for p, Z in zip(hosts, before, strict=True):
            shards[p].Z = Z
            summary = self._swept_on_host(shards[p], FeaturePart(shared, own[p]))
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

    # ---- jumps on the device; None: they have to be done on the host

    def _find(self, shards: Sequence[ResidentShard], own: Sequence[Array], launches: Launches) -> Summaries | None:
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

    def _apply(self, shards: Sequence[ResidentShard], own: Sequence[Array], launches: Launches) -> Summaries | None:
        drawn = self._drawn(shards, own, launches)
        if drawn is None:
            return None
        return self._kept(self.memory_of(shards), drawn[0])

    def _fold(
        self, shards: Sequence[ResidentShard], own: Sequence[Array], proposal: Proposal, keep: bool
    ) -> Summaries | None:
        memory, fixed = self.memory_of(shards), self.setup.likelihood.fixed
        sources = np.array(own).reshape(len(own), -1)
        size = sources.shape[1] + (1 if proposal.folded < 0 else -1) + fixed
        if not self._uploaded(shards, size):
            return None
        counts = [sources.shape[1], proposal.folded, len(proposal.chosen), fixed, PATTERN]
        key = np.array([proposal.key]).view(np.int64)
        integers = (np.array(counts), sources, proposal.chosen, key, memory.offsets, np.zeros(1, np.int64))
        sizes, columns, chosen, key, offsets, none = _Transfer(np.int64, integers).to(self.device)
        (coins,) = _Transfer(np.float64, (proposal.coins,)).to(self.device)
        how = folds.Fold(sizes, chosen, coins, key, offsets)
        counted = folds.fold(memory.rows, folds.ColumnSources(sizes, columns, none), how, len(shards), bits.ROWS)
        stacked = self._counted(memory, size)
        empty = _no_private_atoms(size, memory.rows.width)
        report = self._kept(memory, stacked) if keep else Summaries(stacked, [empty] * len(own))
        return Summaries({**report.shared, "coins": counted.cpu().numpy().astype(float)}, report.private)

    def _flip(self, shards: Sequence[ResidentShard], own: Sequence[Array], flip: Flip) -> Summaries | None:
        memory, stay = self.memory_of(shards), np.arange(len(flip.flipped)) != flip.gone
        always = np.full((len(own), int(flip.new) + self.setup.likelihood.fixed), patterns.ALWAYS)
        sources = np.concatenate([np.array(own).reshape(len(own), -1)[:, stay], always], axis=1)
        if not self._uploaded(shards, sources.shape[1]):
            return None
        mask = sum(1 << column for column in np.flatnonzero(flip.flipped[stay]).tolist())
        integers = (np.array([sources.shape[1]]), sources, np.array([mask]))
        folds.arrange(memory.rows, folds.ColumnSources(*_Transfer(np.int64, integers).to(self.device)), bits.ROWS)
        return self._kept(memory, self._counted(memory, sources.shape[1]))

    def _uploaded(self, shards: Sequence[ResidentShard], size: int) -> bool:
        """Whether the device can work on these shards with so many columns; if so, it has their current Z now."""
        if max(size, *(shard.size for shard in shards)) > bits.MOST_COLUMNS or any(len(s.holes) for s in shards):
            return False
        for shard in shards:
            shard.upload()
        return True

    def _counted(self, memory: DeviceMemory, n_columns: int) -> dict[str, Array]:
        """What shards would report of the next Z."""
        total = memory.to_host(bits.sums(memory.rows, memory.chunks, memory.units, n_columns))
        return self._stacked(memory, n_columns, total)

    def _kept(self, memory: DeviceMemory, stacked: dict[str, Array]) -> Summaries:
        """Make the next Z the current one; all columns are shared."""
        n_columns = stacked["members"].shape[1]
        memory.swap()
        for shard in memory.shards:
            shard.written(n_columns)
        return Summaries(stacked, [_no_private_atoms(n_columns, memory.rows.width)] * len(memory.shards))

    def _drawn(
        self, shards: Sequence[ResidentShard], own: Sequence[Array], launches: Launches
    ) -> tuple[dict[str, Array], Array] | None:
        """Draw the columns of a launch into the next Z: (its statistics, log probabilities of the removed and the new
        entries), by shard."""
        memory, fixed = self.memory_of(shards), self.setup.likelihood.fixed
        sources = np.array(own).reshape(len(own), -1)
        always = np.full((len(own), fixed), patterns.ALWAYS)
        stay = np.concatenate([np.delete(sources, launches.gone, axis=1), always], axis=1)
        n_columns = stay.shape[1] + len(launches.new.slopes)
        if not self._uploaded(shards, n_columns):
            return None
        change, old, new = self._launched(memory, launches, stay, sources[:, launches.gone], fixed)
        log_q = gathered(patterns.draw(memory.rows, change, old, new, bits.ROWS), memory.blocks)
        return self._counted(memory, n_columns), log_q.cpu().numpy()

    def _launched(
        self, memory: DeviceMemory, launches: Launches, stay: Array, gone: Array, fixed: int
    ) -> tuple[patterns.Replacement, patterns.Odds, patterns.Odds]:
        """What the device needs of a launch, in three transfers."""
        both = launches.old, launches.new
        counts = [stay.shape[1], fixed, *(len(odds.slopes) for odds in both), *(len(odds.cost) for odds in both)]
        key = np.array([launches.key]).view(np.int64)
        integers = _Transfer(np.int64, (np.array(counts), stay, gone, key, memory.offsets)).to(self.device)
        laws = []
        for odds in both:
            wide = max(2, 1 << (len(odds.slopes) - 1).bit_length()) if len(odds.slopes) else 2
            arrays = (_wider(array, wide) for array in (odds.slopes.T, odds.pull, odds.patterns))
            laws.append(patterns.Odds(*_Transfer(np.float64, (*arrays, odds.cost)).to(self.device)))
        return patterns.Replacement(*integers), laws[0], laws[1]

    # ---- sweeps

    def memory_of(self, shards: Sequence[ResidentShard]) -> DeviceMemory:
        """Where the shards are on the device; they are copied there when they are first used."""
        memory = shards[0].memory
        if memory is None or len(memory.shards) != len(shards) or any(shard.memory is not memory for shard in shards):
            for shard in shards:
                shard.current()
            memory = DeviceMemory(shards, self.device)
        return memory

    def _swept_on_host(self, shard: Any, part: FeaturePart) -> Summary:
        return self.host.statistics(shard, part, self.host.sweep(shard, part, self.host.prepare(shard, part)))

    def _swept(
        self, memory: DeviceMemory, shared: FeatureRound, own: Sequence[FeatureShare], away: Array
    ) -> tuple[Array, Array]:
        """(shards with a birth that the host has to look at, sums of all shards)."""
        proposed = torch.zeros(len(own), dtype=torch.int64, device=self.device)
        columns, births = self._sent(memory, shared, own, away)
        bits.sweep(memory.rows, columns, births._replace(proposed=proposed))
        total = bits.sums(memory.rows, memory.chunks, memory.units, len(shared.loadings))
        return proposed.cpu().numpy() > 0, memory.to_host(total)

    def _sent(
        self, memory: DeviceMemory, shared: FeatureRound, own: Sequence[FeatureShare], away: Array
    ) -> tuple[bits.MobileColumns, bits.Births]:
        """The finite part and the round's randomness on the device, in three transfers."""
        mobile, spec, scales = shared.finite[0].mobile, shared.finite[0].spec, shared.scales
        usable, n_shared, sweeps = len(mobile.order), len(shared.loadings), self.setup.sweeps
        wide = bits.padded(usable)
        scaled, gram, odds = np.zeros((memory.rows.width, wide)), np.zeros((n_shared, wide)), np.zeros(wide)
        scaled[:, :usable] = shared.loadings[:usable].T / scales.noise
        gram[:, :usable] = spec.gram.T
        odds[:usable] = mobile.weights[:usable] - 0.5 * spec.norms[:usable] / scales.noise
        distinct = {id(share.sources): share.sources for share in own}  # most shards have the same
        index = {name: i for i, name in enumerate(distinct)}
        table = np.array([s if len(s) == n_shared else np.full(n_shared, -1) for s in distinct.values()])
        sources = table.reshape(len(distinct), n_shared)[[index[id(share.sources)] for share in own]]
        keys = [[stream(k, s) for k in (shared.keys.entry, shared.keys.tail, shared.keys.birth)] for s in range(sweeps)]
        law = shared.laws[1]
        rates = np.where([share.open for share in own], law.rate, 0.0)
        numbers = np.array([law.first, scales.noise, scales.noise + scales.loading, bits.SLACK])
        integers = np.array(keys).view(np.int64), np.array([usable, n_shared, sweeps]), sources, mobile.order
        sent, sizes, sources, order, offsets, gone = _Transfer(
            np.int64, (*integers, memory.offsets, away.astype(np.int64))
        ).to(self.device)  # fmt: skip
        precision = self.setup.likelihood.precision(spec)
        scaled, gram, odds = _Transfer(precision, (scaled, gram, odds)).to(self.device)
        exact = (shared.loadings, np.exp(-rates), np.exp(-rates) * (1.0 + rates), numbers)
        loadings, none, single, numbers = _Transfer(np.float64, exact).to(self.device)
        columns = bits.MobileColumns(sizes, sources, order, scaled, gram, odds, loadings)
        return columns, bits.Births(sent, offsets, none, single, numbers, gone, None)

    def _stacked(self, memory: DeviceMemory, n_shared: int, total: Array | None) -> dict[str, Array]:
        """What shards report of the columns that all share, by shard."""
        shards, width, wide = memory.shards, memory.rows.width, bits.padded(n_shared)
        if total is None:
            total = np.zeros((len(shards), (width + wide) * wide))
        sums = total[:, : width * wide].reshape(-1, width, wide)[:, :, :n_shared].transpose(0, 2, 1)
        products = total[:, width * wide :].reshape(-1, wide, wide)
        members = np.diagonal(products, axis1=1, axis2=2)[:, :n_shared].astype(np.int64)
        upper = upper_triangle(n_shared)
        present = (members > 0).astype(np.int64)
        return {
            "members": members, "products": products[:, upper[0], upper[1]], "sums": sums.copy(),
            "rest": np.zeros((len(shards), width)), "square": np.array([shard.square for shard in shards]),
            "entries": np.zeros(len(shards)), "shards": present,
            "owner": present * np.array([shard.index for shard in shards])[:, None],
        }  # fmt: skip


def _with_fallback(
    on_device: Callable[..., Summaries | None], on_host: Callable[..., Iterator[Summary]], pairs: Pairs, *told: Any
) -> Iterator[Summary | Summaries]:
    """What all shards of a worker report of a jump: from the device where it can do that, or else from the host."""
    if taken := list(pairs):
        shards, own = zip(*taken, strict=True)
        report = on_device(shards, own, *told)
        yield from on_host(iter(taken), *told) if report is None else [report]


def _wider(values: Array, width: int) -> Array:
    """The same with columns of zeros at the end."""
    return np.pad(values, ((0, 0), (0, width - values.shape[1])))


def _no_private_atoms(n_shared: int, width: int) -> Arrays:
    """What a shard without private atoms reports of them."""
    return {
        "members": np.zeros(0, np.int64), "cross": np.zeros((n_shared, 0)), "products": np.zeros((0, 0)),
        "sums": np.zeros((0, width)),
    }  # fmt: skip
