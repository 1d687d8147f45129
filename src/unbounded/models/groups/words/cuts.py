"""Topics cut in two, token by token (docs/jumps.md, "Token by token").

Tables are moved as they are (jump.py); where one topic has all tokens of a document, its tables are small mixtures of
what should be several topics. Here the tokens of a topic are cut themselves, given the top weights beta, tables
integrated out. A launch, which sees a set C of tokens and not who in C is with whom, finds words of two halves; within
each document tokens then choose their half one after another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import betaln, entr, expit

from unbounded.arrays import Array
from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.contracts import Engine, Message, Summary
from unbounded.models.groups.shard import GroupShard, cut
from unbounded.models.groups.words.topics import log_marginals
from unbounded.models.mixtures.jump import Jumps
from unbounded.randomness import RoundSeed

if TYPE_CHECKING:  # the hybrid sampler is there, too, and cuts
    from unbounded.models.groups.model import Groups, GroupsState

EVERY = 3  # jumps, of which one is of tokens
TRIES = 3  # of a launch
DOCUMENTS = 256  # that a launch sees first
CELLS = 2**19  # of all sets together, in a vocabulary of any size
FIRST_STEPS, INNER = 6, 3  # steps of EM with documents, and of tokens within their document
WIDE = 0.25  # what a document counts in the proposal of beta, which must not be too narrow
PASSES = 12  # over all tokens of a set, to find its halves
HOPELESS, SLACK = 0.03, 20.0  # nats a token that the first pass might gain; and nats in all that may be missing


class TokenCuts(NamedTuple):
    """M sets, as all shards know them. Topics have the labels 0 .. K - 1."""

    cut: Array  # [K] the set that a topic belongs to, or -1
    side: Array  # [K] 0 or 1: the half that it is; -1: to be drawn
    fresh: Array  # [M] the label that tokens of the second half get; -1: labels stay as they are
    ratio: Array  # [M, words]: how much more probable a word is in the second half
    masses: Array  # [M, 2]: gamma beta of both halves
    anchors: Array  # [M]: tokens that are in the first half whatever is drawn
    key: np.uint64


class TokenHalves(NamedTuple):
    """What a pass adds up."""

    totals: Array  # [2, M, words], of both halves
    log_q: Array  # [M]: log probability of the halves, against that of the prior given beta
    documents: Array  # [M, 2]: in which there is something of each half
    tokens: Array  # [M, 2]


class TokenSets(NamedTuple):
    """The topics of every set, one or two, the first with the anchor; that anchor; and their beta added up."""

    topics: list[tuple[int, ...]]
    anchors: Array
    beta: Array

    def some(self, which: Array) -> TokenSets:
        topics = [self.topics[m] for m in which.tolist()]
        return TokenSets(topics, self.anchors[which], self.beta[which])

    def places(self, n_topics: int) -> tuple[Array, Array]:
        """(the set of every topic, or -1; which of its halves the topic is, or -1)."""
        cut, side = np.full(n_topics, -1), np.full(n_topics, -1)
        for m, own in enumerate(self.topics):
            cut[list(own)] = m
            if len(own) == 2:
                side[list(own)] = 0, 1
        return cut, side


def tokens_due(model: Groups, turn: int) -> bool:
    """Whether this jump is one of tokens: the franchise has tables, which say where topics are cut."""
    return model.content.by_tokens and model.form == "direct" and turn % EVERY == 1


def cut_tokens(
    model: Groups, state: GroupsState, engine: Engine, beta: Array, jumps: Jumps
) -> tuple[GroupsState, Array]:
    """The state, and beta of its topics, after some topics were cut or joined; all topics are labelled 0 .. K - 1.

    The state has no tables then: they are to be drawn given beta.
    """
    seed, pseudo = RoundSeed(model.seed, state.round), model.content.at(state.hyper.content).pseudo
    rng = seed.rng("tokens cut")
    pool = _fetch(model, engine, min(jumps.anchors, max(8, CELLS // len(pseudo))), rng)
    sets, places = _choose(beta, pool, jumps, rng)
    first = _first_guess(pool, sets, places, len(beta), pseudo, rng)
    ratio, documents, sets = _launch(model, state, engine, sets, first)
    if not sets.topics:
        return state, beta
    shapes = 1.0 + WIDE * documents[:, ::-1]
    share: Array = rng.beta(shapes[:, 0], shapes[:, 1])
    for m, topics in enumerate(sets.topics):
        if len(topics) == 2:
            share[m] = beta[topics[1]] / sets.beta[m]
    share = np.clip(share, 1e-12, 1.0 - 1e-12)
    cuts = _cuts(model, state, sets, ratio, np.column_stack([1.0 - share, share]), seed.key("halves of tokens"))
    cuts = cuts._replace(side=sets.places(len(beta))[1])
    found = _pass(state, engine, cuts)
    log_ratio = _gains(found.totals, pseudo) - found.log_q
    log_ratio -= _log_density(share, shapes[:, 0], shapes[:, 1])  # mutant: tokens share
    n_away = found.tokens[:, 1]
    log_ratio += math.log(jumps.joined / (1.0 - jumps.joined))
    log_ratio += np.log(np.maximum(n_away, 0.5) / pool.n_rows)  # mutant: tokens choice
    draws = np.where(n_away > 0, np.log(rng.random(len(share))), np.inf)
    log_prior = partial(model.measure.log_cut, state.hyper.measure)
    taken = _accepted(sets, share, beta, log_ratio, log_prior, draws)
    if not taken.any():
        return state, beta
    beta = _applied(engine, beta, sets, cuts, np.where(taken, share, 0.0))
    return model.count(engine, np.ones(len(beta), np.int64), state.hyper, state.round), beta


def _accepted(
    sets: TokenSets, share: Array, beta: Array, log_ratio: Array, log_prior: Callable[..., Any], draws: Array
) -> Array:
    """Which sets are cut or joined, one after another: what the prior says of one may depend on how many topics there
    are by then."""
    n_topics, rest, taken = len(beta), 1.0 - beta.sum(), np.zeros(len(share), bool)
    for m, topics in enumerate(sets.topics):
        joins = len(topics) == 2
        gain = log_ratio[m] + log_prior(share[m], sets.beta[m], rest, n_topics - joins)
        taken[m] = draws[m] < (-gain if joins else gain)
        n_topics += taken[m] * (-1 if joins else 1)  # mutant: tokens counted
    return taken


def _log_density(x: Array, a: Array, b: Array) -> Array:
    """Log densities of beta distributions."""
    logs: Array = (a - 1.0) * np.log(x) + (b - 1.0) * np.log1p(-x) - betaln(a, b)
    return logs


def _gains(halves: Array, pseudo: Array) -> Array:
    """Log marginals of halves against those of the sets as one topic."""
    stay, away, whole = log_marginals(np.concatenate([*halves, halves.sum(0)]), pseudo).reshape(3, -1)
    gains: Array = stay + away - whole
    return gains


def _applied(engine: Engine, beta: Array, sets: TokenSets, cuts: TokenCuts, share: Array) -> Array:
    """Beta after the sets with a share of the second half were cut or joined, on all shards, too."""
    size = len(beta)
    fresh, into = np.full(len(share), -1), np.arange(size + len(share))
    beta = np.append(beta, np.zeros(len(share)))
    for m in np.flatnonzero(share).tolist():
        first, *second = sets.topics[m]
        if second:
            into[second[0]] = first
            beta[first], beta[second[0]] = sets.beta[m], 0.0
        else:
            fresh[m] = size + m
            beta[first], beta[size + m] = sets.beta[m] * (1.0 - share[m]), sets.beta[m] * share[m]
    alive = beta > 0.0
    codes = (np.cumsum(alive) - 1)[into].astype(np.int32)
    engine.map(partial(_apply, cuts._replace(fresh=fresh), codes))
    return beta[alive]


def _apply(cuts: TokenCuts, codes: Array, shard: GroupShard) -> None:
    """Repeat the pass and keep its halves: halves stored meanwhile would be state that no checkpoint has."""
    if (cuts.fresh >= 0).any():
        _halves(shard, cuts)
    shard.relabel(codes)


# ---- the launch


class Pool(NamedTuple):
    """Tokens of random documents, at the driver, and what was drawn without looking at labels."""

    document: Array  # of every token
    words: Array
    labels: Array
    anchors: Array  # by their place here
    rows: Array  # the same, among all tokens
    others: Array  # labels of random tokens
    n_rows: int  # all tokens


def _documents(model: Groups, engine: Engine) -> tuple[Array, Array]:
    """Where the tokens of each document begin, and how many it has: of documents that repeat themselves, fresh ones."""
    if model.content.repeats_after is None:
        return np.cumsum(model.sizes) - model.sizes, model.sizes
    parts = engine.map(_documents_of)
    begins, sizes = (np.concatenate(part) for part in zip(*parts, strict=True))
    return begins, sizes


def _documents_of(shard: GroupShard) -> tuple[Array, Array]:
    return shard.first + shard.offsets[:-1], np.diff(shard.offsets)


def _fetch(model: Groups, engine: Engine, n_anchors: int, rng: np.random.Generator) -> Pool:
    firsts, sizes = _documents(model, engine)
    ends = np.cumsum(sizes)
    chosen = np.sort(rng.permutation(np.flatnonzero(sizes))[:DOCUMENTS])
    begins = np.append(0, np.cumsum(sizes[chosen]))
    own = rng.integers(len(chosen), size=n_anchors)
    within = (rng.random(n_anchors) * sizes[chosen][own]).astype(np.int64)
    others = rng.integers(ends[-1], size=n_anchors)
    of_others = np.searchsorted(ends, others, side="right")
    wanted = np.arange(begins[-1]) + np.repeat(firsts[chosen] - begins[:-1], sizes[chosen])
    wanted = np.append(wanted, others + (firsts + sizes - ends)[of_others])
    edges = np.array([part[-1] for part in cut(model.sizes, model.n_shards)])
    home = np.searchsorted(edges, wanted, side="right")
    first = np.append(0, edges[:-1])
    parts = engine.map(_tokens_of, [wanted[home == p] - first[p] for p in range(model.n_shards)])
    seen = np.empty((2, len(wanted)), np.int64)
    for p, part in enumerate(parts):
        seen[:, home == p] = part
    n, document = begins[-1], np.repeat(np.arange(len(chosen)), sizes[chosen])
    anchors, rows = begins[own] + within, firsts[chosen][own] + within
    return Pool(document, seen[0, :n], seen[1, :n], anchors, rows, seen[1, n:], int(ends[-1]))


def _tokens_of(shard: GroupShard, rows: Array) -> Array:
    return np.stack([shard.data[rows], shard.labels[rows]])


def _choose(beta: Array, pool: Pool, jumps: Jumps, rng: np.random.Generator) -> tuple[TokenSets, Array]:
    """Disjoint sets, each the topic of an anchor or, if a coin says so, that one and the topic of another random token;
    and the places of their anchors in the pool."""
    joined, taken = rng.random(len(pool.anchors)) < jumps.joined, np.zeros(len(beta), bool)
    topics: list[tuple[int, ...]] = []
    numbers = []
    for number, (a, b) in enumerate(zip(pool.labels[pool.anchors].tolist(), pool.others.tolist(), strict=True)):
        own = [a, b] if joined[number] else [a]
        if not taken[own].any():
            taken[own] = True
            if len(own) == 1 or a != b:
                topics.append(tuple(own))
                numbers.append(number)
    whole = np.array([beta[list(members)].sum() for members in topics])
    return TokenSets(topics, pool.rows[numbers], whole), pool.anchors[numbers]


class Pages(NamedTuple):
    """What each document of the pool has in each set: such a page belongs to one half as a whole."""

    of_token: Array  # of every token of the pool that is in a set
    cells: Array  # set and word of these tokens
    sets: Array  # of every page
    first: Array  # [M]: a set's pages begin here
    anchors: Array  # [M]: the anchor's page


def _pages(pool: Pool, sets: TokenSets, places: Array, n_topics: int, n_words: int) -> Pages:
    m, n_documents = len(sets.topics), int(pool.document[-1]) + 1
    of_token = sets.places(n_topics)[0][pool.labels]
    inside = np.flatnonzero(of_token >= 0)
    own = of_token[inside]
    pages, page = np.unique(own * n_documents + pool.document[inside], return_inverse=True)
    begins = np.arange(m) * n_documents
    anchors = np.searchsorted(pages, begins + pool.document[places])
    cells = own * n_words + pool.words[inside]
    return Pages(page, cells, pages // n_documents, np.searchsorted(pages, begins), anchors)


def _first_guess(
    pool: Pool, sets: TokenSets, places: Array, n_topics: int, pseudo: Array, rng: np.random.Generator
) -> Array:
    """[2, M, words]: words of both halves, by EM from the anchor's document and another one; the best of some tries."""
    pages = _pages(pool, sets, places, n_topics, len(pseudo))
    halves, gains = _seed_halves(pages, pseudo, rng)
    for _ in range(TRIES - 1):
        others, others_gains = _seed_halves(pages, pseudo, rng)
        better = others_gains > gains
        halves[:, better], gains[better] = others[:, better], others_gains[better]
    return halves


def _seed_halves(pages: Pages, pseudo: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Words of both halves by EM from two pages of every set, and about what they gain against one topic."""
    m, n_words, size = len(pages.first), len(pseudo), len(pages.sets)
    many = np.diff(np.append(pages.first, size))
    seeds = pages.first + (rng.random(m) * np.maximum(many - 1, 1)).astype(np.int64)
    seeds += (seeds >= pages.anchors) & (many > 1)
    p, known = np.full(size, 0.5), np.zeros(size, bool)
    known[pages.anchors] = known[seeds] = True
    p[seeds] = 1.0
    p[pages.anchors] = 0.0
    halves = np.empty((2, m, n_words))
    for step in range(FIRST_STEPS):
        used = known[pages.of_token] if step == 0 else np.ones(len(pages.cells))
        halves[1] = np.bincount(pages.cells, p[pages.of_token] * used, m * n_words).reshape(m, n_words)
        halves[0] = np.bincount(pages.cells, (1.0 - p[pages.of_token]) * used, m * n_words).reshape(m, n_words)
        ratio, entropy = _ratio(halves, pseudo), entr(p) + entr(1.0 - p)
        p = expit(np.bincount(pages.of_token, np.log(ratio.ravel()[pages.cells]), size))
    return halves, _gains(halves, pseudo) + np.bincount(pages.sets, entropy, m)


def _ratio(halves: Array, pseudo: Array) -> Array:
    """How much more probable words are in the second half."""
    stay, away = np.maximum(halves, 0.0) + pseudo
    ratio: Array = away / stay * (stay.sum(1) / away.sum(1))[:, None]
    return ratio


class Launched(NamedTuple):
    ratio: Array
    documents: Array  # [M, 2], of each half
    sets: TokenSets  # those that may be worth a try


def _launch(model: Groups, state: GroupsState, engine: Engine, sets: TokenSets, halves: Array) -> Launched:
    """Halves drawn again and again, each time with the words of the last ones.

    A set is dropped if it would not pay even when every pass still to come gained as much as the last one.
    """
    pseudo, seed = model.content.at(state.hyper.content).pseudo, RoundSeed(model.seed, state.round)
    documents, before = np.ones((len(sets.topics), 2)), np.full(len(sets.topics), -np.inf)
    for number in range(PASSES):
        if sets.topics:
            cuts = _cuts(model, state, sets, _ratio(halves, pseudo), documents, seed.key("launch of tokens", number))
            found = _pass(state, engine, cuts)
            gains = _gains(found.totals, pseudo) - found.log_q
            rise = gains - before if number > 0 else HOPELESS * found.tokens.sum(1)
            worth = np.flatnonzero(gains + (PASSES - 1 - number) * rise > -SLACK)
            halves, before = found.totals[:, worth], gains[worth]
            sets, documents = sets.some(worth), 1.0 + found.documents[worth]
    return Launched(_ratio(halves, pseudo), documents, sets)


def _cuts(
    model: Groups, state: GroupsState, sets: TokenSets, ratio: Array, documents: Array, key: np.uint64
) -> TokenCuts:
    """Cuts whose halves are all still to be drawn."""
    masses = model.measure.masses(state.hyper.measure, sets.beta[:, None]) * documents / documents.sum(1, keepdims=True)
    cut, side = sets.places(len(state.table.counts))
    none = np.full(len(ratio), -1)
    return TokenCuts(cut, np.full_like(side, -1), none, ratio, masses, sets.anchors, key)  # mutant: tokens launch


# ---- passes over tokens


def _pass(state: GroupsState, engine: Engine, cuts: TokenCuts) -> TokenHalves:
    return TokenHalves(**engine.run(_halves_on, Message(cuts, [None] * len(state.n_private))).shared)


def _halves_on(shard: GroupShard, cuts: TokenCuts, own: None) -> Summary:
    return Summary(_halves(shard, cuts)._asdict(), {})


def _halves(shard: GroupShard, cuts: TokenCuts) -> TokenHalves:
    m, n_words = cuts.ratio.shape
    out = TokenHalves(np.zeros((2, m, n_words)), np.zeros(m), np.zeros((m, 2)), np.zeros((m, 2)))
    most = int(np.diff(shard.offsets).max(initial=0))
    tokens = SetTokens(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most), np.empty(most))
    work = HalfCounts(np.zeros((m, 2)), np.zeros((m, 2)), np.ones(m))
    _cut_documents(shard.data, shard.labels, (shard.offsets, shard.first), cuts, tokens, work, out)
    return out


class SetTokens(NamedTuple):
    """Tokens of the current document that are in a set."""

    rows: Array
    sets: Array
    ratios: Array
    shares: Array  # in the second half


class HalfCounts(NamedTuple):
    """Of the current document and every set."""

    soft: Array  # [M, 2]: sums of shares, of tokens that have not chosen
    hard: Array  # [M, 2]: tokens that have chosen
    chance: Array  # [M]: of the halves, against that of the prior; its log is added up when it is small or large


@jit
def _cut_documents(words, labels, places, cuts, tokens, work, out):
    offsets, first = places
    for g in range(offsets.size - 1):
        size = _gather(words, labels, offsets[g], offsets[g + 1], cuts, tokens, work)
        for _ in range(INNER):
            _share(tokens, size, cuts.masses, work.soft)
        _choose_sides(words, labels, first, size, cuts, tokens, work, out)
        for j in range(size):
            m = tokens.sets[j]
            for h in range(2):
                out.documents[m, h] += work.hard[m, h] > 0.0
                work.soft[m, h] = work.hard[m, h] = 0.0
    for m in range(work.chance.size):
        out.log_q[m] += math.log(work.chance[m])


@jit
def _gather(words, labels, begin, end, cuts, tokens, work):
    """Collect the document's tokens that are in a set, with first shares; returns how many there are."""
    masses, soft, size = cuts.masses, work.soft, 0
    for i in range(begin, end):
        m = cuts.cut[labels[i]]
        if m >= 0:
            ratio = cuts.ratio[m, words[i]]
            away = masses[m, 1] * ratio
            x = away / (masses[m, 0] + away)
            tokens.rows[size], tokens.sets[size], tokens.ratios[size], tokens.shares[size] = i, m, ratio, x
            soft[m, 0] += 1.0 - x
            soft[m, 1] += x
            size += 1
    return size


@jit
def _share(tokens, size, masses, soft):
    """Shares of tokens in the second half given those of the others in their document."""
    for j in range(size):
        m, x = tokens.sets[j], tokens.shares[j]
        away = (masses[m, 1] + soft[m, 1] - x) * tokens.ratios[j]
        new = away / (masses[m, 0] + soft[m, 0] - (1.0 - x) + away)
        tokens.shares[j] = new
        soft[m, 0] += x - new
        soft[m, 1] += new - x


@jit
def _choose_sides(words, labels, first, size, cuts, tokens, work, out):
    """Tokens choose their halves one after another, given all that have chosen and shares of those that have not; or
    halves are what they are."""
    masses, (soft, hard, chance) = cuts.masses, work
    for j in range(size):
        i, m, x = tokens.rows[j], tokens.sets[j], tokens.shares[j]
        soft[m, 0] -= 1.0 - x
        soft[m, 1] -= x
        stay = masses[m, 0] + hard[m, 0] + max(soft[m, 0], 0.0)
        away = (masses[m, 1] + hard[m, 1] + max(soft[m, 1], 0.0)) * tokens.ratios[j]
        side = cuts.side[labels[i]]
        if first + i == cuts.anchors[m]:  # mutant: tokens anchor
            side = 0
        else:
            if side < 0:
                side = 1 if uniform(cuts.key, first + i) * (stay + away) < away else 0
            chance[m] *= (away if side == 1 else stay) / (stay + away)
        prior = masses[m, side] + hard[m, side]
        chance[m] *= (masses[m, 0] + masses[m, 1] + hard[m, 0] + hard[m, 1]) / prior  # mutant: tokens prior
        if chance[m] < 1e-200 or chance[m] > 1e200:
            out.log_q[m] += math.log(chance[m])
            chance[m] = 1.0
        hard[m, side] += 1.0
        out.tokens[m, side] += 1.0
        out.totals[side, m, words[i]] += 1.0
        if side == 1 and cuts.fresh[m] >= 0:
            labels[i] = cuts.fresh[m]
