"""Direct assignment for words: exact sparse draws (docs/topics.md, "Words").

A token w of a group joins a mobile atom k with weight (n_sk + gamma beta_k) phi_wk. The first part is a sum over the
few atoms that the group has; the second, for all atoms at once, depends on the word only and is summed up beforehand:
its single atom is drawn only when it is chosen, from an alias table if the word is frequent and by a search if not.
Since phi is fixed within a sweep, nothing is approximate. The atom that a token leaves comes first in the order of the
draw: most tokens go back to it and need neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import inline, jit
from unbounded.compiled.lanes import prefetch
from unbounded.contracts import Summary
from unbounded.models.groups.measure import Law
from unbounded.models.groups.rows import (
    FREE,
    GroupRows,
    SweepKeys,
    Tail,
    break_stick,
    group_of,
    log_sum,
    with_rows_elsewhere,
)
from unbounded.models.groups.shard import GroupPart, GroupShard, report_direct, with_more_slots
from unbounded.models.groups.words.likelihood import WordContent, by_word
from unbounded.models.groups.words.topics import CHUNK, Topics
from unbounded.models.labelled.labels import Atoms
from unbounded.models.labelled.predictive import log_predictive

AHEAD = 6  # tokens, whose entries of phi are prefetched
FEW = 64  # entries of an alias table, below which a search stays in the cache and is as quick
WORTH = 32  # tokens of a word for each entry of its table, below which the table does not pay


class Aliases(NamedTuple):
    """Tables for draws among n weights that read one entry, whatever n is. A word has one over the chunks of its second
    sum if these are many and the word is frequent on the shard."""

    row: Any  # [words]: which table a word has, -1 for none
    tables: Any  # [tables, n, 2]: the chance to stay in an entry, and where to go from it otherwise


class WordFinite(NamedTuple):
    """The finite part: tokens may use the first `usable` of the `shared` topics; words have pseudo-counts eta base."""

    topics: Topics
    sums: Any  # [words, 2]: over all usable topics, of gamma beta phi; and the base, since both are asked for at once
    aliases: Aliases
    usable: int
    shared: int
    law: Law
    eta: float


class PrivateTokens(NamedTuple):
    """Private atoms, as the current group sees them."""

    private: Any  # [slots]: the group's tokens of each of them
    weights: Any  # [slots]: for the current token
    within: Any  # [words]: all their tokens of each word
    alive: Any  # [2]: how many there are, and how many tokens of the group they have
    unseen: Any  # [2]: weights of a new atom and of all private ones, for a word of base 1 that none of them has


class ActiveTopics(NamedTuple):
    """The topics that the current group has, as a list in no order."""

    topics: Any
    times: Any  # the group's tokens of each of them
    place: Any  # [usable]: where a topic is in the list, or -1


class GroupScratch(NamedTuple):
    active: ActiveTopics
    near: PrivateTokens

    @classmethod
    def of(cls, finite: WordFinite, tail: Tail) -> GroupScratch:
        """Memory for a sweep, in which no group has been entered yet."""
        phi, usable, slots = finite.topics.phi, finite.usable, len(tail.members)
        active = ActiveTopics(np.empty(usable, np.int64), np.empty(usable, phi.dtype), np.full(usable, -1))
        within, alive = np.zeros(len(phi)), np.zeros(2, np.int64)
        return cls(active, PrivateTokens(np.zeros(slots, np.int64), np.empty(slots), within, alive, np.empty(2)))


class WordTail(NamedTuple):
    tail: Tail
    finite: WordFinite


@dataclass(frozen=True)
class CompiledWords:
    """Words of a shard are kept sorted, too, and frequent ones have alias tables for a round."""

    content: WordContent
    sweeps: int

    def finite(self, drawn: Topics) -> Topics:
        return drawn

    def prepare(self, shard: GroupShard, part: GroupPart) -> WordTail:
        topics, usable = part.finite, part.usable
        whole = usable == topics.phi.shape[1]
        n = topics.parts.shape[1]
        n *= n >= FEW and whole  # few topics need none; a last chunk with frozen topics is no part of the sum
        frequency = shard.kept(by_word).frequency
        aliases = build_aliases(topics.parts, n, frequency, -(-WORTH * n // self.sweeps))
        words = part.likelihood
        sums = np.column_stack([topics.smooth[:, 1 if whole else 0], words.base])  # mutant: sweep sums
        finite = WordFinite(topics, sums, aliases, usable, part.n_shared, part.law, words.eta)
        return WordTail(self._tail(shard, part, with_more_slots(part.sticks, FREE)), finite)

    def _tail(self, shard: GroupShard, part: GroupPart, sticks: Array) -> Tail:
        slots = len(sticks) - 1
        if part.elsewhere is not None:
            (words,), members = with_rows_elsewhere(self.content, shard, part, slots, 0)
            return Tail(words, members, sticks)
        (words,) = part.likelihood.tail(slots + 1, 0)
        tail = Tail(words, np.zeros(slots, np.int64), sticks)
        if slots > FREE:  # there are private atoms
            fill(shard.data, shard.labels, part.n_shared, tail)
        return tail

    def sweep(self, shard: GroupShard, part: GroupPart, tail: WordTail) -> WordTail:
        first, (now, finite) = shard.first, tail  # mutant: sweeps first
        rows = GroupRows(shard.data, shard.labels, shard.offsets, first)
        for s in range(self.sweeps):
            keys = SweepKeys(part.seed.key("label", s), part.seed.key("stick", s))
            row = sweep(rows, 0, finite, now, GroupScratch.of(finite, now), keys)
            while row < len(shard.labels):
                now = self._tail(shard, part, with_more_slots(now.sticks, len(now.sticks) - 1))
                row = sweep(rows, row, finite, now, GroupScratch.of(finite, now), keys)
        return WordTail(now, finite)

    def statistics(self, shard: GroupShard, part: GroupPart, tail: WordTail) -> Summary:
        return report_direct(self.content, shard, part, tail.tail.members, tail.tail.sticks)

    def totals(self, shard: GroupShard, n_atoms: int) -> Atoms:
        return self.content.count(shard, n_atoms)

    def sticks(self, tail: WordTail) -> Array:
        return tail.tail.sticks

    def predictive(self, atoms: Atoms, X: Any) -> Array:
        return log_predictive(self.content.likelihood, *atoms, X)


# ---- the sweep
#
# Nothing that is called for every group or token makes an array, or Numba would count references to all its arguments
# (compiled/pipeline.py), which takes as long as a draw. Indices are unsigned, since Numba checks whether signed ones
# are negative. The sum over the group's topics, in double precision, includes the token itself, which is subtracted
# afterwards. For a word that no private atom has, in a group with none of them, the weight of all private atoms
# together is known beforehand; for other tokens they are weighed one by one.


@jit
def sweep(rows, begin, finite, tail, scratch, keys):
    """One sweep over the tokens begin .. n of a shard; returns n, or the token at which a free slot was missing."""
    words, labels, members, phi = rows.data, rows.labels, tail.members, finite.topics.phi
    (active, near), usable, shared = scratch, finite.usable, finite.shared
    topics, times, place, sums, within = active.topics, active.times, active.place, finite.sums, near.within
    count_private(finite, tail, near)
    for g in range(group_of(rows.offsets, begin), rows.offsets.size - 1):
        start, end = rows.offsets[g], rows.offsets[g + 1]
        length = _enter(rows, start, end, finite, active, near)
        alive, n_private, birth, flat = near.alive[0], near.alive[1], near.unseen[0], near.unseen[1]
        for i in range(max(begin, start), end):
            at, later = np.uint64(i), np.uint64(words[np.uint64(min(i + AHEAD, end - 1))])
            z, w = np.int64(labels[at]), np.uint64(words[at])
            if usable <= z < shared:
                continue
            if alive == members.size and birth > 0.0 and (z < shared or members[z - shared] > 1):
                return i
            here, own, itself = -1, 0.0, 0.0
            if z < usable:
                here = place[np.uint64(z)]
                itself = np.float64(phi[w, np.uint64(z)])
                own = (times[np.uint64(here)] - 1) * itself
            else:
                leave_private(finite, tail, near, z - shared, w)
                # mutant: flat left
                alive, n_private, birth, flat = near.alive[0], near.alive[1], near.unseen[0], near.unseen[1]
            total = 0.0
            for j in range(length):
                k = np.uint64(topics[j])
                prefetch(phi, later, k)
                total += times[j] * phi[w, k]
            total -= itself  # mutant: sweep total
            prior, base = sums[w, 0], sums[w, 1]
            private = (birth + flat) * base
            if alive > 0 and (n_private > 0 or within[w] > 0):  # mutant: sweep near
                private = birth * base + weigh_private(finite, tail, near, w)
            aim = uniform(keys.label, rows.first + i) * (total + prior + private)
            if aim < own:
                continue
            if here >= 0:
                length = drop_topic(active, length, here)
            if aim < total:
                z = topic_of_group(active, length, phi, w, z, aim - own)
            elif private == 0.0 or (aim < total + prior and usable > 0):
                z = topic_of_prior_part(finite, w, aim - total, prior)
            else:
                z = shared + join_private(finite, tail, near, w, aim - total - prior, keys.stick, rows.first + i)
                alive, n_private, birth, flat = near.alive[0], near.alive[1], near.unseen[0], near.unseen[1]
            labels[at] = z
            if z < usable:
                length = add_topic(active, length, z)
        for j in range(length):
            place[topics[j]] = -1
    return labels.size


@jit
def _enter(rows, begin, end, finite, active, near):
    """List the topics of a group; returns how many there are."""
    for slot in range(near.private.size):
        near.private[slot] = 0
    near.alive[1] = 0
    length = 0
    for i in range(begin, end):
        z = rows.labels[i]
        if z < finite.usable:
            length = add_topic(active, length, z)
        elif z >= finite.shared:
            near.private[z - finite.shared] += 1
            near.alive[1] += 1
    return length


@jit
def add_topic(active, length, z):
    """A token of topic z comes to a group of so many topics; returns how many it has then."""
    topic = np.uint64(z)
    at = active.place[topic]
    if at < 0:
        at = length
        new = np.uint64(at)
        active.topics[new], active.times[new], active.place[topic] = z, 0, at
        length += 1
    active.times[np.uint64(at)] += 1
    return length


@jit
def drop_topic(active, length, here):
    """A token of the topic at this place leaves the group; the last topic takes the place of an empty one."""
    topics, times, place, at = active.topics, active.times, active.place, np.uint64(here)
    times[at] -= 1
    if times[at] == 0:
        length -= 1
        gone, last = np.uint64(topics[at]), np.uint64(length)
        topics[at], times[at] = topics[last], times[last]
        place[np.uint64(topics[at])] = here
        place[gone] = -1
    return length


@jit
def topic_of_group(active, length, phi, w, left, aim):
    """The topic at `aim` among those of the group, except the one that the token left, which came first."""
    new = left
    for j in range(length):
        k = active.topics[j]
        if k != left:
            new = k
            aim -= active.times[j] * phi[w, np.uint64(new)]
            if aim < 0.0:
                break
    return new


@jit
def topic_of_prior_part(finite, w, aim, total):
    """The topic at `aim` in the second sum, over gamma beta phi: by the word's alias table, or by a search."""
    phi, parts, masses, usable = finite.topics.phi, finite.topics.parts, finite.law.masses, finite.usable
    table = finite.aliases.row[w]
    if table < 0:
        return _search(phi[w], parts[w], masses, usable, aim)
    c, u = draw_alias(finite.aliases.tables, table, aim / total)
    return _within(phi[w], masses, c * CHUNK, usable, u * parts[w, c])  # mutant: sweep z


@jit
def _search(row, parts, masses, usable, aim):
    """The atom at which the running sum of gamma beta_k phi_wk passes `aim`: by chunks, then one by one."""
    k = 0
    while k + CHUNK < usable and parts[k // CHUNK] <= aim:
        aim -= parts[k // CHUNK]
        k += CHUNK
    return _within(row, masses, k, usable, aim)


@inline
def _within(row, masses, k, usable, aim):
    """`_search` from atom k on, within its chunk."""
    last = min(k + CHUNK, usable) - 1
    while k < last:
        aim -= masses[k] * row[k]
        if aim < 0.0:
            break
        k += 1
    return k


# ---- private atoms


@jit
def count_private(finite, tail, near):
    """Count what private atoms have, before the first group."""
    for slot in range(tail.members.size):
        if tail.members[slot] > 0:
            near.alive[0] += 1
            for w in range(near.within.size):
                near.within[w] += tail.collapsed.counts[slot, w]
    _unseen_word_weights(finite, tail, near)


@jit
def _unseen_word_weights(finite, tail, near):
    """Weights of private and new atoms for a word no private atom has, in a group with none of them (base 1)."""
    near.unseen[0] = _birth(finite.law, tail.sticks, finite.topics.phi.shape[0])
    near.unseen[1] = _flat(tail.collapsed.totals, tail.members, tail.sticks, finite, finite.topics.phi.shape[0])


@inline
def _birth(law, sticks, n_words):
    """Weight of a new atom, for a word of base 1."""
    # mutant: birth result 3
    return math.exp(law.log_gamma + sticks[sticks.size - 1]) * law.urn.birth / law.urn.share / n_words


@jit
def _flat(totals, members, sticks, finite, n_words):
    eta, law = finite.eta, finite.law
    total = 0.0
    for slot in range(members.size):
        if members[slot] > 0:
            total += math.exp(law.log_gamma + sticks[slot]) * eta / (n_words * eta + totals[slot])
    return total


@jit
def leave_private(finite, tail, near, slot, w):
    """A token leaves a private atom."""
    members, sticks = tail.members, tail.sticks
    near.private[slot] -= 1
    near.alive[1] -= 1
    near.within[w] -= 1
    members[slot] -= 1
    tail.collapsed.counts[slot, w] -= 1.0  # mutant: leave slot, w]
    tail.collapsed.totals[slot] -= 1.0
    if members[slot] == 0:
        near.alive[0] -= 1
        sticks[members.size] = log_sum(sticks[members.size], sticks[slot])  # mutant: leave sticks
    _unseen_word_weights(finite, tail, near)


@jit
def weigh_private(finite, tail, near, w):
    """Weights of the private atoms for a token, and their sum."""
    counts, totals, members, sticks = tail.collapsed.counts, tail.collapsed.totals, tail.members, tail.sticks
    law, eta, n_words, weights = finite.law, finite.eta, finite.topics.phi.shape[0], near.weights
    own = eta * finite.sums[w, 1]  # mutant: weigh own
    total = 0.0
    for slot in range(members.size):
        weights[slot] = 0.0
        if members[slot] > 0:
            share = near.private[slot] + math.exp(law.log_gamma + sticks[slot])
            weights[slot] = share * (own + counts[slot, w]) / (n_words * eta + totals[slot])
            total += weights[slot]
    return total


@jit
def join_private(finite, tail, near, w, aim, key, i):
    """Token i, word w, joins the private atom at `aim`, or a new one; returns its slot."""
    members = tail.members
    weigh_private(finite, tail, near, w)
    chosen = -1
    for slot in range(members.size):
        if near.weights[slot] > 0.0 and aim >= 0.0:
            chosen = slot
            aim -= near.weights[slot]
    if chosen < 0 or (aim >= 0.0 and near.unseen[0] > 0.0):
        chosen = 0
        while members[chosen] > 0:
            chosen += 1
        for other in range(tail.collapsed.counts.shape[1]):
            tail.collapsed.counts[chosen, other] = 0.0
        tail.collapsed.totals[chosen] = 0.0
        break_stick(finite.law.urn, tail.sticks, chosen, near.alive[0], key, i)
        near.alive[0] += 1
    near.private[chosen] += 1
    near.alive[1] += 1
    near.within[w] += 1
    members[chosen] += 1
    tail.collapsed.counts[chosen, w] += 1.0
    tail.collapsed.totals[chosen] += 1.0
    _unseen_word_weights(finite, tail, near)
    return chosen


@jit
def fill(words, labels, shared, tail):
    """Fill the empty tail with the private atoms, according to the labels."""
    for i in range(labels.size):
        slot = labels[i] - shared
        if slot >= 0:
            tail.members[slot] += 1
            tail.collapsed.counts[slot, words[i]] += 1.0
            tail.collapsed.totals[slot] += 1.0


# ---- alias tables (Walker 1977)


def build_aliases(weights: Array, n: int, frequency: Array, least: int) -> Aliases:
    """Tables of weights[w, :n] for the words that occur `least` times or more."""
    row = np.full(len(weights), -1, np.int32)
    often = np.flatnonzero(frequency >= least)[: None if n > 0 else 0]
    row[often] = np.arange(len(often))
    tables = np.empty((len(often), n, 2))
    if len(often) > 0:
        _fill_tables(weights, often, tables, np.empty(n, np.int64))
    return Aliases(row, tables)


@jit
def _fill_tables(weights, often, tables, order):
    for j in range(often.size):
        _fill_table(weights[often[j]], tables[j], order)


@jit
def _fill_table(weights, table, order):
    """Entries below the mean are filled up from those above it (Vose 1991); order: the former from the left, the
    latter from the right."""
    n = order.size
    total = 0.0
    for k in range(n):
        total += weights[k]
    small, large = 0, n
    for k in range(n):
        table[k, 0] = weights[k] * (n / total)
        table[k, 1] = k
        if table[k, 0] < 1.0:
            order[small] = k
            small += 1
        else:
            large -= 1
            order[large] = k
    while small > 0 and large < n:
        small -= 1
        k, giver = order[small], order[large]
        table[k, 1] = giver
        table[giver, 0] -= 1.0 - table[k, 0]
        if table[giver, 0] < 1.0:
            large += 1
            order[small] = giver
            small += 1
    for j in range(small):
        table[order[j], 0] = 1.0
    for j in range(large, n):
        table[order[j], 0] = 1.0


@inline
def draw_alias(tables, row, u):
    """(entry, a new uniform number) for u in [0, 1), also where rounding took u to 1."""
    n = tables.shape[1]
    x = u * n
    k = min(int(x), n - 1)
    x -= k
    chance = tables[row, k, 0]
    if x < chance:
        return k, x / chance
    if chance < 1.0:
        return int(tables[row, k, 1]), (x - chance) / (1.0 - chance)  # mutant: draw result
    return k, x
