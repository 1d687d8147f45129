"""The array types that everything else speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
Arrays = Mapping[str, Array]


def is_csr(X: Any) -> bool:
    return hasattr(X, "indptr")
