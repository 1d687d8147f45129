"""The paper's data where --data has them; generated ones where they can stand in, and then figures say so."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.common import Request
from unbounded.arrays import Array
from unbounded.datasets import cambridge, gaussian_mixture

SIDE = 19  # pixels of a face


class Split(NamedTuple):
    train: Array
    test: Array
    notes: list[str]


def _file(request: Request, path: str, what: str) -> Path | None:
    """The file under --data; None where a quick run may do without it."""
    if request.data is None:
        if request.quick:
            return None
        raise ValueError(f"{what} are missing: give their folder by --data FOLDER, which must hold {path}.")
    if not (request.data / path).exists():
        raise ValueError(f"{what} are missing: {request.data / path} does not exist.")
    return request.data / path


def cifar(request: Request, n_train: int, n_test: int, dimension: int) -> Split:
    """Principal components of CIFAR-100 images; in a quick run without data, rows of a Gaussian mixture."""
    train = _file(request, "cifar100/train_pca64.npy", "the principal components of CIFAR-100")
    if train is None:
        X = gaussian_mixture(n_train + n_test, dimension, 20, separation=3.0, seed=0).X
        return Split(X[:n_train], X[n_train:], ["STAND-IN for CIFAR-100: a generated Gaussian mixture"])
    parts = [np.load(file, mmap_mode="r") for file in (train, train.with_name("test_pca64.npy"))]
    rows = [np.ascontiguousarray(X[:n, :dimension], float) for X, n in zip(parts, (n_train, n_test), strict=True)]
    return Split(rows[0], rows[1], [f"CIFAR-100, {len(rows[0]):,} training and {len(rows[1]):,} test images"])


def cambridge_rows(request: Request, n: int) -> tuple[Array, list[str]]:
    """The authors' images, or generated ones."""
    if request.data is None:
        return cambridge(n, noise=0.5, seed=0).X, [f"{n:,} generated Cambridge images, noise 0.5"]
    path = _file(request, "cambridge/cambridge_10k.npy", "the Cambridge images")
    return np.load(path)[:n].astype(float), [f"the authors' first {n:,} Cambridge images"]  # type: ignore[arg-type]


def faces(request: Request, n: int) -> tuple[Array, list[str]]:
    """Grey levels in [0, 1], in an order that mixes people; in a quick run without data, random parts of an image."""
    path = _file(request, "cbcl_faces/cbcl_faces_2429x19x19_uint8.npy", "the CBCL faces")
    rng = np.random.default_rng(0)
    if path is None:
        parts = rng.random((12, 1, SIDE)) * rng.random((12, SIDE, 1))
        X = cambridge(n, 0.05, parts.reshape(12, -1) * 0.4, seed=0, probability=0.3).X
        return X, ["STAND-IN for CBCL faces: generated images"]
    X = np.load(path).reshape(-1, SIDE * SIDE) / 255.0
    return X[rng.permutation(len(X))[:n]], [f"{min(n, len(X)):,} CBCL faces"]
