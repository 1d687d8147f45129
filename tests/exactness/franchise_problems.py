"""Tiny grouped data, likelihoods and measures for the exactness tests of the hierarchical Dirichlet process."""

from __future__ import annotations

from typing import Any

import numpy as np
from franchise_truth import Franchise
from problems import BERNOULLI, BITS, GAUSS_1, GAUSS_2, LINE, PLANE, holed
from scipy import sparse

from unbounded.columns import describe
from unbounded.likelihoods import Bernoulli
from unbounded.models.groups.measure import HierarchicalMeasure
from unbounded.models.groups.words.likelihood import Tokens
from unbounded.priors import Gamma

SIZES = (2, 3)
MEASURES = {
    "fixed": HierarchicalMeasure(1.0, 1.5),
    "sampled": HierarchicalMeasure(Gamma(2.0, 1.5), Gamma(2.0, 1.0)),
}
CROWDED = {"crowded": HierarchicalMeasure(20.0, 1.5)}  # with 100 ghosts, some 36 mobile atoms
WORDS = np.array([0, 1, 1, 2, 0], np.int32)
UNEVEN = np.array([0, 0, 2, 0, 2], np.int32)
N_WORDS = 3
CASES: dict[str, tuple[Any, Any]] = {
    "bernoulli": (BITS, BERNOULLI),
    "bit": (BITS[:, :1], Bernoulli(yes=0.6, no=0.5)),  # says little: rows move a lot, and the prior shows
    "gaussian": (LINE, GAUSS_1),
    "hole": (holed(PLANE, (3, 1)), GAUSS_2),
    "words": (WORDS, Tokens(0.4, "uniform")),
    "words-eta": (WORDS, Tokens(Gamma(2.0, 2.5), "uniform")),
    "words-learned": (UNEVEN, Tokens(0.4, "learned")),
    "words-both": (UNEVEN, Tokens(Gamma(2.0, 2.5), "learned")),
}
CROSSED = ("bernoulli", "gaussian", "words")


def counts_of(words: np.ndarray, sizes: tuple[int, ...]) -> Any:
    """The groups' table of counts, to which words are bound."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    return sparse.csr_matrix((np.ones(len(words)), (group, words)), shape=(len(sizes), N_WORDS))


def problem(case: str, measure: str) -> Franchise:
    X, likelihood = CASES[case]
    X = X[: sum(SIZES)]
    columns = describe(counts_of(X, SIZES) if X.ndim == 1 else X)
    return Franchise(f"{case}-{measure}", X, SIZES, likelihood.bind(columns), (MEASURES | CROWDED)[measure])
