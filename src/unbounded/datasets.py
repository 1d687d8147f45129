"""Generators and loaders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from unbounded.likelihoods.base import Array


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


def load(path: str | Path) -> Any:
    """Rows from .npy (memory-mapped), .csv, .parquet or a CSR .npz."""
    path = Path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist.")
    readers = {".npy": _load_npy, ".csv": _load_frame, ".parquet": _load_frame, ".npz": _load_csr}
    if path.suffix not in readers:
        raise ValueError(f"{path} has an unknown ending; use one of {', '.join(sorted(readers))}.")
    return readers[path.suffix](path)


def _load_npy(path: Path) -> Array:
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ValueError(f"{path} is not a readable .npy array: {error}.") from error
    return array


def _load_frame(path: Path) -> Any:
    import pandas as pd

    try:
        frame = _read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except ImportError:
        raise ValueError('reading .parquet needs pyarrow: pip install "unbounded[parquet]".') from None
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a table: {error}.") from error
    words = [str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name])]
    if words:
        raise ValueError(f"{path}: column {words[0]!r} is not numeric; encode or drop it.")
    return frame


def _read_csv(path: Path) -> Any:
    """A first line of numbers is a row, not a header."""
    import pandas as pd

    first = pd.read_csv(path, header=None, nrows=1)
    bare = all(pd.api.types.is_numeric_dtype(kind) for kind in first.dtypes)
    return pd.read_csv(path, header=None if bare else "infer")


def _load_csr(path: Path) -> Any:
    try:
        with np.load(path, allow_pickle=False) as file:
            layout = file["format"].item() if "format" in file else b"csr"
            if layout != b"csr":
                raise ValueError(f"its format is {layout.decode()}")
            parts = [file[name] for name in ("data", "indices", "indptr")]
            return sparse.csr_matrix(tuple(parts), shape=(int(file["shape"][0]), int(file["shape"][1])))
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"{path} is not a CSR matrix as scipy.sparse.save_npz writes it: {error}.") from error
