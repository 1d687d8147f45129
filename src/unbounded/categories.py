"""Columns of strings as columns of codes; categories of pandas, and whatever else is not a number, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from unbounded.arrays import Array

Categories = dict[int, Array]  # by column: its categories, in the order of their codes

TIMES = "dates or times"
_TIMES = "mM"  # kinds of dtypes
_NO_NUMBERS = (str, bytes, date, time, timedelta, np.datetime64, np.timedelta64)


def columns_of_strings(X: Any) -> list[int]:
    """The columns that hold anything but numbers; of arrays, only those of strings or objects can."""
    if hasattr(X, "dtypes") and hasattr(X, "columns"):
        return [j for j, kind in enumerate(X.dtypes) if not _is_number(kind)]
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "OUSmM":
        return []
    if X.dtype.kind in _TIMES:
        return list(range(X.shape[1]))
    return [j for j in range(X.shape[1]) if any(isinstance(value, _NO_NUMBERS) for value in X[:, j].tolist())]


def check_names(X: Any) -> None:
    """Refuse a table whose columns have names of which only some are strings."""
    kinds = {type(name) for name in getattr(X, "columns", ())}
    if len(kinds) > 1 and any(issubclass(kind, str) for kind in kinds):
        told = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"the columns have names of several types ({told}); X.columns.astype(str) makes them strings.")


def what_it_holds(column: Any) -> str:
    """Of a column that is not of numbers: what it is of."""
    if getattr(column.dtype, "kind", "") in _TIMES:
        return TIMES
    values = np.asarray(column, dtype=object).tolist()
    first = next((value for value in values if isinstance(value, _NO_NUMBERS)), values[0])
    if hasattr(column.dtype, "categories") or isinstance(first, str | bytes):
        return "words"
    return TIMES if isinstance(first, _NO_NUMBERS) else f"values of the type {type(first).__name__}"


def _is_number(kind: Any) -> bool:
    if not isinstance(kind, np.dtype):  # an extension of pandas
        return bool(getattr(kind, "_is_numeric", False) or getattr(kind, "_is_boolean", False))
    return kind.kind in "fiubc"


def encoded(X: Any, columns: Collection[int], known: Mapping[int, Array] | None = None) -> tuple[Any, Categories]:
    """The table with these columns as codes 0, 1, 2, ..., and what the codes stand for; a missing value is NaN.

    Categories are those that occur: in the order that pandas has for them, or else sorted. known: those of a fit, which
    are all that new rows may have.
    """
    frame = hasattr(X, "columns")
    out: Any = X.copy() if frame else np.array(X, dtype=object)
    categories: Categories = {}
    for j in columns:
        name = repr(X.columns[j]) if frame else str(j)
        values = X.iloc[:, j] if frame else X[:, j]
        categories[j], codes = _codes(values, None if known is None else known.get(j), name)
        if frame:
            out = out.drop(columns=X.columns[j])
            out.insert(j, X.columns[j], codes)
        else:
            out[:, j] = codes
    return (out if frame else out.astype(float)), categories


def decoded(rows: Array, categories: Mapping[int, Array], names: Sequence[str] | None) -> Any:
    """The same rows with categories for codes: a data frame where the columns have names, else an array of objects."""
    if not categories:
        return rows
    if names is None:
        out = rows.astype(object)
        for j, known in categories.items():
            out[:, j] = _with_others(known, rows[:, j])[rows[:, j].astype(int)]
        return out
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(names))
    for j, known in categories.items():
        levels = _with_others(known, rows[:, j]).tolist()
        frame.isetitem(j, pd.Categorical.from_codes(rows[:, j].astype(int), categories=levels))
    return frame


def _with_others(known: Array, codes: Array) -> Array:
    """Levels that a likelihood has and no row of the fit had are called by their codes."""
    return np.append(known, np.arange(len(known), int(codes.max(initial=-1)) + 1).astype(object))


def _codes(values: Any, known: Array | None, name: str) -> tuple[Array, Array]:
    import pandas as pd

    missing = np.asarray(pd.isna(values))
    there = np.asarray(values, dtype=object)[~missing]
    order = getattr(getattr(values, "dtype", None), "categories", None)
    found = list(dict.fromkeys(there.tolist()))
    if known is None:
        if order is not None:
            found = [category for category in order.tolist() if category in set(found)]
        else:
            try:
                found = sorted(found)
            except TypeError:
                kinds = sorted({type(value).__name__ for value in found})
                raise ValueError(f"column {name} mixes values of the types {' and '.join(kinds)}; use one.") from None
        known = np.array(found, dtype=object)
    place = {category: code for code, category in enumerate(known.tolist())}
    new = [value for value in found if value not in place]
    if new:
        raise ValueError(f"column {name} has the category {new[0]!r}, which fit never saw.")
    codes = np.full(len(missing), np.nan)
    codes[~missing] = [place[value] for value in there.tolist()]
    return known, codes
