"""Statistics of atoms as plain arrays, for what is written to disk."""

from __future__ import annotations

from typing import Any

from scipy import sparse

from unbounded.arrays import Array, Arrays


def packed(statistics: Any) -> dict[str, Array]:
    """Plain arrays, also when the statistics are sparse."""
    if not sparse.issparse(statistics):
        return {"statistics": statistics}
    return {name: getattr(statistics, name) for name in ("indptr", "indices", "data")}


def unpacked(arrays: Arrays, n_terms: int) -> Any:
    """The statistics whose arrays these are."""
    if "indptr" not in arrays:
        return arrays["statistics"]
    parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
    return sparse.csr_matrix(parts, (len(arrays["counts"]), n_terms))
