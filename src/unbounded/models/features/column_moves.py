"""The part of jumps that is done on shards: columns of Z are launched, folded or flipped (docs/features.md, "Jumps").

The sampler says what to do (`Launches`, `Proposal`, `Flip`), and a kernel does it, by the methods that `FeatureKernel`
(kernels.py) asks for. Kernels that work on the host share those of `HostMoves`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Pairs, Summary
from unbounded.models.features import passes
from unbounded.models.features.likelihood import FeatureBound
from unbounded.models.features.measure import FeatureMeasure
from unbounded.models.features.operations import Sums
from unbounded.models.features.state import PATTERN, FeatureSetup, FeatureShard, summary
from unbounded.randomness import stream, uniforms

LARGEST = (0, 31, 9, 5, 3, 2, 2, 1, 1)  # the truncation limit of entries, by the number of columns that are enumerated
MORE = math.log(1e-6)  # log chance that an entry at the limit is one larger, and again, and so on
_CHUNK = 4096  # rows


class Odds(NamedTuple):
    """The log odds of patterns of entries in a row, by a launch: linear in the centred row and in its other entries."""

    slopes: Array  # [k, D]
    pull: Array  # [kept columns, k] subtracted where a row uses these
    patterns: Array  # [J, k] entries
    cost: Array  # [J] added to each pattern


class Launches(NamedTuple):
    """Columns to remove, the launch that says how probable they are, and the launch that new columns are drawn from."""

    gone: Array
    old: Odds
    new: Odds
    key: Any  # of the new entries


class Proposal(NamedTuple):
    """A fold, or its reverse (fold.py)."""

    folded: int  # position among the occupied atoms, -1: unfold
    chosen: Array  # positions of the atoms of S
    coins: Array  # chance of a row to use the new atom, for each way in which it may use those of S
    key: Any


class Flip(NamedTuple):
    """Columns to flip (0 for 1, 1 for 0); then a column of ones may be removed or added."""

    flipped: Array  # [columns]
    gone: int = -1  # the column of ones to remove, -1: none
    new: bool = False  # whether to add one


@dataclass(frozen=True)
class HostMoves:
    """These steps where rows are on the host, one shard after another."""

    setup: FeatureSetup

    shard: ClassVar[type[FeatureShard]] = FeatureShard
    whole: ClassVar[bool] = False

    def find(self, pairs: Pairs, launches: Launches) -> Iterator[Summary]:
        """Statistics of new columns, and log probabilities of the removed and the new entries."""
        for shard, sources in pairs:
            yield self._find(shard, launches, sources)

    def apply(self, pairs: Pairs, launches: Launches) -> Iterator[Summary]:
        """Draw the same columns again and keep them: candidates set aside would be state that no checkpoint has."""
        for shard, sources in pairs:
            drawn = drawn_columns(self.setup, shard, launches, sources).drawn
            stay = shard.columns(np.delete(sources, launches.gone))
            shard.Z = with_fixed(self.setup.likelihood, np.concatenate([stay, drawn]))
            yield candidate_summary(self.setup, shard, shard.Z)

    def fold(self, pairs: Pairs, proposal: Proposal, keep: bool = False) -> Iterator[Summary]:
        """Statistics of Z after a fold, with the counts of its coins."""
        for shard, sources in pairs:
            yield self._fold(shard, proposal, sources, keep)

    def flip(self, pairs: Pairs, flip: Flip) -> Iterator[Summary]:
        """Flip columns; statistics of the new Z."""
        for shard, sources in pairs:
            Z = shard.columns(sources)
            Z[flip.flipped] = 1 - Z[flip.flipped]
            Z = np.delete(Z, flip.gone, axis=0) if flip.gone >= 0 else Z
            ones = np.ones((int(flip.new) + self.setup.likelihood.fixed, Z.shape[1]), Z.dtype)
            shard.Z = np.concatenate([Z, ones])
            yield candidate_summary(self.setup, shard, shard.Z)

    def _find(self, shard: FeatureShard, launches: Launches, sources: Array) -> Summary:
        found = drawn_columns(self.setup, shard, launches, sources)
        members, gone = found.drawn.sum(axis=1, dtype=np.int64), shard.columns(sources[launches.gone])
        return Summary({
            "members": members, "products": found.products, "cross": found.cross,
            "sums": found.sums, "log_q": found.log_q,
            "entries": np.array([self.setup.measure.log_entries(part) for part in (gone, found.drawn)]),
        }, {})  # fmt: skip

    def _fold(self, shard: FeatureShard, proposal: Proposal, sources: Array, keep: bool) -> Summary:
        old = shard.columns(sources)
        new, coin, moved = folded_columns(proposal, old, shard.first + np.arange(old.shape[1]))
        Z = with_fixed(self.setup.likelihood, new)
        counts = np.bincount(2 * coin + moved, minlength=2 ** (PATTERN + 1)).reshape(-1, 2).astype(float)
        report = candidate_summary(self.setup, shard, Z)
        if keep:
            shard.Z = Z
        return Summary({**report.shared, "coins": counts}, report.private)


def with_fixed(likelihood: FeatureBound, Z: Array) -> Array:
    """Columns of Z with the always-on ones after them."""
    return np.concatenate([Z, np.ones((likelihood.fixed, Z.shape[1]), Z.dtype)])


def candidate_summary(setup: FeatureSetup, shard: FeatureShard, Z: Array) -> Summary:
    """What a shard would report of this Z, all columns shared, where loadings are integrated out."""
    few = shard.data.size <= passes.FEW_CELLS
    products, sums = (passes.few_statistics if few else passes.statistics)(Z, shard.data, shard.centre)
    return summary(setup, shard, Z, len(Z), Sums(products, sums, np.zeros(shard.data.shape[1])))


# ---- launches


def n_values(measure: FeatureMeasure, n_columns: int) -> int:
    """Number of values that are enumerated per entry, in patterns of this many columns."""
    return 2 if measure.binary else LARGEST[n_columns] + 1


def entry_limits(measure: FeatureMeasure, launches: Launches) -> passes.EntryLimits:
    old, new = (n_values(measure, len(odds.slopes)) for odds in (launches.old, launches.new))
    return passes.EntryLimits(old, new, 0.0 if measure.binary else MORE)


def normalised(linear: Array, patterns: Array, cost: Array) -> tuple[Array, Array]:
    """(log probabilities [patterns, rows], the log normaliser of each row); linear: [k, rows], cost: [patterns].

    Or several of these at once, along a first axis.
    """
    logits = patterns @ linear + cost[..., None]
    highest = logits.max(axis=-2)
    log_total = highest + np.log(np.exp(logits - highest[..., None, :]).sum(axis=-2))
    return logits - log_total[..., None, :], log_total


def drawn_columns(setup: FeatureSetup, shard: FeatureShard, launches: Launches, sources: Array) -> passes.DrawnColumns:
    """New columns, by compiled code, unless there are so few rows that compiling would take longer than drawing."""
    k, (stay, _) = len(launches.new.slopes), launches.new.pull.shape
    if shard.data.size > passes.FEW_CELLS:
        always = np.full(setup.likelihood.fixed, passes.ALWAYS)
        columns = passes.pass_rows(shard, np.append(np.delete(sources, launches.gone), always), sources[launches.gone])
        old, new = passes.packed_odds(launches.old), passes.packed_odds(launches.new)
        return passes.draw_columns(columns, old, new, launches.key, entry_limits(setup.measure, launches))
    Z = shard.columns(sources)
    drawn, log_q = np.empty((k, Z.shape[1]), Z.dtype), np.zeros(2)
    products, cross, sums = np.zeros((k, k)), np.zeros((stay, k)), np.zeros((k, shard.data.shape[1]))
    for where, others, entries, log_chances in _drawn_blocks(setup, shard, launches, Z):
        drawn[:, where] = entries
        log_q += log_chances
        products += entries @ entries.T
        cross += others @ entries.T
        sums += entries @ (shard.data[where] - shard.centre)
    return passes.DrawnColumns(drawn, log_q, products, cross, sums)


def _drawn_blocks(
    setup: FeatureSetup, shard: FeatureShard, launches: Launches, Z: Array
) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Blocks of rows: (where, columns that stay, new entries, log probabilities of the removed and the new entries)."""
    kept, gone = with_fixed(setup.likelihood, np.delete(Z, launches.gone, axis=0)), Z[launches.gone]
    limits = entry_limits(setup.measure, launches)
    digits = limits.old ** np.arange(len(gone))[::-1]
    for start in range(0, Z.shape[1], _CHUNK):
        where = slice(start, start + _CHUNK)
        rows, others = shard.data[where] - shard.centre, kept[:, where].astype(float)
        i = np.arange(len(rows))
        old, new = (
            normalised(odds.slopes @ rows.T - odds.pull.T @ others, odds.patterns, odds.cost)[0]
            for odds in (launches.old, launches.new)
        )
        now = np.minimum(gone[:, where], limits.old - 1)
        log_old = old[digits @ now.astype(np.int64), i].sum()
        u = uniforms(launches.key, shard.first + start + i)
        drawn = (np.cumsum(np.exp(new), axis=0)[:-1] < u).sum(axis=0)
        entries, log_new = launches.new.patterns[drawn].T, new[drawn, i].sum()
        if limits.more < 0.0:
            entries = entries + _overflow(entries, limits, launches.key, shard.first + start + i)
            log_old += _log_overflow(gone[:, where], limits.old, limits.more)  # mutant: launch old beyond
            log_new += _log_overflow(entries, limits.new, limits.more)  # mutant: launch new beyond
        yield where, others, entries, np.array([log_old, log_new])


def _overflow(entries: Array, limits: passes.EntryLimits, key: Any, rows: Array) -> Array:
    """Geometric excess of entries at the truncation limit."""
    u = np.array([uniforms(stream(key, c), rows) for c in range(len(entries))]).reshape(entries.shape)
    return np.where(entries == limits.new - 1, np.floor(np.log(u) / limits.more), 0.0)


def _log_overflow(entries: Array, base: int, more: float) -> float:
    above = entries[entries >= base - 1] - (base - 1.0)
    return float(above.sum() * more + len(above) * math.log1p(-math.exp(more)))


# ---- folds


def folded_columns(proposal: Proposal, old: Array, numbers: Array) -> tuple[Array, Array, Array]:
    """(columns after the fold, which coin decides for each row, column B); `old` is overwritten, rows are numbered."""
    if proposal.folded >= 0:
        moved = old[proposal.folded].copy()
        old[proposal.chosen] ^= moved  # mutant: fold coins
        return np.delete(old, proposal.folded, axis=0), _coins(old[proposal.chosen]), moved
    coin = _coins(old[proposal.chosen])
    moved = (uniforms(proposal.key, numbers) < proposal.coins[coin]).astype(old.dtype)
    old[proposal.chosen] ^= moved
    return np.concatenate([old, moved[None]]), coin, moved


def _coins(columns: Array) -> Array:
    """Which coin decides for each row."""
    if len(columns) <= PATTERN:
        return np.asarray((columns.astype(np.int64) << np.arange(len(columns))[:, None]).sum(axis=0))
    used = columns.sum(axis=0, dtype=np.int64)
    return np.asarray((used > 0).astype(np.int64) + (used == len(columns)))
