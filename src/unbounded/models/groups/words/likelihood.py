"""Words of a vocabulary, one per row (docs/topics.md): x ~ Categorical(phi), phi ~ Dirichlet(eta base).

The same distribution as one categorical column, made for vocabularies of tens of thousands of words: statistics are
sparse, an atom's column of log probabilities is never written out, and eta may be sampled. `WordContent` says what they
are to the model of groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from unbounded.arrays import Array
from unbounded.columns import Columns
from unbounded.compiled.jit import implements
from unbounded.contracts import Parallel, in_this_thread
from unbounded.instantiation import Roles
from unbounded.likelihoods.base import Bound, Parameters
from unbounded.likelihoods.operations import accumulate, clear, evaluate, largest, logits, screen, update, write_terms
from unbounded.models.groups.shard import (
    NO_BASE,
    ContentHyper,
    DishTable,
    Draw,
    GroupShard,
    Instantiated,
    Predictives,
)
from unbounded.models.groups.tables import by_table
from unbounded.models.groups.words import topics as words
from unbounded.models.groups.words.topics import Topics, WordCounts
from unbounded.models.labelled.labels import Atoms
from unbounded.options import BEFORE
from unbounded.priors import Gamma, slice_within
from unbounded.randomness import RoundSeed
from unbounded.rows import Csr

QUICK = 6_400  # tokens for each word of the vocabulary, below which sweeps are short compared with a jump
FREQUENT = 1024
BASES = ("learned", "uniform")
ETA_RANGE = (1e-6, 1e3)  # where a sampled eta lives


@dataclass(frozen=True)
class Tokens:
    """Documents: every row is one word, an atom is a distribution over words, phi ~ Dirichlet(concentration base).

    Parameters
    ----------
    concentration : float or Gamma, default Gamma(1.0, 10.0)
        eta, the mean pseudo-count of a word; a number fixes it, a `Gamma` prior is sampled.
    base : {"learned", "uniform"}, default "learned"
        Which words topics are likely to have before their own are seen, with mean one. "learned": a draw from a flat
        Dirichlet distribution over the vocabulary, which is sampled; "uniform": all words are alike.
    repeats_after : float, Gamma or None, default None
        Documents repeat themselves: after so many words of a document, the next one is as likely to be one of them
        again as to come from its topics. A number fixes it, a `Gamma` prior is sampled; None: they do not.

    Examples
    --------
    >>> import unbounded as ub
    >>> model = ub.HierarchicalDirichletProcess(ub.Tokens(0.05, base="uniform"))
    >>> bursty = ub.HierarchicalDirichletProcess(ub.Tokens(repeats_after=ub.Gamma(1.0, 0.002)))
    """

    concentration: float | Gamma = field(default_factory=lambda: Gamma(1.0, 10.0))
    base: str = field(default="learned", metadata={BEFORE: "uniform"})
    repeats_after: float | Gamma | None = field(default=None, metadata={BEFORE: None})

    name: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        for name, value in (("concentration", self.concentration), ("repeats_after", self.repeats_after)):
            may_be = value is None and name == "repeats_after"
            if not may_be and not isinstance(value, Gamma) and not (isinstance(value, Real) and 0 < value < math.inf):
                raise ValueError(f"the {name} of Tokens must be positive or a Gamma prior, got {value!r}.")
        if self.base not in BASES:
            raise ValueError(f"the base of Tokens must be one of {BASES}, got {self.base!r}.")

    def bind(self, columns: Columns) -> BoundTokens:
        """columns: those of the documents' table of counts, one per word.

        Examples
        --------
        >>> import numpy as np
        >>> from unbounded.columns import describe
        >>> ub.Tokens().bind(describe(np.eye(4))).n_terms  # words
        4
        """
        wrong = (columns.low < 0) | ~columns.whole
        if wrong.any():
            raise ValueError(f"Tokens: word {columns.index[wrong][0]} has counts that are not 0, 1, 2, ...")
        prior = self.concentration
        eta = min(prior.mean, 0.1) if isinstance(prior, Gamma) else float(prior)
        after = self.repeats_after
        now = math.inf if after is None else after.mean if isinstance(after, Gamma) else float(after)
        return BoundTokens(columns, prior, eta, np.ones(columns.size), self.base == "learned", after, now)


@dataclass(frozen=True)
class BoundTokens(Bound):
    columns: Columns
    prior: float | Gamma
    eta: float
    base: Array  # [words], with mean one
    learned: bool  # whether the base is sampled
    repeats_after: float | Gamma | None = None
    after: float = math.inf

    @property
    def pseudo(self) -> Array:
        """The pseudo-count of every word."""
        return self.eta * self.base

    @property
    def n_terms(self) -> int:
        return self.columns.size

    def at(self, hyper: ContentHyper) -> BoundTokens:
        return replace(self, eta=hyper.eta, base=hyper.base if self.learned else self.base, after=hyper.after)

    def update(self, counts: Array, statistics: Any, rng: np.random.Generator) -> tuple[float, Array]:
        """Move eta and the base given which words each atom has, the atoms' phi integrated out."""
        if not self.learned:
            return self._move_eta(self._log_evidence(counts, statistics), rng), self.base
        seed = rng.integers(2**64, dtype=np.uint64)
        tables = words.base_tables(statistics.indices, statistics.data, self.pseudo, seed)
        evidence = partial(words.log_openings, tables.sum(), counts.astype(float), self.n_terms)  # mutant: base eta
        eta = self._move_eta(evidence, rng)
        base = rng.standard_gamma(1.0 + tables)  # mutant: base draw
        return eta, base / base.mean()

    def _move_eta(self, log_evidence: Callable[[float], float], rng: np.random.Generator) -> float:
        if not isinstance(self.prior, Gamma):
            return self.eta
        prior = self.prior

        def log_density(log_eta: float) -> float:
            e = math.exp(log_eta)
            return log_evidence(e) + prior.log_density(e) + log_eta  # mutant: log density result 2

        low, high = (math.log(bound) for bound in ETA_RANGE)
        return math.exp(slice_within(log_density, math.log(self.eta), low, high, rng))

    def _log_evidence(self, counts: Array, statistics: Any) -> Callable[[float], float]:
        """The log probability of all atoms' words as a function of eta, phi integrated out. Where words have the same
        base, there are few different cells."""
        if self.learned:
            cells = words.CellKinds(statistics.data, np.ones_like(statistics.data), self.base[statistics.indices])
        else:
            times = np.bincount(statistics.data)
            values = np.flatnonzero(times)
            cells = words.CellKinds(values.astype(np.int32), times[values].astype(np.int32), np.ones(len(values)))
        return partial(words.log_evidence, cells, counts.astype(float), self.n_terms)

    # ---- as any likelihood

    def terms(self, X: Array) -> Array:
        return np.eye(self.n_terms)[X]

    def log_base(self, X: Array) -> Array:
        return np.zeros(len(X))

    def log_evidence(self, counts: Array, statistics: Any) -> float:
        return self._log_evidence(counts, statistics)(self.eta)

    def log_marginal(self, counts: Array, statistics: Any) -> Array:
        table, n_words = sparse.csr_matrix(statistics), self.n_terms
        own = self.pseudo[table.indices]
        cells = gammaln(own + table.data) - gammaln(own)
        atom = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        totals = math.lgamma(n_words * self.eta) - gammaln(n_words * self.eta + counts)
        return np.bincount(atom, cells, table.shape[0]) + totals

    def topics(
        self, statistics: Any, order: Array, masses: Array, n_mobile: int, key: np.uint64, dtype: Any,
        parallel: Parallel = in_this_thread,
    ) -> words.Topics:  # fmt: skip
        """A draw of the distributions over words of the atoms with rows `order` (-1: no words), in that order."""
        n_words, atoms = self.n_terms, len(order)
        table, chunks = sparse.csr_matrix(statistics), -(-atoms // words.CHUNK)
        table.sort_indices()
        tallies = words.Tallies(table.indptr, table.indices, table.data, order)
        found = words.Topics(np.empty((n_words, atoms), dtype), np.empty((n_words, 2)), np.empty((n_words, chunks)))
        edges = words.blocks(n_words, atoms)
        totals = np.empty((len(edges) - 1, atoms))
        parallel(partial(words.draw, tallies, self.pseudo, key, edges, found.phi, totals))
        parallel(partial(words.finish, edges, 1.0 / totals.sum(0), masses, n_mobile, found))
        return found

    def phi(self, statistics: Any, key: np.uint64, dtype: Any) -> Array:
        """[words, K]: a draw of every row's distribution over words."""
        order = np.arange(statistics.shape[0])
        return self.topics(statistics, order, np.zeros(len(order)), 0, key, dtype).phi

    def draw(self, counts: Array, statistics: Any, rng: np.random.Generator) -> Parameters:
        return {"phi": self.phi(statistics, rng.integers(2**64, dtype=np.uint64), np.float64).T}

    def centre(self, counts: Array, statistics: Any) -> Parameters:
        table = self.pseudo + np.asarray(sparse.csr_matrix(statistics).todense())
        return {"phi": table / table.sum(1, keepdims=True)}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        return np.zeros(len(parameters["phi"])), np.log(parameters["phi"])

    def finite(self, eta: Array, parameters: Parameters, log_weights: Array) -> Any:
        return LogTopics(np.ascontiguousarray((np.log(parameters["phi"]) + log_weights[:, None]).T, eta.dtype))

    def float32_error(self, parameters: Parameters) -> float:
        return float(np.finfo(np.float32).eps * -np.log(parameters["phi"]).min(initial=0.0))

    def simulate(self, parameters: Parameters, labels: Array, rng: np.random.Generator) -> Array:
        edges = np.cumsum(parameters["phi"], axis=1)
        u = rng.random(len(labels)) * edges[labels, -1]
        return np.array([np.searchsorted(edges[k], x) for k, x in zip(labels, u, strict=True)], np.int32)

    def spec(self, first: int = 0) -> tuple[Any, ...]:
        return (TokenSpec(self.pseudo, self.n_terms * self.eta),)

    def tail(self, slots: int, lanes: int) -> tuple[Any, ...]:
        return (TokenTail(np.zeros((slots, self.n_terms)), np.zeros(slots)),)

    def pack(self, counts: Array, statistics: Any, lanes: int) -> tuple[Any, ...]:
        dense = sparse.csr_matrix(statistics).toarray()
        return (TokenTail(dense.astype(float), np.asarray(counts, float)),)


class TokenSpec(NamedTuple):
    pseudo: Array  # [words]
    total: float  # of all words


class TokenTail(NamedTuple):
    counts: Array  # [slots, words]
    totals: Array


class LogTopics(NamedTuple):
    """The finite part for kernels that look at every atom: [words, K], log phi."""

    values: Array


@implements(write_terms, TokenSpec)
def _write_terms(spec, block):
    pass


@implements(accumulate, TokenSpec)
def _accumulate(spec, data, rows, statistics):
    for i in range(rows.size):
        statistics[data[rows[i]]] += 1.0


@implements(clear, TokenSpec)
def _clear(spec, tail, slot):
    tail.counts[slot] = 0.0
    tail.totals[slot] = 0.0


@implements(update, TokenSpec)
def _update(spec, tail, slot, block, r, sign):
    data, start = block.data, block.start
    tail.counts[slot, data[start + r]] += sign
    tail.totals[slot] += sign


@implements(evaluate, TokenSpec)
def _evaluate(spec, tail, slot, block, begin, end, out):
    data, start = block.data, block.start
    total = spec.total + tail.totals[slot]
    for r in range(begin, end):
        w = data[start + r]
        out[r] += math.log((spec.pseudo[w] + tail.counts[slot, w]) / total)


@implements(screen, TokenSpec)
def _screen(spec, tail, slot, block, begin, end, out):
    evaluate(spec, tail, slot, block, begin, end, out)


@implements(logits, LogTopics)
def _logits(finite, spec, block, out, top):
    data, start, size = block.data, block.start, block.size
    for r in range(size):
        row = finite.values[data[start + r]]
        for k in range(out.shape[0]):
            out[k, r] = row[k]
    for r in range(size, out.shape[1]):
        for k in range(out.shape[0]):
            out[k, r] = 0
    largest(out, top)


# ---- words as what groups hold


@dataclass(frozen=True)
class WordsOfTables:
    """The likelihood of tables, by how often they have each word. frequent: words that suffice for first guesses."""

    pseudo: Array  # [words]: pseudo-counts
    frequent: Array

    @property
    def n_terms(self) -> int:
        return len(self.pseudo)

    def log_marginal(self, counts: Array, statistics: Array) -> Array:
        return words.log_marginals(statistics, self.pseudo)

    def merge_gains(self, counts: Array, statistics: Array, i: Array, j: Array) -> Array:
        return words.merge_gains(statistics, self.pseudo, i, j)

    def centre(self, counts: Array, statistics: Array) -> Parameters:
        weights = np.maximum(statistics, 0.0)
        weights += self.pseudo
        weights /= weights.sum(1, keepdims=True)
        return {"phi": weights}

    def natural(self, parameters: Parameters) -> tuple[Array, Array]:
        return np.zeros(len(parameters["phi"])), np.log(parameters["phi"])

    def coarse(self) -> tuple[WordsOfTables, Array]:
        return replace(self, pseudo=self.pseudo[self.frequent]), self.frequent


class ByWord(NamedTuple):
    """What is kept with the words of a shard."""

    order: Array  # which sorts them
    frequency: Array  # of every word


def by_word(data: Array) -> ByWord:
    return ByWord(np.argsort(data, kind="stable").astype(np.int32), np.bincount(data))


@dataclass(frozen=True)
class WordContent:
    """Words of documents."""

    likelihood: BoundTokens
    dtype: str = "float64"

    bound: ClassVar[type] = BoundTokens
    by_tokens: ClassVar[bool] = True

    @cached_property
    def _frequent(self) -> Array:
        return np.sort(np.argsort(-self.likelihood.columns.mean, kind="stable")[:FREQUENT])

    def at(self, hyper: ContentHyper) -> BoundTokens:
        return self.likelihood.at(hyper)

    def start(self) -> ContentHyper:
        likelihood = self.likelihood
        return ContentHyper(likelihood.eta, likelihood.base if likelihood.learned else NO_BASE, likelihood.after)

    def update(self, hyper: ContentHyper, counts: Array, statistics: Any, rng: np.random.Generator) -> ContentHyper:
        eta, base = self.at(hyper).update(counts, statistics, rng)
        return ContentHyper(eta, base if self.likelihood.learned else hyper.base, hyper.after)

    def scalars(self, hyper: ContentHyper) -> dict[str, float]:
        return {"eta": hyper.eta} | ({} if self.repeats_after is None else {"repeats_after": hyper.after})

    @property
    def repeats_after(self) -> float | Gamma | None:
        return self.likelihood.repeats_after

    def kernel(self, form: str) -> str:
        if self.repeats_after is not None and form != "direct":
            raise ValueError("documents repeat themselves (repeats_after) with form='direct' only.")
        return form if form != "direct" else "words" if self.repeats_after is None else "repeating words"

    def instantiate(
        self, hyper: ContentHyper, table: DishTable, roles: Roles, masses: Array, seed: RoundSeed, parallel: Parallel
    ) -> Instantiated:
        none = np.full(roles.n_extra, -1)
        # mutant: global step usable
        usable = np.concatenate([roles.mobile, none, roles.frozen if roles.lone else roles.frozen[:0]])
        likelihood = self.at(hyper)
        topics = likelihood.topics(
            table.statistics, usable, masses, roles.n_mobile, seed.key("phi"), np.dtype(self.dtype), parallel
        )
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

    def table_rows(self, shard: GroupShard, at: Array, n_tables: int) -> Csr:
        ends, order = by_table(at, n_tables)
        return Csr(ends, shard.data[order].astype(np.int64), np.ones(len(order)))

    def of_tables(self, hyper: ContentHyper) -> WordsOfTables:
        return WordsOfTables(self.at(hyper).pseudo, self._frequent)  # mutant: of tables eta

    def sums(self, counts: Array, statistics: Any) -> Array:
        return statistics.toarray().astype(float)

    def parts(self, sums: Array) -> tuple[Array, Any]:
        cells, n_words = np.flatnonzero(sums), sums.shape[1]
        ends = np.searchsorted(cells, n_words * np.arange(len(sums) + 1)).astype(np.int32)
        table = (sums.ravel()[cells].astype(np.int32), (cells % n_words).astype(np.int32), ends)
        return sums.sum(1).astype(np.int64), sparse.csr_matrix(table, sums.shape)

    def jump_interval(self, form: str, n_rows: int) -> int:
        return int(np.clip(math.sqrt(QUICK * self.likelihood.n_terms / n_rows), 4, 20)) if form == "direct" else 1

    def from_dense(self, statistics: Array) -> WordCounts:
        return words.counts_of(sparse.csr_matrix(statistics.astype(np.int32)))

    def cut(self, statistics: WordCounts, n_atoms: int) -> tuple[WordCounts, WordCounts]:
        return statistics.cut(n_atoms)

    def stacked(self, parts: list[WordCounts]) -> Any:
        return words.matrix(parts, self.likelihood.n_terms)

    def predictives(self, draw: Draw, X: Any) -> Predictives:
        likelihood, n_words = self.at(draw.hyper.content), self.likelihood.n_terms
        table = np.empty((n_words, len(draw.counts) + 1))
        table[:, :-1] = likelihood.centre(draw.counts, draw.statistics)["phi"].T
        table[:, -1] = likelihood.base / n_words
        return Predictives(table, np.asarray(X), np.zeros(len(X)))

    def log_densities(self, draw: Draw, parameters: Parameters, X: Any) -> Array:
        likelihood = self.at(draw.hyper.content)
        new = np.log(likelihood.base[X] / likelihood.n_terms)
        return np.column_stack([np.log(parameters["phi"])[:, X].T, new])
