"""Direct assignment for words: exact sparse draws (docs/topics.md, "Words").

A token w of a group joins a mobile atom k with weight (n_sk + gamma beta_k) phi_wk. The first part is a sum over the
few atoms that the group has; the second, for all atoms at once, depends on the word only and is summed up beforehand:
its single atom is drawn only when it is chosen, from an alias table if the word is frequent and by a search if not.
Since phi is fixed within a sweep, nothing is approximate. The atom that a token leaves comes first in the order of the
draw: most tokens go back to it and need neither.
"""

from __future__ import annotations

import math

import numpy as np

from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import inline, jit
from unbounded.compiled.lanes import prefetch
from unbounded.models.groups.direct import break_stick, group_of, log_sum
from unbounded.models.groups.words import alias
from unbounded.models.groups.words.topics import CHUNK

AHEAD = 6  # tokens: what they need of phi is asked for in time


# ---- the sweep


@jit
def sweep(
    words, labels, offsets, first, begin, topics, aliases, usable, shared, masses, eta, tail, members, sticks,
    label_key, stick_key,
):  # fmt: skip
    """One sweep over the rows begin .. n of a shard; returns n, or the row at which a free slot was missing.

    tail, members, sticks: as in `tables.assign`. The atoms of the current group are `active`, with `times` tokens
    each, an atom at its `place` (-1: not there); the list is kept by hand in the loop, since Numba counts references of
    arrays that go to functions, inlined ones too. Indices are unsigned, since Numba asks of others whether they are
    negative. The sum over the group's atoms, in double precision, takes the token itself along and then leaves it out.
    Private atoms are few and small: for a word that none of them has, in a group that none of them meets, their weight
    is `flat`; only other tokens look at them one by one.
    """
    phi, parts, shares = topics.phi, topics.parts, masses.shared
    n_words = phi.shape[0]
    side = 1 if usable == phi.shape[1] else 0
    sums = topics.smooth[:, side].copy()  # mutant: sweep sums
    slots = members.size
    active, times, place = np.empty(usable, np.int64), np.empty(usable, phi.dtype), np.full(usable, -1)
    private, weights, where = np.zeros(slots, np.int64), np.empty(slots), np.zeros(1, np.int64)
    alive = np.count_nonzero(members)
    within = _words_within(tail, members, n_words)
    birth, flat = _birth(masses, sticks, n_words), _flat(tail, members, sticks, masses, eta, n_words)
    for g in range(group_of(offsets, begin), offsets.size - 1):
        end = offsets[g + 1]
        n_active, n_private = 0, 0
        private[:] = 0
        for i in range(offsets[g], end):
            z = labels[i]
            if z < usable:
                if place[z] < 0:
                    active[n_active] = z
                    times[n_active] = 0
                    place[z] = n_active
                    n_active += 1
                times[place[z]] += 1
            elif z >= shared:
                private[z - shared] += 1
                n_private += 1
        for i in range(max(begin, offsets[g]), end):
            at, later = np.uint64(i), np.uint64(words[np.uint64(min(i + AHEAD, end - 1))])
            z, w = np.int64(labels[at]), np.uint64(words[at])
            if usable <= z < shared:
                continue
            if alive == slots and birth > 0.0 and (z < shared or members[z - shared] > 1):
                return i
            here = -1
            own, itself = 0.0, 0.0
            if z < usable:
                here = place[np.uint64(z)]
                itself = np.float64(phi[w, np.uint64(z)])
                own = (times[np.uint64(here)] - 1) * itself
            else:
                alive -= _leave(tail, members, private, sticks, z - shared, w)
                within[w] -= 1
                n_private -= 1
                birth, flat = _birth(masses, sticks, n_words), _flat(tail, members, sticks, masses, eta, n_words)
            total = 0.0
            for j in range(n_active):
                k = np.uint64(active[j])
                prefetch(phi, later, k)
                total += times[j] * phi[w, k]
            total -= itself  # mutant: sweep total
            apart = birth + flat
            near = alive > 0 and (n_private > 0 or within[w] > 0)  # mutant: sweep near
            if near:
                apart = birth + _weigh(tail, members, private, sticks, masses, eta, n_words, w, weights)
            usual = sums[w]
            aim = uniform(label_key, first + i) * (total + usual + apart)
            if aim < own:
                continue
            if here >= 0:
                times[here] -= 1
                if times[here] == 0:
                    n_active -= 1
                    last = active[n_active]
                    active[here] = last
                    times[here] = times[n_active]
                    place[last] = here
                    place[z] = -1
            if aim < total:
                aim -= own
                new = z
                for j in range(n_active):
                    if active[j] != z:
                        new = active[j]
                        aim -= times[j] * phi[w, new]
                        if aim < 0.0:
                            break
                z = new
            elif apart == 0.0 or (aim < total + usual and usable > 0):
                if aliases.row[w] >= 0:
                    c, u = alias.draw(aliases.tables, aliases.row[w], (aim - total) / usual)
                    z = _within(phi[w], shares, c * CHUNK, usable, u * parts[w, c])  # mutant: sweep z
                else:
                    z = _search(phi[w], parts[w], shares, usable, aim - total)
            else:
                if not near:
                    _weigh(tail, members, private, sticks, masses, eta, n_words, w, weights)
                v = uniform(stick_key, first + i)
                alive += _join(
                    tail, members, private, sticks, masses, weights, alive, birth, aim - total - usual, v, w, where
                )
                within[w] += 1
                n_private += 1
                birth, flat = _birth(masses, sticks, n_words), _flat(tail, members, sticks, masses, eta, n_words)
                z = shared + where[0]
            labels[i] = z
            if z < usable:
                if place[z] < 0:
                    active[n_active] = z
                    times[n_active] = 0
                    place[z] = n_active
                    n_active += 1
                times[place[z]] += 1
        for j in range(n_active):
            place[active[j]] = -1
    return labels.size


@jit
def _words_within(tail, members, n_words):
    """How many tokens of each word private atoms have."""
    within = np.zeros(n_words)
    for slot in range(members.size):
        if members[slot] > 0:
            within += tail.counts[slot]
    return within


@jit
def _flat(tail, members, sticks, masses, eta, n_words):
    """Weight of all private atoms for a word that they do not have, in a group that has none of them."""
    total = 0.0
    for slot in range(members.size):
        if members[slot] > 0:
            total += math.exp(masses.log_gamma + sticks[slot]) * eta / (n_words * eta + tail.totals[slot])
    return total


@jit
def _leave(tail, members, private, sticks, slot, w):
    """A token leaves a private atom; 1 if that was its last one."""
    private[slot] -= 1
    members[slot] -= 1
    tail.counts[slot, w] -= 1.0  # mutant: leave slot, w]
    tail.totals[slot] -= 1.0
    if members[slot] > 0:
        return 0
    sticks[members.size] = log_sum(sticks[members.size], sticks[slot])  # mutant: leave sticks
    return 1


@jit
def _weigh(tail, members, private, sticks, masses, eta, n_words, w, weights):
    """Weights of the private atoms for a token, and their sum."""
    total = 0.0
    for slot in range(members.size):
        weights[slot] = 0.0
        if members[slot] > 0:
            share = private[slot] + math.exp(masses.log_gamma + sticks[slot])
            weights[slot] = share * (eta + tail.counts[slot, w]) / (n_words * eta + tail.totals[slot])
            total += weights[slot]
    return total


@jit
def _join(tail, members, private, sticks, masses, weights, alive, birth, aim, v, w, where):
    """A token joins the private atom at `aim`, or a new one: 1 if so; where[0] is its slot."""
    chosen = -1
    if alive > 0:
        for slot in range(members.size):
            if weights[slot] > 0.0 and aim >= 0.0:
                chosen = slot
                aim -= weights[slot]
    born = chosen < 0 or (aim >= 0.0 and birth > 0.0)
    if born:
        chosen = 0
        while members[chosen] > 0:
            chosen += 1
        tail.counts[chosen] = 0.0
        tail.totals[chosen] = 0.0
        break_stick(sticks, chosen, masses.share, v)
    private[chosen] += 1
    members[chosen] += 1
    tail.counts[chosen, w] += 1.0
    tail.totals[chosen] += 1.0
    where[0] = chosen
    return 1 if born else 0


@inline
def _birth(masses, sticks, n_words):
    """Weight of a new atom, the same for every word."""
    # mutant: birth result 3
    return math.exp(masses.log_gamma + sticks[sticks.size - 1]) * masses.alpha / masses.share / n_words


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
    """The same from atom k on, within its chunk."""
    last = min(k + CHUNK, usable) - 1
    while k < last:
        aim -= masses[k] * row[k]
        if aim < 0.0:
            break
        k += 1
    return k


@jit
def seat(words, labels, shared, tail, members):
    """Fill the empty tail with the private atoms that labels say."""
    for i in range(labels.size):
        slot = labels[i] - shared
        if slot >= 0:
            members[slot] += 1
            tail.counts[slot, words[i]] += 1.0
            tail.totals[slot] += 1.0
