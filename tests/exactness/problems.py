"""Tiny data sets, likelihoods and measures for the exactness tests. Explicit priors: nothing hangs on defaults."""

from __future__ import annotations

from typing import Any

import numpy as np
from enumeration import Problem
from scipy import sparse

from unbounded.columns import describe
from unbounded.likelihoods import Bernoulli, Categorical, DiagonalGaussian, Gaussian, Multinomial, Poisson, Product
from unbounded.models.mixtures.measure import DirichletProcess, PitmanYor
from unbounded.priors import Beta, Gamma

MEASURES = {
    "dp": DirichletProcess(1.0),
    "py": PitmanYor(0.6, 0.4),
    "py-negative": PitmanYor(-0.2, 0.4),
    "py-high": PitmanYor(0.2, 0.75),
    "dp-sampled": DirichletProcess(Gamma(2.0, 1.5)),
    "py-sampled": PitmanYor(Gamma(1.5, 1.0), Beta(2.0, 2.5)),
}
FIXED = ("dp", "py", "py-negative")

NAN = float("nan")
LINE = np.array([[-2.0], [-1.2], [0.3], [1.8], [2.2], [-0.9]])
PLANE = np.array([[-1.9, -1.0], [-1.1, -0.2], [0.2, 0.4], [1.4, -0.9], [2.1, 1.2], [-0.6, 0.9]])
BITS = np.array([[1, 1, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 0], [1, 0, 0, 1.0]])
CODES = np.array([[0, 2], [0, 1], [1, 1], [2, 0], [2, 2], [1, 3.0]])
COUNTS = np.array([[0, 5], [1, 3], [4, 2], [6, 0], [2, 2], [3, 7.0]])
WORDS = np.array([[3, 0, 1, 0], [2, 1, 0, 0], [0, 1, 1, 2], [0, 0, 2, 1], [0, 1, 0, 0], [1, 0, 1, 1.0]])


TWINS = np.array([[-2.0], [-1.9], [0.1], [1.5], [1.62], [0.7]])  # once one has a new atom, the other wants to follow
SIX = np.column_stack([PLANE, PLANE[::-1] @ [[0.5, -1.0], [0.3, 0.8]], np.cos(3.0 * PLANE)])


def holed(X: np.ndarray, *holes: tuple[int, int]) -> np.ndarray:
    out = X.copy()
    for hole in holes:
        out[hole] = NAN
    return out


def mixed(X: np.ndarray, bits: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return np.column_stack([X[:, 0], bits[:, 0], X[:, 1], codes[:, 0]])


GAUSS_1 = Gaussian(mean=0.2, kappa=0.3, dof=2.5, scale=0.9)
GAUSS_2 = Gaussian(mean=[0.1, -0.1], kappa=0.4, dof=4.0, scale=[[1.1, 0.3], [0.3, 0.8]])
DIAGONAL = DiagonalGaussian(mean=[0.1, -0.1], kappa=0.3, shape=1.6, scale=[0.7, 0.5])
BERNOULLI = Bernoulli(yes=[0.8, 0.6, 1.0, 0.5], no=[0.7, 0.9, 0.5, 0.6])
CATEGORICAL = Categorical(concentration=1.5, levels=[3, 4])
POISSON = Poisson(shape=[0.8, 1.3], mean=[2.0, 3.0])
MULTINOMIAL = Multinomial(concentration=1.6, centre=[0.3, 0.2, 0.3, 0.2])
MIXED = Product((GAUSS_2, [0, 2]), (Categorical(levels=3), [3]), (Bernoulli(yes=0.8, no=0.7), [1]))

# name: (rows, likelihood). Four are crossed with everything; the others with a few ways to run.
CASES: dict[str, tuple[Any, Any]] = {
    "gaussian-1": (LINE, GAUSS_1),
    "gaussian-2": (PLANE, GAUSS_2),
    "bernoulli": (BITS, BERNOULLI),
    "mixed": (mixed(PLANE, BITS, CODES), MIXED),
    "gaussian-6": (SIX, Gaussian(mean=0.1, kappa=0.4, dof=16.0, scale=9.0)),  # wide: products by BLAS, partial screens
    "twins": (TWINS, Gaussian(mean=0.0, kappa=0.1, dof=3.0, scale=0.3)),
    "diagonal": (PLANE, DIAGONAL),
    "categorical": (CODES, CATEGORICAL),
    "poisson": (COUNTS, POISSON),
    "multinomial": (WORDS, MULTINOMIAL),
    "multinomial-csr": (sparse.csr_matrix(WORDS), MULTINOMIAL),
    "diagonal-holes": (holed(PLANE, (0, 1), (3, 0)), DIAGONAL),
    "bernoulli-holes": (holed(BITS, (0, 0), (1, 2), (4, 3)), BERNOULLI),
    "categorical-holes": (holed(CODES, (0, 1), (3, 0)), CATEGORICAL),
    "poisson-holes": (holed(COUNTS, (1, 1), (3, 0)), POISSON),
    "gaussian-hole": (holed(PLANE, (3, 1)), GAUSS_2),
    "gaussian-holes": (holed(PLANE, (1, 0), (3, 1)), GAUSS_2),
    "gaussian-empty-row": (holed(PLANE, (2, 0), (2, 1)), GAUSS_2),
    "mixed-bit-hole": (mixed(PLANE, holed(BITS, (1, 0)), holed(CODES, (3, 0))), MIXED),
    "mixed-holes": (mixed(holed(PLANE, (3, 1)), holed(BITS, (1, 0)), holed(CODES, (3, 0))), MIXED),
    "sharp": (np.repeat(BITS, 3, axis=1), Bernoulli(0.5, 0.5)),  # far from flat: atoms are hard to leave
    "flat": (np.full((6, 1), NAN), Bernoulli(1.0, 1.0)),
}
CROSSED = ("gaussian-1", "gaussian-2", "bernoulli", "mixed")
OTHERS = tuple(name for name in CASES if name not in CROSSED)


def problem(case: str, measure: str, n: int = 5) -> Problem:
    """The first n rows of a case under a measure."""
    X, likelihood = CASES[case]
    X = X[:n]
    return Problem(f"{case}-{measure}-{n}", X, likelihood.bind(describe(X)), MEASURES[measure])
