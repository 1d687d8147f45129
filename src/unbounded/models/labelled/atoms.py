"""Atoms of labelled rows: what is known of their rows, and their parameters where they are instantiated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unbounded.arrays import Array
from unbounded.likelihoods.base import Bound, Parameters

FLOAT32_TOLERANCE = 0.02  # nats; above it a round falls back to double precision


class Atoms(NamedTuple):
    """Numbers of rows [K] and statistics [K, F]."""

    counts: Array
    statistics: Array


def draw_parameters(
    likelihood: Bound, counts: Array, statistics: Array, n_extra: int, position: int, rng: np.random.Generator
) -> Parameters:
    """Parameters of atoms given their rows; n_extra ghost-only atoms, from the prior, stand at `position`."""
    counts = np.insert(counts, position, np.zeros(n_extra))
    statistics = np.insert(statistics, position, np.zeros((n_extra, statistics.shape[1])), axis=0)
    return likelihood.draw(counts, statistics, rng)


def finite_part(likelihood: Bound, dtype: str, parameters: Parameters, log_weights: Array) -> Any:
    """Weights and parameters in the form that compiled code takes."""
    safe = dtype == "float32" and likelihood.float32_error(parameters) < FLOAT32_TOLERANCE
    return likelihood.finite(parameters, log_weights, np.float32 if safe else np.float64)
