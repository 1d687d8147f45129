"""Generators and loaders."""

from __future__ import annotations

import csv
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from unbounded import sources
from unbounded.arrays import Array
from unbounded.sources.files import is_local
from unbounded.sources.formats import check_numeric, csv_header, read_csr

_ROWS = 16_384


class GaussianMixtureData(NamedTuple):
    """Rows, their true clusters, and the mixture they came from."""

    X: Array
    labels: Array
    weights: Array
    means: Array
    factors: Array  # covariance_k = factor_k factor_k'

    def log_density(self, X: Array) -> Array:
        """Log density of rows under the true mixture: the best possible score."""
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

    separation: standard deviation of the centres over the typical standard deviation of a cluster, for 2 columns; in
    more columns centres are brought closer, so that clusters stay about as hard to tell apart.
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
    """Superposed images with noise, and what they were made of."""

    X: Array
    Z: Array  # [n, K] which features a row has
    features: Array  # [K, D]
    noise: float
    probability: float

    def log_density(self, X: Array) -> Array:
        """Log density of rows under the true model, summed over all subsets of features: the best possible score."""
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
    """Four glyphs, one in each quarter of a 6 x 6 image: a plus, a ring, a triangle and a T."""
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
    features: Any = None,
    seed: int = 0,
    probability: float = 0.5,
    out: str | Path | None = None,
) -> CambridgeData:
    """Rows that superpose features at random, each with the given probability, under Gaussian noise.

    features: [K, D], default the four glyphs of `cambridge_features`. Rows are made block by block: nothing as large as
    the data is needed beside them. out: a .npy file to write them to; X is then memory-mapped.
    """
    features = cambridge_features() if features is None else np.asarray(features, dtype=float)
    k, d = features.shape
    X: Any = np.empty((n_rows, d))
    if out is not None:
        X = np.lib.format.open_memmap(out, "w+", np.float64, (n_rows, d))
    Z = np.empty((n_rows, k), np.uint8)
    rng = np.random.default_rng(seed)
    for start in range(0, n_rows, _ROWS):
        block = slice(start, min(start + _ROWS, n_rows))
        Z[block] = rng.random((block.stop - start, k)) < probability
        X[block] = rng.standard_normal((block.stop - start, d))
        X[block] *= noise
        X[block] += Z[block] @ features
    return CambridgeData(X, Z, features, noise, probability)


class TopicsData(NamedTuple):
    """Documents as counts of words, and what they were made of."""

    X: Any  # CSR [documents, words]
    topics: Array  # [K, words]
    weights: Array  # [K], of the topics over all documents
    concentration: float  # of a document's topics around those weights
    words: Array  # of every token, document after document
    labels: Array  # the topic of every token


def topics(
    n_documents: int = 20_000,
    n_tokens: int = 100,
    n_words: int = 2_000,
    n_topics: int = 30,
    eta: float = 0.05,
    concentration: float = 1.0,
    seed: int = 0,
) -> TopicsData:
    """Documents of equal length whose topics are Dirichlet(eta) draws, their weights Dirichlet(1, ..., 1)."""
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


def load(path: str | Path) -> Any:
    """Rows from .csv, .parquet or a CSR .npz; a .npy, a folder of pieces, .zarr or a URL opens as a source, unread."""
    if Path(path).is_dir() or Path(path).suffix == ".npy" or not is_local(str(path)):
        return sources.open(path)
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist.")
    readers = {".csv": _load_frame, ".parquet": _load_frame, ".npz": _load_csr}
    if path.suffix not in readers:
        raise ValueError(f"{path} has an unknown ending; use one of .npy, {', '.join(sorted(readers))}.")
    return readers[path.suffix](path)


def _load_frame(path: Path) -> Any:
    import pandas as pd

    try:
        frame = _read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8; convert it (iconv -t utf-8).") from None
    except _Ragged as error:
        raise ValueError(f"{path} {error}") from None
    except ImportError:
        raise ValueError('reading .parquet needs pyarrow: pip install "unbounded[parquet]".') from None
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a table: {error}.") from error
    check_numeric(frame, path)
    return frame


class _Ragged(Exception):
    """Lines of a table that are not of one length."""


def _read_csv(path: Path) -> Any:
    """A line that is too long is an error of pandas; one that is too short would be missing values."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, header=csv_header(path))
    except pd.errors.ParserError as error:
        _check_lengths(path)
        raise ValueError(str(error)) from None
    if len(frame.columns) and frame.iloc[:, -1].isna().any():
        _check_lengths(path)
    return frame


def _check_lengths(path: Path) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        width = len(next(lines, []))
        for line in lines:
            if line and len(line) != width:
                raise _Ragged(f"has {len(line)} values in line {lines.line_num} and {width} in the first; mend it.")


def _load_csr(path: Path) -> Any:
    try:
        return read_csr(path)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise ValueError(f"{path} is not a whole .npz file: it is damaged, or was cut short; make it again.") from None
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{path} is not a CSR matrix as scipy.sparse.save_npz writes it: {error}.") from error
