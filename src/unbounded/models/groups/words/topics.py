"""Topics of words: how often they have each word, draws of phi, and the sums that a sweep needs of it (docs/topics.md,
"Words").

Words come in blocks, which threads may share: their draws are keyed by cell, and what is added up over all blocks is
added up in their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from unbounded.arrays import Array
from unbounded.compiled.draws import LOW_BITS, log_gamma, low_bits, stream, uniform
from unbounded.compiled.jit import inline, jit
from unbounded.compiled.lanes import lane_exp, lane_log, lane_sin

CHUNK = 16
CELLS, BLOCKS = 2**13, 64  # about how many cells a block has, and the most blocks there are
PIECE = 2**10  # cells that are drawn at a time
FEW = 8  # factors that cost no more than a gamma function
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


# ---- how often topics have words


@dataclass(frozen=True)
class WordCounts:
    """How often each atom has each word, words in order. Shards report this: CSR matrices are slower to add and cut."""

    ends: Array
    words: Array
    times: Array

    def __add__(self, other: WordCounts) -> WordCounts:
        size = len(self.words) + len(other.words)
        ends, words, times = (
            np.zeros_like(self.ends),
            np.empty_like(self.words, shape=size),
            np.empty_like(self.times, shape=size),
        )
        n = _merge(self._columns, other._columns, (ends, words, times))
        return WordCounts(ends, words[:n], times[:n])

    @property
    def _columns(self) -> tuple[Array, Array, Array]:
        return self.ends, self.words, self.times

    def cut(self, atoms: int) -> tuple[WordCounts, WordCounts]:
        """The counts of the first `atoms` atoms, and of the others."""
        end = self.ends[atoms]
        first = WordCounts(self.ends[: atoms + 1], self.words[:end], self.times[:end])
        return first, WordCounts(self.ends[atoms:] - end, self.words[end:], self.times[end:])


def matrix(tables: Sequence[WordCounts], n_words: int) -> Any:
    """The atoms of all tables, as CSR."""
    sizes = np.concatenate([np.diff(table.ends) for table in tables])
    words, times = (np.concatenate([getattr(table, name) for table in tables]) for name in ("words", "times"))
    return sparse.csr_matrix((times, words, np.append(0, np.cumsum(sizes))), (len(sizes), n_words))


def counts_of(statistics: Any) -> WordCounts:
    """Counts from a CSR table of them."""
    return WordCounts(statistics.indptr, statistics.indices, statistics.data)


def count(words: Array, labels: Array, by_word: Array, n_words: int, atoms: int) -> tuple[Array, WordCounts]:
    """(tokens of each atom, counts of its words); by_word sorts the rows.

    Where a table of all cells is smaller than the list of the rows, it is filled instead.
    """
    ends = np.zeros(atoms + 1, np.int32)
    found, times = np.empty(labels.size, np.int32), np.empty(labels.size, np.int32)
    if atoms * n_words <= labels.size:
        counts = np.zeros(atoms, np.int64)
        total = _count_cells(words, labels, np.zeros((atoms, n_words), np.int32), counts, (ends, found, times))
    else:
        begin, place = np.zeros(atoms + 1, np.int32), np.empty(atoms, np.int32)
        total = _count_by_word(words, labels, by_word, begin, place, (ends, found, times))
        counts = np.diff(begin).astype(np.int64)
    return counts, WordCounts(ends, found[:total].copy(), times[:total].copy())


@jit
def _merge(one, other, into):
    """Two tables, added up; returns how many words were found. Indices are unsigned, as in a sweep."""
    (ends, words, times), (more_ends, more_words, more_times), (new_ends, new_words, new_times) = one, other, into
    n = np.uint64(0)
    for k in range(ends.size - 1):
        i, j = np.uint64(ends[k]), np.uint64(more_ends[k])
        last_i, last_j = np.uint64(ends[k + 1]), np.uint64(more_ends[k + 1])
        while i < last_i and j < last_j:
            a, b = words[i], more_words[j]
            new_words[n] = a if a < b else b
            new_times[n] = (times[i] if a <= b else 0) + (more_times[j] if b <= a else 0)  # mutant: merge new times
            i += np.uint64(a <= b)
            j += np.uint64(b <= a)
            n += np.uint64(1)
        while i < last_i:
            new_words[n], new_times[n] = words[i], times[i]
            i += np.uint64(1)
            n += np.uint64(1)
        while j < last_j:
            new_words[n], new_times[n] = more_words[j], more_times[j]
            j += np.uint64(1)
            n += np.uint64(1)
        new_ends[k + 1] = n
    return n


@jit
def _count_by_word(words, labels, by_word, begin, place, into):
    """begin: where the rows of each atom would begin; each of its words takes one place, the next of them."""
    ends, found, times = into
    for i in range(labels.size):
        begin[labels[i] + 1] += 1
    for k in range(place.size):
        begin[k + 1] += begin[k]
        place[k] = begin[k]
    for j in range(labels.size):
        i = np.uint64(by_word[j])
        k, w = np.uint64(labels[i]), words[i]
        last = np.uint64(place[k] - 1)
        if place[k] > begin[k] and found[last] == w:
            times[last] += 1
        else:
            found[np.uint64(place[k])] = w
            times[np.uint64(place[k])] = 1
            place[k] += 1
    total = 0
    for k in range(place.size):
        for j in range(begin[k], place[k]):
            found[total] = found[j]
            times[total] = times[j]
            total += 1
        ends[k + 1] = total
    return total


@jit
def _count_cells(words, labels, cells, counts, into):
    ends, found, times = into
    for i in range(labels.size):
        cells[np.uint64(labels[i]), np.uint64(words[i])] += 1
    n = 0
    for k in range(cells.shape[0]):
        for w in range(cells.shape[1]):
            if cells[k, w] > 0:
                found[n] = w
                times[n] = cells[k, w]
                counts[k] += cells[k, w]
                n += 1
        ends[k + 1] = n
    return n


# ---- draws of phi


class Topics(NamedTuple):
    """The finite part: phi [words, K] and sums of gamma beta_k phi_wk for every word.

    smooth: over all mobile atoms, and over all; parts: over every CHUNK atoms, so that a search reads little of phi.
    """

    phi: Any
    smooth: Any  # [words, 2]
    parts: Any  # [words, K / CHUNK]


def blocks(n_words: int, atoms: int) -> Array:
    """Where the words of each block begin, and where those of the last one end."""
    n_blocks = min(n_words, n_words * atoms // CELLS + 1, BLOCKS)
    return np.linspace(0, n_words, n_blocks + 1).astype(np.int64)


class Tallies(NamedTuple):
    """How often topics have words: topic k is row order[k] of a sparse table, -1 for no words at all."""

    ends: Any
    words: Any
    counts: Any
    order: Any


class Trials(NamedTuple):
    """What all draws of phi have in common, and scratch memory for some of them."""

    pseudo: Any  # [words]: pseudo-counts
    key: Any
    tiny: float  # the least that an entry of phi may be
    shapes: Any  # [PIECE]
    drawn: Any  # [PIECE]
    span: Any  # [2, K]: where the words of a block begin and end among those of a topic


def trials(pseudo: Array, key: np.uint64, phi: Array) -> Trials:
    span, tiny = np.empty((2, phi.shape[1]), np.int64), 1e-300 if phi.itemsize == 8 else 1e-37
    return Trials(pseudo, key, tiny, np.empty(PIECE), np.empty(PIECE), span)


def draw(
    tallies: Tallies, pseudo: Array, key: np.uint64, edges: Array, phi: Array, totals: Array, i: int, n: int
) -> None:
    """Draws of phi, not yet scaled, for every n-th block from the i-th on, and their sums over the words of a block.

    phi[w, k] ~ Gamma(eta_w + count of word w in topic k), eta_w being the pseudo-count of the word. Almost all counts
    are zero: those entries are Gamma(eta_w) draws. All draws are made in lanes by one trial of a rejection sampler that
    seldom fails, and where it did by more of them.
    """
    _draw(tallies, trials(pseudo, key, phi), edges, phi.reshape(-1), totals, i, n)


@jit
def _draw(tallies, trials, edges, cells, totals, i, n):
    atoms = totals.shape[1]
    for b in range(i, edges.size - 1, n):
        first, last = edges[b], edges[b + 1]
        for w in range(first, last):
            _draw_alike(trials, trials.pseudo[w], w * atoms, (w + 1) * atoms, cells)  # mutant: draw alike
        _draw_counted(tallies, trials, first, last, cells)
        for k in range(atoms):
            totals[b, k] = 0.0
        for w in range(first, last):
            for k in range(atoms):
                totals[b, k] += cells[w * atoms + k]


@jit
def _draw_alike(trials, eta, first, last, cells):
    """Draw all cells as if no topic had any of the words."""
    key, drawn, tiny = stream(trials.key, 0), trials.drawn, trials.tiny
    for begin in range(first, last, PIECE):
        size = min(PIECE, last - begin)
        if eta < 1.0:
            _small_gammas(eta, key, begin, drawn[:size])
        else:
            trials.shapes[:size] = eta
            _gammas(trials.shapes[:size], key, begin, drawn[:size])
        for j in range(size):
            cells[begin + j] = drawn[j] if drawn[j] > tiny else tiny


@jit
def _draw_counted(tallies, trials, first, last, cells):
    """Draw the cells of words that a topic has anew."""
    ends, words, counts, order = tallies
    atoms, begin, end, size = order.size, trials.span[0], trials.span[1], 0
    for k in range(atoms):
        begin[k] = end[k] = 0
        if order[k] >= 0:
            start, stop = ends[order[k]], ends[order[k] + 1]
            begin[k] = _find(words, start, stop, first)
            end[k] = _find(words, start, stop, last)  # mutant: draw end
            size += end[k] - begin[k]
    shapes, drawn, n = np.empty(size), np.empty(size), 0
    for k in range(atoms):
        for j in range(begin[k], end[k]):
            shapes[n] = trials.pseudo[words[j]] + counts[j]
            n += 1
    _gammas(shapes, stream(stream(trials.key, 1), first), 0, drawn)
    n = 0
    for k in range(atoms):
        for j in range(begin[k], end[k]):
            cells[words[j] * atoms + k] = drawn[n]
            n += 1


@jit
def _find(words, begin, end, first):
    """Where the first word that is not below `first` stands among the sorted words begin .. end."""
    while begin < end:
        middle = (begin + end) // 2
        if words[middle] < first:
            begin = middle + 1
        else:
            end = middle
    return begin


@jit
def _small_gammas(shape, key, counter, out):
    """Gamma(shape) draws for shape < 1 (Ahrens and Dieter 1974).

    One word of random bits makes a trial: its high bits propose, its low ones accept by 1 - x < exp(-x), which settles
    nearly all.
    """
    bound = 1.0 + shape / math.e
    inverse = 1.0 / shape
    for k in range(out.size):
        p = bound * uniform(key, counter + k)
        x = lane_exp(lane_log(p) * inverse)
        good = p <= 1.0 and low_bits(key, counter + k) + 1.0 <= LOW_BITS * (1.0 - x)
        out[k] = x if good else -1.0
    again = stream(key, 0)
    for k in range(out.size):
        if out[k] < 0.0:
            out[k] = _small_gamma(shape, bound, key, counter + k, stream(again, counter + k))


@jit
def _small_gamma(shape, bound, key, counter, again):
    """The draw whose trial was not settled: the whole test, then fresh trials until one is good."""
    p = bound * uniform(key, counter)
    u = (low_bits(key, counter) + uniform(again, 0)) / LOW_BITS
    j = 1
    while True:
        if p > 1.0:
            x = -math.log((bound - p) / shape)
            if u <= x ** (shape - 1.0):
                return x
        else:
            x = p ** (1.0 / shape)
            if u <= math.exp(-x):
                return x
        p = bound * uniform(again, j)
        u = uniform(again, j + 1)
        j += 2


@jit
def _gammas(shapes, key, counter, out):
    """Gamma(shapes) draws for shapes of at least 1, and any others one by one (Marsaglia and Tsang 2000)."""
    first, second, third, again = stream(key, 1), stream(key, 2), stream(key, 3), stream(key, 4)
    for j in range(out.size):
        d = shapes[j] - 1.0 / 3.0
        radius = math.sqrt(-2.0 * lane_log(uniform(first, counter + j)))
        x = radius * lane_sin(uniform(second, counter + j) - 0.5)
        v = 1.0 + x / math.sqrt(9.0 * d)
        v = v * v * v
        good = shapes[j] >= 1.0 and v > 0.0 and uniform(third, counter + j) < 1.0 - 0.0331 * x * x * x * x
        out[j] = d * v if good else -1.0
    for j in range(out.size):
        if out[j] < 0.0:
            out[j] = _gamma(shapes[j], first, second, third, counter + j, stream(again, counter + j))


@jit
def _gamma(shape, first, second, third, counter, again):
    """The draw whose trial was not settled: the whole test of it, then fresh ones."""
    if shape >= 1.0:
        d = shape - 1.0 / 3.0
        x = math.sqrt(-2.0 * lane_log(uniform(first, counter))) * lane_sin(uniform(second, counter) - 0.5)
        v = 1.0 + x / math.sqrt(9.0 * d)
        v = v * v * v
        if v > 0.0 and math.log(uniform(third, counter)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v
    return math.exp(log_gamma(shape, again))


class CellKinds(NamedTuple):
    """Kinds of cells (an atom and a word): `times` of them have `values` tokens each, of words with this base."""

    values: Any
    times: Any
    base: Any


@jit
def log_evidence(cells, counts, n_words, eta):
    """Log probability of the words of all atoms, phi integrated out, by kinds of cells that weigh the same."""
    total = 0.0
    for i in range(cells.values.size):
        own = eta * cells.base[i]
        total += cells.times[i] * (_lane_log_gamma(own + cells.values[i]) - _lane_log_gamma(own))
    none = _lane_log_gamma(n_words * eta)
    for k in range(counts.size):
        total += none - _lane_log_gamma(n_words * eta + counts[k])
    return total


def log_openings(tables: float, counts: Array, n_words: int, eta: float) -> float:
    """The same given how many tables there are in all, whatever their words: as a function of eta, up to a constant."""
    least = n_words * eta
    return tables * math.log(least) + len(counts) * math.lgamma(least) - float(gammaln(least + counts).sum())


def base_tables(words: Array, times: Array, pseudo: Array, key: np.uint64) -> Array:
    """How many tables serve each word, in all atoms together: the j-th token of a word in an atom opens one with
    probability pseudo / (pseudo + j). Few do: from the eighth on, those are found by leaps."""
    tables = np.zeros(len(pseudo))
    _base_tables(words, times, pseudo, key, tables)
    return tables


@jit
def _base_tables(words, times, pseudo, key, tables):
    n = 0
    for cell in range(words.size):
        a, end = pseudo[words[cell]], times[cell]
        opened = 1 if end > 0 else 0
        for j in range(1, min(end, 8)):
            opened += uniform(key, n) * (a + j) < a  # mutant: base tables open
            n += 1
        begin = 8
        while begin < end:
            j, last = begin, min(2 * begin, end)
            leap = -1.0 / math.log1p(a / begin)  # so many at a time open none, if all had the chance of the first
            while j < last:
                j += int(min(leap * math.log(uniform(key, n)), 1e15))
                if j < last and uniform(key, n + 1) * (a + j) < a + begin:
                    opened += 1
                n += 2
                j += 1
            begin *= 2
        tables[words[cell]] += opened


def log_marginals(statistics: Array, pseudo: Array) -> Array:
    """`log_evidence` of each atom by itself; counts need not be whole."""
    out = np.empty(len(statistics))
    _log_marginals(statistics, pseudo, np.empty(len(pseudo)), out)
    return out


@jit
def _log_marginals(statistics, pseudo, none, out):
    least, n_words = 0.0, pseudo.size
    for w in range(n_words):
        none[w] = _lane_log_gamma(pseudo[w])
        least += pseudo[w]
    for k in range(out.size):
        cells, total = 0.0, 0.0
        for w in range(n_words):
            x = statistics[k, w] if statistics[k, w] > 0.0 else 0.0
            cells += _lane_log_gamma(pseudo[w] + x) - none[w]
            total += x
        out[k] = cells + math.lgamma(least) - math.lgamma(least + total)


def merge_gains(statistics: Array, pseudo: Array, first: Array, second: Array) -> Array:
    """Log marginals gained by merging pairs of atoms: only words that both have matter, and how many each has."""
    has = statistics > 0.0
    had = WordLists(np.append(0, np.cumsum(has.sum(1))), np.nonzero(has)[1], statistics.sum(1))
    out = np.empty(len(first))
    _merge_gains(statistics, pseudo, had, first, second, out)
    return out


class WordLists(NamedTuple):
    """Words that atoms have: those of atom k are ends[k] .. ends[k + 1]."""

    ends: Array
    words: Array
    totals: Array  # [K]: how many tokens


@jit
def _merge_gains(statistics, pseudo, had, first, second, out):
    (ends, words, totals), least = had, 0.0
    for w in range(pseudo.size):
        least += pseudo[w]
    for q in range(first.size):
        i, j = first[q], second[q]
        gain = math.lgamma(least + totals[i]) + math.lgamma(least + totals[j])
        gain -= math.lgamma(least) + math.lgamma(least + totals[i] + totals[j])
        if ends[i + 1] - ends[i] > ends[j + 1] - ends[j]:
            i, j = j, i
        out[q] = gain + _shared_gain(words, ends[i], ends[i + 1], statistics, i, j, pseudo)


@jit
def _shared_gain(words, begin, end, statistics, i, j, pseudo):
    """What words that both have gain: ratios of rising factorials, as products while one of the counts is small."""
    gain, product = 0.0, 1.0
    for p in range(begin, end):
        w = words[p]
        one, other, own = statistics[i, w], statistics[j, w], pseudo[w]
        if other > 0.0:
            a, b = (one, other) if one > other else (other, one)
            if b <= FEW:
                for c in range(int(b)):
                    product *= (own + a + c) / (own + c)
                if product > 1e200:
                    gain += math.log(product)
                    product = 1.0
            else:
                gain += _lane_log_gamma(own + a + b) - _lane_log_gamma(own + a)
                gain += _lane_log_gamma(own) - _lane_log_gamma(own + b)
    return gain + math.log(product)


@inline
def _lane_log_gamma(x):
    """Log of the gamma function for 0 < x < 1e30, by Stirling's series at x + 8."""
    z = x + 8.0
    below = x * (x + 1.0) * (x + 2.0) * (x + 3.0) * (x + 4.0) * (x + 5.0) * (x + 6.0) * (x + 7.0)
    r = 1.0 / (z * z)
    series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r * (1.0 / 1680.0 - r / 1188.0)))) / z
    return (z - 0.5) * lane_log(z) - z + HALF_LOG_TWO_PI + series - lane_log(below)


@jit
def finish(edges, scale, masses, n_mobile, topics, i, n):
    """Scale the draws of these blocks, so that they are phi, and fill `smooth` and `parts` of Topics."""
    for b in range(i, edges.size - 1, n):
        for w in range(edges[b], edges[b + 1]):
            _finish(w, scale, masses, n_mobile, topics)


@jit
def _finish(w, scale, masses, n_mobile, topics):
    phi, smooth, parts = topics
    atoms, tiny = phi.shape[1], 1e-300 if phi.itemsize == 8 else 1e-37
    for k in range(atoms):
        scaled = phi[w, k] * scale[k]
        phi[w, k] = scaled if scaled > tiny else tiny
    smooth[w, 0] = smooth[w, 1] = 0.0
    for c in range(parts.shape[1]):
        first, last = c * CHUNK, min((c + 1) * CHUNK, atoms)
        part = 0.0
        for k in range(first, last):
            part += masses[k] * phi[w, k]
        parts[w, c] = part
        smooth[w, 1] += part
        if last > n_mobile:
            part = 0.0
            for k in range(first, n_mobile):
                part += masses[k] * phi[w, k]
        smooth[w, 0] += part
