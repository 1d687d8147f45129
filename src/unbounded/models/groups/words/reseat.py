"""Which words of a document repeat which (docs/topics.md, "Documents that repeat themselves").

A word that other words of its document equal may repeat one of them, or be fresh. Fresh words are what topics see: the
sweep of words moves their topics as ever. Here words become fresh or cease to be so, everything else given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded import randomness
from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.models.groups.measure import Law, Urn
from unbounded.models.groups.rows import GroupRows, SweepKeys, Tail
from unbounded.models.groups.shard import GroupPart, GroupShard
from unbounded.models.groups.words.kernel import (
    CompiledWords,
    GroupScratch,
    WordFinite,
    WordTail,
    add_topic,
    build_aliases,
    count_private,
    drop_topic,
    join_private,
    leave_private,
    sweep,
    topic_of_group,
    topic_of_prior_part,
    weigh_private,
)
from unbounded.models.groups.words.likelihood import TokenTail
from unbounded.models.groups.words.repeats import Repeats
from unbounded.models.groups.words.topics import CHUNK, Topics


@dataclass(frozen=True)
class RepeatingWords(CompiledWords):
    """The sweep of words, and after it a pass over all words that are in a document more than once."""

    def sweep(self, shard: GroupShard, part: GroupPart, tail: WordTail) -> WordTail:
        swept = super().sweep(shard, part, tail)
        assert shard.repeats is not None
        habit = Habit(part.likelihood.after, part.seed.key("repeats"), shard.first)
        shard.labels = _reseated(shard.repeats, shard.labels, swept.finite, swept.tail, habit)
        shard.take_fresh()
        return swept


class Habit(NamedTuple):
    """A word is fresh with a weight of `after`, where every other of the document weighs one."""

    after: float
    key: np.uint64
    first: int  # the number of the first word


class Places(NamedTuple):
    """All words of documents. A place where a fresh word is has the number of words that are or repeat it."""

    words: Any
    offsets: Any
    sources: Any
    times: Any
    topics: Any


def _reseated(repeats: Repeats, labels: Array, finite: WordFinite, tail: Tail, habit: Habit) -> Array:
    """Renew who repeats whom; returns the labels of fresh words."""
    n = len(repeats.words)
    places = Places(repeats.words, repeats.offsets, repeats.sources, np.zeros(n, np.int32), np.zeros(n, np.int32))
    places.topics[repeats.places()] = labels
    _reseat(places, finite, tail, GroupScratch.of(finite, tail), habit)
    found: Array = places.topics[repeats.places()]
    return found


@jit
def _reseat(places, finite, tail, scratch, habit):
    words, offsets, sources, times, _ = places
    active, near = scratch
    for i in range(sources.size):
        times[sources[i]] += 1
    count_private(finite, tail, near)
    for g in range(offsets.size - 1):
        begin, end = offsets[g], offsets[g + 1]
        fresh, length = _enter_fresh(places, begin, end, finite, scratch)
        first = begin
        while first < end:
            last = first + 1
            while last < end and words[last] == words[first]:
                last += 1
            if last > first + 1:
                for i in range(first, last):
                    fresh, length = _renew(places, i, first, last, fresh, length, (finite, tail, scratch, habit))
            first = last
        for j in range(length):
            active.place[active.topics[j]] = -1


@jit
def _enter_fresh(places, begin, end, finite, scratch):
    """List the topics of a document; returns how many fresh words and how many topics it has."""
    (active, near), fresh, length = scratch, 0, 0
    for slot in range(near.private.size):
        near.private[slot] = 0
    near.alive[1] = 0
    for i in range(begin, end):
        if places.times[i] > 0:
            z = places.topics[i]
            fresh += 1
            if z < finite.usable:
                length = add_topic(active, length, z)
            elif z >= finite.shared:
                near.private[z - finite.shared] += 1
                near.alive[1] += 1
    return fresh, length


@jit
def _renew(places, i, first, last, fresh, length, law):
    """Word i, one of the equal ones first .. last, repeats another or is fresh; returns how many fresh words and topics
    the document has then.

    A word that nobody else repeats stays fresh if its topic is frozen, or would be gone: topics are neither born nor
    do they die here.
    """
    words, _, sources, times, topics = places
    finite, tail, (active, near), habit = law
    w, at, usable, shared, phi = words[i], sources[i], finite.usable, finite.shared, finite.topics.phi
    z, alone = topics[at], times[at] == 1
    if alone and z >= usable and (z < shared or tail.members[z - shared] == 1):
        return fresh, length
    times[at] -= 1
    if alone:
        fresh -= 1
        if z < usable:
            length = drop_topic(active, length, active.place[z])
        else:
            leave_private(finite, tail, near, z - shared, w)
    total, prior, private = 0.0, finite.sums[w, 0], 0.0
    for j in range(length):
        total += active.times[j] * phi[w, active.topics[j]]
    if near.alive[0] > 0:
        private = weigh_private(finite, tail, near, w)
    everything = total + prior + private
    new = habit.after * everything / (finite.law.gamma + fresh)  # mutant: repeats new
    aim = uniform(habit.key, habit.first + i) * (new + (last - first - 1))  # mutant: repeats aim
    if aim >= new:
        sources[i] = _repeated(times, first, last, aim - new)
        times[sources[i]] += 1
        return fresh, length
    aim *= everything / new
    if aim < total:
        z = topic_of_group(active, length, phi, w, -1, aim)
    elif private == 0.0 or aim < total + prior:
        z = topic_of_prior_part(finite, w, aim - total, prior)
    else:
        aim = min(aim - total - prior, 0.999999999 * private)  # nothing is born here
        z = shared + join_private(finite, tail, near, w, aim, habit.key, habit.first + i)
    at = first
    while times[at] > 0:
        at += 1
    sources[i], times[at], topics[at] = at, 1, z
    if z < usable:
        length = add_topic(active, length, z)
    return fresh + 1, length


@jit
def _repeated(times, first, last, aim):
    """The place at `aim` among those of fresh words, each as often as there are words that are or repeat it."""
    chosen = first
    for at in range(first, last):
        if times[at] > 0 and aim >= 0.0:
            chosen = at
            aim -= times[at]  # mutant: repeats again
    return chosen


# ---- new documents


class NewDocuments(NamedTuple):
    """Words of new documents, and the topics of their first ones, to begin with."""

    words: Array
    sizes: Array
    labels: Array


class Given(NamedTuple):
    """What new documents do not change: [words, K] probabilities, gamma beta of topics, how soon words repeat."""

    table: Array
    masses: Array
    after: float


def fold_in_repeating(new: NewDocuments, given: Given, sweeps: int, keep: int, at: np.uint64) -> tuple[Array, Array]:
    """(topics of all words, [documents, K] mean shares of the last `keep` sweeps), who repeats whom being sampled."""
    offsets = np.append(0, np.cumsum(new.sizes))
    repeats, (finite, tail) = Repeats.of(new.words, offsets, 0), _all_given(given)
    labels = new.labels[repeats.order].astype(np.int32)
    shares = np.zeros((len(new.sizes), len(given.masses)))
    for s in range(sweeps):
        keys = [randomness.key(int(at >> np.uint64(1)), name, s) for name in ("label", "stick", "repeats")]
        words, ends = repeats.fresh()
        rows = GroupRows(words, labels, ends, 0)
        sweep(rows, 0, finite, tail, GroupScratch.of(finite, tail), SweepKeys(keys[0], keys[1]))
        labels = _reseated(repeats, labels, finite, tail, Habit(given.after, keys[2], 0))
        if s >= sweeps - keep:
            fresh = np.diff(repeats.fresh()[1])
            counts = np.zeros_like(shares)
            np.add.at(counts, (np.repeat(np.arange(len(fresh)), fresh), labels), 1.0)
            shares += (counts + given.masses) / (keep * (fresh + given.masses.sum()))[:, None]
    return repeats.spread(labels), shares


def _all_given(given: Given) -> tuple[WordFinite, Tail]:
    """Topics as the sweep wants them, none of them private."""
    table, masses, _ = given
    size, gamma = len(masses), float(masses.sum())
    parts = np.add.reduceat(table * masses, np.arange(0, size, CHUNK), axis=1)
    total, ones = parts.sum(1), np.ones(len(table))
    topics = Topics(np.ascontiguousarray(table), np.column_stack([total, total]), parts)
    none = build_aliases(parts, 0, np.zeros(len(table), np.int64), 1)
    law = Law(masses, gamma, math.log(gamma), Urn(1.0, 1.0))
    finite = WordFinite(topics, np.column_stack([total, ones]), none, size, size, law, 1.0)
    words = TokenTail(np.zeros((1, len(table))), np.zeros(1))
    return finite, Tail(words, np.zeros(0, np.int64), np.array([-np.inf]))


def log_completed(logs: Array, rest: tuple[Array, Array], seen: tuple[Array, Array], after: float) -> Array:
    """Log probabilities of (words, their documents), each of which may repeat one of the words that were seen of its
    document: (words, sizes of documents). logs: those of fresh words."""
    (words, document), (known, sizes) = rest, seen
    width = int(max(words.max(initial=0), known.max(initial=0))) + 1
    cells, times = np.unique(np.repeat(np.arange(len(sizes)), sizes) * width + known, return_counts=True)
    cells, times = np.append(cells, -1), np.append(times, 0)
    at = np.searchsorted(cells[:-1], document * width + words)
    same = np.where(cells[at] == document * width + words, times[at], 0)
    value: Array = np.log((same + after * np.exp(logs)) / (sizes[document] + after))
    return value
