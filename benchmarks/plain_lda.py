"""Latent Dirichlet allocation with K topics by collapsed Gibbs sampling (Griffiths and Steyvers 2004): the rival.

    shares_d ~ Dirichlet(alpha m),  phi_k ~ Dirichlet(eta base)

`m` and `base` are uniform, or learned (Wallach, Mimno, McCallum 2009): each is itself a draw from a Dirichlet
distribution and sampled, with alpha or eta's sum, by tables of a Chinese restaurant franchise. It is written to be
right and quick enough, not to be the fastest.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from unbounded.compiled.draws import uniform
from unbounded.compiled.jit import jit
from unbounded.randomness import generator, key

EVERY = 5  # sweeps between moves of hyper-parameters
SETTLE = 20  # sweeps before the first one


class Prior(NamedTuple):
    """Of the rows of a table of counts: Dirichlet(pseudo-counts)."""

    pseudo: Any
    sampled: bool  # the sum of the pseudo-counts
    learned: bool  # their proportions
    floor: float = 1.0  # whose own pseudo-counts are these: near 0, topics that nobody needs are empty


class State(NamedTuple):
    words: Any
    offsets: Any
    labels: Any
    by_word: Any  # [V, K]
    by_document: Any  # [D, K]


class LdaDraw(NamedTuple):
    by_word: Any
    alpha: Any  # [K]
    eta: Any  # [V]

    @property
    def phi(self) -> Any:
        """[V, K]"""
        expected = self.by_word + self.eta[:, None]
        return expected / expected.sum(0)


def sample(words: Any, sizes: Any, n_words: int, seed: int, options: dict[str, Any]) -> tuple[list[LdaDraw], float]:
    """Draws from the second half of so many sweeps, and CPU seconds.

    options: K, sweeps, draws; alpha and eta, pseudo-counts of a topic and of a word to begin with (and to stay at,
    unless `sampled`); "alpha_learned", "eta_learned": proportions are sampled, too; "base": of words, where they begin;
    "sparse": asymmetric alpha under a prior that leaves topics empty, so that K is only a limit.
    """
    began, rng = time.process_time(), generator(seed, "lda")
    n_topics, sweeps = int(options["K"]), int(options["sweeps"])
    state = _begin(words, sizes, n_words, rng.integers(n_topics, size=len(words)), n_topics)
    alpha, eta = priors(n_topics, options)
    kept = set(np.linspace(sweeps / 2, sweeps - 1, options["draws"]).astype(int))
    draws = []
    for s in range(sweeps):
        _sweep(*state, alpha.pseudo, eta.pseudo, key(seed, "lda", s))
        if s >= SETTLE and s % EVERY == 0:
            alpha = moved(state.by_document, alpha, rng)
            eta = moved(np.ascontiguousarray(state.by_word.T), eta, rng)
        if s in kept:
            draws.append(LdaDraw(state.by_word.copy(), alpha.pseudo, eta.pseudo))
    return draws, time.process_time() - began


def priors(n_topics: int, options: dict[str, Any]) -> tuple[Prior, Prior]:
    floor = 5.0 / n_topics if options["sparse"] else 1.0
    alpha = Prior(np.full(n_topics, options["alpha"]), options["alpha_sampled"], options["alpha_learned"], floor)
    base = options["base"] / options["base"].mean()
    return alpha, Prior(base * options["eta"], options["eta_sampled"], options["eta_learned"])


def _begin(words: Any, sizes: Any, n_words: int, labels: Any, n_topics: int) -> State:
    document = np.repeat(np.arange(len(sizes)), sizes)
    by_word, by_document = np.zeros((n_words, n_topics)), np.zeros((len(sizes), n_topics))
    np.add.at(by_word, (words, labels), 1.0)
    np.add.at(by_document, (document, labels), 1.0)
    return State(words, np.append(0, np.cumsum(sizes)), labels.astype(np.int32), by_word, by_document)


def moved(counts: Any, prior: Prior, rng: np.random.Generator) -> Prior:
    """Given rows of counts: tables, then proportions, then the sum of pseudo-counts under Gamma(1, 0.01)."""
    if not (prior.sampled or prior.learned):
        return prior
    total = prior.pseudo.sum()
    tables = _tables(counts, prior.pseudo, np.uint64(rng.integers(2**63)))
    share = prior.pseudo / total
    if prior.learned:
        share = np.maximum(rng.dirichlet(prior.floor + tables), 1e-12)
    if prior.sampled:
        sizes = counts.sum(1)
        x = rng.beta(total, np.maximum(sizes[sizes > 0], 1.0))
        total = rng.gamma(1.0 + tables.sum(), 1.0 / (0.01 - np.log(np.maximum(x, 1e-300)).sum()))
    return prior._replace(pseudo=total * share)


@jit
def _tables(counts, pseudo, key):
    tables, draw = np.zeros(pseudo.size), 0
    for r in range(counts.shape[0]):
        for c in range(counts.shape[1]):
            for j in range(int(counts[r, c])):
                tables[c] += uniform(key, draw) * (pseudo[c] + j) < pseudo[c]
                draw += 1
    return tables


@jit
def _sweep(words, offsets, labels, by_word, by_document, alpha, eta, key):
    topics, smooth = alpha.size, eta.sum()
    inverse, running = 1.0 / (by_word.sum(0) + smooth), np.empty(topics)
    for d in range(offsets.size - 1):
        mine = by_document[d]
        for i in range(offsets[d], offsets[d + 1]):
            row, e, z = by_word[words[i]], eta[words[i]], labels[i]
            row[z] -= 1.0
            mine[z] -= 1.0
            inverse[z] = 1.0 / (1.0 / inverse[z] - 1.0)
            total = 0.0
            for k in range(topics):
                total += (mine[k] + alpha[k]) * (row[k] + e) * inverse[k]
                running[k] = total
            z = min(np.searchsorted(running, uniform(key, i) * total, side="right"), topics - 1)
            labels[i] = z
            row[z] += 1.0
            mine[z] += 1.0
            inverse[z] = 1.0 / (1.0 / inverse[z] + 1.0)
