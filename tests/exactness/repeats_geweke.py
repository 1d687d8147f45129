"""Geweke's joint test for documents that repeat themselves, with everything sampled (franchise_geweke.py).

From the prior: an urn for each document, a franchise for the fresh words of all, parameters, words. By turns: a round
of the sampler given the words, and new words given who repeats whom and the topics of fresh words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from enumeration import Array, Verdict, judge
from franchise_geweke import (
    CONCENTRATION,
    ETA,
    GROUP_CONCENTRATION,
    N_WORDS,
    count_tables,
    draw_hypers,
    franchise,
    pick,
)
from franchise_geweke import rows as fresh_rows
from scipy import sparse

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.model import HybridGroups
from unbounded.models.groups.shard import GroupHyper, GroupShard
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.models.groups.words.repeats import Repeats
from unbounded.priors import Gamma
from unbounded.round import rounds
from unbounded.setup import Setup

SIZES = np.array([4, 1, 3])
DOCUMENT = np.repeat(np.arange(len(SIZES)), SIZES)
AFTER = Gamma(3.0, 1.0)


class Draw(NamedTuple):
    sources: Array  # of every word the number of the one that it repeats, or its own
    labels: Array  # of fresh words
    n_tables: int
    hyper: GroupHyper
    X: Array


def urns(after: float, rng: np.random.Generator) -> Array:
    sources: list[int] = []
    for size in SIZES:
        begin = len(sources)
        for i in range(size):
            chosen = pick([*[1.0] * i, after], rng)
            sources.append(begin + i if chosen == i else sources[begin + chosen])
    return np.array(sources)


def words_of(sources: Array, labels: Array, hyper: GroupHyper, rng: np.random.Generator) -> Array:
    """New words, given sources and the topics of fresh ones."""
    return fresh_rows("learned", labels, hyper, rng)[np.unique(sources, return_inverse=True)[1]]


def prior_draw(rng: np.random.Generator) -> tuple[Draw, Array]:
    own, content = draw_hypers("learned", 1, rng)[0]
    hyper = GroupHyper(own, content._replace(after=AFTER.draw(rng)))
    sources = urns(hyper.content.after, rng)
    sizes = np.bincount(DOCUMENT[np.unique(sources)], minlength=len(SIZES))
    seats, labels = franchise(sizes, *own, rng)
    X = words_of(sources, labels, hyper, rng)
    return Draw(sources, labels, count_tables(sizes, seats), hyper, X), seats


def moments(draw: Draw) -> dict[str, float]:
    sources, z, m, ((alpha, gamma), (eta, base, after)), X = draw
    k, fresh, first = z.max() + 1, len(z), len(np.unique(sources[:4]))
    again, log_after, of_all = sources[1] == sources[0], np.log(after), z[np.unique(sources, return_inverse=True)[1]]
    values = {
        "K": k, "K^2": k**2, "tables": m, "K tables": k * m, "alpha": alpha, "gamma": gamma, "alpha K": alpha * k,
        "gamma tables": gamma * m, "fresh": fresh, "fresh^2": fresh**2, "first": first, "fresh K": fresh * k,
        "fresh tables": fresh * m, "after": after, "log after": log_after, "after fresh": log_after * fresh,
        "gamma fresh": gamma * fresh, "eta": eta, "log eta": np.log(eta), "log eta^2": np.log(eta) ** 2, "again": again,
        "same": X[0] == X[1], "far": X[0] == X[-1], "kinds": len(np.unique(X)), "word": (X == 0).mean(),
        "base": base[0], "base^2": base[0] ** 2, "base word": base[X[0]], "again K": again * k,
        "kinds fresh": len(np.unique(X)) * fresh, "together": of_all[0] == of_all[-1],
    }  # fmt: skip
    return {name: float(value) for name, value in values.items()}


def sources_of(shard: GroupShard) -> Array:
    """The first of the words that are the same as every word, both by their numbers as given."""
    repeats, place = shard.repeats, np.empty(len(shard.repeats.order), np.int64)
    place[repeats.order] = repeats.sources
    _, first, which = np.unique(place, return_index=True, return_inverse=True)
    return shard.first + first[which]


def put(shard: GroupShard, X: Array, sources: Array, labels: Array) -> None:
    """New words, their sources, and topics of all words."""
    own = slice(shard.first, shard.first + len(shard.repeats.order))
    repeats = Repeats.of(X[own], shard.repeats.offsets, shard.repeats.longest)
    place = np.argsort(repeats.order)
    repeats.sources[place] = place[sources[own] - shard.first]
    shard.repeats, shard.labels = repeats, labels[own][repeats.order][repeats.places()].astype(np.int32)
    shard.take_fresh()


@dataclass(frozen=True)
class Joint:
    rule: Any
    n_shards: int = 2
    replicates: int = 40
    rounds: int = 80
    seed: int = 0


def replicate(joint: Joint, likelihood: Any, seed: int) -> Array:
    """Mean moments over the rounds of one simulator that starts from a prior draw."""
    rng = np.random.default_rng([joint.seed, seed])
    draw, seats = prior_draw(rng)
    measure = HierarchicalMeasure(CONCENTRATION, GROUP_CONCENTRATION)
    setup = Setup(measure, likelihood, SIZES, joint.n_shards, 1000 * joint.seed + seed)
    model = HybridGroups(setup, rule=joint.rule)
    engine = build("serial", model.recipe(draw.X.copy()))
    kinds, which = np.unique(draw.sources, return_inverse=True)
    at = DOCUMENT[kinds] * 100 + seats
    tables = np.bincount(draw.labels[np.unique(at, return_index=True)[1]], minlength=draw.labels.max() + 1)
    engine.map(partial(put, X=draw.X, sources=draw.sources, labels=draw.labels[which]))
    state, total = model.count(engine, tables, draw.hyper, 0), 0.0
    for _ in range(joint.rounds):
        state = next(rounds(model, engine, state))
        tables, sources = state.table.tables[state.occupied], np.concatenate(engine.map(sources_of))
        labels = model.assignments(state, engine)
        fresh = labels[np.unique(sources)]
        draw = Draw(sources, fresh, int(tables.sum()), state.hyper, words_of(sources, fresh, state.hyper, rng))
        engine.map(partial(put, X=draw.X, sources=sources, labels=labels))
        state = model.count(engine, tables, state.hyper, state.round)
        total = total + np.array(list(moments(draw).values()))
    engine.close()
    return total / joint.rounds


def check(joint: Joint, n_draws: int = 20000) -> Verdict:
    rng = np.random.default_rng(1)
    table = [moments(prior_draw(rng)[0]) for _ in range(n_draws)]
    prior = np.array([list(values.values()) for values in table])
    truth, error = prior.mean(axis=0), prior.std(axis=0, ddof=1) / np.sqrt(n_draws)
    columns = describe(sparse.csr_matrix(np.ones((len(SIZES), N_WORDS))))
    likelihood = Tokens(ETA, "learned", AFTER).bind(columns)
    seen = np.array([replicate(joint, likelihood, seed) for seed in range(joint.replicates)])
    slowness = seen.var(axis=0, ddof=1) * joint.rounds / (error**2 * n_draws)
    return judge(list(table[0]), seen, truth, float(np.median(slowness)), joint.rounds / 8, error)
