"""Data made by a known model, of any size: to try things out, to measure, and to compare with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import logsumexp

from unbounded.arrays import Array

_ROWS = 16_384


class GaussianMixtureData(NamedTuple):
    """Rows, their true clusters, and the mixture they came from.

    Attributes
    ----------
    X : array of shape (n_rows, n_columns)
        The rows.
    labels : array of shape (n_rows,)
        The cluster of each row.
    weights : array of shape (n_clusters,)
        Of the clusters.
    means : array of shape (n_clusters, n_columns)
        Their centres.
    factors : array of shape (n_clusters, n_columns, n_columns)
        Of their covariances: covariance_k = factor_k factor_k'.
    """

    X: Array
    labels: Array
    weights: Array
    means: Array
    factors: Array

    def log_density(self, X: Array) -> Array:
        """Log density of rows under the true mixture: the best possible score.

        Examples
        --------
        >>> from unbounded.datasets import gaussian_mixture
        >>> made = gaussian_mixture(500, seed=0)
        >>> made.log_density(made.X[:3]).shape
        (3,)
        """
        logs = []
        for weight, mean, factor in zip(self.weights, self.means, self.factors, strict=True):
            white = np.linalg.solve(factor, (X - mean).T)
            log_det = np.log(np.diag(factor)).sum()
            logs.append(np.log(weight) - 0.5 * (white**2).sum(0) - log_det - 0.5 * X.shape[1] * np.log(2 * np.pi))
        value: Array = logsumexp(logs, axis=0)
        return value


def gaussian_mixture(
    n_rows: int = 100_000, n_columns: int = 2, n_clusters: int = 20, separation: float = 8.0, seed: int = 0
) -> GaussianMixtureData:
    """A Gaussian mixture with full covariances.

    Parameters
    ----------
    n_rows : int, default 100000
        Rows.
    n_columns : int, default 2
        Columns.
    n_clusters : int, default 20
        Clusters, of unequal weight.
    separation : float, default 8.0
        Standard deviation of the centres over the typical standard deviation of a cluster, for 2 columns; in more
        columns centres are brought closer, so that clusters stay about as hard to tell apart.
    seed : int, default 0
        Of all random numbers.

    Examples
    --------
    >>> from unbounded.datasets import gaussian_mixture
    >>> made = gaussian_mixture(500, n_columns=3, n_clusters=4, seed=0)
    >>> made.X.shape, made.means.shape
    ((500, 3), (4, 3))
    """
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(n_clusters, 5.0))
    means = rng.normal(size=(n_clusters, n_columns)) * separation * (2.0 / n_columns) ** 0.5
    factors = np.empty((n_clusters, n_columns, n_columns))
    for k in range(n_clusters):
        basis, _ = np.linalg.qr(rng.normal(size=(n_columns, n_columns)))
        spectrum = np.exp(rng.uniform(-1.0, 0.5, size=n_columns))
        factors[k] = np.linalg.cholesky((basis * spectrum) @ basis.T)
    labels = rng.choice(n_clusters, size=n_rows, p=weights)
    X = rng.normal(size=(n_rows, n_columns))
    for k in range(n_clusters):
        rows = labels == k
        X[rows] = means[k] + X[rows] @ factors[k].T
    return GaussianMixtureData(X, labels, weights, means, factors)


class CambridgeData(NamedTuple):
    """Superposed images with noise, and what they were made of.

    Attributes
    ----------
    X : array of shape (n_rows, n_columns)
        The rows.
    Z : array of shape (n_rows, n_features)
        Which features a row has.
    features : array of shape (n_features, n_columns)
        What a feature adds to a row.
    noise : float
        Standard deviation of the noise.
    probability : float
        Of a feature in a row.
    """

    X: Array
    Z: Array
    features: Array
    noise: float
    probability: float

    def log_density(self, X: Array) -> Array:
        """Log density of rows under the true model, summed over all subsets of features: the best possible score.

        Examples
        --------
        >>> from unbounded.datasets import cambridge
        >>> made = cambridge(500, seed=0)
        >>> made.log_density(made.X[:3]).shape
        (3,)
        """
        k, d = self.features.shape
        subsets = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
        weights = subsets @ np.full(k, np.log(self.probability)) + (1 - subsets) @ np.full(
            k, np.log1p(-self.probability)
        )
        means = subsets @ self.features
        out = np.empty(len(X))
        for start in range(0, len(X), _ROWS):
            x = X[start : start + _ROWS]
            square = (x**2).sum(1)[:, None] - 2.0 * x @ means.T + (means**2).sum(1)
            out[start : start + _ROWS] = logsumexp(weights - 0.5 * square / self.noise**2, axis=1)
        out -= 0.5 * d * np.log(2.0 * np.pi * self.noise**2)
        return out


def cambridge_features() -> Array:
    """Four glyphs, one in each quarter of a 6 x 6 image: a plus, a ring, a triangle and a T.

    Examples
    --------
    >>> from unbounded.datasets import cambridge_features
    >>> cambridge_features()[0].reshape(6, 6)[:3, :3].astype(int).tolist()  # a plus
    [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
    """
    glyphs = [".#. ### .#.", "### #.# ###", "#.. ##. ###", "### .#. .#."]
    out = np.zeros((4, 6, 6))
    for k, glyph in enumerate(glyphs):
        pixels = np.array([[p == "#" for p in line] for line in glyph.split()], dtype=float)
        row, column = 3 * (k // 2), 3 * (k % 2)
        out[k, row : row + 3, column : column + 3] = pixels
    return out.reshape(4, 36)


def cambridge(
    n_rows: int = 10_000,
    noise: float = 0.5,
    features: ArrayLike | None = None,
    seed: int = 0,
    probability: float = 0.5,
    out: str | Path | None = None,
) -> CambridgeData:
    """Rows that superpose features at random, each with the given probability, under Gaussian noise.

    Rows are made block by block: nothing as large as the data is needed beside them.

    Parameters
    ----------
    n_rows : int, default 10000
        Rows.
    noise : float, default 0.5
        Standard deviation of the noise.
    features : array of shape (n_features, n_columns) or None, default None
        None: the four glyphs of `cambridge_features`.
    seed : int, default 0
        Of all random numbers.
    probability : float, default 0.5
        Of a feature in a row.
    out : path or None, default None
        A .npy file to write the rows to; X is then memory-mapped.

    Examples
    --------
    >>> from unbounded.datasets import cambridge
    >>> made = cambridge(500, noise=0.25, seed=0)
    >>> made.X.shape, made.Z.shape
    ((500, 36), (500, 4))
    """
    atoms = cambridge_features() if features is None else np.asarray(features, dtype=float)
    k, d = atoms.shape
    X: Array = np.empty((n_rows, d))
    if out is not None:
        X = np.lib.format.open_memmap(out, "w+", np.float64, (n_rows, d))
    Z = np.empty((n_rows, k), np.uint8)
    rng = np.random.default_rng(seed)
    for start in range(0, n_rows, _ROWS):
        block = slice(start, min(start + _ROWS, n_rows))
        Z[block] = rng.random((block.stop - start, k)) < probability
        X[block] = rng.standard_normal((block.stop - start, d))
        X[block] *= noise
        X[block] += Z[block] @ atoms
    return CambridgeData(X, Z, atoms, noise, probability)


class TopicsData(NamedTuple):
    """Documents as counts of words, and what they were made of.

    Attributes
    ----------
    X : CSR matrix of shape (n_documents, n_words)
        Counts of words.
    topics : array of shape (n_topics, n_words)
        Distributions over words.
    weights : array of shape (n_topics,)
        Of the topics over all documents.
    concentration : float
        Of a document's topics around those weights.
    words : array of shape (n_documents * n_tokens,)
        The word of every token, document after document.
    labels : array of shape (n_documents * n_tokens,)
        The topic of every token.
    """

    X: sparse.csr_matrix
    topics: Array
    weights: Array
    concentration: float
    words: Array
    labels: Array


def topics(
    n_documents: int = 20_000,
    n_tokens: int = 100,
    n_words: int = 2_000,
    n_topics: int = 30,
    eta: float = 0.05,
    concentration: float = 1.0,
    seed: int = 0,
) -> TopicsData:
    """Documents of equal length whose topics are Dirichlet(eta) draws, their weights Dirichlet(1, ..., 1).

    Parameters
    ----------
    n_documents : int, default 20000
        Documents.
    n_tokens : int, default 100
        Words of each document.
    n_words : int, default 2000
        Words of the vocabulary.
    n_topics : int, default 30
        Topics.
    eta : float, default 0.05
        How many of the words a topic uses; small: few.
    concentration : float, default 1.0
        How many of the topics a document uses; small: few.
    seed : int, default 0
        Of all random numbers.

    Examples
    --------
    >>> from unbounded.datasets import topics
    >>> made = topics(50, n_tokens=30, n_words=200, n_topics=5, seed=0)
    >>> made.X.shape, int(made.X.sum())
    ((50, 200), 1500)
    """
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(n_words, eta), n_topics)
    weights = rng.dirichlet(np.ones(n_topics))
    mass = rng.standard_gamma(np.broadcast_to(concentration * weights, (n_documents, n_topics))) + 1e-300
    edges = np.cumsum(mass / mass.sum(1, keepdims=True), axis=1)
    labels = (rng.random((n_documents, n_tokens))[:, :, None] > edges[:, None, :-1]).sum(2).ravel()
    words = np.empty(n_documents * n_tokens, np.int32)
    u = rng.random(len(words))
    for k in range(n_topics):
        where = labels == k
        words[where] = np.minimum(np.searchsorted(np.cumsum(phi[k]), u[where]), n_words - 1)
    document = np.repeat(np.arange(n_documents), n_tokens)
    X = sparse.coo_matrix((np.ones(len(words), np.int32), (document, words)), shape=(n_documents, n_words)).tocsr()
    return TopicsData(X, phi, weights, concentration, words, labels)
