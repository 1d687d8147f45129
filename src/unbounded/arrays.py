"""The array types that everything else speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Mapping[str, Array]

MOST_COLUMNS = 2**24  # some numbers are kept for each column, whatever is in it
ENTRIES = ("Z", "bits", "shape")  # names under which matrices of small integers are stored


def is_csr(X: Any) -> bool:
    return hasattr(X, "indptr")


def checked_csr(X: Any) -> Any:
    """The CSR matrix, after a check that its indices are within it: compiled code would read or write beyond it."""
    if X.shape[1] > MOST_COLUMNS:
        raise ValueError(f"the sparse matrix has {X.shape[1]:,} columns; there may be {MOST_COLUMNS:,} at most.")
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"the sparse matrix is damaged: {str(error).rstrip('.')}.") from error
    return X


def is_sparse(X: Any) -> bool:
    """Whether rows are sparse: CSR in memory, or a source of such rows."""
    return is_csr(X) or getattr(X, "sparse", False) is True


def block_rows(n_columns: int, sparse: bool = False) -> int:
    """The number of rows to process at a time: fewer of wide ones, so that a block has at most 32 MB."""
    return 8192 if sparse else max(1, min(65536, 2**22 // max(1, n_columns)))


def packed_entries(Z: Array) -> dict[str, Array]:
    """A matrix of small integers as it is stored: zeros and ones as bits, others in as few bytes as they need."""
    largest = int(Z.max(initial=0))
    if largest <= 1 and Z.dtype == np.uint8:
        return {"bits": np.packbits(Z), "shape": np.array(Z.shape)}
    return {"Z": Z.astype(np.uint8 if largest < 256 else np.int32)}


def unpacked_entries(arrays: Arrays) -> Array:
    """The matrix that was packed into these arrays, by this version or an older one."""
    if "Z" in arrays:
        return arrays["Z"]
    rows, columns = arrays["shape"].tolist()
    return np.unpackbits(arrays["bits"], count=rows * columns).reshape(rows, columns)
