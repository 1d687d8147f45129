"""What a command holds out of its data, to be scored with every draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unbounded import datasets
from unbounded.family import Command
from unbounded.sources import Source


def load(command: Command, columns: Sequence[str] | None = None) -> Any:
    """The data of a command, or some of their columns; in memory where some of them are held out."""
    X = datasets.load(command.data, columns)
    return in_memory(X, "--holdout") if command.holdout > 0 else X


def in_memory(X: Any, why: str) -> Any:
    """All rows; of one file, as of any other that is read as a whole, but not of pieces."""
    if isinstance(X, Source) and len(X.pieces) > 1:
        raise ValueError(f"{why} would read all pieces into memory; in Python, fit(source, holdout=rows) does not.")
    return X[:] if isinstance(X, Source) else X


def split(X: Any, share: float, seed: int) -> tuple[Any, Any]:
    """Rows to fit and rows to score."""
    n_out = int(checked_share(share) * X.shape[0])
    if n_out == 0:
        return X, None
    order = np.random.default_rng(seed).permutation(X.shape[0])
    rows = getattr(X, "iloc", X)
    return rows[np.sort(order[n_out:])], rows[np.sort(order[:n_out])]  # mutant: held out


def checked_share(share: float) -> float:
    if not 0 <= share < 1:
        raise ValueError(f"--holdout must be in [0, 1), got {share}.")
    return share
