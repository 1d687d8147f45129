"""Exact posteriors of tiny documents that repeat themselves: every way in which words repeat others, summed up.

Given one of them, the fresh words are a franchise (franchise_truth.py); its probability is that of an urn, from words
that come one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise, product
from typing import Any

import numpy as np
from enumeration import Array, Tally, Verdict, canonical, log_eppf, partitions
from franchise_problems import MEASURES, counts_of
from franchise_truth import Franchise, GroupedRun, base_moments, cells, compare, concentrations, jumps_alone
from scipy import special

from unbounded.columns import describe
from unbounded.engines import build
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.samplers import HIERARCHICAL
from unbounded.models.groups.shard import GroupHyper, GroupShard
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.priors import Gamma
from unbounded.round import rounds

WORDS, SIZES = np.array([2, 0, 0, 0, 0], np.int32), (1, 4)
LIKELIHOODS = {
    "fixed": Tokens(0.4, "uniform", 1.5),
    "sampled": Tokens(Gamma(2.0, 2.5), "learned", Gamma(2.0, 1.0)),
}
OTHER = 1000  # fresh words have numbers from here on, labels of topics are smaller


def blocks(words: Array) -> Iterator[Array]:
    """All partitions of some words of which the members are equal."""
    for parts in partitions(len(words)):
        if all(len(np.unique(words[parts == b])) == 1 for b in range(parts.max() + 1)):
            yield parts


@dataclass(frozen=True)
class Repeating:
    """Words in documents, those of each in order. A configuration is who repeats whom, and labels; the two are written
    in one row, labels first."""

    name: str
    X: Array
    sizes: tuple[int, ...]
    likelihood: Any
    measure: HierarchicalMeasure

    def __str__(self) -> str:
        return self.name

    @property
    def n(self) -> int:
        return 2 * len(self.X)

    @cached_property
    def sources(self) -> list[Array]:
        """For every way the first of the words that are the same as each one."""
        edges = np.cumsum([0, *self.sizes])
        ways = product(*(blocks(self.X[b:e]) for b, e in pairwise(edges)))
        firsts = [[b + np.unique(p, return_index=True)[1][p] for p, b in zip(way, edges, strict=False)] for way in ways]
        return [np.concatenate(parts) for parts in firsts]

    @cached_property
    def franchises(self) -> list[Franchise]:
        """Of the fresh words in every way."""
        document, found = np.repeat(np.arange(len(self.sizes)), self.sizes), []
        for sources in self.sources:
            fresh = np.unique(sources)
            sizes = tuple(np.bincount(document[fresh], minlength=len(self.sizes)).tolist())
            found.append(Franchise(self.name, self.X[fresh], sizes, self.likelihood, self.measure))
        return found

    @cached_property
    def _after(self) -> tuple[Array, Array]:
        return concentrations(self.likelihood.repeats_after)

    def log_urn(self, sources: Array, after: Any) -> Any:
        """Log probability that words repeat one another in this way."""
        edges = pairwise(np.cumsum([0, *self.sizes]))
        return sum(log_eppf(np.array(canonical(sources[b:e])), after, 0.0) for b, e in edges)

    @cached_property
    def _log_urns(self) -> Array:
        """[ways, nodes]"""
        values, log_weights = self._after
        return np.array([self.log_urn(s, values) * np.ones(len(values)) for s in self.sources]) + log_weights

    @cached_property
    def _log_p(self) -> list[Array]:
        """Of every way the log probabilities of its configurations, the urn's left out."""
        logs = special.logsumexp
        return [logs(f._log_prior, axis=1) + logs(f._log_data, axis=1) for f in self.franchises]

    @cached_property
    def of_ways(self) -> Array:
        urns = special.logsumexp(self._log_urns, axis=1)
        return special.softmax(urns + [special.logsumexp(logs) for logs in self._log_p])

    @cached_property
    def probabilities(self) -> Array:
        return np.concatenate([p * special.softmax(logs) for p, logs in zip(self.of_ways, self._log_p, strict=True)])

    @cached_property
    def configurations(self) -> list[tuple[Array, Array]]:
        out = []
        for sources, franchise in zip(self.sources, self.franchises, strict=True):
            place = np.searchsorted(np.unique(sources), sources)
            out += [(seats, row_of(labels[place], sources)) for seats, labels in franchise.configurations]
        return out

    @cached_property
    def labels(self) -> Array:
        return np.array([canonical(row) for _, row in self.configurations])

    @cached_property
    def n_tables(self) -> Array:
        return np.concatenate([f.n_tables for f in self.franchises])

    @cached_property
    def hyper_means(self) -> dict[str, float]:
        names = self.franchises[0].hyper_means
        means = {name: float(self.of_ways @ [f.hyper_means[name] for f in self.franchises]) for name in names}
        if isinstance(self.likelihood.repeats_after, Gamma):
            given, (values, _) = special.softmax(self._log_urns, axis=1), self._after
            means |= {"after": float(self.of_ways @ given @ values)}
            means |= {"log after": float(self.of_ways @ given @ np.log(values))}
        return means

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array, Array, GroupHyper]:
        """An exact posterior draw: who repeats whom, seats and labels of fresh words, hyper-parameters."""
        way = rng.choice(len(self.sources), p=self.of_ways)
        seats, labels, (own, content), _ = self.franchises[way].draw(rng)
        prior = self.likelihood.repeats_after
        after = np.array([prior.draw(rng) for _ in range(500)] if isinstance(prior, Gamma) else [float(prior)])
        chosen = rng.choice(len(after), p=special.softmax(self.log_urn(self.sources[way], after) * np.ones(len(after))))
        return self.sources[way], seats, labels, GroupHyper(own, content._replace(after=float(after[chosen])))


def problem(words: str, measure: str) -> Repeating:
    likelihood = LIKELIHOODS[words].bind(describe(counts_of(WORDS, SIZES)))
    return Repeating(f"{words}-{measure}", WORDS, SIZES, likelihood, MEASURES[measure])


def row_of(labels: Array, sources: Array) -> Array:
    return np.concatenate([labels, OTHER + sources])


def put(shard: GroupShard, given: tuple[Array, Array]) -> None:
    """The shard with these sources and labels of fresh words."""
    sources, labels = given
    shard.repeats.sources = (sources - shard.first).astype(np.int32)
    shard.labels = labels.astype(np.int32)
    shard.take_fresh()


def sources_of(shard: GroupShard) -> Array:
    """Where words are that others repeat, by any number of theirs; words as they were given."""
    out = np.empty(len(shard.repeats.order), np.int64)
    out[shard.repeats.order] = shard.repeats.sources + shard.first
    return out


def started(problem: Repeating, model: Any, engine: Any, rng: np.random.Generator) -> Any:
    sources, seats, labels, hyper = problem.draw(rng)
    fresh, edges = np.unique(sources), model.recipe(problem.X).edges
    own = [(fresh >= b) & (fresh < e) for b, e in pairwise(edges)]
    engine.map(put, [(sources[b:e], labels[mine]) for mine, (b, e) in zip(own, pairwise(edges), strict=True)])
    state = model.begin_from_shards(engine, labels.max() + 1, hyper)
    sizes = np.bincount(np.repeat(np.arange(len(problem.sizes)), problem.sizes)[fresh], minlength=len(problem.sizes))
    at = np.repeat(np.arange(len(sizes)), sizes) * 100 + seats
    dishes = labels[np.unique(at, return_index=True)[1]]
    return model.count(engine, np.bincount(dishes, minlength=labels.max() + 1), hyper, state.round)


def simulate(problem: Repeating, run: GroupedRun) -> Tally:
    """C independent chains of M rounds, each from an exact posterior draw: how often each cell, mean hypers."""
    index, _ = cells(problem, run.form)
    frequencies = np.zeros((run.chains, len(index)))
    hypers = {name: np.zeros(run.chains) for name in problem.hyper_means}
    model = run.model(HIERARCHICAL, problem.measure, problem.likelihood, np.array(problem.sizes), 0, form=run.form)
    engine = build(run.engine, model.recipe(problem.X))
    rng = np.random.default_rng([run.seed, 78])
    for c in range(run.chains):
        model = model.reseeded(1000 * run.seed + c)
        chain = (jumps_alone if run.alone else rounds)(model, engine, started(problem, model, engine, rng))
        for state in islice(chain, run.rounds):
            row = row_of(model.assignments(state, engine), np.concatenate(engine.map(sources_of)))
            frequencies[c, index[(*canonical(row), int(state.table.tables.sum()))]] += 1.0 / run.rounds
            own, content = state.hyper
            now = own._asdict() | content._asdict()
            now |= {"log eta": np.log(content.eta), "log after": np.log(content.after)}
            now |= base_moments(content.base) if problem.likelihood.learned else {}
            for name, means in hypers.items():
                means[c] += now[name] / run.rounds
    engine.close()
    return Tally(frequencies, hypers)


def check(problem: Repeating, run: GroupedRun) -> Verdict:
    return compare(problem, run.form, simulate(problem, run), run.rounds)
