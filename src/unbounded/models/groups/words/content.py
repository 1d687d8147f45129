"""Words as what groups hold: statistics are sparse, topics are drawn in blocks of words, and eta may be sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from unbounded.arrays import Array
from unbounded.contracts import Spread
from unbounded.likelihoods.base import Parameters
from unbounded.models.groups.content import Draw, Instantiated, Predictives
from unbounded.models.groups.measure import GroupHyper
from unbounded.models.groups.message import ChosenAtoms, DishTable, RoundSeed
from unbounded.models.groups.shard import GroupShard
from unbounded.models.groups.words import counts as words
from unbounded.models.groups.words.counts import WordTable
from unbounded.models.groups.words.likelihood import BoundTokens, LogTopics
from unbounded.models.groups.words.topics import Topics
from unbounded.models.labelled.labels import Atoms


class ByWord(NamedTuple):
    """What is kept with the words of a shard."""

    order: Array  # which sorts them
    frequency: Array  # of every word


def by_word(data: Array) -> ByWord:
    return ByWord(np.argsort(data, kind="stable").astype(np.int32), np.bincount(data))


@dataclass(frozen=True)
class WordContent:
    likelihood: BoundTokens
    dtype: str = "float64"

    def at(self, hyper: GroupHyper) -> BoundTokens:
        return self.likelihood.at(hyper.eta)

    def begin(self, hyper: GroupHyper) -> GroupHyper:
        return hyper._replace(eta=self.likelihood.eta)

    def update(self, hyper: GroupHyper, counts: Array, statistics: Any, rng: np.random.Generator) -> GroupHyper:
        return hyper._replace(eta=self.likelihood.update(hyper.eta, counts, statistics, rng))

    def scalars(self, hyper: GroupHyper) -> dict[str, float]:
        return {"eta": hyper.eta}

    def kernel(self, form: str) -> str:
        return "words" if form == "direct" else form

    def instantiate(
        self, hyper: GroupHyper, table: DishTable, chosen: ChosenAtoms, masses: Array, seed: RoundSeed, spread: Spread
    ) -> Instantiated:
        none = np.full(chosen.n_extra, -1)
        # mutant: global step usable
        usable = np.concatenate([chosen.mobile, none, chosen.frozen if chosen.lone else chosen.frozen[:0]])
        n_mobile, dtype = len(chosen.mobile) + chosen.n_extra, np.dtype(self.dtype)
        likelihood = self.at(hyper)
        topics = likelihood.topics(table.statistics, usable, masses, n_mobile, seed.key("phi"), dtype, spread)
        return Instantiated(topics, None)

    def parameters(self, usable: Topics) -> Parameters:
        return {"phi": usable.phi.T}

    def log_finite(self, usable: Topics) -> LogTopics:
        return LogTopics(np.log(usable.phi))

    def count(self, shard: GroupShard, n_atoms: int) -> Atoms:
        order = shard.kept(by_word).order
        counts, table = words.count(shard.data, shard.labels, order, self.likelihood.n_terms, n_atoms)
        statistics: Any = table
        return Atoms(counts, statistics)

    def from_dense(self, statistics: Array) -> WordTable:
        return words.table(sparse.csr_matrix(statistics.astype(np.int32)))

    def cut(self, statistics: WordTable, n_atoms: int) -> tuple[WordTable, WordTable]:
        return statistics.cut(n_atoms)

    def stacked(self, parts: list[WordTable]) -> Any:
        return words.matrix(parts, self.likelihood.n_terms)

    def predictives(self, draw: Draw, X: Any) -> Predictives:
        eta, n_words = draw.hyper.eta, self.likelihood.n_terms
        table = np.full((n_words, len(draw.counts) + 1), 1.0 / n_words)
        shares = (sparse.csr_matrix(draw.statistics).toarray() + eta) / (draw.counts + n_words * eta)[:, None]
        table[:, :-1] = shares.T
        return Predictives(table, np.asarray(X), np.zeros(len(X)))
