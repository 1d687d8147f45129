"""The kernel of words on the CPU, compiled: sparse direct assignment (sweep.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.contracts import Summary
from unbounded.models.groups.direct import Rows, SweepKeys, Tail
from unbounded.models.groups.kernel import FREE, report_direct, with_rows_elsewhere
from unbounded.models.groups.message import GroupPart, with_room
from unbounded.models.groups.shard import GroupShard
from unbounded.models.groups.words import alias
from unbounded.models.groups.words import sweep as compiled
from unbounded.models.groups.words.content import WordContent, by_word
from unbounded.models.groups.words.sweep import WordFinite
from unbounded.models.groups.words.topics import Topics
from unbounded.models.labelled.labels import Atoms
from unbounded.models.labelled.predictive import log_predictive


class WordTail(NamedTuple):
    tail: Tail
    finite: WordFinite


@dataclass(frozen=True)
class DirectWords:
    """Words of a shard are kept sorted, too, and frequent ones have alias tables for a round."""

    content: WordContent
    sweeps: int

    def finite(self, drawn: Topics) -> Topics:
        return drawn

    def prepare(self, shard: GroupShard, part: GroupPart) -> WordTail:
        topics, usable = part.finite, part.usable
        whole = usable == topics.phi.shape[1]
        n = topics.parts.shape[1]
        n *= n >= alias.FEW and whole  # few topics need none; a last chunk with frozen topics is no part of the sum
        frequency = shard.kept(by_word).frequency
        aliases = alias.build(topics.parts, n, frequency, -(-alias.WORTH * n // self.sweeps))
        sums = topics.smooth[:, 1 if whole else 0].copy()  # mutant: sweep sums
        finite = WordFinite(topics, sums, aliases, usable, part.n_shared, part.law, part.likelihood.eta)
        return WordTail(self._tail(shard, part, with_room(part.sticks, FREE)), finite)

    def _tail(self, shard: GroupShard, part: GroupPart, sticks: Array) -> Tail:
        slots = len(sticks) - 1
        if part.elsewhere is not None:
            (words,), members = with_rows_elsewhere(self.content, shard, part, slots, 0)
            return Tail(words, members, sticks)
        (words,) = part.likelihood.tail(slots + 1, 0)
        tail = Tail(words, np.zeros(slots, np.int64), sticks)
        compiled.fill(shard.data, shard.labels[: 0 if slots == FREE else None], part.n_shared, tail)
        return tail

    def sweep(self, shard: GroupShard, part: GroupPart, tail: WordTail) -> WordTail:
        first, (now, finite) = shard.first, tail  # mutant: sweeps first
        rows = Rows(shard.data, shard.labels, shard.offsets, first)
        for s in range(self.sweeps):
            keys = SweepKeys(part.seed.key("label", s), part.seed.key("stick", s))
            row = compiled.sweep(rows, 0, finite, now, keys)
            while row < len(shard.labels):
                now = self._tail(shard, part, with_room(now.sticks, len(now.sticks) - 1))
                row = compiled.sweep(rows, row, finite, now, keys)
        return WordTail(now, finite)

    def statistics(self, shard: GroupShard, part: GroupPart, tail: WordTail) -> Summary:
        return report_direct(self.content, shard, part, tail.tail)

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        return self.content.count(shard, n_atoms)

    def sticks(self, tail: WordTail) -> Array:
        return tail.tail.sticks

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return log_predictive(self.content.likelihood, *atoms, X)
