"""What the benchmarks of topics share: corpora that are cut in the same way for all, perplexity and coherence.

Perplexity is by document completion: of every held-out document one half of the tokens, at random, is seen; the shares
of its topics come from them by Gibbs sampling with the topics fixed, and every other token is scored by
p(w) = sum_k share_k phi_kw. Words that no training document has are left out.

Coherence is the mean normalised pointwise mutual information (NPMI) of all pairs of a topic's ten most probable words,
with the probabilities of words and pairs as shares of documents. A pair that no document has counts -1.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

HELD_OUT = 500
TOP_WORDS = 10
EDGES = (0.001, 0.003, 0.01, 0.03, 1.0)  # shares at which coherence is reported apart


class Corpus(NamedTuple):
    train: Any  # CSR
    seen: Any
    rest: Any
    others: Any  # all documents that are not trained on, whole
    truth: float | None = None  # perplexity of the true topics

    @property
    def n_tokens(self) -> int:
        return int(self.train.sum())


def split(X: Any, rows: int | None = None, seed: int = 0) -> Corpus:
    """Documents held out, at most so many rows to train on, and what is left."""
    rng = np.random.default_rng(seed)
    X = sparse.csr_matrix(X)[rng.permutation(X.shape[0])]
    n_out = min(HELD_OUT, X.shape[0] // 10)
    end = X.shape[0] if rows is None else min(n_out + rows, X.shape[0])
    train, held = X[n_out:end], X[:n_out].tocoo()
    known = np.asarray(train.sum(0)).ravel() > 0
    row, word = (np.repeat(v, held.data.astype(int)) for v in (held.row, held.col))
    kept = known[word]
    row, word = row[kept], word[kept]
    first = rng.random(len(row)) < 0.5

    def table(chosen: Any) -> Any:
        ones = np.ones(int(chosen.sum()))
        return sparse.coo_matrix((ones, (row[chosen], word[chosen])), shape=(n_out, X.shape[1])).tocsr()

    return Corpus(train, table(first), table(~first), sparse.vstack([X[:n_out], X[end:]]).tocsr())


def tokens(X: Any) -> tuple[Any, Any]:
    """(words document after document, tokens of each document)."""
    return np.repeat(X.indices, X.data.astype(int)).astype(np.int32), np.asarray(X.sum(1)).ravel().astype(int)


def perplexity(rest: Any, shares: Any, phi: Any) -> float:
    cells = rest.tocoo()
    p = np.einsum("ik,ki->i", shares[cells.row], phi[:, cells.col])
    return float(np.exp(-(cells.data @ np.log(np.maximum(p, 1e-12))) / cells.data.sum()))


class Coherence:
    """NPMI of words, by the documents that have them."""

    def __init__(self, documents: Any):
        self._has = sparse.csc_matrix(documents > 0, dtype=float)

    @cached_property
    def _n(self) -> int:
        return int(self._has.shape[0])

    def of(self, words: Any) -> float:
        """Mean over all pairs; those with a word that no document has are left out."""
        part = self._has[:, words]
        both = (part.T @ part).toarray() / self._n
        alone = np.diag(both)
        i, j = np.triu_indices(len(words), 1)
        known = (alone[i] > 0) & (alone[j] > 0)
        i, j = i[known], j[known]
        p = both[i, j]
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.log(p / (alone[i] * alone[j])) / -np.log(p)
        value = np.where(p == 0, -1.0, np.where(p == 1, 1.0, value))
        return float(value.mean()) if len(value) else -1.0


def report(phi: Any, sizes: Any, coherence: Coherence) -> dict[str, Any]:
    """Coherence by share of tokens, of all topics above 0.1% and above 1%, and by size; and how many there are.

    phi: [topics, words], of any scale; sizes: of the topics.
    """
    shares = np.asarray(sizes, float) / np.sum(sizes)
    top = np.argsort(-phi, axis=1, kind="stable")[:, :TOP_WORDS]
    npmi = np.array([coherence.of(words) for words in top])
    bins = [(shares > a) & (shares <= b) for a, b in pairwise(EDGES)]
    return {
        "npmi_by_share": float(npmi @ shares),
        "npmi_above_0.1%": _mean(npmi[shares > 0.001]),
        "npmi_above_1%": _mean(npmi[shares > 0.01]),
        "npmi_by_size": [_mean(npmi[own]) for own in bins],
        "n_by_size": [int(own.sum()) for own in bins],
        "n_topics": len(shares),
        "n_above_0.1%": int((shares > 0.001).sum()),
        "n_above_1%": int((shares > 0.01).sum()),
        "tokens_above_0.1%": float(shares[shares > 0.001].sum()),
    }


def _mean(values: Any) -> float | None:
    return float(values.mean()) if len(values) else None
